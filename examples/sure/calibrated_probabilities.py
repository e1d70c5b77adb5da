"""
Margins and probabilities
=========================

A margin orders answers, a probability counts them: of all answers given with 90 %, nine
in ten should be right. CalibratedClassifierCV makes probabilities from any margin.
Densities, prototypes and hyperplanes have their own.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from widemargin import GLVQClassifier, TangentDensityClassifier
from widemargin.margins import error_reject_curve
from widemargin.tangents import ImageTangents

rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
X = X / 16 + rng.normal(0, 0.2, (len(X), 64))
X, X_new, y, y_new = train_test_split(X, y, train_size=600, random_state=0)
# %%
# Two models of noisy digits
# --------------------------

models = {
    "GLVQ, calibrated": CalibratedClassifierCV(
        GLVQClassifier(2, random_state=0), method="isotonic"
    ),
    "tangent densities": TangentDensityClassifier(
        tangents=ImageTangents((8, 8)), random_state=0
    ),
}

# %%
# Calibration curves
# ------------------
# On the diagonal, a probability is the share of right answers.

curves = {}
figure, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
ax.plot([0, 1], [0, 1], ":", color="#9aa5b1")
for (name, model), colour in zip(models.items(), ("#1f5f8b", "#d64545"), strict=True):
    probability = model.fit(X, y).predict_proba(X_new)
    said = probability.max(axis=1)
    answers = model.classes_[probability.argmax(axis=1)]
    right_share, mean_said = calibration_curve(answers == y_new, said, n_bins=8)
    curves[name] = error_reject_curve(y_new, answers, said)
    print(
        f"{name:18} {np.mean(answers != y_new):6.1%} wrong; says {said.mean():.1%} on "
        f"average, is right in {np.mean(answers == y_new):.1%}"
    )
    ax.plot(mean_said, right_share, "o-", color=colour, label=name)
ax.set(xlabel="probability of the answer", ylabel="share of right answers")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# Error-reject curves
# -------------------
# Rejection uses only the order, so it needs no calibration.

figure, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
for name, curve in curves.items():
    ax.plot(100 * curve.rejection_rate, 100 * curve.error_rate, label=name)
for line, colour in zip(ax.lines, ("#1f5f8b", "#d64545"), strict=True):
    line.set_color(colour)
ax.set(xlabel="rejected, %", ylabel="wrong among the answers, %", xlim=(0, 60))
ax.set_ylim(bottom=0)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
