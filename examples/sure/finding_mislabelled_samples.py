"""
Finding mislabelled samples
===========================

One label in twenty-five is wrong here. The margin of a label, from a model that has not
seen the sample, is most negative where the model is surest that the label is wrong.
Looking at the first few dozen finds most of the errors.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from widemargin import TVQClassifier

X, truth = load_digits(return_X_y=True)
X, truth = X[:1200], truth[:1200]
rng = np.random.default_rng(0)
y = truth.copy()
spoiled = rng.choice(len(y), len(y) // 25, replace=False)
y[spoiled] = (y[spoiled] + rng.integers(1, 10, len(spoiled))) % 10

# %%
# Margins by cross-validation
# ---------------------------

margins = np.empty(len(y))
for train, held_out in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
    model = TVQClassifier(n_tangents=6, max_iter=40, random_state=0)
    model.fit(X[train], y[train])
    margins[held_out] = model.margins(X[held_out], y[held_out])

order = margins.argsort()
is_spoiled = np.isin(order, spoiled)
found = is_spoiled.cumsum() / len(spoiled)
for looked in (len(spoiled), 2 * len(spoiled)):
    print(f"looking at {looked} of {len(y)} samples finds {found[looked - 1]:.0%}")

# %%
# How many wrong labels are found
# -------------------------------

figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
ax.plot(np.arange(1, len(y) + 1), 100 * found, color="#d64545")
ax.plot([0, len(y)], [0, 100], ":", color="#9aa5b1")
ax.set(xlabel="samples looked at, lowest margin first", ylabel="wrong labels found, %")
ax.set_xlim(0, 300)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The samples with the lowest margins
# -----------------------------------
# Labels that we made wrong are red.

figure, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
rows, columns = 3, 8
strip = X[order[: rows * columns]].reshape(rows, columns, 8, 8)
ax.imshow(
    np.pad(strip, ((0, 0), (0, 0), (4, 0), (1, 1)))
    .transpose(0, 2, 1, 3)
    .reshape(rows * 12, columns * 10),
    cmap="gray_r",
)
for i, sample in enumerate(order[: rows * columns]):
    row, column = divmod(i, columns)
    ax.text(
        column * 10 + 5,
        row * 12 + 1.5,
        f'"{y[sample]}"',
        ha="center",
        va="center",
        fontsize=9,
        color="#d64545" if sample in spoiled else "#1f5f8b",
    )
ax.set_axis_off()
plt.show()
