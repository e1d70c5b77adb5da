"""
Letters of unseen typefaces
===========================

Capital letters are drawn in the typefaces that come with matplotlib. One typeface is
learned, with one image per letter, and 1-NN reads all the others. Typefaces differ in
slant, width and weight, and ImageTangents has these directions.
"""

import string

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from sklearn.metrics.pairwise import euclidean_distances

from widemargin.metrics import tangent_distances
from widemargin.tangents import ImageTangents

TYPEFACES = [
    FontProperties(family="DejaVu Sans"),
    FontProperties(family="DejaVu Sans", style="oblique"),
    FontProperties(family="DejaVu Sans", weight="bold"),
    FontProperties(family="DejaVu Sans Mono"),
    FontProperties(family="DejaVu Serif"),
    FontProperties(family="DejaVu Serif", style="italic"),
    FontProperties(family="STIXGeneral"),
    FontProperties(family="STIXGeneral", style="italic"),
    FontProperties(family="STIXGeneral", weight="bold"),
]
SIZE, FINE = 16, 4
LETTERS = np.array(list(string.ascii_uppercase))

# %%
# Drawing a letter
# ----------------


def drawn(letter, typeface):
    """Draw a letter, 16×16 grey, filling the square less a border of two pixels."""
    outline = TextPath((0, 0), letter, size=100, prop=typeface)
    low, high = outline.vertices.min(axis=0), outline.vertices.max(axis=0)
    scale = (SIZE - 4) * FINE / (high - low).max()
    middle = (low + high) / 2
    vertices = (outline.vertices - middle) * scale + SIZE * FINE / 2
    centres = np.arange(SIZE * FINE) + 0.5
    points = np.stack(np.meshgrid(centres, centres[::-1]), axis=-1).reshape(-1, 2)
    # Contours inside contours are holes: count how many a point is in.
    inside = np.zeros(len(points), int)
    for polygon in Path(vertices, outline.codes).to_polygons():
        inside += Path(polygon).contains_points(points)
    grid = (inside % 2).reshape(SIZE, FINE, SIZE, FINE)
    return grid.mean(axis=(1, 3)).ravel()


# %%
# Learn one typeface, read the others
# -----------------------------------

X = np.array([[drawn(letter, face) for letter in LETTERS] for face in TYPEFACES])
moves = ImageTangents((SIZE, SIZE))
distances = {
    "Euclidean": euclidean_distances,
    "tangent": lambda A, B: tangent_distances(A, B, tangents=moves, spring=0.1),
}
wrong = {name: np.zeros(len(TYPEFACES)) for name in distances}
for known in range(len(TYPEFACES)):
    unseen = np.delete(X, known, axis=0).reshape(-1, SIZE**2)
    truth = np.tile(LETTERS, len(TYPEFACES) - 1)
    for name, distance in distances.items():
        answers = LETTERS[distance(unseen, X[known]).argmin(axis=1)]
        wrong[name][known] = np.mean(answers != truth)
for name, share in wrong.items():
    print(f"{name:10} {share.mean():6.1%} of the letters of unseen typefaces wrong")

# %%
# Six letters in nine typefaces
# -----------------------------

shown = [LETTERS.tolist().index(letter) for letter in "AGKQRX"]
rows = [np.hstack([row.reshape(SIZE, SIZE) for row in face[shown]]) for face in X]
figure, ax = plt.subplots(figsize=(4.2, 5.6), layout="constrained")
ax.imshow(np.vstack(rows), cmap="gray_r")
ax.set_axis_off()
plt.show()

# %%
# The errors, by the typeface that was learned
# --------------------------------------------

figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
places = np.arange(len(TYPEFACES))
ax.barh(places - 0.2, 100 * wrong["Euclidean"], 0.4, color="#9aa5b1")
ax.barh(places + 0.2, 100 * wrong["tangent"], 0.4, color="#d64545")
names = [
    f"{face.get_name()} {face.get_style()} {face.get_weight()}".replace(" normal", "")
    for face in TYPEFACES
]
ax.set_yticks(places, [name.replace(" 400", "") for name in names])
ax.invert_yaxis()
ax.set_xlabel("letters of the others wrong, %")
ax.legend(["1-NN, Euclidean", "1-NN, tangent"], frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
