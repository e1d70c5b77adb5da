"""
Looking at tangents
===================

Look at tangents before you trust them. TangentDisplay moves a sample along each of
them: every picture in a row must still be of the same class.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from widemargin.inspection import TangentDisplay
from widemargin.tangents import ImageTangents, LearnedTangents, SignalTangents

X, y = load_digits(return_X_y=True)
X = X / 16.0
# %%
# Named directions of an image
# ----------------------------

digit = X[3]
figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
named = TangentDisplay.from_estimator(ImageTangents((8, 8)), digit, ax=ax)
print(f"a digit along {len(named.names)} named directions: {', '.join(named.names)}")
plt.show()

# %%
# Directions learned from one class
# ---------------------------------

threes = X[y == y[3]]
learned = LearnedTangents(n_tangents=7).fit(threes, np.zeros(len(threes)))

figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
found = TangentDisplay.from_estimator(learned, digit, shape=(8, 8), ax=ax)
explained = learned.eigenvalues_ / np.trace(np.cov(threes.T))
print(
    f"{len(found.names)} directions learned from {len(threes)} digits; the first three "
    f"have {explained[:3].sum() / explained.sum():.0%} of what all of them explain"
)
plt.show()

# %%
# Directions of a signal
# ----------------------

time = np.linspace(0, 1, 120)
chirp = np.exp(-(((time - 0.5) / 0.22) ** 2)) * np.sin(
    2 * np.pi * (3 * time + 2 * time**2)
)
figure, ax = plt.subplots(figsize=(7, 6), layout="constrained")
directions = ["shift", "scale", "amplitude", "offset", "slope", "curvature"]
waves = TangentDisplay.from_estimator(
    SignalTangents(directions), chirp, positions=time, ax=ax
)
print(f"a signal along {len(waves.names)}: {', '.join(waves.names)}")
plt.show()
