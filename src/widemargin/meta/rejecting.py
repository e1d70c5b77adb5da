r"""A classifier that refuses to answer where it is not sure.

Answer x only if the confidence c(x) of the wrapped classifier is at least a threshold
τ. τ is chosen on samples that the classifier has not seen, so that, with probability
1 − δ over the draw of these samples,

.. math:: P(\text{wrong} \mid c \ge \tau) \le \varepsilon
   \quad\text{(max\_error)}\qquad\text{or}\qquad
   P(c \ge \tau) \ge \kappa \quad\text{(coverage)}.

It holds for any classifier, any confidence and any distribution, at the sample size at
hand; :func:`widemargin.margins.reject_threshold` has the proof. X is
(n_samples, n_features), answers and confidences are (n_samples,).

Reference: C. Chow, On optimum recognition error and reject tradeoff, 1970.
"""

import warnings
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, check_is_fitted

from widemargin._core.callbacks import (
    HAS_CALLBACKS,
    CallbackSupportMixin,
    FitTasks,
    with_callbacks,
)
from widemargin.margins import reject_threshold
from widemargin.meta.confidence import Confidence, confidence_of
from widemargin.meta.holdout import (
    check_fraction,
    check_samples,
    hold_out,
    nothing_promised,
)
from widemargin.meta.reject_label import choose_reject_label, mixed_dtype

__all__ = ["RejectingClassifier"]


def _estimator_has(method: str):
    def check(self: "RejectingClassifier") -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


class RejectingClassifier(
    CallbackSupportMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator
):
    r"""Wrap a classifier so that it answers only where it is sure enough.

    `fit` holds out a random part of the samples, fits the classifier on the rest and
    chooses the threshold on the part held out. The promise, made with probability
    ``1 - delta`` over the draw of the held-out samples, is about new samples from the
    same source:

    - ``max_error``: of those that are answered, a fraction of at most `max_error` is
      answered wrongly, and as many are answered as the test allows;
    - ``coverage``: a fraction of at least `coverage` is answered, and these are the
      surest.

    Parameters
    ----------
    estimator : classifier
        With ``decision_function`` or ``predict_proba``, or any classifier together
        with a callable `confidence`.
    max_error : float, default=None
        Error allowed among the answers, in (0, 1). Exactly one of `max_error` and
        `coverage` must be given.
    coverage : float, default=None
        Fraction of samples to answer, in (0, 1).
    delta : float or None, default=0.05
        Probability with which the promise may be broken. None promises nothing: the
        bound then holds on the held-out samples only.
    confidence : {"auto", "decision_function", "predict_proba"} or callable, \
            default="auto"
        What the threshold is applied to: the difference between the two best scores of
        that method, "auto" taking the first one there is; or a callable that gets the
        fitted estimator and `X` and returns one number per sample, larger for surer.
    cv : float or "prefit", default=0.25
        Fraction of the samples to hold out. With "prefit" the estimator is used as it
        is and everything given to `fit` is held out: it must be new to the estimator.
        An estimator inside :class:`sklearn.frozen.FrozenEstimator` stays fitted when
        it is cloned, by cross-validation for instance.
    reject_label : label, default=None
        What `predict` returns where it refuses. None means "reject" for strings and -1
        for numbers, and asks for another one where that is a class.
    random_state : int, RandomState or None, default=None
        Which samples are held out.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    threshold_ : float
        Smallest confidence that is answered; inf where everything is refused, -inf
        where nothing is.
    coverage_ : float
        Fraction of the held-out samples that is answered.
    error_ : float
        Error among these; nan if there is none.
    n_held_out_ : int
        Number of held-out samples.
    reject_label_ : label
        What stands for a refusal.
    classes_ : ndarray of shape (n_classes,)
        Labels, without `reject_label_`.
    n_features_in_ : int
        Number of features, where the estimator says so.

    See Also
    --------
    widemargin.margins.reject_threshold : The rule and why its promise holds.
    widemargin.inspection.ErrorRejectDisplay : Error against fraction rejected.

    Notes
    -----
    The promise needs the held-out samples to be a random draw, independent of the
    classifier. Therefore they are not stratified, and the classifier is not fitted
    again on all samples afterwards. A sample moves from the held-out part to the
    others only where a class would otherwise have nothing to learn from. Rows that
    belong together (one patient, one recording) break the independence: split them
    yourself and use ``cv="prefit"``.

    Nothing can be promised on fewer than ``log(delta) / log(1 - max_error)`` held-out
    samples, about 3 / max_error: then everything is refused, with a warning.

    `sample_weight` and other metadata go to the `fit` of the estimator. The threshold
    counts every held-out sample once; samples of weight zero take no part at all.

    `score` is plain accuracy, in which a refusal counts as a mistake.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from widemargin.meta import RejectingClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RejectingClassifier(
    ...     KNeighborsClassifier(), max_error=0.02, random_state=0)
    >>> _ = model.fit(X[:1400], y[:1400])
    >>> answered = model.accepts(X[1400:])
    >>> bool((model.predict(X[1400:])[~answered] == -1).all())
    True
    >>> print(f"{answered.mean():.2f}")
    0.85
    """

    def __init__(
        self,
        estimator: Any,
        *,
        max_error: float | None = None,
        coverage: float | None = None,
        delta: float | None = 0.05,
        confidence: Confidence = "auto",
        cv: float | str = 0.25,
        reject_label: Any = None,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.max_error = max_error
        self.coverage = coverage
        self.delta = delta
        self.confidence = confidence
        self.cv = cv
        self.reject_label = reject_label
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: ArrayLike, **params: Any) -> Self:
        """Fit the classifier on one part of the samples, the threshold on the other.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, handed to the estimator as they are.
        y : array-like of shape (n_samples,)
            Labels.
        **params : dict
            Metadata for the `fit` of the estimator, such as `sample_weight`.

        Returns
        -------
        self : RejectingClassifier
            The fitted classifier.
        """
        if (self.max_error is None) == (self.coverage is None):
            raise ValueError(
                "RejectingClassifier needs exactly one of max_error and coverage; got "
                f"max_error={self.max_error!r}, coverage={self.coverage!r}."
            )
        X, y = check_samples(X, y)
        with FitTasks(self, 2, X=X, y=y) as tasks:
            held_out = self._fit_estimator(X, y, params, tasks)
            for name in ("classes_", "n_features_in_", "feature_names_in_"):
                if hasattr(self.estimator_, name):
                    setattr(self, name, getattr(self.estimator_, name))
            self.reject_label_ = choose_reject_label(self.reject_label, self.classes_)
            with tasks.parts("threshold"):
                self._choose_threshold(_safe_indexing(X, held_out), y[held_out])
        return self

    def _fit_estimator(self, X: Any, y: NDArray, params: dict, tasks: Any) -> NDArray:
        """Set `estimator_`; return the rows that it has not seen."""
        if isinstance(self.cv, str):
            self._check_prefit(params)
            self.estimator_ = self.estimator
            return np.arange(len(y))
        weights = params.get("sample_weight")
        train, held_out = hold_out(y, weights, self.cv, self.random_state)
        if get_config()["enable_metadata_routing"]:
            params = process_routing(self, "fit", **params).estimator.fit
        self.estimator_ = tasks.delegate("estimator").fit(
            clone(self.estimator),
            _safe_indexing(X, train),
            y[train],
            **_check_method_params(X, params, indices=train),
        )
        return held_out

    def _check_prefit(self, params: dict[str, Any]) -> None:
        if self.cv != "prefit":
            check_fraction(self.cv)
        if params:
            raise ValueError(
                f"cv='prefit' fits nothing, so {', '.join(params)} has no place to go; "
                "leave it out, or let cv be a fraction."
            )
        try:
            check_is_fitted(self.estimator)
        except NotFittedError as error:
            raise NotFittedError(
                "cv='prefit' needs a fitted estimator; fit it first, wrapped in "
                "sklearn.frozen.FrozenEstimator if this classifier is to be cloned."
            ) from error

    def _choose_threshold(self, X: Any, y: NDArray) -> None:
        answers = self.estimator_.predict(X)
        confidence = confidence_of(self.estimator_, X, self.confidence)
        self.threshold_ = reject_threshold(
            y,
            answers,
            confidence,
            max_error=self.max_error,
            coverage=self.coverage,
            delta=self.delta,
        )
        answered = confidence >= self.threshold_
        self.n_held_out_ = len(y)
        self.coverage_ = float(answered.mean())
        wrong = (answers != y)[answered]
        self.error_ = float(wrong.mean()) if wrong.size else float("nan")
        if not answered.any():
            said = nothing_promised(self.max_error, self.delta, len(y))
            # To the caller of fit, whatever scikit-learn wraps around it.
            warnings.warn(said, UserWarning, stacklevel=3 + HAS_CALLBACKS)

    def confidences(self, X: Any) -> NDArray:
        """Return how sure the classifier is of each answer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        confidence : ndarray of shape (n_samples,)
            What is compared with ``threshold_``.
        """
        check_is_fitted(self)
        return confidence_of(self.estimator_, X, self.confidence)

    def accepts(self, X: Any) -> NDArray:
        """Return which samples are answered.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        accepted : ndarray of bool of shape (n_samples,)
            True where the confidence reaches ``threshold_``.
        """
        return self.confidences(X) >= self.threshold_

    def predict(self, X: Any) -> NDArray:
        """Return labels, ``reject_label_`` where the classifier is not sure enough.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In a dtype that holds the classes and ``reject_label_``.
        """
        accepted = self.accepts(X)
        answers = np.asarray(self.estimator_.predict(X))
        labels = answers.astype(mixed_dtype(answers, self.reject_label_))
        labels[~accepted] = self.reject_label_
        return labels

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray:
        """Return the probabilities of the wrapped classifier, refused or not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> NDArray:
        """Return the scores of the wrapped classifier, refused or not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    @available_if(_estimator_has("margins"))
    def margins(self, X: Any, y: ArrayLike) -> NDArray:
        """Return the margins of the wrapped classifier, refused or not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        margins : ndarray of shape (n_samples,)
            Positive where the wrapped classifier is right.
        """
        check_is_fitted(self)
        return self.estimator_.margins(X, y)

    def get_metadata_routing(self) -> MetadataRouter:
        """Say where metadata goes: everything to the `fit` of the estimator.

        Returns
        -------
        routing : MetadataRouter
            The routing.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = deepcopy(inner.input_tags)
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags
