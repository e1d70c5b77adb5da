r"""How sure answers are, what refusing the unsure ones buys, and what is guaranteed.

At m the cumulative distribution of margins is the fraction of samples whose margin is
at most m, so its height at 0 is the error and its height at θ the fraction of
θ-mistakes. A learner that pushes margins over θ makes a curve that is flat up to θ and
steep there.

Samples are refused in the order of rising confidence; the error-reject curve shows the
error among those that are left against the fraction refused. Of two classifiers with
equal error the one that knows better where it errs falls faster.

A bound on the error stands against the number of prototypes. More prototypes leave
fewer samples below the margin and enlarge the family of classifiers; a margin bound
adds both, and its minimum says how many prototypes the sample pays for. A bound of 100
% or more says nothing, which is where most bounds are: what can still be compared is
where they turn.

References: F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
Figures 5, 6 and, with its axes exchanged, 8; K. Crammer, R. Gilad-Bachrach, A. Navot,
N. Tishby, Margin analysis of the LVQ algorithm, Theorem 1. Margins have shape
(n_samples,), curves (n_thresholds,), bounds (n_counts,).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import as_floats, check_flag, check_number
from widemargin._core.confidence import answers_of, decisive, margins_of
from widemargin._core.decisions import (
    are_alike,
    as_labels,
    from_decision,
    score_margins,
)
from widemargin._core.samples import check_orderable
from widemargin.inspection import style
from widemargin.inspection.models import (
    by_name,
    check_name,
    common_theta,
    fitted,
)
from widemargin.margins import ErrorRejectCurve, aurc_score, error_reject_curve


@dataclass(kw_only=True, eq=False, repr=False)
class MarginDistributionDisplay:
    """Cumulative distribution of margins, at one or several stages.

    Parameters
    ----------
    margins : dict of str to array-like of shape (n_samples,)
        Margins by name of the stage or set, positive where the answer is right.
    theta : float, default=None
        Margin that was aimed at, drawn as a line.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    lines_ : list of matplotlib lines
        One per stage.

    Examples
    --------
    >>> from widemargin.inspection import MarginDistributionDisplay
    >>> display = MarginDistributionDisplay(
    ...     margins={"start": [-0.2, 0.1, 0.4], "end": [0.1, 0.3, 0.35]}, theta=0.3)
    >>> display.plot().ax_.get_ylabel()
    'samples with a smaller margin, %'
    """

    margins: Mapping[str, ArrayLike]
    theta: float | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        name: str | None = None,
        theta: float | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "MarginDistributionDisplay":
        """Compute the margins of labelled samples and plot them.

        Parameters
        ----------
        estimator : fitted classifier or mapping of str to fitted classifier
            A mapping draws one curve for each: stages of one training, or rivals. The
            margins are those of :func:`widemargin.margins.margins_of`.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels.
        name : str, default=None
            Name of the curve; None is the name of the class.
        theta : float, default=None
            Margin that was aimed at; None takes that of the estimators, where they
            have one and the same.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : MarginDistributionDisplay
            The drawn display.
        """
        stages = by_name(estimator, name)
        margins = {key: margins_of(model, X, y) for key, model in stages.items()}
        if theta is None:
            theta = common_theta(stages.values())
        return cls(margins=margins, theta=theta).plot(ax, **options)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike | Mapping[str, ArrayLike],
        *,
        classes: ArrayLike | None = None,
        name: str | None = None,
        theta: float | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "MarginDistributionDisplay":
        """Compute margins from the scores of a classifier and plot them.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_score : array-like of shape (n_samples,) or (n_samples, n_classes), or \
                mapping of str to such
            Scores, larger for likelier; one per sample for the second of two classes.
        classes : array-like of shape (n_classes,), default=None
            Labels of the columns; None is the sorted labels of `y_true`.
        name : str, default=None
            Name of the curve.
        theta : float, default=None
            Margin that was aimed at.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : MarginDistributionDisplay
            The drawn display.
        """
        if not isinstance(y_score, Mapping):
            y_score = {check_name(name): y_score}
        margins = {
            str(key): margins_of_scores(y_true, scores, classes)
            for key, scores in y_score.items()
        }
        return cls(margins=margins, theta=theta).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, ordered: bool = True, **line_options: Any
    ) -> "MarginDistributionDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        ordered : bool, default=True
            Whether the curves are stages of one thing, drawn in greys and the last in
            red, or rivals, each in a colour of its own.
        **line_options : dict
            Passed on to the lines.

        Returns
        -------
        self : MarginDistributionDisplay
            The display itself.
        """
        check_flag("ordered", ordered)
        if self.theta is not None:
            check_number("theta", self.theta, otherwise="None or ")
        ax = style.own_axes(type(self).__name__, ax)
        colours = style.stage_colours(len(self.margins))
        self.lines_ = []
        for k, (name, margins) in enumerate(self.margins.items()):
            drawn = {"color": colours[k]} if ordered else style.series_style(k)
            x, height = cumulative(margins)
            options = {"linewidth": 1.8, "label": name} | drawn | line_options
            self.lines_ += ax.step(x, 100 * height, where="post", **options)
        ax.axvline(0, color=style.GREY, linewidth=0.8, zorder=0)
        if self.theta is not None:
            ax.axvline(
                self.theta, color=style.ink(), linewidth=0.8, linestyle=":", zorder=0
            )
            ax.annotate(
                f"θ = {self.theta:g}",
                # Shares grow to the right: the corner below is free.
                (self.theta, 0.0),
                xycoords=("data", "axes fraction"),
                xytext=(4, 3),
                textcoords="offset points",
                va="bottom",
                color=style.ink(),
            )
        ax.set(xlabel="margin", ylabel="samples with a smaller margin, %")
        ax.set_ylim(-1.2, 102)
        if any(self.margins):
            style.legend(ax, loc="best")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def cumulative(margins: ArrayLike) -> tuple[NDArray, NDArray]:
    """Return sorted margins and the fraction at or below each, from 0 at the first."""
    ordered = np.sort(np.asarray(margins, dtype=float))
    if ordered.ndim != 1 or not ordered.size or np.isnan(ordered).any():
        raise ValueError(
            "margins must be one number per sample and no NaN, shape (n_samples,); got "
            f"shape {np.shape(margins)}."
        )
    height = np.arange(1, len(ordered) + 1) / len(ordered)
    return np.insert(ordered, 0, ordered[0]), np.insert(height, 0, 0.0)


def margins_of_scores(
    y: ArrayLike, scores: ArrayLike, classes: ArrayLike | None = None
) -> NDArray:
    """Score of the right class less the best of the others.

    One score per sample is that of the second of two classes.
    """
    values = as_floats("y_score", scores)
    if values.ndim not in (1, 2):
        raise ValueError(
            "y_score must be one number per sample or one per sample and class; got "
            f"shape {values.shape}."
        )
    truth = as_labels("y_true", y)
    if len(values) != len(truth):
        raise ValueError(
            f"y_true has {len(truth)} samples but y_score has {len(values)}."
        )
    if classes is None:
        labels = np.unique(check_orderable(truth, "y_true"))
    else:
        labels = as_labels("classes", classes)
    n_classes = 2 if values.ndim == 1 else values.shape[1]
    if len(labels) != n_classes:
        raise ValueError(
            f"y_score has scores of {n_classes} classes but there are {len(labels)} "
            "labels; give classes, in the order of the columns."
        )
    right = truth[:, None] == labels[None, :]
    if not right.any(axis=1).all():
        unknown = np.unique(truth[~right.any(axis=1)])[:5].tolist()
        raise ValueError(f"y_true holds labels that have no score: {unknown}.")
    return score_margins(from_decision(values), right.argmax(axis=1))


@dataclass(kw_only=True, eq=False, repr=False)
class ErrorRejectDisplay:
    """Error among the answered against the fraction refused.

    Parameters
    ----------
    curves : dict of str to ErrorRejectCurve
        By name of the classifier, from :func:`widemargin.margins.error_reject_curve`.
    areas : dict of str to float, default=None
        Areas under the risk-coverage curves, :func:`widemargin.margins.aurc_score`, by
        the same names; the legend has them.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    lines_ : list of matplotlib lines
        One per classifier.

    Examples
    --------
    >>> from widemargin.inspection import ErrorRejectDisplay
    >>> display = ErrorRejectDisplay.from_predictions(
    ...     [0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.7, 0.1, 0.7], name="mine")
    >>> display.curves["mine"].error_rate
    array([0.25, 0.  , 0.  , 0.  ])
    """

    curves: Mapping[str, ErrorRejectCurve]
    areas: Mapping[str, float] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "ErrorRejectDisplay":
        """Compute the curves of fitted classifiers on labelled samples and plot them.

        Parameters
        ----------
        estimator : fitted classifier or mapping of str to fitted classifier
            One curve for each, by :func:`widemargin.margins.confidence_of`.
        X : array-like of shape (n_samples, n_features)
            Samples the classifiers have not seen.
        y : array-like of shape (n_samples,)
            Labels.
        name : str, default=None
            Name of the curve; None is the name of the class.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : ErrorRejectDisplay
            The drawn display.
        """
        curves, areas = {}, {}
        for key, model in by_name(estimator, name).items():
            answers, sure, _ = answers_of(*decisive(model, X))
            truth = as_labels("y", y, len(answers))
            if not are_alike(truth, answers):
                raise ValueError(
                    f"y must hold labels like the answers, which are {answers.dtype}; "
                    f"got {truth.dtype}."
                )
            curves[key] = error_reject_curve(truth, answers, sure)
            areas[key] = aurc_score(truth, answers, sure)
        return cls(curves=curves, areas=areas).plot(ax, **options)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike | Mapping[str, ArrayLike],
        confidence: ArrayLike | Mapping[str, ArrayLike],
        *,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "ErrorRejectDisplay":
        """Compute the curves from answers and how sure they are, and plot them.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_pred : array-like of shape (n_samples,) or mapping of str to such
            Answers, of one classifier or by name.
        confidence : array-like of shape (n_samples,) or mapping of str to such
            Larger for surer; with the same names as `y_pred`.
        name : str, default=None
            Name of the curve.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : ErrorRejectDisplay
            The drawn display.
        """
        several = isinstance(y_pred, Mapping)
        called = check_name(name)
        answers: Any = y_pred if several else {called: y_pred}
        sure: Any = confidence if several else {called: confidence}
        if not isinstance(sure, Mapping) or set(sure) != set(answers):
            raise ValueError(
                "confidence must be a mapping with the same names as y_pred: "
                f"{', '.join(map(str, answers))}."
            )
        curves = {
            str(key): error_reject_curve(y_true, answers[key], sure[key])
            for key in answers
        }
        areas = {
            str(key): aurc_score(y_true, answers[key], sure[key]) for key in answers
        }
        return cls(curves=curves, areas=areas).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, max_rejection: float = 1.0, **line_options: Any
    ) -> "ErrorRejectDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        max_rejection : float, default=1.0
            Largest fraction refused that is shown. Near 1 an error is a ratio of few
            samples.
        **line_options : dict
            Passed on to the lines.

        Returns
        -------
        self : ErrorRejectDisplay
            The display itself.
        """
        ax = style.own_axes(type(self).__name__, ax)
        self.lines_ = []
        for k, (name, curve) in enumerate(self.curves.items()):
            # The last point refuses everything, where there is no error to speak of.
            refused = np.asarray(curve.rejection_rate)[:-1]
            error = np.asarray(curve.error_rate)[:-1]
            shown = refused <= max_rejection
            label = str(name)
            if self.areas and name in self.areas and label:
                label += f" (AURC {100 * self.areas[name]:.2g} %)"
            drawn = {"linewidth": 1.8, "label": label} | style.series_style(k)
            drawn |= line_options
            if shown.sum() == 1:
                drawn = {"marker": "o"} | drawn  # a curve of one point is not seen
            self.lines_ += ax.plot(100 * refused[shown], 100 * error[shown], **drawn)
        ax.set(xlabel="samples rejected, %", ylabel="error among the accepted, %")
        ax.set_xlim(0, 100 * max_rejection)
        style.from_zero(ax)
        if any(self.curves):
            style.legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


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
        ax = style.own_axes(type(self).__name__, ax)
        for name, values, drawn in (
            ("bound", self.bounds, {"color": style.RED, "marker": "o"}),
            ("held-out error", self.errors, {"color": style.ink(), "marker": "s"}),
            (
                "training error",
                self.train_errors,
                {"color": style.GREY, "marker": "^", "linestyle": (0, (5, 1.5))},
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
            options = {"linewidth": 1.6, "markersize": 5, "label": name} | drawn
            ax.plot(counts[order], heights[order], **(options | line_options))
        ax.set_xscale("log")
        ax.set_xticks(np.unique(counts), [f"{count:g}" for count in np.unique(counts)])
        ax.minorticks_off()
        # Zero errors have no place on a logarithmic axis, but on this one.
        ax.set_yscale("symlog", linthresh=1.0)
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.set_ylim(bottom=0)
        highest = 100 * float(np.max(np.asarray(self.bounds, dtype=float)))
        if highest >= 100:
            ax.set_ylim(top=3 * highest)
            ax.axhspan(100, ax.get_ylim()[1], color=style.GREY, alpha=0.15, linewidth=0)
            ax.annotate(
                "a bound up here says nothing",
                (0.99, 100),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=style.ink(),
            )
        ax.set(xlabel="prototypes", ylabel="error, %")
        style.legend(ax, fontsize=9)
        self.ax_, self.figure_ = ax, ax.figure
        return self
