"""
Reading a margin plot
=====================

A small linear model of the digits cannot give every sample a margin of θ. Round by
round, the samples below θ gain weight. Three displays show the margins, the weights and
the errors.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from widemargin.inspection import (
    MarginDistributionDisplay,
    SampleWeightDisplay,
    TrainingCurveDisplay,
)
from widemargin.margins import margin_reweight

ROUNDS, THETA = 20, 0.3
X, y = load_digits(return_X_y=True)
X = PCA(10).fit_transform(X / 16.0)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)

# %%
# Margins of a probability
# ------------------------


def margins(model, X, y):
    """Probability of the right digit less the best of the others."""
    probability = model.predict_proba(X)
    right = probability[range(len(y)), y].copy()
    probability[range(len(y)), y] = -1
    return right - probability.max(axis=1)


# %%
# Re-weighting, by hand
# ---------------------

weights, learner = X.shape[0] * [1.0], LogisticRegression(C=0.1, max_iter=200)
by_round, models, history = [], [], {"train_error": [], "test_error": []}
for _ in range(ROUNDS):
    models.append(clone(learner).fit(X, y, sample_weight=weights))
    by_round.append(margins(models[-1], X, y))
    history["train_error"].append((by_round[-1] <= 0).mean())
    history["test_error"].append(1 - models[-1].score(X_new, y_new))
    weights = margin_reweight(weights, by_round[-1], THETA, "ratio")
    learner.set_params(C=0.1 * len(y) / weights.sum())

# %%
# What it did
# -----------
# The lowest margins rise, and the median falls. About as many samples as before are
# below θ, but fewer are wrong.

for k in (0, ROUNDS - 1):
    print(
        f"round {k + 1:2}: 1 %-quantile {np.quantile(by_round[k], 0.01):.2f}, "
        f"median {np.median(by_round[k]):.2f}; "
        f"{(by_round[k] < THETA).mean():.1%} below {THETA}; "
        f"wrong: {history['train_error'][k]:.1%}, new: {history['test_error'][k]:.1%}"
    )

# %%
# The margins
# -----------
# Read a curve from the left: it is the share of samples with a smaller margin. At 0 it
# is the training error. Re-weighting pushes the low end right and the high end left.

shown = sorted({0, min(2, ROUNDS - 1), ROUNDS - 1})
MarginDistributionDisplay(
    margins={f"round {k + 1}": by_round[k] for k in shown}, theta=THETA
).plot()
plt.show()

# %%
# The weights
# -----------
# The fifth of the samples that stays below θ takes most of the weight.

SampleWeightDisplay.from_margins(by_round, THETA, weight_gain="ratio")
plt.show()

# %%
# The errors
# ----------
# The training error falls in the first rounds. The error of new samples falls little.

TrainingCurveDisplay(histories={"re-weighted": history}).plot()
plt.show()
