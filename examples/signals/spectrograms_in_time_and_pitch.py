"""
Sounds as spectrograms
======================

Short calls of three kinds come at different times, in different voices and volumes. In
a logarithmic spectrogram a later call is a shift along one axis, a higher voice a shift
along the other, and a louder one adds a constant. So three tangents describe all of it.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.signal import ShortTimeFFT
from scipy.signal.windows import hann
from sklearn.neighbors import KNeighborsClassifier

from widemargin import TangentKNeighborsClassifier
from widemargin.tangents import ImageTangents

RATE, LENGTH = 8000, 4000
KINDS = {"rising": (0.8, 1.25), "falling": (1.25, 0.8), "flat": (1.0, 1.0)}
BANDS, FRAMES = 20, 20
rng = np.random.default_rng(0)
window = ShortTimeFFT(hann(400), hop=200, fs=RATE)

# %%
# Drawn calls
# -----------


def call(kind):
    """One call: a tone with one overtone that glides, somewhere in the recording."""
    t = np.arange(LENGTH) / RATE
    start = 0.25 + rng.normal(0, 0.02)
    shape = np.exp(-(((t - start) / 0.08) ** 2))
    low, high = KINDS[kind]
    glide = np.interp(t, [start - 0.12, start + 0.12], [low, high])
    pitch = 700 * np.exp(rng.normal(0, 0.08)) * glide
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    sound = shape * (np.sin(phase) + 0.4 * np.sin(2 * phase))
    return np.exp(rng.normal(0, 0.8)) * sound + rng.normal(0, 0.05, LENGTH)


def spectrogram(sound):
    """Decibels in bands of equal ratio, cut to the middle of the recording."""
    power = window.spectrogram(sound)
    edges = np.geomspace(300, 3500, BANDS + 1)
    band = np.digitize(window.f, edges) - 1
    summed = np.array([power[band == b].sum(axis=0) for b in range(BANDS)])
    return np.log(summed + 1e-3)[:, 1 : FRAMES + 1].ravel()


def recordings(per_kind):
    X = [spectrogram(call(kind)) for kind in KINDS for _ in range(per_kind)]
    return np.array(X), np.repeat(list(KINDS), per_kind)


# %%
# 1-NN with and without tangents
# ------------------------------
# Four labelled calls of each kind.

X, y = recordings(4)
X_new, y_new = recordings(100)
directions = ["x_shift", "y_shift", "brightness"]
moves = ImageTangents((BANDS, FRAMES), directions, sigma=1.0, background=X.min())
models = {
    "Euclidean": KNeighborsClassifier(1),
    "tangent": TangentKNeighborsClassifier(tangents=moves, spring=0.02),
}
errors = {}
for name, model in models.items():
    errors[name] = 100 * np.mean(model.fit(X, y).predict(X_new) != y_new)
    print(f"1-NN with {len(X)} labelled calls, {name:10} {errors[name]:5.1f} % wrong")

# %%
# One call of each kind
# ---------------------

figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
for ax, kind in zip(axes, KINDS, strict=True):
    ax.imshow(X[y == kind][0].reshape(BANDS, FRAMES), origin="lower", cmap="magma")
    ax.set_title(f"a {kind} call", fontsize=11)
    ax.set(xticks=[], yticks=[], xlabel="time")
axes[0].set_ylabel("pitch")
plt.show()

# %%
# The errors
# ----------

figure, ax = plt.subplots(figsize=(4.5, 3.6), layout="constrained")
bars = ax.bar(list(errors), list(errors.values()), color=["#9aa5b1", "#d64545"])
ax.bar_label(bars, fmt="%.1f", padding=2)
ax.set_ylabel("1-NN error, %")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
