r"""A watch over a guarantee, drawn: bounds on the error, and the evidence against it.

Above, the error of the labelled answers and its bounds, which hold at all times at
once, beside the error that is guaranteed. Below, the money of the bettors on a
logarithmic axis, :math:`\log_{10} M_n`: one bets that the error is larger than
guaranteed, one that samples have changed. Either may ever reach 1 / delta with
probability delta, if it is wrong. See :mod:`widemargin.margins.monitoring`. Curves have
shape (n_points,).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from widemargin._core.checks import check_number
from widemargin.inspection import style


@dataclass(kw_only=True, eq=False, repr=False)
class PromiseMonitorDisplay:
    """Bounds on the error of a watched classifier, and the evidence of a change.

    Parameters
    ----------
    labelled : array-like of shape (n_points,)
        Answers with a label, at each point.
    error : array-like of shape (n_points,)
        Share of them that was wrong.
    lower, upper : array-like of shape (n_points,)
        Bounds on the error.
    error_evidence : array-like of shape (n_points,)
        Natural logarithm of the money against the guarantee.
    watched : array-like of shape (n_samples,)
        Samples watched, at each point of the next.
    shift_evidence : array-like of shape (n_samples,)
        Natural logarithm of the money against samples being exchangeable.
    max_error : float
        Error that is guaranteed.
    delta : float
        Probability of a false alarm.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (2,)
        The errors, and the evidence.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> from widemargin.inspection import PromiseMonitorDisplay
    >>> display = PromiseMonitorDisplay(
    ...     labelled=[100, 200], error=[0.02, 0.04], lower=[0.0, 0.01],
    ...     upper=[0.09, 0.08], error_evidence=[-0.5, -0.2], watched=[100, 200],
    ...     shift_evidence=[0.1, 3.5], max_error=0.05, delta=0.05)
    >>> display.plot().axes_[1].get_ylabel()
    'evidence'
    """

    labelled: ArrayLike
    error: ArrayLike
    lower: ArrayLike
    upper: ArrayLike
    error_evidence: ArrayLike
    watched: ArrayLike
    shift_evidence: ArrayLike
    max_error: float
    delta: float

    @classmethod
    def from_monitor(
        cls, monitor: Any, *, ax: Any = None, **options: Any
    ) -> "PromiseMonitorDisplay":
        """Plot what a monitor has seen so far.

        Parameters
        ----------
        monitor : fitted PromiseMonitor
            The monitor.
        ax : matplotlib Axes, default=None
            Axes of a grid, which are divided; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : PromiseMonitorDisplay
            The drawn display.
        """
        if not hasattr(monitor, "error_bounds_"):
            raise ValueError(
                "monitor must be a PromiseMonitor whose fit was called; got "
                f"{monitor!r:.200}."
            )
        labelled, error, lower, upper, against = monitor._error_curve.columns(5)
        watched, shift = monitor._shift_curve.columns(2)
        return cls(
            labelled=labelled,
            error=error,
            lower=lower,
            upper=upper,
            error_evidence=against,
            watched=watched,
            shift_evidence=shift,
            max_error=monitor.max_error_,
            delta=monitor.delta,
        ).plot(ax, **options)

    def plot(self, ax: Any = None, **line_options: Any) -> "PromiseMonitorDisplay":
        """Draw both panels.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes of a grid, which are divided; None makes a figure.
        **line_options : dict
            Passed on to the lines.

        Returns
        -------
        self : PromiseMonitorDisplay
            The display itself.
        """
        check_number("max_error", self.max_error, above=0, below=1)
        check_number("delta", self.delta, above=0, below=1)
        outer, grid = style.panels(type(self).__name__, ax, (2, 1), (6.4, 5.6))
        above, below = grid[:, 0]
        for panel in (above, below):
            style.tidy(panel)
        labelled = np.asarray(self.labelled, float)
        band = above.fill_between(
            labelled,
            100 * np.asarray(self.lower, float),
            100 * np.asarray(self.upper, float),
            color=style.GREY,
            alpha=0.3,
            linewidth=0,
            label=f"bounds, {100 * (1 - self.delta):g} %",
        )
        band.set_zorder(0)
        options = {"linewidth": 1.8} | line_options
        above.plot(
            labelled,
            100 * np.asarray(self.error, float),
            **({"color": style.ink(), "label": "error so far"} | options),
        )
        above.axhline(
            100 * self.max_error,
            color=style.RED,
            linewidth=1,
            linestyle=(0, (5, 1.5)),
            label="guaranteed",
        )
        above.set_ylabel("wrong answers, %")
        above.set_ylim(0, 100 * min(1.0, max(5 * self.max_error, self._highest())))
        style.legend(above, loc="upper right", fontsize=9)
        tens = np.log(10)
        for k, (name, x, values) in enumerate(
            (
                ("answers are wrong too often", labelled, self.error_evidence),
                ("samples have changed", self.watched, self.shift_evidence),
            )
        ):
            below.plot(
                x,
                np.asarray(values, float) / tens,
                **(style.series_style(k) | {"label": name} | options),
            )
        alarm = -np.log10(self.delta)
        below.axhline(alarm, color=style.ink(), linewidth=0.8, linestyle=":")
        below.annotate(
            "alarm",
            (1.0, alarm),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color=style.ink(),
        )
        # A shift that is clear has evidence of hundreds of digits: the alarm is what
        # counts.
        low, high = below.get_ylim()
        below.set_ylim(max(low, -2.0), np.clip(high, 2 * alarm, 3 * alarm))
        below.yaxis.get_major_locator().set_params(integer=True)
        below.yaxis.set_major_formatter(lambda value, _: f"{10.0**value:,g}")
        below.set(xlabel="samples watched, answers labelled", ylabel="evidence")
        style.legend(below, loc="upper left", fontsize=9)
        # Where it came to an alarm, once, is said by a mark on the line.
        for k, (x, values) in enumerate(
            ((labelled, self.error_evidence), (self.watched, self.shift_evidence))
        ):
            raised = np.flatnonzero(np.asarray(values, float) >= alarm * tens)[:1]
            below.plot(
                np.asarray(x, float)[raised],
                [alarm] * len(raised),
                color=style.series_style(k)["color"],
                marker="o",
            )
        longest = max([1.0, *labelled[-1:], *np.asarray(self.watched, float)[-1:]])
        for panel in (above, below):
            panel.set_xlim(0, longest)
        above.tick_params(labelbottom=False)
        self.axes_, self.figure_ = np.array([above, below]), outer.figure
        return self

    def _highest(self) -> float:
        """Largest error drawn once a few labels are there."""
        error = np.asarray(self.error, float)
        return 1.5 * float(error[len(error) // 10 :].max(initial=0.0))
