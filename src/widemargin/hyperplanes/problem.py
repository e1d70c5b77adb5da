r"""A problem of two classes as the solvers see it, and what a solver found.

.. math:: \min_{w, b, \xi \ge 0} \tfrac12 \lVert w \rVert^2 + \sum_k C_k \xi_k^2
          \quad \text{with} \quad l_k (w \cdot x_k + b) \ge 1 - \xi_k .

Slack that is paid by its square is a coordinate that sample k has for itself, of length
:math:`p_k = 1 / \sqrt{2 C_k}`; a hard margin has none. A bias that is not free is the
weight of one more feature, of the value rho, and costs
:math:`\tfrac12 (b / \rho)^2`.

`Field` are the samples of a fit, in one unit, and `Problem` some rows of it with their
signs. Shapes: X (n_samples, d); rows, signs, private, diag, start (n,) of the problem.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from widemargin.hyperplanes.patterns import (
    Patterns,
    midpoint_of_means,
    reflect,
    spread_around,
)
from widemargin.hyperplanes.spaces import Kernel, KernelSpace, LinearSpace

# Features, of sparse samples the second, up to which systems of their size are solved
# faster than coordinates descend.
SYSTEM_SIZE, SPARSE_SYSTEM_SIZE = 1000, 2000


class Options(NamedTuple):
    """How far to go: stop at a relative gap of `tol`, in the margin asked for."""

    tol: float
    max_iter: int
    geometric: bool
    seed: int


class Solution(NamedTuple):
    """What a solver found, before it is certified.

    `coef` are the weights, or with a kernel one coefficient per sample; the plane is at
    functional margin one where that means something. `dual` is alpha >= 0 of shape
    (n,), a combination that bounds the margin. `closed` is False where the solver knows
    that rounding kept the gap open. `system` is the last that Newton solved.
    """

    coef: NDArray
    bias: float
    dual: NDArray
    n_iter: int
    n_updates: int
    closed: bool = True
    system: Any = None


def some_rows(X: Any, rows: NDArray) -> Any:
    """Rows of X, X itself for all; take copies in a third of the time of indexing."""
    if len(rows) == X.shape[0]:
        return X
    return X[rows] if sp.issparse(X) else X.take(rows, axis=0)


def private_lengths(prices: NDArray, unit: float = 1.0) -> NDArray:
    """Lengths of the private coordinates of samples, in a unit.

    `prices` are those of the slack of each sample, C times its weight.

    >>> private_lengths(np.array([0.5, 2.0]))
    array([1. , 0.5])
    """
    return np.sqrt(0.5 / prices) / unit


def squared(private: NDArray) -> NDArray:
    """Squares of lengths of private coordinates."""
    # Beyond these the margin is hard, or all slack, as far as doubles can tell.
    return np.clip(private, 1e-120, 1e120) ** 2


@dataclass(frozen=True)
class Field:
    """The samples of a fit, divided by `unit`, a power of two.

    `near` is X, less `offset` where that is far from zero. No row of X is longer than
    `longest`. With a kernel X is as it came, or the matrix of all pairs. `private` are
    the lengths of the private coordinates, None for a hard margin.
    """

    X: Any
    private: NDArray | None = None
    unit: float = 1.0
    near: Any = None
    offset: NDArray | None = None
    longest: float | None = None
    kernel: Kernel | None = None
    is_linear: bool = True

    def space(self, rows: NDArray) -> LinearSpace | KernelSpace:
        """Return the space of some of the samples."""
        X = some_rows(self.X, rows)
        if self.is_linear:
            return LinearSpace(X, self.longest)
        if self.kernel is None and len(rows) < self.X.shape[0]:
            X = X[:, rows]
        return KernelSpace(X, self.kernel)


@dataclass(frozen=True)
class Start:
    """What a fit leaves to the next: the dual vector, and the plane in units of X."""

    support: NDArray
    dual: NDArray
    n_samples: int
    coef: NDArray | None
    intercept: float
    norm: float

    def dual_of(self, rows: NDArray) -> NDArray:
        """Return the dual vector of these samples."""
        whole = np.zeros(self.n_samples)
        whole[self.support] = self.dual
        return whole[rows]

    def plane(self, field: Field) -> tuple[NDArray, float] | None:
        """Weights and bias at functional margin one, as the solvers see samples."""
        if self.coef is None or len(self.coef) != field.X.shape[1]:
            return None
        norm, bias = self.norm * field.unit, self.intercept / field.unit
        if field.offset is not None:
            bias = bias + field.offset @ self.coef
        return norm * self.coef, float(norm * bias)


@dataclass(frozen=True)
class Problem:
    """Which samples are on which side, what slack costs, and which margin is asked for.

    `rho` is the height where one is given, always where the bias is not free.
    """

    field: Field
    rows: NDArray
    signs: NDArray
    rho: float | None
    options: Options
    method: str = "auto"
    begin: Start | None = None

    @property
    def is_hard(self) -> bool:
        """Whether there is no slack."""
        return self.field.private is None

    @cached_property
    def private(self) -> NDArray | None:
        """Lengths of the private coordinates, None for a hard margin."""
        given = self.field.private
        return None if given is None else given[self.rows]

    @property
    def height(self) -> float | None:
        """Height of the samples, None for a free bias."""
        return None if self.options.geometric else self.rho

    @property
    def start(self) -> NDArray | None:
        """Dual vector to begin from, if there is one."""
        return None if self.begin is None else self.begin.dual_of(self.rows)

    @cached_property
    def diag(self) -> Any:
        """Squared private coordinates, None for a hard margin."""
        return None if self.private is None else squared(self.private)

    @cached_property
    def space(self) -> Any:
        """The samples as they are, which what is stored is certified for."""
        return self.field.space(self.rows)

    @cached_property
    def near(self) -> Any:
        """The samples next to the origin, where they are solved for."""
        if not self.field.is_linear:
            return self.space
        if self.field.offset is None:
            return LinearSpace(self.space.X)
        return LinearSpace(some_rows(self.field.near, self.rows))

    @cached_property
    def patterns(self) -> Patterns:
        """The samples next to the origin as reflected patterns, for perceptrons."""
        X, signs = self.near.X, self.signs
        free = self.options.geometric
        centre = midpoint_of_means(X, signs) if free else np.zeros(X.shape[1])
        rho = self.rho or spread_around(X, centre)
        return reflect(X, signs, rho=rho, centre=centre, diag=self.diag)

    @property
    def has_few_features(self) -> bool:
        """Whether a system of the size of the features is quickly solved."""
        X = self.field.X
        return X.shape[1] <= (SPARSE_SYSTEM_SIZE if sp.issparse(X) else SYSTEM_SIZE)

    @property
    def has_few_unknowns(self) -> bool:
        """Whether that, or one of the size of the samples, is."""
        most = SPARSE_SYSTEM_SIZE if sp.issparse(self.field.X) else SYSTEM_SIZE
        return len(self.rows) <= most or self.has_few_features
