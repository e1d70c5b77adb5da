"""Five measured sets of spectra at few labels, beside the classical chains.

So many labelled spectra of each class are drawn at random and all others are asked; the
numbers are means over draws, and over the sets that have as many. Classical chains are
the standard normal variate or the first Savitzky-Golay derivative (window 11, degree
2), then PLS-DA (10 components), LDA (Ledoit and Wolf's shrinkage) or an SVC (C=10,
standardised). AURC is the mean, over all shares of the samples that are answered, the
surest first, of the error among them; ECE has fifteen equal bins, and is that of one
draw, the mean over draws. Of so few answers it is not zero where probabilities are
right: "by chance" is what it would be if answers were right as often as they say.
"Together" puts the answers of all draws of a set into the same bins. "C" is the
exported header, compiled by gcc -O2.

Ours were chosen on draws of other seeds of the same sets: which six preprocessings, and
that all have a vote. Within a fit, left-out training samples choose the penalties.

Run: python benchmarks/spectra.py [--draws 20] [--ours] [--labels 3 5 10 20]
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from common import calibration_error, data_folder, machine, print_table
from signals import aurc, microseconds_in_c
from sklearn.cross_decomposition import PLSRegression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from widemargin import GMLVQClassifier, SpectrumClassifier, TangentKNeighborsClassifier
from widemargin.tangents import SavitzkyGolay, SpectrumTangents, StandardNormalVariate

# Draws of these seeds chose nothing.
FIRST_SEED = 1000
ASKED = 1000


class PlsDa:
    """Partial least squares to indicators of the classes."""

    def fit(self, X, y):
        """Fit at most ten components."""
        self.classes = np.unique(y)
        targets = (y[:, np.newaxis] == self.classes).astype(float)
        self.model = PLSRegression(min(10, len(X) - 1)).fit(X, targets)
        return self

    def predict(self, X):
        """Return the class of the largest indicator."""
        return self.classes[self.model.predict(X).argmax(axis=1)]


HEADS = {
    "PLS-DA": PlsDa,
    "LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "SVC": lambda: make_pipeline(StandardScaler(), SVC(C=10)),
}
STEPS = {"SNV": StandardNormalVariate(), "SG": SavitzkyGolay()}
OURS = {
    "SpectrumClassifier": SpectrumClassifier,
    "SG + GMLVQ": lambda: make_pipeline(
        SavitzkyGolay(), GMLVQClassifier(random_state=0)
    ),
    "tangent 1-NN": lambda: TangentKNeighborsClassifier(
        tangents=SpectrumTangents(("gain", "offset", "slope", "curvature"))
    ),
}


class Chain:
    """A preprocessing and what follows, which scikit-learn need not know."""

    def __init__(self, step, head):
        self.step, self.head = step, head

    def fit(self, X, y):
        """Fit one after the other."""
        self.head.fit(self.step.fit_transform(X), y)
        return self

    def predict(self, X):
        """Answer by both."""
        return self.head.predict(self.step.transform(X))


def sets():
    for path in sorted((Path(data_folder()) / "spectra").glob("*.npz")):
        with np.load(path) as file:
            parts = ("",) if "X" in file else ("_train", "_test")
            X = np.concatenate([file[f"X{part}"] for part in parts])
            y = np.concatenate([file[f"y{part}"] for part in parts])
        yield path.stem, X.astype(float), np.unique(y, return_inverse=True)[1]


def drawn(y, per_class, seed):
    """Rows to learn from and to ask; None where a class has too few."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    if np.bincount(y).min() <= per_class:
        return None
    train = np.concatenate([order[y[order] == c][:per_class] for c in np.unique(y)])
    return train, rng.permutation(np.setdiff1d(order, train))[:ASKED]


def by_chance(P, rng):
    """ECE of answers that are right as often as their probability says."""
    top = P.max(axis=1)
    return np.mean(
        [calibration_error(P, rng.random(len(top)) < top) for _ in range(10)]
    )


def together(draws):
    """ECE of the answers of all draws, and by how much they are too sure."""
    top, right = (np.concatenate(parts) for parts in zip(*draws, strict=True))
    error = calibration_error(top[:, np.newaxis], right)
    return error, (top - right).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--labels", type=int, nargs="+", default=[3, 5, 10, 20])
    parser.add_argument("--ours", action="store_true", help="no classical chains")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    chains = {
        f"{step} + {head}": lambda step=step, head=head: Chain(
            STEPS[step], HEADS[head]()
        )
        for step in STEPS
        for head in HEADS
    }
    models = OURS if args.ours else OURS | chains
    errors, sure, told_right = {}, {}, {}
    rng = np.random.default_rng(0)
    for name, X, y in sets():
        for per_class in args.labels:
            for seed in range(FIRST_SEED, FIRST_SEED + args.draws):
                rows = drawn(y, per_class, seed)
                if rows is None:
                    break
                train, asked = rows
                for model, make in models.items():
                    fitted = make().fit(X[train], y[train])
                    right = fitted.predict(X[asked]) == y[asked]
                    found = errors.setdefault((model, per_class), {})
                    found.setdefault(name, []).append(100 * np.mean(~right))
                    if model == "SpectrumClassifier":
                        P = fitted.predict_proba(X[asked])
                        judged = (
                            100 * aurc(P, right),
                            calibration_error(P, right),
                            by_chance(P, rng),
                        )
                        sure.setdefault(per_class, {}).setdefault(name, []).append(
                            judged
                        )
                        told_right.setdefault(per_class, {}).setdefault(
                            name, []
                        ).append((P.max(axis=1), right))
    means = {
        key: {name: np.mean(draws) for name, draws in found.items()}
        for key, found in errors.items()
    }
    names = [name for name, *_ in sets()]
    for per_class in args.labels:
        rows = []
        for model in models:
            own = means[model, per_class]
            cells = [f"{own[name]:.1f}" if name in own else "" for name in names]
            rows.append([model, *cells, f"{np.mean(list(own.values())):.1f}"])
        title = f"{per_class} labels per class, mean error of {args.draws} draws (%)"
        print_table(title, ["", *names, "mean"], rows)
        told = [np.mean(draws, axis=0) for draws in sure[per_class].values()]
        risk, gap, chance = np.mean(told, axis=0)
        pooled = [together(draws) for draws in told_right[per_class].values()]
        at_once, too_sure = np.mean(pooled, axis=0)
        line = f"SpectrumClassifier: AURC {risk:.1f} %, ECE {gap:.3f}"
        line += f" ({chance:.3f} by chance, together {at_once:.3f})"
        line += f", too sure by {too_sure:+.3f}"
        if not args.ours:
            best = min(np.mean(list(means[c, per_class].values())) for c in chains)
            mine = np.mean(list(means["SpectrumClassifier", per_class].values()))
            line += f"; error / best chain's {mine / best:.2f}, bar 1.0, aim .8"
        print(line)
    rows = []
    for name, X, y in sets():
        train, _ = drawn(y, min(10, np.bincount(y).min() - 1), FIRST_SEED)
        model = SpectrumClassifier().fit(X[train].astype(np.float32), y[train])
        took, size = microseconds_in_c(model, X)
        rows.append([name, X.shape[1], f"{took:.1f}", f"{size / 1000:.0f}"])
    print_table(
        "SpectrumClassifier in C", ["set", "wavelengths", "µs", "kB of tables"], rows
    )


if __name__ == "__main__":
    main()
