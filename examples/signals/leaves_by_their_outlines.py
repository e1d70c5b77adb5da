"""
Leaves by their outlines, measured
==================================

Leaves of six species were photographed, and their outlines became signals: how far the
edge is from the centre, angle by angle (OSULeaf of the UCR archive). Any angle can come
first, so curves that are compared value by value say little. SignalClassifier asks how
often small shapes occur, wherever they are. `load_ucr` fetches the data once.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin import SignalClassifier, TangentKNeighborsClassifier
from widemargin.datasets import load_ucr
from widemargin.inspection import ErrorRejectDisplay
from widemargin.tangents import SignalTangents, signal_shifts

X, y = load_ucr("OSULeaf", subset="train", return_X_y=True)
X_new, y_new = load_ucr("OSULeaf", subset="test", return_X_y=True)
print(f"{len(X)} leaves to learn from, {len(X_new)} new ones, {X.shape[1]} angles")

# %%
# Two leaves of each species
# --------------------------
# Outlines drawn from the signals; they have no size of their own any more.

angles = np.linspace(0, 2 * np.pi, X.shape[1])
figure, axes = plt.subplots(
    2, 6, figsize=(9, 3.4), subplot_kw={"projection": "polar"}, layout="constrained"
)
for species, column in enumerate(axes.T):
    for ax, leaf in zip(column, X[y == species][:2], strict=True):
        ax.fill(angles, 4 + leaf, color="#7a9e3b", alpha=0.8)
        ax.set(xticks=[], yticks=[], ylim=(0, 8))
        ax.spines["polar"].set_visible(False)
    column[0].set_title(f"species {species + 1}", fontsize=10)
plt.show()

# %%
# Four classifiers
# ----------------
# The archive's own split. A tangent neighbour may turn a leaf by shifts that go around.

turned = signal_shifts(X.shape[1], reach=0.5, n_shifts=30, cyclic=True)
models = {
    "1-NN": KNeighborsClassifier(1),
    "SVC": SVC(C=10),
    "tangent 1-NN,\nturned": TangentKNeighborsClassifier(
        tangents=SignalTangents(["shift"]), spring=0.1, transformations=turned
    ),
    "SignalClassifier": SignalClassifier(),
}
errors = {}
for name, model in models.items():
    errors[name] = 100 * np.mean(model.fit(X, y).predict(X_new) != y_new)
    print(f"{name.replace(chr(10), ' '):22} {errors[name]:5.1f} % wrong")

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
colours = ["#9aa5b1", "#9aa5b1", "#1f5f8b", "#d64545"]
bars = ax.bar(list(errors), list(errors.values()), color=colours)
ax.bar_label(bars, fmt="%.1f", padding=2)
ax.set_ylabel("error, %")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# How sure it is
# --------------
# The leaves that it is least sure of are left to a person.

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ErrorRejectDisplay.from_estimator(
    models["SignalClassifier"], X_new, y_new, ax=ax, name="SignalClassifier"
)
plt.show()
