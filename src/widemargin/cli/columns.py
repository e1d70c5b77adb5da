"""Named columns of text and numbers, as CSV and Parquet hold them, made a table.

A first line is names or data, and nothing in the file says which. Names stand over
numbers as text; pandas counts them 0, 1, 2 where nobody named them. What the user or
the model calls a column decides, then these signs; a doubtful reading is told.
"""

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from widemargin.cli.refusal import Refusal, near

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
# Fewer rows than this may well be counted by a feature.
FEW_ROWS = 20


@dataclass
class Table:
    """Samples in rows; `y` is None where no labels were asked for."""

    X: Any
    y: np.ndarray | None = None
    names: list[str] = field(default_factory=list)
    image_shape: tuple[int, ...] | None = None
    target: str | None = None
    rows: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Columns:
    """Columns by name; `place` says where a row is in the file."""

    names: list[str]
    values: list[Sequence]
    place: Callable[[int], str]
    index: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def csv_columns(path: Path, asked: Iterable[str] = ()) -> Columns:
    """Read CSV; `asked` are names that the user or the model has for columns."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise Refusal(f"{path} is not UTF-8 text; save it as UTF-8 CSV") from None
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise Refusal(f"{path} is empty; give a file with data")
    separator = max(",;\t", key=lines[0].count)
    first, *second = csv.reader(lines[:2], delimiter=separator)
    first = [cell.strip() for cell in first]
    has_header, note = _is_header(first, second[0] if second else [], set(asked))
    names = first if has_header else list(map(str, range(len(first))))
    body, numbers = lines[has_header:], numbers[has_header:]
    if not body:
        raise Refusal(f"{path} has a header and no rows; give a file with data")
    columns = _fast(body, separator, len(names))
    if columns is None:
        columns = _cell_by_cell(path, body, separator, names, numbers)
    return Columns(
        names,
        columns,
        lambda row: f"line {numbers[row]}",
        index=[name for name in names if UNNAMED.fullmatch(name)],
        notes=[f"{path}: {note}"] if note else [],
    )


def _is_header(
    first: list[str], second: list[str], asked: set[str]
) -> tuple[bool, str | None]:
    """Whether the first line is names, and what to tell where that is a guess."""
    if any(name in first and not _is_number(name) for name in asked):
        return True, None
    numbers = [cell for cell in first if _is_number(cell)]
    over_numbers = [
        above for above, below in zip(first, second, strict=False) if _is_number(below)
    ]
    if not numbers or any(
        not _is_number(cell) and cell.lower() not in MISSING for cell in over_numbers
    ):
        return True, None
    if len(numbers) > 2 and numbers == [str(i) for i in range(len(numbers))]:
        return True, "the first line counts 0, 1, 2 and is taken for names of columns"
    if len(numbers) == len(first):
        return False, None
    return False, (
        f"the first line ({', '.join(first[:3])}, ...) is taken for data; columns are "
        f"called 0 to {len(first) - 1}"
    )


def _fast(body: list[str], separator: str, width: int) -> list[Sequence] | None:
    """Columns as the first row has them: numbers or text; None where that fails."""
    first = next(csv.reader(body[:1], delimiter=separator))
    if len(first) != width:
        return None
    kinds = [(f"f{i}", float if _is_number(c) else object) for i, c in enumerate(first)]
    try:
        rows = np.loadtxt(
            body,
            dtype=np.dtype(kinds),
            delimiter=separator,
            quotechar='"',
            comments=None,
            ndmin=1,
        )
    except ValueError:
        return None
    return [rows[name] for name, _ in kinds]  # type: ignore[misc]


def _cell_by_cell(
    path: Path, body: list[str], separator: str, names: list[str], numbers: list[int]
) -> list[Sequence]:
    rows = list(csv.reader(body, delimiter=separator))
    for number, row in zip(numbers, rows, strict=False):
        if len(row) != len(names):
            raise Refusal(
                f"{path}, line {number}: {len(row)} cells where the first line has "
                f"{len(names)}; mend that line"
            )
    return list(zip(*rows, strict=True))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parquet_columns(path: Path) -> Columns:
    """Read Parquet; what pandas stored as its index is known as such."""
    try:
        import pyarrow.lib
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise Refusal("Parquet needs pyarrow: pip install pyarrow") from None
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.lib.ArrowException, OSError) as error:
        raise Refusal(
            f"{path} is a damaged Parquet file ({error}); write it again"
        ) from None
    columns = [column.to_pylist() for column in table.columns]
    stored = (table.schema.pandas_metadata or {}).get("index_columns", [])
    # A range is described by a dict and has no column.
    index = [name for name in stored if isinstance(name, str)]
    names = [str(name) for name in table.column_names]
    index += [name for name in names if UNNAMED.fullmatch(name) and name not in index]
    return Columns(names, columns, lambda row: f"row {row + 1}", index=index)


def as_table(
    columns: Columns,
    *,
    target: str | None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> Table:
    """Build a table from named columns.

    The features are the columns in `keep`, in that order; else all but the target,
    those in `drop`, and an index that somebody saved along.
    """
    names, place = columns.names, columns.place
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
    by_name = dict(zip(names, columns.values, strict=True))
    y = None
    if target is not None:
        y = labels(by_name.pop(target), f"column {target!r}", place)
    notes = list(columns.notes)
    chosen = list(keep)
    if not keep:
        index = [n for n in columns.index if n in by_name and n not in drop]
        chosen = [name for name in by_name if name not in (*drop, *index)]
        notes += [f"column {name!r} is an index and was left out" for name in index]
    if not chosen:
        raise Refusal("no feature column is left beside the target; add some")
    X = np.column_stack([_numbers(name, by_name[name], place) for name in chosen])
    if not keep:
        notes += [
            f"column {name!r} only numbers the rows; if it is no feature, leave it out "
            f"with --drop {name}"
            for name, column in zip(chosen, X.T, strict=True)
            if _counts_rows(column)
        ]
    return Table(X, y, chosen, target=target, notes=notes)


def _counts_rows(column: np.ndarray) -> bool:
    n = len(column)
    if n <= FEW_ROWS or column.max() - column.min() != n - 1:
        return False
    return bool(np.array_equal(np.sort(column) - column.min(), np.arange(n)))


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
    if not (numbers == np.round(numbers)).all() or np.abs(numbers).max() >= 2**53:
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
