r"""How well confidence orders answers: one number for an error-reject curve.

Answer the k surest of n samples and let W(k) of them be wrong, W(k) being a mean over
all orders of equal confidences. The selective risk is W(k) / k, the generalized risk,
of being asked and answering wrongly, W(k) / n. Their means over all coverages k / n are

.. math:: \text{AURC} = \frac1n \sum_{k=1}^n \frac{W(k)}{k}
   \qquad\text{and}\qquad \text{AUGRC} = \int_0^1 \frac{W(c\,n)}{n}\, dc,

the second exact between the k, where W is a line. Both are 0 for no mistakes and fall
with the error and with a better order of the answers; AURC has most of its weight on
the few surest samples, AUGRC weighs all alike. With the accuracy a and the AUROC of
"right" by the confidence, AUGRC = (1 - AUROC) a (1 - a) + (1 - a)^2 / 2.

References: Y. Geifman, R. El-Yaniv, Selective classification for deep neural networks,
NIPS 2017; J. Traub et al., Overcoming common flaws in the evaluation of selective
classification systems, NeurIPS 2024. Arrays have shape (n_samples,).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import check_number
from widemargin._core.confidence import answers_of, decisive
from widemargin._core.decisions import are_alike, as_labels
from widemargin.margins.rejection import count_accepted


def aurc_score(y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike) -> float:
    """Area under the risk-coverage curve: mean error among the k surest, over all k.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        Finite; larger is surer. Of equal ones the mean over all orders is taken.

    Returns
    -------
    area : float
        Between 0, no mistakes, and 1; smaller is better.

    Examples
    --------
    >>> from widemargin.margins import aurc_score
    >>> aurc_score([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.7, 0.1, 0.6])
    0.0625
    >>> aurc_score([0, 1, 1, 0], [0, 1, 0, 0], [0.1, 0.7, 0.9, 0.6])
    0.52...
    """
    answered, wrong = _answered_and_wrong(y_true, y_pred, confidence)
    counts = np.arange(1, answered[-1] + 1)
    return float(np.mean(np.interp(counts, answered, wrong) / counts))


def augrc_score(y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike) -> float:
    """Area under the generalized risk-coverage curve: mean risk of a wrong answer.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        Finite; larger is surer. Of equal ones the mean over all orders is taken.

    Returns
    -------
    area : float
        Between 0, no mistakes, and 1/2, no right answer; smaller is better.

    Examples
    --------
    >>> from widemargin.margins import augrc_score
    >>> augrc_score([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.7, 0.1, 0.6])
    0.03125
    """
    answered, wrong = _answered_and_wrong(y_true, y_pred, confidence)
    return float(np.trapezoid(wrong, answered)) / float(answered[-1]) ** 2


def coverage_at_error(
    y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike, *, max_error: float
) -> float:
    """Largest share of samples that can be answered at an error, surest first.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        Finite; larger is surer. Equal ones are answered together.
    max_error : float
        Error among the answered, in (0, 1).

    Returns
    -------
    coverage : float
        Between 0 and 1. It is measured, and no guarantee for other samples; see
        :func:`reject_threshold`.

    Examples
    --------
    >>> from widemargin.margins import coverage_at_error
    >>> coverage_at_error(
    ...     [0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.7, 0.1, 0.6], max_error=0.1)
    0.75
    """
    max_error = check_number("max_error", max_error, above=0, below=1)
    answered, wrong = _answered_and_wrong(y_true, y_pred, confidence)
    kept = wrong <= max_error * answered
    return float(answered[kept].max() / answered[-1])


def _answered_and_wrong(
    y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike
) -> tuple[NDArray, NDArray]:
    """Count the answered samples and their mistakes, from none on, tie by tie."""
    counts = count_accepted(y_true, y_pred, confidence)
    return np.append(0, counts.accepted[::-1]), np.append(0, counts.mistakes[::-1])


def neg_aurc_scorer(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Score a fitted classifier by minus its AURC: pass it as ``scoring``.

    Parameters
    ----------
    estimator : fitted classifier
        Ours or any other; of one that refuses the classifier inside is judged.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Labels.

    Returns
    -------
    score : float
        ``-aurc_score`` of its answers and :func:`confidence_of`; larger is better.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from widemargin import GLVQClassifier
    >>> from widemargin.margins import neg_aurc_scorer
    >>> scores = cross_val_score(
    ...     GLVQClassifier(random_state=0), *load_iris(return_X_y=True),
    ...     scoring=neg_aurc_scorer)
    >>> bool(scores.mean() > -0.02)
    True
    """
    return -_judged(aurc_score, estimator, X, y)


def neg_augrc_scorer(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Score a fitted classifier by minus its AUGRC: pass it as ``scoring``.

    Parameters
    ----------
    estimator : fitted classifier
        Ours or any other; of one that refuses the classifier inside is judged.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Labels.

    Returns
    -------
    score : float
        ``-augrc_score`` of its answers and :func:`confidence_of`; larger is better.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from widemargin.margins import neg_augrc_scorer
    >>> model = SVC().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    >>> print(f"{abs(neg_augrc_scorer(model, [[0.5], [4.5]], [0, 1])):.1f}")
    0.0
    """
    return -_judged(augrc_score, estimator, X, y)


def _judged(score: Callable[..., float], estimator: Any, X: Any, y: ArrayLike) -> float:
    answers, sure, _ = answers_of(*decisive(estimator, X))
    truth = as_labels("y", y, len(answers))
    if not are_alike(truth, as_labels("answers", answers)):
        raise ValueError(
            f"y must hold labels of the kind that the estimator answers, "
            f"{np.asarray(answers).dtype}; got {truth.dtype}."
        )
    return score(truth, answers, sure)
