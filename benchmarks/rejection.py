"""Does RejectingClassifier keep its guarantees? Distribution by distribution, by draws.

    python benchmarks/rejection.py [--draws 1000] [--seed 0] [--jobs 1] [--only PART]

Samples live in cells: x is the number of a cell, P(x) and P(y | x) are written down, so
that the error and the share of what a fitted model answers are sums and not estimates.
Each draw fits the whole RejectingClassifier, its hold-out included, around a classifier
that answers the commonest label of the cell. A guarantee is broken if the true error
among the answered exceeds max_error, or the true share of the answered falls short of
coverage; it may be, in a share delta of the draws. With a second threshold on a
distance the guarantee is that of what both let pass; distances come in three kinds:
they say nothing, they are large where answers are wrong, or small.

``--only classes``: guarantees per predicted class, per true class, and per group of
cells, broken if they are for any; in the same distributions, with samples in proportion
to three times how many are guaranteed for. Their thresholds are asked directly, on one
half (or `cv`) of each draw: whole fits would take ten times as long.

``--only few``: what is answered with 200 labels at 5 % of errors, by a hold-out and
with every sample left out once, on measured data.

``--only strange``: how many inputs from elsewhere are refused, with and without the
second threshold. ``--only noise``: what is answered where labels are noisy.
``--only mapie``: the share that is answered, beside MAPIE's controller of the precision
(``pip install mapie``), on the same confidences.
"""

import argparse
import sys
import time
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split

from widemargin.margins import common_threshold, reject_threshold, reject_thresholds
from widemargin.margins.rejection import samples_needed
from widemargin.meta import RejectingClassifier
from widemargin.neighbors import TangentKNeighborsClassifier
from widemargin.prototypes import GLVQClassifier, HSSClassifier

warnings.filterwarnings("ignore", message="max_error=.* could not be shown")
warnings.filterwarnings("ignore", message="The number of unique classes")
warnings.filterwarnings("ignore", module="mapie")
RARE = 3000
PARTS = ("guarantees", "classes", "few", "strange", "noise", "mapie")


class Table(ClassifierMixin, BaseEstimator):
    """Answers the commonest label of a cell, and of an unseen cell the commonest."""

    def __init__(self, n_cells=1):
        self.n_cells = n_cells

    def fit(self, X, y):
        """Count."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        shape = self.n_cells, len(self.classes_)
        self.counts_ = np.bincount(
            np.ravel_multi_index((X[:, 0], codes), shape), minlength=shape[0] * shape[1]
        ).reshape(shape)
        best = self.counts_.argmax(axis=1)
        best[~self.counts_.any(axis=1)] = self.counts_.sum(axis=0).argmax()
        self.answers_ = self.classes_[best]
        return self

    def predict(self, X):
        """Look up."""
        return self.answers_[X[:, 0]]


@dataclass
class World:
    """A distribution of samples, and how sure the classifier is of each cell."""

    cells: NDArray  # P(x), shape (n_cells,)
    labels: NDArray  # P(y | x), shape (n_cells, n_labels)
    sure: NDArray | None = None  # by cell; None is the share of the commonest label
    n: int = 400
    max_error: float = 0.1
    options: dict = field(default_factory=dict)

    def draw(self, rng):
        """One set of samples."""
        x = rng.choice(len(self.cells), self.n, p=self.cells)
        n_labels = self.labels.shape[1]
        at = np.searchsorted(self.edges, x + rng.random(self.n), side="right")
        return x[:, None], np.clip(at - x * n_labels, 0, n_labels - 1)

    @cached_property
    def edges(self):
        """Ends of the labels' shares, cell after cell."""
        cumulative = self.labels.cumsum(axis=1)
        cumulative /= cumulative[:, -1:]
        return (cumulative + np.arange(len(cumulative))[:, None]).ravel()

    def confidence(self, model, X):
        """Return what is compared with the threshold."""
        if self.sure is not None:
            return self.sure[X[:, 0]]
        counts = model.counts_[X[:, 0]]
        top = np.sort(counts, axis=1)[:, ::-1]
        second = top[:, 1] if top.shape[1] > 1 else 0
        return (top[:, 0] - second) / (top.sum(axis=1) + 1)

    def truth(self, model):
        """Return the true share that a fitted model answers, and the true error."""
        X = np.arange(len(self.cells))[:, None]
        accepted = self.cells * model.accepts(X)
        answers = model.estimator_.predict(X)
        wrong = 1 - self.labels[X[:, 0], answers]
        share = accepted.sum()
        return share, accepted @ wrong / share if share > 0 else 0.0


def far(world, kind):
    """Return a distance per cell: at random, large where it is wrong, or small."""
    random = np.random.default_rng(0).random(len(world.cells))
    wrong = 1 - world.labels.max(axis=1)
    by_cell = {"random": random, "wrong": wrong + 1e-6 * random}
    by_cell["right"] = -by_cell["wrong"]
    return lambda _, X: by_cell[kind][X[:, 0]]


def noisy(n_cells, n_labels, wrong, common=False):
    """P(y | x): x mod n_labels, or 0 if `common`, and `wrong` over the other labels."""
    wrong = np.broadcast_to(wrong, n_cells)
    labels = np.repeat(wrong[:, None] / max(1, n_labels - 1), n_labels, axis=1)
    right = np.zeros(n_cells, int) if common else np.arange(n_cells) % n_labels
    labels[np.arange(n_cells), right] = 1 - wrong
    return labels


def even(n_cells):
    """All cells alike."""
    return np.full(n_cells, 1 / n_cells)


def falling(n_cells, power=1.0):
    """Zipf's law."""
    weights = 1 / np.arange(1, n_cells + 1) ** power
    return weights / weights.sum()


def worlds():
    """All distributions, by name."""
    fine = np.linspace(0, 1, 2000)
    comb = np.where(np.arange(2000) // 40 % 2, 0.14, 0.05)
    rare = np.zeros((20, 20 + RARE))
    share = np.repeat([0.04, 0.56], 10)[:, None]  # 30 % of all samples
    rare[:, :20] = (1 - share) * noisy(20, 20, 0.01)
    rare[:, 20:] = share / RARE
    skewed = np.repeat([[0.98, 0.02]], 40, axis=0)
    skewed[:3] = [0.4, 0.6]
    zipf = 0.95 * np.eye(300) + 0.05 * falling(300)
    rising = np.linspace(0, 0.4, 40)
    fine_world = {"cells": even(2000), "sure": fine}
    return {
        "balanced, ten classes": World(even(40), noisy(40, 10, rising), n=600),
        "imbalanced, 95 to 5": World(even(40), skewed, max_error=0.05),
        "Zipf over 300 classes": World(falling(300), zipf, n=1000),
        "30 % from 3000 rare labels": World(even(20), rare),
        "the same, most rows held out": World(even(20), rare, options={"cv": 0.7}),
        "label noise just above the guarantee": World(
            even(10), noisy(10, 5, 0.1005), sure=np.arange(10.0), n=600
        ),
        "nearly separable": World(
            even(20), noisy(20, 5, 0.004), sure=np.arange(20.0), n=2000, max_error=0.02
        ),
        "three levels of confidence": World(
            even(30), noisy(30, 3, np.repeat([0.3, 0.13, 0.02], 10)),
            sure=np.repeat([0.0, 1.0, 2.0], 10),
        ),
        "one confidence for all (one-hot)": World(
            even(20), noisy(20, 4, 0.1005), sure=np.ones(20)
        ),
        "tiny sample": World(even(4), noisy(4, 2, 0.1005), sure=np.arange(4.0), n=60),
        "tiny sample, many labels": World(falling(30, 2), noisy(30, 30, 0.0), n=90),
        "heavy tails": World(
            falling(500, 1.2), noisy(500, 2, np.linspace(0.02, 0.5, 500), common=True),
            sure=np.tan(np.linspace(1.57, -1.57, 500)),
        ),
        "confidently wrong": World(
            labels=noisy(2000, 2, np.where(fine > 0.97, 0.6, 0.04), common=True),
            n=800, **fine_world,
        ),
        "errors in bands (not monotone)": World(
            labels=noisy(2000, 2, comb, common=True), n=800, **fine_world
        ),
        "confidence says nothing": World(
            even(2000), noisy(2000, 2, 0.1005, common=True), sure=np.sin(1e4 * fine)
        ),
        "error drifts across the guarantee": World(
            labels=noisy(2000, 2, 0.25 * (1 - fine), common=True), n=800, **fine_world
        ),
    }  # fmt: skip


def count_broken(world, guarantee, delta, n_draws, seed):
    """Share of broken guarantees, and the mean true share of what is answered."""
    rng = np.random.default_rng(seed)
    model = RejectingClassifier(
        Table(len(world.cells)), confidence_func=world.confidence, delta=delta,
        reject_label=-1, **guarantee, **world.options,
    )  # fmt: skip
    broken, answered = 0, 0.0
    for draw in range(n_draws):
        X, y = world.draw(rng)
        try:
            model.set_params(random_state=draw).fit(X, y)
        except ValueError as error:
            if "distance must tell samples apart" not in str(error):
                raise
            # All held-out samples are equally far: no model, nothing answered.
            continue
        share, error = world.truth(model)
        if "coverage" in guarantee:
            broken += share < guarantee["coverage"] - 1e-12
        else:
            broken += error > guarantee["max_error"] + 1e-12
        answered += share
    return broken / n_draws, answered / n_draws


CELL_GROUPS = 3


def threshold_of_cells(per, held, cells, guarantee, delta):
    """Threshold of every cell, as `RejectingClassifier` chooses it; None: refused.

    held = (cells, wrong, groups) of the samples it is chosen on; cells = (answers,
    confidences) of all cells.
    """
    x, wrong, groups = held
    answers, sure = cells
    samples = np.zeros(len(x)), wrong.astype(float), sure[x]
    if per == "predicted":
        found = reject_thresholds(*samples, answers[x], delta=delta, **guarantee)
        # What was never answered on these samples: any coverage, and no error.
        by_label = np.full(
            answers.max() + 1, -np.inf if "coverage" in guarantee else np.inf
        )
        by_label[found.groups] = found.thresholds
        return by_label[answers]
    sizes = np.bincount(groups)
    needed = (
        samples_needed(guarantee["max_error"], delta) if "max_error" in guarantee else 0
    )
    if sizes[sizes > 0].min() < needed:
        return None
    return common_threshold(*samples, groups, delta=delta, **guarantee)


def shares_in_parts(world, answers, accepted, per):
    """Return the shares of each class or group: all, answered, and wrong."""
    cells = np.arange(len(answers))
    asked = world.cells * accepted
    right = asked * world.labels[cells, answers]
    if per == "true":
        n_labels = world.labels.shape[1]
        answered = asked @ world.labels
        rightly = np.bincount(answers, right, minlength=n_labels)
        return world.cells @ world.labels, answered, answered - rightly
    part = answers if per == "predicted" else cells % CELL_GROUPS
    return tuple(np.bincount(part, w) for w in (world.cells, asked, asked - right))


def is_broken(world, answers, accepted, per, guarantee):
    """Whether a guarantee does not hold for some class or group; all are of cells."""
    of_all, share, wrong = shares_in_parts(world, answers, accepted, per)
    if "coverage" in guarantee:
        return (share < guarantee["coverage"] * of_all - 1e-12).any()
    return (wrong > guarantee["max_error"] * share + 1e-12).any()


def in_parts_of(name, delta, coverage, n_draws, seed):
    """Shares broken, answered and refused in one world, by `per` and guarantee.

    Each draw has one classifier and one set of held-out samples for all of them.
    """
    world, rng = worlds()[name], np.random.default_rng(seed)
    # So many times the samples; rare classes are refused all the same.
    world.n *= 3 * max(CELL_GROUPS, min(world.labels.shape[1], 5))
    X_all = np.arange(len(world.cells))[:, None]
    guarantees = {"max_error": world.max_error}, {"coverage": coverage}
    ways = list(product(("predicted", "true", "group"), range(2)))
    found = np.zeros((len(ways), 3))
    for _ in range(n_draws):
        X, y = world.draw(rng)
        learn = round(len(y) * (1 - world.options.get("cv", 0.5)))
        model = Table(len(world.cells)).fit(X[:learn], y[:learn])
        answers, x, y = model.predict(X_all), X[learn:, 0], y[learn:]
        cells = answers, world.confidence(model, X_all)
        for k, (per, which) in enumerate(ways):
            groups = y if per == "true" else x % CELL_GROUPS
            held = x, answers[x] != y, groups
            threshold = threshold_of_cells(per, held, cells, guarantees[which], delta)
            if threshold is None:
                found[k, 2] += 1
                continue
            accepted = cells[1] >= threshold
            broken = is_broken(world, answers, accepted, per, guarantees[which])
            found[k] += broken, (world.cells * accepted).sum(), 0
    shares = (found / n_draws).reshape(3, 2, 3)
    return dict(zip(("predicted", "true", "group"), shares, strict=True))


def classes(n_draws, seed, jobs):
    """Print guarantees per class and group; return whether one is broken too often."""
    delta, coverage, start = 0.05, 0.6, time.process_time()
    print(
        f"\n{n_draws} draws each, delta = {delta}; guarantees broken for any class or "
        "group, %, of errors / of coverages (answered, refused as too few)\n"
    )
    print('| distribution | "predicted" | "true" | "group" |')
    print("|---|---|---|---|")
    named, tests, worst = worlds(), [], 0.0
    rows = Parallel(jobs, return_as="generator")(
        delayed(in_parts_of)(name, delta, coverage, n_draws, seed) for name in named
    )
    for name, found in zip(named, rows, strict=True):
        cells = []
        for by_error, by_coverage in found.values():
            broken = [round(share[0] * n_draws) for share in (by_error, by_coverage)]
            tests += [binomtest(k, n_draws, delta, "greater").pvalue for k in broken]
            worst = max(worst, *broken)
            shares = " / ".join(f"{100 * k / n_draws:.1f}" for k in broken)
            cells.append(f"{shares} ({100 * by_error[1]:.0f}, {100 * by_error[2]:.0f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    tests = np.array(tests)
    print(
        f"\nworst {100 * worst / n_draws:.1f} %; {len(tests)} exact tests, "
        f"{np.count_nonzero(tests <= 0.05)} below .05, smallest {tests.min():.4f} "
        f"(broken at {0.05 / len(tests):.4f}); {time.process_time() - start:.0f} s"
    )
    return bool(tests.min() <= 0.05 / len(tests))


def few_labels(n_draws=6, n=200, max_error=0.05):
    """Print what is answered from few labels, by a hold-out and by leave-one-out."""
    from common import data_folder

    sets = {"digits": load_digits(return_X_y=True)}
    for name in ("satimage", "pendigits"):
        z = np.load(data_folder() / name / f"{name}.npz")
        X = np.concatenate([z["X_train"], z["X_test"]]).astype(float)
        sets[name] = X, np.concatenate([z["y_train"], z["y_test"]])
    models = {
        "HSS": HSSClassifier(1, n_tangents=4, scale="none"),
        "discriminant": LinearDiscriminantAnalysis(shrinkage="auto", solver="lsqr"),
    }
    ways = {"hold-out": {}, "leave-one-out": {"cv": "leave-one-out", "delta": None}}
    print(f"\n{n} labels, max_error={max_error}, {n_draws} draws, 1000 asked, %\n")
    print("| data | model | way | answered | wrong among these | answered and wrong |")
    print("|---|---|---|---|---|---|")
    for (name, (X, y)), (called, model) in product(sets.items(), models.items()):
        for way, options in ways.items():
            found = []
            for seed in range(n_draws):
                rows = np.random.default_rng(seed).permutation(len(X))
                train, new = rows[:n], rows[n : n + 1000]
                rejecting = RejectingClassifier(
                    model, max_error=max_error, random_state=seed, **options
                ).fit(X[train], y[train])
                labels = rejecting.predict(X[new])
                answered = labels != -1
                wrong = answered & (labels != y[new])
                found.append((answered.mean(), wrong.mean()))
            answered, wrong = 100 * np.mean(found, axis=0)
            among = 100 * wrong / answered if answered else 0.0
            print(
                f"| {name} | {called} | {way} | {answered:.0f} | {among:.1f} | "
                f"{wrong:.1f} |",
                flush=True,
            )


def load_letters():
    """Return letters split into 6000 to learn from and the rest."""
    from common import data_folder

    data = np.load(data_folder() / "letter" / "letter.npz")
    X, y = data["X"].astype(float), data["y"]
    return train_test_split(X, y, train_size=6000, random_state=0)


def strange():
    """Print how many strange inputs are refused."""
    X, y = load_digits(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X, y, stratify=y, random_state=0)
    rng = np.random.RandomState(0)
    inputs = {
        "noise": rng.randint(0, 17, (500, 64)).astype(float),
        "shuffled pixels": X_new[:, rng.permutation(64)],
        "negatives": 16 - X_new,
        "letters": drawn_letters(),
        "turned by 90 degrees": np.rot90(X_new.reshape(-1, 8, 8), axes=(1, 2)).reshape(
            -1, 64
        ),
    }
    models = {
        "GLVQ": GLVQClassifier(random_state=0),
        "1-NN": TangentKNeighborsClassifier(tangents="none"),
        "HSS": HSSClassifier(1, n_tangents=8),
    }
    print(
        "\nRefused, %: by confidence alone / with the distance, "
        "outlier_fraction = 0.02\n"
    )
    print("| model | digits | wrong answers | " + " | ".join(inputs) + " |")
    print("|---|" + "---|" * (len(inputs) + 2))
    for name, model in models.items():
        pair = [
            RejectingClassifier(
                model, max_error=0.02, outlier_fraction=share, random_state=0
            ).fit(X, y)
            for share in (None, 0.02)
        ]
        cells = []
        for Z in (X_new, *inputs.values()):
            rates = [100 * (1 - one.accepts(Z).mean()) for one in pair]
            cells.append(" / ".join(f"{rate:.0f}" for rate in rates))
        wrong = [
            100 * np.mean((one.predict(X_new) != y_new)[one.accepts(X_new)])
            for one in pair
        ]
        cells.insert(1, " / ".join(f"{rate:.1f}" for rate in wrong))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def noisy_labels(n_draws=12):
    """Print what is answered where some labels are drawn at random."""
    X, y = load_digits(return_X_y=True)
    print("\n| model | noise | max_error | error | answered | nothing answered |")
    print("|---|---|---|---|---|---|")
    models = {
        "GLVQ": GLVQClassifier(random_state=0),
        "1-NN": TangentKNeighborsClassifier(1, tangents="none"),
    }
    for (name, model), (noise, bar) in product(
        models.items(), ((0.1, 0.25), (0.05, 0.15))
    ):
        errors, answered = [], []
        for seed in range(n_draws):
            rng = np.random.default_rng(seed)
            given = y.copy()
            drawn = rng.random(len(y)) < noise
            given[drawn] = rng.integers(0, 10, drawn.sum())
            rows = rng.permutation(len(y))
            train, new = rows[:1200], rows[1200:]
            refusing = RejectingClassifier(model, max_error=bar, random_state=seed)
            refusing.fit(X[train], given[train])
            errors.append(np.mean(refusing.estimator_.predict(X[new]) != given[new]))
            answered.append(refusing.accepts(X[new]).mean())
        print(
            f"| {name} | {100 * noise:.0f} % | {bar} | {100 * np.mean(errors):.1f} "
            f"| {100 * np.mean(answered):.0f} | {answered.count(0.0)} of {n_draws} |",
            flush=True,
        )


def drawn_letters():
    """Return letters A to Z of fonts that matplotlib brings, as digits are."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    out = []
    for family in ("DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono"):
        for style in ("normal", "oblique"):
            for letter in "ABCDEFGHJKLMNPQRTUVWXYZ":
                figure = Figure(figsize=(0.32, 0.32), dpi=100)
                canvas = FigureCanvasAgg(figure)
                figure.text(
                    0.5, 0.5, letter, ha="center", va="center", size=21,
                    family=family, style=style,
                )  # fmt: skip
                canvas.draw()
                ink = 255.0 - np.asarray(canvas.buffer_rgba())[:, :, 0]
                # Four by four pixels to one, 0 to 16, as the digits were made.
                out.append(ink.reshape(8, 4, 8, 4).mean(axis=(1, 3)) / 255 * 16)
    return np.reshape(out, (-1, 64))


def against_mapie(n_draws, seed):
    """Print the share answered and the guarantees broken, ours and MAPIE's."""
    from mapie.risk_control import BinaryClassificationController

    X, X_new, y, y_new = load_letters()
    model = GLVQClassifier(random_state=0).fit(X, y)
    sure, wrong = model.confidence(X_new), model.predict(X_new) != y_new
    # Its thresholds are numbers between 0 and 1: ranks among 1000 that are set aside.
    sure, known, wrong = sure[1000:], np.sort(sure[:1000]), wrong[1000:]
    sure = np.searchsorted(known, sure, side="right") / 1000 + 1e-9 * sure
    rng = np.random.default_rng(seed)

    def mapies(c, w, error, method):
        down = np.linspace(0.6, 0, 61)
        options = {} if method != "fixed_sequence" else {"list_predict_params": down}
        controller = BinaryClassificationController(
            lambda c: np.column_stack([1 - c[:, 0], c[:, 0]]), "precision", 1 - error,
            confidence_level=0.95, best_predict_param_choice="recall",
            fwer_method=method, **options,
        ).calibrate(c[:, None], (~w).astype(int))  # fmt: skip
        best = controller.best_predict_param
        return np.inf if best is None else float(best)

    ways = {
        "ours": lambda c, w, e: reject_threshold(np.zeros(len(w)), w, c, max_error=e),
        "MAPIE, default": lambda c, w, e: mapies(c, w, e, "bonferroni_holm"),
        "MAPIE, fixed_sequence from 0.6": lambda c, w, e: mapies(
            c, w, e, "fixed_sequence"
        ),
    }
    print(f"\nletter, {100 * wrong.mean():.1f} % wrong, {n_draws} draws\n")
    print("| n | max_error | " + " | ".join(f"{w}: answered, broken, %" for w in ways))
    print("|---|---|" + "---|" * len(ways))
    for n in (1000, 5000):
        for error in (0.01, 0.02):
            found = {name: [] for name in ways}
            for _ in range(n_draws):
                # With replacement: the letters at hand are the distribution.
                some = rng.integers(len(sure), size=n)
                for name, way in ways.items():
                    accepted = sure >= way(sure[some], wrong[some], error)
                    broken = accepted.any() and wrong[accepted].mean() > error
                    found[name].append((accepted.mean(), broken))
            cells = [100 * np.mean(pairs, axis=0) for pairs in found.values()]
            listed = " | ".join(f"{share:.1f}, {broken:.0f}" for share, broken in cells)
            print(f"| {n} | {error} | {listed} |", flush=True)


def guarantees_of(name, delta, coverage, n_draws, seed):
    """Share answered in one world, and shares of broken guarantees, one by one."""
    # A process of its own has filters of its own.
    warnings.filterwarnings("ignore", message="max_error=.* could not be shown")
    warnings.filterwarnings("ignore", message="The number of unique classes")
    world = worlds()[name]
    guarantee = {"max_error": world.max_error}
    draws = delta, n_draws, seed
    by_error, answered = count_broken(world, guarantee, *draws)
    by_coverage, _ = count_broken(world, {"coverage": coverage}, *draws)
    by_both = [
        count_broken(
            world,
            guarantee | {"outlier_fraction": 0.05, "outlier_score": far(world, kind)},
            *draws,
        )[0]
        for kind in ("random", "wrong", "right")
    ]
    return answered, by_error, by_coverage, *by_both


def main():
    """Print the table; the exit status says if a guarantee is broken too often."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="distributions at once")
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    if options.only in (None, "strange"):
        strange()
    if options.only in (None, "mapie"):
        against_mapie(min(options.draws, 100), options.seed)
    if options.only in (None, "noise"):
        noisy_labels()
    if options.only in (None, "few"):
        few_labels()
    broken = False
    if options.only in (None, "classes"):
        broken = classes(options.draws, options.seed, options.jobs)
    if options.only not in (None, "guarantees"):
        return int(broken)
    delta, coverage, start = 0.05, 0.6, time.perf_counter()
    allowed = delta + 2 * np.sqrt(delta * (1 - delta) / options.draws)
    print(
        f"{options.draws} draws each, delta = {delta}; broken guarantees, % "
        f"(standard error {100 * np.sqrt(delta * (1 - delta) / options.draws):.2f})\n"
    )
    print(
        "| distribution | n | max_error | broken | answered | coverage 0.6 broken | "
        "with a distance: random, wrong, right |"
    )
    print("|---|---|---|---|---|---|---|")
    worst, named = 0.0, worlds()
    rows = Parallel(options.jobs, "multiprocessing")(
        delayed(guarantees_of)(name, delta, coverage, options.draws, options.seed)
        for name in named
    )
    for (name, world), (answered, *broken) in zip(named.items(), rows, strict=True):
        worst = max(worst, *broken)
        by_error, by_coverage, *by_both = (f"{100 * share:.1f}" for share in broken)
        print(
            f"| {name} | {world.n} | {world.max_error} | {by_error} "
            f"| {100 * answered:.0f} | {by_coverage} | {', '.join(by_both)} |",
            flush=True,
        )
    print(f"\nworst {100 * worst:.1f} %, {time.perf_counter() - start:.0f} s")
    return int(broken or worst > allowed)


if __name__ == "__main__":
    sys.exit(main())
