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
machines, ICPR 2002. Figures 2 to 4 are in
:mod:`widemargin.reproduce.tangent_kernel_figures`.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedShuffleSplit

from widemargin._compute.threads import thread_map
from widemargin.metrics import tangent_distances
from widemargin.metrics.kernels import kernel_of_distances
from widemargin.svm import InvariantHyperplaneSVC, JitteredSVC, TangentSVC, VirtualSVC
from widemargin.svm.machine import PairwiseMachine, pairwise_coefficients
from widemargin.tangents import ImageTangents, image_shifts

SHAPE = (16, 16)
# The midpoint distance is fast for tangents that are affine in the image only: it
# does without thickness, which is quadratic.
AFFINE = (
    "x_shift",
    "y_shift",
    "scaling",
    "rotation",
    "axis_deformation",
    "diagonal_deformation",
)


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
    Published("RBF 1S", "rbf", "y", 20, 10, 4.1, 2814, 3878, 267),
    Published("RBF 2S", "rbf", "two", 20, 10, 3.8, 6057, 8172, 190),
    Published("RBF MP", "rbf", "midpoint", 20, 10, 3.5, 2437, 3394, 232),
    Published("RBF MN", "rbf", "mean", 10, 10, 3.4, 3159, 3950, 133),
    Published("ND", "nd", None, 1.0, 10, 5.1, 224, 291, 177),
    Published("ND 1S", "nd", "y", 0.3, 1, 5.0, 2947, 4364, 298),
    Published("ND MN", "nd", "mean", 0.7, 10, 4.2, 3737, 5023, 176),
    Published("ND MP", "nd", "midpoint", 0.3, 70, 3.9, 2805, 4122, 282),
    Published("ND 2S", "nd", "two", 0.3, 10, 3.6, 7873, 11433, 269),
)
GRID = {
    "rbf": {"gamma": (4, 6, 8, 10, 12, 14, 20), "C": (10,)},
    "nd": {"gamma": (0.3, 0.4, 0.5, 0.7, 1.0), "C": (1, 10)},
}
# Next to none, and two that hold: for distances with tangents at both ends.
SPRINGS = (1e-5, 0.1, 0.2)
N_FOLDS = 5


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


@dataclass(frozen=True)
class Digits:
    """Training and test images, scaled as in the paper."""

    X_train: NDArray
    y_train: NDArray
    X_test: NDArray
    y_test: NDArray

    @classmethod
    def scaled(cls, X_train, y_train, X_test, y_test) -> "Digits":
        """Scale images in [0, 1] so that no training image is longer than 1."""
        norm = np.linalg.norm(X_train, axis=1).max()
        return cls(X_train / norm, y_train, X_test / norm, y_test)

    def error(self, predicted: NDArray) -> float:
        """Test error in per cent."""
        return 100 * float(np.mean(predicted != self.y_test))


def tangents_for(sides: str | None) -> ImageTangents | None:
    """Simard's seven; six for the midpoint; none for Euclid."""
    if sides is None:
        return None
    return ImageTangents(SHAPE, AFFINE if sides == "midpoint" else "simard7")


def tables(
    digits: Digits,
    *,
    rows: tuple[Published, ...] = PUBLISHED,
    grid: dict = GRID,
    springs: tuple[float, ...] = SPRINGS,
    n_jobs: int | None = None,
) -> Iterator[Line]:
    """Lines of tables 2 and 3, one kernel after the other."""
    for sides in dict.fromkeys(row.sides for row in rows):
        some = springs if sides == "two" else springs[:1]
        distances = [_Distances(digits, sides, spring, n_jobs) for spring in some]
        for paper in (row for row in rows if row.sides == sides):
            found = [d.choose(paper.kernel, grid[paper.kernel]) for d in distances]
            cv_error, gamma, C, spring = min(found, key=lambda choice: choice[0])
            machine = TangentSVC(
                paper.kernel, C=C, gamma=gamma, tangents=tangents_for(sides),
                sides=sides or "mean", spring=spring, n_jobs=n_jobs,
            )  # fmt: skip
            predicted, train_s, test_s = timed(machine, digits)
            yield Line(
                paper.name, gamma, C, spring, cv_error, digits.error(predicted),
                train_s, test_s, supports_per_duel(machine), paper,
                distances[0].test_error(paper.kernel, paper.gamma, paper.C),
            )  # fmt: skip


def stretches(n_samples: int, n_groups: int) -> NDArray:
    """Group of each sample: stretches of the set, all about as long."""
    return np.arange(n_samples) * n_groups // n_samples


def supports_per_duel(machine: Any) -> float:
    """Mean number of support vectors in the duels of two classes."""
    fitted = getattr(machine, "svc_", None)
    coef = machine.coef_ if fitted is None else pairwise_coefficients(fitted)[0]
    return float(np.count_nonzero(coef, axis=0).mean())


def timed(machine: Any, digits: Digits) -> tuple[NDArray, float, float]:
    """Test predictions, and the seconds of training and of testing."""
    start = time.perf_counter()
    machine.fit(digits.X_train, digits.y_train)
    fitted = time.perf_counter()
    predicted = machine.predict(digits.X_test)
    return predicted, fitted - start, time.perf_counter() - fitted


class _Distances:
    """All squared distances of one kind: computed once, for every gamma and C."""

    def __init__(
        self, digits: Digits, sides: str | None, spring: float, n_jobs: int | None
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
        ends = ("x", "y") if sides == "y" else (sides or "y",)
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
        groups = stretches(len(y), N_FOLDS)
        folds = list(GroupKFold(N_FOLDS).split(y, y, groups))
        best = (np.inf, 0.0, 0.0, self.spring)
        for gamma in grid["gamma"]:
            K = self.kernel(self.train, kernel, gamma)

            def errors(task, K=K):
                C, (fit, held) = task
                machine = PairwiseMachine("gram", C).fit(K[np.ix_(fit, fit)], y[fit])
                return np.sum(machine.predict(K[np.ix_(held, fit)]) != y[held])

            tasks = list(product(grid["C"], folds))
            wrong = np.reshape(thread_map(errors, tasks, self.n_jobs), (-1, len(folds)))
            for C, count in zip(grid["C"], wrong.sum(axis=1), strict=True):
                if count < best[0]:
                    best = float(count), gamma, C, self.spring
        return 100 * best[0] / len(y), *best[1:]

    def test_error(self, kernel: str, gamma: float, C: float) -> float:
        """Test error in per cent at given parameters."""
        machine = PairwiseMachine("gram", C)
        machine.fit(self.kernel(self.train, kernel, gamma), self.digits.y_train)
        return self.digits.error(machine.predict(self.kernel(self.test, kernel, gamma)))


def rivals(digits: Digits) -> Iterator[Line]:
    """Virtual support vectors, jittering and invariant hyperplanes, same scaling."""
    four = image_shifts(SHAPE, diagonal=False)
    searches: tuple[tuple[str, Any, dict], ...] = (
        ("VSV, 4 shifts", VirtualSVC(transformations=four), {"gamma": (4, 6, 8)}),
        (
            "VSV, ± 2 tangents",
            VirtualSVC(tangents=ImageTangents(SHAPE, AFFINE[:2])),
            {"gamma": (4, 6, 8)},
        ),
        ("jittering, 4 shifts", JitteredSVC(transformations=four), {"gamma": (8, 12)}),
        (
            "invariant hyperplane, linear",
            InvariantHyperplaneSVC(tangents=tangents_for("two")),
            {"lam": (1.0, 0.3, 0.1, 0.03)},
        ),
        (
            "invariant hyperplane, RBF",
            InvariantHyperplaneSVC(
                kernel="rbf", gamma=8.0, tangents=tangents_for("two"), random_state=0
            ),
            {"lam": (1.0, 0.3, 0.1, 0.03)},
        ),
    )
    held_out = StratifiedShuffleSplit(1, test_size=0.3, random_state=0)
    for name, machine, grid in searches:
        search = GridSearchCV(machine, grid, cv=held_out, refit=False)
        search.fit(digits.X_train, digits.y_train)
        machine.set_params(**search.best_params_)
        predicted, train_s, test_s = timed(machine, digits)
        yield Line(
            f"{name}, {_told(search.best_params_)}",
            float(machine.gamma) if machine.gamma != "scale" else np.nan,
            float(machine.C), np.nan, 100 * (1 - search.best_score_),
            digits.error(predicted), train_s, test_s, supports_per_duel(machine),
            None, None,
        )  # fmt: skip


def _told(parameters: dict) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())
