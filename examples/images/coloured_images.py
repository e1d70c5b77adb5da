"""
Colour images: recognise a place
================================

Images with three channels work too: ``shape=(height, width, 3)``, and all channels move
together. Sixty places of a photograph are known by one patch each. New patches come
from a camera that stands a little aside, a little rotated, with another exposure. Which
places are they?
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.ndimage import affine_transform
from sklearn.datasets import load_sample_image
from sklearn.metrics.pairwise import euclidean_distances

from widemargin.metrics import tangent_distances
from widemargin.tangents import ImageTangents

SIZE, PLACES, VIEWS = 14, 60, 8
SHAPE = (SIZE, SIZE, 3)
rng = np.random.default_rng(0)
photograph = load_sample_image("china.jpg")[::3, ::3] / 255
corners = rng.integers([75, 10], [115, 185], (PLACES, 2))


def view(corner, aside=0.0, turn=0.0, exposure=0.0):
    """Cut out one patch, as seen from aside, turned and exposed at random."""
    angle = rng.normal(0, turn)
    matrix = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    middle = np.full(2, (SIZE - 1) / 2)
    start = corner + middle - matrix @ middle + rng.normal(0, aside, 2)
    channels = [
        affine_transform(channel, matrix, start, (SIZE, SIZE), order=1)
        for channel in np.moveaxis(photograph, 2, 0)
    ]
    return (np.stack(channels, axis=2) + rng.normal(0, exposure)).ravel()


# %%
# The data
# --------
# One known patch per place, and eight new views of each.

X, places = np.array([view(corner) for corner in corners]), np.arange(PLACES)
X_new = np.array([view(c, 0.8, 0.1, 0.15) for c in corners for _ in range(VIEWS)])
truth = np.repeat(places, VIEWS)
# %%
# Three distances
# ---------------
# The tangents know motion, or motion and brightness.

motion = ["x_shift", "y_shift", "rotation"]
moved = ImageTangents(SHAPE, motion)
exposed = ImageTangents(SHAPE, [*motion, "brightness"])
distances = {
    "Euclidean": euclidean_distances(X_new, X),
    "motion": tangent_distances(X_new, X, tangents=moved, sides="mean"),
    "motion and\nbrightness": tangent_distances(
        X_new, X, tangents=exposed, sides="mean"
    ),
}
errors = {}
for name, values in distances.items():
    errors[name] = np.mean(values.argmin(axis=1) != truth)
    print(f"{name.replace(chr(10), ' '):22} {errors[name]:6.1%} of the places wrong")

# %%
# The patches
# -----------
# Left: four known places. Right: new views of them.

shown = (3, 17, 31, 44)
rows = [np.hstack(list(X_new[truth == k][:7].reshape(-1, *SHAPE))) for k in shown]
known = np.vstack([X[k].reshape(SHAPE) for k in shown])
gap = np.ones((len(known), 4, 3))
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.imshow(np.hstack([known, gap, np.vstack(rows)]).clip(0, 1))
ax.set_axis_off()
plt.show()

# %%
# The errors
# ----------

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
bars = ax.bar(
    list(errors),
    100 * np.array(list(errors.values())),
    color=["#9aa5b1", "#e8833a", "#d64545"],
)
ax.bar_label(bars, fmt="%.1f", padding=2)
ax.set_ylabel("places wrong, %")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
