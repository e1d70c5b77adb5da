"""Crammer et al., "Margin analysis of the LVQ algorithm" (NIPS 2002), as code.

* Figure 3: four losses of the margin.
* Figure 4: the hinge loss ``sum_i (1 - theta_i)_+`` falls while OLVQ1, which knows
  nothing of it, presents samples: three classes, 800 points, 10 prototypes.
* Section 4: few prototypes beat the nearest neighbour, and there is a best number of
  them. The bound of Theorem 1 adds a fraction of small margins, which falls with more
  prototypes, and a complexity, which grows with them. Its value means little (it takes
  some 10^8 samples to fall below 1), its shape does: the held-out error has it too.

The paper does not give its toy problem; here it is three overlapping classes of two
Gaussians each in about the unit square, where a hypothesis margin is a few hundredths.

``make reproduce PAPER=margin-lvq`` runs it.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from papers import save_figure
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_random_state

from widemargin.inspection import BoundDisplay
from widemargin.margins import (
    Exponential,
    Hinge,
    Ramp,
    hypothesis_margin,
    lvq_margin_bound,
    nearest_right_wrong,
)
from widemargin.prototypes import GLVQClassifier, LVQClassifier, MarginLVQClassifier

CENTRES = np.array(
    [[[0.2, 0.3], [0.7, 0.8]], [[0.75, 0.25], [0.3, 0.6]], [[0.5, 0.45], [0.1, 0.85]]]
)
NOISE = 0.12  # standard deviation of each Gaussian


def toy_problem(
    n_samples: int = 800, *, random_state: Any = 0
) -> tuple[NDArray, NDArray]:
    """Draw the three-class toy problem.

    Parameters
    ----------
    n_samples : int, default=800
        Number of points.
    random_state : int, RandomState instance or None, default=0
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points.
    y : ndarray of shape (n_samples,)
        Classes 0, 1, 2.

    Examples
    --------
    >>> from papers.margin_lvq import toy_problem
    >>> X, y = toy_problem(6)
    >>> X.shape, sorted(y.tolist())
    ((6, 2), [0, 0, 1, 1, 2, 2])
    """
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) % 3)
    centres = CENTRES[y, rng.randint(0, 2, n_samples)]
    return centres + NOISE * rng.standard_normal((n_samples, 2)), y


def figure_3(n_points: int = 301) -> dict[str, NDArray]:
    """Losses of the margin, as in Figure 3.

    Parameters
    ----------
    n_points : int, default=301
        Points of each curve.

    Returns
    -------
    dict of ndarray
        ``"margin"`` and one array per loss. The caption draws the broken linear loss
        with beta = 2.

    Examples
    --------
    >>> from papers.margin_lvq import figure_3
    >>> curves = figure_3(3)
    >>> curves["hinge"]
    array([2.5, 1. , 0. ])
    """
    margin = np.linspace(-1.5, 1.5, n_points)
    return {
        "margin": margin,
        "zero one": (margin < 0).astype(float),
        "hinge": Hinge().value(margin),
        "broken linear": Ramp(beta=2.0).value(margin),
        "exponential": Exponential().value(margin),
    }


def figure_4(
    n_presentations: int = 20_000, *, random_state: int = 0
) -> dict[str, NDArray]:
    """Hinge loss on the training set while OLVQ1 runs, as in Figure 4.

    Parameters
    ----------
    n_presentations : int, default=20000
        Presentations of OLVQ1.
    random_state : int, default=0
        Seed of the problem, the initial prototypes and the order.

    Returns
    -------
    dict of ndarray
        ``"presentations"``, ``"hinge"`` (the summed loss) and ``"error"`` (the
        fraction of training samples that are wrong).

    Examples
    --------
    >>> from papers.margin_lvq import figure_4
    >>> curve = figure_4(2000)
    >>> bool(curve["hinge"][-1] < curve["hinge"][0])
    True
    """
    X, y = toy_problem(random_state=random_state)
    rng = np.random.RandomState(random_state)
    counts = (4, 3, 3)
    rows = np.concatenate(
        [rng.choice(np.flatnonzero(y == c), k, False) for c, k in enumerate(counts)]
    )
    model = LVQClassifier(
        algorithm="olvq1",
        init=X[rows],
        init_labels=y[rows],
        shuffle=False,
        scale="none",
    )
    prototypes, every = X[rows], 200
    done = np.arange(0, n_presentations + 1, every)
    hinge, error = np.empty(len(done)), np.empty(len(done))
    for i in range(len(done)):
        if i > 0:
            seen = rng.randint(0, len(X), every)
            model.partial_fit(X[seen], y[seen], classes=[0, 1, 2])
            prototypes = model.prototypes_
        nearest = nearest_right_wrong(pairwise_distances(X, prototypes), y[rows], y)
        theta = hypothesis_margin(nearest.d_plus, nearest.d_minus)
        hinge[i], error[i] = Hinge().value(theta).sum(), np.mean(theta < 0)
    return {"presentations": done, "hinge": hinge, "error": error}


def prototypes_against_neighbours(
    counts: Sequence[int] = (1, 2, 4, 8, 16, 32),
    *,
    n_repeats: int = 5,
    n_test: int = 5000,
) -> dict[str, NDArray]:
    """Held-out error of a few prototypes and of the nearest of all 800 samples.

    Parameters
    ----------
    counts : sequence of int, default=(1, 2, 4, 8, 16, 32)
        Prototypes per class.
    n_repeats : int, default=5
        Training sets to average over.
    n_test : int, default=5000
        Test points of each repeat.

    Returns
    -------
    dict of ndarray
        ``"counts"``, ``"1-NN"`` (repeated for every count) and one array of mean
        errors per learner.

    Examples
    --------
    >>> from papers.margin_lvq import prototypes_against_neighbours
    >>> table = prototypes_against_neighbours([2], n_repeats=1)
    >>> bool(table["GLVQ"][0] < table["1-NN"][0])
    True
    """
    learners: dict[str, ClassifierMixin] = {
        "OLVQ1": LVQClassifier(algorithm="olvq1", max_iter=20, scale="none"),
        "margin LVQ": MarginLVQClassifier(scale="none"),
        "GLVQ": GLVQClassifier(scale="none"),
    }
    errors: dict[str, NDArray] = {
        name: np.zeros(len(counts)) for name in ("1-NN", *learners)
    }
    for seed in range(n_repeats):
        X, y = toy_problem(random_state=seed)
        X_test, y_test = toy_problem(n_test, random_state=10_000 + seed)
        errors["1-NN"] += 1 - KNeighborsClassifier(1).fit(X, y).score(X_test, y_test)
        for name, learner in learners.items():
            for i, count in enumerate(counts):
                model = clone(learner).set_params(
                    prototypes_per_class=count, random_state=seed
                )
                with warnings.catch_warnings():
                    # One prototype per class is too few for OLVQ1, which then stops.
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(X, y)
                errors[name][i] += 1 - model.score(X_test, y_test)
    return {
        "counts": np.array(counts),
        **{name: total / n_repeats for name, total in errors.items()},
    }


def bound_curve(
    estimator: Any,
    X: NDArray,
    y: NDArray,
    X_test: NDArray,
    y_test: NDArray,
    counts: Sequence[int] = (1, 2, 3, 4, 6, 8, 12, 16),
    *,
    theta: float = 0.02,
    delta: float = 0.05,
    formula: str = "pairwise",
    n_samples: int | None = None,
) -> dict[str, NDArray]:
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
    >>> from papers.margin_lvq import bound_curve, toy_problem
    >>> model = GLVQClassifier(scale="none", random_state=0)
    >>> curve = bound_curve(model, *toy_problem(300),
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


def _bounds(quick: bool) -> dict[str, NDArray]:
    size = 2000 if quick else 20_000
    train, test = toy_problem(size), toy_problem(20_000, random_state=1)
    counts = (1, 2, 4, 8) if quick else (1, 2, 3, 4, 6, 8, 12, 16, 24)
    model = GLVQClassifier(scale="none", random_state=0)
    # So many samples that the bound says something; the margins are those found.
    return bound_curve(model, *train, *test, counts, n_samples=10**8)


def _draw(results: dict[str, dict[str, NDArray]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    (losses, olvq1), (neighbours, bound) = axes
    _lines(losses, results["losses"], xlabel="margin", ylabel="loss")
    losses.set_title("Figure 3: losses")
    olvq1.plot(results["olvq1"]["presentations"], results["olvq1"]["hinge"])
    olvq1.set(xlabel="presentations of OLVQ1", ylabel="summed hinge loss")
    olvq1.set_title("Figure 4: OLVQ1 lowers the hinge loss")
    olvq1.locator_params(axis="x", nbins=5)
    table = results["neighbours"]
    _lines(neighbours, table, xlabel="prototypes per class", ylabel="error")
    neighbours.set_title("A few prototypes beat the nearest neighbour")
    neighbours.set_xscale("log")
    neighbours.set_xticks(table["counts"], [str(k) for k in table["counts"]])
    neighbours.minorticks_off()
    curve = results["bound"]
    BoundDisplay(
        counts=3 * curve["counts"],
        bounds=curve["bound"],
        errors=curve["test error"],
        train_errors=curve["train error"],
    ).plot(bound)
    bound.set_title("Theorem 1, stated for 10⁸ samples")
    save_figure(figure, path)


def _lines(ax: Any, curves: dict[str, NDArray], **labels: str) -> None:
    x, *rest = curves
    for name in rest:
        ax.plot(curves[x], curves[name], label=name)
    ax.set(**labels)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)


def _print_table(title: str, table: dict[str, NDArray], form: str) -> None:
    print(f"\n{title}\n")
    print("  ".join(f"{name:>13}" for name in table))
    for row in zip(*table.values(), strict=True):
        first, *rest = row
        cells = [f"{int(first):>13}", *(f"{value:>13{form}}" for value in rest)]
        print("  ".join(cells))


def main(
    quick: bool = False, out: str | Path | None = None
) -> dict[str, dict[str, NDArray]]:
    """Print the tables and, given a folder, save the picture.

    Parameters
    ----------
    quick : bool, default=False
        Fewer presentations, repeats and samples.
    out : path, optional
        Folder for ``margin_lvq.png``.

    Returns
    -------
    dict
        The numbers behind every panel.

    Examples
    --------
    >>> from papers.margin_lvq import main
    >>> results = main(quick=True)
    <BLANKLINE>
    Figure 4: ...
    """
    olvq1 = figure_4(4000) if quick else figure_4()
    counts = (1, 2, 4, 8) if quick else (1, 2, 4, 8, 16, 32)
    results = {
        "losses": figure_3(),
        "olvq1": olvq1,
        "neighbours": prototypes_against_neighbours(
            counts, n_repeats=2 if quick else 5
        ),
        "bound": _bounds(quick),
    }
    rows = np.unique(np.linspace(0, len(olvq1["hinge"]) - 1, 9).astype(int))
    few = {name: values[rows] for name, values in olvq1.items()}
    _print_table("Figure 4: hinge loss over OLVQ1 presentations", few, ".3f")
    _print_table("Error against prototypes per class", results["neighbours"], ".4f")
    title = "Bound of Theorem 1 for 10^8 samples, and errors"
    _print_table(title, results["bound"], ".4f")
    if out is not None:
        _draw(results, Path(out) / "margin_lvq.png")
    return results
