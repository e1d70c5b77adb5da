r"""Kernel densities in tangent distance.

Every training sample carries a bump, and the class with the most density wins:

    p(c | x) ∝ sum_{i in c} w_i exp(-beta d^2(x, x_i)).

With transformations, each training sample is accompanied by its transformed copies,
and each sample x by its own, whose densities are summed. All sums are taken in log
space. beta is chosen by leaving training samples out, one distance matrix for all
candidates; a sample's transformed copies leave with it, and all samples of its group.

Reference: D. Keysers, J. Dahmen, T. Theiner, H. Ney, Experiments with an extended
tangent distance, ICPR 2000. Shapes: distances (n_queries, n_references), class
scores (n_queries, n_classes).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.progress import announced
from widemargin._compute.threads import batched_slices
from widemargin._core.callbacks import CallbackSupportMixin, FitProgress, with_callbacks
from widemargin._core.checks import check_count
from widemargin._core.decisions import as_decision, class_codes, score_margins
from widemargin.metrics import tangent_distances
from widemargin.metrics.distances import bundle_distances
from widemargin.neighbors.checks import (
    FLOATS,
    check_distance_parameters,
    check_squares,
    check_training,
    warn_of_blanks,
)
from widemargin.tangents import Bundle, as_bundle
from widemargin.tangents.copies import check_transformations, copies
from widemargin.tangents.fitting import fit_tangents

# Candidates of beta, in units of one over the median squared nearest distance.
RELATIVE_BETAS = np.geomspace(0.5, 256, 19)


class TangentDensityClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Bayes classifier with a kernel density in tangent distance for every class.

    Parameters
    ----------
    beta : float, array-like of floats or "auto", default="auto"
        Sharpness of the bumps, in one over squared distance. Of several values, the
        one with the least Brier score, the squared error of the posterior, on left-out
        training samples is taken; "auto" tries 19 around one over the median squared
        distance to the nearest neighbour.
    tangents : generator, array of shape (n_tangents, n_features) or None, default=None
        What may vary; None is the Euclidean distance.
    sides : {"two", "x", "y", "mean", "midpoint"}, default="two"
        Which end may move: see :func:`~widemargin.metrics.tangent_distances`.
    spring : float, default=1e-5
        Cost of moving along the tangents.
    shifts : sequence of callables or None, default=None
        Transformations ``X -> X`` of which every training sample gets a copy, for
        instance :func:`~widemargin.tangents.image_shifts`.
    shift_test : bool, default=True
        Transform the samples to predict too, and sum their densities.
    cv_samples : int, default=2000
        How many training samples, drawn at random, are left out to choose `beta`. They
        are predicted as new samples are, with transformed copies if `shift_test`.
    random_state : int, RandomState instance or None, default=None
        For that draw.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Attributes
    ----------
    beta_ : float
        The sharpness used.
    cv_scores_, cv_errors_ : ndarray of shape (n_betas,)
        Mean Brier score and share of errors on the left-out samples, for each candidate
        in `betas_`; empty where beta was given.
    betas_ : ndarray of shape (n_betas,)
        The candidates.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bundle_ : Bundle
        Training samples and their copies, with frames, ordered by class.

    Notes
    -----
    Choosing beta takes most of the time of `fit`; on scikit-learn 1.9 and later,
    ``set_callbacks(sklearn.callback.ProgressBar())`` shows how far it is.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.neighbors import TangentDensityClassifier
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0]])
    >>> along_first_axis = np.array([[1.0, 0.0]])
    >>> density = TangentDensityClassifier(beta=1.0, tangents=along_first_axis)
    >>> density.fit(X, [0, 1]).predict_proba([[50.0, 0.5]])
    array([[0.5, 0.5]])
    """

    def __init__(
        self,
        beta: float | Sequence[float] | str = "auto",
        *,
        tangents: Any = None,
        sides: str = "two",
        spring: float = 1e-5,
        shifts: Sequence[Callable] | None = None,
        shift_test: bool = True,
        cv_samples: int = 2000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.beta = beta
        self.tangents = tangents
        self.sides = sides
        self.spring = spring
        self.shifts = shifts
        self.shift_test = shift_test
        self.cv_samples = cv_samples
        self.random_state = random_state
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None):
        """Remember the samples, transform them, and choose beta.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each bump; samples of weight 0 are left out.
        groups : array-like of shape (n_samples,), default=None
            Samples that resemble each other, such as those of one writer or one day:
            all of a left-out sample's group are left out when `beta` is chosen.

        Returns
        -------
        self : TangentDensityClassifier
            The fitted classifier.
        """
        check_distance_parameters(self.sides, self.spring)
        check_count("cv_samples", self.cv_samples)
        betas = _check_betas(self.beta)
        self._shifts = check_transformations("shifts", self.shifts)
        groups = _check_groups(groups, sample_weight)
        X, codes, self.classes_, weights = check_training(self, X, y, sample_weight)
        check_squares(X)
        if groups is not None and len(groups) != len(X):
            raise ValueError(
                f"groups must have one entry per sample, {len(X)} of positive weight; "
                f"got {len(groups)}."
            )
        # Classes side by side, so that a class is a slice of every distance row.
        order = np.argsort(np.tile(codes, 1 + len(self._shifts)), kind="stable")
        self.tangents_ = fit_tangents(self.tangents, X, self.classes_[codes])
        everything = np.concatenate([X, *copies(X, self._shifts, "shifts")])[order]
        self.bundle_ = self._bundle(everything)
        warn_of_blanks(self.bundle_, self.sides)
        origin = np.tile(np.arange(len(X)), 1 + len(self._shifts))[order]
        self._weights = weights[origin]
        self._starts = np.searchsorted(codes[origin], np.arange(len(self.classes_)))
        self.betas_ = self.cv_errors_ = self.cv_scores_ = np.empty(0)
        if betas is not None and len(betas) == 1:
            self.beta_ = float(betas[0])
            # Nothing to choose, and yet a fit that began and ended.
            list(FitProgress(self, 0, X=X, y=self.classes_[codes]))
        else:
            groups = np.arange(len(X)) if groups is None else groups
            self._choose_beta(X, codes, weights, betas, groups, groups[origin])
        return self

    def _choose_beta(self, X, codes, weights, betas, groups, reference_groups):
        """Leave groups out, copies and all, and score every beta on one pass."""
        if len(np.unique(groups)) == 1:
            raise ValueError(
                "beta='auto' leaves samples out, which one sample, or one group of "
                "them, does not allow; give beta a number."
            )
        random = check_random_state(self.random_state)
        left_out = np.arange(len(X))
        if len(X) > self.cv_samples:
            left_out = np.sort(random.choice(len(X), self.cv_samples, replace=False))

        def distances(samples):
            """Distances of each version of some samples, of other groups only."""
            same = groups[samples, None] == reference_groups
            for d2 in self._distances(X[samples]):
                d2[same] = np.inf
                yield d2

        if betas is None:
            betas = RELATIVE_BETAS / _typical(next(distances(left_out[:200])))
        errors, brier = np.zeros(len(betas)), np.zeros(len(betas))
        chunks = list(self._chunks(len(left_out)))
        for step in FitProgress(self, len(chunks), X=X, y=self.classes_[codes]):
            samples = left_out[chunks[step]]
            truth, weight = codes[samples], weights[samples]
            for b, scores in enumerate(self._log_densities(distances(samples), betas)):
                wrong = scores.argmax(axis=1) != truth
                posterior = np.exp(_log_normalized(scores))
                posterior[np.arange(len(truth)), truth] -= 1
                errors[b] += weight @ wrong
                brier[b] += weight @ (posterior**2).sum(axis=1)
        total = weights[left_out].sum()
        self.betas_, self.cv_errors_ = betas, errors / total
        self.cv_scores_ = brier / total
        # Proper, smooth in beta as counts of errors are not, and bounded as the log
        # loss is not, which a few outliers would decide.
        self.beta_ = float(betas[brier.argmin()])

    def _bundle(self, X: NDArray) -> Bundle:
        # The tangents of a midpoint belong to no sample.
        tangents = None if self.sides == "midpoint" else self.tangents_
        return as_bundle(X, tangents, n_jobs=self.n_jobs)

    def _distances(self, X: NDArray) -> Iterator[NDArray]:
        """Yield squared distances to all references, of X and of its copies."""
        shifts = self._shifts if self.shift_test else ()
        for version in chain([X], copies(X, shifts, "shifts")):
            if self.sides == "midpoint":
                yield tangent_distances(
                    version, self.bundle_.points, tangents=self.tangents_,
                    sides="midpoint", spring=self.spring, n_jobs=self.n_jobs,
                )  # fmt: skip
            else:
                yield bundle_distances(
                    self._bundle(version), self.bundle_, sides=self.sides,
                    spring=self.spring, n_jobs=self.n_jobs,
                )  # fmt: skip

    def _chunks(self, n):
        # Distances, their exponentials and a mask, all of one row per query.
        return batched_slices(n, min(512, rows_in_budget(26 * len(self.bundle_))))

    def _log_densities(self, versions: Iterable[NDArray], betas: Any) -> NDArray:
        """Logarithm of sum w exp(-beta d2) of every class, up to a common constant.

        Summed over all `versions` of the squared distances: (n_betas, n, n_classes).
        What is given is overwritten.
        """
        total: Any = -np.inf
        for d2 in versions:
            nearest = np.minimum.reduceat(d2, self._starts, axis=1)
            base = np.where(np.isfinite(nearest), nearest, 0)
            sizes = np.diff(np.append(self._starts, d2.shape[1]))
            depth = np.subtract(np.repeat(base, sizes, axis=1), d2, out=d2)
            sums = np.stack([self._bumps(depth, beta) for beta in betas])
            far = np.multiply.outer(np.asarray(betas, float), base.astype(float))
            with np.errstate(divide="ignore"):
                total = np.logaddexp(total, np.log(sums) - far)
        return total

    def _bumps(self, depth: NDArray, beta: float) -> NDArray:
        """Sum of w exp(beta depth) over the samples of each class; depths are ≤ 0."""
        steep = depth.dtype.type(min(beta, np.finfo(depth.dtype).max))
        bumps = depth * steep
        np.exp(bumps, out=bumps)
        bumps *= self._weights.astype(depth.dtype)
        return np.add.reduceat(bumps, self._starts, axis=1, dtype=float)

    def _scores(self, X) -> NDArray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, order="C", reset=False)
        X = check_squares(X.astype(self.bundle_.points.dtype, copy=False))
        total = np.empty((len(X), len(self.classes_)))
        for rows in announced(list(self._chunks(len(X))), "densities"):
            total[rows] = self._log_densities(self._distances(X[rows]), [self.beta_])[0]
        return total

    def decision_function(self, X: Any) -> NDArray:
        """Logarithm of the posterior of each class.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes) or, for two classes, (n_queries,)
            For two classes the log odds of the second.
        """
        return as_decision(_log_normalized(self._scores(X)))

    def predict_proba(self, X: Any) -> NDArray:
        """Posterior of each class.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
        """
        return np.exp(_log_normalized(self._scores(X)))

    def predict(self, X: Any) -> NDArray:
        """Class of the largest density.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries,)
        """
        scores = self._scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def margins(self, X: Any, y: Any) -> NDArray:
        """Log density of the right class less the best other log density.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.
        y : array-like of shape (n_queries,)
            Their labels.

        Returns
        -------
        ndarray of shape (n_queries,)
            Positive where the prediction is right.
        """
        scores = self._scores(X)
        return score_margins(scores, class_codes(y, self.classes_))


def _log_normalized(scores: NDArray) -> NDArray:
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def _typical(d2: NDArray) -> float:
    """Median squared distance to the nearest; 1 where these are copies of each other.

    Then any sharp beta will do.
    """
    nearest = d2.min(axis=1)
    typical = float(np.median(nearest[np.isfinite(nearest)]))
    return typical if typical > 0 else 1.0


def _check_groups(groups: Any, sample_weight: Any) -> NDArray | None:
    """Return the group of every sample of positive weight, numbered."""
    if groups is None:
        return None
    groups = np.unique(column_or_1d(groups), return_inverse=True)[1]
    if sample_weight is not None and np.shape(sample_weight) == groups.shape:
        groups = groups[np.asarray(sample_weight) > 0]
    return groups


def _check_betas(beta: Any) -> NDArray | None:
    if isinstance(beta, str) and beta == "auto":
        return None
    ok = not isinstance(beta, str) and (
        isinstance(beta, Real) or (np.ndim(beta) == 1 and len(beta) > 0)
    )
    values = np.atleast_1d(np.asarray(beta, dtype=float)) if ok else np.array([np.nan])
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(
            f"beta must be a number above 0, several of them, or 'auto'; got {beta!r}."
        )
    return values
