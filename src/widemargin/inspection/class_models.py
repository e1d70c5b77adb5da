r"""Class models, drawn: who is accepted by which class, and are there as many extremes.

The acceptance plot has one dot per sample: its nonconformity to one class, and to
another, with the limits beyond which the classes refuse. Four fields are accepted by
one, by the other, by both, and by none. It is the plot of Coomans, with limits that are
exact in finite samples.

The extremes plot compares, for every alpha, how many of n samples of a class have a
p-value of at most alpha with the number that is expected, :math:`\alpha n`. A class
model that fits new samples keeps within the band, whose distribution is known.

References: D. Coomans, I. Broeckaert, Potential pattern recognition in chemical and
medical decision making, 1986; A. Pomerantsev, O. Rodionova, Concept and role of extreme
objects in PCA/SIMCA, Journal of Chemometrics 2014. Shapes: scores (n_samples, 2),
p-values (n_samples,).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from widemargin._core.checks import check_number
from widemargin._core.decisions import as_labels
from widemargin.inspection import style
from widemargin.inspection.models import fitted
from widemargin.margins import extremes_band

MARKS = ("o", "s", "^", "D", "v", "P", "X")
# Levels at which extremes are counted, at most.
LEVELS = 200


def check_class(classes: Any, label: Any) -> int:
    """Return the place of a class, or say which there are."""
    found = np.flatnonzero(np.asarray(classes) == label)
    if len(found) != 1:
        raise ValueError(
            f"classes holds {label!r}, which is none of {list(classes)[:10]}."
        )
    return int(found[0])


@dataclass(kw_only=True, eq=False, repr=False)
class AcceptanceDisplay:
    """Acceptance plot: nonconformity of samples to two classes, and their limits.

    Parameters
    ----------
    scores : array-like of shape (n_samples, 2)
        Nonconformity of each sample to both classes, larger for more unusual
        ones. Of a single class the second is not used, and samples stand in a row.
    limits : array-like of shape (2,)
        The largest score that each class accepts.
    y : array-like of shape (n_samples,)
        Labels; each is drawn in a colour and a mark of its own.
    names : sequence of two str
        Names of the classes on the axes.
    alpha : float, default=None
        Level of the limits, for the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from widemargin.inspection import AcceptanceDisplay
    >>> display = AcceptanceDisplay(
    ...     scores=[[1.0, 4.0], [5.0, 2.0]], limits=[2.0, 3.0], y=["a", "b"],
    ...     names=["a", "b"], alpha=0.05)
    >>> display.plot().ax_.get_xlabel()
    'nonconformity to a'
    """

    scores: ArrayLike
    limits: ArrayLike
    y: ArrayLike
    names: Any
    alpha: float | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        classes: Any = None,
        alpha: float | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "AcceptanceDisplay":
        """Score samples by the class models of a classifier and plot them.

        Parameters
        ----------
        estimator : fitted ConformalClassifier
            With samples held out or ``cv="prefit"``.
        X : array-like of shape (n_samples, n_features)
            Samples, best ones that it has not seen.
        y : array-like of shape (n_samples,)
            Labels, also of samples of no class.
        classes : pair of labels, default=None
            The two classes; None takes the first two.
        alpha : float, default=None
            Level of the limits; None is that of the classifier.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : AcceptanceDisplay
            The drawn display.
        """
        limits = fitted(estimator, "acceptance_limits", "estimator")(alpha)
        known = estimator.classes_
        pair = known[:2] if classes is None else list(classes)
        if classes is not None and len(pair) != 2:
            raise ValueError(f"classes must be two labels; got {classes!r}.")
        places = [check_class(known, label) for label in pair]
        names = [str(label) for label in pair]
        if len(places) == 1:
            places, names = places * 2, [*names, ""]
        scores = estimator._scores(estimator.estimator_, estimator._check_predict(X))
        return cls(
            scores=scores[:, places],
            limits=limits[places],
            y=as_labels("y", y, len(scores)),
            names=names,
            alpha=estimator.alpha if alpha is None else alpha,
        ).plot(ax, **options)

    def plot(self, ax: Any = None, **dot_options: Any) -> "AcceptanceDisplay":
        """Draw the samples and the limits.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **dot_options : dict
            Passed on to the dots.

        Returns
        -------
        self : AcceptanceDisplay
            The display itself.
        """
        scores, limits = np.asarray(self.scores, float), np.asarray(self.limits, float)
        y, names = np.asarray(self.y), list(self.names)
        if scores.shape != (len(y), 2) or limits.shape != (2,) or len(names) != 2:
            raise ValueError(
                "scores must have shape (n_samples, 2), with a label for each sample, "
                f"two limits and two names; got {scores.shape}, {y.shape}, "
                f"{limits.shape} and {len(names)} names."
            )
        alone = not names[1]
        ax = style.own_axes(type(self).__name__, ax)
        positive = scores.size > 0 and scores.min() > 0 and limits.min() > 0
        x, height = scores.T
        if alone:
            height = np.arange(len(scores))
        shade = {"color": style.GREY, "alpha": 0.15, "linewidth": 0, "zorder": 0}
        for k, label in enumerate(np.unique(y)):
            own = y == label
            colour = style.series_style(k)["color"]
            drawn = {"s": 22, "alpha": 0.75, "linewidths": 0, "color": colour}
            # As many colours as marks: another pair after each round of them.
            mark = MARKS[(k + k // len(MARKS)) % len(MARKS)]
            drawn |= {"marker": mark, "label": str(label)}
            ax.scatter(x[own], height[own], **(drawn | dot_options))
        # Strangers are many times farther: on a linear axis all others are one dot.
        if positive:
            ax.set_xscale("log")
            if not alone:
                ax.set_yscale("log")
        bounds = ax.get_xlim(), ax.get_ylim()
        ax.axvspan(bounds[0][0], limits[0], **shade)
        ax.axvline(limits[0], color=style.ink(), linewidth=0.9, linestyle=":")
        if not alone:
            ax.axhspan(bounds[1][0], limits[1], **shade)
            ax.axhline(limits[1], color=style.ink(), linewidth=0.9, linestyle=":")
        ax.set(xlim=bounds[0], ylim=bounds[1])
        ax.set_xlabel(f"nonconformity to {names[0]}")
        ax.set_ylabel("sample" if alone else f"nonconformity to {names[1]}")
        title = None if self.alpha is None else f"limits at α = {self.alpha:g}"
        # Beside the plot, as dots may be anywhere.
        legend = style.legend(
            ax, title=title, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9
        )
        legend.get_title().set_color(style.ink())
        legend.get_title().set_fontsize(9)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class ExtremesDisplay:
    """Extreme samples of a class, seen against expected, at every level.

    Parameters
    ----------
    p_values : mapping of str to array-like of shape (n_samples,)
        By name of the class, p-values of new samples of that class.
    n_calibration : mapping of str to int, default=None
        Calibration samples of each class, by the same names; the band of what is
        ordinary is drawn for the first.
    level : float, default=0.95
        Probability of the band, at each alpha.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    lines_ : list of matplotlib lines
        One per class.

    Examples
    --------
    >>> from widemargin.inspection import ExtremesDisplay
    >>> display = ExtremesDisplay(p_values={"coffee": [0.05, 0.4, 0.75, 1.0]})
    >>> display.plot().ax_.get_ylabel()
    'extremes seen, %'
    """

    p_values: Mapping[str, ArrayLike]
    n_calibration: Mapping[str, int] | None = None
    level: float = 0.95

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        classes: Any = None,
        level: float = 0.95,
        ax: Any = None,
        **options: Any,
    ) -> "ExtremesDisplay":
        """Compute p-values of new samples of their own classes and plot them.

        Parameters
        ----------
        estimator : fitted ConformalClassifier
            The class models.
        X : array-like of shape (n_samples, n_features)
            Samples that it has not seen.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : sequence of labels, default=None
            Classes to draw; None draws all that `y` has.
        level : float, default=0.95
            Probability of the band.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : ExtremesDisplay
            The drawn display.
        """
        p = fitted(estimator, "p_values", "estimator")(X)
        truth = as_labels("y", y, len(p))
        known = estimator.classes_
        wanted = (
            [c for c in known if (truth == c).any()] if classes is None else classes
        )
        places = {str(label): check_class(known, label) for label in wanted}
        return cls(
            p_values={name: p[truth == known[c], c] for name, c in places.items()},
            n_calibration={
                name: int(estimator.n_calibration_[c]) for name, c in places.items()
            },
            level=level,
        ).plot(ax, **options)

    def plot(self, ax: Any = None, **line_options: Any) -> "ExtremesDisplay":
        """Draw the shares of extremes over alpha.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **line_options : dict
            Passed on to the lines.

        Returns
        -------
        self : ExtremesDisplay
            The display itself.
        """
        level = check_number("level", self.level, above=0, below=1)
        if not self.p_values:
            raise ValueError("p_values is empty; samples of one class are needed.")
        ax = style.own_axes(type(self).__name__, ax)
        alphas = np.arange(1, LEVELS) / LEVELS
        first = next(iter(self.p_values))
        if self.n_calibration is not None and first in self.n_calibration:
            n = len(np.asarray(self.p_values[first]))
            band = extremes_band(self.n_calibration[first], n, alphas, level=level)
            ax.fill_between(
                100 * alphas,
                *(100 * end / n for end in band),
                color=style.GREY,
                alpha=0.25,
                linewidth=0,
                step="mid",
                label=f"{100 * level:g} % of such plots ({first}, {n} samples)",
            )
        ax.plot([0, 100], [0, 100], color=style.GREY, linewidth=0.8, zorder=0)
        self.lines_ = []
        for k, (name, values) in enumerate(self.p_values.items()):
            p = np.sort(np.asarray(values, float))
            if p.ndim != 1 or not p.size or not ((p >= 0) & (p <= 1)).all():
                raise ValueError(
                    f"p_values of {name!r} must be numbers between 0 and 1, one per "
                    f"sample; got shape {np.shape(values)}."
                )
            seen = np.searchsorted(p, alphas + 1e-9, "right") / len(p)
            drawn = {"linewidth": 1.8, "label": name} | style.series_style(k)
            self.lines_ += ax.step(
                100 * alphas, 100 * seen, where="mid", **(drawn | line_options)
            )
        ax.set(xlabel="extremes expected, α in %", ylabel="extremes seen, %")
        ax.set_xlim(0, 100)
        ax.set_ylim(0, 102)
        ax.set_aspect("equal")
        style.legend(ax, fontsize=9, loc="upper left")
        self.ax_, self.figure_ = ax, ax.figure
        return self
