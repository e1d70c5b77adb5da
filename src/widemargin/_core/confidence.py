"""How sure any classifier is, ours or not: margins and confidences on one footing.

Our classifiers say it themselves. Of others the gap between scores is taken, from
``decision_function`` or else ``predict_proba``, less a threshold of its own; pipelines
and searches are looked through, so that the last step is asked about what it sees.
Where a classifier answers otherwise than its scores (one that votes), its answer has
the least lead there is. Margins are (n_samples,), positive where the given label is the
answer; the confidence is the margin of the answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._compute.rounding import saturated
from widemargin._core.arrays import to_cpu, to_numpy
from widemargin._core.classifier import MarginClassifier, SoftClassifier
from widemargin._core.decisions import (
    class_codes,
    from_decision,
    label_margins,
    two_smallest,
    vote_scores,
)
from widemargin._core.temperature import with_answers

SCORES = ("decision_function", "predict_proba")
# The least probability whose logarithm is trusted, of as many as there are classes:
# others say zero of what they have not seen.
LEAST_PROBABILITY = 0.02


class Answers(NamedTuple):
    """What a classifier says of some samples; `margins` are those of given labels."""

    labels: NDArray
    confidence: NDArray
    margins: NDArray | None


def inner_of(estimator: Any) -> Any:
    """Return what decides inside a search or a pipeline; None where it is neither."""
    if hasattr(estimator, "best_estimator_"):
        return estimator.best_estimator_
    if hasattr(estimator, "steps") and hasattr(estimator, "named_steps"):
        return estimator.steps[-1][1] if estimator.steps else None
    return None


def look_through(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the classifier that decides, and the samples as it sees them."""
    while (inner := inner_of(estimator)) is not None:
        if not hasattr(estimator, "best_estimator_"):
            check_is_fitted(estimator)
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
        estimator = inner
    return estimator, X


def nested(estimator: Any) -> Iterator[Any]:
    """Give a classifier and those inside it, refusing ones opened, to what decides."""
    while estimator is not None:
        yield estimator
        refusing = hasattr(estimator, "reject_label_")
        estimator = estimator.estimator_ if refusing else inner_of(estimator)


def decisive(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return what decides, inside refusing classifiers too, and what it sees of X.

    The answers of a refusing classifier hold refusals, which are no mistakes.
    """
    estimator, X = look_through(estimator, X)
    while hasattr(estimator, "reject_label_"):
        estimator, X = look_through(estimator.estimator_, X)
    return estimator, X


def margin_unit_of(estimator: Any) -> str:
    """Return the unit of an estimator's margins; see `MARGIN_UNITS`."""
    while not hasattr(estimator, "margin_unit"):
        inner = inner_of(estimator)
        if inner is None:
            return (
                "distance"
                if hasattr(estimator, "decision_function")
                else "vote_fraction"
            )
        estimator = inner
    return estimator.margin_unit


@contextmanager
def answering(estimator: Any) -> Iterator[None]:
    """Say which classifier fails, and at what, where its words do not."""
    try:
        # Of sums that leave the range of numbers, the numbers that come out tell.
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (TypeError, ValueError) as error:
        ours = isinstance(estimator, MarginClassifier)
        if ours or isinstance(error, NotFittedError) or "X" in str(error).split():
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"X holds what {type(estimator).__name__} cannot answer about: {error}"
        ) from error


def class_scores_of(estimator: Any, X: Any) -> NDArray:
    """(n_samples, n_classes) scores of any classifier; the largest is its answer."""
    inner, seen = look_through(estimator, X)
    return _scores_and_labels(inner, seen)[0]


def class_costs_of(estimator: Any, X: Any) -> tuple[NDArray, NDArray]:
    """Return what classes cost under any classifier with ``predict_proba``.

    Ours have costs that a temperature makes probabilities of. Those of others are minus
    the logarithms of their probabilities. With the codes of the answers, which cost
    least.
    """
    inner, seen = look_through(estimator, X)
    with answering(inner):
        if isinstance(inner, SoftClassifier):
            inner = to_cpu(inner)
            return inner._costs(inner._check_predict(seen))
        P = np.asarray(to_numpy(inner.predict_proba(seen)), dtype=float)
        labels = np.asarray(to_numpy(inner.predict(seen)))
    answers = class_codes(labels, inner.classes_)
    costs = -np.log(np.maximum(P, LEAST_PROBABILITY / P.shape[1]))
    costs -= costs.min(axis=1, keepdims=True)
    costs[np.arange(len(costs)), answers] = 0.0
    return costs, answers


def _scores_and_labels(model: Any, X: Any) -> tuple[NDArray, NDArray]:
    """Scores of the classes, and the answers, whose scores are the largest."""
    for method in SCORES:
        if hasattr(model, method):
            with answering(model):
                scores = _scores_by(model, method, X)
                if isinstance(model, MarginClassifier):
                    return scores, model.classes_[scores.argmax(axis=1)]
                labels = np.asarray(to_numpy(model.predict(X)))
            return with_answers(scores, class_codes(labels, model.classes_)), labels
    raise ValueError(
        f"estimator: {type(model).__name__} has none of margins, {', '.join(SCORES)}, "
        "so nothing tells how sure it is; give a classifier that has one of them."
    )


def _scores_by(model: Any, method: str, X: Any) -> NDArray:
    """Scores of the classes by one method, about the threshold where there is one."""
    threshold = getattr(model, "best_threshold_", getattr(model, "threshold", "auto"))
    if not (hasattr(model, "response_method") and isinstance(threshold, float | int)):
        scores = np.asarray(to_numpy(getattr(model, method)(X)))
        if scores.dtype.kind != "f":
            scores = scores.astype(float)
        # Decisions may be one per pair of classes, as SVC gives them.
        shape = getattr(model, "decision_function_shape", None)
        if scores.ndim == 2 and method == SCORES[0] and shape == "ovo":
            return vote_scores(scores, len(model.classes_))
        return from_decision(scores)
    # Those of scikit-learn that tune it: one score of two classes.
    method = model.response_method
    if method == "auto":
        method = SCORES[hasattr(model, SCORES[1])]
    scores = getattr(model, method)(X)
    positive = getattr(model, "pos_label", None)
    at = 1 if positive is None else int(np.flatnonzero(model.classes_ == positive)[0])
    if scores.ndim == 2:
        return from_decision((1 if at else -1) * (scores[:, at] - threshold))
    return from_decision(scores - (1 if at else -1) * threshold)


def margins_of(estimator: Any, X: Any, y: ArrayLike) -> NDArray:
    """Return the margins of labelled samples under any fitted classifier.

    Parameters
    ----------
    estimator : fitted classifier
        Ours, or any with ``decision_function`` or ``predict_proba``; pipelines and
        grid searches are looked through.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Their labels.

    Returns
    -------
    ndarray of shape (n_samples,)
        Positive where the answer is `y`, zero on a tie.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from widemargin.margins import margins_of
    >>> model = LogisticRegression().fit([[-1.0], [1.0]], [0, 1])
    >>> margins_of(model, [[5.0], [5.0]], [1, 0]) > 0
    array([ True, False])
    """
    inner, seen = look_through(estimator, X)
    if hasattr(inner, "margins"):
        return np.asarray(to_numpy(inner.margins(seen, y)))
    scores = class_scores_of(inner, seen)
    codes = class_codes(y, inner.classes_, len(scores))
    return _finite(label_margins(scores)[np.arange(len(scores)), codes])


def label_margins_of(estimator: Any, X: Any) -> NDArray:
    """(n_samples, n_classes) margins that each label would have, in one pass."""
    inner, seen = look_through(estimator, X)
    if _is_by_scores(inner):
        return to_cpu(inner)._scored(inner._check_predict(seen))[1]
    labels = (np.full(_num_samples(seen), label) for label in inner.classes_)
    return np.column_stack([margins_of(inner, seen, y) for y in labels])


def confidence_of(estimator: Any, X: Any) -> NDArray:
    """Return how sure any fitted classifier is of its answers.

    Parameters
    ----------
    estimator : fitted classifier
        Ours, or any with ``decision_function`` or ``predict_proba``; pipelines and
        grid searches are looked through.
    X : array-like of shape (n_samples, n_features)
        Samples.

    Returns
    -------
    ndarray of shape (n_samples,)
        At least 0: the margin of the answer.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from widemargin.margins import confidence_of
    >>> model = LogisticRegression().fit([[-1.0], [1.0]], [0, 1])
    >>> sure, unsure = confidence_of(model, [[5.0], [0.1]])
    >>> bool(sure > unsure)
    True
    """
    inner, seen = look_through(estimator, X)
    if callable(getattr(inner, "confidence", None)):
        return np.asarray(to_numpy(inner.confidence(seen)))
    if hasattr(inner, "margins"):
        return np.asarray(to_numpy(inner.margins(seen, inner.predict(seen))))
    return _finite(label_margins(class_scores_of(inner, seen)).max(axis=1))


def distance_of(estimator: Any, X: Any) -> NDArray:
    """Return how far samples are from the nearest reference of a fitted classifier.

    Parameters
    ----------
    estimator : fitted classifier
        One of ours by prototypes or neighbours, or any with ``kneighbors``; pipelines
        and grid searches are looked through.
    X : array-like of shape (n_samples, n_features)
        Samples.

    Returns
    -------
    ndarray of shape (n_samples,)
        Distances, in the metric of the estimator.
    """
    inner, seen = look_through(estimator, X)
    if hasattr(inner, "_nearest_distances"):
        model = to_cpu(inner)
        return np.asarray(model._nearest_distances(model._check_predict(seen)))
    if hasattr(inner, "kneighbors"):
        return np.asarray(to_numpy(inner.kneighbors(seen, n_neighbors=1)[0]))[:, 0]
    raise ValueError(
        f"estimator: {type(inner).__name__} has no prototypes or neighbours to measure "
        "distances from; give outlier_score, a function (estimator, X) -> one number "
        "per sample, larger for more unusual ones."
    )


class ClassScores(NamedTuple):
    """Nonconformity of samples to each class, (n, n_classes), larger for outliers.

    `kind` is "distance", "log density" (minus the logarithm) or "margin" (minus it).
    """

    values: NDArray
    kind: str


def class_nonconformity(estimator: Any, X: Any) -> ClassScores:
    """Return the nonconformity of samples to each class of any fitted classifier.

    The distance to the class's own prototypes, models or neighbours; minus the
    logarithm of its density; of a detector of outliers, in one column, minus its score.
    Of others, which only compare classes, minus the margin of the class. Pipelines and
    searches are looked through.
    """
    inner, seen = look_through(estimator, X)
    while isinstance(inner, MarginClassifier) and hasattr(inner, "estimator_"):
        inner, seen = look_through(inner.estimator_, seen)
    if isinstance(inner, MarginClassifier):
        model = to_cpu(inner)
        samples = model._check_predict(seen)
        if hasattr(model, "_distances_to_classes"):
            kind = getattr(model, "_distance_kind", "distance")
            return ClassScores(np.asarray(model._distances_to_classes(samples)), kind)
        return ClassScores(-np.asarray(model._scored(samples)[1]), "margin")
    with answering(inner):
        if hasattr(inner, "predict_joint_log_proba"):
            joint = np.asarray(to_numpy(inner.predict_joint_log_proba(seen)))
            return ClassScores(-joint, "log density")
        if hasattr(inner, "kneighbors") and hasattr(inner, "classes_"):
            return ClassScores(_nearest_of_each(inner, seen), "distance")
        if is_outlier_detector(inner):
            scores = np.asarray(to_numpy(inner.score_samples(seen)))
            return ClassScores(-scores[:, None], "log density")
    margins = _finite(label_margins(_scores_and_labels(inner, seen)[0]))
    return ClassScores(-margins, "margin")


def class_distances_of(estimator: Any, X: Any) -> NDArray:
    """Return how far samples are from each class, whatever the others are."""
    return class_nonconformity(estimator, X).values


def class_contrasts_of(estimator: Any, X: Any) -> NDArray:
    """Return how far samples are from each class, the more so where another is nearer.

    Of distances d to the class and d' to the nearest other it is d sqrt(d / d'), the
    same of log densities, where products are sums, and of margins these.
    """
    return contrasts(*class_nonconformity(estimator, X))


def contrasts(d: NDArray, kind: str) -> NDArray:
    """Return what `class_contrasts_of` says, of `ClassScores`."""
    if kind == "margin" or d.shape[1] < 2:
        return d
    # Class by class: rows of few classes take longer.
    d = np.asfortranarray(d)
    least, second = two_smallest(d)
    is_least = d == least
    if kind == "distance" and len(d) and least.min() > 0 and d.max() < np.inf:
        # Roots of two columns instead of all.
        nearer = np.sqrt(d)
        nearer /= np.where(is_least, np.sqrt(second), np.sqrt(least))
        return np.multiply(d, nearer, out=nearer)
    other = np.where(is_least, second, least)
    # At both classes at once, or infinitely far from both, none is nearer.
    if kind != "distance":
        return d + np.subtract(d, other, out=np.zeros_like(d), where=d != other) / 2
    nearer = np.where(d > 0, np.inf, 1.0)
    apart = (other > 0) & np.isfinite(d)
    nearer = np.divide(np.sqrt(d), np.sqrt(other), out=nearer, where=apart)
    return np.multiply(d, nearer, out=np.zeros_like(d), where=d > 0)


def _nearest_of_each(neighbours: Any, X: Any) -> NDArray:
    """Distance to the nearest sample of every class, of scikit-learn's neighbours."""
    n, codes = int(neighbours.n_samples_fit_), np.asarray(neighbours._y).ravel()
    parts = []
    for rows in batched_slices(_num_samples(X), rows_in_budget(24 * n)):
        distances, places = neighbours.kneighbors(_safe_indexing(X, rows), n)
        own = [
            np.where(codes[places] == c, distances, np.inf).min(axis=1)
            for c in range(len(neighbours.classes_))
        ]
        parts.append(np.column_stack(own))
    return np.concatenate(parts)


def answers_of(estimator: Any, X: Any, y: ArrayLike | None = None) -> Answers:
    """Return answers, confidences and margins of `y`, from one pass where it suffices.

    Distances to everything a model keeps are most of the work, and all three follow
    from the same ones.
    """
    inner, seen = look_through(estimator, X)
    if _is_by_scores(inner):
        inner = to_cpu(inner)
        scores, by_label = inner._scored(inner._check_predict(seen))
        best = scores.argmax(axis=1)
        labels, sure = inner.classes_[best], by_label[np.arange(len(best)), best]
    elif not hasattr(inner, "margins"):
        scores, labels = _scores_and_labels(inner, seen)
        by_label = _finite(label_margins(scores))
        sure = by_label.max(axis=1)
    else:
        labels, sure = to_numpy(inner.predict(seen)), confidence_of(inner, seen)
        return Answers(labels, sure, _margins_beside(inner, seen, y, labels, sure))
    if y is None:
        return Answers(labels, sure, None)
    codes = class_codes(y, inner.classes_, len(by_label))
    return Answers(labels, sure, by_label[np.arange(len(codes)), codes])


def _is_by_scores(estimator: Any) -> bool:
    """Whether answers and margins are those that the base makes of the scores."""
    kind = type(estimator)
    return (
        isinstance(estimator, MarginClassifier)
        and (kind.predict is MarginClassifier.predict or kind._predicts_the_best)
        and all(
            getattr(kind, name) is getattr(MarginClassifier, name)
            for name in ("margins", "confidence", "_margins")
        )
    )


def _margins_beside(
    estimator: Any, X: Any, y: ArrayLike | None, labels: NDArray, sure: NDArray
) -> NDArray | None:
    """Margins of `y`: the confidence where it is the answer, asked for elsewhere."""
    if y is None:
        return None
    margins, other = sure.copy(), np.flatnonzero(np.asarray(y) != labels)
    if len(other):
        margins[other] = margins_of(
            estimator, _safe_indexing(X, other), np.asarray(y)[other]
        )
    return margins


def _finite(margins: NDArray) -> NDArray:
    """Margins to classes that are out of the question, as large as numbers get."""
    return saturated(margins, margins.dtype)
