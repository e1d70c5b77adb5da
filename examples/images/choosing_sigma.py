"""
Tuning sigma and spring by GridSearchCV
=======================================

Tangents are derivatives, and those of a rough image are valid for tiny steps only.
``sigma`` smooths the image before differentiating. The spring is the price of moving
along tangents. scikit-learn's searches can set both.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

from widemargin import TangentKNeighborsClassifier
from widemargin.tangents import ImageTangents

SIGMAS = [0.0, 0.4, 0.8, 1.2, 1.6, 2.0]
SPRINGS = [1e-5, 0.3]
SIZE = 16
X, y = load_digits(return_X_y=True)
X = zoom(X.reshape(-1, 8, 8) / 16, (1, 2, 2), order=1).reshape(len(X), -1)
X, X_new, y, y_new = train_test_split(X, y, train_size=250, random_state=0, stratify=y)

# %%
# Search
# ------
# Three folds of the 250 training images. A parameter of the tangents is
# ``tangents__sigma``.

search = GridSearchCV(
    TangentKNeighborsClassifier(tangents=ImageTangents((SIZE, SIZE))),
    {"tangents__sigma": SIGMAS, "spring": SPRINGS},
    cv=3,
).fit(X, y)
results = search.cv_results_
errors = 100 * (1 - results["mean_test_score"].reshape(len(SPRINGS), len(SIGMAS)))
print("best:", search.best_params_)
print(f"errors from {errors.min():.1f} to {errors.max():.1f} % of {len(y)} samples")
print(f"wrong on new digits: {100 * (1 - search.score(X_new, y_new)):.1f} %")

# %%
# The errors
# ----------
# These digits were enlarged and are already smooth, so sigma hardly matters: the errors
# differ by a few samples only.

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for values, spring, colour in zip(errors, SPRINGS, ("#9aa5b1", "#d64545"), strict=True):
    ax.plot(SIGMAS, values, "o-", color=colour, label=f"spring {spring:g}")
ax.set(xlabel="sigma, pixels", ylabel="error in cross-validation, %")
ax.set_ylim(bottom=0)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# What sigma does
# ---------------
# A digit, and its rotation tangent at sigma 0, 1 and 2.

turns = [
    ImageTangents((SIZE, SIZE), "rotation", sigma=sigma)
    .tangents(X[:1])[0, 0]
    .reshape(SIZE, SIZE)
    for sigma in (0.0, 1.0, 2.0)
]
figure, ax = plt.subplots(figsize=(6.4, 2), layout="constrained")
ax.imshow(
    np.hstack([X[0].reshape(SIZE, SIZE), *[t / np.abs(t).max() for t in turns]]),
    cmap="RdBu_r",
    vmin=-1,
    vmax=1,
)
ax.set_axis_off()
plt.show()
