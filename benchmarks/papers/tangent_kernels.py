"""Haasdonk and Keysers 2002: tangent distance kernels on USPS, tables 2 and 3.

Ten kernels, the radial basis function and the negative distance, each with the
Euclidean and four tangent distances; and the three methods the paper could not
compare with: virtual support vectors, jittering, invariant hyperplanes. Images have
values in [0, 1] and are scaled to norm at most 1.

Where the paper picks the parameters with the least test error, here they come from
cross-validation on the training set; the paper's own parameters fill a second column.
What is held out are stretches of the training set, not single images: an image is next
to others of the same hand, which would make it look easier than a new writer's. The
two-sided kernels may choose a spring too. Without one both images are free to leave for
a common blur, the distances come out too small and the kernel far from positive.

Reference: B. Haasdonk, D. Keysers, Tangent distance kernels for support vector
machines, ICPR 2002.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from papers import (
    Split,
    folds,
    load_split,
    measured,
    save_figure,
    stretches,
    timed,
)
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit

from widemargin._compute.machine import thread_map
from widemargin.datasets import load_usps
from widemargin.hyperplanes.pairwise import PairwiseMachine, pairwise_coefficients
from widemargin.inspection import PrototypeDisplay, TangentDisplay
from widemargin.metrics import tangent_alignment, tangent_distances
from widemargin.metrics.kernels import kernel_of_distances
from widemargin.svm import InvariantHyperplaneSVC, JitteredSVC, TangentSVC, VirtualSVC
from widemargin.tangents import ImageTangents, TransformTangents, image_shifts
from widemargin.tangents.image import FIELDS

SHAPE = (16, 16)
# The midpoint distance is fast for tangents that are affine in the image only: it
# does without thickness, which is quadratic.
AFFINE = tuple(FIELDS)


@dataclass(frozen=True)
class Published:
    """One line of tables 2 and 3; `sides` None is the Euclidean distance."""

    name: str
    kernel: str
    sides: str | None
    gamma: float
    C: float
    error: float
    train_seconds: float
    test_seconds: float
    supports: int


PUBLISHED = (
    Published("RBF", "rbf", None, 8, 10, 4.6, 199, 228, 175),
    Published("RBF 1S", "rbf", "reference", 20, 10, 4.1, 2814, 3878, 267),
    Published("RBF 2S", "rbf", "both", 20, 10, 3.8, 6057, 8172, 190),
    Published("RBF MP", "rbf", "midpoint", 20, 10, 3.5, 2437, 3394, 232),
    Published("RBF MN", "rbf", "mean", 10, 10, 3.4, 3159, 3950, 133),
    Published("ND", "nd", None, 1.0, 10, 5.1, 224, 291, 177),
    Published("ND 1S", "nd", "reference", 0.3, 1, 5.0, 2947, 4364, 298),
    Published("ND MN", "nd", "mean", 0.7, 10, 4.2, 3737, 5023, 176),
    Published("ND MP", "nd", "midpoint", 0.3, 70, 3.9, 2805, 4122, 282),
    Published("ND 2S", "nd", "both", 0.3, 10, 3.6, 7873, 11433, 269),
)
GRID = {
    "rbf": {"gamma": (4, 6, 8, 10, 12, 14, 20), "C": (10,)},
    "nd": {"gamma": (0.3, 0.4, 0.5, 0.7, 1.0), "C": (1, 10)},
}
# Next to none, and two that hold: for distances with tangents at both ends.
SPRINGS = (1e-5, 0.1, 0.2)
N_FOLDS = 5
QUICK = (600, 300)  # training and test images; the paper has 7291 and 2007
HEADER = (
    "kernel",
    "gamma",
    "C",
    "spring",
    "cv error",
    "error",
    "at paper's",
    "paper",
    *("train, s", "paper", "test, s", "paper", "supports", "paper"),
)


@dataclass(frozen=True)
class Line:
    """One line of our tables."""

    name: str
    gamma: float
    C: float
    spring: float
    cv_error: float
    error: float
    train_seconds: float
    test_seconds: float
    supports: float
    paper: Published | None
    error_at_papers: float | None


def scaled(split: Split) -> Split:
    """Scale images in [0, 1] so that no training image is longer than 1."""
    norm = np.linalg.norm(split.X_train, axis=1).max()
    return split._replace(X_train=split.X_train / norm, X_test=split.X_test / norm)


def error_of(predicted: NDArray, split: Split) -> float:
    """Test error in per cent."""
    return measured(predicted != split.y_test).error


def tangents_for(sides: str | None) -> ImageTangents | None:
    """Simard's seven; six for the midpoint; none for Euclid."""
    if sides is None:
        return None
    return ImageTangents(SHAPE, AFFINE if sides == "midpoint" else "simard7")


def tables(
    digits: Split,
    *,
    rows: tuple[Published, ...] = PUBLISHED,
    grid: dict = GRID,
    springs: tuple[float, ...] = SPRINGS,
    n_jobs: int | None = None,
) -> Iterator[Line]:
    """Lines of tables 2 and 3, one kernel after the other."""
    for sides in dict.fromkeys(row.sides for row in rows):
        some = springs if sides == "both" else springs[:1]
        distances = [_Distances(digits, sides, spring, n_jobs) for spring in some]
        for paper in (row for row in rows if row.sides == sides):
            found = [d.choose(paper.kernel, grid[paper.kernel]) for d in distances]
            cv_error, gamma, C, spring = min(found, key=lambda choice: choice[0])
            options: dict[str, Any] = {"kernel": paper.kernel, "sides": sides or "mean"}
            machine = TangentSVC(
                C=C, gamma=gamma, tangents=tangents_for(sides) or "none",
                spring=spring, multiclass="ddag", psd_correction="none", n_jobs=n_jobs,
                **options,
            )  # fmt: skip
            predicted, train_s, test_s = timed(machine, digits)
            yield Line(
                paper.name, gamma, C, spring, cv_error, error_of(predicted, digits),
                train_s, test_s, supports_per_duel(machine), paper,
                distances[0].test_error(paper.kernel, paper.gamma, paper.C),
            )  # fmt: skip


def supports_per_duel(machine: Any) -> float:
    """Mean number of support vectors in the duels of two classes."""
    fitted = getattr(machine, "svc_", None)
    coef = machine.coef_ if fitted is None else pairwise_coefficients(fitted)[0]
    return float(np.count_nonzero(coef, axis=0).mean())


class _Distances:
    """All squared distances of one kind: computed once, for every gamma and C."""

    def __init__(
        self, digits: Split, sides: str | None, spring: float, n_jobs: int | None
    ):
        self.digits, self.spring, self.n_jobs = digits, spring, n_jobs
        tangents = tangents_for(sides)
        # A frame of no rows: the Euclidean distance through the same products.
        options: dict[str, Any] = {
            "tangents": np.empty((0, digits.X_train.shape[1]))
            if tangents is None
            else tangents,
            "spring": spring,
            "n_jobs": n_jobs,
        }
        ends = (
            ("query", "reference") if sides == "reference" else (sides or "reference",)
        )
        self.train = [
            tangent_distances(digits.X_train, sides=side, **options) for side in ends
        ]
        self.test = [
            tangent_distances(digits.X_test, digits.X_train, sides=side, **options)
            for side in ends
        ]

    def kernel(self, which: list[NDArray], kernel: str, gamma: float) -> NDArray:
        """Kernel values, the mean of both ends where the distance is one-sided."""
        total = np.zeros(which[0].shape)
        for d2 in which:
            total += kernel_of_distances(d2.copy(), kernel, gamma)
        return total / len(which)

    def choose(self, kernel: str, grid: dict) -> tuple[float, float, float, float]:
        """Error, gamma, C, spring of the least error in held-out stretches."""
        y = self.digits.y_train
        parts = folds(stretches(len(y), N_FOLDS))
        best = (np.inf, 0.0, 0.0, self.spring)
        for gamma in grid["gamma"]:
            K = self.kernel(self.train, kernel, gamma)

            def errors(task, K=K):
                C, (fit, held) = task
                machine = PairwiseMachine("gram", C, "ddag").fit(
                    K[np.ix_(fit, fit)], y[fit]
                )
                return np.sum(machine.predict(K[np.ix_(held, fit)]) != y[held])

            tasks = list(product(grid["C"], parts))
            wrong = np.reshape(thread_map(errors, tasks, self.n_jobs), (-1, len(parts)))
            for C, count in zip(grid["C"], wrong.sum(axis=1), strict=True):
                if count < best[0]:
                    best = float(count), gamma, C, self.spring
        return 100 * best[0] / len(y), *best[1:]

    def test_error(self, kernel: str, gamma: float, C: float) -> float:
        """Test error in per cent at given parameters."""
        machine = PairwiseMachine("gram", C, "ddag")
        machine.fit(self.kernel(self.train, kernel, gamma), self.digits.y_train)
        predicted = machine.predict(self.kernel(self.test, kernel, gamma))
        return error_of(predicted, self.digits)


def rivals(digits: Split) -> Iterator[Line]:
    """Virtual support vectors, jittering and invariant hyperplanes, same scaling."""
    four = image_shifts(SHAPE, diagonal=False)
    searches: tuple[tuple[str, Any, dict], ...] = (
        ("VSV, 4 shifts", VirtualSVC(transformations=four), {"gamma": (4, 6, 8)}),
        (
            "VSV, ± 2 tangents",
            VirtualSVC(tangents=ImageTangents(SHAPE, AFFINE[:2])),
            {"gamma": (4, 6, 8)},
        ),
        (
            "jittering, 4 shifts",
            JitteredSVC(transformations=four, psd_correction="none"),
            {"gamma": (8, 12)},
        ),
        (
            "invariant hyperplane, linear",
            InvariantHyperplaneSVC(tangents=tangents_for("both")),
            {"shrinkage": (1.0, 0.3, 0.1, 0.03)},
        ),
        (
            "invariant hyperplane, RBF",
            InvariantHyperplaneSVC(
                kernel="rbf", gamma=8.0, tangents=tangents_for("both"), random_state=0
            ),
            {"shrinkage": (1.0, 0.3, 0.1, 0.03)},
        ),
    )
    held_out = StratifiedShuffleSplit(1, test_size=0.3, random_state=0)
    for name, machine, grid in searches:
        search = GridSearchCV(machine, grid, cv=held_out, refit=False)
        search.fit(digits.X_train, digits.y_train)
        machine.set_params(**search.best_params_)
        predicted, train_s, test_s = timed(machine, digits)
        ((of, value),) = search.best_params_.items()
        yield Line(
            f"{name}, {of}={value}",
            float(machine.gamma) if machine.gamma != "scale" else np.nan,
            float(machine.C), np.nan, 100 * (1 - search.best_score_),
            error_of(predicted, digits), train_s, test_s, supports_per_duel(machine),
            None, None,
        )  # fmt: skip


def figure_2() -> Any:
    """Illustration of the four tangent distances of two points in space.

    Each point is varied by a turn about the third axis and a rise with the angle, so
    that its tangent is a line askew to the other's.
    """
    import matplotlib.pyplot as plt

    x, y = np.array([[2.0, 0.2, 0.0]]), np.array([[0.4, 1.8, 1.0]])
    generator = TransformTangents([_helix])
    lines = {"x": generator.tangents(x)[0, 0], "y": generator.tangents(y)[0, 0]}
    middle = (x + y) / 2
    lines["m"] = generator.tangents(middle)[0, 0]
    figure = plt.figure(figsize=(11, 3.2))
    panels = (("reference", "1S"), ("both", "2S"), ("mean", "MN"), ("midpoint", "MP"))
    for place, (sides, name) in enumerate(panels):
        axes: Any = figure.add_subplot(1, 4, place + 1, projection="3d")
        if sides != "midpoint":
            _line(axes, x[0], lines["x"], dashed=sides == "reference")
            _line(axes, y[0], lines["y"], dashed=False)
        else:
            _line(axes, middle[0], lines["m"], dashed=False)
        shown = ("query", "reference") if sides == "mean" else (sides,)
        for side in shown:
            pair = tangent_alignment(x, y, tangents=generator, sides=side)
            ends = np.concatenate([pair.x_aligned, pair.y_aligned])
            axes.plot(*ends.T, "o-", color="tab:red", markersize=3)
        axes.scatter(*np.concatenate([x, y]).T, color="black")
        for point, label in ((x[0], "x"), (y[0], "x'")):
            axes.text(*point, f"  {label}")
        d = tangent_distances(x, y, tangents=generator, sides=sides, squared=False)
        axes.set_title(f"{name}: d = {d[0, 0]:.2f}")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_zticks([])
    return figure


def _helix(X: NDArray, p: float) -> NDArray:
    c, s = np.cos(p), np.sin(p)
    turned = X[:, :1] * [[c, s]] + X[:, 1:2] * [[-s, c]]
    return np.column_stack([turned, X[:, 2] + 0.4 * p * X[:, 0]])


def _line(axes: Any, point: NDArray, direction: NDArray, *, dashed: bool) -> None:
    steps = np.linspace(-0.8, 0.8, 2)[:, None]
    style = "--" if dashed else "-"
    axes.plot(*(point + steps * direction).T, style, color="0.6")


def figure_3(X: NDArray, y: NDArray) -> Any:
    """Examples of USPS digits."""
    chosen = [np.flatnonzero(y == label)[:4] for label in np.unique(y)]
    rows = np.concatenate(chosen)
    return PrototypeDisplay(prototypes=X[rows], labels=y[rows], shape=SHAPE).plot()


def figure_4(x: NDArray) -> Any:
    """One image and the points of its tangent space, along each tangent t_i."""
    return TangentDisplay.from_estimator(ImageTangents(SHAPE), x)


def main(quick: bool = False, out: Path | str = ".") -> None:
    """Run tables 2 and 3 on USPS line by line, then the rivals and the figures."""
    split = load_split(load_usps)
    sizes = QUICK if quick else (len(split.y_train), len(split.y_test))
    rng = np.random.default_rng(0)
    drawn = [
        np.sort(rng.choice(len(labels), n, replace=False))
        for labels, n in zip((split.y_train, split.y_test), sizes, strict=True)
    ]
    X, y = split.X_train[drawn[0]].astype(np.float64), split.y_train[drawn[0]]
    X_test = split.X_test[drawn[1]].astype(np.float64)
    digits = scaled(Split(X, y, X_test, split.y_test[drawn[1]]))
    print("USPS, {} training and {} test images; errors in per cent".format(*sizes))
    print(f"{HEADER[0]:<40}" + "".join(f"{head:>11}" for head in HEADER[1:]))
    for line in chain(tables(digits), rivals(digits)):
        _print_line(line)
    save_figures(X, y, Path(out))


def save_figures(X: NDArray, y: NDArray, folder: Path) -> None:
    """Draw figures 2 to 4 with images of USPS."""
    figures = {
        2: figure_2(),
        3: figure_3(X, y).figure_,
        4: figure_4(X[np.flatnonzero(y == 2)[0]]).figure_,
    }
    for number, figure in figures.items():
        save_figure(figure, folder / f"tangent_kernels_figure_{number}.png")


def _print_line(line: Line) -> None:
    numbers: list[Any] = [line.gamma, line.C, line.spring, line.cv_error]
    numbers += [line.error, line.error_at_papers, getattr(line.paper, "error", None)]
    for name in ("train_seconds", "test_seconds", "supports"):
        numbers += [getattr(line, name), getattr(line.paper, name, None)]
    cells = ("" if v is None or np.isnan(v) else f"{v:.4g}" for v in numbers)
    print(f"{line.name:<40}" + "".join(f"{cell:>11}" for cell in cells), flush=True)
