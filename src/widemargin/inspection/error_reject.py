"""Error-reject curves: what refusing the unsure samples buys.

Samples are refused in the order of rising confidence; the curve shows the error among
those that are left against the fraction refused. Of two classifiers with equal error
the one that knows better where it errs falls faster.

Reference: F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
Figure 8, whose axes are the other way round. Curves have shape (n_thresholds,).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from widemargin._core.confidence import answers_of
from widemargin._core.decisions import as_labels
from widemargin.inspection.models import by_name, check_name, without_refusals
from widemargin.inspection.style import from_zero, legend, own_axes, series_style
from widemargin.margins import ErrorRejectCurve, error_reject_curve

__all__ = ["ErrorRejectDisplay"]


class ErrorRejectDisplay:
    """Error among the answered against the fraction refused.

    Parameters
    ----------
    curves : dict of str to ErrorRejectCurve
        By name of the classifier, from :func:`widemargin.margins.error_reject_curve`.

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

    def __init__(self, *, curves: Mapping[str, ErrorRejectCurve]):
        self.curves = curves

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
        curves = {}
        for key, model in by_name(estimator, name).items():
            answers, sure, _ = answers_of(*without_refusals(model, X))
            truth = as_labels("y", y, len(answers))
            kinds = {labels.dtype.kind in "SU" for labels in (truth, answers)}
            if len(kinds) > 1 and "O" not in (truth.dtype.kind, answers.dtype.kind):
                raise ValueError(
                    f"y must hold labels like the answers, which are {answers.dtype}; "
                    f"got {truth.dtype}."
                )
            curves[key] = error_reject_curve(truth, answers, sure)
        return cls(curves=curves).plot(ax, **options)

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
        return cls(curves=curves).plot(ax, **options)

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
        ax = own_axes(type(self).__name__, ax)
        self.lines_ = []
        for k, (name, curve) in enumerate(self.curves.items()):
            # The last point refuses everything, where there is no error to speak of.
            refused = np.asarray(curve.rejection_rate)[:-1]
            error = np.asarray(curve.error_rate)[:-1]
            shown = refused <= max_rejection
            style = {"linewidth": 1.8, "label": name} | series_style(k) | line_options
            self.lines_ += ax.plot(100 * refused[shown], 100 * error[shown], **style)
        ax.set(xlabel="samples rejected, %", ylabel="error among the accepted, %")
        ax.set_xlim(0, 100 * max_rejection)
        from_zero(ax)
        if any(self.curves):
            legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
