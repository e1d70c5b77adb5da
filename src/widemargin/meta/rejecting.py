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

Confidence compares classes: a sample far from all of them, noise or a letter among
digits, may well be nearer to one. A second threshold σ, on the distance s(x) to the
nearest reference, refuses it, and the guarantee is that of both,

.. math:: P(\text{wrong} \mid c \ge \tau,\ s < \sigma) \le \varepsilon.

σ is the k-th largest distance among the held-out samples, with k fixed by their number.
Given σ, and how many are nearer than that, these are independent draws from the
distribution of samples nearer than σ; on them τ is tested down its fixed sequence. The
pairs (τ, σ) so tested are a path of which only τ is left to choose, and the probability
of a broken guarantee, at most δ given any σ, is at most δ in all.

One guarantee may be made for each predicted class, each true class or each group of
samples, all of them at once; :mod:`widemargin.margins.rejection` has the proof.
Few samples may all learn and all judge, each left out once. Fold k of K is left out of
model k, which answers its m_k samples. Let V_i be the confidence of model k in its
answer to sample i of fold k where that is wrong, and minus infinity where it is right.
A new sample x, with its true label, has such a V under every model, and given model k
it is exchangeable with the samples of fold k, so that

.. math:: p_k = \frac{1 + \#\{i \in k : V_i \ge V^{(k)}(x)\}}{m_k + 1}

is a p-value, however the V are distributed. The label is not known. But where the
answer a(x) that is given is wrong, :math:`V^{(k)}(x)` is the confidence of model k if
it answers a(x) too, and at least minus infinity if not. With

.. math:: S(x) = \sum_k \begin{cases} \#\{i \in k : V_i \ge c_k(x)\} & f_k(x) = a(x) \\
          m_k & \text{otherwise} \end{cases}

x is answered where :math:`(1 + S(x)) / (n + 1) \le \alpha`. A wrong answer then has a
weighted mean of p-values of at most what :mod:`widemargin.margins.conformal` bounds,
and

.. math:: P(x \text{ is answered, and wrongly}) \le
          2\, \frac{\alpha (n + 1) + K - 1}{n + K},

and :math:`2 \alpha` where one sample is left out at a time and the learner does not
mind the order of its samples, which are shuffled for that. The model that answers may
be any, for instance that of all samples.

References: C. Chow, On optimum recognition error and reject tradeoff, 1970; A.
Angelopoulos, S. Bates, E. Candès, M. Jordan, L. Lei, Learn then test, 2021; V. Vovk, A.
Gammerman, G. Shafer, Algorithmic learning in a random world, 2005 (σ as the threshold
of a conformal p-value); R. Barber, E. Candès, A.
Ramdas, R. Tibshirani, Predictive inference with the jackknife+, 2021; V. Vovk, R. Wang,
Combining p-values via averaging, 2020.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.validation import _num_samples

from widemargin._compute.rounding import below
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    as_floats,
    check_random_state,
    refuse_pairs,
    warn_caller,
)
from widemargin._core.classifier import fit_method
from widemargin._core.confidence import (
    answering,
    answers_of,
    confidence_of,
    distance_of,
    nested,
)
from widemargin._core.decisions import as_labels, class_codes
from widemargin._core.duplicates import repeated_rows
from widemargin._core.params import Fraction, check_declared, parameters
from widemargin._core.samples import check_classes, check_orderable
from widemargin._core.split import hold_out_at_random, hold_out_counts
from widemargin.margins import common_threshold, reject_thresholds, rejection
from widemargin.margins.conformal import count_as_strange, rounding_of
from widemargin.meta.wrapping import (
    Cut,
    RefusingClassifier,
    choose_reject_label,
    differs,
    mixed_dtype,
    round_up,
    takes_weights,
    weighed_rows,
)

DELTA = 0.05
# What a fitted model says of samples: its answers and their confidence.
Says = Callable[[Any, Any], tuple[NDArray, NDArray]]


class Fold(NamedTuple):
    """A model, and the sorted confidences of its mistakes on samples left out."""

    model: Any
    n_samples: int
    mistakes: NDArray
    width: float


@parameters
class RejectingClassifier(RefusingClassifier):
    r"""Wrap a classifier so that it answers only where it is sure enough.

    `fit` holds out random samples, fits the classifier to the others, and chooses the
    threshold on the held-out ones. For new samples

    - ``max_error``: of those that are answered, a fraction of at most `max_error` is
      answered wrongly, and as many are answered as the test allows;
    - ``coverage``: a fraction of at least `coverage` is answered, and these are the
      surest.

    The exact guarantee is below.

    Parameters
    ----------
    estimator : classifier
        Classifier with a confidence: ours, or any with ``decision_function`` or
        ``predict_proba``; else give `confidence_func`.
    max_error : float, default=None
        Maximum error among the answers, in (0, 1). Give either `max_error` or
        `coverage`.
    coverage : float, default=None
        Fraction of samples to answer, in (0, 1).
    delta : float or None, default=0.05
        Probability with which the guarantee may fail. None: no guarantee, the limit
        holds on the held-out samples only.
    per : {"predicted", "true", "group"}, default=None
        None: one guarantee for all answers. "predicted": one for the answers of each
        class, with a threshold for each. "true" and "group": one for each true class,
        or each group given to `fit`, with one threshold.
    confidence_func : callable, default=None
        Function of the fitted estimator and `X` that returns one number per sample,
        larger for surer. None is the margin of the answer,
        :func:`widemargin.margins.confidence_of`.
    outlier_fraction : float, default=None
        Fraction of ordinary samples that is rejected as outliers, in (0, 1), for
        instance 0.01; with `max_error` only. None rejects no outliers.
    outlier_score : callable, default=None
        Function of the fitted estimator and `X` that returns one number per sample,
        larger for more unusual ones. None is the distance to the nearest prototype or
        neighbour.
    cv : "auto", float, "prefit", "leave-one-out" or int, default="auto"
        Fraction of the samples to hold out. "auto" is a quarter, or as many as
        `max_error` needs, at most half. "prefit": the estimator is fitted already and
        `fit` is given samples new to it; use :class:`sklearn.frozen.FrozenEstimator` if
        it will be cloned. "leave-one-out", or an integer for so many folds: every
        sample is left out once, which answers more where samples are few. The guarantee
        is weaker (see Guarantee), and ``delta=None`` is needed.
    reject_label : label, default=None
        Label of rejected samples. None is "reject" for strings and -1 for numbers; if
        that is a class, ``"reject_"`` or the smallest label minus 1.
    random_state : int, RandomState or None, default=None
        Seed of the held-out samples.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    estimators_ : list of classifiers
        Those fitted without a fold; of a hold-out none.
    threshold_ : float
        Smallest confidence that is answered; inf if all is rejected, -inf if nothing
        is, nan with folds.
    class_thresholds_ : ndarray of shape (n_classes,) or None
        With ``per="predicted"`` the smallest confidence of answers of each class, inf
        for classes that are never answered; else None.
    class_delta_ : float or None
        Part of `delta` that each answered class has with ``per="predicted"``.
    outlier_threshold_ : float or None
        Largest outlier score that is answered; None where `outlier_fraction` is.
    coverage_ : float
        Fraction of the held-out samples that is answered.
    error_ : float
        Error among the answers to held-out samples; nan if there are none.
    n_held_out_ : int
        Number of held-out samples.
    reject_label_ : label
        What stands for a refusal.
    classes_ : ndarray of shape (n_classes,)
        Labels that were learned, without `reject_label_`.
    n_features_in_ : int
        Number of features, where the samples have any.

    See Also
    --------
    widemargin.margins.reject_threshold : The rule and why its guarantee holds.
    widemargin.margins.smallest_max_error : What so many samples can guarantee.
    widemargin.inspection.ErrorRejectDisplay : Error against fraction rejected.
    widemargin.ProductClassifier : Several classifiers made one.

    Notes
    -----
    **Guarantee.** Let the samples be independent draws from one distribution of (x, y),
    any distribution, over any number of labels. Let f be the fitted ``estimator_``, c
    its confidence and τ the ``threshold_``. Then, whatever f turned out to be,

    .. math:: P\big(\, P(f(x) \ne y \mid c(x) \ge \tau) > \text{max\_error} \,\big)
       \le \text{delta}:

    the inner probability is over one new sample from the same distribution, the outer
    one over the draw of the held-out samples. With `coverage` the inner event is
    :math:`P(c(x) \ge \tau) < \text{coverage}`. The method is selective risk control
    by Learn-then-Test with a fixed sequence of exact binomial tests. Nothing is said
    about a single sample, a single class, or samples from elsewhere.

    With `outlier_fraction` the answered are those with :math:`c(x) \ge \tau` that are
    also nearer than σ, the ``outlier_threshold_``, and the guarantee is that of exactly
    these. σ is the k-th largest of n held-out distances, :math:`k = \lfloor
    \text{outlier\_fraction}\,(n + 1) \rfloor` and at least 1. If distances are never
    equal, σ refuses a new sample of the same distribution with probability k / (n + 1).
    What comes from elsewhere is refused as often as it is far: nothing is guaranteed of
    it.

    With `per` the guarantee holds for all classes or groups at once. With g(x, y) the
    predicted class, the true class or the group,

    .. math:: P\big(\, \exists g: P(f(x) \ne y \mid c(x) \ge \tau_g,\ g(x, y) = g) >
       \text{max\_error} \,\big) \le \text{delta}.

    "predicted" divides delta among the classes. One that is predicted for too few
    held-out samples is never answered: a warning names it, and how many would do.
    "true" and "group" do not divide delta, hold samples of every class or group out,
    and refuse a class or group that has too few. Nothing is guaranteed for classes and
    groups that were not given.

    With folds less is guaranteed: of a new sample,

    .. math:: P(\text{it is answered, and wrongly}) \le \text{max\_error},

    over the draw of the training samples and of the new one. It is a mean over training
    sets, not a guarantee for the model at hand. It is a share of all samples, not of
    the answered. The samples need only be exchangeable. With K folds it holds for any
    learner. With leave-one-out it holds for learners that ignore the order of their
    samples; these are shuffled. A sample is answered where all models agree, but for
    few, and few left-out mistakes were as sure.

    What it needs: the held-out samples are a random draw that the classifier has not
    seen. Therefore they are not stratified, and the classifier is not fitted again on
    all samples. The guarantee is that of the model that was tested. Folds would give
    several models, each tested on a fraction. A class of which all samples are held out
    is not learned; its samples count as the mistakes they are. `max_error` is chosen
    beforehand; trying several on the same samples until one passes is not. Rows that
    belong together (one patient, one recording, copies of one row, which are told)
    break the independence: split them yourself and use ``cv="prefit"``.

    A guarantee needs at least ``log(delta) / log(1 - max_error)`` held-out samples,
    about 3 / max_error. With fewer everything is refused, and a warning names the
    smallest `max_error` these samples allow.

    `sample_weight` and other metadata go to the `fit` of the estimator. The threshold
    counts every held-out sample once; samples of weight zero take no part at all.

    The unit of margins and confidences is that of the estimator, ``margin_unit``;
    `decision_function`, `margins` and `confidence` are those of the estimator, refused
    or not. `score` is plain accuracy, in which a refusal counts as a mistake.

    References
    ----------
    .. [1] A. Angelopoulos, S. Bates, E. Candès, M. Jordan, L. Lei, Learn then test:
       calibrating predictive algorithms to achieve risk control, 2021.
    .. [2] C. Chow, On optimum recognition error and reject tradeoff, 1970.

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

    estimator: Any
    _: KW_ONLY
    max_error: Fraction | None = None
    coverage: Fraction | None = None
    per: Literal["predicted", "true", "group"] | None = None
    delta: Fraction | None = DELTA
    confidence_func: Callable[[Any, Any], ArrayLike] | None = None
    outlier_fraction: Fraction | None = None
    outlier_score: Callable[[Any, Any], ArrayLike] | None = None
    cv: Annotated[Any, Cut()] | Literal["auto", "prefit", "leave-one-out"] = "auto"
    reject_label: Any = None
    random_state: Any = None

    @fit_method
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Fit the classifier on one part of the samples, the threshold on the other.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, handed to the estimator as they are.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights for the `fit` of the estimator; zero leaves a sample out.
        groups : array-like of shape (n_samples,), optional
            Groups that a guarantee is made for each of, with ``per="group"``.
        **params : dict
            Further metadata for the `fit` of the estimator.

        Returns
        -------
        self : RejectingClassifier
            The fitted classifier.
        """
        self._check_parameters()
        X, y = self._check_rows(X, y)
        guaranteed = self._guaranteed_for(y, groups)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        self._confidence_func = self.confidence_func
        self._outlier_score = self.outlier_score
        n_folds = self._count_folds(y)
        with FitTasks(self, max(2, n_folds + 2), X=X, y=y) as tasks:
            if n_folds:
                self._fit_folds(X, y, n_folds, params, tasks)
                return self
            held_out = self._fit_estimator(X, y, guaranteed, params, tasks)
            self._take_from_estimator()
            with tasks.parts("threshold"):
                some = None if guaranteed is None else guaranteed[held_out]
                self._choose_threshold(_safe_indexing(X, held_out), y[held_out], some)
        return self

    def _take_from_estimator(self) -> None:
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.reject_label_ = choose_reject_label(self.reject_label, self.classes_)
        # What only some guarantees have.
        self.estimators_: list[Any] = []
        self._folds: list[Fold] = []
        self.class_thresholds_: NDArray | None = None
        self.class_delta_: float | None = None
        self.outlier_threshold_: float | None = None

    def _count_folds(self, y: NDArray) -> int:
        """Return the number of folds, zero for a hold-out."""
        whole = isinstance(self.cv, int | np.integer)
        if not whole and self.cv != "leave-one-out":
            return 0
        given = {"delta": self.delta, "per": self.per, "coverage": self.coverage}
        given["outlier_fraction"] = self.outlier_fraction
        wrong = [f"{k}={v!r}" for k, v in given.items() if v is not None]
        if wrong:
            raise ValueError(
                f"cv={self.cv!r} guarantees max_error on average, P(answered and "
                f"wrong), and nothing else; got {', '.join(wrong)}: set it to None, "
                "or let cv be a fraction."
            )
        return int(self.cv) if whole else len(y)

    def _fit_folds(
        self, X: Any, y: NDArray, n_folds: int, params: dict, tasks: Any
    ) -> None:
        """Fit a model without each fold and one of all; keep the left-out mistakes."""
        assert self.max_error is not None
        refuse_pairs("estimator", self.estimator, ", or let cv be 'prefit'")
        given = params.get("sample_weight")
        rows, _ = weighed_rows([self.estimator], y, given)
        if given is not None and not takes_weights(self.estimator):
            del params["sample_weight"]
        n, n_folds = len(rows), min(n_folds, len(rows))
        least = least_error(n, n_folds)
        if self.max_error < least * (1 - 1e-9):
            instead = "" if n_folds == n else ", fewer folds, cv='leave-one-out'"
            raise ValueError(
                f"max_error={self.max_error} cannot be guaranteed by cv={self.cv!r} on "
                f"{n} samples, {round_up(least)} can; give more samples, a larger "
                f"max_error{instead}."
            )
        copies = words_on_copies(
            _safe_indexing(X, rows), y[rows], np.ones(n, bool), self.max_error
        )
        if copies:
            warn_caller(copies)
        check_classes(self, np.unique(y[rows]))
        rng = check_random_state(self.random_state)
        folds, left = [], np.zeros((2, n))
        for part in folds_at_random(n, n_folds, rng):
            # In random order, so that no learner minds that of the samples.
            train = rng.permutation(np.delete(rows, part))
            self._check_learned(y[train])
            model = self._fit_part(X, y, train, params, tasks)
            labels, sure = self._says(model, _safe_indexing(X, rows[part]))
            wrong = differs(y[rows[part]], labels)
            folds.append(fold_of(model, wrong, sure))
            left[:, part] = wrong, sure
        self.estimator_ = self._fit_part(X, y, rng.permutation(rows), params, tasks)
        self._take_from_estimator()
        with tasks.parts("threshold"):
            self._keep_folds(folds, left[0] > 0, left[1])

    def _keep_folds(self, folds: list[Fold], wrong: NDArray, sure: NDArray) -> None:
        """Keep the models without a fold; say what they would have answered."""
        assert self.max_error is not None
        n = len(wrong)
        self._folds, self.estimators_ = folds, [fold.model for fold in folds]
        self._alpha = alpha_for(self.max_error, n, len(folds))
        self.n_held_out_, self.threshold_ = n, float("nan")
        everyone = fold_of(None, wrong, sure)
        surer = count_as_strange(everyone.mistakes, sure, everyone.width)
        # A mistake counts itself; the sample that stands for a new one does not.
        answered = (1 + surer - wrong) / n <= self._alpha
        self.coverage_ = float(answered.mean())
        self.error_ = float(wrong[answered].mean()) if answered.any() else float("nan")

    def _guaranteed_for(self, y: NDArray, groups: ArrayLike | None) -> NDArray | None:
        """Return the group of every sample, known before the fit, or None."""
        if (groups is not None) != (self.per == "group"):
            raise ValueError(
                "groups go with per='group', one for each sample, in fit; got "
                f"per={self.per!r} and groups={groups if groups is None else '...'}."
            )
        if groups is not None:
            return check_orderable(as_labels("groups", groups, len(y)), "groups")
        return y if self.per == "true" else None

    def _check_parameters(self) -> None:
        if (self.max_error is None) == (self.coverage is None):
            raise ValueError(
                "RejectingClassifier needs exactly one of max_error and coverage; got "
                f"max_error={self.max_error!r}, coverage={self.coverage!r}."
            )
        check_declared(self)
        if any(isinstance(one, RefusingClassifier) for one in nested(self.estimator)):
            raise ValueError(
                "estimator must answer every sample; got one that refuses itself, "
                f"{self.estimator!r:.200}. Give the classifier inside it."
            )
        for name in ("confidence_func", "outlier_score"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise ValueError(
                    f"{name} must be None or a function of (estimator, X) that returns "
                    f"one number per sample; got {function!r}."
                )
        if self.outlier_fraction is not None and self.coverage is not None:
            raise ValueError(
                "outlier_fraction goes with max_error; coverage guarantees to answer a "
                "fraction of all samples, outliers included."
            )
        if self.outlier_score is not None and self.outlier_fraction is None:
            raise ValueError(
                "outlier_score needs outlier_fraction, the fraction of ordinary "
                "samples that it may refuse, for instance 0.01."
            )

    def _fit_estimator(
        self, X: Any, y: NDArray, guaranteed: NDArray | None, params: dict, tasks: Any
    ) -> NDArray:
        """Set `estimator_`; return the rows that it has not seen."""
        if isinstance(self.cv, str) and self.cv == "prefit":
            self._check_prefit(params)
            self.estimator_ = self.estimator
            return np.arange(len(y))
        fitted = ", or fit it on some of the samples and pass others with cv='prefit'"
        refuse_pairs("estimator", self.estimator, fitted)
        given = params.get("sample_weight")
        rows, _ = weighed_rows([self.estimator], y, given)
        if given is not None and not takes_weights(self.estimator):
            del params["sample_weight"]
        if len(rows) < 2:
            raise ValueError(
                f"Found {len(rows)} sample(s), n_samples={len(rows)}, with a positive "
                "weight; at least two are needed, one of them to hold out."
            )
        some = None if guaranteed is None else guaranteed[rows]
        held = self._rows_to_hold_out(y[rows], some)
        train, held_out = rows[~held], rows[held]
        copies = words_on_copies(_safe_indexing(X, rows), y[rows], held, self.max_error)
        if copies:
            warn_caller(copies)
        check_classes(self, np.unique(y[rows]))
        self._check_learned(y[train])
        self.estimator_ = self._fit_part(X, y, train, params, tasks)
        return held_out

    @staticmethod
    def _check_learned(labels: NDArray) -> None:
        learned = np.unique(labels)
        if len(learned) < 2:
            raise ValueError(
                f"The {len(labels)} samples that are left to learn from are all of one "
                f"class, {learned.tolist()}; at least two classes are needed: give "
                "more samples, a smaller cv, or a fitted estimator with cv='prefit'."
            )

    def _rows_to_hold_out(self, y: NDArray, guaranteed: NDArray | None) -> NDArray:
        cv: Any = self.cv
        rule = self.max_error, self.delta, cv
        if self.per is None:
            return rows_to_hold_out(
                len(y), self.max_error, self.delta, cv, self.random_state
            )
        of = y if guaranteed is None else guaranteed
        _, codes, sizes = np.unique(of, return_inverse=True, return_counts=True)
        if guaranteed is None:
            # What the rarest class needs, if it is answered as often as given.
            part = None if self.delta is None else self.delta / len(sizes)
            rule = self.max_error, part, cv
            most = cv
            if isinstance(cv, str):
                most = max(count_to_hold_out(n, *rule) / n for n in sizes.tolist())
            rng = check_random_state(self.random_state)
            return hold_out_at_random(len(y), round(most * len(y)), rng)
        counts = np.array([count_to_hold_out(n, *rule) for n in sizes.tolist()])
        counts = np.minimum(counts, sizes - 1)
        return hold_out_counts(codes, counts, check_random_state(self.random_state))

    def _choose_threshold(self, X: Any, y: NDArray, guaranteed: NDArray | None) -> None:
        answers, confidence = self._sure_answers(X)
        wrong = differs(y, answers)
        guarantee: dict[str, Any] = {
            "max_error": self.max_error,
            "coverage": self.coverage,
        }
        near = np.ones(len(y), bool)
        if self.outlier_fraction is not None:
            distances = self._outlier_scores(X)
            self.outlier_threshold_ = farthest(distances, self.outlier_fraction)
            near = distances <= self.outlier_threshold_
            if not near.any():
                raise ValueError(
                    "outlier_score must tell samples apart, and that of all held-out "
                    f"ones is {distances.max():g}; give another, or "
                    "outlier_fraction=None."
                )
        self.n_held_out_ = len(y)
        # All that matters of the labels is where they differ.
        wrong_near, sure = wrong[near], confidence[near]
        samples = np.zeros(len(sure)), wrong_near, sure
        if self.per == "predicted":
            self._choose_for_classes(samples, answers[near], guarantee)
        elif guaranteed is not None:
            self._check_enough(guaranteed[near])
            self.threshold_ = common_threshold(
                *samples, guaranteed[near], delta=self.delta, **guarantee
            )
        else:
            self.threshold_ = rejection.reject_threshold(
                *samples, delta=self.delta, **guarantee
            )
        answered = self._is_sure(confidence, answers) & near
        self.coverage_ = float(answered.mean())
        self.error_ = float(wrong[answered].mean()) if answered.any() else float("nan")
        if self.threshold_ == np.inf and self.per is None:
            assert self.max_error is not None
            warn_caller(
                nothing_guaranteed(wrong_near, sure, self.max_error, self.delta)
            )

    def _choose_for_classes(
        self,
        samples: tuple[NDArray, NDArray, NDArray],
        answers: NDArray,
        guarantee: dict,
    ) -> None:
        """Set a threshold for the answers of every class; name those without one."""
        found = reject_thresholds(*samples, answers, delta=self.delta, **guarantee)
        places = np.searchsorted(self.classes_, found.groups)
        sizes = np.zeros(len(self.classes_), int)
        sizes[places] = np.unique(answers, return_counts=True)[1]
        # Of a class that is never predicted any coverage holds, and no error is known.
        never = np.inf if self.coverage is None else -np.inf
        thresholds = np.full(len(self.classes_), never)
        thresholds[places] = found.thresholds
        self.class_thresholds_, self.threshold_ = thresholds, float(thresholds.min())
        shown = found.deltas[np.isfinite(found.deltas)]
        self.class_delta_ = float(shown[0]) if len(shown) else None
        if self.max_error is None or self.delta is None:
            return
        refused = np.flatnonzero(thresholds == np.inf)
        if len(refused):
            # One class more divides delta once more.
            parts = min(len(shown) + 1, len(self.classes_))
            needed = rejection.samples_needed(self.max_error, self.delta / parts)
            listed = listed_classes(self.classes_[refused], sizes[refused])
            warn_caller(
                f"Nothing is answered as {listed}: max_error={self.max_error} could not"
                " be shown on the held-out samples with that answer (their number in "
                f"brackets); {needed} without a mistake would do. Give more samples, "
                "a larger max_error, or a larger delta."
            )

    def _check_enough(self, guaranteed: NDArray) -> None:
        """Refuse classes or groups that have too few samples, by name."""
        if self.max_error is None or self.delta is None:
            return
        needed = rejection.samples_needed(self.max_error, self.delta)
        labels, sizes = np.unique(guaranteed, return_counts=True)
        few = sizes < needed
        if few.any():
            raise ValueError(
                f"per={self.per!r} cannot guarantee max_error={self.max_error} for "
                f"{listed_classes(labels[few], sizes[few])}: the number of held-out "
                f"samples is in brackets, and {needed} of each would do. Give more, a "
                "larger max_error or delta, or per='predicted', which refuses rare "
                "answers only."
            )

    def _sure_answers(self, X: Any) -> tuple[NDArray, NDArray]:
        """Answers of the estimator, and what is compared with the threshold."""
        return self._says(self.estimator_, X)

    def _says(self, model: Any, X: Any) -> tuple[NDArray, NDArray]:
        """Answers of a model, and how sure it is of them."""
        if self._confidence_func is None:
            return answers_of(model, X)[:2]
        with answering(model):
            labels = np.asarray(model.predict(X))
        return labels, self._number_of(
            "confidence_func", self._confidence_func, X, model
        )

    def _confidence_func_of(self, X: Any) -> NDArray:
        return self._number_of("confidence_func", self._confidence_func, X)

    def _outlier_scores(self, X: Any) -> NDArray:
        return self._number_of("outlier_score", self._outlier_score or distance_of, X)

    def _number_of(
        self, name: str, function: Any, X: Any, model: Any = None
    ) -> NDArray:
        """Return what a function of estimator and samples says, one number each."""
        model = self.estimator_ if model is None else model
        values = as_floats(f"{name}(estimator, X)", function(model, X))
        if values.shape != (_num_samples(X),):
            raise ValueError(
                f"{name} must return one number per sample, shape "
                f"({_num_samples(X)},); it returned shape {values.shape}."
            )
        return values

    def _is_sure(self, confidence: NDArray, answers: NDArray | None) -> NDArray:
        threshold: Any = self.threshold_
        if self.class_thresholds_ is not None and answers is not None:
            threshold = self.class_thresholds_[class_codes(answers, self.classes_)]
        # In float64: beside float32 the threshold would be rounded to it.
        return confidence.astype(np.float64, copy=False) >= threshold

    def _is_rarely_wrong(self, X: Any, answers: NDArray) -> NDArray:
        """Where few left-out mistakes were as sure as all models without them are."""
        surer = mistakes_as_sure(self._folds, X, answers, self._says)
        return (1 + surer) / (1 + self.n_held_out_) <= self._alpha * (1 + 1e-9)

    def _is_near(self, X: Any) -> NDArray | bool:
        if self.outlier_threshold_ is None:
            return True
        return self._outlier_scores(X) <= self.outlier_threshold_

    def get_metadata_routing(self) -> MetadataRouter:
        """Say where metadata goes: `groups` is taken, the rest is for the estimator.

        Returns
        -------
        routing : MetadataRouter
            The routing.
        """
        return super().get_metadata_routing().add_self_request(self)

    def confidence(self, X: Any) -> NDArray:
        """Return how sure the classifier is of each answer, refused or not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        confidence : ndarray of shape (n_samples,)
            What is compared with ``threshold_``: the confidence of the estimator, or
            the `confidence_func`.
        """
        self._check_predict(X)
        if self._confidence_func is not None:
            return self._confidence_func_of(X)
        return confidence_of(self.estimator_, X)

    def accepts(self, X: Any) -> NDArray:
        """Return which samples are answered.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        accepted : ndarray of bool of shape (n_samples,)
            True where the confidence reaches ``threshold_`` and the distance does not
            exceed ``outlier_threshold_``.
        """
        self._check_predict(X)
        if self._folds:
            return self._is_rarely_wrong(X, self._inner_labels(X))
        if self.class_thresholds_ is None:
            return self._is_sure(self.confidence(X), None) & self._is_near(X)
        answers, confidence = self._sure_answers(X)
        return self._is_sure(confidence, answers) & self._is_near(X)

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
        self._check_predict(X)
        answers, confidence = self._sure_answers(X)
        labels = answers.astype(mixed_dtype(answers, self.reject_label_))
        if self._folds:
            accepted = self._is_rarely_wrong(X, answers)
        else:
            accepted = self._is_sure(confidence, answers) & self._is_near(X)
        labels[~accepted] = self.reject_label_
        return labels


def rows_to_hold_out(
    n_samples: int,
    max_error: float | None,
    delta: float | None,
    cv: float | Literal["auto"] = "auto",
    random_state: Any = None,
) -> NDArray:
    """Return a mask of the samples that a threshold is chosen on; see `cv` above."""
    n_held = count_to_hold_out(n_samples, max_error, delta, cv)
    return hold_out_at_random(n_samples, n_held, check_random_state(random_state))


def count_to_hold_out(
    n_samples: int,
    max_error: float | None,
    delta: float | None,
    cv: float | Literal["auto"] = "auto",
) -> int:
    """Return how many of so many samples a threshold is chosen on; see `cv` above.

    >>> count_to_hold_out(400, 0.05, 0.05), count_to_hold_out(100, 0.05, 0.05)
    (149, 50)
    """
    if not isinstance(cv, str):
        return round(float(cv) * n_samples)
    wanted = 0
    if max_error is not None and delta is not None:
        wanted = rejection.samples_needed(max_error, delta)
        # Where half is too little anyway, nothing is gained by looking further.
        if wanted <= n_samples // 2:
            wanted = rejection.samples_for_rejecting(max_error, delta)
    return min(max(round(n_samples / 4), wanted), n_samples // 2)


def listed_classes(labels: NDArray, sizes: NDArray) -> str:
    """Return labels with their numbers of samples, ten at most.

    >>> listed_classes(np.array(["a", "b"]), np.array([3, 20]))
    "'a' (3), 'b' (20)"
    """
    named = [
        f"{a!r} ({n})" for a, n in zip(labels.tolist(), sizes.tolist(), strict=True)
    ]
    return ", ".join(named[:10]) + (", ..." if len(named) > 10 else "")


def words_on_copies(X: Any, y: NDArray, held: NDArray, max_error: float | None) -> str:
    """Say it where so many samples are not alone that copies may break a guarantee."""
    copies = repeated_rows(X, y)[held]
    if copies.mean() <= (max_error or 0.1) / 2:
        return ""
    return (
        f"{copies.sum()} of {len(copies)} samples held out equal others that were "
        "given, label and all. Where rows were repeated (up-sampled, drawn with "
        "replacement) the guarantee does not hold: give each once, with a "
        "sample_weight. Where such samples are only frequent, it does."
    )


def farthest(scores: NDArray, outlier_fraction: float) -> float:
    """Return the largest score below the k-th largest, k a fraction of all; see above.

    >>> farthest(np.array([3.0, 1.0, 2.0, 9.0]), 0.25) < 9.0
    True
    """
    k = max(1, int(np.floor(outlier_fraction * (len(scores) + 1))))
    largest = np.sort(scores)[::-1][min(k, len(scores)) - 1]
    # Half of what is one score for rounding, as confidences have it.
    width = rejection.tie_width(scores)
    return float(min(largest - width / 2, below(largest)))


def nothing_guaranteed(
    wrong: NDArray, confidence: NDArray, max_error: float, delta: float | None
) -> str:
    """Say that no threshold keeps `max_error`, and what these samples allow."""
    n = len(wrong)
    said = (
        f"max_error={max_error} could not be shown on {n} held-out samples at any "
        "threshold, so every sample will be rejected."
    )
    if delta is None:
        return said
    least = rejection.smallest_max_error(n, delta)
    needed = rejection.samples_needed(max_error, delta)
    if needed > n:
        said += f" Even without a mistake {needed} held-out samples are needed."
    shown = rejection.smallest_shown(wrong, confidence, delta)
    said += f" {n} faultless ones guarantee max_error={round_up(least)}"
    if shown is None:
        said += "; with the mistakes made on these, nothing can be guaranteed"
    elif round_up(shown) > round_up(least):
        said += f"; with the mistakes made on these, it would be {round_up(shown)}"
    return f"{said}. Give more samples, a larger max_error or delta, or a surer model."


def fold_of(model: Any, wrong: NDArray, sure: NDArray) -> Fold:
    """Keep how sure a model was of its mistakes."""
    sure = np.asarray(sure, np.float64)
    return Fold(model, len(wrong), np.sort(sure[wrong]), rounding_of(sure))


def alpha_for(max_error: float, n_samples: int, n_folds: int) -> float:
    """Return the alpha whose level is `max_error`; none is reached below 1 / (n + 1).

    >>> alpha_for(0.1, 199, 199)
    0.05
    >>> alpha_for(0.1, 199, 2) < 0.05
    True
    """
    if n_folds == n_samples:
        return max_error / 2
    level = max_error * (n_samples + n_folds) / 2
    return (level - n_folds + 1) / (n_samples + 1)


def least_error(n_samples: int, n_folds: int) -> float:
    """Return the smallest error that so many samples in so many folds can guarantee.

    >>> least_error(199, 199), least_error(198, 2)
    (0.01, 0.02)
    """
    if n_folds == n_samples:
        return 2 / (n_samples + 1)
    return 2 * n_folds / (n_samples + n_folds)


def folds_at_random(n_samples: int, n_folds: int, rng: Any) -> list[NDArray]:
    """Rows of each fold, as equal as they can be, labels unseen."""
    return np.array_split(rng.permutation(n_samples), n_folds)


def mistakes_as_sure(
    folds: list[Fold], X: Any, answers: NDArray, says: Says
) -> NDArray:
    """Count the left-out mistakes that were at least as sure as each answer: S."""
    total = np.zeros(len(answers))
    for model, n_samples, mistakes, width in folds:
        labels, sure = says(model, X)
        surer = count_as_strange(mistakes, np.asarray(sure, np.float64), width)
        total += np.where(labels == answers, surer, n_samples)
    return total
