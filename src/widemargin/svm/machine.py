r"""Pairwise support vector machines on a Gram matrix or on features.

Both end as one matrix of coefficients: the decisions of all duels are
``K @ coef_ + intercept_`` with K the kernel values of new samples and the training
samples (or their features), zero rows for those that support nothing. Solvers are
LIBSVM and LIBLINEAR through scikit-learn.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC, LinearSVC

from widemargin._compute.progress import announced
from widemargin.svm._duels import class_pairs, combine


class PairwiseMachine(ClassifierMixin, BaseEstimator):
    """One SVM per pair of classes, combined by "ddag" or "ovo".

    `matrix` is "gram", square kernel values, or "features".

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.svm.machine import PairwiseMachine
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
        solve = self._solve_gram if self.matrix == "gram" else self._solve_features
        self.coef_, self.intercept_ = solve(K, y, sample_weight)
        return self

    def _solve_gram(self, K, y, sample_weight):
        svc = SVC(
            kernel="precomputed",
            C=self.C,
            class_weight=self.class_weight,
            tol=self.tol,
            decision_function_shape="ovo",
            random_state=self.random_state,
        ).fit(K, y, sample_weight)
        coef = np.zeros((K.shape[1], len(class_pairs(len(self.classes_)))))
        coef[svc.support_], intercept = pairwise_coefficients(svc)
        self.n_support_ = _supports_per_duel(coef)
        return coef, intercept

    def _solve_features(self, F, y, sample_weight):
        machines = []
        for i, j in announced(class_pairs(len(self.classes_)), "duels"):
            rows = np.flatnonzero((y == self.classes_[i]) | (y == self.classes_[j]))
            weight = None if sample_weight is None else sample_weight[rows]
            machine = LinearSVC(
                C=self.C, class_weight=self._duel_weight(i, j), tol=self.tol,
                dual="auto", max_iter=10_000, random_state=self.random_state,
            )  # fmt: skip
            machines.append(machine.fit(F[rows], y[rows] == self.classes_[i], weight))
        coef = np.column_stack([machine.coef_[0] for machine in machines])
        return coef, np.array([machine.intercept_[0] for machine in machines])

    def _duel_weight(self, i, j):
        """Class weights of one duel, whose labels are True for i and False for j."""
        if not isinstance(self.class_weight, dict):
            return self.class_weight
        first, second = self.classes_[[i, j]].tolist()
        weights = self.class_weight
        return {True: weights.get(first, 1.0), False: weights.get(second, 1.0)}

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


def _supports_per_duel(coef: NDArray) -> NDArray:
    return np.count_nonzero(coef, axis=0)


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
