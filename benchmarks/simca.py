"""Class models of measured spectra: SIMCA's chi-square limits beside exact ones.

    python benchmarks/simca.py [--splits 20] [--pictures FOLDER]

Melons of three cultivars (fruit) and minced meat of less and more fat (tecator), each
spectrum as standard normal variates, 60 to 40 at random. DD-SIMCA is a principal
component model per class; the scaled sum of its score and orthogonal distances is
compared with a chi-square quantile, whose degrees of freedom are fitted by moments to
the training samples (Pomerantsev, Rodionova 2014). Ours is ConformalClassifier around
HSS of as many directions. Both have alpha = .05: sensitivity should be 95 %.
"""

import argparse
from pathlib import Path

import numpy as np
from common import data_folder, print_table
from scipy.stats import chi2
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from widemargin import ConformalClassifier, HSSClassifier
from widemargin.margins import class_model_rates

ALPHA, N_DIRECTIONS = 0.05, 6


class Simca:
    """DD-SIMCA: principal components of each class, one limit for both distances."""

    def fit(self, X, y):
        """Fit a model to every class."""
        self.classes_ = np.unique(y)
        self.models = [self._model(X[y == c]) for c in self.classes_]
        return self

    def _model(self, X):
        pca = PCA(N_DIRECTIONS).fit(X)
        parts = []
        for d in self._distances(pca, X):
            # A scaled chi-square has mean scale * freedom, variance 2 scale^2 freedom.
            freedom = max(1, round(2 * d.mean() ** 2 / d.var()))
            parts.append((d.mean() / freedom, freedom))
        return pca, parts

    @staticmethod
    def _distances(pca, X):
        T = pca.transform(X)
        rest = X - pca.inverse_transform(T)
        return (T**2 / pca.explained_variance_).sum(axis=1), (rest**2).sum(axis=1)

    def predict_set(self, X):
        """(n_samples, n_classes) of bool."""
        sets = []
        for pca, parts in self.models:
            both = zip(self._distances(pca, X), parts, strict=True)
            total = sum(d / scale for d, (scale, _) in both)
            freedom = sum(f for _, f in parts)
            sets.append(total <= chi2.ppf(1 - ALPHA, freedom))
        return np.column_stack(sets)


def spectra():
    """Spectra by name, and those of the others as strangers."""
    z = np.load(data_folder() / "spectra" / "fruit.npz")
    fruit, cultivar = z["X"].astype(float), np.array(["D", "M", "HA"])[z["y"]]
    z = np.load(data_folder() / "spectra" / "tecator.npz")
    meat, fat = z["X"].astype(float), np.array(["lean", "fat"])[z["y"]]

    def seen(X, n):
        at = np.linspace(0, X.shape[1] - 1, n)
        X = np.array([np.interp(at, np.arange(X.shape[1]), x) for x in X])
        return (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)

    yield "fruit", seen(fruit, 256), cultivar, seen(meat, 256)
    yield "tecator", seen(meat, 100), fat, seen(fruit, 100)


def ours(seed):
    """Return exact class models."""
    # In the units that both sides of the table are given.
    hss = HSSClassifier(1, n_tangents=N_DIRECTIONS, scale="none")
    return ConformalClassifier(hss, alpha=ALPHA, random_state=seed)


def rates(n_splits):
    """Print sensitivity, specificity and efficiency, of all splits together."""
    rows = []
    for name, X, y, strangers in spectra():
        makes = {"DD-SIMCA": lambda _: Simca(), "exact, HSS": ours}
        for called, make in makes.items():
            truth, sets, far = [], [], []
            for seed in range(n_splits):
                A, B, a, b = train_test_split(
                    X, y, test_size=0.4, stratify=y, random_state=seed
                )
                model = make(seed).fit(A, a)
                truth.append(b)
                sets.append(model.predict_set(B))
                far.append(~model.predict_set(strangers).any(axis=1))
            found = class_model_rates(
                np.concatenate(truth), np.concatenate(sets), model.classes_
            )
            for c, label in enumerate(found.classes):
                cells = [
                    f"{100 * rate.value[c]:.1f}"
                    for rate in (found.sensitivity, found.specificity, found.efficiency)
                ]
                rows.append((name, label, called, *cells, f"{100 * np.mean(far):.1f}"))
    header = (
        *("set", "class", "model", "sensitivity, %", "specificity, %"),
        *("efficiency, %", "strangers refused by all, %"),
    )
    print_table(f"{n_splits} splits, alpha = {ALPHA}", header, sorted(rows))


def pictures(folder):
    """Draw the acceptance and the extremes plot of the first split of fruit."""
    from widemargin.inspection import AcceptanceDisplay, ExtremesDisplay

    _, X, y, strangers = next(spectra())
    A, B, a, b = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    model = ours(0).fit(A, a)
    labels = np.append(b, ["meat"] * len(strangers))
    for name, display in (
        (
            "acceptance",
            AcceptanceDisplay.from_estimator(
                model, np.concatenate([B, strangers]), labels, classes=("D", "M")
            ),
        ),
        ("extremes", ExtremesDisplay.from_estimator(model, B, b)),
    ):
        display.figure_.savefig(Path(folder) / f"{name}.png", dpi=110)


def main():
    """Print the table, and draw where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--pictures", metavar="FOLDER")
    options = parser.parse_args()
    rates(options.splits)
    if options.pictures:
        pictures(options.pictures)


if __name__ == "__main__":
    main()
