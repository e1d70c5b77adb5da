"""
How many prototypes do the data pay for?
========================================

k-means centres of every class make a nearest-prototype classifier of any size. Held-out
samples say when more of them stop to help, and the prototypes can be looked at. The
margin bound is shown next to it for honesty: it holds for every sample size, and at
this one it says nothing.
"""

import os

import numpy as np
from matplotlib import pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import train_test_split

from widemargin.inspection import BoundDisplay, PrototypeDisplay
from widemargin.margins import hypothesis_margin, lvq_margin_bound, nearest_right_wrong

QUICK = bool(os.environ.get("WIDEMARGIN_QUICK"))
PER_CLASS = (1, 2, 4) if QUICK else (1, 2, 4, 8, 16)
X, y = load_digits(return_X_y=True)
centre = X.mean(axis=0)
scale = np.linalg.norm(X - centre, axis=1).max()
X = (X - centre) / scale
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)


def prototypes(k):
    centres = [
        KMeans(k, n_init=3, random_state=0).fit(X[y == label]).cluster_centers_
        for label in range(10)
    ]
    return np.concatenate(centres), np.repeat(np.arange(10), k)


def margins(P, labels, X, y):
    nearest = nearest_right_wrong(euclidean_distances(X, P), labels, y)
    return hypothesis_margin(nearest.d_plus, nearest.d_minus)


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

figure, axes = plt.subplots(
    1, 2, figsize=(11, 5.2), width_ratios=(1, 2.4), layout="constrained"
)
P, labels = prototypes(PER_CLASS[min(2, len(PER_CLASS) - 1)])
PrototypeDisplay(prototypes=scale * P + centre, labels=labels, shape=(8, 8)).plot(
    axes[0]
)
BoundDisplay(
    counts=10 * np.array(PER_CLASS),
    bounds=bounds,
    errors=errors,
    train_errors=train_errors,
).plot(axes[1])
plt.show()
