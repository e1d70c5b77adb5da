"""
Is it all beef? Spectra of food, measured
=========================================

Sixty infrared spectra of minced beef, pure or with one of four kinds of offal (Beef of
the UCR archive). How much light a sample scatters changes a spectrum more than what is
in it. SpectrumClassifier needs no choice of preprocessing: six have a vote. The usual
way, one preprocessing and a discriminant analysis, is the alternative. `load_ucr`
fetches the data once.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from widemargin import SpectrumClassifier
from widemargin.datasets import load_ucr
from widemargin.tangents import SavitzkyGolay, StandardNormalVariate

LABELS, DRAWS = (3, 5, 8), 10
X, y = load_ucr("Beef", return_X_y=True)
print(f"{len(X)} spectra of {X.shape[1]} wavelengths, {len(np.unique(y))} kinds")

# %%
# The spectra, and their derivatives
# ----------------------------------
# Four of each kind. The derivative takes the baseline out, SNV the gain.

derivative = make_pipeline(SavitzkyGolay(), StandardNormalVariate())
views = {"as measured": X, "derivative, SNV": derivative.fit_transform(X)}
colours = ["#d64545", "#1f5f8b", "#e0a526", "#7a9e3b", "#52606d"]
figure, axes = plt.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
for ax, (name, spectra) in zip(axes, views.items(), strict=True):
    for kind, colour in enumerate(colours):
        ax.plot(spectra[y == kind][:4].T, color=colour, linewidth=0.8)
        ax.plot([], [], color=colour, label=f"kind {kind + 1}")
    ax.set_ylabel(name)
    ax.spines[["top", "right"]].set_visible(False)
axes[1].legend(frameon=False, ncols=2, loc="upper left")
axes[1].set_xlabel("number of the wavelength")
plt.show()

# %%
# Errors with few labels
# ----------------------
# So many spectra of each kind are drawn, and all others are asked.


def drawn(per_kind, seed):
    """Which rows are labelled, and which are asked."""
    order = np.random.default_rng(seed).permutation(len(y))
    labelled = np.concatenate([order[y[order] == k][:per_kind] for k in np.unique(y)])
    return labelled, np.setdiff1d(order, labelled)


def lda():
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


models = {
    "1-NN": KNeighborsClassifier(1),
    "SNV + LDA": make_pipeline(StandardNormalVariate(), lda()),
    "derivative + LDA": make_pipeline(SavitzkyGolay(), lda()),
    "SpectrumClassifier": SpectrumClassifier(),
}
errors = {name: [] for name in models}
for per_kind in LABELS:
    for name, model in models.items():
        wrong = []
        for seed in range(DRAWS):
            rows, asked = drawn(per_kind, seed)
            wrong.append(
                np.mean(model.fit(X[rows], y[rows]).predict(X[asked]) != y[asked])
            )
        errors[name].append(100 * np.mean(wrong))
print("labels of each kind   ", *(f"{n:6d}" for n in LABELS))
for name, values in errors.items():
    print(f"{name:22}", *(f"{value:5.1f}%" for value in values))

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
shown = ("#9aa5b1", "#1f5f8b", "#e0a526", "#d64545")
for (name, values), colour in zip(errors.items(), shown, strict=True):
    ax.plot(LABELS, values, "o-", color=colour, label=name)
ax.set(xlabel="labels of each kind", ylabel="error, %", xticks=LABELS, ylim=0)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
