r"""Climbing the weighted mean margin: one step, then more weight on small margins.

H = sum_i gamma_i mu_i is climbed along its gradient by [C; T], the frames are made
orthonormal again, and the weights of the samples with mu_i < theta grow by k.

* ``FixedRate``: the step eta times the plain gradient, as in Figure 2 of the paper,
  where the derivative by T_k is c alpha_k delta, the part inside the model included.
  A step after which H has collapsed is taken back and halved, with one warning.
* ``AutoRate``: a step without unit. With s_C = sum |c| and s_T = sum |c| |alpha|^2 / m
  (means over all models), C moves by eta G_C / s_C and T by eta G_T / s_T: eta = 1
  would about take a model to the weighted mean of its residuals. The step grows a
  little whenever H has grown and is taken back and halved whenever it has not, as
  Figure 1 asks of every hypothesis.

Reference: Aiolli and Sperduti, Figures 1 and 2.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin.margins import margin_reweight
from widemargin.prototypes.affine import retract
from widemargin.prototypes.margin_passes import Pass

START, GROWTH = 0.2, 1.05
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75)
# Rates at which the models cannot move any more.
SMALLEST = 1e-7


class Reweighting(NamedTuple):
    """The rule by which samples with small margins gain weight."""

    theta: float
    k: Any
    n_steps: int
    enabled: bool
    sample_weight: np.ndarray

    def next(self, weights: np.ndarray, margins: np.ndarray) -> np.ndarray:
        """Weights of the next round."""
        if not self.enabled:
            return weights
        return margin_reweight(
            weights, margins, self.theta, self.k, sample_weight=self.sample_weight
        )


def paper_direction(found: Pass, stack: np.ndarray) -> np.ndarray:
    """Plain gradient; that of the tangents keeps its part inside the model."""
    direction = found.gradient.copy()
    inside = np.matmul(found.moments[:, 1:, 1:], stack[:, 1:])
    direction[:, 1:] += inside
    return direction


def scaled_direction(found: Pass) -> np.ndarray:
    """Gradient in units of the models: centroids and tangents each by their mass."""
    centroids, tangents = found.sizes[:, 0], found.sizes[:, 1:]
    direction = np.zeros_like(found.gradient)
    if centroids.mean() > 0:
        direction[:, 0] = found.gradient[:, 0] / centroids.mean()
    if tangents.size and tangents.mean() > 0:
        direction[:, 1:] = found.gradient[:, 1:] / tangents.mean()
    return direction


class MarginAscent:
    """Models, weights and margins, one step at a time.

    `stack` (K, 1 + m, d) is the current hypothesis, `found` its pass; both are always
    of the last step that was not taken back.
    """

    def __init__(
        self,
        run_pass: Any,
        stack: np.ndarray,
        rule: Reweighting,
        learning_rate: float | str,
    ) -> None:
        self.run_pass, self.rule = run_pass, rule
        self.adapts = isinstance(learning_rate, str)
        self.rate = START if self.adapts else float(learning_rate)
        self.weights = rule.sample_weight.astype(float)
        self.stack, self.gamma = stack, self.weights / self.weights.sum()
        self.found: Pass = run_pass(stack, self.gamma)
        self.H = self._mean_margin(self.found)
        self._since_reweight = 0
        self._next_weights: np.ndarray | None = None
        self._warned = False

    def step(self) -> bool:
        """Climb once; return whether the step was kept."""
        if self._next_weights is None:
            self._since_reweight += 1
            self._next_weights = self.weights
            if self._since_reweight >= self.rule.n_steps:
                self._since_reweight = 0
                self._next_weights = self.rule.next(self.weights, self.found.margins)
        proposal = self._propose()
        gamma = self._next_weights / self._next_weights.sum()
        found = self.run_pass(proposal, gamma) if proposal is not None else None
        if proposal is None or found is None or self._fails(found):
            self.rate /= 2
            return False
        self.stack, self.found = proposal, found
        self.weights, self.gamma = self._next_weights, gamma
        self._next_weights = None
        self.H = self._mean_margin(found)
        if self.adapts:
            self.rate *= GROWTH
        return True

    @property
    def is_stuck(self) -> bool:
        """Whether no step is small enough to climb."""
        return self.adapts and self.rate < SMALLEST

    def _mean_margin(self, found: Pass) -> float:
        return float(self.gamma @ found.margins)

    def _propose(self) -> np.ndarray | None:
        """Models after the step; None where numbers ran away."""
        if self.adapts:
            direction = scaled_direction(self.found)
        else:
            direction = paper_direction(self.found, self.stack)
        with np.errstate(over="ignore", invalid="ignore"):
            proposal = self.stack + self.rate * direction
        if not np.isfinite(proposal).all() or np.abs(proposal).max() > 1e100:
            self._say_diverged()
            return None
        proposal[:, 1:] = retract(proposal[:, 1:])
        return proposal

    def _fails(self, found: Pass) -> bool:
        # Same weights before and after: H of the step, not of the re-weighting.
        after = self._mean_margin(found)
        if self.adapts:
            return not after >= self.H
        # A rate is not wrong because H dips; it is when most of the way down to the
        # worst margin, -1, is gone in one step.
        if after >= self.H - 0.5 * (1 + self.H):
            return False
        self._say_diverged()
        return True

    def _say_diverged(self) -> None:
        if not self.adapts and not self._warned:
            self._warned = True
            warnings.warn(
                f"learning_rate={self.rate:g} diverges on these data: the step is "
                "taken back and halved. Use learning_rate='auto' or a smaller rate.",
                ConvergenceWarning,
                stacklevel=2,
            )


def summary(
    ascent: MarginAscent, sample_weight: np.ndarray, theta: float
) -> dict[str, Any]:
    """One row of a training history: the current models in a few numbers."""
    mu = ascent.found.margins
    share = sample_weight / sample_weight.sum()
    return {
        "loss": float(share @ np.maximum(0, theta - mu)),
        "H": ascent.H,
        "n_theta_mistakes": int(np.count_nonzero(mu < theta)),
        "train_error": float(share @ (mu <= 0)),
        "margin_quantiles": np.quantile(mu, QUANTILES),
        "rate": ascent.rate,
        "weights": ascent.gamma,
    }


class Watch:
    """Tells when a value has stopped falling."""

    def __init__(self, tol: float, patience: int) -> None:
        self.tol, self.patience = tol, patience
        self.best, self.waited = np.inf, 0

    def stalls(self, value: float) -> bool:
        """Whether no new value has been lower by `tol` for `patience` values."""
        self.waited += 1
        if np.isinf(self.best) or value < self.best - self.tol * abs(self.best):
            self.best, self.waited = value, 0
        return self.waited >= self.patience
