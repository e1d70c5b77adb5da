"""The margin bound of LVQ beside the held-out error, over the number of prototypes.

Theorem 1 of Crammer et al. adds a fraction of small margins, which falls with more
prototypes, and a complexity, which grows with them: there is a best number in between.
Its value means little (it takes some 10^8 samples to fall below 1), its shape does.

Crammer, Gilad-Bachrach, Navot and Tishby, "Margin analysis of the LVQ algorithm",
NIPS 2002, section 4.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from widemargin.margins import lvq_margin_bound


def bound_curve(
    estimator: Any,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    counts: Sequence[int] = (1, 2, 3, 4, 6, 8, 12, 16),
    *,
    theta: float = 0.02,
    delta: float = 0.05,
    formula: str = "pairwise",
    n_samples: int | None = None,
) -> dict[str, np.ndarray]:
    """Bound of Theorem 1 and held-out error against the number of prototypes.

    Parameters
    ----------
    estimator : prototype classifier
        Cloned and fitted with each number of prototypes.
    X, y : arrays
        Training samples and labels.
    X_test, y_test : arrays
        Held-out samples and labels.
    counts : sequence of int
        Prototypes per class.
    theta : float, default=0.02
        Margin of the bound, as a fraction of the radius of the samples.
    delta : float, default=0.05
        Probability with which the bound may fail.
    formula : {"printed", "pairwise"}, default="pairwise"
        Reading of the VC dimension, see
        :func:`widemargin.margins.lvq_margin_bound`.
    n_samples : int, optional
        Size of the training set to state the bound for, with the fraction of small
        margins that was found; by default the size there is, at which the bound
        exceeds 1 and grows with every prototype.

    Returns
    -------
    dict of ndarray
        ``"counts"``, ``"bound"``, its first term ``"alpha"``, ``"train error"`` and
        ``"test error"``.

    Examples
    --------
    >>> from widemargin.prototypes import GLVQClassifier
    >>> from widemargin.reproduce.lvq_bound import bound_curve
    >>> from widemargin.reproduce.margin_lvq import toy_problem
    >>> curve = bound_curve(GLVQClassifier(random_state=0), *toy_problem(300),
    ...                     *toy_problem(300, random_state=1), counts=[1, 2])
    >>> bool(curve["bound"][0] < curve["bound"][1])
    True
    """
    curve: dict[str, list[float]] = {
        name: [] for name in ("counts", "bound", "alpha", "train error", "test error")
    }
    for count in counts:
        model = clone(estimator).set_params(prototypes_per_class=count).fit(X, y)
        options: dict[str, Any] = {"theta": theta, "delta": delta, "formula": formula}
        bound = model.margin_bound(X, y, **options)
        if n_samples is not None:
            labels = model.prototype_labels_
            bound = lvq_margin_bound(
                alpha=bound.alpha,
                n_samples=n_samples,
                radius=1.0,
                n_features=X.shape[1],
                prototypes_per_class=[int(np.sum(labels == c)) for c in model.classes_],
                **options,
            )
        errors = 1 - model.score(X, y), 1 - model.score(X_test, y_test)
        row = (count, bound.value, bound.alpha, *errors)
        for name, value in zip(curve, row, strict=True):
            curve[name].append(value)
    return {name: np.array(values) for name, values in curve.items()}


def plot_bound_curve(curve: dict[str, np.ndarray], ax: Any = None) -> Any:
    """Draw the bound and the held-out error, each with its smallest point marked.

    Parameters
    ----------
    curve : dict of ndarray
        What `bound_curve` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes, logarithmic in both directions.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from widemargin.reproduce.lvq_bound import plot_bound_curve
    >>> curve = {"counts": [1, 2, 3], "bound": [0.9, 0.5, 0.7],
    ...          "test error": [0.3, 0.2, 0.25]}
    >>> plot_bound_curve(curve).get_xlabel()
    'prototypes per class'
    """
    import matplotlib.pyplot as plt

    if ax is None:
        ax = plt.subplots()[1]
    for name, colour in (("bound", "C3"), ("test error", "C0")):
        values = np.asarray(curve[name])
        best = int(np.argmin(values))
        label = "held-out error" if name == "test error" else "bound"
        ax.plot(curve["counts"], values, color=colour, marker=".", label=label)
        ax.plot(
            curve["counts"][best], values[best], "o", color=colour, ms=9, mfc="none"
        )
    ax.set(xscale="log", yscale="log", xlabel="prototypes per class")
    ax.set_xticks(curve["counts"], [str(k) for k in curve["counts"]], minor=False)
    ticks = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
    low, high = ax.get_ylim()
    ax.set_yticks([t for t in ticks if low <= t <= high])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.set_ylabel("probability of an error")
    ax.legend(frameon=False)
    return ax
