r"""Class models with an exact level: none, one or several classes per sample.

For every class c a score s_c(x) says how strange x is to it, by the distance to the
class's own prototypes, model or neighbours. Samples of the class that the classifier
has not seen say how large it usually is, and the conformal p-value

.. math:: p_c(x) = \frac{1 + \#\{i \text{ of class } c : s_c(x_i) \ge s_c(x)\}}{n_c + 1}

is at most alpha for a new sample of class c with probability alpha at most, whatever
the distribution and the score; :mod:`widemargin.margins.conformal` has the proof. A
sample may belong to every class with p_c(x) > alpha: to none, which is an outlier, to
one, or to several, between which nobody can tell. Shapes: X (n_samples, n_features),
scores and p-values (n_samples, n_classes).

A model by neighbours that learns nothing else is, without sample i, the same model but
for the nearest of i's class: where that is i, the second nearest takes its place. So
with d_c(x) the distance to the nearest of class c, and i of class c,

.. math:: d_c^{-i}(x) = \min_{j \ne i,\ y_j = c} d(x, x_j),
   \qquad d_{c'}^{-i}(x) = d_{c'}(x) \quad (c' \ne c),

and the scores of n models are those of one.

References: V. Vovk, A. Gammerman, G. Shafer, Algorithmic learning in a random world,
2005 (class-conditional, or Mondrian, predictors); R. Barber, E. Candès, A. Ramdas, R.
Tibshirani, Predictive inference with the jackknife+, 2021 (folds).
"""

from dataclasses import KW_ONLY
from math import ceil
from typing import Annotated, Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_outlier_detector
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._core.arrays import to_numpy
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    as_floats,
    check_number,
    check_option,
    check_random_state,
    format_labels,
    refuse_pairs,
)
from widemargin._core.classifier import MarginClassifier, fit_method
from widemargin._core.confidence import (
    class_contrasts_of,
    class_distances_of,
    contrasts,
    inner_of,
)
from widemargin._core.decisions import class_codes
from widemargin._core.params import Fraction, check_declared, parameters
from widemargin._core.samples import check_classes
from widemargin._core.split import folds_of_classes, hold_out_counts
from widemargin.margins.conformal import (
    count_as_strange,
    cross_conformal_level,
    rounding_of,
    samples_for_alpha,
    smallest_alpha,
)
from widemargin.meta.wrapping import (
    Cut,
    RefusingClassifier,
    choose_reject_label,
    mixed_dtype,
    round_up,
    takes_weights,
    weighed_rows,
)

# Part of every class that "auto" holds out at least and at most, its folds where that
# is too little, and up to how many samples each is left out alone.
LEAST_HELD, MOST_HELD, FOLDS, LEFT_OUT_ALONE = 0.25, 0.5, 10, 100
NONCONFORMITY = {"contrast": class_contrasts_of, "distance": class_distances_of}


class Calibration(NamedTuple):
    """Sorted scores of samples of one class that a model has not seen."""

    code: int
    scores: NDArray
    # By how much equal scores may differ.
    width: float


def held_of(size: int, alpha: float) -> int:
    """Return how many of so many samples "auto" holds out of a class.

    P-values are multiples of 1 / (n + 1): n is the first from a quarter on for which
    alpha is one too, or where that is more than half, the last below.

    >>> held_of(100, 0.05), held_of(136, 0.05), held_of(60, 0.05), held_of(30, 0.05)
    (39, 39, 19, 0)
    """
    k = max(1, ceil(alpha * (LEAST_HELD * size + 1) - 1e-9))
    while k and ceil(k / alpha - 1 - 1e-9) > MOST_HELD * size:
        k -= 1
    return ceil(k / alpha - 1 - 1e-9) if k else 0


@parameters
class ConformalClassifier(RefusingClassifier):
    r"""Wrap a classifier so that it predicts none, one or several classes.

    `fit` fits the classifier to one part of the samples and scores the nonconformity of
    the other part with its own classes. For new samples of a class, the set misses that
    class with probability at most `alpha`: at any sample size and for any distribution.

    Parameters
    ----------
    estimator : classifier
        Classifier, ours or any other. Prototypes, HSS, TVQ, neighbours and densities
        have a distance to each class and detect outliers; hyperplanes and forests do
        not. With `one_class` also an outlier detector, such as
        :class:`sklearn.ensemble.IsolationForest`.
    alpha : float, default=0.05
        Maximum fraction of the samples of a class whose set misses that class, in (0,
        1).
    nonconformity : {"contrast", "distance"} or callable, default="contrast"
        Nonconformity score for each class. "distance" is the distance d to the class.
        "contrast" is d sqrt(d / d'), with d' the distance to the nearest other class;
        it gives fewer sets of several classes. Estimators without distances use minus
        the margin of the class. A function of the fitted estimator and `X` returns
        (n_samples, n_classes) scores, larger for less typical samples.
    cv : "auto", "prefit", "leave-one-out", float or int, default="auto"
        Calibration samples: a fraction of every class is held out, an integer is the
        number of folds, "leave-one-out" has one sample in each. "auto" holds out about
        a quarter of every class, at most half. If that is too little for `alpha`, it
        uses leave-one-out up to 100 samples and for plain neighbours, else ten folds.
        "prefit": the estimator is fitted already, and all samples calibrate.
    one_class : bool, default=False
        Accept samples of a single class. The estimator must model a class by itself:
        HSS, neighbours, or an outlier detector.
    reject_label : label, default=None
        What `predict` returns for sets of none or several classes. None is "reject" for
        strings and -1 for numbers; if that is a class, ``"reject_"`` or the smallest
        label minus 1.
    random_state : int, RandomState or None, default=None
        Seed of the held-out samples.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier; with folds that of all samples.
    estimators_ : list of classifiers
        The models whose scores are compared: one per fold, or ``[estimator_]``.
    n_calibration_ : ndarray of shape (n_classes,)
        Number of calibration samples of each class.
    smallest_alpha_ : float
        Smallest level that all classes can reach.
    reject_label_ : label
        What stands for no answer.
    classes_ : ndarray of shape (n_classes,)
        Labels, without `reject_label_`.
    n_features_in_ : int
        Number of features, where the samples have any.

    See Also
    --------
    widemargin.RejectingClassifier : Guarantees an error among the answers.
    widemargin.margins.conformal_p_values : The p-value and why it is exact.
    widemargin.inspection.AcceptanceDisplay : Accepted and refused samples of a class.

    Notes
    -----
    **Guarantee.** Let the calibration samples of class c and a new sample of it be
    exchangeable, for instance independent draws. With a hold-out or "prefit",

    .. math:: P(p_c(x) \le \alpha \mid y = c) \le \alpha
       \quad\text{for every } \alpha \text{ and every class } c,

    over the draw of both. Ties raise p. So in every class, a rare one too, the set of
    :meth:`predict_set` misses the right class with probability alpha at most. `predict`
    gives a wrong answer to a sample of class c with that probability at most. It does
    not say how many answers are wrong: for that see
    :class:`~widemargin.RejectingClassifier`.

    With folds every sample is used for learning and for calibration, and less is
    proved: :meth:`guaranteed_level` says what. For any learner it is :math:`2 (\alpha
    (n_c + 1) + K_c - 1) / (n_c + K_c)` with n_c samples of the class in :math:`K_c`
    folds. With leave-one-out it is :math:`2 \alpha`, if the learner ignores the order
    of its samples. Usually it is near alpha. Every fold has a model that is asked, so
    answers take that many times as long.

    Plain neighbours need no models of folds. What they say without each sample follows
    from one search for all distances. Plain are
    :class:`sklearn.neighbors.KNeighborsClassifier`, and
    :class:`~widemargin.TangentKNeighborsClassifier` without tangents or with given
    `sides`.

    Nothing can be refused at a level below 1 / (n_c + 1). Nothing is guaranteed of
    outliers: they are refused as often as they are far.

    `sample_weight` goes to the `fit` of the estimator. Calibration counts every sample
    once, as a weight would break the exchangeability; zero leaves a sample out.

    `decision_function`, `margins` and `confidence` are those of the estimator; of one
    class they are its p-value less `alpha`. `score` is plain accuracy.

    References
    ----------
    .. [1] V. Vovk, A. Gammerman, G. Shafer, Algorithmic learning in a random world,
       2005.
    .. [2] R. Barber, E. Candès, A. Ramdas, R. Tibshirani, Predictive inference with the
       jackknife+, Annals of Statistics 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from widemargin import ConformalClassifier, HSSClassifier
    >>> parts = train_test_split(*load_digits(return_X_y=True), random_state=0)
    >>> X, X_new, y, y_new = parts
    >>> model = ConformalClassifier(HSSClassifier(1, n_tangents=8), random_state=0)
    >>> sets = model.fit(X, y).predict_set(X_new)
    >>> print(f"{sets[np.arange(len(sets)), y_new].mean():.2f} hold the right class")
    0.96 hold the right class
    >>> print(np.bincount(sets.sum(axis=1)), "hold none, one, two, ... classes")
    [ 16 420  13   1] hold none, one, two, ... classes
    >>> noise = np.random.RandomState(0).randint(0, 17, (500, 64))
    >>> print(f"{np.mean(~model.predict_set(noise).any(axis=1)):.2f} of noise has none")
    1.00 of noise has none
    """

    estimator: Any
    _: KW_ONLY
    alpha: Fraction = 0.05
    nonconformity: Any = "contrast"
    cv: Annotated[Any, Cut()] | Literal["auto", "prefit", "leave-one-out"] = "auto"
    one_class: bool = False
    reject_label: Any = None
    random_state: Any = None
    # What stands for the models without each sample, where there is a closed form.
    _left_out = cast("LeftOutScores | None", None)

    @fit_method
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Fit the class models on one part of the samples, calibrate on the other.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, handed to the estimator as they are.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights for the `fit` of the estimator; zero leaves a sample out.
        **params : dict
            Further metadata for the `fit` of the estimator.

        Returns
        -------
        self : ConformalClassifier
            The fitted classifier.
        """
        check_declared(self)
        if not callable(self.nonconformity):
            check_option("nonconformity", self.nonconformity, NONCONFORMITY)
        X, y = self._check_rows(X, y)
        self._check_one_class()
        self._nonconformity, self._alpha = self.nonconformity, float(self.alpha)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        if isinstance(self.cv, str) and self.cv == "prefit":
            self._check_prefit(params)
            self._take_fitted(X, y)
        else:
            self._fit_and_calibrate(X, y, params)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def _check_one_class(self) -> None:
        inner = self._decides(self.estimator)
        if is_outlier_detector(inner) and not self.one_class:
            raise ValueError(
                f"estimator: {type(inner).__name__} tells one class from the rest; set "
                "one_class=True and give samples of one class, or give a classifier."
            )
        alone = getattr(inner, "_models_classes_alone", False)
        ours = isinstance(inner, MarginClassifier)
        if self.one_class and self.cv != "prefit" and ours and not alone:
            raise ValueError(
                f"one_class=True: {type(inner).__name__} learns what tells classes "
                "apart; give HSSClassifier, TangentKNeighborsClassifier, or one of "
                "scikit-learn's detectors of outliers."
            )

    @staticmethod
    def _decides(estimator: Any) -> Any:
        while (inner := inner_of(estimator)) is not None:
            estimator = inner
        return estimator

    def _copy_of_estimator(self) -> Any:
        copy = super()._copy_of_estimator()
        if self.one_class:
            inner = self._decides(copy)
            if isinstance(inner, MarginClassifier):
                inner._one_class = True
        return copy

    def _take_fitted(self, X: Any, y: NDArray) -> None:
        """Calibrate a fitted estimator on samples that are new to it."""
        self.estimator_ = self.estimator
        labels = getattr(self.estimator, "classes_", np.unique(y))
        self._set_known(np.asarray(labels))
        codes = class_codes(y, self.classes_, owner="the estimator was not fitted with")
        counts = np.bincount(codes, minlength=len(self.classes_))
        self._check_enough(counts, counts, "calibration samples")
        with FitTasks(self, 1, X=X, y=y) as tasks, tasks.parts("calibration"):
            self._keep([(self.estimator_, np.arange(len(y)))], X, codes)

    def _set_known(self, labels: NDArray) -> None:
        self.classes_ = labels
        if len(labels) == 1 and not self.one_class:
            raise ValueError(
                f"y holds one class, {format_labels(labels)}; give samples of another "
                "one, or set one_class=True to tell that class from all else."
            )
        check_classes(self, labels, least=1 if self.one_class else 2)
        self.reject_label_ = choose_reject_label(self.reject_label, labels)

    def _fit_and_calibrate(self, X: Any, y: NDArray, params: dict) -> None:
        fitted = ", or fit it on some of the samples and pass others with cv='prefit'"
        refuse_pairs("estimator", self.estimator, fitted)
        given = params.get("sample_weight")
        rows, _ = weighed_rows([self.estimator], y, given)
        if given is not None and not takes_weights(self.estimator):
            del params["sample_weight"]
        labels, codes = np.unique(y[rows], return_inverse=True)
        self._set_known(labels)
        held = self._parts_to_hold_out(codes)
        if len(held) == len(rows) and self._is_closed():
            with FitTasks(self, 2, X=X, y=y) as tasks:
                self.estimator_ = self._fit_part(X, y, rows, params, tasks)
                with tasks.parts("calibration"):
                    self._leave_out(_safe_indexing(X, rows), codes)
            return
        folds = len(held) > 1
        models = []
        with FitTasks(self, len(held) + folds + 1, X=X, y=y) as tasks:
            for part in held:
                train = np.delete(rows, part)
                models.append(self._fit_part(X, y, train, params, tasks))
            self.estimator_ = models[0]
            if folds:
                self.estimator_ = self._fit_part(X, y, rows, params, tasks)
            every = np.full(len(y), -1)
            every[rows] = codes
            with tasks.parts("calibration"):
                self._keep(
                    [(m, rows[part]) for m, part in zip(models, held, strict=True)],
                    X,
                    every,
                )

    def _parts_to_hold_out(self, codes: NDArray) -> list[NDArray]:
        """Return which samples calibrate each model: one part, or folds."""
        sizes = np.bincount(codes)
        single = self.classes_[sizes < 2].tolist()
        if single:
            raise ValueError(
                f"y holds one sample of {', '.join(map(repr, single))}; a class needs "
                "at least two, to learn from one and to calibrate with the other, and "
                f"{samples_for_alpha(self.alpha) + 1} for alpha={self.alpha}."
            )
        cv, needed = self.cv, samples_for_alpha(self.alpha)
        n_folds = 0
        if isinstance(cv, int | np.integer):
            n_folds = int(cv)
        elif cv == "leave-one-out":
            n_folds = len(codes)
        elif cv == "auto":
            counts = np.array([held_of(size, self.alpha) for size in sizes.tolist()])
            if (counts < needed).any():
                alone = len(codes) <= LEFT_OUT_ALONE or self._is_closed()
                n_folds = len(codes) if alone else FOLDS
        else:
            counts = np.clip(np.round(float(cv) * sizes).astype(int), 1, sizes - 1)
        if n_folds:
            self._check_enough(sizes, sizes, "samples")
            if n_folds >= len(codes):
                return list(np.arange(len(codes))[:, None])
            return folds_of_classes(codes, n_folds)
        self._check_enough(counts, sizes, "calibration samples")
        rng = check_random_state(self.random_state)
        return [np.flatnonzero(hold_out_counts(codes, counts, rng))]

    def _check_enough(self, counts: NDArray, sizes: NDArray, what: str) -> None:
        """Refuse an alpha that a class cannot reach, and name the smallest."""
        needed = samples_for_alpha(self.alpha)
        few = np.flatnonzero(counts < needed)
        if not len(few):
            return
        listed = ", ".join(
            f"{self.classes_.tolist()[c]!r} ({counts[c]})" for c in few[:10]
        )
        least = int(counts[few].min())
        reached = f"{round_up(smallest_alpha(least))} is the smallest that they allow"
        raise ValueError(
            f"alpha={self.alpha} cannot be reached with so few {what}: {listed}; "
            f"{reached if least else 'no level can'}. Give a larger alpha, or {needed} "
            f"{what} of every class."
        )

    def _is_closed(self) -> bool:
        """Whether one model tells what those without each sample would say."""
        return isinstance(self._nonconformity, str) and has_closed_form(self.estimator)

    def _leave_out(self, X: Any, codes: NDArray) -> None:
        """Keep the scores of all samples, each by the others."""
        n_classes = len(self.classes_)
        self._left_out = left_out_scores(
            self.estimator_, X, codes, n_classes, self._nonconformity
        )
        self.estimators_ = [self.estimator_]
        self._calibrations: list[list[Calibration]] = []
        self.n_calibration_ = self._n_folds = np.bincount(codes, minlength=n_classes)
        self.smallest_alpha_ = float(smallest_alpha(int(self.n_calibration_.min())))

    def _keep(self, parts: list[tuple[Any, NDArray]], X: Any, codes: NDArray) -> None:
        """Keep the scores of the samples of each part under the model without it."""
        n_classes, self._left_out = len(self.classes_), None
        self.estimators_, self._calibrations = [], []
        self.n_calibration_, self._n_folds = np.zeros((2, n_classes), int)
        for model, rows in parts:
            own = codes[rows]
            scores = self._scores(model, _safe_indexing(X, rows))
            found = []
            for c in np.unique(own):
                values = np.sort(scores[own == c, c])
                found.append(Calibration(int(c), values, rounding_of(values)))
                self.n_calibration_[c] += len(values)
                self._n_folds[c] += 1
            self.estimators_.append(model)
            self._calibrations.append(found)
        self.smallest_alpha_ = float(smallest_alpha(int(self.n_calibration_.min())))

    def _scores(self, model: Any, X: Any) -> NDArray:
        """(n_samples, n_classes): how strange samples are to each class."""
        function = self._nonconformity
        if isinstance(function, str):
            function = NONCONFORMITY[function]
        scores = as_floats("nonconformity(estimator, X)", function(model, X))
        if scores.shape != (_num_samples(X), len(self.classes_)):
            raise ValueError(
                "nonconformity must return one number per sample and class, shape "
                f"({_num_samples(X)}, {len(self.classes_)}); it returned shape "
                f"{scores.shape}."
            )
        return scores

    def p_values(self, X: Any) -> NDArray:
        """Return how ordinary samples are to each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            Of new samples of class c a fraction of at most alpha has ``p[:, c] <=
            alpha``; with folds see :meth:`guaranteed_level`.
        """
        self._check_predict(X)
        p = self._count_as_strange(X)
        p += 1
        p /= 1 + self.n_calibration_
        return p

    def _count_as_strange(self, X: Any) -> NDArray:
        """(n_samples, n_classes): calibration samples that are as strange, or more."""
        n_classes = len(self.classes_)
        if self._left_out is not None:
            return count_left_out(
                self.estimator_, X, self._left_out, n_classes, self._nonconformity
            )
        counts = np.zeros((_num_samples(X), n_classes), order="F")
        for model, calibrations in zip(
            self.estimators_, self._calibrations, strict=True
        ):
            scores = self._scores(model, X)
            for c, known, width in calibrations:
                counts[:, c] += count_as_strange(known, scores[:, c], width)
        return counts

    def predict_set(self, X: Any, alpha: float | None = None) -> NDArray:
        """Return which classes samples may belong to: none, one or several.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        alpha : float, default=None
            Level, in (0, 1); None is that of the classifier.

        Returns
        -------
        sets : ndarray of bool of shape (n_samples, n_classes)
            Where the p-value is larger than `alpha`, in the order of ``classes_``.
        """
        return self.p_values(X) > self._check_level(alpha)

    def _check_level(self, alpha: float | None) -> float:
        if alpha is None:
            return self._alpha
        alpha = check_number("alpha", alpha, above=0, below=1)
        # A level that is written in decimals may miss 1 / (n + 1) by rounding.
        if alpha < self.smallest_alpha_ * (1 - 1e-9):
            few = int(self.n_calibration_.argmin())
            raise ValueError(
                f"alpha={alpha:g} cannot be reached: class "
                f"{self.classes_.tolist()[few]!r} has {self.n_calibration_[few]} "
                f"calibration samples, which reach {round_up(self.smallest_alpha_)} at "
                f"least; {samples_for_alpha(alpha)} of each class would do."
            )
        return alpha

    def guaranteed_level(self, alpha: float | None = None) -> NDArray:
        """Return what the probability of refusing a sample of a class is at most.

        Parameters
        ----------
        alpha : float, default=None
            Level, in (0, 1); None is that of the classifier.

        Returns
        -------
        level : ndarray of shape (n_classes,)
            `alpha` where samples were held out; with folds the larger one that is
            proved, see Notes.
        """
        check_is_fitted(self)
        alpha = self._check_level(alpha)
        if (self._n_folds == 1).all():
            return np.full(len(self.classes_), alpha)
        sizes = zip(self.n_calibration_.tolist(), self._n_folds.tolist(), strict=True)
        return np.array([cross_conformal_level(alpha, n, k) for n, k in sizes])

    def acceptance_limits(self, alpha: float | None = None) -> NDArray:
        r"""Return the largest nonconformity to each class that it accepts.

        Parameters
        ----------
        alpha : float, default=None
            Level, in (0, 1); None is that of the classifier.

        Returns
        -------
        limits : ndarray of shape (n_classes,)
            The largest score whose p-value exceeds `alpha`: the k-th largest of n
            calibration scores, :math:`k = \lfloor \alpha (n + 1) \rfloor`. With folds
            there are several models, and no such limit.
        """
        check_is_fitted(self)
        alpha = self._check_level(alpha)
        if (self._n_folds > 1).any():
            raise ValueError(
                f"acceptance_limits: cv={self.cv!r} compares {self._n_folds.max()} "
                "models, whose scores have no limit in common; ask p_values, or let cv "
                "be a fraction."
            )
        limits = np.empty(len(self.classes_))
        for c, known, width in self._calibrations[0]:
            k = int(np.floor(alpha * (len(known) + 1) + 1e-9))
            limits[c] = known[-k] + width
        return limits

    def predict(self, X: Any) -> NDArray:
        """Return the label of samples that belong to one class only.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The only class of :meth:`predict_set`, where it is the answer of the
            estimator too; ``reject_label_`` for none, several or another.
        """
        sets = self.predict_set(X)
        labels = np.full(
            len(sets),
            self.reject_label_,
            mixed_dtype(self.classes_, self.reject_label_),
        )
        sole = np.flatnonzero(sets.sum(axis=1) == 1)
        found = self.classes_[sets[sole].argmax(axis=1)]
        if len(self.classes_) > 1:
            same = found == self._inner_labels(X)[sole]
            sole, found = sole[same], found[same]
        labels[sole] = found
        return labels

    def accepts(self, X: Any) -> NDArray:
        """Return which samples are answered.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        accepted : ndarray of bool of shape (n_samples,)
            Where :meth:`predict` returns a class.
        """
        return ~np.isin(self.predict(X), [self.reject_label_])

    def _class_scores(self, X: Any) -> NDArray:
        if len(self.classes_) == 1:
            return self.p_values(X) - self._alpha
        return super()._class_scores(X)

    def _margins(self, X: Any, codes: NDArray | None) -> NDArray:
        if len(self.classes_) == 1:
            return self._class_scores(X)[:, 0]
        return super()._margins(X, codes)

    def decision_function(self, X: Any) -> NDArray:
        """Return the scores of the classifier inside; the largest is its answer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Scores in the order of ``classes_``. For one class its p-value less `alpha`.
        """
        self._check_predict(X)
        if len(self.classes_) == 1:
            return self._class_scores(X)[:, 0]
        return super().decision_function(X)


# Metrics of scikit-learn that are made of all samples, where nothing else is given.
OF_ALL_SAMPLES = ("seuclidean", "mahalanobis")


class LeftOutScores(NamedTuple):
    """Classes of the training samples, and how strange each is to the others.

    What rounding may add is in `scores`.
    """

    codes: NDArray
    scores: NDArray


def has_closed_form(estimator: Any) -> bool:
    """Whether leaving a sample out of this model changes no other distance."""
    if type(estimator) is KNeighborsClassifier:
        return estimator.metric not in OF_ALL_SAMPLES
    return getattr(estimator, "_keeps_distances", False)


def left_out_scores(
    model: Any, X: Any, codes: NDArray, n_classes: int, nonconformity: str
) -> LeftOutScores:
    """Return how strange each training sample is to its class without it."""
    scores = np.empty(len(codes))
    for rows, D in _all_distances(model, X, len(codes)):
        own = np.arange(rows.start, rows.stop)
        D[np.arange(len(D)), own] = np.inf
        nearest = _nearest(D, codes, n_classes)
        scores[rows] = _scores(nearest, nonconformity)[np.arange(len(D)), codes[own]]
    widths = [rounding_of(scores[[i]]) for i in range(len(scores))]
    return LeftOutScores(codes, scores + widths)


def count_left_out(
    model: Any, X: Any, known: LeftOutScores, n_classes: int, nonconformity: str
) -> NDArray:
    """(n, n_classes): training samples i that are as strange as x to their class.

    Both are compared by the model without i.
    """
    codes, scores = known
    counts = np.empty((_num_samples(X), n_classes))
    for rows, D in _all_distances(model, X, len(codes)):
        nearest = _nearest(D, codes, n_classes)
        as_they_are = _scores(nearest, nonconformity)
        for c in range(n_classes):
            own = codes == c
            second = nearest.copy()
            second[:, c] = np.partition(D[:, own], 1, axis=1)[:, 1]
            without = np.where(
                D[:, own] == nearest[:, [c]],
                _scores(second, nonconformity)[:, [c]],
                as_they_are[:, [c]],
            )
            counts[rows, c] = np.count_nonzero(scores[own] >= without, axis=1)
    return counts


def _all_distances(model: Any, X: Any, n: int) -> Any:
    """Yield rows and their distances to all n training samples, in the order given."""
    for rows in batched_slices(_num_samples(X), rows_in_budget(40 * n)):
        distances, places = model.kneighbors(_safe_indexing(X, rows), n)
        D = np.empty(distances.shape)
        np.put_along_axis(D, to_numpy(places), to_numpy(distances), axis=1)
        yield rows, D


def _nearest(D: NDArray, codes: NDArray, n_classes: int) -> NDArray:
    return np.column_stack([D[:, codes == c].min(axis=1) for c in range(n_classes)])


def _scores(nearest: NDArray, nonconformity: str) -> NDArray:
    return contrasts(nearest, "distance") if nonconformity == "contrast" else nearest
