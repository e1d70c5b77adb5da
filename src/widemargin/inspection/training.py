r"""How a training went: errors and losses by pass, weights of the samples by round.

Quantities of one unit share a panel: errors in per cent (a score is drawn as the error
1 - score), every other quantity by itself. Several estimators, with re-weighting and
without for example, share the panels.

Sample weights show on whom a re-weighting dwells: each curve is one round, the samples
sorted by weight, against their weight relative to the mean, :math:`N \gamma_i`. It
starts flat at 1. If the set of θ-mistakes settles, it becomes a step: N/|S_M| on the
mistakes S_M, 0 elsewhere.

Reference: F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
Figures 4 and 7. Histories have one number per pass, weights shape (n_samples,), one
array per round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import as_floats, check_number
from widemargin.inspection import style
from widemargin.inspection.models import by_name, fitted
from widemargin.margins import margin_reweight

_USUAL = ("error", "score", "loss", "objective")


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingCurveDisplay:
    """What an estimator recorded while training, pass by pass.

    Parameters
    ----------
    histories : dict of str to dict of str to array-like of shape (n_passes,)
        By name of the estimator, then of the quantity. Names that end in "error" or
        "score" are drawn as errors in per cent.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn; divided, if there are several panels.
    axes_ : ndarray of matplotlib Axes of shape (1, n_panels)
        The panels.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> from widemargin.inspection import TrainingCurveDisplay
    >>> display = TrainingCurveDisplay(histories={
    ...     "mine": {"train_error": [0.3, 0.1], "validation_score": [0.6, 0.8]}})
    >>> display.plot().ax_.get_ylabel()
    'error, %'
    """

    histories: Mapping[str, Mapping[str, Any]]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        keys: Sequence[str] | None = None,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "TrainingCurveDisplay":
        """Plot the ``history_`` of fitted estimators.

        Parameters
        ----------
        estimator : fitted estimator or mapping of str to fitted estimator
            With ``history_``: a dict of lists, a list of dicts, or a list of losses.
        keys : sequence of str, default=None
            Quantities to draw. None draws errors, scores, losses and objectives, or
            where there are none of these, all numbers.
        name : str, default=None
            Name of the estimator; None is the name of its class.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : TrainingCurveDisplay
            The drawn display.
        """
        histories = {
            key: select(as_columns(fitted(model, "history_")), keys)
            for key, model in by_name(estimator, name).items()
        }
        return cls(histories=histories).plot(ax, **options)

    def plot(self, ax: Any = None, **line_options: Any) -> "TrainingCurveDisplay":
        """Draw one panel per unit.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure. Divided if there are several panels.
        **line_options : dict
            Passed on to the lines.

        Returns
        -------
        self : TrainingCurveDisplay
            The display itself.
        """
        units = list(
            dict.fromkeys(_unit(key) for one in self.histories.values() for key in one)
        )
        if not units:
            raise ValueError("histories holds no quantity to draw.")
        if len(units) == 1:
            self.ax_ = style.own_axes(type(self).__name__, ax)
            self.axes_ = np.array([[self.ax_]])
        else:
            size, inches = (1, len(units)), (4.2 * len(units), 3.6)
            self.ax_, self.axes_ = style.panels(
                type(self).__name__, ax, size, inches, wspace=0.25
            )
        for panel, unit in zip(self.axes_[0], units, strict=True):
            self._draw(panel, unit, line_options)
        self.figure_ = self.ax_.figure
        return self

    def _draw(self, panel: Any, unit: str, line_options: dict[str, Any]) -> None:
        style.tidy(panel)
        alone = len(self.histories) == 1
        several = any(
            sum(_unit(key) == unit for key in history) > 1
            for history in self.histories.values()
        )
        for i, (name, history) in enumerate(self.histories.items()):
            keys = [key for key in history if _unit(key) == unit]
            for j, key in enumerate(keys):
                drawn = style.series_style(j)
                if not alone:
                    # The colour says which estimator, the dashes which quantity.
                    drawn = {
                        "color": style.SERIES[i % len(style.SERIES)],
                        "linestyle": style.DASHES[j],
                    }
                values = _as_drawn(key, history[key])
                words = _words(key)
                label = words if alone else f"{name}: {words}" if several else name
                options = {"linewidth": 1.6, "label": label} | drawn | line_options
                if len(values) == 1:
                    options = {"marker": "o"} | options  # else it is not seen
                panel.plot(np.arange(1, len(values) + 1), values, **options)
        panel.set(xlabel="pass", ylabel=unit)
        panel.xaxis.get_major_locator().set_params(integer=True)
        n_lines = len(panel.lines)
        if unit == "error, %":
            style.from_zero(panel, room=1.3 if n_lines > 2 else 1.1)
        if n_lines > 1:
            style.legend(panel, fontsize=9)


def as_columns(history: Any) -> dict[str, NDArray]:
    """Return a history as one array per quantity, numbers only."""
    if isinstance(history, Mapping):
        columns = dict(history)
    else:
        rows = list(history)
        if rows and isinstance(rows[0], Mapping):
            columns = {key: [row[key] for row in rows] for key in rows[0]}
        else:
            columns = {"loss": rows}
    kept = {}
    for key, values in columns.items():
        try:
            array = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            continue
        if array.ndim == 1 and array.size:
            kept[str(key)] = array
    return kept


def select(
    columns: dict[str, NDArray], keys: Sequence[str] | None
) -> dict[str, NDArray]:
    """Return the quantities asked for, by default the usual ones."""
    if keys is None:
        usual = {k: v for k, v in columns.items() if k.endswith(_USUAL)}
        keys = list(usual or columns)
    if isinstance(keys, str) or not isinstance(keys, Iterable) or np.ndim(keys) != 1:
        raise TypeError(f"keys must be a sequence of strings; got {keys!r}.")
    for key in keys:
        if not isinstance(key, str) or key not in columns:
            raise ValueError(
                f"history_ has no numbers called {key!r}; keys can be "
                f"{', '.join(map(repr, columns)) or 'none, it is empty'}."
            )
    return {key: columns[key] for key in keys}


def _unit(key: str) -> str:
    if key.endswith(("error", "score")):
        return "error, %"
    return key.replace("_", " ")


def _words(key: str) -> str:
    if key.endswith("score"):
        key = key.removesuffix("score") + "error"
    return key.replace("_", " ")


def _as_drawn(key: str, values: Any) -> NDArray:
    numbers = np.asarray(values, dtype=float)
    if key.endswith("error"):
        return 100 * numbers
    return 100 * (1 - numbers) if key.endswith("score") else numbers


@dataclass(kw_only=True, eq=False, repr=False)
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

    weights: Mapping[str, ArrayLike]

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
                f"estimator: {type(estimator).__name__} kept no weights; fit it with "
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
        weight_gain: Any = 1.0,
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
        weight_gain : float, "ratio" or callable, default=1.0
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
                weights[-1]
                if done
                else margin_reweight(weights[-1], row, theta, weight_gain)
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
        ax = style.own_axes(type(self).__name__, ax)
        colours = style.stage_colours(len(self.weights))
        self.lines_ = []
        ax.axhline(1, color=style.GREY, linewidth=0.8, zorder=0)
        for colour, (name, weights) in zip(colours, self.weights.items(), strict=True):
            relative = relative_weights(weights)
            share = 100 * np.arange(len(relative) + 1) / len(relative)
            options = {"linewidth": 1.8, "color": colour, "label": name} | line_options
            heights = np.append(relative, relative[-1])
            self.lines_ += ax.step(share, heights, where="post", **options)
        ax.set(xlabel="samples, heaviest first, %", ylabel="weight / mean weight")
        ax.set_xlim(0, 100)
        style.from_zero(ax)
        style.legend(ax)
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
