"""
How many prototypes?
====================

The k-means centres of every class make a nearest-prototype classifier of any size. The
test error shows when more prototypes stop helping. A generalisation bound is shown
beside it: it holds for every sample size, and says nothing at this one.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import train_test_split

from widemargin.inspection import BoundDisplay, PrototypeDisplay
from widemargin.margins import hypothesis_margin, lvq_margin_bound, nearest_right_wrong

PER_CLASS = (1, 2, 4, 8, 16)
X, y = load_digits(return_X_y=True)
centre = X.mean(axis=0)
scale = np.linalg.norm(X - centre, axis=1).max()
X = (X - centre) / scale
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)

# %%
# Prototypes and their margins
# ----------------------------


def prototypes(k):
    centres = [
        KMeans(k, n_init=3, random_state=0).fit(X[y == label]).cluster_centers_
        for label in range(10)
    ]
    return np.concatenate(centres), np.repeat(np.arange(10), k)


def margins(P, labels, X, y):
    nearest = nearest_right_wrong(euclidean_distances(X, P), labels, y)
    return hypothesis_margin(nearest.d_plus, nearest.d_minus)


# %%
# Errors and bounds
# -----------------

bounds, errors, train_errors = [], [], []
for k in PER_CLASS:
    P, labels = prototypes(k)
    inside = margins(P, labels, X, y)
    bound = lvq_margin_bound(
        inside,
        theta=0.05,
        radius=1.0,
        n_features=X.shape[1],
        prototypes_per_class=k,
        n_classes=10,
        formula="pairwise",
    )
    bounds.append(bound.value)
    train_errors.append(np.mean(inside <= 0))
    errors.append(np.mean(margins(P, labels, X_new, y_new) <= 0))
    print(
        f"{10 * k:4} prototypes: {errors[-1]:5.1%} of new digits wrong; bound "
        f"{bound.value:7.0%}, below 100% from {bound.samples_needed:.0e} samples on"
    )

# %%
# The prototypes
# --------------

figure, ax = plt.subplots(figsize=(4.5, 5.2), layout="constrained")
P, labels = prototypes(PER_CLASS[min(2, len(PER_CLASS) - 1)])
display = PrototypeDisplay(prototypes=scale * P + centre, labels=labels, shape=(8, 8))
display.plot(ax)
plt.show()

# %%
# Error and bound
# ---------------

figure, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
BoundDisplay(
    counts=10 * np.array(PER_CLASS),
    bounds=bounds,
    errors=errors,
    train_errors=train_errors,
).plot(ax)
plt.show()
