r"""TD-Neuron: one unit per class that fires for inputs near its tangent model.

The unit of class j has a model (C_j, T_j), a slope and a threshold; with z_j the
squared one-sided tangent distance its output is

.. math:: o_j(x) = \frac{1}{1 + e^{u_j}}, \qquad u_j = a_j (z_j(x) - c_j),

decreasing in z. Gradient descent on all of C, T, a, c makes the squared error of the
outputs to the targets 1 (own class) and 0 (others) small. The units are built up: they
start with one tangent, and get one more when the error stalls, for as long as that
helps on held-out samples.

Reference: D. Sona, A. Sperduti, A. Starita, Discriminant pattern recognition using
transformation-invariant neurons, Neural Computation 12 (2000).
"""

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, check_scalar

from widemargin._compute.progress import announced
from widemargin._compute.threads import held_threads
from widemargin._core.callbacks import FitTasks, with_callbacks
from widemargin.prototypes.neuron_descent import NeuronDescent, Units
from widemargin.prototypes.samples import (
    Samples,
    check_samples,
    merge_duplicates,
    split_validation,
)
from widemargin.prototypes.tangent_models import TangentModels, resolve_n_tangents
from widemargin.prototypes.training import fraction_right


class TDNeuronClassifier(TangentModels):
    """One discriminant tangent model per class, its size found on held-out data.

    Parameters
    ----------
    max_tangents : int or "auto", default="auto"
        Tangents of a unit at most, at least 0 and below the number of features; "auto"
        is ``min(20, n_features // 12)``.
    max_iter : int, default=20
        Steps of the descent at most between two additions of a tangent; the last
        training, with all samples, takes five times as many.
    tol : float, default=1e-3
        The error stalls when a step lowers it by less than this fraction.
    validation_fraction : float, default=0.2
        Share of the samples on which the number of tangents is chosen.
    n_iter_no_change : int, default=4
        Additions without a better validation score after which none is tried any more.
    class_weight : dict or "balanced", default=None
        Factors of the sample weights.
    n_jobs : int, default=None
        Threads; results do not depend on it.
    random_state : int, RandomState or None, default=None
        Choice of the validation samples.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    prototypes_ : ndarray of shape (n_classes, n_features)
        Centroids of the units.
    prototype_labels_ : ndarray of shape (n_classes,)
        Their labels.
    tangents_ : ndarray of shape (n_classes, n_tangents, n_features)
        Orthonormal frames.
    slopes_, thresholds_ : ndarray of shape (n_classes,)
        a and c of every unit.
    n_tangents_ : int
        Number of tangents found.
    history_ : dict of lists
        Per number of tangents tried: ``"n_tangents"``, ``"error"`` (weighted mean
        squared error of the outputs), ``"validation_score"``.
    n_iter_ : int
        Steps of the last training, with all samples.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    The answer is the unit with the largest output. Distances, in
    :meth:`decision_function` and :meth:`margins`, are ``-log(output)``.

    References
    ----------
    .. [1] D. Sona, A. Sperduti, A. Starita, Discriminant pattern recognition using
       transformation-invariant neurons, Neural Computation 12 (2000).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.prototypes import TDNeuronClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TDNeuronClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> model.outputs(X[1000:]).shape
    (797, 10)
    >>> bool(model.score(X[1000:], y[1000:]) > 0.9)
    True
    """

    input_tangents_ = None

    def __init__(
        self,
        max_tangents: int | str = "auto",
        *,
        max_iter: int = 20,
        tol: float = 1e-3,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 4,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.max_tangents = max_tangents
        self.max_iter = max_iter
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Build the units up and train them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; float32 is kept.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            A sample of weight 2 counts as two samples; zero leaves it out.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_scalar(self.max_iter, "max_iter", Integral, min_val=1)
        check_scalar(self.tol, "tol", Real, min_val=0)
        check_scalar(self.n_iter_no_change, "n_iter_no_change", Integral, min_val=1)
        check_scalar(
            self.validation_fraction,
            "validation_fraction",
            Real,
            min_val=0,
            max_val=1,
            include_boundaries="neither",
        )
        samples = merge_duplicates(check_samples(self, X, y, sample_weight))
        n_tangents = _resolve(self.max_tangents, samples.X.shape[1])
        rng = check_random_state(self.random_state)
        self.prototype_labels_ = self.classes_.copy()
        self.history_: dict[str, list] = {
            "n_tangents": [],
            "error": [],
            "validation_score": [],
        }
        tasks = FitTasks(
            self,
            n_tangents + 2 if n_tangents else 1,
            X=samples.X,
            y=self.classes_[samples.codes],
            sample_weight=samples.weights,
            state=self._state,
        )
        with held_threads(self.n_jobs) as run, tasks:
            units = None
            if n_tangents:
                train, held = split_validation(samples, self.validation_fraction, rng)
                units = self._construct(train, held, n_tangents, run, tasks)
            descent = NeuronDescent(samples, len(self.classes_), units, run)
            with tasks.whole("final training"):
                error = descent.train(5 * self.max_iter, self.tol)
                self._take(descent.units, samples.X.dtype)
            self.history_["error"].append(error)
        self.n_iter_ = descent.n_steps
        self.n_tangents_ = self.tangents_.shape[1]
        self.history_["n_tangents"].append(self.n_tangents_)
        return self

    def _construct(
        self, train: Samples, held: Samples, n_tangents: int, run: Any, tasks: FitTasks
    ) -> Units:
        """Add tangents one by one; return the units that were best on `held`."""
        descent = NeuronDescent(train, len(self.classes_), None, run)
        best, best_score, waited = descent.units, -np.inf, 0
        for count in announced(range(n_tangents + 1), "epochs"):
            task = tasks.begin("epoch")
            if count:
                descent.add_tangent()
            self.history_["n_tangents"].append(count)
            self.history_["error"].append(descent.train(self.max_iter, self.tol))
            self._take(descent.units, train.X.dtype)
            score = fraction_right(self, held)
            self.history_["validation_score"].append(score)
            waited += 1
            if score > best_score:
                best, best_score, waited = descent.units, score, 0
            if tasks.end(task) or waited >= self.n_iter_no_change:
                break
        return best

    def _state(self) -> dict[str, Any]:
        names = ("prototypes_", "tangents_", "slopes_", "thresholds_")
        return {name: getattr(self, name).copy() for name in names}

    def _take(self, units: Units, dtype: Any) -> None:
        self.prototypes_ = units.stack[:, 0].astype(dtype)
        self.tangents_ = units.stack[:, 1:].astype(dtype)
        self.slopes_ = (np.exp(units.log_slope) / units.scale).astype(dtype)
        self.thresholds_ = (units.threshold * units.scale).astype(dtype)

    def _squared_distances(self, X: np.ndarray) -> np.ndarray:
        z = super()._squared_distances(X)
        return np.logaddexp(0, self.slopes_ * (z - self.thresholds_)).astype(z.dtype)

    def outputs(self, X: ArrayLike) -> np.ndarray:
        """Return the outputs of all units.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Numbers between 0 and 1, one column per class; they do not sum to 1.
        """
        X = self._check_predict(X)
        return np.exp(-self._in_chunks(X, self._squared_distances))

    def _lipschitz(self) -> float:
        raise ValueError(
            "certified_radius is not defined for TDNeuronClassifier, whose answers "
            "compare outputs and not distances."
        )


def _resolve(max_tangents: Any, n_features: int) -> int:
    try:
        return resolve_n_tangents(max_tangents, n_features)
    except ValueError as error:
        raise ValueError(str(error).replace("n_tangents", "max_tangents")) from None
