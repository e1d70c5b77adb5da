"""The contract of every classifier here: what it answers, and how sure it is.

A subclass gives one score per class, `_class_scores`, and where it has a better measure
than the gap between scores, `_label_margins`. Everything a user asks follows:

* ``predict`` is the class of the largest score, the first of equals;
* ``decision_function`` has the prediction as its argmax;
* ``margins(X, y)`` is positive exactly where the prediction is y, zero on a tie;
* ``confidence(X)`` is ``margins(X, predict(X))``, never negative.

Margins come in four units, named by ``margin_unit``, see `MARGIN_UNITS`. Shapes: scores
and label margins (n_samples, n_classes), margins and confidences (n_samples,).

`SoftClassifier` makes probabilities of margins: a softmax over the classes with one
temperature. Every class has a cost D_c, least for the answer and larger the less it is
likely. With the temperature T its probability is

    P_c = exp(-D_c / T) / sum_b exp(-D_b / T).

The inverse temperature s = 1 / T minimises the cross-entropy on labelled samples,

    sum_i w_i (log sum_c exp(-s D_ic) + s sum_c t_ic D_ic),

which is convex in s: at the minimum the expected cost under P is that of the targets t.
These are Platt's, ``(n + 1) / (n + 2)`` for the right class of n samples (the sum of
their weights) and the rest for the others, so that s stays finite. All of it are sums
over samples, kept at fixed s as the *heat* of a model: of samples that come in batches
the latest count.

Platt, "Probabilistic outputs for support vector machines", 1999; Guo et al., "On
calibration of modern neural networks", ICML 2017. Shapes: costs (n_samples, n_classes).
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import _num_samples, check_is_fitted

from widemargin._core import decisions
from widemargin._core.arrays import AnswersInKind, available_if, to_numpy
from widemargin._core.callbacks import CallbackSupportMixin, with_callbacks
from widemargin._core.decisions import class_codes
from widemargin._core.lazy import accuracy, is_lazy
from widemargin._core.samples import check_X

DOC_LINK = "https://widemargin.readthedocs.io/en/stable/reference/widemargin.{estimator_name}.html"
MARGIN_UNITS = {
    "relative": "a difference over a sum, in [-1, 1]; free of the units of the data",
    "distance": "how far the sample is from changing the answer, in the units of the "
    "data or of the kernel's space",
    "log-odds": "logarithm of how many times likelier the label is than the next",
    "share": "share of the votes, or of the probability, less that of the next; "
    "in [-1, 1]",
}


# A method keeps its signature, so that type checkers show a user what it takes.
Method = TypeVar("Method", bound=Callable[..., Any])


def whole_or_not_at_all(method: Method) -> Method:
    """Decorate a fit: a failure leaves the model that was there before.

    Attributes are put back and arrays that were changed in place restored, whatever
    ended the call, an interrupt included.
    """

    @wraps(method)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        arrays = {
            name: value.copy()
            for name, value in before.items()
            if isinstance(value, np.ndarray) and name.endswith("_")
        }
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            for name, copy in arrays.items():
                before[name][...] = copy
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(Method, fit)


def fit_method(method: Method) -> Method:
    """Decorate ``fit``: scikit-learn's callbacks around it, whole or not at all."""
    return whole_or_not_at_all(with_callbacks(method))


def _without_probabilities(model: Any) -> None:
    name = type(model).__name__
    raise AttributeError(
        f"{name} has no predict_proba: what it says of samples that trained it is no "
        f"measure for others. Use sklearn.calibration.CalibratedClassifierCV({name}"
        "(...)), which leaves samples out, or confidence, which is no probability."
    )


class MarginClassifier(
    AnswersInKind, CallbackSupportMixin, ClassifierMixin, BaseEstimator
):
    """Base of all classifiers of the package; see the module's docstring."""

    # Which of MARGIN_UNITS; a property where parameters decide.
    margin_unit: Any
    # Where scikit-learn's picture of an estimator in a notebook links to.
    _doc_link_module = "widemargin"
    _doc_link_template = DOC_LINK
    # Whether sparse matrices are welcome.
    _sparse: ClassVar[bool] = False

    classes_: NDArray

    @abstractmethod
    def _class_scores(self, X: Any) -> NDArray:
        """(n, n_classes) scores of checked samples; the largest is the answer."""

    def _label_margins(self, scores: NDArray) -> NDArray:
        """(n, n_classes): the margin that each label would have, from the scores."""
        return decisions.label_margins(scores)

    def _scored(self, X: Any) -> tuple[NDArray, NDArray]:
        """Scores, and the margin that each label would have, both (n, n_classes)."""
        scores = self._class_scores(X)
        return scores, self._label_margins(scores)

    def _margins(self, X: Any, codes: NDArray | None) -> NDArray:
        """Margins of labels given by their codes, None for those predicted."""
        scores, margins = self._scored(X)
        wanted = scores.argmax(axis=1) if codes is None else codes
        return margins[np.arange(len(scores)), wanted]

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return check_X(self, X, sparse=self._sparse)

    def _check_predict(self, X: Any) -> Any:
        """Return the samples of a question, checked."""
        return self._checked(X)

    def predict(self, X: ArrayLike) -> NDArray:
        """Return the likeliest label of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``, the argmax of ``decision_function``; of equals, the
            first.
        """
        scores = self._class_scores(self._check_predict(X))
        return self.classes_[scores.argmax(axis=1)]

    def decision_function(self, X: ArrayLike) -> NDArray:
        """Return one score per class; the largest is the answer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Scores in the order of ``classes_``; for two classes the margin of
            ``classes_[1]``, positive where it is the answer.
        """
        scores = self._class_scores(self._check_predict(X))
        if scores.shape[1] != 2:
            return scores
        return self._label_margins(scores)[:, 1]

    @available_if(_without_probabilities)
    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Not there; :class:`~sklearn.calibration.CalibratedClassifierCV` has it."""
        raise NotImplementedError

    def margins(self, X: ArrayLike, y: ArrayLike) -> NDArray:
        """Return how sure the model is of each given label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels, all among ``classes_``.

        Returns
        -------
        ndarray of shape (n_samples,)
            One number per sample in the unit ``margin_unit``: positive if and only if
            the sample is classified as `y`, zero on a tie.
        """
        samples = self._check_predict(X)
        codes = class_codes(y, self.classes_, _num_samples(samples))
        return self._margins(samples, codes)

    def confidence(self, X: ArrayLike) -> NDArray:
        """Return how sure the model is of each of its answers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``margins(X, predict(X))``: at least 0, in the unit ``margin_unit``.
        """
        return self._margins(self._check_predict(X), None)

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of right answers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        float
            Between 0 and 1.
        """
        if is_lazy(X) or is_lazy(y):
            return accuracy(self, X, y, sample_weight)
        # Answers are few, and may come from another place than the labels.
        return accuracy_score(
            to_numpy(y),
            to_numpy(self.predict(X)),
            sample_weight=to_numpy(sample_weight),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        return tags


# Samples, at most, that a temperature is fitted to.
FITTED = 2000
# Inverse temperatures at which the expected cost is kept, in units of the mean gap.
INVERSE = np.logspace(-1, 5, 49)
FAR, AT_ONCE = 40.0, 20_000
# Weights, and gaps in their unit, beyond these are certain enough.
HEAVY, MOST = 1e10, 1e200


def heat_of(
    costs: NDArray,
    codes: NDArray,
    weights: NDArray,
    unit: float | None = None,
    *,
    further: bool = True,
) -> NDArray:
    """Return what the temperature depends on: sums over samples, after their unit.

    Samples of a class that is out of the question, at an infinite cost, say nothing.
    If no `further` samples follow, costs are expected only next to the temperature,
    and infinite or zero where it is warmer or colder.
    """
    known = np.isfinite(costs[np.arange(len(costs)), codes])
    # Class by class: sums over few classes are slow along rows.
    costs, codes, weights = costs.T.compress(known, 1), codes[known], weights[known]
    weights = weights / max(1.0, float(weights.max(initial=0.0)) / HEAVY)
    D = costs - costs.min(axis=0)
    there = np.isfinite(D)
    if not there.all():
        D = np.where(there, D, 4 * D.max(initial=0.0, where=there))
    gaps = np.partition(D, 1, axis=0)[1]
    if unit is None:
        mean = float(weights @ gaps / weights.sum()) if len(gaps) else 0.0
        unit = float(2.0 ** np.round(np.log2(mean))) if mean > 0 else 1.0
    order = np.argsort(gaps)
    gaps, codes, weights = gaps[order], codes[order], weights[order]
    with np.errstate(over="ignore"):
        D = np.minimum(D.take(order, 1) / unit, MOST)
    own = D[codes, np.arange(D.shape[1])]
    others = (D.sum(axis=0) - own) / (len(D) - 1)
    sums = weights.sum(), weights @ own, weights @ others

    def expected(s: NDArray) -> NDArray:
        # Farther classes than this have no share left, of this sample or a colder one.
        n = np.searchsorted(gaps, FAR / s[0] * unit)
        near, there = D[:, :n], gaps[:n] < FAR / s[:, None] * unit
        shares = np.exp(-s[:, None, None] * near)
        means = (shares * near).sum(axis=1) / shares.sum(axis=1)
        return (means * there) @ weights[:n]

    # As many temperatures at once as the cache holds.
    many, found = max(1, AT_ONCE // max(1, D.size)), np.zeros(len(INVERSE))
    if further or many > 8:
        for k in range(0, len(INVERSE), many):
            found[k : k + many] = expected(INVERSE[k : k + many])
    else:
        warm, cold = -1, len(INVERSE)
        while cold - warm > 1:
            k = (warm + cold) // 2
            found[k] = expected(INVERSE[k : k + 1])[0]
            warm, cold = (warm, k) if found[k] <= _wanted(*sums) else (k, cold)
        found[: max(warm, 0)] = np.inf
    return np.array([unit, *sums, *found])


def _wanted(n: float, own: float, others: float) -> float:
    """Return the expected cost at the temperature of least cross-entropy."""
    return ((n + 1) * own + others) / (n + 2)


def temperature_of(heat: NDArray) -> float:
    """Return the temperature of least cross-entropy."""
    unit, wanted, expected = heat[0], _wanted(*heat[1:4]), heat[4:]
    at = int(np.argmax(expected <= wanted)) if expected[-1] <= wanted else -1
    if at <= 0:
        s = INVERSE[at]
    else:
        # Costs fall exponentially with s.
        (warm, cold), tiny = expected[at - 1 : at + 1], np.finfo(float).tiny
        step = np.log(warm / wanted) / np.log(warm / max(cold, tiny))
        s = INVERSE[at - 1] + step * (INVERSE[at] - INVERSE[at - 1])
    return float(max(unit / s, np.finfo(float).tiny))


def softmax_of_costs(costs: NDArray, temperature: float, answers: NDArray) -> NDArray:
    """Return the probabilities of the classes; those of the `answers` are largest."""
    with np.errstate(over="ignore"):
        shares = np.exp((costs.min(axis=1, keepdims=True) - costs) / temperature)
    return with_answers(shares / shares.sum(axis=1, keepdims=True), answers)


def with_answers(P: NDArray, answers: NDArray) -> NDArray:
    """Let the first largest of each row be that of the answer, by the least there is.

    >>> P = with_answers(np.array([[0.5, 0.5]]), np.array([1]))
    >>> int(P.argmax()), bool(np.allclose(P, 0.5, rtol=1e-15))
    (1, True)
    """
    behind = np.flatnonzero(P.argmax(axis=1) != answers)
    if len(behind):
        P = P.copy()
        P[behind, answers[behind]] = np.nextafter(
            P[behind].max(axis=1), P.dtype.type(np.inf)
        )
    return P


def margin_costs(scores: NDArray, margins: NDArray) -> tuple[NDArray, NDArray]:
    """Costs of classes with these margins, minus them, and the codes of the answers."""
    answers, costs = scores.argmax(axis=1), np.maximum(-margins, 0)
    costs[np.arange(len(costs)), answers] = 0
    return costs, answers


class SoftClassifier(MarginClassifier):
    """Base of the classifiers whose margins become probabilities by a temperature.

    The answer costs nothing, another label minus its margin, or what `_costs` says; a
    subclass has the temperature learned in ``fit``.
    """

    temperature_: float
    _heat: NDArray

    def _costs(self, X: Any) -> tuple[NDArray, NDArray]:
        """(n, n_classes) costs of checked samples, and the codes of the answers."""
        return margin_costs(*self._scored(X))

    def _probabilities(self, X: Any) -> NDArray:
        costs, answers = self._costs(X)
        return softmax_of_costs(costs, self.temperature_, answers)

    def _heat_up(self, costs: NDArray, codes: NDArray, weights: NDArray) -> None:
        """Fit the temperature to samples whose costs the model had no part in."""
        further = hasattr(self, "partial_fit")
        self._heat = heat_of(costs, codes, weights, further=further)
        self.temperature_ = temperature_of(self._heat)

    def _heat_further(self, costs: NDArray, codes: NDArray, weights: NDArray) -> None:
        """Fit it to more samples, of which the last FITTED count."""
        known = 0.0 if len(costs) >= FITTED else 1 - len(costs) / FITTED
        more = heat_of(costs, codes, weights, self._heat[0])
        self._heat = np.append(more[:1], known * self._heat[1:] + more[1:])
        self.temperature_ = temperature_of(self._heat)

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Softmax over the classes of ``-cost / temperature_``: the largest is the
            class predicted.
        """
        return self._probabilities(self._check_predict(X))
