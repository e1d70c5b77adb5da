"""Do tangents make a default worse than none? On drawn and measured spectra, signals.

Every classifier is fitted with its defaults, with the tangents that the how-to pages
recommend and without, on few labelled spectra (drawn: multiplicative scatter, offset,
slope, curvature and shift; measured: gain and baseline) and on measured signals (shift,
scale, offset, slope; their own splits). Bars: nowhere at chance, which is where most
answers are wrong and more than without tangents; nowhere more than 1.05 times the error
without tangents, by more than chance does to a paired difference (1.64 deviations).

With --parts the sets are thirds of the training samples, left out so many times: what
rules are decided on.

Run: python benchmarks/tangents_hurt.py [--only spectra] [--parts 8]
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from common import data_folder, machine, print_table

from widemargin import (
    HSSClassifier,
    TangentDensityClassifier,
    TangentKNeighborsClassifier,
    TangentSVC,
    TVQClassifier,
)
from widemargin.tangents import SignalTangents, TransformTangents

MODELS = {
    "k-NN": lambda t: TangentKNeighborsClassifier(tangents=t),
    "density": lambda t: TangentDensityClassifier(tangents=t),
    "SVC": lambda t: TangentSVC(tangents=t, random_state=0),
    "TVQ": lambda t: TVQClassifier(random_state=0, **two_sided(t)),
    "HSS": lambda t: HSSClassifier(random_state=0, **two_sided(t)),
}
GAIN = SignalTangents(["amplitude", "offset", "slope", "curvature"])
MOVES = SignalTangents(["shift", "scale", "offset", "slope"])
# More wrong than this beside the error without tangents, and by chance alone.
WORSE, CHANCE = 1.05, 1.64


def two_sided(tangents):
    return {} if tangents == "none" else {"sides": "both", "tangents": tangents}


def scatter(X, p):
    return X * np.exp(p)


def offset(X, p):
    return X + p


def slope(X, p):
    return X + p * np.linspace(-1, 1, X.shape[1])


def curvature(X, p):
    return X + p * np.linspace(-1, 1, X.shape[1]) ** 2


def shift(X, p):
    at = np.arange(X.shape[1])
    return np.array([np.interp(at + p, at, row) for row in X])


def drawn(seed, per_class, n_features=120):
    """Spectra of three substances, as an instrument and a powder disturb them."""
    pure = np.random.default_rng(7)
    heights = pure.uniform(0.2, 0.8, size=6) + pure.normal(0, 0.06, size=(3, 6))
    rng, w = np.random.default_rng(seed), np.linspace(0, 1, n_features)
    bands, X = np.array([0.1, 0.25, 0.42, 0.55, 0.7, 0.88]), []
    for own in np.repeat(heights, per_class, axis=0):
        at = (w[:, None] - rng.normal(0, 0.006) - bands) / 0.04
        x = 0.3 + np.exp(-(at**2) / 2) @ rng.normal(own, 0.012)
        baseline = rng.normal(0, 0.2, 3) @ w ** np.arange(3)[:, None]
        noise = rng.normal(0, 0.004, n_features)
        X.append(x * np.exp(rng.normal(0, 0.25)) + baseline + noise)
    return np.array(X), np.repeat(np.arange(3), per_class)


def few_of(X, y, per_class, seed):
    """Split off so many samples of every class."""
    order = np.random.default_rng(seed).permutation(len(y))
    train = np.concatenate([order[y[order] == c][:per_class] for c in np.unique(y)])
    test = np.setdiff1d(order, train)
    return X[train], y[train], X[test], y[test]


def spectra(folder):
    """Names and parts, training samples first, with tangents."""
    own = TransformTangents([scatter, offset, slope, curvature, shift])
    for seed in range(3):
        yield f"drawn {seed}", (*drawn(seed, 6), *drawn(100 + seed, 200)), own
    for name in ("beef", "coffee", "ham"):
        yield name, parts_of(folder / f"spectra/{name}.npz"), GAIN
    for name in ("tecator", "fruit"):
        with np.load(folder / f"spectra/{name}.npz") as file:
            X, y = file["X"], file["y"]
        for per_class in (5, 20):
            yield f"{name}, {per_class} a class", few_of(X, y, per_class, 0), GAIN


def signals(folder):
    """As :func:`spectra`, of at most a thousand test samples."""
    for path in sorted((folder / "signals").glob("*.npz")):
        yield path.stem, parts_of(path), MOVES


def parts_of(path):
    with np.load(path) as file:
        parts = [file[name] for name in ("X_train", "y_train", "X_test", "y_test")]
    return (*parts[:2], parts[2][:1000], parts[3][:1000])


def split(X, y, seed):
    """Leave out a third of every class."""
    order, held = np.random.RandomState(seed).permutation(len(y)), []
    for c in np.unique(y):
        own = order[y[order] == c]
        held.extend(own[: max(1, len(own) // 3) if len(own) > 1 else 0])
    rest = np.setdiff1d(np.arange(len(y)), held)
    return X[rest], y[rest], X[held], y[held]


def judged(model, parts, tangents):
    """Which answers are wrong with tangents, and which without."""
    wrong = []
    for given in (tangents, "none"):
        found = [MODELS[model](given).fit(X, y).predict(Z) != t for X, y, Z, t in parts]
        wrong.append(np.concatenate(found))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["spectra", "signals"])
    parser.add_argument("--parts", type=int, default=0)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds = {"spectra": spectra, "signals": signals}
    kinds = {args.only: kinds[args.only]} if args.only else kinds
    print(machine())
    at_chance, worse = [], []
    for kind, sets in kinds.items():
        rows, errors = [], []
        for name, given, tangents in sets(Path(data_folder())):
            parts = [split(*given[:2], seed) for seed in range(args.parts)] or [given]
            labels = np.concatenate([part[3] for part in parts])
            row = [name, len(parts[0][0])]
            for model in args.models:
                found, without = judged(model, parts, tangents)
                wrong = 100 * found.mean(), 100 * without.mean()
                errors.append(wrong)
                row.append("{:.1f} / {:.1f}".format(*wrong))
                chance = 100 * (1 - np.bincount(labels).max() / len(labels))
                if wrong[0] > max(0.9 * chance, wrong[1] + 2):
                    at_chance.append(f"{model} on {name}")
                gain = found.astype(float) - without
                # The same samples are asked in several parts.
                noise = np.sqrt((gain**2).sum() * max(1, args.parts / 3))
                if wrong[0] > WORSE * wrong[1]:
                    worse.append((gain.sum() / noise, f"{model} on {name}"))
            rows.append(row)
        means = np.reshape(errors, (len(rows), -1, 2)).mean(axis=0)
        rows.append(["mean", "", *("{:.1f} / {:.1f}".format(*m) for m in means)])
        title = f"Errors with / without tangents, {kind} (%)"
        print_table(title, [kind, "labels", *args.models], rows)
    print(f"\nat chance by tangents: {at_chance or 'none'}; bar none")
    print(f"more than {WORSE} times the error without, and by how many deviations:")
    print(", ".join(f"{name} {z:.1f}" for z, name in sorted(worse)[::-1]) or "none")
    print(f"beyond chance: {sum(z > CHANCE for z, _ in worse)}; bar none")


if __name__ == "__main__":
    main()
