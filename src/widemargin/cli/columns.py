"""Data as the commands pass them on: numbers, labels, and where they came from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from widemargin.cli.refusal import Refusal, near

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


@dataclass
class Table:
    """Samples in rows; `y` is None where no labels were asked for."""

    X: Any
    y: np.ndarray | None = None
    names: list[str] = field(default_factory=list)
    image_shape: tuple[int, ...] | None = None
    target: str | None = None
    rows: list[str] = field(default_factory=list)


def from_columns(
    names: Sequence[str],
    columns: Sequence[Any],
    *,
    target: str | None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    place: Callable[[int], str],
) -> Table:
    """Build a table from named columns of text or numbers; `place` names a row.

    The features are the columns in `keep`, in that order, else all but `drop`.
    """
    names = [str(name) for name in names]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Refusal(f"two columns are called {sorted(twice)[0]!r}; rename one")
    missing = [repr(name) for name in keep if name not in names]
    if missing:
        raise Refusal(
            f"the data lack {', '.join(missing[:5])}: the model was fitted on "
            f"{len(keep)} columns, all of which must be there"
        )
    for option, wanted in [("--drop", name) for name in drop] + [("--target", target)]:
        if wanted is not None and wanted not in names:
            raise Refusal(f"{option}: no column {wanted!r}; {near(wanted, names)}")
    by_name = dict(zip(names, columns, strict=True))
    y = None
    if target is not None:
        y = labels(by_name.pop(target), f"column {target!r}", place)
    chosen = keep or [name for name in by_name if name not in drop]
    features = {name: by_name[name] for name in chosen}
    if not features:
        raise Refusal("no feature column is left beside the target; add some")
    X = np.column_stack([_numbers(n, c, place) for n, c in features.items()])
    return Table(X, y, list(features), target=target)


def _numbers(name: str, column: Sequence, place: Callable[[int], str]) -> np.ndarray:
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        values = None
    if values is not None and np.isfinite(values).all():
        return values
    for row, cell in enumerate(column):
        text = "" if cell is None else str(cell).strip()
        if text.lower() in MISSING:
            raise Refusal(
                f"{place(row)}, column {name!r}: no value; fill it in or remove the row"
            )
        try:
            number = float(text)
        except ValueError:
            raise Refusal(
                f"column {name!r} holds text ({text!r} in {place(row)}); turn it into "
                f"numbers or leave it out with --drop {name}"
            ) from None
        if not np.isfinite(number):
            raise Refusal(
                f"{place(row)}, column {name!r}: {text} is not finite; mend it"
            )
    raise Refusal(
        f"column {name!r} cannot be read as numbers; leave it out with --drop"
    )


def labels(
    column: Sequence, what: str, place: Callable[[int], str] = "row {}".format
) -> np.ndarray:
    """Return labels as integers where they are whole numbers, else as text."""
    texts = ["" if cell is None else str(cell).strip() for cell in column]
    for row, text in enumerate(texts):
        if text.lower() in MISSING:
            raise Refusal(
                f"{place(row)}, {what}: no label; fill it in or remove the row"
            )
    try:
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        return np.array(texts)
    if not (numbers == np.round(numbers)).all():
        raise Refusal(f"{what} holds real numbers; a classifier needs class labels")
    return numbers.astype(np.int64)


def check_finite(X: np.ndarray, what: str) -> np.ndarray:
    """Return `X`, or name the first cell that is not a number."""
    if np.issubdtype(X.dtype, np.floating) and not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise Refusal(
            f"{what}: row {row + 1}, column {column + 1}: no finite value; fill it in "
            "or remove the row"
        )
    return X


def check_classes(y: np.ndarray) -> None:
    """Refuse what no classifier can learn from."""
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise Refusal(
            f"all labels are {classes[0]!s}; there must be two classes or more"
        )
    if counts.min() < 2:
        lonely = classes[counts.argmin()]
        raise Refusal(
            f"class {lonely!s} has one sample; every class needs two or more: add "
            "samples or remove it"
        )


def parse_shape(text: str | None) -> tuple[int, ...] | None:
    """Read 16x16 or 32x32x3."""
    if text is None:
        return None
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) not in (2, 3) or not all(
        part.isdigit() and int(part) for part in parts
    ):
        raise Refusal(f"--image-shape: {text!r} is no shape; write 16x16 or 32x32x3")
    return tuple(int(part) for part in parts)


def check_shape(n_features: int, shape: tuple[int, ...] | None) -> None:
    """Refuse a shape that the rows do not have."""
    if shape is None or int(np.prod(shape)) == n_features:
        return
    side = round(n_features**0.5)
    could = f"; {n_features} could be {side}x{side}" if side**2 == n_features else ""
    wanted = "x".join(map(str, shape))
    raise Refusal(
        f"--image-shape: {wanted} are {int(np.prod(shape))} values, but the data have "
        f"{n_features} features{could}"
    )
