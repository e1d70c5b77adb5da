"""
An SVM that ignores rotation
============================

A plain SVM has only seen upright digits. A kernel of the tangent distance ignores small
rotations without any rotated training images (no data augmentation).
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from widemargin import TangentSVC
from widemargin.tangents import ImageTangents

ANGLES = (0, 5, 10, 15, 20, 25, 30)
X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X / 16.0, y, test_size=0.3, random_state=0)

# %%
# Rotated test images
# -------------------


def turned(images, angle):
    """Turn the images by `angle` degrees."""
    grid = images.reshape(-1, 8, 8)
    return rotate(grid, angle, axes=(2, 1), reshape=False, order=1).reshape(-1, 64)


# %%
# Three machines, trained on upright digits
# -----------------------------------------

generator = ImageTangents(shape=(8, 8))
models = {
    "SVC, RBF": SVC(C=10).fit(X, y),
    "TangentSVC, mean distance": TangentSVC(tangents=generator, sides="mean", C=10),
    "TangentSVC, two-sided": TangentSVC(tangents=generator, sides="both", C=10),
}
errors = {}
print("angle:                    ", *(f"{angle:>6}°" for angle in ANGLES))
for name, model in models.items():
    model.fit(X, y)
    errors[name] = [
        100 * np.mean(model.predict(turned(X_new, angle)) != y_new) for angle in ANGLES
    ]
    print(f"{name:26}", *(f"{error:6.1f}%" for error in errors[name]))

# %%
# The error against the angle
# ---------------------------
# Tangents are exact for small changes. They still help at 20 to 30 degrees.

figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
colours = ("#9aa5b1", "#e8833a", "#d64545")
for (name, values), colour in zip(errors.items(), colours, strict=True):
    ax.plot(ANGLES, values, "o-", color=colour, label=name)
ax.set_xlabel("turned by, degrees")
ax.set_ylabel("error, %")
ax.set_ylim(bottom=0)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
