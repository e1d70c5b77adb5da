r"""Sample weights over the rounds of a re-weighting: on whom the learner dwells.

Each curve shows one round: the samples sorted by weight, against their weight relative
to the mean, :math:`N \gamma_i`. It starts flat at 1. If the set of θ-mistakes settles,
it becomes a step: N/|S_M| on the mistakes S_M, 0 elsewhere.

Reference: F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
Figure 7. Weights have shape (n_samples,), one array per round.
"""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import as_floats, check_number
from widemargin.inspection.style import (
    GREY,
    from_zero,
    legend,
    own_axes,
    stage_colours,
)
from widemargin.margins import margin_reweight

__all__ = ["SampleWeightDisplay"]


class SampleWeightDisplay:
    """Sorted sample weights at several rounds.

    Parameters
    ----------
    weights : dict of str to array-like of shape (n_samples,)
        Weights by name of the round; each is divided by its mean.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    lines_ : list of matplotlib lines
        One per round.

    Examples
    --------
    >>> from widemargin.inspection import SampleWeightDisplay
    >>> rounds = [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8]]
    >>> display = SampleWeightDisplay.from_margins(rounds, theta=0.3)
    >>> display.weights["round 3"]
    array([3., 1., 1.])
    """

    def __init__(self, *, weights: Mapping[str, ArrayLike]):
        self.weights = weights

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        rounds: Sequence[int] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "SampleWeightDisplay":
        """Plot the weights that a fitted re-weighting classifier recorded.

        Parameters
        ----------
        estimator : fitted classifier
            With ``history_["weights"]``, one array per round, as those trained with
            ``record_weights=True`` have; or with ``sample_weight_``, those after the
            last round.
        rounds : sequence of int, default=None
            Rounds to show, counted from 1; None chooses five or fewer, closer to each
            other at the start.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : SampleWeightDisplay
            The drawn display.
        """
        history = getattr(estimator, "history_", None)
        recorded = history.get("weights") if isinstance(history, Mapping) else None
        if recorded is not None and len(recorded):
            weights = _chosen(recorded, rounds)
        elif hasattr(estimator, "sample_weight_"):
            weights = {"last round": np.asarray(estimator.sample_weight_)}
        else:
            raise ValueError(
                f"{type(estimator).__name__} kept no weights; fit it with "
                "record_weights=True where it has that parameter, or give weights to "
                "the constructor."
            )
        return cls(weights=weights).plot(ax, **options)

    @classmethod
    def from_margins(
        cls,
        margins: ArrayLike,
        theta: float,
        *,
        k: Any = 1.0,
        rounds: Sequence[int] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "SampleWeightDisplay":
        """Compute the weights that margins of successive rounds lead to, and plot them.

        Parameters
        ----------
        margins : array-like of shape (n_rounds, n_samples)
            Margins of the training samples after each round.
        theta : float
            Samples with a margin below it gain weight.
        k : float, "ratio" or callable, default=1.0
            How much; see :func:`widemargin.margins.margin_reweight`.
        rounds : sequence of int, default=None
            Rounds to show, counted from 1, where all weights are 1; None chooses five
            or fewer.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : SampleWeightDisplay
            The drawn display.
        """
        per_round = np.atleast_2d(as_floats("margins", margins))
        if per_round.ndim != 2 or not per_round.size:
            raise ValueError(
                "margins must have shape (n_rounds, n_samples); got "
                f"{np.shape(margins)}."
            )
        theta = check_number("theta", theta)
        weights: list[NDArray] = [np.ones(per_round.shape[1])]
        for row in per_round:
            done = not (row < theta).any()
            weights.append(
                weights[-1] if done else margin_reweight(weights[-1], row, theta, k)
            )
        return cls(weights=_chosen(weights, rounds)).plot(ax, **options)

    def plot(self, ax: Any = None, **line_options: Any) -> "SampleWeightDisplay":
        """Draw the curves, the last in red.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **line_options : dict
            Passed on to the lines.

        Returns
        -------
        self : SampleWeightDisplay
            The display itself.
        """
        ax = own_axes(type(self).__name__, ax)
        colours = stage_colours(len(self.weights))
        self.lines_ = []
        ax.axhline(1, color=GREY, linewidth=0.8, zorder=0)
        for colour, (name, weights) in zip(colours, self.weights.items(), strict=True):
            relative = relative_weights(weights)
            share = 100 * np.arange(len(relative) + 1) / len(relative)
            options = {"linewidth": 1.8, "color": colour, "label": name} | line_options
            heights = np.append(relative, relative[-1])
            self.lines_ += ax.step(share, heights, where="post", **options)
        ax.set(xlabel="samples, heaviest first, %", ylabel="weight / mean weight")
        ax.set_xlim(0, 100)
        from_zero(ax)
        legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def relative_weights(weights: ArrayLike) -> NDArray:
    """Weights divided by their mean, heaviest first."""
    values = np.asarray(weights, dtype=float)
    if values.ndim != 1 or not values.size or not (values >= 0).all():
        raise ValueError(
            "weights must be non-negative numbers, one per sample; got shape "
            f"{values.shape}."
        )
    if not values.any():
        raise ValueError("weights are all zero; at least one must be positive.")
    return np.sort(values / values.mean())[::-1]


def _chosen(
    weights: Sequence[ArrayLike], rounds: Sequence[int] | None
) -> dict[str, NDArray]:
    last = len(weights)
    if rounds is None:
        rounds = np.unique(np.geomspace(1, last, 5).round().astype(int)).tolist()
    if not isinstance(rounds, Iterable) or np.ndim(rounds) != 1 or not len(rounds):
        raise ValueError(f"rounds must list numbers from 1 to {last}; got {rounds!r}.")
    for number in rounds:
        if not isinstance(number, Integral) or not 1 <= number <= last:
            raise ValueError(f"rounds must be from 1 to {last}; got {number!r}.")
    return {f"round {number}": np.asarray(weights[number - 1]) for number in rounds}
