"""
Digits with few labels
======================

With one to twenty labels per class, knowing what does not matter is worth many labels
(few-shot learning). `FewShotImageClassifier` makes copies of every labelled image,
compares edges as well as pixels, and lets pixels move a little.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin import FewShotImageClassifier, TangentDensityClassifier
from widemargin.tangents import ImageTangents

DRAWS, COUNTS = 3, (1, 2, 5, 10, 20)
X, y = load_digits(return_X_y=True)
X = X / 16.0
generator = ImageTangents(shape=(8, 8))
models = {
    "1-NN, Euclidean": KNeighborsClassifier(1),
    "SVC, RBF": SVC(C=10),
    "densities, tangent distance": TangentDensityClassifier(tangents=generator),
    "FewShotImageClassifier": FewShotImageClassifier(),
}

# %%
# Repeated draws
# --------------
# Each draw labels a few images of each digit. A thousand others are the test set.

errors = {name: np.zeros((len(COUNTS), DRAWS)) for name in models}
for draw in range(DRAWS):
    rng = np.random.default_rng(draw)
    order = [rng.permutation(np.flatnonzero(y == digit)) for digit in range(10)]
    for i, count in enumerate(COUNTS):
        labelled = np.concatenate([rows[:count] for rows in order])
        new = rng.permutation(np.setdiff1d(np.arange(len(y)), labelled))[:1000]
        for name, model in models.items():
            model.fit(X[labelled], y[labelled])
            errors[name][i, draw] = np.mean(model.predict(X[new]) != y[new])

print("labels per class:          ", *(f"{count:>7}" for count in COUNTS))
for name, values in errors.items():
    shown = (f"{100 * mean:6.1f}%" for mean in values.mean(axis=1))
    print(f"{name:27}", *shown)

# %%
# The error against the number of labels
# --------------------------------------

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
