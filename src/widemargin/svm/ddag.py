"""Many classes from any binary classifier, by a decision directed acyclic graph.

K(K-1)/2 nodes are trained, each on two classes; a sample meets K - 1 of them. The
list of classes starts as 0, ..., K-1; each node is first against last, and the loser
leaves the list.

Reference: J. Platt, N. Cristianini, J. Shawe-Taylor, Large margin DAGs for multiclass
classification, NIPS 2000.
"""

import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils.validation import has_fit_parameter

from widemargin._compute.machine import process_map
from widemargin._compute.progress import announce
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import check_squares, warn_caller
from widemargin._core.classifier import MarginClassifier, fit_method
from widemargin._core.confidence import margin_unit_of
from widemargin._core.decisions import (
    class_pairs,
    from_decision,
    graph_margins,
    scores_of_walk,
    walk_graph,
)
from widemargin._core.samples import check_samples

# No loop goes on for ever: weights may be such that LIBSVM's never ends.
MAX_ITER = 1_000_000


class DDAGClassifier(MetaEstimatorMixin, MarginClassifier):
    """Decision directed acyclic graph over a binary classifier.

    Parameters
    ----------
    estimator : classifier, default=None
        The binary classifier of every node; None is ``SVC(max_iter=1_000_000)``.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of each class, for nodes that take ``sample_weight``.
    n_jobs : int, default=None
        Nodes trained at once, in processes.

    Attributes
    ----------
    estimators_ : list of length n_classes * (n_classes - 1) / 2
        The fitted classifiers of the nodes (0, 1), (0, 2), ..., by positions in
        `classes_`; the labels of node (i, j) are 0 for i and 1 for j.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    widemargin.TangentSVC : The same graph of duels over a tangent kernel.
    widemargin.MaxMarginClassifier : Duels of hyperplanes, certified.

    Notes
    -----
    Margins are in the unit of the nodes' decisions, a "distance", or a "share" where
    they only give probabilities: of a predicted label the closest decision on its way,
    of another minus the decision that dropped it. There is no ``predict_proba``, as a
    sample meets few of the nodes, whose units need not be the same; put the graph into
    :class:`~sklearn.calibration.CalibratedClassifierCV`. On scikit-learn 1.9 and later
    ``set_callbacks(sklearn.callback.ProgressBar())`` shows how far `fit` is.

    References
    ----------
    J. Platt, N. Cristianini, J. Shawe-Taylor, Large margin DAGs for multiclass
    classification, NIPS 2000.

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

    def __init__(
        self,
        estimator: Any = None,
        *,
        class_weight: Any = None,
        n_jobs: int | None = None,
    ):
        self.estimator = estimator
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    @property
    def margin_unit(self) -> str:
        """The unit of the decisions of the nodes."""
        nodes = getattr(self, "estimators_", None)
        return margin_unit_of(nodes[0] if nodes else self._node)

    @property
    def _node(self) -> Any:
        return SVC(max_iter=MAX_ITER) if self.estimator is None else self.estimator

    @property
    def _sparse(self) -> bool:  # type: ignore[override]
        node = self._node
        if isinstance(node, type) or not hasattr(node, "__sklearn_tags__"):
            return False
        return node.__sklearn_tags__().input_tags.sparse

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
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
        node = self._node
        if isinstance(node, type):
            raise TypeError(
                f"estimator is the class {node.__name__}; pass an instance, "
                f"{node.__name__}()."
            )
        if not hasattr(node, "fit") or not is_classifier(node):
            raise ValueError(
                "estimator must be a classifier such as SVC(); got "
                f"{type(node).__name__}."
            )
        weighted = sample_weight is not None or self.class_weight is not None
        if weighted and not has_fit_parameter(node, "sample_weight"):
            raise ValueError(
                f"{type(node).__name__} takes no sample_weight in fit; use another "
                "estimator or leave sample_weight and class_weight out."
            )
        samples = check_samples(
            self,
            X,
            y,
            sample_weight,
            class_weight=self.class_weight,
            sparse=self._sparse,
        )
        if self.estimator is None:
            check_squares(samples.X)
        self.classes_ = samples.classes
        pairs = class_pairs(len(self.classes_))
        weights = samples.weights if weighted else None
        data = {"X": samples.X, "y": samples.labels, "sample_weight": weights}
        with FitTasks(self, len(pairs), **data) as tasks:
            # All before the first is sent away: scikit-learn's tasks know each other.
            nodes = [(tasks.delegate("node"), clone(node), pair) for pair in pairs]
            given = (samples.X, samples.codes, weights)
            self.estimators_ = list(
                process_map(
                    _fit_node, [(*n, *given) for n in nodes], self.n_jobs, "nodes"
                )
            )
        if self.estimator is None and any(n.fit_status_ for n in self.estimators_):
            warn_caller(
                f"a node's solver stopped at {MAX_ITER} steps: its plane is not the "
                "optimal one. Scale the data or the weights, or give an estimator.",
                ConvergenceWarning,
            )
        return self

    def _walk(self, X):
        """Walk the graph, every sample asking only the nodes on its way."""
        n_classes = len(self.classes_)
        place = {pair: at for at, pair in enumerate(class_pairs(n_classes))}
        with announce("nodes", X.shape[0] * (n_classes - 1)) as advance:

            def duel(i, j, rows):
                decision = -_decide(self.estimators_[place[i, j]], X[rows])
                advance(len(rows))
                return decision

            return walk_graph(duel, X.shape[0], n_classes)

    def _class_scores(self, X):
        if len(self.classes_) == 2:
            return from_decision(_decide(self.estimators_[0], X))
        return scores_of_walk(*self._walk(X))

    def _scored(self, X):
        if len(self.classes_) == 2:
            return super()._scored(X)
        walk = self._walk(X)
        return scores_of_walk(*walk), graph_margins(*walk)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags


def _fit_node(task, node, pair, X, codes, sample_weight):
    i, j = pair
    rows = np.flatnonzero((codes == i) | (codes == j))
    labels = (codes[rows] == j).astype(int)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight[rows]}
    with warnings.catch_warnings():
        if isinstance(node, SVC) and node.max_iter == MAX_ITER:
            # Said once, where it was called, by the graph.
            warnings.simplefilter("ignore", ConvergenceWarning)
            if sp.issparse(X):
                node.set_params(gamma=_scale(X[rows]))
        return task.fit(node, X[rows], labels, **weights)


def _scale(X: Any) -> float:
    """As SVC's gamma="scale", whose variance of sparse samples rounds below zero."""
    unit = float(abs(X).max()) or 1.0
    X = X / unit
    mean = float(X.mean())
    variance = float(X.multiply(X).mean()) - mean**2
    there = variance > 1e-12 * mean**2
    gamma = 1 / (X.shape[1] * variance) / unit / unit if there else 1.0
    return gamma if gamma < np.inf else 1.0


def _decide(node: Any, X: Any) -> NDArray:
    """Decision of a node, positive for its second class."""
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(node, "decision_function"):
            decision = np.ravel(node.decision_function(X))
        elif hasattr(node, "predict_proba"):
            decision = 2 * node.predict_proba(X)[:, 1] - 1
        else:
            decision = np.where(node.predict(X) == 1, 1.0, -1.0)
    if not np.isfinite(decision).all():
        raise ValueError(
            f"X: a node, {type(node).__name__}, gave a decision that is no number."
        )
    return decision
