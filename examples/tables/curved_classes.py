"""
Prototypes for curved classes
=============================

Two moons. One prototype per class separates them by a line. Ten per class follow the
curve. So do two in the space of a kernel, each a mixture of samples.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_moons

from widemargin import GLVQClassifier, KernelLVQClassifier

X, y = make_moons(400, noise=0.12, random_state=0)
X_new, y_new = make_moons(2000, noise=0.12, random_state=1)
# %%
# Three models
# ------------

models = {
    "GLVQ, 1 per class": GLVQClassifier(1, random_state=0),
    "GLVQ, 10 per class": GLVQClassifier(10, random_state=0),
    "kernel LVQ, 2 per class": KernelLVQClassifier(2, gamma=4.0, random_state=0),
}
# %%
# Their margins
# -------------
# The margin is white near the border, where the model is unsure.

x_axis, y_axis = np.linspace(-1.6, 2.6, 140), np.linspace(-1.1, 1.6, 90)
grid = np.stack(np.meshgrid(x_axis, y_axis), axis=-1).reshape(-1, 2)

figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.4), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X, y)
    wrong = np.mean(model.predict(X_new) != y_new)
    print(f"{name:24} {wrong:6.1%} of new points wrong")
    margin = model.decision_function(grid).reshape(len(y_axis), len(x_axis))
    limit = np.abs(margin).max()
    ax.contourf(
        x_axis, y_axis, margin, 20, cmap="RdBu_r", vmin=-limit, vmax=limit, alpha=0.75
    )
    ax.contour(x_axis, y_axis, margin, [0], colors="#1f2933", linewidths=1.2)
    for label, colour in ((0, "#1f4e79"), (1, "#a33030")):
        ax.plot(*X[y == label].T, ".", color=colour, markersize=3)
    # Those in the space of a kernel are no points of the plane.
    if not isinstance(model, KernelLVQClassifier):
        ax.plot(*model.prototypes_.T, "o", color="white", markeredgecolor="black")
    ax.set_title(f"{name}: {wrong:.1%} wrong", fontsize=11)
    ax.set(xticks=[], yticks=[])
plt.show()
