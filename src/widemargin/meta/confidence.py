"""How sure a fitted classifier is of each of its answers, as one number per sample.

With one score per class the confidence is the gap between the two best,

    c(x) = max_k s_k(x) − max_{k ≠ best} s_k(x)  ≥ 0,

the criterion of Aiolli and Sperduti's rejection curves; with one score for two
classes it is |s(x)|. Scores have shape (n_samples,) or (n_samples, n_classes), the
confidence (n_samples,).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _num_samples

__all__ = ["Confidence", "best_two_gap", "confidence_of"]

Confidence = str | Callable[[Any, Any], ArrayLike]

_METHODS = ("decision_function", "predict_proba")


def best_two_gap(scores: ArrayLike) -> NDArray:
    """Return the gap between the two best scores of every sample.

    Parameters
    ----------
    scores : array-like of shape (n_samples,) or (n_samples, n_classes)
        Larger is better. One number per sample is the score of the second of two
        classes against the first.

    Returns
    -------
    gap : ndarray of shape (n_samples,)
        Finite and at least 0; with a single class, its score.

    Examples
    --------
    >>> from widemargin.meta.confidence import best_two_gap
    >>> best_two_gap([[0.1, 0.7, 0.2], [0.4, 0.4, 0.2]])
    array([0.5, 0. ])
    >>> best_two_gap([-2.0, 0.5])
    array([2. , 0.5])
    """
    values = np.asarray(scores)
    if values.dtype.kind != "f":
        values = values.astype(float)
    if values.ndim == 1:
        gap = np.abs(values)
    elif values.shape[1] == 1:
        gap = values[:, 0]
    else:
        second, best = np.partition(values, -2, axis=1)[:, -2:].T
        with np.errstate(invalid="ignore"):
            gap = best - second
    # A class that is out of the question scores −inf; two such classes tie.
    return np.nan_to_num(gap, nan=0.0)


def confidence_of(estimator: Any, X: Any, confidence: Confidence = "auto") -> NDArray:
    """Return how sure a fitted classifier is of its answer to every sample.

    Parameters
    ----------
    estimator : fitted classifier
        With ``decision_function`` or ``predict_proba``, unless `confidence` is a
        callable.
    X : array-like of shape (n_samples, n_features)
        Samples.
    confidence : {"auto", "decision_function", "predict_proba"} or callable
        The method whose two best scores are compared; "auto" takes the first there is.
        A callable gets `estimator` and `X` and returns one number per sample, larger
        for surer.

    Returns
    -------
    confidence : ndarray of shape (n_samples,)
        Larger is surer.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from widemargin.meta.confidence import confidence_of
    >>> model = LogisticRegression().fit([[-1.0], [1.0]], [0, 1])
    >>> sure, unsure = confidence_of(model, [[5.0], [0.1]])
    >>> bool(sure > unsure)
    True
    """
    if callable(confidence):
        values = np.asarray(confidence(estimator, X))
        if values.shape != (_num_samples(X),):
            raise ValueError(
                "confidence must return one number per sample, shape "
                f"({_num_samples(X)},); it returned shape {values.shape}."
            )
        return values
    if confidence != "auto" and confidence not in _METHODS:
        raise ValueError(
            "confidence must be 'auto', 'decision_function', 'predict_proba' or a "
            f"callable confidence(estimator, X); got {confidence!r}."
        )
    wanted = _METHODS if confidence == "auto" else (confidence,)
    for method in wanted:
        if hasattr(estimator, method):
            return best_two_gap(getattr(estimator, method)(X))
    raise ValueError(
        f"{type(estimator).__name__} has no {' or '.join(wanted)}; give confidence as "
        "a callable confidence(estimator, X) that returns one number per sample."
    )
