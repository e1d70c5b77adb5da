r"""A watch over a guarantee: it tells when a deployed classifier breaks its error.

Labels that come later say whether answers were wrong. The watch bets against "an answer
is wrong with probability max_error at most", and raises an alarm when the money is 1 /
delta fold; bounds on the error hold at all times at once. Before any label, scores of
the samples, how far they are from everything, are compared with those before them: the
watch bets against "these are exchangeable". :mod:`widemargin.margins.monitoring` has
the mathematics. Shapes: X (n_samples, n_features), numbers and answers (n_samples,).

References: A. Podkopaev, A. Ramdas, Tracking the risk of a deployed model and detecting
harmful distribution shifts, 2022; V. Vovk et al., Retrain or not retrain: conformal
test martingales for change-point detection, 2021.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted

from widemargin._core.arrays import to_numpy
from widemargin._core.checks import as_float_vector
from widemargin._core.confidence import confidence_of, decisive, distance_of
from widemargin._core.decisions import are_alike, as_labels
from widemargin._core.params import Counted, Fraction, check_declared, parameters
from widemargin.margins.monitoring import (
    Ranks,
    error_bets,
    error_factors,
    least_error,
    p_value_bets,
    p_value_factors,
)

# Points of a curve that are kept at most, and of one batch.
KEPT, KEPT_OF_BATCH = 2000, 30


class Watched(NamedTuple):
    """Numbers of the samples, by which labels are given later, and the answers."""

    numbers: NDArray
    answers: NDArray


class Curve:
    """Points of a curve; where they are many every second is dropped, but the last."""

    def __init__(self) -> None:
        self.points: list[list[float]] = []

    def add(self, rows: NDArray) -> None:
        """Go on with (n, width) points, some of them if they are many."""
        kept = np.unique(np.linspace(0, len(rows) - 1, KEPT_OF_BATCH).astype(int))
        self.points += rows[kept].tolist() if len(rows) else []
        while len(self.points) > KEPT:
            self.points = self.points[-1::-2][::-1]

    def columns(self, width: int) -> NDArray:
        """(width, n) points."""
        return np.array(self.points, float).reshape(-1, width).T


@parameters
class PromiseMonitor(BaseEstimator):
    r"""Watch over a deployed classifier, and say when its guarantee no longer holds.

    `watch` predicts samples and numbers the answers. `label` takes true labels for
    these numbers when they arrive. Look as often as you like: the
    probability that either alarm is ever false is at most `delta`.

    Parameters
    ----------
    estimator : fitted classifier
        A :class:`~widemargin.RejectingClassifier`, whose rejections do not count, or
        any other classifier.
    max_error : float, default=None
        Error among the answers that is guaranteed, in (0, 1). None is the `max_error`
        of the estimator.
    delta : float, default=0.05
        Probability with which each alarm may ever be false, and the bounds wrong.
    outlier_score : callable, default=None
        Function of the estimator and `X` that returns one number per sample, larger
        for more unusual ones. None is the distance to the nearest prototype or
        neighbour; of a :class:`~widemargin.ConformalClassifier` minus the
        largest p-value; of others minus the confidence.
    max_waiting : int, default=1000000
        Maximum number of answers that wait for labels; the oldest are forgotten.
    random_state : int, RandomState or None, default=None
        Breaks ties between scores.

    Attributes
    ----------
    alarm_ : bool
        Whether either alarm was raised.
    error_alarm_ : int or None
        How many answers had a label when it was shown that the error exceeds
        `max_error`; None while it is not.
    shift_alarm_ : int or None
        How many samples had been watched when it was shown that they are not
        exchangeable; None while it is not.
    error_ : float
        Share of the labelled answers that were wrong; nan before the first.
    error_bounds_ : tuple of float
        Lower and upper bound on the error.
    n_watched_, n_labelled_, n_wrong_ : int
        Samples watched, answers with a label, and mistakes among these.
    n_features_in_ : int
        Number of features, where the estimator says it.

    See Also
    --------
    widemargin.inspection.PromiseMonitorDisplay : The bounds and the evidence over time.
    widemargin.margins.error_bounds : The bounds, of mistakes in a row.

    Notes
    -----
    **Guarantee.** While every answer is wrong with probability `max_error` at most,
    given all before it, :math:`P(\text{the error alarm is ever raised}) \le
    \text{delta}`. While samples are exchangeable with those before them and with the
    reference, :math:`P(\text{the shift alarm is ever raised}) \le \text{delta}`. An
    error alarm after a shift alarm is no second proof of the same. The threshold of a
    :class:`~widemargin.RejectingClassifier` breaks its guarantee with probability
    `delta` by itself; both add up.

    Labels may come late and of some answers only. Which ones must not depend on whether
    the answers are right: of labels for complaints alone nothing follows. Labels of
    refused samples are taken and do not count.

    A shift that the reference already has, or that changes no score, is not seen. Where
    every sample is the same, it says nothing of the error: look at labels then.

    A monitor is pickled and saved by :func:`widemargin.save` whole, and goes on where
    it was. `fit` begins anew, which spends another `delta`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import GLVQClassifier, PromiseMonitor, RejectingClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RejectingClassifier(
    ...     GLVQClassifier(random_state=0), max_error=0.05, random_state=0)
    >>> _ = model.fit(X[:900], y[:900])
    >>> monitor = PromiseMonitor(model, random_state=0).fit(X[900:1200])
    >>> numbers, answers = monitor.watch(X[1200:])
    >>> _ = monitor.label(numbers, y[1200:])
    >>> monitor.alarm_
    False
    >>> _ = monitor.watch(X[1200:, ::-1])  # mirrored
    >>> monitor.shift_alarm_ is None
    False
    """

    estimator: Any
    _: KW_ONLY
    max_error: Fraction | None = None
    delta: Fraction = 0.05
    outlier_score: Callable[[Any, Any], ArrayLike] | None = None
    max_waiting: Counted = 1_000_000
    random_state: Any = None

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Begin to watch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), default=None
            Samples to compare with, that the estimator was not fitted to. None compares
            the stream with itself: a shift from the first sample on is not seen.
        y : Ignored
            Not used.

        Returns
        -------
        self : PromiseMonitor
            The monitor, without any labels.
        """
        check_declared(self)
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "predict"):
            raise ValueError(
                "estimator must be a fitted classifier, for instance a "
                f"RejectingClassifier; got {self.estimator!r:.200}."
            )
        check_is_fitted(self.estimator)
        if self.outlier_score is not None and not callable(self.outlier_score):
            raise ValueError(
                "outlier_score must be None or a function of (estimator, X) that "
                f"returns one number per sample; got {self.outlier_score!r}."
            )
        guaranteed = self.max_error
        if guaranteed is None:
            guaranteed = getattr(self.estimator, "max_error", None)
        if guaranteed is None:
            raise ValueError(
                f"max_error must be given: {type(self.estimator).__name__} guarantees "
                "none."
            )
        ranks = Ranks(self.random_state)
        if X is not None:
            ranks.know(self._scores(X))
        self.max_error_ = float(guaranteed)
        self.n_watched_ = self.n_labelled_ = self.n_wrong_ = 0
        self.error_alarm_: int | None = None
        self.shift_alarm_: int | None = None
        self.error_bounds_ = (0.0, 1.0)
        self._ranks, self._of_scores = ranks, p_value_bets()
        self._of_errors = error_bets(self.max_error_)
        self._waiting: dict[int, Any] = {}
        self._error_curve, self._shift_curve = Curve(), Curve()
        if hasattr(self.estimator, "n_features_in_"):
            self.n_features_in_ = self.estimator.n_features_in_
        return self

    @property
    def alarm_(self) -> bool:
        """Whether either alarm was raised."""
        return self.error_alarm_ is not None or self.shift_alarm_ is not None

    @property
    def error_(self) -> float:
        """Share of the labelled answers that were wrong; nan before the first."""
        return self.n_wrong_ / self.n_labelled_ if self.n_labelled_ else float("nan")

    def _scores(self, X: Any) -> NDArray:
        if self.outlier_score is not None:
            scores = self.outlier_score(self.estimator, X)
        else:
            scores = default_scores(self.estimator, X)
        values = as_float_vector("outlier_score(estimator, X)", to_numpy(scores))
        if len(values) != _num_samples(X):
            raise ValueError(
                "outlier_score must return one number per sample, shape "
                f"({_num_samples(X)},); it returned {len(values)}."
            )
        return values

    def watch(self, X: Any) -> Watched:
        """Answer samples, and compare them with those before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New samples, in the order in which they came.

        Returns
        -------
        watched : Watched
            Named tuple ``(numbers, answers)``: 0, 1, 2, ... over the whole stream, and
            what the estimator predicts.
        """
        check_is_fitted(self, "n_watched_")
        answers = np.asarray(to_numpy(self.estimator.predict(X)))
        scores = self._scores(X)
        first, n = self.n_watched_, len(answers)
        evidence = self._of_scores.follow(p_value_factors(self._ranks.follow(scores)))
        raised = np.flatnonzero(evidence >= -np.log(self.delta))
        if self.shift_alarm_ is None and len(raised):
            self.shift_alarm_ = first + int(raised[0]) + 1
        steps = np.arange(first + 1, first + n + 1)
        self._shift_curve.add(np.column_stack([steps, evidence]))
        reject = getattr(self.estimator, "reject_label_", None)
        refused = np.zeros(n, bool) if reject is None else answers == reject
        kept = [
            None if no else a for a, no in zip(answers.tolist(), refused, strict=True)
        ]
        self._waiting |= zip(range(first, first + n), kept, strict=True)
        too_many = max(0, len(self._waiting) - self.max_waiting)
        for number in list(islice(self._waiting, too_many)):
            del self._waiting[number]
        self.n_watched_ += n
        return Watched(np.arange(first, first + n), answers)

    def label(self, numbers: ArrayLike, y: ArrayLike) -> Self:
        """Take the labels of answers.

        Parameters
        ----------
        numbers : array-like of int of shape (n_samples,)
            Numbers that :meth:`watch` returned, each once in the life of the monitor.
        y : array-like of shape (n_samples,)
            Their labels; of a class that was never learned the answer was wrong.

        Returns
        -------
        self : PromiseMonitor
            The monitor.
        """
        check_is_fitted(self, "n_watched_")
        asked = self._check_numbers(numbers)
        truth = as_labels("y", y, len(asked))
        answers = [self._waiting[number] for number in asked]
        answered = np.array([answer is not None for answer in answers], bool)
        given = np.array([a for a in answers if a is not None], dtype=self._kind(truth))
        wrong = np.asarray(truth[answered] != given)
        for number in asked:
            del self._waiting[number]
        if answered.any():
            self._count(wrong)
        return self

    def _kind(self, truth: NDArray) -> Any:
        """Return the type of the answers, or say that labels are of another."""
        classes = np.asarray(getattr(self.estimator, "classes_", truth))
        if not are_alike(truth, classes):
            raise ValueError(
                f"y must hold labels like the answers, which are {classes.dtype}; got "
                f"{truth.dtype}."
            )
        return classes.dtype

    def _check_numbers(self, numbers: ArrayLike) -> list[int]:
        asked = np.asarray(numbers)
        if asked.ndim != 1 or (asked.dtype.kind not in "iu" and asked.size):
            raise ValueError(
                "numbers must be integers that watch returned, shape (n_samples,); got "
                f"shape {asked.shape} of {asked.dtype}."
            )
        unknown = asked[(asked < 0) | (asked >= self.n_watched_)]
        if len(unknown):
            raise ValueError(
                f"numbers holds {unknown[:5].tolist()}, but {self.n_watched_} samples "
                "were watched; their numbers begin with 0."
            )
        listed = asked.tolist()
        twice = [n for n in listed if n not in self._waiting]
        if not twice and len(set(listed)) < len(listed):
            values, counts = np.unique(asked, return_counts=True)
            twice = values[counts > 1].tolist()
        if twice:
            raise ValueError(
                f"numbers holds {twice[:5]}, which were labelled already (or more than "
                f"max_waiting={self.max_waiting} samples ago): a label counts once."
            )
        return listed

    def _count(self, wrong: NDArray) -> None:
        first = self.n_labelled_
        evidence = self._of_errors.follow(error_factors(wrong, self.max_error_))
        raised = np.flatnonzero(evidence >= -np.log(self.delta))
        if self.error_alarm_ is None and len(raised):
            self.error_alarm_ = first + int(raised[0]) + 1
        n = first + np.arange(1, len(wrong) + 1)
        mistakes = self.n_wrong_ + np.cumsum(wrong)
        kept = np.unique(np.linspace(0, len(n) - 1, KEPT_OF_BATCH).astype(int))
        n, mistakes, evidence = n[kept], mistakes[kept], evidence[kept]
        lower = least_error(mistakes, n, self.delta / 2)
        upper = 1 - least_error(n - mistakes, n, self.delta / 2)
        lower = np.maximum.accumulate(np.append(self.error_bounds_[0], lower))[1:]
        upper = np.minimum.accumulate(np.append(self.error_bounds_[1], upper))[1:]
        self._error_curve.add(
            np.column_stack([n, mistakes / n, lower, upper, evidence])
        )
        self.n_labelled_ += len(wrong)
        self.n_wrong_ += int(wrong.sum())
        self.error_bounds_ = float(lower[-1]), float(upper[-1])


def default_scores(estimator: Any, X: Any) -> NDArray:
    """How strange samples are: far from all references, of no class, or unsure."""
    if hasattr(estimator, "p_values"):
        return -np.asarray(estimator.p_values(X)).max(axis=1)
    inner, seen = decisive(estimator, X)
    if hasattr(inner, "_nearest_distances") or hasattr(inner, "kneighbors"):
        return distance_of(inner, seen)
    return -confidence_of(inner, seen)
