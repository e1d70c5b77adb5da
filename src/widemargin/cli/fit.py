"""``widemargin fit``: read, build, perhaps search, fit, save."""

import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as RichTable
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from widemargin._core.callbacks import HAS_CALLBACKS
from widemargin.cli import models
from widemargin.cli.columns import Table, check_classes, parse_shape
from widemargin.cli.modelfile import SavedModel, save
from widemargin.cli.read import as_usable, read
from widemargin.cli.refusal import Refusal
from widemargin.progress import show_progress


def run(
    data: Path,
    *,
    target: str | None,
    model: str,
    image_shape: str | None,
    settings: list[str],
    drop: list[str],
    scale: bool | None,
    search: bool,
    seed: int,
    out: Path,
) -> None:
    """Fit and save; every refusal comes before any output."""
    entry = models.find(model)
    if out.is_dir() or not out.parent.is_dir():
        raise Refusal(f"--out: {out} cannot be written; name a file in a folder")
    read_settings = models.parse_settings(settings)
    table = read(data, target=target, image_shape=parse_shape(image_shape), drop=drop)
    assert table.y is not None
    check_classes(table.y)
    X = as_usable(table.X, entry.sparse, model)
    estimator = models.build(
        model, read_settings, image_shape=table.image_shape, seed=seed
    )
    pipeline = Pipeline([*scaling(table, X, scale), ("model", estimator)])
    console = Console(stderr=True)
    if search:
        grid = {k: v for k, v in entry.grid.items() if k not in read_settings}
        pipeline = search_grid(pipeline, grid, X, table.y, seed, console)
    start = time.perf_counter()
    with progress(pipeline[-1]):
        fit_or_refuse(pipeline, X, table.y)
    seconds = time.perf_counter() - start
    saved = SavedModel(
        pipeline, model, table.names, table.image_shape, table.target, X.shape[1]
    )
    save(saved, out)
    with show_progress():
        wrong = float(np.mean(pipeline.predict(X) != table.y))
    print(
        f"{model}: {X.shape[0]} samples, {X.shape[1]} features, "
        f"{len(np.unique(table.y))} classes; fitted in "
        f"{seconds:.1f} s, training error {100 * wrong:.2f} %"
    )
    print(f"Model: {out} ({out.stat().st_size / 1024:.0f} KiB)")


def scaling(table: Table, X: Any, scale: bool | None) -> list[tuple[str, Any]]:
    """Return the step before the model: dense tables are standardised by default."""
    wanted = scale if scale is not None else table.image_shape is None
    if not wanted or (sparse.issparse(X) and scale is None):
        return []
    # Without centring, so that zeros stay zeros.
    return [("scale", StandardScaler(with_mean=not sparse.issparse(X)))]


def fit_or_refuse(pipeline: Any, X: Any, y: np.ndarray) -> None:
    """Fit; what the estimator finds wrong with its parameters is a refusal."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # Step by step: a model inside a pipeline may not carry a bar of its own.
            prepared = pipeline[:-1].fit_transform(X) if len(pipeline) > 1 else X
            pipeline[-1].fit(prepared, y)
    except (ValueError, TypeError) as error:
        raise Refusal(f"the model refuses: {error}") from error
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        Console(stderr=True).print(f"note: {message}", markup=False, highlight=False)


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
    pipeline: Any, grid: dict, X: Any, y: np.ndarray, seed: int, console: Console
) -> Any:
    """Return the pipeline with the settings of least cross-validated error."""
    folds = min(5, int(np.unique(y, return_counts=True)[1].min()))
    cv = StratifiedKFold(folds, shuffle=True, random_state=seed)
    shown = RichTable(title=f"{folds}-fold cross-validation", title_justify="left")
    shown.add_column("settings")
    shown.add_column("error", justify="right")
    best, least, chosen = pipeline, np.inf, ""
    refused: Exception | None = None
    quiet = not console.is_terminal
    with Progress(console=console, transient=True, disable=quiet) as bar:
        for settings in bar.track(list(ParameterGrid(grid)), description="search"):
            steps = {f"model__{key}": value for key, value in settings.items()}
            candidate = clone(pipeline).set_params(**steps)
            words = ", ".join(f"{key}={value}" for key, value in settings.items())
            try:
                error = _cross_validated_error(candidate, X, y, cv)
            except (ValueError, TypeError) as reason:
                # The grid is the same for all data; few features rule some of it out.
                refused = reason
                continue
            shown.add_row(words or "as given", f"{100 * error:.2f} %")
            if error < least:
                best, least, chosen = candidate, error, words
    if np.isinf(least):
        raise Refusal(f"the model refuses every setting of the search: {refused}")
    Console().print(shown)
    print(f"Best: {chosen or 'as given'}, {100 * least:.2f} %")
    return best


def _cross_validated_error(candidate: Any, X: Any, y: np.ndarray, cv: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(candidate, X, y, cv=cv, error_score="raise")
    return float(1 - scores.mean())
