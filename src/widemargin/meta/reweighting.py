r"""θ-margin re-weighting around any classifier.

Round t fits the classifier with weights w(t) and measures the margins μ of the training
samples; then

.. math:: w_i(t + 1) = w_i(t) + k\,[\mu_i(t) < \theta].

The learner sees the weights scaled to their first sum, so that what its penalty means
does not change from round to round.

Reference: F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
Artificial Intelligence 137 (2002), Figure 1.
"""

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import KW_ONLY
from numbers import Integral
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils import Bunch, _safe_indexing
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)

from widemargin._compute.progress import announced, observed_by
from widemargin._compute.rounding import below
from widemargin._core.arrays import available_if
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    as_floats,
    check_random_state,
    hushed,
    refuse_pairs,
)
from widemargin._core.classifier import SoftClassifier, fit_method
from widemargin._core.confidence import (
    answering,
    class_costs_of,
    margin_unit_of,
    margins_of,
)
from widemargin._core.duplicates import groups_by_value
from widemargin._core.left_out import ENOUGH, FOLDS
from widemargin._core.params import (
    Counted,
    Fraction,
    Number,
    check_declared,
    parameters,
)
from widemargin._core.samples import check_weights
from widemargin._core.split import folds_of_classes, hold_out_of_classes
from widemargin._core.temperature import LeftOut, joined
from widemargin.margins import margin_reweight
from widemargin.meta.wrapping import (
    WrappingClassifier,
    estimator_has,
    refuse_unrouted,
    takes_weights,
)


@parameters
class MarginReweightingClassifier(WrappingClassifier, SoftClassifier):
    r"""Fit any classifier again and again, with more weight on small margins.

    It raises the smallest training margins. It seldom lowers the test error of a
    well-tuned classifier. A classifier that can give every training sample a large
    margin (a deep tree, a forest, boosting) leaves nothing to re-weight. A simple one,
    such as a linear model, trades large margins for small ones. Validation samples
    decide: the plain classifier is round one, and is kept unless a later round beats
    it.

    Parameters
    ----------
    estimator : classifier
        Cloned, then fitted with `sample_weight` if its fit takes it, else to samples
        drawn in proportion to their weights. In a pipeline, a step requests it by
        metadata routing.
    theta : "auto" or float, default="auto"
        Relative margin that every sample should have, in (-1, 1). "auto" is the 20 %
        quantile of the first-round margins, of the positive ones if that is negative; 0
        if none is positive.
    weight_gain : float, "ratio" or callable, default="ratio"
        Weight that a sample with a margin below `theta` gains per round; see
        :func:`~widemargin.margins.margin_reweight`. "ratio" makes the weights the mean
        over the rounds of uniform distributions on the samples below `theta`.
    margin : callable, default=None
        Function of (estimator, X, y) that returns one margin in [-1, 1] per sample,
        positive where the estimator is right. None takes
        :func:`~widemargin.margins.margins_of` and makes them relative: log-odds m
        become tanh(m/2), distances m / (abs(m) + s) with s the median of abs(m) in the
        first round.
    max_iter : int, default=20
        Maximum number of rounds; training stops if no margin is below `theta`.
    update : {"auto", "refit", "warm_start", "partial_fit"}, default="auto"
        How the next round is fitted: from scratch, from the previous solution, or by
        one call of partial_fit. "auto" is "warm_start" for linear models that have it,
        else "refit".
    validation_fraction : float or None, default=0.1
        Fraction of the samples that choose the best round: by errors, then by the loss.
        None, or too few samples, keeps the last round.
    n_iter_no_change : int, default=10
        Training stops after so many rounds without a better validation score.
    random_state : int, RandomState or None, default=None
        Seed of the validation samples and draws; given to the estimator too, if an
        integer.

    Attributes
    ----------
    estimator_ : classifier
        The learner of the best round; it answers.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    theta_ : float
        Threshold used.
    margin_scale_ : float or None
        The s of the first round, where margins are distances.
    sample_weight_ : ndarray of shape (n_samples,)
        Weights after the last round, scaled like those the user gave; zero for the
        validation samples.
    history_ : dict of lists
        Per round: ``"loss"``, the mean of max(0, theta - margin); ``"H"``, the mean
        margin under the round's weights; ``"n_theta_mistakes"``; ``"train_error"``;
        and ``"validation_score"``.
    best_iteration_ : int
        Round of `estimator_`, from 0.
    temperature_ : float
        Of `predict_proba`, in the units of the costs of `estimator_`.
    n_iter_ : int
        Rounds.

    See Also
    --------
    widemargin.margins.margin_reweight : The rule itself.
    widemargin.TVQClassifier : Where the rule comes from.
    widemargin.RejectingClassifier : Refuses what stays unsure.

    Notes
    -----
    ``margin_unit`` is "relative": margins and confidences are in [-1, 1], as in
    training, whatever the learner's own unit is.

    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

    References
    ----------
    .. [1] F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
       Artificial Intelligence 137 (2002).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> from widemargin.meta import MarginReweightingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MarginReweightingClassifier(
    ...     LogisticRegression(), theta=0.3, validation_fraction=None, random_state=0
    ... ).fit(scale(X), y)
    >>> model.history_["loss"][-1] < model.history_["loss"][0]
    True
    """

    estimator: Any
    _: KW_ONLY
    theta: Annotated[float, Number(above=-1, below=1)] | Literal["auto"] = "auto"
    weight_gain: Any = "ratio"
    margin: Callable[[Any, Any, NDArray], ArrayLike] | None = None
    max_iter: Counted = 20
    update: Literal["auto", "refit", "warm_start", "partial_fit"] = "auto"
    validation_fraction: Fraction | None = 0.1
    n_iter_no_change: Counted = 10
    random_state: Any = None

    @property
    def margin_unit(self) -> str:
        """Unit of the margins, whatever that of the learner is."""
        return "relative"

    @fit_method
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit round after round; keep the best.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Training samples, handed to the estimator as they are.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            The user's weights: sample i stands for that many. Zero leaves it out.
        **fit_params
            For the estimator's fit, by metadata routing; needs
            ``sklearn.set_config(enable_metadata_routing=True)``.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        routed = self._route(fit_params)
        X, labels = self._check_rows(X, y)
        refuse_pairs("estimator", self.estimator)
        given = check_weights(sample_weight, X)
        self._set_classes(labels[given > 0])
        rng = check_random_state(self.random_state)
        held = np.zeros(len(labels), dtype=bool)
        if self.validation_fraction is not None:
            codes = np.unique(labels, return_inverse=True)[1]
            # By values, so that a sample of weight 2 and one given twice are held out
            # alike, wherever they stand.
            groups = groups_by_value(X, labels)
            held = hold_out_of_classes(
                codes, self.validation_fraction, rng, given > 0, groups, needed=False
            )
        rows = np.flatnonzero(~held & (given > 0))
        valid = np.flatnonzero(held)
        data = Bunch(
            X=_safe_indexing(X, rows),
            y=labels[rows],
            given=given[rows],
            X_valid=_safe_indexing(X, valid),
            y_valid=labels[valid],
            w_valid=given[valid],
            routed=routed,
        )
        self._measure = self.margin
        self.margin_scale_: float | None = None
        with FitTasks(
            self, self.max_iter, X=data.X, y=data.y, sample_weight=data.given
        ) as tasks:
            weights = self._rounds(data, rng, tasks)
        self.sample_weight_ = np.zeros(len(labels))
        self.sample_weight_[rows] = weights
        if hasattr(self, "predict_proba"):
            self._calibrate_later(data)
        return self

    def _check_parameters(self) -> None:
        check_declared(self)
        if self.margin is not None and not callable(self.margin):
            raise ValueError(
                "margin must be None or a function of (estimator, X, y) that returns "
                f"one number in [-1, 1] per sample; got {self.margin!r}."
            )

    def _rounds(self, data: Bunch, rng: Any, tasks: FitTasks) -> NDArray:
        total = data.given.sum()
        weights, learner = data.given.copy(), None
        best_score, waited = (-np.inf, -np.inf), 0
        keys = ("loss", "H", "n_theta_mistakes", "train_error")
        self.history_: dict[str, list] = {key: [] for key in keys}
        if len(data.y_valid):
            self.history_["validation_score"] = []
        for t in announced(range(self.max_iter), "rounds"):
            scaled = weights * (total / weights.sum())
            learner = self._next_learner(learner, data, scaled, rng, tasks)
            mu = self._relative_margins(learner, data.X, data.y)
            if t == 0:
                self.theta_ = self._resolve_theta(mu, data.given)
            self._record(mu, data.given, scaled)
            waited += 1
            score = self._score(learner, data)
            if score > best_score or not len(data.y_valid):
                best_score, waited, self.best_iteration_ = score, 0, t
                self.estimator_ = deepcopy(learner)
            if not np.any(mu < self.theta_) or waited >= self.n_iter_no_change:
                break
            weights = self._next_weights(weights, mu, data.given)
        self.n_iter_ = len(self.history_["loss"])
        return weights * (total / weights.sum())

    def _next_weights(self, weights: NDArray, mu: NDArray, given: NDArray) -> NDArray:
        return margin_reweight(
            weights, mu, self.theta_, self.weight_gain, sample_weight=given
        )

    def _relative_margins(self, learner: Any, X: Any, y: NDArray) -> NDArray:
        """Margins in [-1, 1], all on the scale of the first round."""
        if self._measure is not None:
            mu = as_floats("margin(estimator, X, y)", self._measure(learner, X, y))
            if mu.shape != (len(y),) or not np.all(np.abs(mu) <= 1):
                raise ValueError(
                    "margin(estimator, X, y) must return one number in [-1, 1] per "
                    f"sample; got shape {mu.shape} for {len(y)} samples."
                )
            return mu
        m = as_floats("margins", margins_of(learner, X, y))
        unit = margin_unit_of(learner)
        if unit == "log-odds":
            return np.tanh(m / 2)
        if unit != "distance":
            return np.clip(m, -1, 1)  # which it leaves by rounding at most
        if self.margin_scale_ is None:
            self.margin_scale_ = float(np.median(np.abs(m))) or 1.0
        return squeezed(m, self.margin_scale_)

    def _resolve_theta(self, mu: NDArray, given: NDArray) -> float:
        if not isinstance(self.theta, str):
            return float(self.theta)
        reached = _fifth(mu, given)
        right = mu > 0
        if reached <= 0:
            reached = _fifth(mu[right], given[right]) if right.any() else 0.0
        # Where margins are certain, none is too small.
        return min(float(reached), float(below(1.0)))

    def _record(self, mu: NDArray, given: NDArray, scaled: NDArray) -> None:
        row = {
            "loss": float(given @ np.maximum(0, self.theta_ - mu) / given.sum()),
            "H": float(scaled @ mu / scaled.sum()),
            "n_theta_mistakes": int(np.count_nonzero(mu < self.theta_)),
            "train_error": float(given @ (mu <= 0) / given.sum()),
        }
        for key, value in row.items():
            self.history_[key].append(value)

    def _score(self, learner: Any, data: Bunch) -> tuple[float, float]:
        """Accuracy on the samples held out, and of equals the smaller loss there."""
        if not len(data.y_valid):
            return 0.0, 0.0
        with answering(learner):
            right = learner.predict(data.X_valid) == data.y_valid
        accuracy = float(np.average(right, weights=data.w_valid))
        self.history_["validation_score"].append(accuracy)
        mu = self._relative_margins(learner, data.X_valid, data.y_valid)
        short = np.average(np.maximum(0, self.theta_ - mu), weights=data.w_valid)
        # Rounded: the last digits of a learner that has settled decide nothing.
        return accuracy, -round(float(short), 6)

    def _next_learner(
        self,
        last: Any,
        data: Bunch,
        weights: NDArray,
        rng: Any,
        tasks: FitTasks,
    ) -> Any:
        """Fit the learner of the next round, from scratch or on from the last one."""
        X, y, params = data.X, data.y, dict(data.routed)
        if takes_weights(self.estimator):
            params["sample_weight"] = weights
        elif last is not None or np.ptp(weights) > 0:
            drawn = rng.choice(len(y), len(y), p=weights / weights.sum())
            # Without every class the learner's answers would have another shape.
            drawn = np.concatenate([drawn, np.unique(y, return_index=True)[1]])
            X, y = _safe_indexing(X, drawn), y[drawn]
        learner = next_learner(last, self.estimator, self.update, self.random_state)
        if self.update == "partial_fit":
            with tasks.whole("round"):
                learner.partial_fit(X, y, classes=self.classes_, **params)
        else:
            tasks.delegate("round").fit(learner, X, y, **params)
        return learner

    def _calibrate_on(self, data: Bunch) -> None:
        """Fit the temperature to samples that the learner did not see.

        They count as they were given: weights that favour hard samples would make
        answers less sure than they are right. If few are held out, all rounds up to the
        best are run again without some of the others: weights that were learned with a
        sample tell of it, and push borders away from it once it is gone.
        """
        if len(data.y_valid) >= ENOUGH:
            given = data.X_valid, data.y_valid, data.w_valid
            self._calibrate(self._said_by(self.estimator_, *given))
            return
        codes = np.searchsorted(self.classes_, data.y)
        # A sample of weight 2 and one given twice have the same folds.
        groups = groups_by_value(data.X, codes)
        n_folds = max(FOLDS, len(np.unique(groups)) // ENOUGH)
        parts = folds_of_classes(codes, n_folds, ENOUGH, groups)
        if parts:
            self._calibrate(joined([self._said_without(rows, data) for rows in parts]))
        else:
            self.temperature_ = getattr(self.estimator_, "temperature_", 1.0)

    def _said_without(self, rows: NDArray, data: Bunch) -> LeftOut:
        """Say what samples of these rows cost a learner that is fitted without them."""
        keep = np.delete(np.arange(len(data.y)), rows)
        others = Bunch(
            X=_safe_indexing(data.X, keep),
            y=data.y[keep],
            given=data.given[keep],
            routed=data.routed,
        )
        learner, silent = None, FitTasks(self, 0)
        rng, weights = check_random_state(0), others.given
        with hushed(), observed_by(None), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(self.best_iteration_ + 1):
                if learner is not None:
                    mu = self._relative_margins(learner, others.X, others.y)
                    weights = self._next_weights(weights, mu, others.given)
                given = weights * (others.given.sum() / weights.sum())
                learner = self._next_learner(learner, others, given, rng, silent)
        left = _safe_indexing(data.X, rows), data.y[rows], data.given[rows]
        return self._said_by(learner, *left)

    def _said_by(self, learner: Any, X: Any, y: NDArray, weights: NDArray) -> LeftOut:
        costs, answers = class_costs_of(learner, X)
        return LeftOut(costs, answers, np.searchsorted(self.classes_, y), weights)

    def _costs(self, X: Any) -> tuple[NDArray, NDArray]:
        return class_costs_of(self.estimator_, X)

    @available_if(estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Softmax over the classes of ``-cost / temperature_``. Costs are those of the
            classifier inside, or minus the logarithms of its probabilities. The first
            call fits the temperature: to the validation samples if these are 500 or
            more, else to about 500 training samples. Each of these is left out of a
            learner that is fitted again.
        """
        return self._probabilities(self._check_predict(X))

    def _route(self, fit_params: dict) -> dict:
        if get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", **fit_params).estimator.fit)
        refuse_unrouted(fit_params)
        return {}

    def get_metadata_routing(self) -> MetadataRouter:
        """Say where metadata go: `sample_weight` here, the rest to the estimator.

        Returns
        -------
        MetadataRouter
            For scikit-learn's metadata routing.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=self.__class__.__name__)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=mapping)
        )

    def _margins(self, X: Any, codes: NDArray | None) -> NDArray:
        labels = self._inner_labels(X) if codes is None else self.classes_[codes]
        return self._relative_margins(self.estimator_, X, labels)


def squeezed(m: NDArray, scale: float) -> NDArray:
    """Bring margins into [-1, 1]: m / (abs(m) + scale), for the largest m as well.

    >>> squeezed(np.array([-3.0, 0.0, 1.0, 1e308]), 1.0)
    array([-0.75,  0.  ,  0.5 ,  1.  ])
    """
    size = np.abs(m.astype(np.float64))
    large = size > scale
    share = np.where(large, 0, size) / scale
    far = 1 / (1 + scale / np.where(large, size, scale))
    return (np.sign(m) * np.where(large, far, share / (1 + share))).astype(m.dtype)


def next_learner(last: Any, estimator: Any, update: str, random_state: Any) -> Any:
    """Return what to fit next; `last` is None in the first round."""
    if last is None:
        return _fresh(estimator, update, random_state)
    if update in ("warm_start", "partial_fit"):
        return last
    learned = hasattr(last, "coef_") or hasattr(last, "coefs_")
    if update == "auto" and learned and "warm_start" in last.get_params():
        return last.set_params(warm_start=True)
    return _fresh(estimator, update, random_state)


def _fresh(estimator: Any, update: str, random_state: Any) -> Any:
    learner = clone(estimator)
    own = learner.get_params()
    if isinstance(random_state, Integral) and own.get("random_state", 0) is None:
        learner.set_params(random_state=random_state)
    if update == "warm_start":
        if "warm_start" not in own:
            raise ValueError(
                f"update='warm_start', but {type(learner).__name__} has no "
                "parameter warm_start; use update='refit'."
            )
        learner.set_params(warm_start=True)
    if update == "partial_fit" and not hasattr(learner, "partial_fit"):
        raise ValueError(
            f"update='partial_fit', but {type(learner).__name__} has no such "
            "method; use update='refit'."
        )
    return learner


def _fifth(mu: NDArray, given: NDArray) -> float:
    return float(np.quantile(mu, 0.2, weights=given, method="inverted_cdf"))
