r"""Pairwise support vector machines on a Gram matrix or on features.

Both end as one matrix of coefficients: the decisions of all duels are
``K @ coef_ + intercept_`` with K the kernel values of new samples and the training
samples (or their features), zero rows for those that support nothing. Solvers are
LIBSVM and LIBLINEAR through scikit-learn. Both minimise |w|²/2 + Σ C_i max(0, 1 - m_i)
over margins m; LIBLINEAR counts the offset as one more feature of w, LIBSVM leaves it
free.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC, LinearSVC

from widemargin._compute.progress import announced
from widemargin.svm.checks import weigh
from widemargin.svm.duels import class_pairs, combine

# Of LIBLINEAR, whose passes over the samples are cheap and many.
_MOST_PASSES = 100_000


class PairwiseMachine(ClassifierMixin, BaseEstimator):
    """One SVM per pair of classes, combined by "ddag" or "ovo".

    `matrix` is "gram", square kernel values, or "features".

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
        class_weight=None,
        multiclass="ddag",
        tol=1e-3,
        random_state=None,
    ):
        self.matrix = matrix
        self.C = C
        self.class_weight = class_weight
        self.multiclass = multiclass
        self.tol = tol
        self.random_state = random_state

    def fit(self, K, y, sample_weight=None):
        """Solve all duels on kernel values (n, n) or features (n, m)."""
        self.classes_ = np.unique(y)
        factors = weigh(self.class_weight, self.classes_, y, sample_weight)
        solve = self._solve_gram if self.matrix == "gram" else self._solve_features
        self.coef_, self.intercept_ = solve(K, y, factors)
        return self

    def _solve_gram(self, K, y, factors):
        svc = SVC(
            kernel="precomputed",
            C=self.C,
            tol=self.tol,
            decision_function_shape="ovo",
            random_state=self.random_state,
        ).fit(K, y, factors)
        coef = np.zeros((K.shape[1], len(class_pairs(len(self.classes_)))))
        coef[svc.support_], intercept = pairwise_coefficients(svc)
        return coef, intercept

    def _solve_features(self, F, y, factors):
        machines = []
        for i, j in announced(class_pairs(len(self.classes_)), "duels"):
            rows = np.flatnonzero((y == self.classes_[i]) | (y == self.classes_[j]))
            machine = LinearSVC(
                C=self.C, loss="hinge", dual=True, tol=self.tol, max_iter=_MOST_PASSES,
                random_state=self.random_state,
            )  # fmt: skip
            first = y[rows] == self.classes_[i]
            own = None if factors is None else factors[rows]
            machines.append(machine.fit(F[rows], first, own))
        coef = np.column_stack([machine.coef_[0] for machine in machines])
        return coef, np.array([machine.intercept_[0] for machine in machines])

    @property
    def n_support_(self):
        """Samples (or features) that take part in each duel."""
        return np.count_nonzero(self.coef_, axis=0)

    def scores(self, decisions: NDArray) -> NDArray:
        """Class scores, (n, K), or the decision of the one duel there is."""
        if len(self.classes_) == 2:
            return -decisions[:, 0]
        return combine(decisions, len(self.classes_), self.multiclass)

    def decision_function(self, K):
        """Class scores, from kernel values or features of new samples."""
        return self.scores(K @ self.coef_ + self.intercept_)

    def predict(self, K):
        """Class that the duels decide for."""
        scores = self.decision_function(K)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.matrix == "gram"
        return tags


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


class _Scores(ClassifierMixin, BaseEstimator):
    """A classifier whose input is its own decision."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0] if X.shape[1] == 1 else X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


def calibrate(
    machine: PairwiseMachine, K: NDArray, y: NDArray, sample_weight: Any
) -> CalibratedClassifierCV:
    """Probabilities of scores, learned on the scores of left-out samples."""
    smallest = np.unique(y, return_counts=True)[1].min()
    if smallest < 2:
        raise ValueError(
            "probability=True leaves samples out and needs at least 2 samples of every "
            "class; some class of y has 1."
        )
    params = {} if sample_weight is None else {"sample_weight": sample_weight}
    scores = cross_val_predict(
        machine, K, y, cv=min(5, smallest), method="decision_function", params=params
    )
    # Nothing is learned from the scores themselves, so that all of them calibrate.
    calibrator = CalibratedClassifierCV(_Scores(), cv=2, ensemble=False)
    return calibrator.fit(as_columns(scores), y, sample_weight=sample_weight)


def as_columns(scores: NDArray) -> NDArray:
    """Scores as the matrix a calibrator takes."""
    return scores[:, None] if scores.ndim == 1 else scores
