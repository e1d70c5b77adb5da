r"""The members of the product, and what each says of images that are left out.

* "distortion": bumps in a distance that lets every pixel move a little, of the
  references that are nearest by their features;
* "features": kernel ridge regression on features;
* "discriminant": linear discriminant analysis of features, where a class has two;
* "values", "discriminant_values": the same two on the values of pixels;
* "pixels": bumps in the tangent distance of pixels.

A member is fitted to all labelled images of a view, and at once says log-posteriors of
some of them, each as if it and its copies were not there. One number, the sharpness of
its bumps or of its scores, is what classifies best these left-out images; a usual value
stays unless another is clearly better.

Weights of the members minimise the cross-entropy of their product on the same images,

.. math:: \sum_i -\log p(c_i \mid x_i)
   + \sum_m \frac{(w_m - u_m)^2}{2 \sigma_m^2}, \qquad
   p(c \mid x) \propto \prod_m p_m(c \mid x)^{w_m}, \quad w \ge 0,

which is convex; u and σ are what is known before. Shapes: log-posteriors
(n, K), weights (m,).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from widemargin._compute.machine import batched_slices
from widemargin._core.arrays import to_device, to_numpy
from widemargin._core.decisions import brier_scores
from widemargin._core.select import select
from widemargin.fewshot.bumps import log_densities
from widemargin.fewshot.discriminant import fit_discriminant
from widemargin.fewshot.kernel_ridge import KernelRidge, fit_kernel_ridge
from widemargin.fewshot.looks import Looks
from widemargin.fewshot.views import View
from widemargin.metrics import (
    TangentMetric,
    image_distortion_distances,
    listed_distortion_distances,
)
from widemargin.tangents import Bundle, ImageTangents


class Queries:
    """Images that are asked about: as they came, and as views see them, each once.

    Slow distances to them are computed on `device`, if there is one.
    """

    def __init__(self, images: NDArray, device: Any = None) -> None:
        self.images, self.device = images, device
        self.seen = cache(partial(View.seen, images=images))


# Of bumps, over the median distance of an image to its nearest, and of differences of
# scores, which are at most about 1. The usual ones come first: on MNIST's training
# images the product errs 15.6 to 17.2 % at one label a class, 3.8 to 4.8 at four and
# 2.4 to 2.7 at ten between gamma 2 and 16, sharpness 6 and 24.
GAMMAS = (8.0, 1.0, 2.0, 4.0, 16.0, 32.0, 64.0)
SHARPNESS = (24.0, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 48.0)
# Of discriminants, over the median gap between the two best classes.
GAPS = (4.0, 0.5, 1.0, 2.0, 8.0, 16.0)
# Gamma where no image can be left out: scores are better then, and count more.
UNTOLD_GAMMA = 4.0
# No member rules a class out alone.
LEAST_LOG = float(np.log(1e-4))


@dataclass(frozen=True)
class Labels:
    """Codes and weights of the labelled images, and which of them are left out.

    `groups` are those of equal images, which leave together; `asked` are rows.
    """

    codes: NDArray
    weights: NDArray
    groups: NDArray
    asked: NDArray
    n_classes: int

    def share(self, rows: NDArray) -> NDArray:
        """Weights of images, one on average."""
        return self.weights[rows] / (self.weights[rows].mean() if len(rows) else 1.0)

    def sharpness(
        self, usual: Sequence[float], said: Callable
    ) -> tuple[float, NDArray]:
        """Return the value whose log-posteriors `said(value)` are best, and these."""
        if not len(self.asked):
            return usual[0], np.empty((0, self.n_classes))
        truth, weights = self.codes[self.asked], self.weights[self.asked]

        def mistakes(value: float) -> NDArray:
            return brier_scores(np.exp(said(value)), truth)

        found = select(usual, mistakes, weights, by_size=False)
        return found, said(found)


class Ridge:
    """Kernel ridge regression on the features of a view."""

    def __init__(self, view: View, labels: Labels) -> None:
        self.view = view
        fit = fit_kernel_ridge(view.Z, labels.codes, labels.weights, labels.n_classes)
        self.fit: KernelRidge = fit
        scores = np.zeros((view.n, labels.n_classes))
        scores[fit.images] = fit.left_out
        rest = np.setdiff1d(labels.asked, fit.images)
        for rows in batched_slices(len(rest), 256):
            at = rest[rows]
            scores[at] = fit.scores(view.squares_of(at))
        scores = scores[labels.asked]
        self.sharpness, self.left_out = labels.sharpness(
            SHARPNESS, lambda s: log_softmax(s * scores, axis=1)
        )

    def log_posteriors(self, queries: Queries) -> NDArray:
        """(q, K) of queries."""
        squares = queries.seen(self.view).squares
        return log_softmax(self.sharpness * self.fit.scores(squares), axis=1)


class Means:
    """Linear discriminant analysis of the labelled images of a view."""

    def __init__(self, view: View, labels: Labels) -> None:
        self.view = view
        Z, of = view.Z[: view.n], (labels.codes, labels.weights, labels.n_classes)
        self.fit = fit_discriminant(Z, *of)
        scores = self.fit.left_out[labels.asked]
        best = np.sort(scores, axis=1)[:, -2:]
        gaps = best[:, -1] - best[:, 0]
        self.unit = float(np.median(gaps)) or 1.0
        self.sharpness, self.left_out = labels.sharpness(
            GAPS, lambda s: log_softmax(s / self.unit * scores, axis=1)
        )

    def log_posteriors(self, queries: Queries) -> NDArray:
        """(q, K) of queries."""
        scores = self.fit.scores(queries.seen(self.view).features)
        return log_softmax(self.sharpness / self.unit * scores, axis=1)


class Bumps:
    """Base of the densities: what they share once distances are there."""

    def _sharpen(
        self, labels: Labels, distances: NDArray, codes: NDArray, logs: NDArray
    ) -> None:
        """Choose gamma by the distances of the images that are left out."""
        nearest = distances.min(axis=1, initial=np.inf)
        nearest = nearest[np.isfinite(nearest) & (nearest > 0)]
        self.unit = float(np.median(nearest)) if len(nearest) else 1.0
        self.gamma, self.left_out = labels.sharpness(
            GAMMAS if len(labels.asked) else (UNTOLD_GAMMA,),
            lambda g: self._logs(distances, codes, logs, g, labels.n_classes),
        )

    def _logs(
        self,
        distances: NDArray,
        codes: NDArray,
        logs: NDArray,
        g: float,
        n_classes: int,
    ) -> NDArray:
        found = log_densities(distances, codes, logs, g / self.unit, n_classes)
        return log_softmax(found, axis=1)


class Distortion(Bumps):
    """Bumps of the nearest references by their features, in a slow distance."""

    def __init__(
        self, view: View, labels: Labels, metric: Any, n_candidates: int, n_jobs: Any
    ) -> None:
        self.view, self.metric, self.n_jobs = view, metric, n_jobs
        self.n_candidates, self.n_classes = n_candidates, labels.n_classes
        self.images = view.images
        self.codes = np.tile(labels.codes, view.n_versions)
        self.logs = np.tile(
            np.log(labels.weights / labels.weights.max()), view.n_versions
        )
        # Without an image to leave out, how far classes are apart is the unit.
        asked = labels.asked if len(labels.asked) else np.arange(view.n)
        squares = view.squares_of(asked)
        groups = np.tile(labels.groups, view.n_versions)
        squares[groups[asked][:, np.newaxis] == groups] = np.inf
        distances, places = self.near(view.images[asked], squares)
        self._sharpen(labels, distances, self.codes[places], self.logs[places])

    def near(
        self, images: NDArray, squares: NDArray, device: Any = None
    ) -> tuple[NDArray, NDArray]:
        """Distances (q, m) to the references of least `squares`, and their places."""
        m = min(self.n_candidates, squares.shape[1])
        places = np.argpartition(squares, m - 1, axis=1)[:, :m]
        find = partial(self.metric, n_jobs=self.n_jobs, device=device)
        distances = find(images, self.images, places)
        there = np.isfinite(np.take_along_axis(squares, places, axis=1))
        return np.where(there, distances, np.inf), places

    def log_posteriors(self, queries: Queries) -> NDArray:
        """(q, K) of queries."""
        images, _, squares = queries.seen(self.view)
        distances, places = self.near(images, squares, queries.device)
        codes, logs = self.codes[places], self.logs[places]
        return self._logs(distances, codes, logs, self.gamma, self.n_classes)


class Pixels(Bumps):
    """Bumps in the tangent distance of images as they came."""

    def __init__(
        self, looks: Looks, images: NDArray, labels: Labels, n_jobs: Any
    ) -> None:
        moves = None if looks.given is None else ImageTangents(looks.shape)
        self.metric = TangentMetric(moves).check().fit(images)
        self.bundle: Bundle = self.metric.bundle(images, n_jobs=n_jobs)
        self.codes, self.n_classes = labels.codes, labels.n_classes
        self.n_jobs = n_jobs
        self.logs = np.log(labels.weights / labels.weights.max())
        asked = labels.asked if len(labels.asked) else np.arange(len(images))
        distances = self._distances(self.bundle[asked])
        same = labels.groups[asked][:, np.newaxis] == labels.groups
        distances[same] = np.inf
        self._sharpen(labels, distances, self.codes, self.logs)

    def _distances(self, queries: Bundle, device: Any = None) -> NDArray:
        # The labelled images go where the queries are.
        own = self.bundle.to(device)
        found = self.metric.squared_distances(queries, own, n_jobs=self.n_jobs)
        return to_numpy(found).astype(float)

    def log_posteriors(self, queries: Queries) -> NDArray:
        """(q, K) of queries as they came."""
        images = to_device(queries.images, queries.device)
        bundle = self.metric.bundle(images, n_jobs=self.n_jobs)
        distances = self._distances(bundle, queries.device)
        return self._logs(distances, self.codes, self.logs, self.gamma, self.n_classes)


class ListedMetric:
    """Distances to lists of references, by the distortion model or a user's function.

    The model sees all channels as one, their mean, and pixels move by a tenth of a
    side.
    """

    def __init__(self, metric: Any, shape: tuple[int, int, int]) -> None:
        self.metric, self.shape = metric, shape

    def __call__(
        self,
        X: NDArray,
        Y: NDArray,
        listed: NDArray,
        *,
        n_jobs: Any = None,
        device: Any = None,
    ) -> NDArray:
        """(q, m) distances of every row of X to its list of rows of Y.

        A device computes those of all pairs, which it does faster than it gathers.
        """
        if callable(self.metric):
            rows = [self.metric(X[i : i + 1], Y[at])[0] for i, at in enumerate(listed)]
            return np.array(rows, float).reshape(listed.shape)
        height, width, channels = self.shape
        if channels > 1:
            X, Y = (A.reshape(len(A), -1, channels).mean(axis=2) for A in (X, Y))
        side = min(height, width)
        options: dict[str, Any] = {
            "shape": (height, width), "gradients": "normalised", "penalty": 0.033,
            "window": max(1, round(side / 10)),
            "patch": min(2, max(1, round(side / 14))),
        }  # fmt: skip
        if device is None:
            found = listed_distortion_distances(X, Y, listed, n_jobs=n_jobs, **options)
            return found.astype(float)
        pairs = to_device(X, device), to_device(Y, device)
        every = to_numpy(image_distortion_distances(*pairs, **options))
        return np.take_along_axis(every, listed, axis=1).astype(float)


def product_of(logs: Sequence[NDArray], weights: NDArray) -> NDArray:
    """Weighted sum of log-posteriors, each at least that of 1e-4."""
    return sum(
        w * np.maximum(one, LEAST_LOG) for w, one in zip(weights, logs, strict=True)
    )


def fit_weights(
    logs: Sequence[NDArray],
    codes: NDArray,
    of_images: NDArray,
    usual: NDArray,
    spread: NDArray,
) -> NDArray:
    """Weights of the members, as images that are left out tell."""
    parts, at = np.maximum(np.stack(list(logs)), LEAST_LOG), np.arange(len(codes))
    own = parts[:, at, codes]

    def loss(weights: NDArray) -> tuple[float, NDArray]:
        found = log_softmax(np.tensordot(weights, parts, 1), axis=1)
        expected = np.einsum("nk,mnk->mn", np.exp(found), parts)
        apart = (weights - usual) / spread
        value = -(of_images @ found[at, codes]) + apart @ apart / 2
        return float(value), (expected - own) @ of_images + apart / spread

    bounds = [(0, None)] * len(parts)
    return minimize(loss, usual, jac=True, bounds=bounds, method="L-BFGS-B").x
