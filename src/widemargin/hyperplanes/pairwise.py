r"""Many classes from machines of two: one duel for every two classes.

Support vector machines on a Gram matrix or on features both end as one matrix of
coefficients: the decisions of all duels are ``K @ coef_ + intercept_`` with K the
kernel values of new samples and the training samples (or their features), zero rows for
those that support nothing. Solvers are LIBSVM and LIBLINEAR through scikit-learn. Both
minimise |w|²/2 + Σ C_i max(0, 1 - m_i) over margins m; LIBLINEAR counts the offset as
one more feature of w, LIBSVM leaves it free.

Duels are (n_samples, K(K-1)/2), positive for the first class of the pair, and decided
by votes or along a graph: see :mod:`widemargin._core.decisions`.

Any other binary classifier becomes one of many classes by a decision directed acyclic
graph: K(K-1)/2 nodes are trained, each on two classes; a sample meets K - 1 of them.
The list of classes starts as 0, ..., K-1; each node is first against last, and the
loser leaves the list.

Reference: J. Platt, N. Cristianini, J. Shawe-Taylor, Large margin DAGs for multiclass
classification, NIPS 2000.
"""

import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    clone,
    is_classifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.validation import has_fit_parameter

from widemargin._compute.machine import process_map, require_room
from widemargin._compute.nearest import rbf_values
from widemargin._compute.progress import announce, announced
from widemargin._compute.rounding import epsilon
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    refuse_class,
    refuse_pairs,
    warn_caller,
)
from widemargin._core.classifier import MarginClassifier, fit_method
from widemargin._core.confidence import margin_unit_of
from widemargin._core.decisions import (
    class_pairs,
    combine,
    decided,
    duel_costs,
    from_decision,
    graph_margins,
    graph_scores,
    walk_graph,
    winners,
)
from widemargin._core.left_out import (
    feature_spans,
    spread_ratio,
    squared_spans,
    unit_factor,
)
from widemargin._core.params import Counted, Positive, check_declared, parameters
from widemargin._core.samples import Samples, check_samples
from widemargin.hyperplanes.blocks import by_blocks
from widemargin.metrics.kernels import scale_gamma

# Steps of LIBSVM for which a pass of LIBLINEAR is allowed: those are cheap and many.
STEPS_PER_PASS = 10
# scikit-learn's cache_size, in bytes.
LIBSVM_CACHE = 200 * 2**20
# Roundings that the sum of a decision may collect, in units of the dtype's epsilon.
ROUNDINGS = 512
# Share of the spread of the supports' margins that samples which are left out are taken
# to find others in: as much as real folds of overlapping Gaussians ask for.
SMOOTH = 0.25
# No loop goes on for ever: weights may be such that LIBSVM's never ends.
# The centre of samples that are seen as they are, as files of before have them.
NOWHERE: Any = None
MAX_ITER = 1_000_000


@parameters
class DuelClassifier(MarginClassifier):
    """Base of the machines that decide by duels: a subclass gives `_duels`.

    Margins are distances in units of the machines' own margin, which is at 1: of a
    predicted label by how much duels may change before another is the answer, which is
    at most the closest duel that it met; of another label minus the duel that it lost.
    """

    margin_unit = "distance"
    _centre = NOWHERE

    _: KW_ONLY
    C: Positive = 10.0
    gamma: Positive | Literal["scale"] = "scale"
    multiclass: Literal["ovo", "ddag"] = "ovo"
    class_weight: Any = None
    tol: Positive = 1e-3
    max_iter: Counted = 1_000_000

    @abstractmethod
    def _duels(self, X: NDArray) -> NDArray:
        """Decisions of checked samples, (n, n_duels), positive for the first class."""

    def _by_blocks(self, answer, X):
        """Give what `answer` says of the duels of samples, part by part."""
        n_duels = len(self.classes_) * (len(self.classes_) - 1) // 2
        return by_blocks(lambda part: answer(self._duels(part)), X, n_duels)

    def _class_scores(self, X):
        given = len(self.classes_), self._multiclass
        return self._by_blocks(lambda duels: combine(duels, *given), X)

    def _scored(self, X):
        given = len(self.classes_), self._multiclass
        return self._by_blocks(lambda duels: decided(duels, *given), X)

    def _inside(self, X):
        """Return samples as a machine with a `_centre` sees them."""
        return about(X, self._centre)

    def _costs(self, X):
        return self._by_blocks(self._costs_of, X)

    def _costs_of(self, duels):
        """Costs of the classes, and answers, of samples with these duels."""
        n_classes = len(self.classes_)
        answers = winners(duels, n_classes, self._multiclass)
        return duel_costs(duels, answers, n_classes), answers

    def _check_solver(self) -> None:
        check_declared(self)
        self._multiclass = self.multiclass


@parameters
class PairwiseMachine(ClassifierMixin, BaseEstimator):
    """One SVM per pair of classes, combined by "ovo" or "ddag".

    `matrix` is "gram", square kernel values, or "features". It says in `end_` how the
    solver ended, and warns of nothing.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-1.0, -0.5, 0.5, 1.0])
    >>> machine = PairwiseMachine("gram", C=10.0).fit(np.outer(x, x), [0, 0, 1, 1])
    >>> machine.predict(np.outer([2.0, -3.0], x))
    array([1, 0])
    """

    matrix: Any = "gram"
    C: Any = 1.0
    multiclass: Any = "ovo"
    tol: Any = 1e-3
    max_iter: Any = 1_000_000
    random_state: Any = None

    def fit(self, K, y, sample_weight=None):
        """Solve all duels on kernel values (n, n) or features (n, m)."""
        self.classes_ = np.unique(y)
        on_gram = self.matrix == "gram"
        solve_all = self._solve_gram if on_gram else self._solve_features
        self.coef_, self.intercept_, self.end_ = solve_all(K, y, sample_weight)
        return self

    def _solve_gram(self, K, y, weights):
        svc = new_machine(self, kernel="precomputed", random_state=self.random_state)
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

    def duels(self, K):
        """Decisions of all duels from kernel values or features of new samples."""
        return K @ self.coef_ + self.intercept_

    def predict(self, K):
        """Class that the duels decide for."""
        scores = combine(self.duels(K), len(self.classes_), self.multiclass)
        return self.classes_[scores.argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.matrix == "gram"
        return tags


def new_machine(estimator: Any, **options: Any) -> SVC:
    """Return a machine of scikit-learn's that is asked as an estimator of ours."""
    return SVC(
        C=estimator.C, tol=estimator.tol, max_iter=int(estimator.max_iter),
        decision_function_shape="ovo", **options,
    )  # fmt: skip


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
        try:
            machine.fit(X, y, weights)
        except ValueError as error:
            if "not finite" not in str(error):
                raise
            raise ValueError(
                "X gives values of the kernel so large that the planes of the solver "
                "are not finite; scale the data, for instance by StandardScaler, or "
                "lower C, gamma, degree or coef0."
            ) from error
    n_iter = max(1, int(np.max(machine.n_iter_)))
    if isinstance(machine, LinearSVC):
        return Solved(n_iter < machine.max_iter, n_iter)
    return Solved(machine.fit_status_ == 0, n_iter)


def decide(K: NDArray, coef: NDArray, intercept: NDArray) -> NDArray:
    """Decisions of all duels; what is rounding is a tie, alone as in a batch."""
    duels = K @ coef
    duels += intercept
    noise = np.abs(K).max(axis=1, initial=0)[:, None] * np.abs(coef).sum(axis=0)
    noise += np.abs(intercept)
    noise *= ROUNDINGS * epsilon(K.dtype)
    duels[np.abs(duels) <= noise] = 0.0
    return duels


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


def pairwise_planes(svc: SVC) -> tuple[NDArray, NDArray]:
    """Weights (n_features, n_duels) and offsets of a linear machine.

    What a class adds to all its duels is one product: coefficients of all supports in
    all duels would be mostly zeros, and for a hundred classes a hundred times as many.
    """
    n_classes, alphas = len(svc.classes_), np.asarray(svc.dual_coef_)
    if n_classes == 2:
        return (-alphas @ svc.support_vectors_).T, -svc.intercept_
    cuts = np.cumsum(svc.n_support_)[:-1]
    each = zip(
        np.split(alphas, cuts, axis=1), np.split(svc.support_vectors_, cuts),
        strict=True,
    )  # fmt: skip
    added = np.stack([own @ vectors for own, vectors in each])
    i, j = np.triu_indices(n_classes, 1)
    return (added[i, j - 1] + added[j, i]).T, svc.intercept_


def duels_of(svc: SVC, X: NDArray) -> NDArray:
    """All duels of a fitted SVC with ``decision_function_shape="ovo"``."""
    duels = svc.decision_function(X)
    return -duels[:, None] if duels.ndim == 1 else duels


def spanned_duels(
    svc: SVC, X: NDArray, samples: Samples, rows: NDArray, linked: NDArray | None
) -> NDArray:
    """Duels of some training samples of a linear machine, each left out of it.

    Coefficients are at most C, and whoever leaves changes who is below, unless all
    supports are at the margin: then this is the span rule. See
    :mod:`widemargin._core.left_out`. `linked` are the same for copies of a sample.
    """
    duels = duels_of(svc, X)
    groups = np.arange(len(X)) if linked is None else linked
    coef, _ = pairwise_coefficients(svc)
    wanted = np.zeros(len(X), bool)
    wanted[rows] = True
    own = np.zeros(len(X))
    for column, pair in enumerate(class_pairs(len(svc.classes_))):
        mine = svc.support_[coef[:, column] != 0]
        if not len(mine):
            continue
        own[svc.support_] = np.abs(coef[:, column])
        signs = np.where(samples.codes[mine] == pair[0], 1.0, -1.0)
        _, first, place = np.unique(
            groups[mine], return_index=True, return_inverse=True
        )
        alpha = np.bincount(place, own[mine])
        weights = np.bincount(place, samples.weights[mine])
        margins = (signs * duels[mine, column])[first]
        private = SMOOTH * spread_ratio(margins, alpha / weights) / weights
        vectors = X[mine[first]].astype(float)
        parts = alpha * _spans_less(vectors, private)
        parts = np.where(np.isfinite(parts), np.maximum(parts, 0.0), 0.0)
        leave = wanted[mine]
        duels[mine[leave], column] -= (signs * parts[place])[leave]
    return duels[rows]


def _spans_less(V: NDArray, private: NDArray) -> NDArray:
    """Squared distances of all vectors from the span, less private coordinates."""
    if len(V) <= V.shape[1] or not private.min() > 0.0:
        return squared_spans(V @ V.T, private, bias=True) - private
    Z = np.column_stack([V, np.ones(len(V))])
    system = Z.T @ (Z / private[:, None])
    system.flat[: -1 : len(system) + 1] += 1.0
    return feature_spans(V, private, unit_factor(system))


class _Duels(PairwiseMachine):
    """A machine whose answers are the duels themselves."""

    predict = PairwiseMachine.duels


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
    # Shuffled: samples may come in an order of their values.
    folds = StratifiedKFold(min(5, smallest), shuffle=True, random_state=0)
    return cross_val_predict(left_out, K, y, cv=folds, params=params)


def centre_for(X: NDArray, kernel: Any) -> NDArray | None:
    """Return the mean of samples, None for kernels that see the origin.

    A radial kernel knows differences only, and a plane with a bias is the same from
    anywhere; seen from afar, products of samples differ by less than their rounding.
    """
    if callable(kernel) or kernel not in ("linear", "rbf"):
        return None
    # Rounded once: samples and queries must lose the same offset.
    return X.mean(axis=0, dtype=np.float64).astype(X.dtype)


def about(X: NDArray, centre: NDArray | None) -> NDArray:
    """Return samples seen from a centre."""
    return X if centre is None else X - centre


def kernel_values(
    X: NDArray, Y: NDArray, name: str, gamma: float, degree: int, coef0: float
) -> NDArray:
    """Values (n_x, n_y) of the kernel "rbf", "linear" or "poly"."""
    if name == "rbf":
        return rbf_values(X, Y, gamma)
    if name == "linear":
        return linear_kernel(X, Y)
    # Its powers would amplify the rounding of float32.
    return polynomial(X.astype(float) @ Y.astype(float).T, gamma, degree, coef0)


def polynomial(inner: NDArray, gamma: float, degree: int, coef0: float) -> NDArray:
    """Polynomial of inner products; what leaves the numbers is refused."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = (gamma * inner + coef0) ** degree
    # Sums of products of two are numbers, too.
    if not (np.abs(values) <= 1e150).all():
        raise ValueError(
            "X gives values of kernel='poly' that are not finite; scale the data, or "
            "lower gamma, degree or coef0."
        )
    return values


def gamma_for(gamma: Any, X: NDArray, weights: NDArray) -> float:
    """Gamma as a number: that of "scale" is found in the samples."""
    return scale_gamma(X, weights) if isinstance(gamma, str) else float(gamma)


def require_gram_fits(n: int, bytes_per_entry: int, way_out: str) -> None:
    """Refuse a Gram matrix that memory does not hold, before any of it exists."""
    # What LIBSVM keeps of it in single precision comes on top, up to a limit.
    require_room(n, n, bytes_per_entry, way_out, min(4 * n**2, LIBSVM_CACHE))


@parameters
class DDAGClassifier(MetaEstimatorMixin, MarginClassifier):
    """Decision directed acyclic graph over a binary classifier.

    Parameters
    ----------
    estimator : classifier, default=None
        The binary classifier of every node. None is ``SVC()`` on centred samples
        (sparse ones unchanged), with gamma one over the sum of the weighted variances
        of the features.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of each class, for nodes that take ``sample_weight``.
    n_jobs : int, default=None
        Nodes trained at once, in processes.

    Attributes
    ----------
    estimators_ : list of length n_classes * (n_classes - 1) / 2
        The fitted classifiers of the nodes (0, 1), (0, 2), ..., by positions in
        `classes_`. Node (i, j) has the labels 0 for i and 1 for j.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    widemargin.TangentSVC : The same decision graph over a tangent kernel.
    widemargin.MaxMarginClassifier : Certified hyperplanes for pairs of classes.

    Notes
    -----
    Margins are in the unit of the nodes' decisions, a "distance", or a "vote_fraction"
    if they only give probabilities. The margin of the predicted label is the closest
    decision on its way. That of another label is minus the decision that dropped it.
    There is no ``predict_proba``, as a sample meets few of the nodes, whose units need
    not be the same; put the graph into
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

    _unit = 1.0
    _centre = NOWHERE

    estimator: Any = None
    _: KW_ONLY
    class_weight: Any = None
    n_jobs: int | None = None

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
        refuse_class("estimator", node)
        if not hasattr(node, "fit") or not is_classifier(node):
            raise ValueError(
                "estimator must be a classifier such as SVC(); got "
                f"{type(node).__name__}."
            )
        refuse_pairs("estimator", node)
        weighted = sample_weight is not None or self.class_weight is not None
        if weighted and not has_fit_parameter(node, "sample_weight"):
            raise ValueError(
                f"{type(node).__name__} takes no sample_weight in fit; use another "
                "estimator or leave sample_weight and class_weight out."
            )
        samples = check_samples(self, X, y, sample_weight)
        X = samples.X
        self._centre = None
        if self.estimator is None and not sp.issparse(X):
            self._centre = centre_for(X, "rbf")
        self.classes_ = samples.classes
        pairs = class_pairs(len(self.classes_))
        weights = samples.weights if weighted else None
        data = {"X": samples.X, "y": samples.labels, "sample_weight": weights}
        with FitTasks(self, len(pairs), **data) as tasks:
            # All before the first is sent away: scikit-learn's tasks know each other.
            nodes = [(tasks.delegate("node"), clone(node), pair) for pair in pairs]
            given = (self._seen(X), samples.codes, weights, self.estimator is None)
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

    def _seen(self, X):
        """Return samples as the nodes see them."""
        if self._centre is not None and sp.issparse(X):
            X = X.toarray()
        return about(X, self._centre)

    def _walk(self, X):
        """Walk the graph, every sample asking only the nodes on its way."""
        X = self._seen(X)
        n_classes = len(self.classes_)
        place = {pair: at for at, pair in enumerate(class_pairs(n_classes))}
        with announce("nodes", X.shape[0] * (n_classes - 1)) as advance:

            def duel(i, j, rows):
                decision = -_node_decision(self.estimators_[place[i, j]], X[rows])
                advance(len(rows))
                return decision

            return walk_graph(duel, X.shape[0], n_classes)

    def _class_scores(self, X):
        if len(self.classes_) == 2:
            return from_decision(_node_decision(self.estimators_[0], self._seen(X)))
        return graph_scores(*self._walk(X))

    def _scored(self, X):
        if len(self.classes_) == 2:
            return super()._scored(X)
        walk = self._walk(X)
        return graph_scores(*walk), graph_margins(*walk)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags


def _fit_node(task, node, pair, X, codes, sample_weight, default):
    i, j = pair
    rows = np.flatnonzero((codes == i) | (codes == j))
    labels = (codes[rows] == j).astype(int)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight[rows]}
    with warnings.catch_warnings():
        if default:
            # Said once, where it was called, by the graph.
            warnings.simplefilter("ignore", ConvergenceWarning)
            own = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
            node.set_params(gamma=scale_gamma(X[rows], own))
        return task.fit(node, X[rows], labels, **weights)


def _node_decision(node: Any, X: Any) -> NDArray:
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
