"""Few labelled images: FewShotImageClassifier beside its peers, error in per cent.

`--part mnist` looks at the whole test set with the first N images of each class and
with random draws. `--part digits` has USPS and optdigits, ten labels a class. `--part
others` has sets that ship with packages or are drawn: patches of scikit-learn's
photographs, letters in fonts of Matplotlib on dark and light paper, clothes and solids
that are drawn, and scikit-learn's digits. `--part times` and `--part active` speak for
themselves. `--dev` takes queries from MNIST's training writers and no
test set.

Run: python benchmarks/few_labels.py --part mnist digits others times active [--dev]
     [--draws 5] [--other-draws 8] [--labels 5 10] [--queries N] [--jobs 2]
"""

import argparse
import os
import time
import warnings

import numpy as np
from common import data_folder, machine, print_table, train_test
from few_labels_sets import OTHERS
from papers import some_groups
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin import FewShotImageClassifier, TangentDensityClassifier
from widemargin.datasets import load_mnist, load_usps, mnist_writers
from widemargin.tangents import ImageTangents

RECIPE = {1: 17.2, 5: 4.3, 10: 2.6, 30: 1.5}


def drawn(y, n, seed):
    """Rows with `n` labels of each class; seed None is the first of each."""
    rng = None if seed is None else np.random.default_rng(seed)
    each = [np.flatnonzero(y == c) for c in np.unique(y)]
    rows = [own[:n] if rng is None else rng.choice(own, n, False) for own in each]
    return np.sort(np.concatenate(rows))


def calibration_error(P, right, bins=15):
    """Mean distance of confidence and accuracy over bins of confidence."""
    sure = P.max(axis=1)
    place = np.minimum((sure * bins).astype(int), bins - 1)
    apart = [abs((sure - right)[place == b].sum()) for b in range(bins)]
    return sum(apart) / len(sure)


def asked(model, X, y):
    """Error in per cent, calibration error, and seconds for an answer."""
    start = time.process_time()
    P = model.predict_proba(X)
    took = time.process_time() - start
    right = model.classes_[P.argmax(axis=1)] == y
    return 100 * np.mean(~right), calibration_error(P, right), took / len(X)


def peers(shape):
    """Return what the estimator is compared with."""
    return {
        "nearest": KNeighborsClassifier(1),
        "SVC": SVC(C=10),
        "tangent density": TangentDensityClassifier(tangents=ImageTangents(shape)),
    }


def mnist(dev, queries):
    """Labelled pool and queries; of held-out training writers with `dev`."""
    X, y, X_test, y_test = train_test(load_mnist)
    if dev:
        held = some_groups(mnist_writers()[: len(y)], 1 / 6)
        at = np.random.default_rng(0).permutation(np.flatnonzero(held))
        X_test, y_test, X, y = X[at], y[at], X[~held], y[~held]
    return X, y, X_test[:queries], y_test[:queries]


def mnist_part(args):
    X, y, X_test, y_test = mnist(args.dev, args.queries)
    cells = []
    for n, seeds in (
        *((n, [None]) for n in (1, 4, 10) if not args.labels),
        *((n, range(args.draws)) for n in args.labels or (1, 5, 10, 30)),
    ):
        found = []
        for seed in seeds:
            rows = drawn(y, n, seed)
            model = FewShotImageClassifier(n_jobs=args.jobs).fit(X[rows], y[rows])
            others = [
                100 * np.mean(peer.fit(X[rows], y[rows]).predict(X_test) != y_test)
                for name, peer in peers((28, 28)).items()
                if name != "tangent density"
            ]
            found.append((*asked(model, X_test, y_test), *others))
            print(f"  {n} a class, {seed}: {np.round(found[-1], 4)}", flush=True)
        errors, off, took, nearest, svc = np.transpose(found)
        told = "first" if seeds == [None] else f"{len(errors)} draws"
        spread = "" if told == "first" else f" ± {np.std(errors, ddof=1):.2f}"
        cells.append([
            f"{n}, {told}", f"{errors.mean():.2f}{spread}",
            "" if told == "first" else RECIPE[n], f"{off.mean():.3f}",
            f"{1000 * took.mean():.1f}", f"{nearest.mean():.1f}", f"{svc.mean():.1f}",
        ])  # fmt: skip
    header = ("labels a class", "error %", "recipe %", "ECE", "ms an answer",
              "nearest neighbour", "SVC")  # fmt: skip
    print_table("MNIST", header, cells)


def optdigits():
    with np.load(data_folder() / "optdigits" / "optdigits.npz") as file:
        return [file[k] for k in ("X_train", "y_train", "X_test", "y_test")]


def digits_part(args):
    cells = []
    for name, (X, y, X_test, y_test) in (
        ("USPS", train_test(load_usps)),
        ("optdigits", optdigits()),
    ):
        X, X_test = X.astype(float), X_test.astype(float)
        if args.dev:
            order = np.random.default_rng(1).permutation(len(X))
            X, y = X[order], y[order]
            X, y, X_test, y_test = X[:3000], y[:3000], X[3000:], y[3000:]
        X_test, y_test = X_test[: args.queries], y_test[: args.queries]
        given = X, y, X_test, y_test, (*[int(X.shape[1] ** 0.5)] * 2,)
        cells.append([name, *compared([given] * DIGIT_DRAWS, 10)])
    print_table("Ten labels a class", HEADER, cells)


# Draws of labels of USPS and optdigits.
DIGIT_DRAWS = 10
HEADER = ("set", "labels a class", "few-shot %", "less the best of them", "ECE",
          "nearest", "SVC", "tangent density", "ink", "heaviest member")  # fmt: skip


def compared(problems, n):
    """Mean errors of the estimator and its peers over draws of labels.

    The difference is that of pairs, with the peer that is best in the mean, and has its
    standard error.
    """
    found, ink, members = [], [], {}
    for seed, (X, y, X_test, y_test, shape) in enumerate(problems):
        rows = drawn(y, n, seed)
        model = FewShotImageClassifier(shape).fit(X[rows], y[rows])
        ours = asked(model, X_test, y_test)[:2]
        theirs = [
            100 * np.mean(peer.fit(X[rows], y[rows]).predict(X_test) != y_test)
            for peer in peers(shape).values()
        ]
        found.append([*ours, *theirs])
        ink.append(model.ink_)
        told = model.members_[model.weights_.argmax()]
        members[told] = members.get(told, 0) + 1
    found = np.array(found)
    error, off, *others = found.mean(axis=0)
    spread = np.std(found[:, 0], ddof=1)
    less = found[:, 0] - found[:, 2 + np.argmin(others)]
    apart = f"{less.mean():+.1f} ± {np.std(less, ddof=1) / len(less) ** 0.5:.1f}"
    told = " ".join(f"{k}:{v}" for k, v in members.items())
    row = [n, f"{error:.1f} ± {spread:.1f}", apart, f"{off:.3f}",
           *(f"{v:.1f}" for v in others), f"{sum(ink)}/{len(ink)}", told]  # fmt: skip
    print("  ", row, flush=True)
    return row


def halves(load, seed, queries):
    """Half of a set to draw labels from, and some of the other half to ask about."""
    X, y, shape = load(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    pool, new = order[: len(X) // 2], order[len(X) // 2 :][:queries]
    return X[pool], y[pool], X[new], y[new], shape


def others_part(args):
    cells, seeds = [], 100 * args.dev + np.arange(args.other_draws)
    for name, load in OTHERS.items():
        problems = [halves(load, seed, args.queries or 200) for seed in seeds]
        for n in (1, 3, 10):
            print(name, flush=True)
            cells.append([name, *compared(problems, n)])
    print_table("Other sets", HEADER, cells)


def times_part(args):
    """Seconds of processor time, warm; wall time is shorter with more threads."""
    X, y, X_test, _ = mnist(True, args.queries or 1000)
    cells = []
    FewShotImageClassifier().fit(X[:100], y[:100]).predict(X_test[:2])
    for n in (1, 10, 30):
        rows = drawn(y, n, 0)
        start = time.process_time()
        model = FewShotImageClassifier().fit(X[rows], y[rows])
        fit = time.process_time() - start
        single = []
        for i in range(5):
            start = time.process_time()
            model.predict(X_test[i : i + 1])
            single.append(time.process_time() - start)
        start = time.process_time()
        model.predict(X_test)
        many = (time.process_time() - start) / len(X_test) * 10_000
        one = 1000 * np.median(single)
        cells.append([10 * n, f"{fit:.2f}", f"{one:.1f}", f"{many:.1f}"])
    print_table(
        "MNIST, processor time",
        ("labels", "fit, s", "one answer, ms", "10 000 answers, s"), cells,
    )  # fmt: skip


def active_part(args):
    """Labels chosen by `suggest`, ten a round, beside labels drawn at random."""
    X, y, X_test, y_test = mnist(True, args.queries or 1000)
    found = {"suggested": [], "random": []}
    for seed in range(args.draws):
        rng = np.random.default_rng(100 + seed)
        pool = rng.choice(len(y), 1500, replace=False)
        for kind, errors in found.items():
            rows, errors_of_run = drawn(y[pool], 1, seed), []
            for step in range(7):
                model = FewShotImageClassifier().fit(X[pool][rows], y[pool][rows])
                if step in (0, 2, 4, 6):
                    errors_of_run.append(asked(model, X_test, y_test)[0])
                rest = np.setdiff1d(np.arange(len(pool)), rows)
                new = rng.choice(len(rest), 10, replace=False)
                if kind == "suggested":
                    new = model.suggest(X[pool][rest], 10)
                rows = np.concatenate([rows, rest[new]])
            errors.append(errors_of_run)
            print("  ", seed, kind, np.round(errors_of_run, 2), flush=True)
    cells = [
        [kind, *(f"{error:.2f}" for error in np.mean(errors, axis=0))]
        for kind, errors in found.items()
    ]
    header = ("labels", *(str(10 * k) for k in (1, 3, 5, 7)))
    print_table("MNIST's training writers, error by number of labels", header, cells)


PARTS = {
    "active": active_part,
    "mnist": mnist_part,
    "digits": digits_part,
    "others": others_part,
    "times": times_part,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--dev", action="store_true")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--other-draws", type=int, default=8)
    parser.add_argument("--labels", type=int, nargs="+", help="MNIST's draws alone")
    parser.add_argument("--queries", type=int)
    parser.add_argument("--jobs", type=int)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["WIDEMARGIN_DATA"] = str(data_folder())
    print(machine())
    for part in args.part:
        PARTS[part](args)


if __name__ == "__main__":
    main()
