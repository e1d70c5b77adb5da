r"""Pairwise support vector machines: one duel for every two classes.

On a Gram matrix or on features, both end as one matrix of coefficients: the decisions
of all duels are ``K @ coef_ + intercept_`` with K the kernel values of new samples and
the training samples (or their features), zero rows for those that support nothing.
Solvers are LIBSVM and LIBLINEAR through scikit-learn. Both minimise
|w|²/2 + Σ C_i max(0, 1 - m_i) over margins m; LIBLINEAR counts the offset as one more
feature of w, LIBSVM leaves it free.

Duels are (n_samples, K(K-1)/2), positive for the first class of the pair, and decided
by votes or along a graph: see :mod:`widemargin._core.decisions`.
"""

import warnings
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC, LinearSVC

from widemargin._compute.machine import available_bytes
from widemargin._compute.progress import announced
from widemargin._core.checks import (
    check_count,
    check_gamma,
    check_number,
    check_option,
    check_squares,
    unit_of_squares,
    warn_caller,
)
from widemargin._core.classifier import MarginClassifier
from widemargin._core.decisions import (
    as_decision,
    class_pairs,
    combine,
    duel_costs,
    duel_margins,
    from_decision,
)

SCHEMES = ("ovo", "ddag")
# Steps of LIBSVM for which a pass of LIBLINEAR is allowed: those are cheap and many.
STEPS_PER_PASS = 10
# scikit-learn's cache_size, in bytes.
LIBSVM_CACHE = 200 * 2**20
# Roundings that the sum of a decision may collect, in units of the dtype's epsilon.
ROUNDINGS = 512


class DuelClassifier(MarginClassifier):
    """Base of the machines that decide by duels: a subclass gives `_duels`.

    Margins are distances in units of the machines' own margin, which is at 1: of a
    predicted label the closest duel that it met (all of them with "ovo"), of another
    minus the duel that it lost.
    """

    margin_unit = "distance"
    _multiclass: str

    @abstractmethod
    def _duels(self, X: NDArray) -> NDArray:
        """Decisions of checked samples, (n, n_duels), positive for the first class."""

    def _class_scores(self, X):
        return duel_scores(self._duels(X), len(self.classes_), self._multiclass)

    def _scored(self, X):
        how = self._duels(X), len(self.classes_), self._multiclass
        return duel_scores(*how), duel_margins(*how)

    def _costs(self, X):
        return self._costs_of(self._duels(X))

    def _costs_of(self, duels):
        """Costs of the classes, and answers, of samples with these duels."""
        n_classes = len(self.classes_)
        answers = duel_scores(duels, n_classes, self._multiclass).argmax(axis=1)
        return duel_costs(duels, answers, n_classes), answers

    def _check_solver(self, **more: Any) -> None:
        """Check what all machines are given, and those numbers that must be above 0."""
        for name, value in {"C": self.C, "tol": self.tol, **more}.items():
            check_number(name, value, above=0)
        check_count("max_iter", self.max_iter)
        check_option("multiclass", self.multiclass, SCHEMES)
        check_gamma(self.gamma)
        self._multiclass = self.multiclass

    C: Any
    tol: Any
    max_iter: Any
    multiclass: Any
    gamma: Any


def duel_scores(duels: NDArray, n_classes: int, multiclass: str) -> NDArray:
    """(n, n_classes) scores from all duels; of two classes the decision itself."""
    if n_classes == 2:
        return from_decision(-duels[:, 0])
    return combine(duels, n_classes, multiclass)


class PairwiseMachine(ClassifierMixin, BaseEstimator):
    """One SVM per pair of classes, combined by "ovo" or "ddag".

    `matrix` is "gram", square kernel values, or "features". It says in `end_` how the
    solver ended, and warns of nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.svm.pairwise import PairwiseMachine
    >>> x = np.array([-1.0, -0.5, 0.5, 1.0])
    >>> machine = PairwiseMachine("gram", C=10.0).fit(np.outer(x, x), [0, 0, 1, 1])
    >>> machine.predict(np.outer([2.0, -3.0], x))
    array([1, 0])
    """

    def __init__(
        self,
        matrix="gram",
        C=1.0,
        multiclass="ovo",
        tol=1e-3,
        max_iter=1_000_000,
        random_state=None,
    ):
        self.matrix = matrix
        self.C = C
        self.multiclass = multiclass
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, K, y, sample_weight=None):
        """Solve all duels on kernel values (n, n) or features (n, m)."""
        self.classes_ = np.unique(y)
        on_gram = self.matrix == "gram"
        solve_all = self._solve_gram if on_gram else self._solve_features
        self.coef_, self.intercept_, self.end_ = solve_all(K, y, sample_weight)
        return self

    def _solve_gram(self, K, y, weights):
        svc = SVC(
            kernel="precomputed",
            C=self.C,
            tol=self.tol,
            max_iter=self.max_iter,
            decision_function_shape="ovo",
            random_state=self.random_state,
        )
        end = solve(svc, K, y, weights)
        coef = np.zeros((K.shape[1], len(class_pairs(len(self.classes_)))))
        coef[svc.support_], intercept = pairwise_coefficients(svc)
        return coef, intercept, end

    def _solve_features(self, F, y, weights):
        machines, end = [], Solved()
        for i, j in announced(class_pairs(len(self.classes_)), "duels"):
            rows = np.flatnonzero((y == self.classes_[i]) | (y == self.classes_[j]))
            machine = LinearSVC(
                C=self.C, loss="hinge", dual=True, tol=self.tol,
                max_iter=-(-self.max_iter // STEPS_PER_PASS),
                random_state=self.random_state,
            )  # fmt: skip
            own = None if weights is None else weights[rows]
            first = y[rows] == self.classes_[i]
            end = end.and_(solve(machine, F[rows], first, own))
            machines.append(machine)
        coef = np.column_stack([machine.coef_[0] for machine in machines])
        offsets = np.array([machine.intercept_[0] for machine in machines])
        return coef, offsets, end

    @property
    def n_support_(self):
        """Samples (or features) that take part in each duel."""
        return np.count_nonzero(self.coef_, axis=0)

    def class_scores(self, K):
        """Scores (n, n_classes) from kernel values or features of new samples."""
        duels = K @ self.coef_ + self.intercept_
        return duel_scores(duels, len(self.classes_), self.multiclass)

    def decision_function(self, K):
        """Class scores, of two classes as one column."""
        return as_decision(self.class_scores(K))

    def predict(self, K):
        """Class that the duels decide for."""
        return self.classes_[self.class_scores(K).argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.matrix == "gram"
        return tags


class Solved(NamedTuple):
    """How a solver ended: within its tolerance or not, after how many steps."""

    converged: bool = True
    n_iter: int = 1

    def and_(self, other: "Solved") -> "Solved":
        """Return the worse of two ends."""
        return Solved(
            self.converged and other.converged, max(self.n_iter, other.n_iter)
        )


def solve(machine: Any, X: NDArray, y: NDArray, weights: NDArray | None) -> Solved:
    """Fit a machine of scikit-learn; tell how that ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X, y, weights)
    n_iter = max(1, int(np.max(machine.n_iter_)))
    if isinstance(machine, LinearSVC):
        return Solved(n_iter < machine.max_iter, n_iter)
    return Solved(machine.fit_status_ == 0, n_iter)


def decide(K: NDArray, coef: NDArray, intercept: NDArray) -> NDArray:
    """Decisions of all duels; what is rounding is a tie, alone as in a batch."""
    duels = K @ coef + intercept
    size = np.abs(K).max(axis=1, initial=0)[:, None] * np.abs(coef).sum(axis=0)
    noise = ROUNDINGS * np.finfo(K.dtype).eps * (size + np.abs(intercept))
    return np.where(np.abs(duels) <= noise, 0.0, duels)


def say_how_it_ended(end: Solved, estimator: Any) -> None:
    """Keep the steps taken; warn of a solver that stopped before its time."""
    estimator.n_iter_ = end.n_iter
    if not end.converged:
        warn_caller(
            f"the solver of {type(estimator).__name__} stopped at "
            f"max_iter={estimator.max_iter} before it reached tol={estimator.tol:g}: "
            "the machine is not the optimal one. Scale the data, or give a smaller C, "
            "a larger tol or a larger max_iter.",
            ConvergenceWarning,
        )


def pairwise_coefficients(svc: SVC) -> tuple[NDArray, NDArray]:
    """Coefficients (n_support, n_duels) and offsets, positive for the first class.

    LIBSVM stores the coefficients of a support vector of class i in its K - 1 duels in
    a column, in the order of the other classes.
    """
    n_classes, alphas = len(svc.classes_), np.asarray(svc.dual_coef_)
    if n_classes == 2:
        return -alphas.T, -svc.intercept_
    ends = np.cumsum(svc.n_support_)
    starts = ends - svc.n_support_
    coef = np.zeros((alphas.shape[1], len(class_pairs(n_classes))))
    for column, (i, j) in enumerate(class_pairs(n_classes)):
        first, second = slice(starts[i], ends[i]), slice(starts[j], ends[j])
        coef[first, column] = alphas[j - 1, first]
        coef[second, column] = alphas[i, second]
    return coef, svc.intercept_


def duels_of(svc: SVC, X: NDArray) -> NDArray:
    """All duels of a fitted SVC with ``decision_function_shape="ovo"``."""
    duels = svc.decision_function(X)
    return -duels[:, None] if duels.ndim == 1 else duels


class _Duels(PairwiseMachine):
    """A machine whose answers are the duels themselves."""

    def predict(self, K):
        return K @ self.coef_ + self.intercept_


def left_out_duels(
    machine: PairwiseMachine, K: NDArray, y: NDArray, sample_weight: Any
) -> NDArray:
    """Duels of every sample, by machines that were trained without it."""
    smallest = np.unique(y, return_counts=True)[1].min()
    if smallest < 2:
        raise ValueError(
            "probability=True leaves samples out and needs at least 2 samples of every "
            "class; some class of y has 1."
        )
    params = {} if sample_weight is None else {"sample_weight": sample_weight}
    left_out = _Duels(**machine.get_params())
    return cross_val_predict(left_out, K, y, cv=min(5, smallest), params=params)


def unit_for(X: NDArray, kernel: Any, gamma: Any) -> float:
    """Return what to divide samples by so that their squares are numbers.

    A kernel whose width is a matter of the data does not notice; another is refused.
    """
    unit = unit_of_squares(X)
    free = ("rbf", "poly", "sigmoid") if gamma == "scale" else ("rbf",)
    if unit != 1 and (callable(kernel) or kernel not in free):
        raise ValueError(
            f"X is of the size of {unit:.2g}, whose squares overflow or vanish in "
            f"{X.dtype}; scale the data, for instance by StandardScaler, or use "
            "kernel='rbf'."
        )
    check_squares(X, unit)
    return unit


def gamma_in_unit(gamma: Any, X: NDArray, unit: float) -> float:
    """Gamma for samples `X` that were divided by `unit`; "scale" is as in ``SVC``."""
    if isinstance(gamma, str):
        variance = float(X.var(dtype=np.float64))
        return 1 / (X.shape[1] * variance) if variance > 0 else 1.0
    return float(np.clip(float(gamma) * unit * unit, 1e-300, 1e300))


def gamma_of_data(gamma: float, unit: float) -> float:
    """Gamma in the units of the data again, as far as there is such a number."""
    return float(np.clip(gamma / unit / unit, 0, np.finfo(float).max))


def require_gram_fits(n: int, bytes_per_entry: int, way_out: str) -> None:
    """Refuse a Gram matrix that memory does not hold, before any of it exists."""
    # What LIBSVM keeps of it in single precision comes on top, up to a limit.
    cache = min(4 * n**2, LIBSVM_CACHE)
    needed, there = float(n) ** 2 * bytes_per_entry + cache, available_bytes()
    if needed > there:
        raise MemoryError(
            f"the Gram matrix of {n} samples needs {needed / 2**30:.1f} GiB, "
            f"{n} × {n} × {bytes_per_entry} bytes and what the solver keeps, and "
            f"{there / 2**30:.1f} GiB of memory are available. {way_out}"
        )
