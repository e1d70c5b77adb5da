"""
Near-infrared spectra with your own tangents
============================================

The near-infrared (NIR) spectrum of a powder depends on its substance. It depends even
more on how coarse it is and how it lies: light scatters differently, a factor and a
baseline that rises with the wavelength. The wavelength axis of the instrument is a
little off. TransformTangents takes these changes as functions. The usual preprocessing
in chemometrics, SNV (standard normal variate) and detrending, is the alternative.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.metrics.pairwise import euclidean_distances

from widemargin.inspection import TangentDisplay
from widemargin.metrics import tangent_distances
from widemargin.tangents import TransformTangents

WAVELENGTH = np.linspace(1100, 2500, 140)  # nanometres
BANDS = np.array([1200, 1450, 1720, 1930, 2100, 2310])
PURE = {
    "lactose": [0.20, 0.45, 0.25, 0.60, 0.80, 0.35],
    "starch": [0.25, 0.50, 0.22, 0.75, 0.70, 0.40],
    "cellulose": [0.22, 0.48, 0.30, 0.58, 0.76, 0.46],
}
rng = np.random.default_rng(0)

# %%
# Three functions
# ---------------


def scatter_factor(X, p):
    return X * np.exp(p)


def scatter_baseline(X, p):
    return X + p * (WAVELENGTH / 2500) ** 4


def wavelength_shift(X, p):
    return np.array([np.interp(WAVELENGTH + 10 * p, WAVELENGTH, row) for row in X])


# %%
# Drawn spectra of three substances
# ---------------------------------


def pure_spectrum(heights):
    bands = np.exp(-(((WAVELENGTH[:, None] - BANDS) / 45) ** 2) / 2)
    return 0.3 + bands @ heights


def measured(per_kind):
    rows = []
    for heights in PURE.values():
        for _ in range(per_kind):
            x = pure_spectrum(rng.normal(heights, 0.03))[None]
            x = wavelength_shift(x, rng.normal(0, 0.5))
            x = scatter_baseline(
                scatter_factor(x, rng.normal(0, 0.2)), rng.normal(0, 0.2)
            )
            rows.append(x[0] + rng.normal(0, 0.01, len(WAVELENGTH)))
    return np.array(rows), np.repeat(list(PURE), per_kind)


def normal_variate_detrended(X):
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    basis = np.linalg.qr(np.vander(WAVELENGTH / 2500, 3))[0]
    return X - X @ basis @ basis.T


def error(distances, y, y_new):
    return np.mean(y[distances.argmin(axis=1)] != y_new)


# %%
# Three ways to compare spectra
# -----------------------------
# Four labelled spectra of each substance.

X, y = measured(4)
X_new, y_new = measured(300)
changes = TransformTangents([scatter_factor, scatter_baseline, wavelength_shift])
errors = {
    "Euclidean": error(euclidean_distances(X_new, X), y, y_new),
    "normal variate, detrended": error(
        euclidean_distances(
            normal_variate_detrended(X_new), normal_variate_detrended(X)
        ),
        y,
        y_new,
    ),
    # At one end: with both, all spectra could be scaled to nothing.
    "own tangents": error(
        tangent_distances(X_new, X, tangents=changes, sides="reference"), y, y_new
    ),
}
print(f"1-NN with {len(X)} labelled spectra, error on {len(X_new)} new ones")
for name, value in errors.items():
    print(f"  {name:26} {100 * value:5.1f} %")

# %%
# The labelled spectra
# --------------------

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
colours = dict(zip(PURE, ("#d64545", "#1f5f8b", "#e0a526"), strict=True))
for row, label in zip(X, y, strict=True):
    ax.plot(WAVELENGTH, row, color=colours[label], linewidth=1)
for label, colour in colours.items():
    ax.plot([], [], color=colour, label=label)
ax.set(xlabel="wavelength, nm", ylabel="absorbance")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, ncols=3, loc="upper left")
plt.show()

# %%
# A spectrum along the three tangents
# -----------------------------------

figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
TangentDisplay.from_estimator(
    changes, X[0], positions=WAVELENGTH, ax=ax, steps=(-0.4, -0.2, 0, 0.2, 0.4)
)
plt.show()
