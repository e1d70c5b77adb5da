"""
Reading an alignment
====================

For some digits the Euclidean nearest neighbour is of another class and the tangent
nearest neighbour of the right one. The alignment shows why: it removes what the
tangents explain. The residual is what differs.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances

from widemargin.inspection import AlignmentDisplay
from widemargin.metrics import tangent_distances
from widemargin.tangents import ImageTangents

X, y = load_digits(return_X_y=True)
X = X[:1000] / 16.0
y = y[: len(X)]
moves = ImageTangents(shape=(8, 8))

# %%
# Both neighbours of each digit
# -----------------------------

euclidean = euclidean_distances(X)
tangent = tangent_distances(X, tangents=moves, squared=False)
np.fill_diagonal(euclidean, np.inf)
np.fill_diagonal(tangent, np.inf)
lookalike, fellow = euclidean.argmin(axis=1), tangent.argmin(axis=1)
cured = np.flatnonzero((y[lookalike] != y) & (y[fellow] == y))
# The clearest case: the two distances disagree the most about the two neighbours.
rows = np.arange(len(X))
gain = tangent[rows, lookalike] / tangent[rows, fellow]
query = cured[gain[cured].argmax()]

print(f"leave-one-out 1-NN error of {len(X)} digits:")
print(f"  Euclidean {100 * np.mean(y[lookalike] != y):.1f} %")
print(f"  tangent   {100 * np.mean(y[fellow] != y):.1f} %")
# %%
# Two alignments
# --------------
# The query beside its Euclidean nearest neighbour, and beside its tangent nearest
# neighbour. Upper row: before moving. Lower row: after.

figure = plt.figure(figsize=(12, 4.4), layout="constrained")
halves = figure.subfigures(1, 2, wspace=0.06)
for half, other in zip(halves, (lookalike[query], fellow[query]), strict=True):
    display = AlignmentDisplay.from_estimator(
        moves,
        X[query],
        X[other],
        names=(f"a {y[query]}", f"a {y[other]}"),
        ax=half.subplots(),
    )
    print(
        f"a {y[query]} and a {y[other]}: Euclidean {display.euclidean_distance:.2f}, "
        f"tangent {display.tangent_distance:.2f}"
    )
plt.show()
