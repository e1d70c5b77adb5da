"""
A classifier in a few kilobytes, for a device without floating point to spare
=============================================================================

Prototype models keep a few vectors per class: GLVQ points, TVQ a centroid with
tangents. Stored in single bytes they fit the flash of a small microcontroller, and a
prediction is a few hundred inner products. Which is smaller for the same error, the
picture says.
"""

import os

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin import GLVQClassifier, TVQClassifier

QUICK = bool(os.environ.get("WIDEMARGIN_QUICK"))
TANGENTS = (0, 4) if QUICK else (0, 1, 2, 4, 8, 12)
X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)


def in_bytes(values):
    """Round to 8-bit integers and back, each row with a scale of its own."""
    scale = np.abs(values).max(axis=-1, keepdims=True) / 127
    return np.round(values / np.where(scale > 0, scale, 1)) * scale


def error(model):
    """Share of new digits that are wrong."""
    return 100 * np.mean(model.predict(X_new) != y_new)


points = {"TVQ, in bytes": [], "GLVQ, in bytes": []}
for m in TANGENTS:
    model = TVQClassifier(
        n_tangents=m, theta=0.1 if m == 0 else 0.4, max_iter=60, random_state=0
    ).fit(X, y)
    whole = error(model)
    model.prototypes_ = in_bytes(model.prototypes_)
    model.tangents_ = in_bytes(model.tangents_)
    size = model.prototypes_.size + model.tangents_.size
    points["TVQ, in bytes"].append((size, error(model)))
    print(
        f"TVQ, {m:2} tangents:   {size:6} bytes, {error(model):4.1f} % wrong "
        f"({whole:.1f} % before rounding)"
    )
for k in TANGENTS[1:]:
    model = GLVQClassifier(prototypes_per_class=k, random_state=0).fit(X, y)
    model.prototypes_ = in_bytes(model.prototypes_)
    points["GLVQ, in bytes"].append((model.prototypes_.size, error(model)))

svc = SVC().fit(X, y)
knn = KNeighborsClassifier(1).fit(X, y)
points["SVC, float32"] = [(4 * svc.support_vectors_.size, error(svc))]
points["1-NN, float32"] = [(4 * X.size, error(knn))]
for name in ("SVC, float32", "1-NN, float32"):
    size, wrong = points[name][0]
    print(f"{name}:    {size:9} bytes, {wrong:4.1f} % wrong")

figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
styles = ("o-", "s-", "D", "X")
colours = ("#d64545", "#e8833a", "#52606d", "#9aa5b1")
for (name, pairs), style, colour in zip(points.items(), styles, colours, strict=True):
    ax.plot(*zip(*pairs, strict=True), style, color=colour, label=name)
ax.set_xscale("log")
ax.set_xlabel("bytes kept")
ax.set_ylabel("error, %")
ax.set_ylim(bottom=0)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
