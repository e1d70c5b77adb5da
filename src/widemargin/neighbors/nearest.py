r"""Nearest neighbours that ignore what may vary.

The k training samples nearest to x in tangent distance vote for its class. The votes
are equal or weighted by 1/d; equal scores go to the class of the nearest neighbour.

Reference: P. Simard, Y. LeCun, J. Denker, Efficient pattern recognition using a new
transformation distance, NIPS 1992.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._compute.progress import announced
from widemargin._compute.threads import batched_slices
from widemargin._core.callbacks import CallbackSupportMixin, FitTasks, with_callbacks
from widemargin._core.checks import check_count, check_option
from widemargin._core.decisions import as_decision, class_codes, score_margins
from widemargin.margins import relative_margin
from widemargin.metrics import tangent_distances
from widemargin.neighbors.by_metric import MetricSearch
from widemargin.neighbors.checks import (
    FLOATS,
    check_at_most,
    check_distance_parameters,
    check_squares,
    check_training,
    warn_of_blanks,
)
from widemargin.neighbors.search import TangentSearch
from widemargin.neighbors.votes import shares_of_votes, vote_weights
from widemargin.tangents import as_bundle
from widemargin.tangents.fitting import fit_tangents

ALGORITHMS = ("exact", "brute", "rerank")
# Margin of a right answer between equally near samples of two classes.
TIE = float(np.finfo(np.float64).eps)


class TangentKNeighborsClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """k nearest neighbours in tangent distance.

    Parameters
    ----------
    n_neighbors : int, default=1
        How many neighbours vote.
    weights : {"uniform", "distance"} or callable, default="uniform"
        Weight of a neighbour's vote: one, the inverse of its distance, or a function
        from an array of distances to weights, of which one per row must be above 0.
    tangents : generator, array of shape (n_tangents, n_features) or None, default=None
        What may vary, for instance ``ImageTangents(shape=(16, 16))``; None is the
        Euclidean distance.
    sides : {"two", "x", "y", "mean", "midpoint"}, default="two"
        Which end may move: both, the sample asked about (x), the training samples (y);
        see :func:`~widemargin.metrics.tangent_distances`.
    spring : float, default=1e-5
        Cost of moving along the tangents.
    metric : "tangent" or callable, default="tangent"
        A function ``metric(X, Y) -> (n_x, n_y)`` takes the place of the tangent
        distance, for instance a ``functools.partial`` of
        :func:`~widemargin.metrics.image_distortion_distances`.
    algorithm : {"exact", "brute", "rerank"}, default="exact"
        "exact" finds the same neighbours as "brute" but computes most distances in
        `n_components` dimensions only. "rerank" computes distances to the
        `n_candidates` training samples nearest with tangents at one end (or in plain
        distance without tangents) only: it is approximate, and makes a slow `metric`
        affordable. With a `metric` of your own, or ``sides="midpoint"``, there is no
        bound to prune with and "exact" computes everything.
    n_components : int or "auto", default="auto"
        Dimensions of the lower bound of "exact"; "auto" is
        ``10 * cbrt(n_features)``. Results do not depend on it.
    n_candidates : int, default=500
        Candidates of "rerank". On USPS the two-sided nearest neighbour is among the
        first 10, 100, 500 in 94.4, 99.5, 99.95 % of the cases.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bundle_ : Bundle
        Training samples, with their frames where the search uses them: not for
        ``sides="midpoint"`` or a `metric` of your own unless it reranks.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Distances that are returned come from the explicit residual in float64, whatever
    the dtype of the samples. Equally near neighbours are ordered by index. What is
    searched, and how, is decided by `fit`; `n_neighbors`, `weights` and `n_jobs` may be
    set after it. Inside ``with widemargin.show_progress():`` a bar shows how far the
    search is.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.neighbors import TangentKNeighborsClassifier
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0]])
    >>> along_first_axis = np.array([[1.0, 0.0]])
    >>> knn = TangentKNeighborsClassifier(tangents=along_first_axis)
    >>> knn.fit(X, ["low", "high"]).predict([[50.0, 0.9]])
    array(['high'], dtype='<U4')
    """

    def __init__(
        self,
        n_neighbors: int = 1,
        *,
        weights: str | Callable = "uniform",
        tangents: Any = None,
        sides: str = "two",
        spring: float = 1e-5,
        metric: str | Callable = "tangent",
        algorithm: str = "exact",
        n_components: int | str = "auto",
        n_candidates: int = 500,
        n_jobs: int | None = None,
    ):
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.tangents = tangents
        self.sides = sides
        self.spring = spring
        self.metric = metric
        self.algorithm = algorithm
        self.n_components = n_components
        self.n_candidates = n_candidates
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Remember the training samples and compute their frames.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Factor on the vote of each sample; samples of weight 0 are left out.

        Returns
        -------
        self : TangentKNeighborsClassifier
            The fitted classifier.
        """
        self._check_parameters()
        X, codes, self.classes_, self._votes = check_training(self, X, y, sample_weight)
        check_at_most("n_neighbors", self.n_neighbors, len(X), "the training samples")
        self._squares = not callable(self.metric) or self.algorithm == "rerank"
        if self._squares:
            check_squares(X)
        self._codes = codes
        labels = self.classes_[codes]
        with FitTasks(self, 2, X=X, y=labels, sample_weight=self._votes) as tasks:
            with tasks.parts("tangents"):
                self.tangents_ = fit_tangents(self.tangents, X, labels)
                own = self._prunes() or self.algorithm == "rerank"
                self.bundle_ = as_bundle(
                    X, self.tangents_ if own else None, n_jobs=self.n_jobs
                )
            warn_of_blanks(self.bundle_, self.sides)
            with tasks.parts("projections"):
                self._search: Any = self._choose_search()
        return self

    def _prunes(self):
        """Whether the distance is one of the frames of both samples."""
        return self.metric == "tangent" and self.sides != "midpoint"

    def _choose_search(self):
        if self._prunes():
            return self._searcher(self.sides, self.algorithm)
        candidates = None
        if self.algorithm == "rerank":
            # Candidates for another metric come from the cheapest tangent distance.
            candidates = self._searcher("y", "brute")
        metric = self.metric
        if not callable(metric):
            metric = partial(
                tangent_distances, tangents=self.tangents_, sides=self.sides,
                spring=self.spring, squared=False,
            )  # fmt: skip
        return MetricSearch(self.bundle_, metric, candidates, self.n_candidates)

    def _check_parameters(self):
        check_distance_parameters(self.sides, self.spring)
        check_option("algorithm", self.algorithm, ALGORITHMS)
        check_count("n_neighbors", self.n_neighbors)
        check_count("n_candidates", self.n_candidates)
        if self.n_components != "auto":
            check_count("n_components", self.n_components)
        if not callable(self.weights):
            check_option("weights", self.weights, ("uniform", "distance"))
        if not callable(self.metric):
            check_option("metric", self.metric, ("tangent",))

    def _searcher(self, sides, algorithm):
        k: Any = self.n_components
        if k == "auto":
            k = round(10 * np.cbrt(self.bundle_.n_features))
        return TangentSearch(
            self.bundle_,
            sides=sides,
            spring=self.spring,
            algorithm=algorithm,
            n_components=k,
            n_candidates=self.n_candidates,
            n_jobs=self.n_jobs,
        )

    def kneighbors(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest training samples.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Samples asked about; None means the training samples, none of which is
            then a neighbour of itself.
        n_neighbors : int, default=None
            How many; None is the parameter of the classifier.
        return_distance : bool, default=True
            Return distances too.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Not squared, ascending; only with `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors)
            Positions among the training samples of positive weight.
        """
        check_is_fitted(self)
        own = X is None
        there = len(self.bundle_) - own
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        k = check_at_most("n_neighbors", k, there, "the training samples there are")
        X = None if own else self._samples(X)
        found = [
            self._search.query(queries, k + own, self.n_jobs)
            for _, queries in self._some_after_another(X, "neighbours")
        ]
        distances, indices = (
            np.concatenate(parts) for parts in zip(*found, strict=True)
        )
        if own:
            distances, indices = _without_self(distances, indices)
        return (distances, indices) if return_distance else indices

    def _samples(self, X):
        X = validate_data(self, X, dtype=FLOATS, order="C", reset=False)
        if self._squares:
            check_squares(X)
        # Frames have the dtype of their points; the finer one serves both ends.
        return X.astype(np.result_type(X, self.bundle_.points), copy=False)

    def _some_after_another(self, X, what):
        """Cut queries, None for the training samples, into bundles; with their rows.

        Frames are made when they are needed, so that memory does not grow with X.
        """
        n = len(self.bundle_) if X is None else len(X)
        tangents = self.tangents_ if self._search.needs_frames else None
        for rows in announced(batched_slices(n, self._search.max_queries()), what):
            if X is None:
                yield rows, self.bundle_[rows]
            else:
                yield rows, as_bundle(X[rows], tangents, n_jobs=self.n_jobs)

    def _scores(self, X):
        """Class scores: shares of the vote, and less than any vote for nearness."""
        distances, indices = self.kneighbors(X)
        weights = vote_weights(self.weights, distances) * self._votes[indices]
        return shares_of_votes(weights, self._codes[indices], len(self.classes_))

    def predict_proba(self, X: Any) -> NDArray:
        """Shares of the vote.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
        """
        return self._scores(X)[0]

    def decision_function(self, X: Any) -> NDArray:
        """Shares of the vote, with less than a vote for the nearest of equals.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes) or, for two classes, (n_queries,)
        """
        shares, nearness = self._scores(X)
        return as_decision(shares + 1e-9 * nearness)

    def predict(self, X: Any) -> NDArray:
        """Class of the most votes; among equals the class of the nearest neighbour.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries,)
        """
        shares, nearness = self._scores(X)
        return self.classes_[(shares + 1e-9 * nearness).argmax(axis=1)]

    def margins(self, X: Any, y: Any) -> NDArray:
        """One signed number per sample, positive where the prediction is right.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.
        y : array-like of shape (n_queries,)
            Their labels.

        Returns
        -------
        ndarray of shape (n_queries,)
            For one neighbour the relative margin of the squared distances to the
            nearest right and the nearest wrong training sample that the search looks
            at, in [-1, 1]; for more the share of the right class less the best other
            share. Of equally near samples the first decides, as in :meth:`predict`: a
            right answer then has the smallest margin above 0.
        """
        check_is_fitted(self)
        codes = class_codes(y, self.classes_)
        if self.n_neighbors > 1 or len(self.classes_) == 1:
            shares, nearness = self._scores(X)
            return score_margins(shares + 1e-9 * nearness, codes)
        X = self._samples(X)
        out = np.empty(len(X))
        for rows, queries in self._some_after_another(X, "margins"):
            d_plus, d_minus, right = self._search.right_and_wrong(
                queries, codes[rows], self._codes, self.n_jobs
            )
            margin = relative_margin(d_plus**2, d_minus**2)
            # Equal distances: the first of them decides, by the least there is.
            out[rows] = np.where(right, np.maximum(margin, TIE), np.minimum(margin, 0))
        return out


def _without_self(distances, indices):
    """Drop each training sample from its own neighbours, or else the farthest."""
    n, k = indices.shape
    own = indices == np.arange(n)[:, None]
    own[~own.any(axis=1), k - 1] = True
    return distances[~own].reshape(n, k - 1), indices[~own].reshape(n, k - 1)
