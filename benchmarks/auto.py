"""What "auto" takes: prototypes, accuracy and time of a fit as samples grow.

The same distributions are drawn with 1000 to 100 000 rows. "gauss" is one Gaussian per
class, all alike; "shaped" one per class, each with a covariance of its own; "clusters"
three per class; "moons" two half circles. Accuracy is that of 20 000 other rows. SVC
stands beside up to 10 000 rows. Cells: prototypes, accuracy, CPU seconds of the fit.

Run: python benchmarks/auto.py [--rows 1000 10000] [--sets gauss] [--models GLVQ]
"""

import argparse
from time import process_time

import numpy as np
from common import machine
from sklearn.datasets import make_classification, make_moons
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from widemargin import (
    GLVQClassifier,
    GMLVQClassifier,
    HSSClassifier,
    KernelLVQClassifier,
    LVQClassifier,
    TVQClassifier,
)

ROWS = (1000, 3000, 10_000, 30_000, 100_000)
MODELS = {
    "GLVQ": GLVQClassifier,
    "GMLVQ": GMLVQClassifier,
    "LVQ": LVQClassifier,
    "kernel LVQ": KernelLVQClassifier,
    "HSS": HSSClassifier,
    "TVQ": TVQClassifier,
}
MOST_OF_SVC, ASKED = 10_000, 20_000


def gauss(n, rng, d=50, n_classes=5):
    """One Gaussian per class, of unit covariance."""
    means = 0.47 * np.random.RandomState(7).standard_normal((n_classes, d))
    y = rng.randint(0, n_classes, n)
    return means[y] + rng.standard_normal((n, d)), y


def shaped(n, rng, d=50, n_classes=5):
    """One Gaussian per class, with a covariance of its own."""
    fixed = np.random.RandomState(8)
    means = 0.62 * fixed.standard_normal((n_classes, d))
    maps = np.eye(d) + 0.12 * fixed.standard_normal((n_classes, d, d))
    y = rng.randint(0, n_classes, n)
    Z = rng.standard_normal((n, d))
    X = np.empty((n, d))
    for c in range(n_classes):
        X[y == c] = means[c] + Z[y == c] @ maps[c]
    return X, y


def clusters(n, rng, d=50, n_classes=5):
    """Three Gaussians per class."""
    X, part = gauss(n, rng, d, 3 * n_classes)
    return 1.1 * X, part % n_classes


def made(n, rng):
    """scikit-learn's make_classification: Gaussians in the corners of a cube."""
    X, y = make_classification(
        300_000, 50, n_informative=10, n_redundant=10, n_classes=5,
        n_clusters_per_class=1, class_sep=1.7, flip_y=0.02, random_state=5,
    )  # fmt: skip
    rows = rng.permutation(len(X))[:n]
    return X[rows], y[rows]


def moons(n, rng):
    """Two half circles with noise."""
    return make_moons(n, noise=0.15, random_state=rng.randint(2**31 - 1))


SETS = {f.__name__: f for f in (gauss, shaped, made, clusters, moons)}


def fitted(model, X, y):
    """Return CPU seconds of a fit."""
    start = process_time()
    model.fit(X, y)
    return process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    given = parser.parse_args()
    print(machine())
    print("| set | rows |", " | ".join(given.models), "| SVC |")
    print("|---" * (3 + len(given.models)) + "|")
    few = moons(200, np.random.RandomState(0))
    for name in given.models:
        MODELS[name]().fit(*few)
    with threadpool_limits(1):
        for name in given.sets:
            asked = SETS[name](ASKED, np.random.RandomState(99))
            for seed, n in ((s, n) for n in given.rows for s in given.seeds):
                X, y = SETS[name](n, np.random.RandomState(seed))
                row = []
                for label in given.models:
                    model = MODELS[label](random_state=0)
                    spent = fitted(model, X, y)
                    right = np.mean(model.predict(asked[0]) == asked[1])
                    row.append(f"{len(model.prototypes_)}, {right:.3f}, {spent:.2f} s")
                svc = SVC()
                row.append("–")
                if n <= MOST_OF_SVC:
                    spent = fitted(svc, X, y)
                    right = np.mean(svc.predict(asked[0][:4000]) == asked[1][:4000])
                    row[-1] = f"{right:.3f}, {spent:.2f} s"
                print(f"| {name} | {n} |", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
