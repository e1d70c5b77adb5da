"""
A margin with a certificate
===========================

Two digits are separated by a hyperplane. Every solver returns some margin. This one
also returns an upper bound that no hyperplane can exceed.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from widemargin import MaxMarginClassifier

TOLERANCES = (3e-1, 1e-1, 3e-2, 1e-2, 1e-3)
X, y = load_digits(return_X_y=True)
X, y = X[(y == 3) | (y == 8)] / 16.0, y[(y == 3) | (y == 8)]
sign = np.where(y == 8, 1, -1)

# %%
# Closer and closer
# -----------------

print("asked for   margin reached   no hyperplane exceeds   certified")
reached, bounds = [], []
for tol in TOLERANCES:
    model = MaxMarginClassifier("dynamic", C=np.inf, tol=tol, random_state=0).fit(X, y)
    reached.append(model.margin_)
    bounds.append(model.margin_upper_bound_)
    print(
        f"{1 - tol:9.2%}   {model.margin_:14.5f}   "
        f"{model.margin_upper_bound_:21.5f}   {1 - model.gap_:9.3%}"
    )

# %%
# LinearSVC
# ---------
# It returns a hyperplane without a bound.

peer = LinearSVC(C=1e4, loss="hinge", max_iter=200_000)
peer.fit(X, y)
distance = sign * peer.decision_function(X) / np.linalg.norm(peer.coef_)
print(f"LinearSVC   {distance.min():14.5f}   {'(does not say)':>21}")

# %%
# Margin and bound
# ----------------

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
x = np.arange(len(TOLERANCES))
ax.fill_between(x, reached, bounds, color="#d64545", alpha=0.2, label="open gap")
ax.plot(x, bounds, "v-", color="#52606d", label="upper bound")
ax.plot(x, reached, "^-", color="#d64545", label="margin reached")
ax.axhline(distance.min(), color="#9aa5b1", linestyle=":", label="LinearSVC")
ax.set_xticks(x, [f"{1 - tol:.2%}" for tol in TOLERANCES])
ax.set_xlabel("certified share of the largest margin")
ax.set_ylabel("margin")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
