"""
Tuning theta of TVQ
===================

Theta is the margin that every training sample should have. If it is too small, samples
near the border are ignored. If it is too large, all samples count alike.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

from widemargin import TVQClassifier
from widemargin.inspection import MarginDistributionDisplay

THETAS = [-0.2, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8]
X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=1000, random_state=0)

# %%
# Cross-validation
# ----------------

search = GridSearchCV(
    TVQClassifier(n_tangents=1, max_iter=60, random_state=0),
    {"theta": THETAS},
    cv=5,
).fit(X, y)
errors = 100 * (1 - search.cv_results_["mean_test_score"])
best = search.best_params_["theta"]
for theta, error in zip(THETAS, errors, strict=True):
    print(f"theta {theta:.1f}: {error:4.1f} % wrong in cross-validation")
print(
    f"chosen: {best}; wrong on new digits: "
    f"{100 * np.mean(search.predict(X_new) != y_new):.1f} %"
)

# %%
# The errors
# ----------

figure, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
ax.plot(THETAS, errors, "o-", color="#52606d")
ax.plot(best, errors[THETAS.index(best)], "o", color="#d64545", markersize=10)
ax.set(xlabel="θ", ylabel="error in cross-validation, %")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What theta does to the margins
# ------------------------------

shown = sorted({THETAS[0], best, THETAS[-1]})
models = {
    f"θ = {theta}": TVQClassifier(
        n_tangents=1, theta=theta, max_iter=60, random_state=0
    ).fit(X, y)
    for theta in shown
}
figure, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
MarginDistributionDisplay.from_estimator(models, X_new, y_new, ax=ax)
ax.set_title("margins of new digits", fontsize=11)
plt.show()
