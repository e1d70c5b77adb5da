r"""What a fitted classifier does to a sample, without the classifier.

A program is a chain of plain steps on the features, then one decision that gives every
class a margin. Writers (:mod:`~widemargin.export.onnx_graph`,
:mod:`~widemargin.export.c_header`) turn it into other languages; they know nothing of
estimators, and estimators nothing of them. It is to them what an intermediate
representation is to compilers, and they call this module `ir`.

The margins follow from squared distances D (n, n_classes), of which the nearest other
class gives :math:`D_-`, or from duels and scores:

==========  ====================================================
relative    :math:`(D_- - D) / (D_- + D)`
gap         score less the best other score
closest     what duels may change by, minus the duel that was lost
==========  ====================================================

The answer is the class of the largest margin, the first of equals; that margin is the
confidence, and answers below a learned threshold are refused. Arrays keep the dtype in
which the model holds them.
"""

from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.rounding import epsilon
from widemargin.tangents.convolution_features import Bank


class NotExportable(ValueError):
    """A model that cannot leave Python exactly as it is; the message says why."""


def refuse(estimator: Any, reason: str) -> NotExportable:
    """Name the estimator and what is in the way."""
    return NotExportable(f"{type(estimator).__name__} cannot be exported: {reason}.")


class Affine(NamedTuple):
    """``(x - centre) * scale + shift``, feature by feature."""

    centre: NDArray
    scale: NDArray
    shift: NDArray


class Clip(NamedTuple):
    """Keep every feature within [low, high]."""

    low: float
    high: float


class Fill(NamedTuple):
    """Put `values` where features are NaN."""

    values: NDArray


class Pick(NamedTuple):
    """Features by their numbers, in this order."""

    columns: NDArray


class Join(NamedTuple):
    """Chains of steps, each on the whole sample, with their features side by side."""

    parts: "tuple[tuple[Step, ...], ...]"


# Samples of smaller norm scikit-learn does not make longer.
SHORT = 10 * epsilon()


class Unit(NamedTuple):
    """Divide a sample by its norm, "l1", "l2" or "max", if that is at least SHORT."""

    norm: str


class Smooth(NamedTuple):
    """Filter images (height, width, channels) by one matrix per axis."""

    down: NDArray
    across: NDArray
    channels: int
    background: float


class Stencil(NamedTuple):
    """A weighted sum of what surrounds each feature: `weights` (w,), w odd.

    `left` and `right`, (w // 2, w), are those of the first and of the last features,
    which lack neighbours: sums of the first and of the last w.
    """

    weights: NDArray
    left: NDArray
    right: NDArray


class Scatter(NamedTuple):
    """Subtract from a sample its mean and divide it by its standard deviation.

    With a reference it is divided by its slope on that, whose mean is then added.
    """

    reference: NDArray | None = None


class Project(NamedTuple):
    """``matrix @ x``."""

    matrix: NDArray


class Convolve(NamedTuple):
    """Shares of time that signals (length, n_channels) have the shapes of `banks`.

    See :mod:`widemargin.tangents.convolution_features`; signals are zero beyond their
    ends.
    """

    n_channels: int
    banks: "tuple[Bank, ...]"


class Embed(NamedTuple):
    """Coordinates in the space of an rbf kernel, and what they leave of its length 1.

    ``z = matrix.T @ exp(-gamma |x - points|^2)``, then ``sqrt(1 - |z|^2)``.
    """

    points: NDArray
    gamma: float
    matrix: NDArray


class InputTangents(NamedTuple):
    """Tangents of a sample: affine in it, and squares of what is affine in it.

    Row k is ``offset[k] + maps[k] @ x`` with maps (l, d, d); rows of `squares`,
    (s, d, d) with offsets (s, d), are squared and summed to one tangent more.
    """

    maps: NDArray
    offset: NDArray
    squares: NDArray | None = None
    square_offset: NDArray | None = None
    # Relative size below which a tangent counts as dependent on the others.
    rtol: float = 0.0


class References(NamedTuple):
    """Points (K, d), their frames (K, m, d) or None, and which end moves.

    `sides` is "reference" (references), "query" (samples, along `tangents`), "mean" or
    "both".
    """

    points: NDArray
    frames: NDArray | None = None
    tangents: InputTangents | None = None
    sides: str = "reference"
    spring: float = 0.0


class Nearest(NamedTuple):
    """Each class is as far as its references say; `codes` (K,) are their classes.

    `rule` is "nearest", "k_nearest" (of `number`) or "parzen" (of that width). With
    `slopes` and `thresholds` (K,), D is ``log(1 + exp(slope (D - threshold)))``.
    """

    references: References
    codes: NDArray
    rule: str = "nearest"
    number: float = 1
    slopes: NDArray | None = None
    thresholds: NDArray | None = None


class Votes(NamedTuple):
    """The k nearest references vote; `weights` (K,) are factors of their votes."""

    references: References
    codes: NDArray
    n_neighbors: int
    by_distance: bool
    weights: NDArray


class Planes(NamedTuple):
    """Duels or scores ``coef @ x + intercept``, decided by `scheme`.

    "ovo" and "ddag" have a row of `coef` per pair of classes (0, 1), (0, 2), ...,
    positive for the first; two classes have one. "ovr" has a row per class; the border
    of two classes is their difference over `borders` (K, K), ones on the diagonal.
    `unit` is the size of the samples, by which clearness is weighed where votes are
    equal. A value below ``reach[:, 0] |x| + reach[:, 1]`` times the rounding of the
    arithmetic is zero, and of scores those that differ from the largest by rounding are
    the largest.

    With `shares` of P regressions, coef has P blocks of rows: log-odds of every
    regression, whose mean probabilities, as log-odds again, are the scores.
    """

    coef: NDArray
    intercept: NDArray
    scheme: str
    unit: float = 1.0
    borders: NDArray | None = None
    reach: NDArray | None = None
    shares: NDArray | None = None


class Expansion(NamedTuple):
    """Duels ``coef.T @ k(D) + intercept`` of kernel values of all references.

    `kernel` is "rbf", "nd" or "log" of `gamma`; coef is (K, n_duels). With tangents at
    one end k is the mean of the kernels with tangents at either end. Duels below
    `noise` times the largest that their sums can be are ties.
    """

    references: References
    kernel: str
    gamma: float
    coef: NDArray
    intercept: NDArray
    scheme: str
    noise: float = 0.0


Step = (
    Affine | Clip | Fill | Pick | Join | Unit | Smooth | Stencil | Scatter | Project
    | Embed | Convolve
)  # fmt: skip
Decision = Nearest | Votes | Planes | Expansion


class Program(NamedTuple):
    """All that is needed to answer: steps, decision, labels, threshold."""

    name: str
    n_features: int
    decision: Decision
    classes: NDArray
    margin_unit: str
    steps: tuple[Step, ...] = ()
    threshold: float | None = None
    reject_label: Any = None

    def after(self, *steps: Step, n_features: int) -> Self:
        """Return the program with steps before its own."""
        return self._replace(steps=(*steps, *self.steps), n_features=n_features)


def width_after(step: Step, width: int) -> int:
    """Return how many features there are after a step."""
    if isinstance(step, Pick):
        return len(step.columns)
    if isinstance(step, Project):
        return len(step.matrix)
    if isinstance(step, Embed):
        return step.matrix.shape[1] + 1
    if isinstance(step, Convolve):
        return sum(bank.low.size for bank in step.banks)
    if isinstance(step, Join):
        return sum(reduce(lambda w, s: width_after(s, w), p, width) for p in step.parts)
    return width


def in_parts(centre: NDArray) -> list[NDArray]:
    """Return what to subtract, one after another, in float32; nothing of zeros.

    The second part is what rounding leaves of the first: far from zero it matters.
    """
    first = in_float32(centre)
    parts = [first, (centre - first).astype(np.float32)]
    return [part for part in parts if part.any()]


def in_float32(values: Any) -> NDArray:
    """Return numbers in float32, or refuse those that it does not hold."""
    values = np.asarray(values)
    if not np.abs(values).max(initial=0) <= 3.4e38:
        raise NotExportable(
            "a number of this model is outside the range of float32; scale the data "
            "and fit again, or use dtype='float64' where there is one."
        )
    return values.astype(np.float32)


def require_squares(points: NDArray, dtype: Any) -> None:
    """Refuse references whose squared distances overflow or vanish in a dtype."""
    spread = float(np.abs(points - points.mean(axis=0, dtype=float)).max(initial=0))
    # With room for samples that are much nearer, or much farther, than references.
    high = 1e120 if dtype == np.float64 else 1e15
    if spread and not 1 / high < spread < high:
        raise NotExportable(
            f"references that are {spread:.1g} apart have no squares in "
            f"{np.dtype(dtype)}; scale the data and fit again, or use dtype='float64' "
            "where there is one."
        )


def exact_labels(classes: NDArray, reject_label: Any = None) -> list:
    """Labels, the reject label last if there is one, all int, all float or all str."""
    labels = np.asarray(classes).tolist()
    if reject_label is not None:
        labels = [*labels, np.asarray(reject_label).tolist()]
    for kind in (bool, int, float, str):
        if all(type(label) is kind for label in labels):
            break
    else:
        if not all(type(label) in (bool, int, float) for label in labels):
            kinds = sorted({type(label).__name__ for label in labels})
            raise NotExportable(
                f"labels of the kinds {', '.join(kinds)} have no common type outside "
                "Python; use labels, and a reject_label, that are all numbers or all "
                "text."
            )
        number = float if any(type(label) is float for label in labels) else int
        labels = [number(label) for label in labels]
    if any(type(label) is int and not -(2**63) <= label < 2**63 for label in labels):
        raise NotExportable("a label does not fit into 64 bits; use smaller numbers.")
    return labels
