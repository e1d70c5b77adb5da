"""Named columns of text and numbers, as CSV and Parquet hold them, made a table.

A first line is names or data, and nothing in the file says which. Names stand over
numbers as text; pandas counts them 0, 1, 2 where nobody named them. What the user or
the model calls a column decides, then these signs; a doubtful reading is told.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from widemargin._core.checks import check_image_shape
from widemargin.cli.refusal import Refusal, near

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
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


@dataclass(frozen=True)
class Reading:
    """How a text file is to be read where it does not say so itself."""

    decimal: str = "."
    delimiter: str | None = None
    header: str = "auto"
    encoding: str = "utf-8"
    # Whether cells without a value are numbers, NaN, which the model fills in.
    missing: bool = False

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise Refusal(f"--decimal must be . or , ; got {self.decimal!r}")
        if self.header not in ("auto", "yes", "no"):
            raise Refusal(f"--header must be auto, yes or no; got {self.header!r}")
        if self.delimiter is not None and len(self.separator) != 1:
            raise Refusal(
                f"--delimiter must be one character or tab; got {self.delimiter!r}"
            )
        if self.separator == self.decimal:
            raise Refusal("--delimiter and --decimal must differ; add --delimiter ;")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise Refusal(
                f"--encoding: no encoding {self.encoding!r}; try utf-8, latin-1 or "
                "cp1252"
            ) from None

    @property
    def separator(self) -> str:
        """The delimiter itself, empty where it is to be found."""
        words = {"tab": "\t", "\\t": "\t", "space": " "}
        return words.get(self.delimiter or "", self.delimiter or "")

    def number(self, cell: str) -> str:
        """Return a cell as Python writes numbers, if it is one."""
        if self.decimal == "," and DECIMAL_COMMA.fullmatch(cell.strip()):
            return cell.strip().replace(",", ".")
        return cell


@dataclass
class Columns:
    """Columns by name; `place` says where a row is in the file."""

    names: list[str]
    values: list[Sequence]
    place: Callable[[int], str]
    index: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def csv_columns(
    path: Path, asked: Iterable[str] = (), how: Reading | None = None
) -> Columns:
    """Read CSV; `asked` are names that the user or the model has for columns."""
    how = how or Reading()
    lines = _text(path, how.encoding).splitlines()
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise Refusal(f"{path} is empty; give a file with data")
    usual = ",;\t" if how.decimal == "." else ";\t"
    separator = how.separator or max(usual, key=lines[0].count)
    first, *second = csv.reader(lines[:2], delimiter=separator)
    first = [how.number(cell.strip()) for cell in first]
    below = [how.number(cell) for cell in second[0]] if second else []
    has_header, note = _is_header(first, below, set(asked))
    if how.header != "auto":
        has_header, note = how.header == "yes", None
    names = first if has_header else list(map(str, range(len(first))))
    body, numbers = lines[has_header:], numbers[has_header:]
    if not body:
        raise Refusal(f"{path} has a header and no rows; give a file with data")
    columns = _fast(body, separator, len(names)) if how.decimal == "." else None
    if columns is None:
        columns = _cell_by_cell(path, body, separator, names, numbers)
        if how.decimal == ",":
            columns = [[how.number(cell) for cell in column] for column in columns]
    return Columns(
        names,
        columns,
        lambda row: f"line {numbers[row]}",
        index=[name for name in names if UNNAMED.fullmatch(name)],
        notes=[f"{path}: {note}"] if note else [],
    )


def _text(path: Path, encoding: str) -> str:
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            raise Refusal(f"{path} is a damaged gzip file; compress it again") from None
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise Refusal(
            f"{path} is not {encoding.upper()} text; name its encoding, as in "
            "--encoding latin-1, or save it as UTF-8"
        ) from None


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
    missing: bool = False,
) -> Table:
    """Build a table from named columns.

    The features are the columns in `keep`, in that order; else all but the target,
    those in `drop`, and an index that somebody saved along.
    """
    names, place = columns.names, columns.place
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Refusal(f"two columns are called {sorted(twice)[0]!r}; rename one")
    lacking = [repr(name) for name in keep if name not in names]
    if lacking:
        raise Refusal(
            f"the data lack {', '.join(lacking[:5])}: the model was fitted on "
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
    X = np.column_stack(
        [_numbers(name, by_name[name], place, missing) for name in chosen]
    )
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
    if n <= FEW_ROWS or np.isnan(column).any() or column.max() - column.min() != n - 1:
        return False
    return bool(np.array_equal(np.sort(column) - column.min(), np.arange(n)))


def _numbers(
    name: str, column: Sequence, place: Callable[[int], str], missing: bool
) -> np.ndarray:
    if missing:
        column = [np.nan if _is_missing(cell) else cell for cell in column]
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        values = None
    if values is not None and np.isfinite(values).all():
        return values
    if values is not None and missing and not np.isinf(values).any():
        return values
    for row, cell in enumerate(column):
        text = "" if cell is None else str(cell).strip()
        if text.lower() in MISSING:
            raise Refusal(
                f"{place(row)}, column {name!r}: no value; fill it in, remove the row, "
                "or let fit --impute median fill it in"
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


def _is_missing(cell: Any) -> bool:
    return cell is None or str(cell).strip().lower() in MISSING


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


def check_finite(X: np.ndarray, what: str, missing: bool = False) -> np.ndarray:
    """Return `X`, or name the first cell that is not a number."""
    if missing and not np.isinf(X).any():
        return X
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
    try:
        if shape is not None:
            check_image_shape(shape, "--image-shape", n_features)
    except ValueError as error:
        raise Refusal(f"--image-shape: {error}") from None
