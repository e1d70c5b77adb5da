"""Maximum margin hyperplanes against scikit-learn and LIBLINEAR, side by side.

    python benchmarks/linear.py [--quick] [--only NAME ...]

All systems run in this process, on one thread; a time is the median of repeats after
a first call that is not counted. Peers solve for a price C and a tolerance, not for a
margin, so that each is run over a grid and given its best: with m the largest margin of
a peer that does not exceed ours, the peer's time is the smallest over all its settings
with margin m or more. Its hyperplane gets the best bias before the margin is measured.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from copy import deepcopy

import numpy as np
import scipy.sparse as sp
from common import calibration_error, data_home, print_table, train_test
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from widemargin._core.temperature import LeftOut
from widemargin.datasets import load_letter, load_satimage
from widemargin.linear import (
    FixedMarginPerceptron,
    MarginPerceptron,
    MaxMarginClassifier,
)
from widemargin.svm import InvariantHyperplaneSVC

try:
    from liblinear.liblinearutil import parameter, problem, train
except ImportError:
    train = None

warnings.simplefilter("ignore", ConvergenceWarning)
QUICK = False


def median_time(action, repeats):
    """Median of the seconds `action` takes, and what it returned last.

    Everything runs on one thread, so that the time of this process on the processor is
    the time on the wall, less what other processes take away. Long runs repeat less.
    """
    times, result = [], None
    while len(times) < (1 if QUICK else repeats) and sum(times) < 4.0:
        begin = time.process_time()
        result = action()
        times.append(time.process_time() - begin)
    return float(np.median(times)), result


def in_turn(actions, repeats):
    """Smallest and median seconds of actions, in turn beside the same other work."""
    times = [[] for _ in actions]
    for _ in range(3 if QUICK else repeats):
        for action, taken in zip(actions, times, strict=True):
            taken.append(median_time(action, 1)[0])
    return [(min(taken), float(np.median(taken))) for taken in times]


def separable(n, d, gap=0.1, seed=0):
    """Gaussian cloud cut by a random plane, the halves moved apart by 2 `gap`."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    u = rng.normal(size=d)
    u /= np.linalg.norm(u)
    signs = np.where(X @ u > 0.3, 1.0, -1.0)
    return X + gap * signs[:, None] * u, signs


def text_like(n, d, entries=60, seed=0):
    """Rows of unit length with few, heavy-tailed entries, as word counts have."""
    rng = np.random.default_rng(seed)
    columns = np.minimum((d * rng.random((n, entries)) ** 3).astype(int), d - 1)
    values = rng.lognormal(size=(n, entries))
    rows = np.repeat(np.arange(n), entries)
    X = sp.csr_matrix((values.ravel(), (rows, columns.ravel())), shape=(n, d))
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sp.csr_matrix(sp.diags(1 / lengths) @ X)
    return X, np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)


def margin_of(w, X, signs):
    scores = X @ w
    return (scores[signs > 0].min() - scores[signs < 0].max()) / 2 / np.linalg.norm(w)


def linear_svc_runs(X, signs, grid, repeats):
    for dual, C, tol in grid:
        model = LinearSVC(C=C, tol=tol, dual=dual, max_iter=5000, random_state=0)
        seconds, _ = median_time(lambda m=model: m.fit(X, signs), repeats)
        yield seconds, margin_of(model.coef_[0], X, signs)


def liblinear_runs(X, signs, grid, repeats):
    if train is None:
        return
    for dual, C, tol in grid:
        options = parameter(f"-s {1 if dual else 2} -c {C} -e {tol} -B 1 -q")

        def run(options=options):
            # Building the problem is part of the work, as it is for the others.
            return train(problem(signs, sp.csr_matrix(X)), options)

        seconds, model = median_time(run, repeats)
        w = np.array(model.get_decfun()[0])
        w *= 1.0 if model.get_labels()[0] == 1 else -1.0
        yield seconds, margin_of(w, X, signs)


def peer_time(runs, ours):
    """(seconds, margin) of a peer at its best, as the module docstring defines it."""
    runs = [run for run in runs if np.isfinite(run[1])]
    below = [margin for _, margin in runs if margin <= ours]
    target = max(below) if below else -np.inf
    return min(run for run in runs if run[1] >= target)


def row(name, seconds, margin, upper, ratio="", bar=""):
    share = margin / upper
    print(f"  {name:<26}{seconds * 1e3:>10.1f} ms{share:>10.4%}  {ratio:>8}  {bar}")


def against_peers(X, signs, tol, grid, repeats, bars, reference):
    """One table: ours, LinearSVC, liblinear-official."""
    model = MaxMarginClassifier(C=np.inf, tol=tol)
    model.fit(X, signs)
    seconds, _ = median_time(lambda: model.fit(X, signs), repeats)
    print(f"  {'':<26}{'time':>13}{'of best':>10}  {'ratio':>8}  bar")
    row("widemargin", seconds, model.margin_, reference)
    print(f"    certified: gap {model.gap_:.2e} ({len(model.support_)} supports)")
    peers = {"LinearSVC": linear_svc_runs, "liblinear-official": liblinear_runs}
    for (name, runs), bar in zip(peers.items(), bars, strict=True):
        if name == "liblinear-official" and train is None:
            print(f"  {name:<26} absent (pip install liblinear-official)")
            continue
        found = list(runs(X, signs, grid, max(1, repeats // 3)))
        peer, margin = peer_time(found, model.margin_)
        row(name, peer, margin, reference, f"{seconds / peer:.2f}", bar)


def bench_dense():
    X, signs = separable(2_000 if QUICK else 20_000, 50)
    best = MaxMarginClassifier(C=np.inf, tol=1e-9).fit(X, signs).margin_
    grid = [
        (dual, C, tol)
        for dual in (True, False)
        for C in (1e1, 1e3, 1e5)
        for tol in (1e-1, 1e-2, 1e-3, 1e-4)
    ]
    if QUICK:
        grid = grid[::5]
    for tol in (1e-2, 1e-3):
        print(f"\ndense {X.shape}, separable, certified {1 - tol:.1%}")
        against_peers(X, signs, tol, grid, 9, ("<= 0.5", "<= 1"), best)


def bench_sparse():
    X, signs = text_like(*((2_000, 5_000) if QUICK else (20_000, 50_000)))
    best = MaxMarginClassifier(C=np.inf, tol=1e-4).fit(X, signs).margin_upper_bound_
    grid = [(True, C, tol) for C in (1e2, 1e3, 1e5) for tol in (0.1, 0.05, 0.02, 0.01)]
    print(f"\nsparse {X.shape}, {X.nnz} entries, certified 99 %")
    against_peers(X, signs, 1e-2, grid, 3, ("<= 1.5", "-"), best)


def bench_digits():
    X, y = load_digits(return_X_y=True)
    pairs = [(a, b) for a in range(10) for b in range(a + 1, 10)]
    parts = [(X[(y == a) | (y == b)], y[(y == a) | (y == b)]) for a, b in pairs]
    ours = MaxMarginClassifier(C=np.inf, tol=1e-3, multiclass="ovo")
    svc = SVC(kernel="linear", C=1e6)
    runs = {
        "one fit of all pairs": (lambda: ours.fit(X, y), lambda: svc.fit(X, y)),
        "and a probability": (
            lambda: ours.fit(X, y).predict_proba(X[:1]),
            lambda: svc.fit(X, y),
        ),
        "45 separate fits": (
            lambda: [ours.fit(*part) for part in parts],
            lambda: [svc.fit(*part) for part in parts],
        ),
    }
    print("\nall 45 pairs of scikit-learn's digits, certified 99.9 %, bar of a fit 0.5")
    for name, (first, second) in runs.items():
        first(), second()
        (best, middle), (peer, peers) = in_turn((first, second), 40)
        print(f"  {name:<22} widemargin {best * 1e3:6.1f} ms   SVC(linear, C=1e6) "
              f"{peer * 1e3:6.1f} ms   ratio {best / peer:.2f}, of medians "
              f"{middle / peers:.2f}")  # fmt: skip
    gap = ours.fit(X, y).gap_.max()
    shares = [
        margin_of(svc.fit(P, q).coef_[0], P, np.where(q == max(q), 1.0, -1.0)) / best
        for (P, q), best in zip(parts, ours.margin_, strict=True)
    ]
    print(f"  largest certified gap {gap:.1e}; SVC's margins are at least "
          f"{min(shares):.4f} of ours")  # fmt: skip


def bench_sonar():
    path = data_home() / "sonar" / "sonar.npz"
    if not path.exists():
        print(f"\nsonar: skipped, {path} is absent")
        return
    with np.load(path, allow_pickle=True) as stored:
        X, y = stored["X"], stored["y"]
    signs = np.where(y == np.unique(y)[1], 1.0, -1.0)
    model = MaxMarginClassifier(C=np.inf, tol=1e-3)
    model.fit(X, signs)
    seconds, _ = median_time(lambda: model.fit(X, signs), 9)
    print(f"\nsonar, raw, {X.shape}")
    row("widemargin", seconds, model.margin_, model.margin_upper_bound_, "", ">= 99 %")
    print(
        f"    certified margin {model.margin_:.6g} <= {model.margin_upper_bound_:.6g}"
    )
    for name, peer in (
        ("LinearSVC(C=1e6)", LinearSVC(C=1e6, max_iter=100_000, random_state=0)),
        ("SVC(linear, C=1e6)", SVC(kernel="linear", C=1e6, max_iter=10_000_000)),
    ):
        peer_seconds, _ = median_time(lambda p=peer: p.fit(X, signs), 1)
        margin = margin_of(peer.coef_[0], X, signs)
        row(name, peer_seconds, margin, model.margin_upper_bound_)


def objective(w, b, X, signs, C):
    slack = np.maximum(0.0, 1.0 - signs * (X @ w + b))
    return 0.5 * (w @ w + b * b) + C * slack @ slack


def bench_soft():
    for name, d in (("a9a", 123), ("w8a", 300)):
        path = data_home() / name / f"{name}.bz2"
        if not path.exists():
            print(f"\n{name}: skipped, {path} is absent")
            continue
        X, y = load_svmlight_file(str(path), n_features=d)
        X_test, y_test = load_svmlight_file(
            str(path.with_name(f"{name}.t.bz2")), n_features=d
        )
        for matrix in (X, X_test):
            # LinearSVC refuses the 64-bit indices that the loader returns.
            matrix.indices = matrix.indices.astype(np.int32)
            matrix.indptr = matrix.indptr.astype(np.int32)
        for C in (0.1, 1.0):
            soft_table(name, X, y, X_test, y_test, C)


def soft_table(name, X, y, X_test, y_test, C):
    model = MaxMarginClassifier(
        C=C, intercept_scaling=1.0, penalize_intercept=True, tol=2.5e-4
    )
    model.fit(X, y)
    seconds, _ = median_time(lambda: model.fit(X, y), 5)
    w = model.coef_[0] * model.weight_norm_[0]
    b = model.intercept_[0] * model.weight_norm_[0]
    ours = objective(w, b, X, y, C)
    accuracy = np.mean(model.predict(X_test) == y_test)
    print(f"\n{name} {X.shape}, soft margin C = {C:g}, bias penalised (rho = 1)")
    print(f"  {'widemargin':<34}{seconds * 1e3:8.1f} ms  P = {ours:.4f}  "
          f"gap {model.gap_:.1e}  accuracy {accuracy:.4f}")  # fmt: skip
    runs = []
    # LIBLINEAR's descent in the dual needs seconds where C is large; one run tells.
    for dual, repeats in ((True, 1), (False, 5)):
        for tol in (1e-1, 1e-2, 1e-3, 1e-4):
            peer = LinearSVC(C=C, tol=tol, dual=dual, max_iter=1000, random_state=0)
            taken, _ = median_time(lambda p=peer: p.fit(X, y), repeats)
            value = objective(peer.coef_[0], peer.intercept_[0], X, y, C)
            runs.append((taken, value, f"LinearSVC(dual={dual}, tol={tol:g})", peer))
    lowest = min(value for _, value, _, _ in runs)
    good = [run for run in runs if run[1] <= 1.001 * lowest]
    for label, run in (
        ("fastest within 0.1 %", min(good, key=lambda run: run[0])),
        ("default", next(r for r in runs if "dual=False, tol=0.0001" in r[2])),
    ):
        taken, value, setting, peer = run
        right = np.mean(peer.predict(X_test) == y_test)
        print(f"  {setting:<34}{taken * 1e3:8.1f} ms  P = {value:.4f}  "
              f"accuracy {right:.4f}  ({label})")  # fmt: skip
        print(f"    ratio {seconds / taken:.2f} (bar <= 2), P over LIBLINEAR's lowest "
              f"{ours / lowest - 1:+.5%} (bar <= 0.1 %)")  # fmt: skip


def bench_growth():
    sizes = (1_000, 3_000, 10_000) if QUICK else (10_000, 30_000, 100_000, 300_000)
    sizes += () if QUICK else (1_000_000,)
    print("\ntime against n, d = 20, hard margin (gap of the classes 0.2)")
    print(f"  {'n':>9}{'dual 99.9 %':>14}{'us/sample':>11}{'dynamic 70 %':>14}"
          f"{'us/sample':>11}")  # fmt: skip
    logs = []
    for n in sizes:
        X, signs = separable(n, 20, gap=0.2)
        exact = MaxMarginClassifier(C=np.inf, tol=1e-3).fit(X, signs)
        a, _ = median_time(lambda m=exact, X=X, s=signs: m.fit(X, s), 3)
        rough = MaxMarginClassifier("dynamic", C=np.inf, tol=0.3, random_state=0)
        b, _ = median_time(lambda m=rough, X=X, s=signs: m.fit(X, s), 3)
        logs.append((n, a, b))
        print(f"  {n:>9}{a:>12.3f} s{a / n * 1e6:>11.2f}{b:>12.3f} s"
              f"{b / n * 1e6:>11.2f}")  # fmt: skip
    n, a, b = np.log(np.array(logs)).T
    print(f"  exponent of n: dual {np.polyfit(n, a, 1)[0]:.2f}, "
          f"dynamic {np.polyfit(n, b, 1)[0]:.2f}")  # fmt: skip


def bench_classes():
    print("\nclasses of 20 samples in 30 features, all pairs, soft margins, defaults")
    for k in (20, 50) if QUICK else (50, 100, 200):
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(k), 20)
        X = 1.5 * rng.normal(size=(k, 30))[y] + rng.normal(size=(len(y), 30))
        model = MaxMarginClassifier()
        seconds, _ = median_time(lambda m=model, X=X, y=y: m.fit(X, y), 3)
        both, _ = median_time(
            lambda m=model, X=X, y=y: m.fit(X, y).predict_proba(X[:1]), 3
        )
        peer = SVC(kernel="linear")
        others, _ = median_time(lambda p=peer, X=X, y=y: p.fit(X, y), 3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  {k:>4} classes {seconds:8.2f} s, with a probability {both:6.2f} s   "
              f"SVC {others:6.2f} s   largest gap {model.gap_.max():.1e}   "
              f"{peak:6.0f} MB at most so far")  # fmt: skip


FIRST = """
import time, warnings
from sklearn.datasets import load_iris
import sklearn.svm
warnings.simplefilter("ignore")
begin = time.process_time()
from widemargin.linear import *
X, y = load_iris(return_X_y=True)
X, y = X[:100], y[:100]
{}.fit(X, y).predict(X)
print(time.process_time() - begin)
"""


def bench_first():
    print("\nfirst fit and answers of iris in a new process, nothing compiled before")
    for model in (
        "MaxMarginClassifier()",
        "MaxMarginClassifier(C=float('inf'))",
        "MaxMarginClassifier(C=float('inf'), kernel='rbf')",
        "MarginPerceptron()",
    ):
        with tempfile.TemporaryDirectory() as empty:
            taken = subprocess.run(
                [sys.executable, "-c", FIRST.format(model)], check=True,
                capture_output=True, text=True,
                env={**os.environ, "NUMBA_CACHE_DIR": empty},
            ).stdout  # fmt: skip
        print(f"  {model:<52}{float(taken):6.2f} s of processor time")


def gaussians(n, d, seed):
    """Two classes, two standard deviations apart: the best error is 16 %."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[:, 0] += 2.0 * y - 1.0
    return X, y


def halves(X, y, seed):
    """Two stratified halves, features in units of the first."""
    X, X_new, y, y_new = train_test_split(
        X, y, test_size=0.5, random_state=seed, stratify=y
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_new), y_new


def overlapping_sets(seed):
    """Give names and sets of two and more classes, training and test."""
    for d, n in ((2, 60), (2, 200), (20, 60), (20, 200), (20, 1000), (100, 200)):
        new = gaussians(4000, d, 1000 + seed)
        yield f"Gaussians, {n} in {d}-D", (*gaussians(n, d, seed), *new)
    yield "breast cancer", halves(*load_breast_cancer(return_X_y=True), seed)
    X, y = load_digits(return_X_y=True)
    for pair in ((1, 8), (3, 9)):
        some = np.isin(y, pair)
        yield f"digits {pair[0]}, {pair[1]}", halves(X[some], y[some], seed)
    rng = np.random.default_rng(seed)
    for name, loader, classes in (
        ("letter A to F", load_letter, 6),
        ("satimage", load_satimage, None),
    ):
        X, y, X_new, y_new = train_test(loader)
        X, y = np.concatenate([X, X_new]).astype(float), np.concatenate([y, y_new])
        some = np.isin(y, np.unique(y)[:classes])
        X, y = X[some], y[some]
        some = rng.permutation(len(y))[:2000]
        yield name, halves(X[some], y[some], seed)


def _folds(model):
    return CalibratedClassifierCV(model, ensemble=False)


SURE = {
    "linear": MaxMarginClassifier(),
    "RBF": MaxMarginClassifier(kernel="rbf"),
    "perceptron": MarginPerceptron(random_state=0),
    "Rosenblatt": FixedMarginPerceptron(random_state=0),
    "invariant": InvariantHyperplaneSVC(tangents="none"),
    "logistic": LogisticRegression(max_iter=5000),
    "SVC, linear, folds": _folds(SVC(kernel="linear", max_iter=1_000_000)),
    "SVC, RBF, folds": _folds(SVC()),
}


def _trained_on(model, X, y):
    """Return a copy with the temperature of training samples as they are."""
    model = deepcopy(model)
    codes = np.searchsorted(model.classes_, y)
    model._calibrate(LeftOut(*model._costs(X), codes, np.ones(len(y))))
    return model


def sure():
    """Log loss and calibration of probabilities, before and after leaving out."""
    found = {}
    for seed in range(1 if QUICK else 3):
        for name, (X, y, X_new, y_new) in overlapping_sets(seed):
            for kind, peer in SURE.items():
                model = clone(peer).fit(X, y)
                told = [model]
                if hasattr(model, "temperature_"):
                    told.insert(0, _trained_on(model, X, y))
                for k, one in enumerate(told):
                    P = one.predict_proba(X_new)
                    right = one.classes_[P.argmax(axis=1)] == y_new
                    loss = log_loss(y_new, P, labels=one.classes_)
                    both = loss, calibration_error(P, right)
                    found.setdefault((name, kind, k), []).append(both)
    names = list(dict.fromkeys(name for name, _, _ in found))
    for which, title in enumerate(("Log loss", "Calibration error")):
        rows = []
        for name in names:
            row = [name]
            for kind in SURE:
                values = [
                    f"{np.mean(found[name, kind, k], axis=0)[which]:.3f}"
                    for k in (0, 1)
                    if (name, kind, k) in found
                ]
                row.append(" → ".join(values))
            rows.append(row)
        print_table(title, ("set", *SURE), rows)


def leaving():
    """Print what a first probability takes: samples are left out then, not in a fit."""
    few, many, wide = (
        gaussians(n, d, 0) for n, d in ((800, 20), (20000, 50), (3000, 300))
    )
    digits = load_digits(return_X_y=True)
    cases = {
        "linear, 800 × 20": (MaxMarginClassifier(), few),
        "linear, 20 000 × 50": (MaxMarginClassifier(), many),
        "linear, 3000 × 300": (MaxMarginClassifier(), wide),
        "linear, digits": (MaxMarginClassifier(), digits),
        "hard, digits": (MaxMarginClassifier(C=np.inf), digits),
        "RBF, 800 × 20": (MaxMarginClassifier(kernel="rbf"), few),
        "RBF, digits": (MaxMarginClassifier(kernel="rbf"), digits),
        "perceptron, 800 × 20": (MarginPerceptron(random_state=0), few),
        "perceptron, digits": (MarginPerceptron(random_state=0), digits),
        "Rosenblatt, digits": (FixedMarginPerceptron(random_state=0), digits),
    }
    rows = []
    for name, (model, (X, y)) in cases.items():
        model.fit(X, y)
        fit, proba = [], []
        while len(fit) < (3 if QUICK else 25) and sum(fit) < 4.0:
            fit.append(median_time(lambda m=model, X=X, y=y: m.fit(X, y), 1)[0])
            proba.append(median_time(lambda m=model, X=X: m.predict_proba(X[:1]), 1)[0])
        fit, proba = np.median(fit), np.median(proba)
        rows.append((name, f"{1e3 * fit:.1f}", f"{(fit + proba) / fit:.2f}"))
    heads = "fit", "ms", "with a probability"
    print_table("Fits, and with the first probability, beside them", heads, rows)


BENCHES = {
    "dense": bench_dense,
    "digits": bench_digits,
    "sparse": bench_sparse,
    "sonar": bench_sonar,
    "soft": bench_soft,
    "growth": bench_growth,
    "classes": bench_classes,
    "first": bench_first,
    "sure": sure,
    "leaving": leaving,
}


def main():
    global QUICK
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, no repeats")
    parser.add_argument("--only", nargs="*", choices=BENCHES, default=list(BENCHES))
    chosen = parser.parse_args()
    QUICK = chosen.quick
    peer = "absent" if train is None else "present"
    print(f"numpy {np.__version__}, python {sys.version.split()[0]}, one thread; "
          f"liblinear-official {peer}")  # fmt: skip
    with threadpool_limits(limits=1):
        for name in chosen.only:
            BENCHES[name]()


if __name__ == "__main__":
    main()
