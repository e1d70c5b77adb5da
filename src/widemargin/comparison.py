r"""Compare this library's main classifiers with scikit-learn's on your own data.

Every model is fitted and asked in the same folds of a cross-validation, so that each
sample is answered once by a model that has not seen it. With :math:`w_i` = 1 where the
answer on sample i is wrong, :math:`c_i` the confidence and :math:`p_i` the probability
of the answer, a row tells

- the error :math:`\bar w` and its standard error,
- the share of samples to reject, least :math:`c_i` first, for 1 % errors among the
  rest,
- the calibration error :math:`\sum_b n_b |\bar p_b - (1 - \bar w_b)| / n` over ten
  bins of equal counts,
- the size of the pickled model, and the seconds of a fit and of an answer.

A model is among the best if its error is not clearly larger than the smallest, by the
rule of :mod:`widemargin._core.select`.
"""

import pickle
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import _safe_indexing, indexable

from widemargin._compute.progress import announce
from widemargin._core.checks import check_count, text_columns
from widemargin._core.confidence import answers_of
from widemargin._core.samples import class_labels
from widemargin._core.select import clearly_worse
from widemargin.inspection import style
from widemargin.linear import MaxMarginClassifier
from widemargin.margins import error_reject_curve
from widemargin.meta import MixtureImputer
from widemargin.neighbors import TangentKNeighborsClassifier
from widemargin.prototypes import GMLVQClassifier, TVQClassifier
from widemargin.svm import TangentSVC

BINS = 10
MAX_ERROR = 0.01
HEADER = ("model", "error, %", "rejected, %", "ECE", "kB", "fit, s", "µs")
LEGEND = (
    "*: not clearly worse than the best. Rejected: the least sure answers, until 1 % "
    "of the rest are wrong. ECE: expected calibration error, the mean distance of "
    "probabilities from shares of right answers. µs: of one answer."
)


@dataclass(frozen=True)
class ComparedModel:
    """What cross-validation says of one model.

    Attributes
    ----------
    name : str
    estimator : estimator
        As it was fitted last.
    wrong : ndarray of shape (n_answers,)
        True where an answer on a left-out sample is wrong.
    confidence : ndarray of shape (n_answers,)
        How sure the model was of each answer.
    probability : ndarray of shape (n_answers,) or None
        Probability of each answer; None where the model gives none.
    fit_seconds, predict_seconds : float
        Of one fit, the median over the folds, and of one answer, the mean.
    """

    name: str
    estimator: Any
    wrong: NDArray
    confidence: NDArray
    probability: NDArray | None
    fit_seconds: float
    predict_seconds: float

    @property
    def error(self) -> float:
        """Share of wrong answers."""
        return float(np.mean(self.wrong))

    @property
    def standard_error(self) -> float:
        """Standard error of the share of wrong answers."""
        return float(np.std(self.wrong) / np.sqrt(len(self.wrong)))

    @property
    def rejected(self) -> float | None:
        """Share to reject for 1 % errors among the rest; None if all are as sure."""
        if np.ptp(self.confidence) == 0:
            return None
        curve = error_reject_curve(
            np.zeros(len(self.wrong), int), self.wrong.astype(int), self.confidence
        )
        return float(curve.rejection_rate[curve.error_rate <= MAX_ERROR].min())

    @property
    def calibration_error(self) -> float | None:
        """Mean distance of probabilities from shares of right answers."""
        if self.probability is None:
            return None
        bins = np.array_split(np.argsort(self.probability, kind="stable"), BINS)
        gaps = [
            len(rows)
            * abs(np.mean(self.probability[rows]) - np.mean(~self.wrong[rows]))
            for rows in bins
            if len(rows)
        ]
        return float(np.sum(gaps) / len(self.wrong))

    @property
    def size(self) -> int:
        """Bytes of the pickled model."""
        return len(pickle.dumps(self.estimator))

    def cells(self) -> list[str]:
        """Return the row of the table as text."""
        rejected, calibration = self.rejected, self.calibration_error
        return [
            self.name,
            f"{100 * self.error:.1f} ± {100 * self.standard_error:.1f}",
            "cannot" if rejected is None else f"{100 * rejected:.0f}",
            "none" if calibration is None else f"{calibration:.3f}",
            f"{self.size / 1000:.0f}",
            f"{self.fit_seconds:.2f}",
            f"{1e6 * self.predict_seconds:.0f}",
        ]


@dataclass(frozen=True)
class Comparison:
    """Models side by side, as `compare` returns them.

    Attributes
    ----------
    rows : list of ComparedModel
        In the order of the models.
    failed : dict of str to str
        Why a model could not be fitted or asked, by its name.
    notes : list of str
        What was done to the data.
    """

    rows: list[ComparedModel]
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> list[str]:
        """Names of the models whose error is not clearly larger than the smallest."""
        worse = clearly_worse(np.stack([row.wrong for row in self.rows]).astype(float))
        return [row.name for row, w in zip(self.rows, worse, strict=True) if not w]

    def table(self) -> list[list[str]]:
        """Return the rows as text; a star is at the errors of the best models."""
        best = self.best
        cells = [row.cells() for row in self.rows]
        for row in cells:
            row[1] += " *" if row[0] in best else "  "
        return cells

    def to_frame(self) -> Any:
        """Return the numbers as a pandas data frame, a row a model."""
        import pandas as pd

        return pd.DataFrame(
            {
                "error": [row.error for row in self.rows],
                "standard_error": [row.standard_error for row in self.rows],
                "rejected_for_1_percent": [row.rejected for row in self.rows],
                "calibration_error": [row.calibration_error for row in self.rows],
                "bytes": [row.size for row in self.rows],
                "fit_seconds": [row.fit_seconds for row in self.rows],
                "predict_seconds": [row.predict_seconds for row in self.rows],
            },
            index=[row.name for row in self.rows],
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the errors, and beside them the shares to reject for 1 % errors.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; new ones by default.

        Returns
        -------
        axes
        """
        ax = style.own_axes("Comparison.plot", ax)
        rows, best = self.rows[::-1], self.best
        for place, row in enumerate(rows):
            colour = style.RED if row.name in best else style.GREY
            ax.errorbar(
                100 * row.error,
                place,
                xerr=100 * row.standard_error,
                fmt="o",
                color=colour,
            )
            if row.rejected is not None:
                ax.plot(100 * row.rejected, place, "|", ms=13, mew=2, color=style.ink())
        ax.plot(
            [], [], "o", color=style.RED, label="error, not clearly worse than the best"
        )
        ax.plot([], [], "o", color=style.GREY, label="error")
        ax.plot(
            [],
            [],
            "|",
            ms=13,
            mew=2,
            color=style.ink(),
            ls="",
            label="rejected for 1 % errors",
        )
        ax.set_yticks(range(len(rows)), [row.name for row in rows])
        ax.set(xlabel="% of left-out samples", ylim=(-0.6, len(rows) - 0.4))
        ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
        style.legend(
            ax, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, fontsize=8
        )
        return ax

    def __str__(self) -> str:
        cells = [list(HEADER), *self.table()]
        widths = [max(len(row[j]) for row in cells) for j in range(len(HEADER))]
        lines = [
            "  ".join(
                text.rjust(width) if j else text.ljust(width)
                for j, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]
        lines += [f"{name}: {reason}" for name, reason in self.failed.items()]
        return "\n".join([*lines, LEGEND, *self.notes])

    __repr__ = __str__


def default_models(tangents: Any = None, random_state: Any = 0) -> dict[str, Any]:
    """Return the unfitted models that `compare` takes, by name.

    Without tangents the features are a table's: they are standardised before models
    that do not choose their units themselves.
    """
    seed = {"random_state": random_state}
    peers = {
        "SVC": _scaled(SVC(), tangents),
        "random forest": RandomForestClassifier(200, **seed),
        "gradient boosting": HistGradientBoostingClassifier(**seed),
    }
    ours = {
        "GMLVQ": GMLVQClassifier(**seed),
        "TVQ": _scaled(TVQClassifier(**seed), tangents),
        "MaxMargin, rbf": _scaled(MaxMarginClassifier(kernel="rbf", **seed), tangents),
    }
    if tangents is not None:
        ours["tangent neighbours"] = TangentKNeighborsClassifier(tangents=tangents)
        ours["tangent SVC"] = TangentSVC(tangents=tangents, **seed)
    return peers | ours


def _scaled(estimator: Any, tangents: Any) -> Any:
    return (
        estimator
        if tangents is not None
        else make_pipeline(StandardScaler(), estimator)
    )


def compare(
    X: ArrayLike,
    y: ArrayLike,
    *,
    tangents: Any = None,
    models: Mapping[str, Any] | None = None,
    cv: int | Iterable[tuple[ArrayLike, ArrayLike]] = 5,
    max_samples: int | None = 5000,
    random_state: int | None = 0,
) -> Comparison:
    """Compare this library's main classifiers with scikit-learn's on your data.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Missing values are filled in by `MixtureImputer` before every model.
    y : array-like of shape (n_samples,)
        Labels.
    tangents : tangent generator, default=None
        Changes that do not matter, such as ``ImageTangents(shape=(28, 28))``. Models
        that use them join the comparison.
    models : mapping of str to estimator, default=None
        What to compare, by name; `default_models` by default.
    cv : int or iterable of (train, test), default=5
        Number of stratified folds, or rows to fit and to ask.
    max_samples : int or None, default=5000
        More samples than these are drawn from at random, by class; None takes all.
    random_state : int or None, default=0
        Of folds, draws and models.

    Returns
    -------
    Comparison
        Prints as a table; ``plot()`` draws it, ``to_frame()`` gives the numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.dummy import DummyClassifier
    >>> from widemargin import GMLVQClassifier, compare
    >>> ours, trivial = GMLVQClassifier(random_state=0), DummyClassifier()
    >>> models = {"GMLVQ": ours, "majority": trivial}
    >>> compare(*load_wine(return_X_y=True), models=models).best
    ['GMLVQ']
    """
    if getattr(X, "shape", None) == () or not hasattr(X, "__len__"):
        raise ValueError(f"X must hold one row per sample; got {X!r:.200}.")
    samples, labels = indexable(X, class_labels(y))
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes[0]!r}; compare needs two or more.")
    if models is None:
        if text := text_columns(X):
            raise ValueError(f"X must hold numbers only.{text}")
        models = default_models(tangents, random_state)
    elif not isinstance(models, Mapping):
        raise ValueError(
            "models must map names to estimators, such as {'GLVQ': GLVQClassifier()}; "
            f"got {models!r:.200}."
        )
    if not models:
        raise ValueError("models is empty; give at least one, or None for the default.")
    if max_samples is not None:
        check_count("max_samples", max_samples)
    notes: list[str] = []
    if max_samples is not None and len(labels) > max_samples:
        notes.append(f"{max_samples} of {len(labels)} samples, drawn by class")
        drawn = _drawn(labels, counts, max_samples, random_state)
        samples, labels = _safe_indexing(samples, drawn), labels[drawn]
    folds = _folds(labels, cv, random_state)
    if _has_missing(samples):
        notes.append("missing values were filled in by MixtureImputer")
        models = {
            name: make_pipeline(MixtureImputer(), model)
            for name, model in models.items()
        }
    rows: list[ComparedModel] = []
    failed: dict[str, str] = {}
    with announce("comparing models", len(models) * len(folds)) as advance:
        for name, model in models.items():
            try:
                rows.append(
                    _cross_validate(name, model, samples, labels, folds, advance)
                )
            except (ValueError, TypeError, MemoryError) as error:
                failed[name] = str(error).strip().splitlines()[-1]
    if not rows:
        raise ValueError(f"models: none could be fitted and asked. {failed}")
    return Comparison(rows, failed, notes)


def _drawn(y: NDArray, counts: NDArray, n: int, seed: int | None) -> NDArray:
    rows, _ = train_test_split(
        np.arange(len(y)),
        train_size=n,
        random_state=seed,
        stratify=y if counts.min() > 1 and n >= len(counts) else None,
    )
    return np.sort(rows)


def _folds(y: NDArray, cv: Any, seed: int | None) -> list[tuple[NDArray, NDArray]]:
    if not isinstance(cv, int | np.integer):
        return _own_folds(cv)
    if cv < 2:
        raise ValueError(f"cv must be at least 2 folds; got {cv}.")
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < cv:
        rare = classes[counts.argmin()]
        raise ValueError(
            f"y: class {rare!r} has {counts.min()} samples, fewer than cv={cv} folds; "
            f"give more of it, leave it out, or lower cv (two samples are the least)."
        )
    splitter = StratifiedKFold(int(cv), shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))


def _own_folds(cv: Any) -> list[tuple[NDArray, NDArray]]:
    """Rows to fit and to ask, as they were given."""
    try:
        folds = [(np.asarray(train), np.asarray(test)) for train, test in cv]
    except (TypeError, ValueError):
        folds = []
    if not folds or any(rows.ndim != 1 for pair in folds for rows in pair):
        raise ValueError(
            "cv must be a number of folds, or pairs (train, test) of rows to fit and "
            f"to ask; got {cv!r:.200}."
        )
    return folds


def _has_missing(X: Any) -> bool:
    values = getattr(X, "data", X) if hasattr(X, "tocsr") else np.asarray(X)
    return bool(values.dtype.kind == "f" and np.isnan(values).any())


def _cross_validate(
    name: str, model: Any, X: Any, y: NDArray, folds: Sequence, advance: Any
) -> ComparedModel:
    """Fit a model in every fold and ask it about what was left out."""
    wrong, confidence, probability = [], [], []
    fit_seconds, predict_seconds = [], 0.0
    for train, test in folds:
        fitted = clone(model)
        start = time.perf_counter()
        with warnings.catch_warnings():
            # A table has no tangents, and some fits end before they converge.
            warnings.simplefilter("ignore")
            fitted.fit(_safe_indexing(X, train), y[train])
            fit_seconds.append(time.perf_counter() - start)
            X_test = _safe_indexing(X, test)
            start = time.perf_counter()
            fitted.predict(X_test)
            predict_seconds += time.perf_counter() - start
            answers = answers_of(fitted, X_test)
            wrong.append(answers.labels != y[test])
            confidence.append(answers.confidence)
            if hasattr(fitted, "predict_proba"):
                probability.append(np.asarray(fitted.predict_proba(X_test)).max(axis=1))
        advance()
    return ComparedModel(
        name,
        fitted,
        np.concatenate(wrong),
        np.concatenate(confidence),
        np.concatenate(probability) if probability else None,
        float(np.median(fit_seconds)),
        predict_seconds / sum(map(len, wrong)),
    )
