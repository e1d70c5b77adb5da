"""The contract of every classifier here: what it answers, and how sure it is.

A subclass gives one score per class, `_class_scores`, and where it has a better measure
than the gap between scores, `_label_margins`. Everything a user asks follows:

* ``predict`` is the class of the largest score, the first of equals;
* ``decision_function`` has the prediction as its argmax;
* ``margins(X, y)`` is positive exactly where the prediction is y, zero on a tie;
* ``confidence(X)`` is ``margins(X, predict(X))``, never negative.

Margins come in four units, named by ``margin_unit``, see `MARGIN_UNITS`. Shapes: scores
and label margins (n_samples, n_classes), margins and confidences (n_samples,).

`SoftClassifier` makes probabilities of costs, see `widemargin._core.temperature`: a
subclass says what classes cost, and what they cost samples that it has not seen.
"""

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from functools import wraps
from threading import Lock
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted

from widemargin._core import decisions
from widemargin._core.arrays import ArrayDispatchMixin, available_if, to_numpy
from widemargin._core.callbacks import CallbackSupportMixin, with_callbacks
from widemargin._core.decisions import class_codes
from widemargin._core.left_out import left_out_folds, refitted
from widemargin._core.samples import Samples, check_X
from widemargin._core.temperature import LeftOut, fit_temperature, softmax_of_costs

DOC_LINK = "https://widemargin.readthedocs.io/en/stable/reference/widemargin.{estimator_name}.html"
MARGIN_UNITS = {
    "relative": "a difference over a sum, in [-1, 1]; free of the units of the data",
    "distance": "how far the sample is from changing the answer, in the units of the "
    "data or of the kernel's space",
    "log-odds": "logarithm of how many times likelier the label is than the next",
    "vote_fraction": "fraction of the votes, or of the probability, less that of the "
    "next; in [-1, 1]",
}


# A method keeps its signature, so that type checkers show a user what it takes.
Method = TypeVar("Method", bound=Callable[..., Any])


def restore_on_failure(method: Method) -> Method:
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
    return restore_on_failure(with_callbacks(method))


def _without_probabilities(model: Any) -> None:
    name = type(model).__name__
    raise AttributeError(
        f"{name} has no predict_proba: what it says of samples that trained it is no "
        f"measure for others. Use sklearn.calibration.CalibratedClassifierCV({name}"
        "(...)), which leaves samples out, or confidence, which is no probability."
    )


class MarginClassifier(
    ArrayDispatchMixin, CallbackSupportMixin, ClassifierMixin, BaseEstimator
):
    """Base of all classifiers of the package; see the module's docstring."""

    # Which of MARGIN_UNITS; a property where parameters decide.
    margin_unit: Any
    # Where scikit-learn's picture of an estimator in a notebook links to.
    _doc_link_module = "widemargin"
    _doc_link_template = DOC_LINK
    # Whether a `predict` of its own gives the class of the largest score, sooner.
    _predicts_the_best: ClassVar[bool] = False
    # Whether sparse matrices are welcome.
    _sparse: ClassVar[bool] = False
    # Whether samples may hold NaN.
    _allow_nan: ClassVar[bool] = False
    # "C" where rows must lie one after the other.
    _memory_order: ClassVar[str | None] = None

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

    def _check_predict(self, X: Any) -> Any:
        """Return the samples of a question, checked."""
        if "classes_" not in vars(self):
            # It asks for all tags, which takes as long as the answer to one sample.
            check_is_fitted(self)
        return check_X(self, X)

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
        # Answers are few, and may come from another place than the labels.
        return accuracy_score(
            to_numpy(y),
            to_numpy(self.predict(X)),
            sample_weight=to_numpy(sample_weight),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        tags.input_tags.allow_nan = self._allow_nan
        return tags


def margin_costs(scores: NDArray, margins: NDArray) -> tuple[NDArray, NDArray]:
    """Costs of classes with these margins, minus them, and the codes of the answers."""
    answers, costs = scores.argmax(axis=1), np.maximum(-margins, 0)
    costs[np.arange(len(costs)), answers] = 0
    return costs, answers


# What calibration makes of a model.
CALIBRATION = ("temperature_", "_lead", "_seen")


class Later:
    """A fitted model that is calibrated when that is asked for first.

    `given` is what `_calibrate_on` takes: samples, and what the fit knows of them.
    """

    def __init__(self, model: Any, *given: Any) -> None:
        self._model, self._given, self._lock = model, given, Lock()

    def __getstate__(self) -> Any:
        return self.calibrated

    def __setstate__(self, model: Any) -> None:
        self._model, self._given, self._lock = model, (), Lock()

    @property
    def calibrated(self) -> Any:
        """The model with its temperature; the samples are let go."""
        with self._lock:
            if self._given:
                self._model._calibrate_on(*self._given)
                self._given = ()
        return self._model


class SoftClassifier(MarginClassifier):
    """Base of the classifiers whose costs become probabilities by a temperature.

    The answer costs nothing, another label minus its margin, or what `_costs` says. A
    subclass hands to `_calibrate` what it says of samples that it has not seen: these
    are what its `_left_out_costs` returns, in closed form, of folds, or held out.
    """

    # Samples of a class, for each feature and reference, from which on a closed form
    # leaves them out: as few as make probabilities of six kinds of data right to .05
    # (benchmarks/calibration.md).
    _many: ClassVar[float] = 1
    # What says the temperature when it is asked for; None where it is known.
    _later: "Later | None" = None

    def __getattr__(self, name: str) -> Any:
        if name in CALIBRATION and self._later is not None:
            return getattr(self._later.calibrated, name)
        if name == "_lead":
            # By what the answer leads at its border with any class.
            return 0.0
        # Once more, for what it says itself of a name that is not there.
        return self.__getattribute__(name)

    def __copy__(self) -> Self:
        # It shares what is asked for later, and does not ask for it now.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        later = state.pop("_later", None)
        if later is not None:
            # Of few samples the temperature alone may be known.
            known = vars(later.calibrated)
            state |= {name: known[name] for name in CALIBRATION if name in known}
        return state

    def _costs(self, X: Any) -> tuple[NDArray, NDArray]:
        """(n, n_classes) costs of checked samples, and the codes of the answers."""
        return margin_costs(*self._scored(X))

    def _probabilities(self, X: Any) -> NDArray:
        costs, answers = self._costs(X)
        return softmax_of_costs(costs, self.temperature_, answers, self._lead)

    def _refitted_costs(
        self, samples: Samples, n_references: int = 0
    ) -> LeftOut | None:
        """Say what samples cost models fitted without them; None where these are many.

        Then a closed form will do, and does not cost what fits do.
        """
        parts = self._left_out_parts(samples, n_references)
        return (
            refitted(self, samples, parts, type(self)._costs_of_unseen)
            if parts
            else None
        )

    def _left_out_parts(self, samples: Samples, n_references: int = 0) -> list[NDArray]:
        """Return rows to leave out together where samples are few, else nothing."""
        if hasattr(self, "_is_part"):
            return []
        if get_tags(self).input_tags.pairwise:
            samples = samples.with_own_columns()
        n_classes = len(np.unique(samples.codes))
        many = self._many * max(samples.X.shape[1], n_references / n_classes)
        return left_out_folds(samples, many)

    def _costs_of_unseen(self, samples: Samples) -> LeftOut:
        """Say what samples cost that the model has not seen."""
        costs, answers = self._costs(self._check_predict(samples.X))
        return LeftOut(costs, answers, samples.codes, samples.weights)

    def _calibrate(self, seen: LeftOut) -> None:
        """Fit the temperature to what was said of samples that were not seen."""
        self.__dict__.pop("_later", None)
        self._seen: Any = seen if hasattr(self, "partial_fit") else None
        self.temperature_, self._lead = fit_temperature(seen)

    def _calibrate_on(self, samples: Any, *told: Any) -> None:
        """Calibrate on training samples, each left out; `told` is what fit knows."""
        self._calibrate(self._left_out_costs(samples, *told))

    def _calibrate_later(self, samples: Any, *told: Any) -> None:
        """Fit the temperature when it is asked for, or the model is sent away.

        It takes a third of a fit, or several fits without some of the samples, and
        most models are never asked for a probability.
        """
        for name in ("_later", *CALIBRATION):
            self.__dict__.pop(name, None)
        self._later = Later(copy(self), samples, *told)

    def _calibrate_further(self, later: LeftOut) -> None:
        """Go on with a batch, as it was before it was learned; the latest count."""
        self._calibrate(self._seen.followed_by(later))

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
