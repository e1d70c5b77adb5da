"""Bound on the error against the number of prototypes, next to the error itself.

More prototypes leave fewer samples below the margin and enlarge the family of
classifiers; a margin bound adds both, and its minimum says how many prototypes the
sample pays for. A bound of 100 % or more says nothing, which is where most bounds are:
what can still be compared is where they turn. Arrays have shape (n_counts,).

Reference: K. Crammer, R. Gilad-Bachrach, A. Navot, N. Tishby, Margin analysis of the
LVQ algorithm, Theorem 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from widemargin.inspection.models import fitted
from widemargin.inspection.style import GREY, INK, RED, legend, own_axes

__all__ = ["BoundDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class BoundDisplay:
    """Bound on the error, and the error, against the number of prototypes.

    Parameters
    ----------
    counts : array-like of shape (n_counts,)
        Numbers of prototypes.
    bounds : array-like of shape (n_counts,)
        Bound on the error at each, as a fraction; may exceed 1.
    errors : array-like of shape (n_counts,), default=None
        Error on held-out samples at each, as a fraction.
    train_errors : array-like of shape (n_counts,), default=None
        Error on the training samples at each, as a fraction.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from widemargin.inspection import BoundDisplay
    >>> display = BoundDisplay(
    ...     counts=[10, 20, 40], bounds=[3.1, 2.4, 2.9], errors=[0.12, 0.08, 0.07])
    >>> display.plot().ax_.get_xlabel()
    'prototypes'
    """

    counts: ArrayLike
    bounds: ArrayLike
    errors: ArrayLike | None = None
    train_errors: ArrayLike | None = None

    @classmethod
    def from_estimator(
        cls,
        estimators: Iterable[Any],
        X: Any,
        y: ArrayLike,
        *,
        theta: float,
        X_test: Any = None,
        y_test: ArrayLike | None = None,
        ax: Any = None,
        **bound_options: Any,
    ) -> "BoundDisplay":
        """Compute the margin bounds of fitted classifiers and plot them.

        Parameters
        ----------
        estimators : sequence of fitted classifiers
            With ``prototypes_`` and ``margin_bound(X, y, theta=...)``, of different
            numbers of prototypes.
        X : array-like of shape (n_samples, n_features)
            The training samples.
        y : array-like of shape (n_samples,)
            Their labels.
        theta : float
            Margin at which the bound is taken.
        X_test, y_test : array-like, default=None
            Held-out samples and their labels.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **bound_options : dict
            Passed on to ``margin_bound``.

        Returns
        -------
        display : BoundDisplay
            The drawn display.
        """
        try:
            models = list(() if isinstance(estimators, str) else estimators)
        except TypeError:
            raise ValueError(
                "estimators must be fitted classifiers, a list of them; got "
                f"{estimators!r}."
            ) from None
        if not models:
            raise ValueError("estimators is empty; at least one is needed.")
        if (X_test is None) != (y_test is None):
            raise ValueError("Give both of X_test and y_test, or neither.")
        bounds = [
            fitted(model, "margin_bound", "estimators")(
                X, y, theta=theta, **bound_options
            )
            for model in models
        ]
        held_out = None
        if X_test is not None:
            held_out = [1 - model.score(X_test, y_test) for model in models]
        return cls(
            counts=[
                len(fitted(model, "prototypes_", "estimators")) for model in models
            ],
            bounds=[getattr(bound, "value", bound) for bound in bounds],
            errors=held_out,
            train_errors=[1 - model.score(X, y) for model in models],
        ).plot(ax)

    def plot(self, ax: Any = None, **line_options: Any) -> "BoundDisplay":
        """Draw the bound and the errors over a logarithmic number of prototypes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **line_options : dict
            Passed on to all lines.

        Returns
        -------
        self : BoundDisplay
            The display itself.
        """
        counts = np.asarray(self.counts, dtype=float)
        order = np.argsort(counts, kind="stable")
        ax = own_axes(type(self).__name__, ax)
        for name, values, style in (
            ("bound", self.bounds, {"color": RED, "marker": "o"}),
            ("held-out error", self.errors, {"color": INK, "marker": "s"}),
            (
                "training error",
                self.train_errors,
                {"color": GREY, "marker": "^", "linestyle": (0, (5, 1.5))},
            ),
        ):
            if values is None:
                continue
            heights = 100 * np.asarray(values, dtype=float)
            if heights.shape != counts.shape:
                raise ValueError(
                    f"There are {len(counts)} counts but {heights.size} values of the "
                    f"{name}; one for each count is needed."
                )
            options = {"linewidth": 1.6, "markersize": 5, "label": name} | style
            ax.plot(counts[order], heights[order], **(options | line_options))
        ax.set_xscale("log")
        ax.set_xticks(np.unique(counts), [f"{count:g}" for count in np.unique(counts)])
        ax.xaxis.set_minor_locator(_no_ticks())
        # Zero errors have no place on a logarithmic axis, but on this one.
        ax.set_yscale("symlog", linthresh=1.0)
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.set_ylim(bottom=0)
        highest = 100 * float(np.max(np.asarray(self.bounds, dtype=float)))
        if highest >= 100:
            ax.set_ylim(top=3 * highest)
            ax.axhspan(100, ax.get_ylim()[1], color=GREY, alpha=0.15, linewidth=0)
            ax.annotate(
                "a bound up here says nothing",
                (0.99, 100),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=INK,
            )
        ax.set(xlabel="prototypes", ylabel="error, %")
        legend(ax, fontsize=9)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
