"""
Heart beats on a drifting baseline
==================================

Heart beats are recorded through a skin contact that drifts: the baseline has an offset,
a slope and a bend without meaning, and beats come early or late. SignalTangents
describes these changes, and 1-NN by tangent distance ignores them. The usual baseline
correction, subtracting a fitted parabola, is the alternative.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.metrics.pairwise import euclidean_distances

from widemargin.inspection import AlignmentDisplay
from widemargin.metrics import tangent_distances
from widemargin.tangents import SignalTangents

TIME = np.linspace(-1, 1, 96)
KINDS = ("normal", "widened", "inverted T")
rng = np.random.default_rng(0)

# %%
# Drawn beats of three kinds
# --------------------------


def bump(centre, width):
    return np.exp(-(((TIME - centre) / width) ** 2) / 2)


def beat(kind):
    """One beat of a person: sizes vary, its kind decides its shape."""
    p, r, s, t = rng.normal([0.15, 1.0, -0.25, 0.3], [0.03, 0.1, 0.05, 0.05])
    width = 0.085 if kind == "widened" else 0.06
    t = -t if kind == "inverted T" else t
    late = rng.normal(0, 0.02)
    return (
        p * bump(-0.45 + late, 0.07)
        + r * bump(late, width)
        + s * bump(0.15 + late, width)
        + t * bump(0.5 + late, 0.12)
        + rng.normal(0, 0.08, len(TIME))
    )


def recordings(per_kind):
    clean = np.array([beat(kind) for kind in KINDS for _ in range(per_kind)])
    offset, slope, bend = rng.normal(0, [[0.6], [0.5], [0.4]], (3, len(clean)))
    drift = offset[:, None] + slope[:, None] * TIME + bend[:, None] * TIME**2
    return clean + drift, np.repeat(KINDS, per_kind)


def without_parabola(X):
    basis = np.linalg.qr(np.vander(TIME, 3))[0]
    return X - X @ basis @ basis.T


def error(distances, y, y_new):
    return np.mean(y[distances.argmin(axis=1)] != y_new)


# %%
# Three ways to compare beats
# ---------------------------
# Five labelled beats of each kind.

X, y = recordings(5)
X_new, y_new = recordings(300)
drifts = SignalTangents(["shift", "offset", "slope", "curvature"])
errors = {
    "Euclidean": error(euclidean_distances(X_new, X), y, y_new),
    "parabola\nsubtracted": error(
        euclidean_distances(without_parabola(X_new), without_parabola(X)), y, y_new
    ),
    "tangent": error(tangent_distances(X_new, X, tangents=drifts), y, y_new),
}
print(f"1-NN with {len(X)} labelled beats, error on {len(X_new)} new ones")
for name, value in errors.items():
    print(f"  {name.replace(chr(10), ' '):22} {100 * value:5.1f} %")

# %%
# The errors
# ----------

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
bars = ax.bar(
    list(errors),
    100 * np.array(list(errors.values())),
    color=["#9aa5b1", "#1f5f8b", "#d64545"],
)
ax.bar_label(bars, fmt="%.1f", padding=2)
ax.set_ylabel("1-NN error, %")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# An alignment
# ------------
# Two normal beats before and after the best move, and the difference.

figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
AlignmentDisplay.from_estimator(
    drifts,
    X[0],
    X[1],
    names=("a normal beat", "another one"),
    positions=TIME,
    ax=axes,
)
plt.show()
