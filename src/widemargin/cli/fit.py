"""``widemargin fit``: read, build, perhaps search, fit, look at what came out, save."""

import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.metrics import recall_score
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from widemargin._compute.progress import show_progress
from widemargin._core.callbacks import HAS_CALLBACKS
from widemargin._core.checks import border_of, check_number
from widemargin._core.select import select
from widemargin.cli import Refusal, check_out, console, models, tell, text_table
from widemargin.cli.evaluate import answer, guarantee
from widemargin.cli.models import SavedModel, check_skops, save
from widemargin.cli.read import (
    Reading,
    Table,
    as_usable,
    check_classes,
    parse_shape,
    read,
)
from widemargin.meta import MixtureImputer, RejectingClassifier
from widemargin.meta.rejecting import DELTA, rows_to_hold_out, words_on_copies
from widemargin.neighbors.base import RemembersSamples

# Training samples that a model which remembers all of them answers, to see it learned.
ASKED = 2000
IMPUTED = ("mixture", "mean", "median", "most_frequent")


def run(
    data: Path,
    model: str | None,
    few: bool,
    target: str | None,
    image_shape: str | None,
    settings: list[str] | None,
    drop: list[str] | None,
    encode: list[str] | None,
    scale: bool | None,
    search: bool,
    max_error: float | None,
    impute: str | None,
    seed: int,
    out: Path,
    how: Reading,
) -> None:
    """Fit and save; every refusal comes before any output."""
    if impute not in (None, *IMPUTED):
        raise Refusal(f"--impute must be {', '.join(IMPUTED)}; got {impute!r}")
    if few and model not in (None, "fewshot"):
        raise Refusal(f"--few is --model fewshot; leave out --model {model} or --few")
    model = "fewshot" if few else model
    check_out("--out", out, inputs=(data, target))
    check_skops()
    read_settings = models.parse_settings(settings or [])
    table = read(
        data,
        target=target,
        image_shape=parse_shape(image_shape),
        drop=drop or [],
        encode=encode or [],
        how=replace(how, missing=True),
    )
    if model is None:
        model = default_model(table)
        table.notes.append(
            f"--model {model} is the default; widemargin models has more"
        )
    entry = models.find(model)
    y = table.y
    assert y is not None
    check_classes(y)
    X = as_usable(table.X, entry.sparse, model)
    missing = not sparse.issparse(X) and bool(np.isnan(X).any())
    if missing and impute is None and entry.takes_missing:
        table.notes.append(
            f"missing values are left to {model}: before and after a signal they are "
            "not part of it; --impute fills them in"
        )
    else:
        check_empty(table, impute)
    if missing and impute is None and not entry.takes_missing:
        impute = "mixture"
        table.notes.append(
            "missing values are filled in by MixtureImputer; --impute median or "
            "another takes what can be exported, too"
        )
    X_held, y_held = X, y
    if max_error is not None:
        X, y, X_held, y_held = hold_out(X, y, max_error, seed, table.notes)
    background = 0.0 if scale else paper_of(X, table.image_shape)
    estimator = models.build(
        model,
        read_settings,
        image_shape=table.image_shape,
        seed=seed,
        background=background,
    )
    if background and estimator.get_params().get("tangents__background") == background:
        table.notes.append(
            f"most of the border of the images is {background:g}, which tangents take "
            "for their background; --set tangents__background=0 takes 0"
        )
    filling = []
    if impute is not None:
        filling = [("impute", imputer(impute))]
    scaled = scaling(table, X, scale, estimator, entry)
    pipeline = Pipeline([*filling, *scaled, ("model", estimator)])
    found: list[Any] = []
    if search:
        grid = {k: v for k, v in entry.grid.items() if k not in read_settings}
        pipeline, found = search_grid(pipeline, grid, X, y, seed)
    start = time.perf_counter()
    notes, prepared = fit_or_refuse(pipeline, X, y)
    seconds = time.perf_counter() - start
    saved = SavedModel(
        pipeline, model, table.names, table.image_shape, table.target, X.shape[1]
    )
    asked = rows_to_ask(saved.estimator, len(y), seed)
    with show_progress():
        labels = answer(saved.estimator, prepared[asked]).labels
    wrong, more = check_learned(labels, y[asked])
    if max_error is not None:
        saved.pipeline, said = guarantee(pipeline, max_error, X_held, y_held, seed)
        more += said
    saved.name_columns()
    save(saved, out)
    tell([*table.notes, *notes, *more])
    for part in found:
        console().print(part)
    print(
        f"{model}: {X.shape[0]} samples, {X.shape[1]} features, "
        f"{len(np.unique(y))} classes; fitted in "
        f"{seconds:.1f} s, training error {100 * wrong:.2f} %{of_some(labels, y)}"
    )
    if max_error is not None:
        print(words_of(saved.refusing, max_error))
    print(f"Model: {out} ({out.stat().st_size / 1024:.0f} KiB)")


def default_model(table: Table) -> str:
    """Return the model to begin with: for tables, for images, for sparse data."""
    if sparse.issparse(table.X):
        return "maxmargin"
    return "gmlvq" if table.image_shape is None else "svc"


def paper_of(X: Any, image_shape: tuple[int, ...] | None) -> float:
    """Return what is around images, 0 where it is near: paper may be light.

    Moved images bring it in at their edges.
    """
    if image_shape is None or sparse.issparse(X):
        return 0.0
    images = np.asarray(X[:1000]).reshape(-1, *image_shape)
    low, high = np.nanmin(images), np.nanmax(images)
    border = float(np.nanmedian(border_of(images)))
    return border if abs(border) > 0.1 * (high - low) else 0.0


def imputer(strategy: str) -> Any:
    """Return what fills in missing values."""
    if strategy == "mixture":
        return MixtureImputer()
    return SimpleImputer(strategy=strategy, keep_empty_features=True)


def check_empty(table: Table, impute: str | None) -> None:
    """Refuse columns without any value; where values are filled in, tell it."""
    if sparse.issparse(table.X):
        return
    names = [repr(name) for name in table.names]
    for place in np.flatnonzero(np.isnan(table.X).all(axis=0)):
        column = names[place] if names else str(place + 1)
        if impute in (None, "mixture"):
            raise Refusal(
                f"column {column} has no value at all; leave it out"
                + (f" with --drop {table.names[place]}" if names else "")
            )
        table.notes.append(f"column {column} has no value at all and is filled with 0")


def hold_out(
    X: Any, y: NDArray, max_error: float, seed: int, notes: list[str]
) -> tuple[Any, NDArray, Any, NDArray]:
    """Return samples to learn from, and some that nothing of the model may see.

    What fills in, scales or chooses settings has seen the samples it was given.
    """
    try:
        check_number("--max-error", max_error, above=0, below=1)
    except ValueError as error:
        raise Refusal(str(error)) from None
    held = rows_to_hold_out(len(y), max_error, DELTA, random_state=seed)
    if len(np.unique(y[~held])) < 2:
        raise Refusal(
            f"--max-error holds {held.sum()} of {len(y)} samples out, and all others "
            "are of one class; give more samples"
        )
    copies = words_on_copies(X, y, held, max_error)
    notes += [copies.replace(", with a sample_weight", "")] if copies else []
    rows, others = np.flatnonzero(~held), np.flatnonzero(held)
    return X[rows], y[rows], X[others], y[others]


def words_of(refusing: RejectingClassifier, max_error: float) -> str:
    """Say what a model that refuses guarantees."""
    error, n = f"{100 * max_error:g} %", refusing.n_held_out_
    if refusing.threshold_ == np.inf:
        return (
            f"Rejects every sample: that at most {error} of its answers are wrong "
            f"could not be shown on the {n} samples held out"
        )
    return (
        f"Answers {100 * refusing.coverage_:.1f} % of {n} samples held out; of its "
        f"answers at most {error} are wrong, with probability {100 * (1 - DELTA):g} %"
    )


def scaling(
    table: Table, X: Any, scale: bool | None, estimator: Any, entry: models.ModelEntry
) -> list[tuple[str, Any]]:
    """Return the step before the model: dense tables are standardised by default.

    Not so before a model that chooses the units of its features itself, or of curves.
    """
    itself = entry.curves or estimator.get_params().get("scale", "none") != "none"
    wanted = scale
    if scale is None:
        wanted = table.image_shape is None and not itself
    if not wanted or (sparse.issparse(X) and scale is None):
        return []
    # Without centring, so that zeros stay zeros.
    return [("scale", StandardScaler(with_mean=not sparse.issparse(X)))]


def fit_or_refuse(pipeline: Any, X: Any, y: NDArray) -> tuple[list[str], Any]:
    """Fit; return the warnings on the way, and the data as the model sees them.

    What the estimator finds wrong with its parameters is a refusal.
    """
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # Step by step: a model inside a pipeline may not carry a bar of its own.
            prepared = pipeline[:-1].fit_transform(X) if len(pipeline) > 1 else X
            with progress(pipeline[-1]):
                pipeline[-1].fit(prepared, y)
    except (ValueError, TypeError) as error:
        raise Refusal(f"the model refuses: {error}") from error
    return [str(warning.message) for warning in caught], prepared


def rows_to_ask(estimator: Any, n: int, seed: int) -> Any:
    """Return which training samples are answered: of a model that is them, some.

    A search among 200 000 for each of them takes 20 minutes, for an error that is next
    to nothing by nature.
    """
    if not isinstance(estimator, RemembersSamples) or n <= ASKED:
        return slice(None)
    return np.sort(np.random.RandomState(seed).choice(n, ASKED, replace=False))


def of_some(labels: NDArray, y: NDArray) -> str:
    """Say of how many samples an error is, where it is not of all."""
    return "" if len(labels) == len(y) else f" (of {len(labels)} of them)"


def check_learned(labels: NDArray, y: NDArray) -> tuple[float, list[str]]:
    """Return the training error; refuse a model that learned nothing.

    That is one whose answers are no better than always the most frequent class, in
    errors and in the mean over the classes. Where classes are weighted, more errors may
    be meant: then it is told.
    """
    classes, counts = np.unique(y, return_counts=True)
    mistakes, others = int((labels != y).sum()), len(y) - int(counts.max())
    wrong, usual = mistakes / len(y), others / len(y)
    if mistakes < others:
        return wrong, []
    words = (
        f"training error {100 * wrong:.2f} %, no better than always answering "
        f"{classes[counts.argmax()]!s} ({100 * usual:.2f} %)"
    )
    recall = recall_score(y, labels, average="macro", labels=classes, zero_division=0)
    if recall <= 1 / len(classes) + 1e-12:
        raise Refusal(
            f"the model learned nothing: {words}. Nothing was saved; scale the "
            "features, set other parameters or take another model"
        )
    return wrong, [words]


@contextmanager
def progress(estimator: Any):
    """Show the tasks of a fit; on a terminal only."""
    # scikit-learn's bars tell more, but go to standard output, which may be a file.
    if not (HAS_CALLBACKS and sys.stdout.isatty() and sys.stderr.isatty()):
        with show_progress():
            yield
        return
    from sklearn.callback import ProgressBar

    estimator.set_callbacks(ProgressBar())
    try:
        yield
    finally:
        # The file must not carry the bar.
        estimator.set_callbacks()


def search_grid(
    pipeline: Any, grid: dict, X: Any, y: NDArray, seed: int
) -> tuple[Any, list[Any]]:
    """Return the simplest pipeline of little cross-validated error, and what to print.

    A larger one must be clearly better: the same samples, other mistakes.
    """
    folds = min(5, max(2, int(np.unique(y, return_counts=True)[1].min())))
    cv = StratifiedKFold(folds, shuffle=True, random_state=seed)
    steps = {f"model__{key}": values for key, values in grid.items()}
    stderr = console(stderr=True)
    quiet = not stderr.is_terminal
    with Progress(console=stderr, transient=True, disable=quiet) as bar:
        task = bar.add_task("search", total=folds * len(ParameterGrid(steps)))

        found: dict[str, list[NDArray]] = defaultdict(list)

        def accuracy(model: Any, X_held: Any, y_held: NDArray) -> float:
            bar.advance(task)
            wrong = model.predict(X_held) != y_held
            params = model.get_params()
            found[str({key: params[key] for key in sorted(steps)})].append(wrong)
            return 1 - float(wrong.mean())

        search = GridSearchCV(pipeline, steps, cv=cv, scoring=accuracy, refit=False)
        try:
            with warnings.catch_warnings():
                # The grid is the same for all data; few features rule some of it out.
                warnings.simplefilter("ignore")
                search.fit(X, y)
        except (ValueError, TypeError) as error:
            last = str(error).strip().splitlines()[-1]
            raise Refusal(
                f"the model refuses every setting of the search: {last}"
            ) from error
    shares = 1 - search.cv_results_["mean_test_score"]
    parts = [found[str(params)] for params in search.cv_results_["params"]]
    mistakes = [
        np.concatenate(part).astype(float) if len(part) == folds else None
        for part in parts
    ]
    words = [_words(params) for params in search.cv_results_["params"]]
    rows = [
        (text, f"{100 * share:.2f} %")
        for text, share in zip(words, shares, strict=True)
        if np.isfinite(share)
    ]
    shown = text_table(f"{folds}-fold cross-validation", ["settings", "error"], rows)
    best = simplest(mistakes)
    told = f"Best: {words[best]}, {100 * shares[best]:.2f} %"
    return pipeline.set_params(**search.cv_results_["params"][best]), [shown, told]


def simplest(mistakes: Sequence[NDArray | None]) -> int:
    """Return the first setting that is not clearly worse than the best.

    Grids begin with what is smallest.
    """
    able = {place: wrong for place, wrong in enumerate(mistakes) if wrong is not None}
    return select(list(able), able.__getitem__)


def _words(params: dict) -> str:
    shown = (f"{key.removeprefix('model__')}={value}" for key, value in params.items())
    return ", ".join(shown) or "as given"
