"""
A classifier in a few kilobytes
===============================

Prototype models keep a few vectors per class: GLVQ points, TVQ points with tangents.
The exported C header stores them in single bytes. They fit the flash of a small
microcontroller, and a prediction is a few hundred inner products.
"""

import re

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin import GLVQClassifier, TVQClassifier
from widemargin.export import to_c

TANGENTS, PROTOTYPES = (0, 1, 2, 4, 8, 12), (1, 2, 4, 8, 12)
X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)


def error(model):
    """Return the error on new digits, in %."""
    return 100 * np.mean(model.predict(X_new) != y_new)


def table_bytes(model):
    """Return the size of the tables of the model's header, as its first lines say."""
    header = to_c(model, dtype="int8", name="digits")
    return int(re.search(r"tables of (\d+) bytes", header)[1])


# %%
# Models of several sizes
# -----------------------
# The number of prototypes per class is given, so that only one thing changes along a
# line. RAM is the sample and one margin per class. Multiplications take most of the
# time.

points = {"TVQ, 1 per class": [], "GLVQ": []}
for m in TANGENTS:
    model = TVQClassifier(
        1, n_tangents=m, theta=0.1 if m == 0 else 0.4, max_iter=60, random_state=0
    ).fit(X, y)
    points["TVQ, 1 per class"].append((table_bytes(model), error(model)))
    print(
        f"TVQ, {m:2} tangents: {table_bytes(model):6} bytes of flash, "
        f"{4 * (64 + 10):4} of RAM, {10 * 64 * (m + 1):5} multiplications, "
        f"{error(model):4.1f} % wrong"
    )
for k in PROTOTYPES:
    model = GLVQClassifier(k, random_state=0).fit(X, y)
    points["GLVQ"].append((table_bytes(model), error(model)))

# %%
# For comparison
# --------------

svc = SVC().fit(X, y)
knn = KNeighborsClassifier(1).fit(X, y)
points["SVC, float32"] = [(4 * svc.support_vectors_.size, error(svc))]
points["1-NN, float32"] = [(4 * X.size, error(knn))]
for name in ("SVC, float32", "1-NN, float32"):
    size, wrong = points[name][0]
    print(f"{name}: {size:9} bytes, {wrong:4.1f} % wrong")

# %%
# Error against size
# ------------------

figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
styles = ("o-", "s-", "D", "X")
colours = ("#d64545", "#e8833a", "#52606d", "#9aa5b1")
for (name, pairs), style, colour in zip(points.items(), styles, colours, strict=True):
    ax.plot(*zip(*pairs, strict=True), style, color=colour, label=name)
ax.set_xscale("log")
ax.set_xlabel("bytes of tables")
ax.set_ylabel("error, %")
ax.set_ylim(bottom=0)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
