"""Many classes from any binary classifier, by a decision directed acyclic graph.

K(K-1)/2 nodes are trained, each on two classes; a sample meets K - 1 of them. The
list of classes starts as 0, ..., K-1; each node is first against last, and the loser
leaves the list.

Reference: J. Platt, N. Cristianini, J. Shawe-Taylor, Large margin DAGs for multiclass
classification, NIPS 2000.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    MetaEstimatorMixin,
    clone,
    is_classifier,
)
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from widemargin._compute.progress import announce
from widemargin._compute.threads import process_map
from widemargin._core.callbacks import FitTasks, with_callbacks
from widemargin._core.decisions import (
    as_decision,
)
from widemargin.svm.checks import check_weights, require_two_classes
from widemargin.svm.decisions import DecisionClassifier
from widemargin.svm.duels import class_pairs, graph_scores


class DDAGClassifier(MetaEstimatorMixin, DecisionClassifier):
    """Decision directed acyclic graph over a binary classifier.

    Parameters
    ----------
    estimator : classifier, default=None
        The binary classifier of every node; None is ``SVC()``.
    n_jobs : int, default=None
        Nodes trained at once, in processes.

    Attributes
    ----------
    estimators_ : dict
        The fitted classifier of each node (i, j), i < j positions in `classes_`; its
        labels are 0 for i and 1 for j.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from widemargin.svm import DDAGClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> ddag = DDAGClassifier(LogisticRegression(max_iter=500)).fit(X, y)
    >>> len(ddag.estimators_)
    3
    >>> bool(ddag.score(X, y) > 0.95)
    True
    """

    def __init__(self, estimator: Any = None, *, n_jobs: int | None = None):
        self.estimator = estimator
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Train a classifier for every pair of classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Passed on to the nodes.

        Returns
        -------
        self : DDAGClassifier
            The fitted classifier.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=None)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        require_two_classes(self.classes_)
        node = SVC() if self.estimator is None else self.estimator
        if not is_classifier(node):
            raise ValueError(
                "estimator must be a classifier such as SVC(); got "
                f"{type(node).__name__}."
            )
        if sample_weight is not None:
            if not has_fit_parameter(node, "sample_weight"):
                raise ValueError(
                    f"{type(node).__name__} takes no sample_weight in fit; use another "
                    "estimator or leave sample_weight out."
                )
            sample_weight = check_weights(sample_weight, X)
        pairs = class_pairs(len(self.classes_))
        with FitTasks(self, len(pairs), X=X, y=y, sample_weight=sample_weight) as tasks:
            # All before the first is sent away: scikit-learn's tasks know each other.
            nodes = [(tasks.delegate("node"), clone(node), pair) for pair in pairs]
            data = (X, codes, sample_weight)
            fitted = process_map(
                _fit_node, [(*n, *data) for n in nodes], self.n_jobs, "nodes"
            )
        self.estimators_ = dict(zip(pairs, fitted, strict=True))
        return self

    def decision_function(self, X: Any) -> NDArray:
        """Scores by when each class was dropped.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or, for two classes, (n_samples,)
            A class dropped in duel s = 0, 1, ... has s and up to a half more for a
            narrow loss, the winner K - 1 and up to a half more for its narrowest win;
            for two classes the node's own decision.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=None, reset=False)
        n_classes = len(self.classes_)
        if n_classes == 2:
            return _decide(self.estimators_[0, 1], X)
        # Every sample meets one node less than there are classes.
        with announce("nodes", X.shape[0] * (n_classes - 1)) as advance:

            def duel(i, j, rows):
                decision = -_decide(self.estimators_[i, j], X[rows])
                advance(len(rows))
                return decision

            return as_decision(graph_scores(duel, X.shape[0], n_classes))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        node = SVC() if self.estimator is None else self.estimator
        if hasattr(node, "__sklearn_tags__"):
            inner = node.__sklearn_tags__()
            tags.input_tags.sparse = inner.input_tags.sparse
            tags.input_tags.allow_nan = False
        return tags


def _fit_node(task, node, pair, X, codes, sample_weight):
    i, j = pair
    rows = np.flatnonzero((codes == i) | (codes == j))
    labels = (codes[rows] == j).astype(int)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight[rows]}
    return task.fit(node, X[rows], labels, **weights)


def _decide(node: Any, X: Any) -> NDArray:
    """Decision of a node, positive for its second class."""
    if hasattr(node, "decision_function"):
        return np.ravel(node.decision_function(X))
    if hasattr(node, "predict_proba"):
        return node.predict_proba(X)[:, 1] - 0.5
    return np.where(node.predict(X) == 1, 1.0, -1.0)
