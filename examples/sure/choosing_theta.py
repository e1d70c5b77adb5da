"""
Which margin should every sample have? Choosing theta for TVQ
=============================================================

Theta is how sure the model should be of each training sample. Too small, and samples
near the border are ignored; too large, and all samples count alike. Cross-validation on
the training set chooses; the margin plot shows what the choice does.
"""

import os

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

from widemargin import TVQClassifier
from widemargin.inspection import MarginDistributionDisplay

QUICK = bool(os.environ.get("WIDEMARGIN_QUICK"))
THETAS = [0.1, 0.4] if QUICK else [-0.2, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8]
X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=1000, random_state=0)

search = GridSearchCV(
    TVQClassifier(n_tangents=1, max_iter=10 if QUICK else 60, random_state=0),
    {"theta": THETAS},
    cv=3 if QUICK else 5,
).fit(X, y)
errors = 100 * (1 - search.cv_results_["mean_test_score"])
best = search.best_params_["theta"]
for theta, error in zip(THETAS, errors, strict=True):
    print(f"theta {theta:.1f}: {error:4.1f} % wrong in cross-validation")
print(
    f"chosen: {best}; wrong on new digits: "
    f"{100 * np.mean(search.predict(X_new) != y_new):.1f} %"
)

shown = sorted({THETAS[0], best, THETAS[-1]})
models = {
    f"θ = {theta}": TVQClassifier(
        n_tangents=1, theta=theta, max_iter=10 if QUICK else 60, random_state=0
    ).fit(X, y)
    for theta in shown
}
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
axes[0].plot(THETAS, errors, "o-", color="#52606d")
axes[0].plot(best, errors[THETAS.index(best)], "o", color="#d64545", markersize=10)
axes[0].set(xlabel="θ", ylabel="error in cross-validation, %")
axes[0].spines[["top", "right"]].set_visible(False)
MarginDistributionDisplay.from_estimator(models, X_new, y_new, ax=axes[1])
axes[1].set_title("margins of new digits", fontsize=11)
plt.show()
