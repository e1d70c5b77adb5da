"""A classifier that answers with the label of the nearest reference.

A model is a set of references ``p_1..p_K`` with labels and a squared distance from a
sample to each of them. Everything a user asks of a fitted model follows from that one
(n_samples, K) array: the nearest reference gives the label, and with ``D_c`` the
squared distance to the nearest reference of class c the margin of label c is

    mu_c = (min_{b != c} D_b - D_c) / (min_{b != c} D_b + D_c),

in [-1, 1] and positive exactly for the predicted class.

Probabilities are a softmax over the classes of the relative distances
``D_c / (D_first + D_second)``, the denominator being the sum of the two smallest:
between two classes their difference is the margin, and probabilities rise with margins.
Its temperature (`widemargin._core.temperature`) is fitted to samples that were held
out, or that are left out one at a time, `leave_one_out`: of the weight M that a
prototype p stands for, one part is that of a sample x which it is nearest to and of
whose class it is. Without x, the mean of the others is ``p + (p - x) / (M - 1)``, and

    D_plus becomes (M / (M - 1))^2 D_plus.

The nearest prototype of another class was pushed by x, and as in GLVQ by r = D_plus /
D_minus of what the right one was pulled:

    D_minus becomes (M / (M + r))^2 D_minus.

Crammer, Gilad-Bachrach, Navot and Tishby, "Margin analysis of the LVQ algorithm",
NIPS 2002. Subclasses say how far (`_squared_distances`) and how learned (`fit`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._compute.engines import formula
from widemargin._compute.machine import batched_slices
from widemargin._compute.nearest import class_minima, squared_distances
from widemargin._compute.progress import announced
from widemargin._compute.rounding import epsilon, rounded_down
from widemargin._core.arrays import beside, numpy_dtype, rows_at_once, to_numpy, xp_of
from widemargin._core.checks import check_number, check_size, is_auto
from widemargin._core.classifier import SoftClassifier
from widemargin._core.decisions import best_other, class_codes, relative_distances
from widemargin._core.samples import Samples
from widemargin._core.temperature import FITTED, LeftOut
from widemargin.margins import (
    MarginBound,
    hypothesis_margin,
    lvq_margin_bound,
    relative_margin,
)

# The least that the others of a prototype count, beside a sample that is left out.
LEAST_OTHERS = 0.1
# How much one that was not looked at has more of them, in mean weights.
UNSEEN = 0.5
# Relative error of squared distances that a certificate accounts for.
CERTAIN = 1e-9


def margins_of_all_labels(
    D: NDArray, margin: Callable[[NDArray, NDArray], NDArray] = relative_margin
) -> NDArray:
    """Return, for (n, n_classes) class distances, the margin each label would have."""
    return margin(D, -best_other(-D))


@formula
def point_distances(X: Any, P: NDArray, unit: NDArray | None) -> NDArray:
    """(n, K) squared distances of differences divided by the `unit`, in NumPy."""
    return squared_distances(X, P, unit=unit)


def with_mean_one(samples: Samples) -> Samples:
    """Return samples whose weights, which are relative to each other, are one."""
    return replace(samples, weights=samples.weights / samples.weights.mean())


class PrototypeClassifier(SoftClassifier):
    """Base of the classifiers by nearest reference.

    A fitted subclass has ``classes_``, ``prototypes_`` and ``prototype_labels_`` (in
    the user's terms). It may replace `_squared_distances` (another metric, other
    models than points) with `_distance_bounds`, and `_reduced` (another rule than the
    nearest reference of each class).
    """

    margin_unit = "relative"
    # The smallest distance has the largest margin.
    _predicts_the_best = True
    # What features are divided by before they are compared; None for nothing.
    scale_: NDArray | None = None
    # Whether the samples decided how many references there are.
    _counts_chosen = False
    _many: ClassVar[float] = 40
    # As how many a sample counts in the reference that it is nearest to.
    _freedom: Any = 1

    def _scaled(self, X: NDArray) -> NDArray:
        return X if self.scale_ is None else X / beside(X, self.scale_)

    def _squared_distances(self, X: NDArray) -> NDArray:
        """(n_samples, n_references) squared distances; called on bounded chunks."""
        return point_distances(X, self.prototypes_, self.scale_)

    def _distance_bounds(self, X: NDArray) -> tuple[NDArray, NDArray]:
        """Bounds below and above of the true distances to the stored references."""
        P = self.prototypes_.astype(float)
        D = squared_distances(X, P, CERTAIN / 4, self.scale_)
        return D * (1 - CERTAIN), D * (1 + CERTAIN)

    @property
    def _prototype_codes(self) -> NDArray:
        return np.asarray(np.searchsorted(self.classes_, self.prototype_labels_))

    def _reduced(self, D: NDArray) -> NDArray:
        """(n_samples, n_classes) squared distances to the classes."""
        return class_minima(D, self._prototype_codes, len(self.classes_))

    def _class_distances(self, X: NDArray) -> NDArray:
        """(n_samples, n_classes) squared distances; the smallest decides."""
        return self._reduced(self._squared_distances(X))

    def _check_predict(self, X: Any) -> NDArray:
        X = super()._check_predict(X)
        if self.scale_ is not None:
            # A feature may be small in training and huge in a query.
            xp, dtype = xp_of(X), numpy_dtype(X)
            ends = to_numpy(xp.stack([xp.min(X, axis=0), xp.max(X, axis=0)]))
            name = "X, in units of the spread of each feature,"
            check_size(ends.astype(float) / self.scale_, name, dtype=dtype)
        return X

    def _in_chunks(self, X: NDArray, function: Callable[[NDArray], NDArray]) -> NDArray:
        width = X.shape[1] + 3 * (len(self.prototype_labels_) + len(self.classes_))
        rows = batched_slices(len(X), rows_at_once(X, width))
        chunks = announced(rows, "distances")
        return np.concatenate([function(X[s]) for s in chunks])

    def _class_scores(self, X: NDArray) -> NDArray:
        """Score a class by the margin that its label would have."""
        return self._in_chunks(
            X, lambda x: margins_of_all_labels(self._class_distances(x))
        )

    def _label_margins(self, scores: NDArray) -> NDArray:
        return scores

    def predict(self, X: ArrayLike) -> NDArray:
        """Return the label of the nearest reference.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels.
        """
        samples = self._check_predict(X)
        return self.classes_[self._nearest_codes(samples)]

    def _costs(self, X: NDArray) -> tuple[NDArray, NDArray]:
        D = self._in_chunks(X, self._class_distances)
        return relative_distances(D), D.argmin(axis=1)

    def _left_out_costs(self, samples: Samples) -> LeftOut:
        """Say what samples cost: refitted where they are few, else in closed form."""
        samples = with_mean_one(samples)
        found = self._refitted_costs(samples, len(self.prototype_labels_))
        if found is not None:
            return found
        some = self._subsample(samples)
        D = self._in_chunks(some.X, self._squared_distances)
        share = len(some) / len(samples) * samples.share
        labels = self._prototype_codes
        D = leave_one_out(D, labels, some.codes, some.weights, share, self._freedom)
        return self._left_out_from(self._reduced(D), some)

    def _calibrate_on(self, samples: Samples) -> None:
        """Calibrate on training samples, each left out."""
        self._calibrate(self._left_out_costs(samples))
        self._set_temperature(samples)

    def _calibrate_now_or_later(self, samples: Samples) -> None:
        """Calibrate on training samples: later, if that takes other fits.

        Models without a part of the samples are not asked for probabilities.
        """
        n_references = len(self.prototype_labels_)
        if hasattr(self, "_is_part") or self._left_out_parts(samples, n_references):
            self._calibrate_later(samples)
        else:
            self._calibrate_on(samples)

    def _costs_of_unseen(self, samples: Samples) -> LeftOut:
        some = self._subsample(samples)
        return LeftOut(*self._costs(some.X), some.codes, some.weights)

    def _subsample(self, samples: Samples) -> Samples:
        return samples.take(np.random.RandomState(0).permutation(len(samples))[:FITTED])

    def _left_out_from(self, D: NDArray, samples: Samples) -> LeftOut:
        """Say what samples at these class distances cost."""
        answers = D.argmin(axis=1)
        return LeftOut(relative_distances(D), answers, samples.codes, samples.weights)

    def _set_temperature(self, samples: Samples) -> None:
        """Take the temperature that was given, in units of the own cost, if one was."""
        temperature = getattr(self, "temperature", "auto")
        if not isinstance(temperature, str):
            D = self._costs(samples.X)[0]
            own = D[np.arange(len(D)), samples.codes]
            own = own[np.isfinite(own)]
            T = float(temperature) * (float(own.mean()) if len(own) else 1.0)
            self.temperature_ = float(np.clip(T, 1e-300, 1e300))

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the probability of each class, by soft assignment.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Softmax over the classes of ``-D / (S temperature_)``, with D the squared
            distance to the class and S the sum of the two smallest of them: the
            largest is the class predicted, and for two classes probabilities rise with
            margins.
        """
        return super().predict_proba(X)

    def _nearest_codes(self, X: NDArray) -> NDArray:
        return self._in_chunks(X, lambda x: self._class_distances(x).argmin(axis=1))

    def _nearest_distances(self, X: NDArray) -> NDArray:
        """Distance of every sample to the nearest reference."""
        return np.sqrt(self._in_chunks(X, lambda x: self._class_distances(x).min(1)))

    def _distances_to_classes(self, X: NDArray) -> NDArray:
        """(n_samples, n_classes) distances to the nearest reference of every class."""
        D = self._in_chunks(X, self._class_distances)
        return np.sqrt(D, out=D)

    def certified_radius(self, X: ArrayLike) -> NDArray:
        """Return a radius around each sample within which its label cannot change.

        It is the hypothesis margin ``(d_minus - d_plus) / 2`` of the predicted label,
        which never exceeds the distance to the decision boundary, and at the same
        time how far every prototype may move without changing the answer. It is
        rounded down: what rounding may have added to it is taken off.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Radii, in the units of the features.
        """
        samples = self._check_predict(X)
        speed = self._lipschitz()
        error = 4 * epsilon(samples.dtype)

        def radius(x: NDArray) -> NDArray:
            below, above = self._distance_bounds(x.astype(float))
            # Answers are given in the type of the samples, and round as it does.
            near = self._reduced(above * (1 + error))
            far = self._reduced(below * (1 - error))
            rows, answers = np.arange(len(x)), near.argmin(axis=1)
            d_plus = np.sqrt(near[rows, answers])
            far[rows, answers] = np.inf
            d_minus = np.sqrt(far.min(axis=1))
            margin = hypothesis_margin(d_plus, d_minus)
            # Of a tie nothing is certain, even where no distance ever changes.
            if speed == 0:
                return np.where(margin > 0, np.inf, 0.0)
            return np.maximum(margin, 0.0) / speed

        radii = self._in_chunks(samples, radius) * (1 - 1e-12)
        return rounded_down(radii, samples.dtype)

    def _lipschitz(self) -> float:
        """How fast the distance to a reference can change with the sample."""
        return 1.0 if self.scale_ is None else (1 + 1e-9) / float(self.scale_.min())

    def _hypothesis_margins(self, X: NDArray, codes: NDArray) -> NDArray:
        def euclidean(D_plus, D_minus):
            return hypothesis_margin(np.sqrt(D_plus), np.sqrt(D_minus))

        margins = self._in_chunks(
            X, lambda x: margins_of_all_labels(self._class_distances(x), euclidean)
        )
        return margins[np.arange(len(X)), codes]

    def margin_bound(
        self, X: ArrayLike, y: ArrayLike, *, theta: float, **options: Any
    ) -> MarginBound:
        """Bound the error on new samples by the margins on the training samples.

        Theorem 1 of the reference, with this model's number of prototypes per class
        and its hypothesis margins on `X`. Distances and `theta` are divided by the
        largest norm of a sample, so that the theorem's ``theta < 1/2`` has a meaning
        whatever the units of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training samples.
        y : array-like of shape (n_samples,)
            Their labels.
        theta : float in (0, 0.5)
            Margin, as a fraction of the largest norm of a centred sample.
        **options
            ``delta``, ``formula`` and ``log_base`` of
            :func:`widemargin.margins.lvq_margin_bound`.

        Returns
        -------
        MarginBound
            The bound, whether it says anything, and its terms.

        Notes
        -----
        The theorem takes the radius of a ball that holds every sample there can be as
        known. Here radius and centre come from `X` itself, the same sample that the
        margins come from: the bound holds as stated only if no new sample lies farther
        from the mean of `X` than the farthest of `X`. Where the number of prototypes
        was chosen by the samples ("auto"), it pays for that: of ``delta`` a class that
        has k of them gets the part 1 / (k (k + 1)), which add up to one; where they
        decided against dividing features (``scale="auto"``), a half. It
        holds for prototypes that are points, compared by a distance fixed beforehand,
        where the nearest decides; other models refuse.
        """
        samples = self._check_predict(X)
        self._check_bound()
        codes = class_codes(y, self.classes_, len(samples))
        radius = float(np.sqrt(self._squared_norms(samples).max())) or 1.0
        margins = self._hypothesis_margins(samples, codes) / radius
        counts = np.bincount(self._prototype_codes, minlength=len(self.classes_))
        counts = counts.clip(min=1)
        delta = check_number("delta", options.get("delta", 0.05), above=0, below=1)
        if self._counts_chosen:
            delta *= float(np.prod(1 / (counts * (counts + 1.0))))
        if is_auto(getattr(self, "scale", None)):
            delta /= 2
        options["delta"] = delta
        return lvq_margin_bound(
            margins,
            theta=theta,
            radius=1.0,
            n_features=self._space_dimension(),
            prototypes_per_class=counts.tolist(),
            **options,
        )

    def _check_bound(self) -> None:
        """Raise where the theorem behind `margin_bound` does not hold."""
        if self.scale_ is not None:
            no_bound(
                "the features were divided by their spread in the same samples; use "
                "scale='none'"
            )

    def _space_dimension(self) -> float:
        """Dimension of the space of the distances."""
        return self.n_features_in_

    def _squared_norms(self, X: NDArray) -> NDArray:
        """Squared norms of the centred samples in the space of the distances."""
        centred = X - X.mean(axis=0)
        return np.einsum("ij,ij->i", centred, centred)


def leave_one_out(
    D: NDArray,
    labels: NDArray,
    codes: NDArray,
    weights: NDArray,
    share: float = 1.0,
    freedom: int = 1,
) -> NDArray:
    """Change (n, K) squared distances to those of prototypes that never saw the sample.

    The samples are a `share` of those that trained. A model that bends in m directions
    has a `freedom` of ``1 + m``: a sample counts as so many in it.
    """
    rows = np.arange(len(D))
    right = labels[None, :] == codes[:, None]
    nearest = np.where(right, D, np.inf).argmin(axis=1)
    wrong = np.where(right, np.inf, D).argmin(axis=1)
    mass = np.bincount(nearest, weights, len(labels))
    # Classes without prototypes, before their first batch, have nothing to leave out.
    rows = np.flatnonzero(right[rows, nearest] & ~right[rows, wrong])
    nearest, wrong, weights_of = nearest[rows], wrong[rows], weights[rows]
    D_plus, D_minus = D[rows, nearest], D[rows, wrong]
    pulled = freedom * weights_of
    # Of those that were not looked at, half a one more than of those that were.
    more = 0.0 if share == 1 else UNSEEN * float(weights.mean())
    others = weights_of + (mass[nearest] - weights_of + more) / share - pulled
    others = np.maximum(others, LEAST_OTHERS * weights_of)
    ones = np.ones_like(D_plus)
    pushed = pulled * np.divide(D_plus, D_minus, out=ones, where=D_plus < D_minus)
    rivals = np.maximum((mass[wrong] + more) / share, LEAST_OTHERS * weights_of)
    D[rows, nearest] = D_plus * (1 + pulled / others) ** 2
    D[rows, wrong] = D_minus / (1 + pushed / rivals) ** 2
    return D


def no_bound(why: str) -> NoReturn:
    """Refuse a margin bound whose theorem does not cover the model."""
    raise ValueError(
        "margin_bound holds for prototypes that are points, compared by a distance "
        f"fixed beforehand, where the nearest decides; {why}."
    )
