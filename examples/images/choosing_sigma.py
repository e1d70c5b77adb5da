"""
Choosing how smooth: GridSearchCV over ``tangents__sigma``
==========================================================

Tangents are derivatives, and a rough image has rough ones: true for steps smaller than
a pixel only. ``sigma`` smooths before differentiating; how much is right depends on the
images, and scikit-learn's searches reach it like any parameter, together with the
spring. These digits were enlarged, and are smooth already: up to 1.2 pixels all err
alike, the search may as well take 0, and only too much costs, most where moves are
nearly free.
"""

import os

import numpy as np
from matplotlib import pyplot as plt
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

from widemargin import TangentKNeighborsClassifier
from widemargin.tangents import ImageTangents

QUICK = bool(os.environ.get("WIDEMARGIN_QUICK"))
SIGMAS = [0.0, 0.8] if QUICK else [0.0, 0.4, 0.8, 1.2, 1.6, 2.0]
SPRINGS = [1e-5, 0.3]
SIZE = 16
X, y = load_digits(return_X_y=True)
X = zoom(X.reshape(-1, 8, 8) / 16, (1, 2, 2), order=1).reshape(len(X), -1)
X, X_new, y, y_new = train_test_split(X, y, train_size=250, random_state=0, stratify=y)

search = GridSearchCV(
    TangentKNeighborsClassifier(tangents=ImageTangents((SIZE, SIZE))),
    {"tangents__sigma": SIGMAS, "spring": SPRINGS},
    cv=3,
).fit(X, y)
results = search.cv_results_
errors = 100 * (1 - results["mean_test_score"].reshape(len(SPRINGS), len(SIGMAS)))
print("best:", search.best_params_)
print(f"wrong on new digits: {100 * (1 - search.score(X_new, y_new)):.1f} %")

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4), width_ratios=(1.3, 1), layout="constrained"
)
for values, spring, colour in zip(errors, SPRINGS, ("#9aa5b1", "#d64545"), strict=True):
    left.plot(SIGMAS, values, "o-", color=colour, label=f"spring {spring:g}")
left.set(xlabel="sigma, pixels", ylabel="error in cross-validation, %")
left.set_ylim(bottom=0)
left.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False)
turns = [
    ImageTangents((SIZE, SIZE), "rotation", sigma=sigma)
    .tangents(X[:1])[0, 0]
    .reshape(SIZE, SIZE)
    for sigma in (0.0, 1.0, 2.0)
]
right.imshow(
    np.hstack([X[0].reshape(SIZE, SIZE), *[t / np.abs(t).max() for t in turns]]),
    cmap="RdBu_r",
    vmin=-1,
    vmax=1,
)
right.set_title("a digit; its turn at σ = 0, 1, 2", fontsize=11)
right.set_axis_off()
plt.show()
