"""
Five labelled images of each digit: what does knowing the invariances buy?
==========================================================================

Nobody wants to label thousands of images. With a handful per class a classifier that
knows that small shifts, turns and thicker strokes do not matter is ahead of one that
has to learn it from the labels.
"""

import os

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin import TangentDensityClassifier, TangentKNeighborsClassifier
from widemargin.tangents import ImageTangents

QUICK = bool(os.environ.get("WIDEMARGIN_QUICK"))
DRAWS, COUNTS = (2, (2, 5)) if QUICK else (5, (2, 3, 5, 10, 20))
X, y = load_digits(return_X_y=True)
X = X / 16.0
generator = ImageTangents(shape=(8, 8))
models = {
    "1-NN, Euclidean": KNeighborsClassifier(1),
    "SVC, RBF": SVC(C=10),
    "1-NN, tangent distance": TangentKNeighborsClassifier(1, tangents=generator),
    "densities, tangent distance": TangentDensityClassifier(tangents=generator),
}

errors = {name: np.zeros((len(COUNTS), DRAWS)) for name in models}
for draw in range(DRAWS):
    rng = np.random.default_rng(draw)
    order = [rng.permutation(np.flatnonzero(y == digit)) for digit in range(10)]
    for i, count in enumerate(COUNTS):
        labelled = np.concatenate([rows[:count] for rows in order])
        new = np.setdiff1d(np.arange(len(y)), labelled)
        for name, model in models.items():
            model.fit(X[labelled], y[labelled])
            errors[name][i, draw] = np.mean(model.predict(X[new]) != y[new])

print("labels per class:          ", *(f"{count:>7}" for count in COUNTS))
for name, values in errors.items():
    shown = (f"{100 * mean:6.1f}%" for mean in values.mean(axis=1))
    print(f"{name:27}", *shown)

figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
colours = ("#9aa5b1", "#52606d", "#e8833a", "#d64545")
for (name, values), colour in zip(errors.items(), colours, strict=True):
    ax.plot(COUNTS, 100 * values.mean(axis=1), "o-", color=colour, label=name)
ax.set_xscale("log")
ax.set_xticks(COUNTS, [str(count) for count in COUNTS], minor=False)
ax.minorticks_off()
ax.set_xlabel("labelled images per class")
ax.set_ylabel("error on the other images, %")
ax.set_ylim(bottom=0)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
