r"""To reproduce: the papers' tables beside ours, and their figures, a module each.

Every module has ``main(quick, out)``, which prints the tables and saves the figures in
the folder `out`: ``make reproduce PAPER=perceptrons`` runs it. What they show is
loaded, computed and drawn by the library. All comparisons keep one protocol of what may
be chosen on what, and what is told:

* Parameters are chosen on training data. Every candidate is fitted without some groups
  of samples and asked about these; the least mean Brier score
  :math:`\frac1n \sum_i \sum_c (p_{ic} - [y_i = c])^2` wins, which a change of a few
  samples moves less than the number of errors.
* Groups are what a new sample will be new in: writers of MNIST; ten whole stretches of
  USPS, where an image is next to others of the same hand; single samples of sets that
  were drawn at random.
* A test set is looked at once for every row of a table, with what was chosen.
* An error comes with its standard error: of a share on one test set
  :math:`\sqrt{e(1-e)/n}`, of a mean over draws their standard deviation by the root of
  their number.

Shapes: probabilities (n_samples, n_classes), groups (n_samples,).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from widemargin._compute.machine import thread_map
from widemargin._core.decisions import brier_scores, class_codes
from widemargin.saving import write_atomically


class Split(NamedTuple):
    """A set in two parts: samples in rows, integer labels."""

    X_train: NDArray
    y_train: NDArray
    X_test: NDArray
    y_test: NDArray


def load_split(load: Callable, n_samples: int | None = None, **options: Any) -> Split:
    """Return both parts of a set of `widemargin.datasets`, or the first of each."""
    parts = [
        load(subset=part, return_X_y=True, **options) for part in ("train", "test")
    ]
    return Split(*(array[:n_samples] for part in parts for array in part))


def save_figure(figure: Any, path: Path) -> None:
    """Save a matplotlib figure as PNG, whole or not at all, close it and say so."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda part: figure.savefig(part, format="png", dpi=120))
    plt.close(figure)
    print(f"saved {path}", flush=True)


def timed(model: Any, split: Split) -> tuple[NDArray, float, float]:
    """Fit and ask; return the answers on the test set and the seconds of both."""
    start = time.perf_counter()
    model.fit(split.X_train, split.y_train)
    fitted = time.perf_counter()
    predicted = model.predict(split.X_test)
    return predicted, fitted - start, time.perf_counter() - fitted


N_STRETCHES = 10


def stretches(n_samples: int, n_groups: int = N_STRETCHES) -> NDArray:
    """Group of each sample: stretches of the set, all about as long.

    >>> stretches(5, 2)
    array([0, 0, 0, 1, 1])
    """
    return np.arange(n_samples) * n_groups // n_samples


def some_groups(groups: ArrayLike, fraction: float) -> NDArray:
    """Mask of the samples of a random share of the groups, to hold out."""
    everyone = np.unique(groups)
    rng = np.random.default_rng(0)
    n_held = max(1, round(fraction * len(everyone)))
    return np.isin(groups, rng.choice(everyone, n_held, replace=False))


def folds(groups: ArrayLike, n_folds: int = N_STRETCHES) -> list[tuple]:
    """Rows to fit on and rows held out, whole groups together."""
    groups = np.asarray(groups)
    n_folds = min(n_folds, len(np.unique(groups)))
    return list(GroupKFold(n_folds).split(groups, groups=groups))


class Choice(NamedTuple):
    """One candidate on the samples held out."""

    name: str
    brier: float
    error: float
    seconds: float


def judged(
    candidates: Mapping[str, Any],
    X: NDArray,
    y: NDArray,
    splits: list[tuple],
    n_jobs: int | None = None,
) -> Iterator[Choice]:
    """Yield Brier score and error, in per cent, of every candidate where held out."""

    def ask(task: tuple) -> tuple[NDArray, NDArray]:
        model, (fit, held) = task
        fitted = clone(model).fit(X[fit], y[fit])
        P = fitted.predict_proba(X[held])
        scores = brier_scores(P, class_codes(y[held], fitted.classes_))
        return scores, fitted.classes_[P.argmax(axis=1)] != y[held]

    for name, model in candidates.items():
        start = time.perf_counter()
        parts = thread_map(ask, [(model, split) for split in splits], n_jobs, name)
        scores, wrong = (np.concatenate(part) for part in zip(*parts, strict=True))
        took = time.perf_counter() - start
        yield Choice(name, float(scores.mean()), 100 * float(wrong.mean()), took)


def best(choices: list[Choice]) -> Choice:
    """Return the candidate of the least Brier score."""
    return min(choices, key=lambda choice: choice.brier)


class Measured(NamedTuple):
    """An error in per cent with its standard error."""

    error: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.error:.2f} ± {self.standard_error:.2f}"


def measured(wrong: ArrayLike) -> Measured:
    """Error of one look at a test set, from where the answers are wrong.

    >>> print(measured([True, False, False, False]))
    25.00 ± 21.65
    """
    share = float(np.asarray(wrong).mean())
    return Measured(
        100 * share, 100 * float(np.sqrt(share * (1 - share) / np.size(wrong)))
    )


def over_draws(errors: ArrayLike) -> Measured:
    """Mean error of several draws of the training samples, errors in per cent.

    >>> print(over_draws([1.0, 2.0, 3.0]))
    2.00 ± 0.58
    """
    errors = np.asarray(errors, dtype=float)
    spread = errors.std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.nan
    return Measured(float(errors.mean()), float(spread))
