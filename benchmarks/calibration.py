"""Mean probability of the answer beside the share of right ones, on six kinds of data.

Every classifier with ``predict_proba`` at its defaults, its log loss, and milliseconds
of a fit. The gap is the mean over the seeds, with its standard error; a row is beyond
the bar where this mean is. Choices were made on seeds below 200, reports on those up to
311. ``--json FILE`` keeps the numbers, and goes on where it was ended; ``--before
FILE`` compares with them.

    python benchmarks/calibration.py --seeds 312 313 314 315
"""

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import machine, print_table
from sklearn.metrics import pairwise_distances

import widemargin as wm

FRESH, FLOOR = 3000, 1e-15
# Most that both numbers may be apart, from FEW training samples on, and below.
FEW, BARS = 200, (0.08, 0.05)
squares = partial(pairwise_distances, metric="sqeuclidean")


def gaussians(rng, n, d, shares, apart, spread=1.0):
    """Return a sampler of Gaussian classes about random centres."""
    centres = apart * rng.normal(size=(len(shares), d))
    shares = np.array(shares) / np.sum(shares)

    def draw(m):
        y = rng.choice(len(shares), m, p=shares)
        return centres[y] + spread * rng.normal(size=(m, d)), y

    return draw(n), draw


def imbalanced(rng):
    """One class of 2 %, one of 12 %, overlapping."""
    return gaussians(rng, 1000, 10, [86, 12, 2], 0.45)


def hundred(rng):
    """Draw a hundred classes of twenty samples each."""
    return gaussians(rng, 2000, 20, [1] * 100, 1.0)


def duplicated(rng):
    """Rows that are there one to eight times."""
    (X, y), draw = gaussians(rng, 250, 10, [5, 3, 2], 0.6)
    rows = rng.permutation(np.repeat(np.arange(250), rng.integers(1, 9, 250)))
    return (X[rows], y[rows]), draw


def wide(rng):
    """Features by far more than samples, three unequal classes."""
    return gaussians(rng, 267, 1500, [6, 3, 2], 0.075)


def one_hot(rng):
    """Categories, one column for each value, as sparse rows."""
    n_features, n_values, n_classes = 12, 8, 3
    P = rng.dirichlet(np.full(n_values, 0.9), size=(n_classes, n_features))
    P = 0.35 * P + 0.65 * P.mean(axis=0)
    edges = P.cumsum(axis=2)[..., :-1]

    def draw(m):
        y = rng.choice(n_classes, m, p=[0.5, 0.3, 0.2])
        values = (rng.random((m, n_features, 1)) > edges[y]).sum(axis=2)
        columns = values + n_values * np.arange(n_features)
        rows = np.repeat(np.arange(m), n_features)
        cells = np.ones(m * n_features), (rows, columns.ravel())
        return sp.csr_matrix(cells, shape=(m, n_values * n_features)), y

    return draw(1000), draw


def mixed_units(rng):
    """Units from a thousandth to a million, one heavy-tailed feature in four."""
    _, plain = gaussians(rng, 1, 12, [4, 3, 3], 0.6)
    units = 10.0 ** rng.integers(-3, 7, 12)

    def draw(m):
        X, y = plain(m)
        X[:, ::4] = np.exp(X[:, ::4])
        return X * units, y

    return draw(600), draw


KINDS = {
    "imbalanced": imbalanced,
    "100 classes": hundred,
    "duplicated": duplicated,
    "wide": wide,
    "one-hot": one_hot,
    "mixed units": mixed_units,
}
MODELS = {
    "LVQ": lambda: wm.LVQClassifier(random_state=0),
    "Margin LVQ": lambda: wm.MarginLVQClassifier(random_state=0),
    "GLVQ": lambda: wm.GLVQClassifier(random_state=0),
    "GLVQ rslvq": lambda: wm.GLVQClassifier(loss="rslvq", random_state=0),
    "GLVQ entropy": lambda: wm.GLVQClassifier(loss="cross_entropy", random_state=0),
    "GMLVQ": lambda: wm.GMLVQClassifier(random_state=0),
    "GMLVQ diagonal": lambda: wm.GMLVQClassifier(metric="diagonal", random_state=0),
    "Kernel LVQ": lambda: wm.KernelLVQClassifier(random_state=0),
    "Relational LVQ": lambda: wm.RelationalLVQClassifier(
        metric=squares, random_state=0
    ),
    "TVQ": lambda: wm.TVQClassifier(random_state=0),
    "HSS": lambda: wm.HSSClassifier(random_state=0),
    "TD-Neuron": lambda: wm.TDNeuronClassifier(random_state=0),
    "1 neighbour": lambda: wm.TangentKNeighborsClassifier(tangents="none"),
    "5 neighbours": lambda: wm.TangentKNeighborsClassifier(5, tangents="none"),
    "density": lambda: wm.DensityClassifier(random_state=0),
    "tangent density": lambda: wm.TangentDensityClassifier(
        tangents="none", random_state=0
    ),
    "TangentSVC": lambda: wm.TangentSVC(tangents="none", probability=True),
    "Invariant": lambda: wm.InvariantHyperplaneSVC(tangents="none"),
    "Invariant rbf": lambda: wm.InvariantHyperplaneSVC(tangents="none", kernel="rbf"),
    "MaxMargin": lambda: wm.MaxMarginClassifier(random_state=0),
    "MaxMargin rbf": lambda: wm.MaxMarginClassifier(kernel="rbf", random_state=0),
    "Perceptron": lambda: wm.MarginPerceptron(random_state=0),
    "Fixed margin": lambda: wm.FixedMarginPerceptron(random_state=0),
    "product": lambda: wm.ProductClassifier(
        [("a", wm.GLVQClassifier(random_state=0)), ("b", wm.MaxMarginClassifier())]
    ),
    "re-weighting": lambda: wm.MarginReweightingClassifier(
        wm.GLVQClassifier(random_state=0)
    ),
}


def measure(model, kind, seed):
    """Probability of the answer, share of right ones, log loss, seconds, samples."""
    rng = np.random.default_rng([seed, sorted(KINDS).index(kind)])
    (X, y), draw = KINDS[kind](rng)
    Z, z = draw(FRESH)
    model = MODELS[model]()
    if sp.issparse(X) and not model._sparse:
        X, Z = X.toarray(), Z.toarray()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(X, y)
        took = time.process_time() - start
        P = model.predict_proba(Z)
    place = np.searchsorted(model.classes_, z)
    own = np.maximum(P[np.arange(len(z)), place], FLOOR)
    said, right = P.max(axis=1).mean(), (P.argmax(axis=1) == place).mean()
    return [float(said), float(right), float(-np.log(own).mean()), took, X.shape[0]]


def gap_of(runs):
    """Mean of said less right over the seeds, and its standard error."""
    gaps = runs[:, 0] - runs[:, 1]
    if len(gaps) < 2:
        return gaps.mean(), np.nan
    return gaps.mean(), gaps.std(ddof=1) / np.sqrt(len(gaps))


def row_of(model, runs, old=None):
    """Return the cells of a model, and whether its mean gap is beyond the bar."""
    said, right, loss, _, n = runs.mean(axis=0)
    gap, error = gap_of(runs)
    missed = bool(abs(gap) > BARS[int(n >= FEW)])
    text = f"**{gap:+.3f}**" if missed else f"{gap:+.3f}"
    row = [model, f"{said:.3f}", f"{right:.3f}", text, f"{error:.3f}"]
    row += [f"{loss:.3f}", f"{1e3 * runs[:, 3].min():.0f}"]
    if old is not None:
        ratio = runs[:, 3].min() / old[:, 3].min()
        row += [f"{gap_of(old)[0]:+.3f}", f"{old[:, 2].mean():.3f}", f"{ratio:.2f}"]
    return row, missed


def main():
    """Print one table for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[312, 313, 314, 315])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--before", type=Path)
    asked = parser.parse_args()
    before = json.loads(asked.before.read_text()) if asked.before else {}
    known = asked.json is not None and asked.json.exists()
    every, misses, count = json.loads(asked.json.read_text()) if known else {}, 0, 0
    print(machine())
    for kind in asked.kinds:
        rows = []
        for model in asked.models:
            name = f"{kind}/{model}"
            found = every.setdefault(name, {})
            for seed in asked.seeds:
                if str(seed) not in found:
                    found[str(seed)] = measure(model, kind, seed)
                    if asked.json:
                        asked.json.write_text(json.dumps(every))
            runs = np.array([found[str(seed)] for seed in asked.seeds])
            old = np.array(list(before[name].values())) if name in before else None
            row, missed = row_of(model, runs, old)
            rows.append(row)
            misses, count = misses + missed, count + 1
        header = ["model", "said", "right", "gap", "± error", "log loss", "fit ms"]
        if before:
            header += ["gap before", "log loss", "fit / before"]
        print_table(kind, header, rows)
    print(f"\n{misses} of {count} beyond the bar")


if __name__ == "__main__":
    main()
