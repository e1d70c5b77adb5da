"""Does ConformalClassifier keep its level? Distribution by distribution, by fits.

    python benchmarks/conformal.py [--fits 1000] [--seed 0] [--only PART]

``levels``: each fit draws samples, fits the whole ConformalClassifier, its hold-out
included, and one fresh sample of every class. How often its p-value is at most alpha is
binomial, so an exact test says whether the level is broken. ``folds``: the same, every
sample left out alone, where 2 alpha is guaranteed.
``sets``: measured data: how many sets hold the right class, rare classes included.
``outlier_fraction``: how many strangers get an empty set, and what is refused of
ordinary ones. ``cost``: processor time of `p_values` beside that of the estimator's
`predict`.
"""

import argparse
import sys
from functools import partial
from time import process_time
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid

from widemargin import (
    ConformalClassifier,
    GLVQClassifier,
    HSSClassifier,
    TangentKNeighborsClassifier,
    TVQClassifier,
)

ALPHAS = (0.01, 0.05, 0.1, 0.2)
PARTS = ("levels", "folds", "sets", "strange", "cost")


class Nearest(ClassifierMixin, BaseEstimator):
    """One nearest neighbour, with nothing around it."""

    def fit(self, X, y):
        """Remember."""
        self.X_, self.classes_, self.y_ = X, np.unique(y), y
        return self

    def distances(self, X):
        """Distances to the nearest of each class."""
        D = euclidean_distances(X, self.X_)
        return np.column_stack([D[:, self.y_ == c].min(axis=1) for c in self.classes_])

    def predict(self, X):
        """Label of the nearest."""
        return self.classes_[self.distances(X).argmin(axis=1)]


def to_means(model, X):
    """Distances to the class means."""
    return euclidean_distances(X, model.centroids_)


def to_nearest(model, X):
    """Distances to the nearest sample of each class."""
    return model.distances(X)


class World(NamedTuple):
    """A distribution of samples: `draw(rng, labels)` gives one for each label."""

    draw: object
    sizes: tuple  # samples of each class
    model: BaseEstimator = NearestCentroid()
    nonconformity: object = to_means


def about(rng, y, apart=2.0, d=3):
    """Gaussian classes."""
    return apart * y[:, None] + rng.normal(size=(len(y), d))


def tails(rng, y):
    """Draw with heavy tails."""
    return 3.0 * y[:, None] + rng.standard_t(1, size=(len(y), 2))


def dice(rng, y):
    """Whole numbers: ties everywhere."""
    return rng.binomial(4, 0.3 + 0.2 * y[:, None], size=(len(y), 2)).astype(float)


def one_hot(rng, y):
    """Categories, one column for each value."""
    values = (rng.random((len(y), 4)) < 0.3 + 0.3 * y[:, None]).astype(int)
    return np.eye(2)[values].reshape(len(y), -1)


def same(rng, y):
    """All samples of a class are equal, but for a few."""
    return np.where(rng.random(len(y)) < 0.9, y, rng.normal(size=len(y)))[:, None]


def parts(rng, y):
    """Clusters of very different widths in one class."""
    width = np.where(rng.random(len(y)) < 0.1, 100.0, 0.1)
    return y[:, None] + width[:, None] * rng.normal(size=(len(y), 2))


def alike(rng, y):
    """Classes that nothing tells apart."""
    return rng.normal(size=(len(y), 2))


def wide(rng, y):
    """More features than samples."""
    return about(rng, y, 0.5, 60)


def skewed(rng, y):
    """Exponentials of Gaussians, in units that differ."""
    return np.exp(2 * about(rng, y, 0.5, 3)) * [1.0, 1e3, 1e-3]


MANY = (400, 400)  # A quarter of which reaches .01.
WORLDS = {
    "Gaussian": World(about, (200, 200, 200)),
    "Gaussian, as few as alpha needs": World(about, (40, 40)),
    "heavy tails": World(tails, MANY),
    "whole numbers, ties": World(dice, MANY),
    "one-hot, ties": World(one_hot, MANY),
    "nearly all equal": World(same, MANY),
    "a wide part in each class": World(parts, MANY, Nearest(), to_nearest),
    "classes alike": World(alike, MANY, Nearest(), to_nearest),
    "one class in eleven": World(about, (40, 400)),
    "more features than samples": World(wide, (60, 60)),
    "log-normal, naive Bayes": World(skewed, MANY, GaussianNB(), "contrast"),
    "few, nearest neighbour": World(about, (44, 60), Nearest(), to_nearest),
}


class Level(NamedTuple):
    """Share of fresh samples of a class whose p-value is at most alpha, and a test."""

    label: int
    alpha: float
    guaranteed: float
    share: float
    p_value: float


def levels(name, n_fits, seed, cv="auto"):
    """Fit so many times; return the levels of all classes that can reach them."""
    world, rng = WORLDS[name], np.random.default_rng([seed, len(name)])
    y = np.repeat(np.arange(len(world.sizes)), world.sizes)
    fresh, found = np.arange(len(world.sizes)), []
    for fit in range(n_fits):
        model = ConformalClassifier(
            world.model, nonconformity=world.nonconformity, cv=cv, random_state=fit
        ).fit(world.draw(rng, y), y)
        p = model.p_values(world.draw(rng, fresh))
        found.append(p[fresh, fresh])
    rows, found = [], np.array(found)
    for c in fresh:
        for alpha in ALPHAS:
            if alpha < 1 / (model.n_calibration_[c] + 1):
                continue
            guaranteed = 2 * alpha if len(model.estimators_) > 1 else alpha
            broken = int(np.count_nonzero(found[:, c] <= alpha))
            test = binomtest(broken, n_fits, guaranteed, alternative="greater")
            rows.append(
                Level(int(c), alpha, guaranteed, broken / n_fits, float(test.pvalue))
            )
    return rows


def print_levels(n_fits, seed, cv, names):
    """Print the largest share of each alpha; return whether a level is broken."""
    print(f"\n{n_fits} fits; share of p <= alpha, %, of the class with the largest")
    print("| distribution | " + " | ".join(f"{a}" for a in ALPHAS) + " | smallest p |")
    print("|---" * (len(ALPHAS) + 2) + "|")
    every = []
    for name in names:
        rows = levels(name, n_fits, seed, cv)
        every += rows
        cells = [
            max((100 * r.share for r in rows if r.alpha == a), default=None)
            for a in ALPHAS
        ]
        listed = " | ".join("–" if c is None else f"{c:.1f}" for c in cells)
        least = min(r.p_value for r in rows)
        print(f"| {name} | {listed} | {least:.3f} |", flush=True)
    tests = np.array([r.p_value for r in every])
    print(
        f"\n{len(tests)} exact tests, {np.count_nonzero(tests <= 0.05)} below .05 "
        f"(chance: {0.05 * len(tests):.1f}), smallest {tests.min():.4f} "
        f"(broken at {0.05 / len(tests):.4f})"
    )
    return bool(tests.min() <= 0.05 / len(tests))


def measured():
    """Measured data by name: X, y."""
    from common import data_folder

    yield "digits", *load_digits(return_X_y=True)
    for name in ("satimage", "pendigits"):
        z = np.load(data_folder() / name / f"{name}.npz")
        X = np.concatenate([z["X_train"], z["X_test"]]).astype(float)
        yield name, X, np.concatenate([z["y_train"], z["y_test"]])
    z = np.load(data_folder() / "letter" / "letter.npz")
    yield "letter", z["X"].astype(float), z["y"]


MODELS = {
    "HSS": HSSClassifier(random_state=0),
    "TVQ": TVQClassifier(random_state=0),
    "1-NN": TangentKNeighborsClassifier(tangents="none"),
    "GLVQ": GLVQClassifier(random_state=0),
}


def sets(n_splits=5):
    """Print how many sets of measured data hold the right class."""
    print("\n| data | model | held, % | worst class | rarest | size | single |")
    print("|---" * 7 + "|")
    for name, X, y in measured():
        for called, estimator in MODELS.items():
            held = {c: [] for c in np.unique(y)}
            sizes = []
            rare = next(iter(held))
            for seed in range(n_splits):
                rng = np.random.default_rng(seed)
                rows = rng.permutation(len(X))
                rows = rows[np.cumsum(y[rows] == rare) <= 160]
                rows = rows[:6000]
                A, B, a, b = train_test_split(
                    X[rows], y[rows], stratify=y[rows], test_size=0.4, random_state=seed
                )
                model = ConformalClassifier(estimator, random_state=seed).fit(A, a)
                S = model.predict_set(B)
                own = S[np.arange(len(S)), np.searchsorted(model.classes_, b)]
                sizes.append((S.sum(axis=1).mean(), (S.sum(axis=1) == 1).mean()))
                for c in held:
                    held[c] += own[b == c].tolist()
            each = {c: 100 * np.mean(h) for c, h in held.items()}
            all_ = 100 * np.mean(np.concatenate(list(held.values())))
            size, single = np.mean(sizes, axis=0)
            print(
                f"| {name} | {called} | {all_:.1f} | {min(each.values()):.1f} | "
                f"{each[rare]:.1f} | {size:.2f} | {100 * single:.0f} |",
                flush=True,
            )


def strange():
    """Print how many strangers get an empty set at alpha = .05."""
    from common import data_folder
    from rejection import drawn_letters

    print("\nEmpty sets at alpha = .05, %: contrast / distance\n")
    print("| model | digits | letters | shuffled | noise |")
    print("|---|---|---|---|---|")
    rng = np.random.RandomState(0)
    X, y = load_digits(return_X_y=True)
    A, B, a, _ = train_test_split(X, y, stratify=y, random_state=0)
    others = [drawn_letters(), B[:, rng.permutation(64)], rng.randint(0, 17, (500, 64))]
    for name in ("HSS", "TVQ", "1-NN", "GLVQ"):
        cells = [[], [], [], []]
        for how in ("contrast", "distance"):
            model = ConformalClassifier(
                MODELS[name], nonconformity=how, random_state=0
            ).fit(A, a)
            for cell, Z in zip(cells, (B, *others), strict=True):
                cell.append(100 * np.mean(~model.predict_set(Z).any(axis=1)))
        listed = " | ".join(" / ".join(f"{v:.0f}" for v in cell) for cell in cells)
        print(f"| {name} | {listed} |", flush=True)
    print("\nSpectra of one class, strangers the other sets, each put on its axis\n")
    print("| class | model | refused of its own, % | refused of other sets, % |")
    print("|---|---|---|---|")
    spectra = {}
    for name in ("fruit", "tecator", "beef", "coffee", "ham"):
        z = np.load(data_folder() / "spectra" / f"{name}.npz")
        X = z["X"] if "X" in z else np.concatenate([z["X_train"], z["X_test"]])
        # One axis of 100 points for all; mean 0 and length 1, as spectra are given.
        at = np.linspace(0, X.shape[1] - 1, 100)
        Z = np.array([np.interp(at, np.arange(X.shape[1]), x) for x in X.astype(float)])
        Z -= Z.mean(axis=1, keepdims=True)
        spectra[name] = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    for name in ("fruit", "tecator", "ham", "beef", "coffee"):
        X = spectra[name]
        A, B = train_test_split(X, random_state=0)
        others = np.concatenate([Z for other, Z in spectra.items() if other != name])
        for called, estimator in (
            ("HSS", HSSClassifier(1, n_tangents=3)),
            ("1-NN", TangentKNeighborsClassifier(tangents="none")),
        ):
            model = ConformalClassifier(estimator, one_class=True, random_state=0)
            model.fit(A, np.full(len(A), name))
            own, strangers = (
                100 * np.mean(~model.predict_set(Z).any(axis=1)) for Z in (B, others)
            )
            print(f"| {name} | {called} | {own:.0f} | {strangers:.1f} |", flush=True)


def cost(repeats=200):
    """Print the processor time of p-values beside that of predict."""
    X, y = load_digits(return_X_y=True)
    rows = np.arange(6000) % len(X)
    print("\n| model | p_values / predict | / confidence |")
    print("|---|---|---|")
    for name, estimator in MODELS.items():
        model = ConformalClassifier(estimator, random_state=0).fit(X, y)
        inner, times = model.estimator_, []
        asks = inner.predict, inner.confidence, model.p_values
        for ask in asks:
            ask(X[rows])
        for _ in range(repeats):
            spent = []
            for ask in asks:
                start = process_time()
                ask(X[rows])
                spent.append(process_time() - start)
            times.append(spent)
        predict, confidence, p = np.min(times, axis=0)
        print(f"| {name} | {p / predict:.2f} | {p / confidence:.2f} |", flush=True)


def main():
    """Print the tables; the exit status tells whether a level was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    asked, broken = options.only, False
    if asked in (None, "levels"):
        broken |= print_levels(options.fits, options.seed, "auto", WORLDS)
    if asked in (None, "folds"):
        fits = min(options.fits, 200)
        few = [n for n, w in WORLDS.items() if sum(w.sizes) <= 120]
        broken |= print_levels(fits, options.seed, "leave-one-out", few)
    for name, part in (("sets", sets), ("strange", strange), ("cost", partial(cost))):
        if asked in (None, name):
            part()
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
