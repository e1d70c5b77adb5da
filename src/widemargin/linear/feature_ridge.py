r"""Ridge regressions on several views of a sample, which answer with their mean.

A view is a block of features. Divided by their spread, the features of each of V views
meet one ridge regression per class, and the class of the largest mean score is the
answer:

.. math:: s_c(x) = \frac1V \sum_v \Bigl( b_c + \sum_{j \in v} B_{cj}
          \frac{f_j(x) - \mu_j}{\sigma_j + \bar\sigma_v/10} \Bigr).

What the regressions say of training samples that are left out, in closed form, chooses
the penalty of each. It also makes differences of scores log-odds, see
:mod:`~widemargin.linear.log_odds`; B and b are kept times these slopes.

Which penalty is best is not known for sure. A subclass may have the regressions of
other penalties beside it, in the order p = 0, 1, ..., each with its own log-odds. Then
probabilities are means, :math:`\pi_p` the share of each,

.. math:: s_c(x) = \log \sum_p \pi_p\,
          \frac{e^{s_{pc}(x)}}{\sum_k e^{s_{pk}(x)}} .

Where they disagree, the answer is less sure. Shapes: features (n, F), coef_ (K, F), or
(P, K, F) for several penalties.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from widemargin._core.classifier import SoftClassifier
from widemargin._core.params import Positive, parameters
from widemargin._core.samples import Samples
from widemargin.linear.log_odds import fit_log_odds
from widemargin.linear.ridge import Ridge, fit_ridge

# Features that hardly vary are not blown up: this share of the mean spread is added.
# Of left-out training samples of fourteen sets of signals 6.0, 5.8, 5.8 and 6.2 % are
# wrong with .01, .1, .3 and 1.
FLOOR = 0.1
# The share of the best penalty. Of .5 to .9 none is better than another by more than
# chance (benchmarks/signals.md).
SHARE = 0.8


@parameters
class FeatureRidge(SoftClassifier):
    """Base of the classifiers by ridge regression: a subclass gives `_features`."""

    margin_unit = "log-odds"
    # Penalties of other regressions, in units of the mean square of the rows.
    _beside: ClassVar[tuple[float, ...]] = ()

    _: KW_ONLY
    alpha: Positive | Literal["auto"] = "auto"
    class_weight: Any = None

    @abstractmethod
    def _features(self, X: Any) -> NDArray:
        """Compute the features of samples, view by view."""

    def _fit_planes(
        self, views: list[NDArray], samples: Samples, weights: NDArray
    ) -> list[list[float]]:
        """Fit the regressions, as log-odds; return the penalties of every view."""
        is_class = samples.codes[:, np.newaxis] == np.arange(len(self.classes_))
        targets = np.where(is_class, 1.0, -1.0)
        if len(self.classes_) == 2:
            targets = targets[:, 1:]
        chosen = isinstance(self.alpha, str)
        alpha = None if chosen else float(self.alpha)
        beside = self._beside if chosen else ()
        means, spreads, found = [], [], []
        for Z in views:
            mean = weights @ Z / weights.sum()
            centred = Z - mean
            spread = np.sqrt(weights @ centred**2 / weights.sum())
            spread += FLOOR * spread.mean() or 1.0
            means.append(mean)
            spreads.append(spread)
            found.append(fit_ridge(centred / spread, targets, weights, alpha, beside))
        planes = [
            self._log_odds(ridges, spreads, samples.codes, weights)
            for ridges in zip(*found, strict=True)
        ]
        coef, intercept = (np.array(part) for part in zip(*planes, strict=True))
        dtype = samples.X.dtype
        several = bool(self._beside)
        self.coef_ = (coef if several else coef[0]).astype(dtype)
        self.intercept_ = intercept if several else intercept[0]
        # Kept apart from the intercept, beside which a float32 loses its digits.
        self.center_ = np.concatenate(means).astype(dtype)
        self.temperature_ = 1.0
        return [[ridge.alpha for ridge in ridges] for ridges in found]

    def _log_odds(
        self,
        views: Sequence[Ridge],
        spreads: list[NDArray],
        codes: NDArray,
        weights: NDArray,
    ) -> tuple[NDArray, NDArray]:
        """Coefficients (K, F) and intercepts of regressions, times their slopes."""
        scores = np.mean([ridge.left_out for ridge in views], axis=0)
        if scores.shape[1] < len(self.classes_):
            scores = np.hstack([-scores, scores])
        slopes, offsets = fit_log_odds(scores, codes, weights)
        if len(self.classes_) == 2:
            slopes, offsets = slopes.sum(keepdims=True), np.diff(offsets)
        coef = [r.coef / spread for r, spread in zip(views, spreads, strict=True)]
        slopes_of_rows = slopes[:, np.newaxis] / len(views)
        return (
            slopes_of_rows * np.hstack(coef),
            slopes * views[0].intercept + offsets,
        )

    def _class_scores(self, X: Any) -> NDArray:
        features = self._features(X) - self.center_
        if self.coef_.ndim == 2:
            return _of_classes(features @ self.coef_.T + self.intercept_)
        values = features @ self.coef_.transpose(0, 2, 1)
        values = values + self.intercept_[:, np.newaxis]
        if len(values) == 1:
            return _of_classes(values[0])
        log_P = log_softmax(_of_classes(values), axis=2)
        log_shares = np.log(shares_of_planes(len(values)))
        return logsumexp(log_P + log_shares[:, np.newaxis, np.newaxis], axis=0)


def shares_of_planes(n_planes: int) -> NDArray:
    """Return what the regression of the best penalty, then of others, counts."""
    if n_planes == 1:
        return np.ones(1)
    return np.append(SHARE, np.full(n_planes - 1, (1 - SHARE) / (n_planes - 1)))


def _of_classes(values: NDArray) -> NDArray:
    """(..., n_classes) scores of values that two classes share."""
    if values.shape[-1] > 1:
        return values
    return np.concatenate([-values, values], axis=-1) / 2
