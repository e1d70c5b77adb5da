"""
Contrast tangents: sides and springs
====================================

With contrast among the tangents and tangents at both ends, two images can both fade
into the background, where they are equal. The library warns. There are two remedies:
tangents at one end, or a price for moving (the spring).
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from widemargin.metrics import tangent_distances
from widemargin.tangents import ImageTangents

X, y = load_digits(return_X_y=True)
X = X / 16
X, y, X_new, y_new = X[:400], y[:400], X[400:1000], y[400:1000]
directions = ["x_shift", "y_shift", "scaling", "rotation", "contrast"]
free = ImageTangents((8, 8), directions)
still = ImageTangents((8, 8), directions[:-1])

# %%
# The error of 1-NN
# -----------------


def error(**options):
    """Share of wrong nearest neighbours, without the warning that is the point here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distances = tangent_distances(X_new, X, **options)
    return 100 * np.mean(y[distances.argmin(axis=1)] != y_new)


# %%
# Springs and sides
# -----------------
# Two-sided distances with contrast, for several springs, and three alternatives.

springs = np.array([1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1, 3])
both = [error(tangents=free, sides="both", spring=spring) for spring in springs]
lines = {
    "one end (sides='reference'), spring 1e-5": error(tangents=free, sides="reference"),
    "both, averaged (sides='mean')": error(tangents=free, sides="mean"),
    "both ends, without contrast": error(tangents=still, sides="both"),
}
print(f"both ends with contrast, spring 1e-5: {both[0]:.1f} % wrong")
print(f"the same, spring {springs[np.argmin(both)]:g}: {min(both):.1f} % wrong")
for name, value in lines.items():
    print(f"{name}: {value:.1f} % wrong")

# %%
# With a tiny spring most answers are wrong. A spring of 0.1 makes the two-sided
# distance nearly as good as the one-sided.

figure, ax = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
ax.plot(springs, both, "o-", color="#d64545", label="both ends, with contrast")
colours = ("#1f5f8b", "#e8833a", "#9aa5b1")
for (name, value), colour in zip(lines.items(), colours, strict=True):
    ax.axhline(value, color=colour, linestyle="--", linewidth=1.2, label=name)
ax.set_xscale("log")
ax.set_yscale("log")
ax.set_yticks([2, 5, 10, 20, 50, 90], ["2", "5", "10", "20", "50", "90"])
ax.minorticks_off()
ax.set(xlabel="spring: what moving costs", ylabel="1-NN error, %")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
