"""
What does the model take for the same? Sweeping samples along their tangents
============================================================================

Before trusting an invariance, look at it: a digit along the seven directions of Simard,
a chirp along delays, stretches and baselines, and along what LearnedTangents found in
the digits of one class by itself.
"""

import os

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from widemargin.inspection import TangentDisplay
from widemargin.tangents import ImageTangents, LearnedTangents, SignalTangents

QUICK = bool(os.environ.get("WIDEMARGIN_QUICK"))
X, y = load_digits(return_X_y=True)
X = X / 16.0
digit = X[3]

time = np.linspace(0, 1, 60 if QUICK else 120)
chirp = np.exp(-(((time - 0.5) / 0.22) ** 2)) * np.sin(
    2 * np.pi * (3 * time + 2 * time**2)
)

threes = X[y == y[3]]
learned = LearnedTangents(n_tangents=7).fit(threes, np.zeros(len(threes)))

figure, axes = plt.subplots(
    1, 3, figsize=(14, 6), width_ratios=(1.25, 1.1, 1.3), layout="constrained"
)
named = TangentDisplay.from_estimator(ImageTangents((8, 8)), digit, ax=axes[0])
found = TangentDisplay.from_estimator(learned, digit, shape=(8, 8), ax=axes[1])
directions = ["shift", "scale", "amplitude", "offset", "slope", "curvature"]
waves = TangentDisplay.from_estimator(
    SignalTangents(directions), chirp, positions=time, ax=axes[2]
)

explained = learned.eigenvalues_ / np.trace(np.cov(threes.T))
print(f"a digit along {len(named.names)} named directions: {', '.join(named.names)}")
print(f"a signal along {len(waves.names)}: {', '.join(waves.names)}")
print(
    f"{len(found.names)} directions learned from {len(threes)} digits; the first three "
    f"have {explained[:3].sum() / explained.sum():.0%} of what all of them explain"
)
plt.show()
