"""Fourteen measured sets of signals, beside the peers: error, AURC, ECE, size, time.

Every model is fitted with its defaults on the training part of a set of the UCR archive
and asked the test part. AURC is the mean, over all shares of the test samples that are
answered, the surest first, of the error among them. ECE has fifteen equal bins.
MiniRocket is aeon's: the mean of three seeds; its probabilities are Platt's, of five
folds or fewer. DTW's window is 10 % of the length. "C" is the exported header, compiled
by gcc -O2, answering one series after the other on one core.

Run: python benchmarks/signals.py [--peers] [--c] [--only NAME ...]; peers need aeon
(`pip install --target`, or an environment of its own: it is no dependency).
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from common import calibration_error, data_folder, machine, print_table
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from widemargin import SignalClassifier, TangentKNeighborsClassifier
from widemargin.tangents import SignalTangents, signal_shifts

SEEDS = 3
# Shifts of up to 10 % are copies, as DTW's window; tangents do what is between.
MOVES = SignalTangents(["shift", "scale", "warp", "warp2"])


def mini_rocket(seed):
    from aeon.transformations.collection.convolution_based import MiniRocket

    ridge = make_pipeline(
        StandardScaler(with_mean=False), RidgeClassifierCV(np.logspace(-3, 3, 10))
    )
    reshape = FunctionTransformer(lambda X: np.asarray(X, np.float32)[:, np.newaxis])
    return make_pipeline(reshape, MiniRocket(random_state=seed), ridge)


def platt(model, y):
    """MiniRocket with Platt's probabilities, of as many folds as classes allow."""
    folds = min(5, np.bincount(y)[np.unique(y)].min())
    ridge = CalibratedClassifierCV(clone(model[-1]), cv=folds)
    return make_pipeline(*model[:-1], ridge)


class Dtw:
    """Nearest neighbour by DTW with a window of 10 %."""

    def fit(self, X, y):
        """Keep the training signals."""
        from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

        self.model = KNeighborsTimeSeriesClassifier(
            n_neighbors=1, distance="dtw", distance_params={"window": 0.1}
        ).fit(X[:, np.newaxis], y)
        return self

    def predict(self, X):
        """Return the label of the nearest."""
        return self.model.predict(X[:, np.newaxis])


def aurc(P, right):
    """Mean error among the answers that are surest, over all shares of them."""
    wrong = ~right[np.argsort(-P.max(axis=1), kind="stable")]
    return float(np.mean(np.cumsum(wrong) / np.arange(1, len(wrong) + 1)))


def by_chance(answers, peers, draws=300):
    """Ratios of AURC, ours to the peer's, where test samples are drawn again.

    `answers` are those of each set, `peers` those of each set and seed: largest
    probabilities and which are right.
    """
    rng, ratios = np.random.default_rng(0), []
    for _ in range(draws):
        found = []
        for (top, right), others in zip(answers, peers, strict=True):
            rows = rng.integers(len(top), size=len(top))
            own = aurc(top[rows, np.newaxis], right[rows])
            of_peer = [aurc(t[rows, np.newaxis], r[rows]) for t, r in others]
            found.append((own, np.mean(of_peer)))
        ours, theirs = np.mean(found, axis=0)
        ratios.append(ours / theirs)
    return ratios


def judged(model, X, y, X_new, y_new, keep=None):
    """Error in %, AURC, ECE, and seconds of processor time of fit and answers.

    `keep` is given the largest probabilities and which answers are right.
    """
    start = time.process_time()
    P = model.fit(X, y).predict_proba(X_new)
    seconds = time.process_time() - start
    right = model.predict(X_new) == y_new
    if keep is not None:
        keep.append((P.max(axis=1), right))
    return 100 * np.mean(~right), aurc(P, right), calibration_error(P, right), seconds


def microseconds_in_c(model, X):
    """Time of one answer of the exported header, and bytes of its tables."""
    import re
    import subprocess

    from widemargin.export import to_c

    header = to_c(model)
    size = int(re.search(r"tables of (\d+) bytes", header).group(1))
    main = """
#include <stdio.h>
#include <time.h>
#include "model.h"
static float x[MODEL_FEATURES];
int main(void)
{
  int i, sum = 0; float margin; clock_t start;
  if (fread(x, sizeof(float), MODEL_FEATURES, stdin) != MODEL_FEATURES) return 1;
  start = clock();
  for (i = 0; i < 200; i++) { x[0] += 1e-6f; sum += model_predict(x, &margin); }
  printf("%g %d\\n", (double)(clock() - start) / CLOCKS_PER_SEC / 200 * 1e6, sum);
  return 0;
}
"""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.h").write_text(header)
        (Path(folder) / "main.c").write_text(main)
        build = ["gcc", "-O2", "main.c", "-o", "main", "-lm"]
        subprocess.run(build, cwd=folder, check=True)
        row = np.asarray(X[0], np.float32).tobytes()
        ran = subprocess.run([f"{folder}/main"], input=row, capture_output=True)
    return float(ran.stdout.split()[0]), size


def sets(only):
    for path in sorted((Path(data_folder()) / "signals").glob("*.npz")):
        if only and path.stem not in only:
            continue
        with np.load(path) as file:
            names = ("X_train", "y_train", "X_test", "y_test")
            yield path.stem, tuple(file[name] for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--c", action="store_true")
    parser.add_argument("--only", nargs="+")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    header = ["set", "n, length", "error", "AURC", "ECE", "s"]
    if args.c:
        header += ["µs in C", "kB"]
    if args.peers:
        header += ["MiniRocket", "AURC", "ECE", "s", "DTW", "tangent 1-NN", "SVC"]
    rows, answers, of_peers = [], [], []
    for name, (X, y, X_new, y_new) in sets(args.only):
        model = SignalClassifier()
        numbers = list(judged(model, X, y, X_new, y_new, answers))
        if args.c:
            took, size = microseconds_in_c(model, X_new)
            numbers += [took, size / 1000]
        if args.peers:
            found, told = [], []
            for seed in range(SEEDS):
                rocket, start = mini_rocket(seed), time.process_time()
                wrong = 100 * np.mean(rocket.fit(X, y).predict(X_new) != y_new)
                start = time.process_time() - start
                calibrated = platt(rocket, y)
                risks = judged(calibrated, X, y, X_new, y_new, told)[1:3]
                found.append([wrong, *risks, start])
            of_peers.append(told)
            numbers += list(np.mean(found, axis=0))
            others = [
                Dtw(),
                TangentKNeighborsClassifier(
                    tangents=MOVES,
                    spring=0.1,
                    transformations=signal_shifts(X.shape[1]),
                ),
                SVC(C=10),
            ]
            numbers += [
                100 * np.mean(other.fit(X, y).predict(X_new) != y_new)
                for other in others
            ]
        rows.append((name, f"{len(X)}, {X.shape[1]}", numbers))
        print(name, np.round(numbers, 3), flush=True)
    means = np.mean([numbers for *_, numbers in rows], axis=0)
    rows.append(("mean", "", means))
    print_table(
        "Signals, own splits (errors in %)",
        header,
        [[name, n, *(f"{v:.3g}" for v in numbers)] for name, n, numbers in rows],
    )
    if args.peers:
        at = 8 if args.c else 6
        at -= 2
        print(f"\nerror / MiniRocket's {means[0] / means[at]:.2f}; bar 1.05, aim .9")
        print(f"AURC / MiniRocket's {means[1] / means[at + 1]:.2f}; bar 1.0, aim .8")
        low, high = np.percentile(by_chance(answers, of_peers), [5, 95])
        print(f"  {low:.2f} to {high:.2f} in 90 % of draws of the test samples")
        print(f"ECE {means[2]:.3f}; bar .06; MiniRocket's {means[at + 2]:.3f}")
        print(f"tangent 1-NN / DTW {means[at + 5] / means[at + 4]:.2f}; bar 1.0")


if __name__ == "__main__":
    main()
