"""
From margins to probabilities, and what to do with them
=======================================================

A margin orders answers, a probability counts them: of all answers given with 90 %, nine
in ten should be right. scikit-learn's CalibratedClassifierCV makes probabilities of any
margin; densities, prototypes and hyperplanes have their own. The order is enough to
refuse by, and a RejectingClassifier needs no calibration at all.
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
models = {
    "GLVQ, calibrated": CalibratedClassifierCV(
        GLVQClassifier(2, random_state=0), method="isotonic"
    ),
    "tangent densities": TangentDensityClassifier(
        tangents=ImageTangents((8, 8)), random_state=0
    ),
}

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
left.plot([0, 1], [0, 1], ":", color="#9aa5b1")
for (name, model), colour in zip(models.items(), ("#1f5f8b", "#d64545"), strict=True):
    probability = model.fit(X, y).predict_proba(X_new)
    said = probability.max(axis=1)
    answers = model.classes_[probability.argmax(axis=1)]
    right_share, mean_said = calibration_curve(answers == y_new, said, n_bins=8)
    curve = error_reject_curve(y_new, answers, said)
    print(
        f"{name:18} {np.mean(answers != y_new):6.1%} wrong; says {said.mean():.1%} on "
        f"average, is right in {np.mean(answers == y_new):.1%}"
    )
    left.plot(mean_said, right_share, "o-", color=colour, label=name)
    right.plot(
        100 * curve.rejection_rate, 100 * curve.error_rate, color=colour, label=name
    )
left.set(xlabel="probability given to the answer", ylabel="share that is right")
right.set(xlabel="refused, %", ylabel="wrong among the answered, %", xlim=(0, 60))
right.set_ylim(bottom=0)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False)
plt.show()
