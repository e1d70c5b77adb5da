"""Read data by what it is: CSV, Parquet, npz, npy, idx, LIBSVM text, or images.

Images lie in a folder, one sub-folder per class; they become grey levels in 0..1.

Tables are read by pandas, LIBSVM text by scikit-learn; what is here says what is meant
and what is wrong.

A first line is names or data, and nothing in the file says which. Names stand over
numbers as text; pandas counts them 0, 1, 2 where nobody named them. What the user or
the model calls a column decides, then these signs; a doubtful reading is told.
"""

import contextlib
import csv
import gzip
import io
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin._core.checks import check_image_shape
from widemargin.cli import Refusal, near

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
# Fewer rows than this may well be counted by a feature.
FEW_ROWS = 20
# As many values of a text column become columns of their own, or half of the rows.
MOST_KINDS = 20


@dataclass
class Table:
    """Samples in rows; `y` is None where no labels were asked for."""

    X: Any
    y: NDArray | None = None
    names: list[str] = field(default_factory=list)
    image_shape: tuple[int, ...] | None = None
    target: str | None = None
    rows: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # What the rows are called by: their numbers, files, or a column.
    rows_are: str = "row"


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
            raise Refusal("--delimiter and --decimal must differ; add --delimiter ';'")
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


@dataclass(frozen=True)
class Wanted:
    """What of a file is wanted; labels only if `labelled`.

    `target` is what the user says, `usual_target` what holds where names do. Of named
    columns all but the target and `drop` are features, or those in `keep`, in that
    order, if given. Columns in `encode` become one for each of their values; rows are
    `called` by a column. Images in files are brought to `image_shape`, which other rows
    must have, or to `size`.
    """

    target: str | None = None
    usual_target: str | None = None
    labelled: bool = True
    image_shape: tuple[int, ...] | None = None
    size: tuple[int, ...] | None = None
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    encode: Sequence[str] = ()
    called: str | None = None
    n_features: int | None = None


@dataclass
class Columns:
    """Columns by name; `place` says where a row is in the file."""

    names: list[str]
    values: list[Sequence]
    place: Callable[[int], str]
    index: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def csv_columns(
    path: Path,
    asked: Iterable[str] = (),
    how: Reading | None = None,
    target: str | None = None,
    texts: Iterable[str] = (),
) -> Columns:
    """Read CSV; `asked` are names that the user or the model has for columns.

    Cells of the `target` and of `texts` stay text: 01 is another label than 1.
    """
    import pandas

    how = how or Reading()
    text = _text(path, how.encoding)
    first_line = next((line for line in io.StringIO(text) if line.strip()), None)
    if first_line is None:
        raise Refusal(f"{path} is empty; give a file with data")
    usual = ",;\t|" if how.decimal == "." else ";\t|"
    separator = how.separator or max(usual, key=first_line.count)
    top = [cells for _, cells in islice(_records(text, separator), 2)]
    first = [how.number(cell.strip()) for cell in top[0]]
    alone = len(first) == 1 and first[0] not in asked and not how.separator
    if alone and " " in first[0]:
        raise Refusal(
            f"{path} has one column, {first[0]!r}; if blanks separate columns, add "
            "--delimiter space"
        )
    below = [how.number(cell) for cell in top[1]] if len(top) > 1 else []
    has_header, note = _is_header(first, below, set(asked))
    if how.header != "auto":
        has_header, note = how.header == "yes", None
    places = list(map(str, range(len(first))))
    names = first if has_header else places
    if has_header and len(top) < 2:
        raise Refusal(f"{path} has a header and no rows; give a file with data")
    as_text = {*texts, *([] if target is None else [_column_name(target, names)])}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            # Of columns that begin as numbers and go on as text.
            warnings.simplefilter("ignore", pandas.errors.DtypeWarning)
            # Names are ours: two may be the same, which is told later.
            frame = pandas.read_csv(
                io.StringIO(text),
                sep=separator,
                header=0 if has_header else None,
                names=places,
                index_col=False,
                dtype={
                    place: str
                    for place, name in zip(places, names, strict=True)
                    if name in as_text
                },
                decimal=how.decimal,
                keep_default_na=False,
            )
    except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
        _check_lengths(path, text, separator, len(first))
        raise Refusal(f"{path} cannot be read ({error}); mend it") from None
    columns = [_as_written(frame[place], how) for place in places]
    if any(map(_is_missing, columns[-1])):
        # Pandas fills what is missing at the end of a line.
        _check_lengths(path, text, separator, len(first))

    def place(row: int) -> str:
        line, _ = next(islice(_records(text, separator), row + has_header, None))
        return f"line {line}"

    return Columns(
        names,
        columns,
        place,
        index=[name for name in names if UNNAMED.fullmatch(name)],
        notes=[f"{path}: {note}"] if note else [],
    )


def _as_written(column: Any, how: Reading) -> Sequence:
    """Return numbers, or the cells of a column that has others."""
    if column.dtype.kind in "fiu":
        return column.to_numpy()
    # True and False are text here, as yes and no are.
    return [how.number(str(cell)) for cell in column]


def _records(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of text with the number of their first line, as an editor counts them."""
    rows, before = csv.reader(io.StringIO(text, newline=""), delimiter=separator), 0
    for row in rows:
        if len(row) > 1 or any(cell.strip() for cell in row):
            yield before + 1, row
        before = rows.line_num


def _check_lengths(path: Path, text: str, separator: str, n_columns: int) -> None:
    """Refuse a row of more or fewer cells than the first; name its line."""
    for line, row in _records(text, separator):
        if len(row) != n_columns:
            raise Refusal(
                f"{path}, line {line}: {len(row)} cells where the first line has "
                f"{n_columns}; mend that line, or let a shorter signal end in empty "
                "cells"
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
    # Wavelengths and years are names too, unlike the places of columns without any.
    places = {str(i) for i in range(-len(first), len(first))}
    known = asked - places
    if 2 * len(known.intersection(first)) > len(known):
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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # 1_0 is ten in Python only


def parquet_columns(path: Path) -> Columns:
    """Read Parquet; what pandas stored as its index is known as such."""
    import pandas

    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except ImportError:
        raise Refusal("Parquet needs pyarrow: pip install pyarrow") from None
    except (ValueError, OSError) as error:
        raise Refusal(
            f"{path} is a damaged Parquet file ({error}); write it again"
        ) from None
    index = []
    if not isinstance(frame.index, pandas.RangeIndex):
        index = [
            f"__index_level_{level}__" if name is None else str(name)
            for level, name in enumerate(frame.index.names)
        ]
        frame = frame.reset_index(names=index)
    names = [str(name) for name in frame.columns]
    index += [name for name in names if UNNAMED.fullmatch(name) and name not in index]
    columns = [frame.iloc[:, place].tolist() for place in range(len(names))]
    return Columns(names, columns, lambda row: f"row {row + 1}", index=index)


def as_table(
    columns: Columns, target: str | None, wanted: Wanted, missing: bool = False
) -> Table:
    """Build a table from named columns, one of which may be the target.

    An index that somebody saved along is no feature.
    """
    drop, keep, called = wanted.drop, wanted.keep, wanted.called
    columns = _without_empty(columns)
    if called is not None and called not in columns.names:
        raise Refusal(f"--id: no column {called!r}; {near(called, columns.names)}")
    called_by = dict(zip(columns.names, columns.values, strict=True)).get(called or "")
    columns = _one_hot(columns, wanted.encode, keep)
    names, place, notes = columns.names, columns.place, list(columns.notes)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Refusal(f"two columns are called {sorted(twice)[0]!r}; rename one")
    lacking = [repr(name) for name in keep if name not in names]
    hint = "; where the first line of a CSV file holds names, add --header yes"
    if lacking:
        raise Refusal(
            f"the data lack {', '.join(lacking[:5])}: the model was fitted on "
            f"{len(keep)} columns, all of which must be there"
            f"{hint if names == list(map(str, range(len(names)))) else ''}"
        )
    for option, asked in [("--drop", name) for name in drop] + [("--target", target)]:
        if asked is not None and asked not in names:
            raise Refusal(f"{option}: no column {asked!r}; {near(asked, names)}")
    by_name = dict(zip(names, columns.values, strict=True))
    y = None
    if target is not None:
        y = labels(by_name.pop(target), f"column {target!r}", place)
    chosen = list(keep)
    if not keep:
        index = [n for n in columns.index if n in by_name and n not in drop]
        chosen = [name for name in by_name if name not in (*drop, *index, called)]
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
    table = Table(X, y, chosen, target=target, notes=notes)
    if called is not None and called_by is not None:
        table.rows, table.rows_are = [str(cell) for cell in called_by], called
    return table


def encoded_names(keep: Iterable[str]) -> set[str]:
    """Return which columns names such as ``city=Rome`` may have been made from."""
    return {
        name[:place]
        for name in keep
        for place, sign in enumerate(name)
        if sign == "=" and place
    }


def _one_hot(columns: Columns, encode: Sequence[str], keep: Sequence[str]) -> Columns:
    """Put a column ``name=value`` for every value in the place of a text column.

    Which values there are is told by the data, or by the names in `keep` of a model. A
    missing value, and one that the model does not know, has zeros everywhere.
    """
    for name in encode:
        if name not in columns.names:
            raise Refusal(f"--encode: no column {name!r}; {near(name, columns.names)}")
    known = [n for n in columns.names if n in encoded_names(keep) and n not in keep]
    names, values, notes = [], [], list(columns.notes)
    for name, cells in zip(columns.names, columns.values, strict=True):
        if name not in {*encode, *known}:
            names.append(name)
            values.append(cells)
            continue
        texts = [_text_of(cell) for cell in cells]
        there = sorted({text for text in texts if not _is_missing(text)})
        kinds = there
        if name in known:
            made = {
                n.removeprefix(f"{name}=") for n in keep if n.startswith(f"{name}=")
            }
            kinds = sorted(made)
            if new := [kind for kind in there if kind not in made]:
                notes.append(
                    f"column {name!r} has values that the model does not know: "
                    f"{', '.join(new[:5])}; they count as none of those it knows"
                )
        elif len(kinds) > max(MOST_KINDS, len(texts) // 2):
            raise Refusal(
                f"--encode: column {name!r} has {len(kinds)} values in {len(texts)} "
                f"rows; leave it out with --drop {name}"
            )
        names += [f"{name}={kind}" for kind in kinds]
        values += [[float(text == kind) for text in texts] for kind in kinds]
    return Columns(names, values, columns.place, columns.index, notes)


def _without_empty(columns: Columns) -> Columns:
    """Leave out columns of neither name nor value, as commas at ends of lines make."""
    kept = [
        (name, values)
        for name, values in zip(columns.names, columns.values, strict=True)
        if not (UNNAMED.fullmatch(name) and all(map(_is_missing, values)))
    ]
    n_empty = len(columns.names) - len(kept)
    if not n_empty:
        return columns
    names, values = [name for name, _ in kept], [values for _, values in kept]
    note = f"{n_empty} columns of no name and no value were left out"
    index = [name for name in columns.index if name in names]
    return Columns(names, values, columns.place, index, [*columns.notes, note])


def _counts_rows(column: NDArray) -> bool:
    n = len(column)
    if n <= FEW_ROWS or np.isnan(column).any() or column.max() - column.min() != n - 1:
        return False
    return bool(np.array_equal(np.sort(column) - column.min(), np.arange(n)))


def _numbers(
    name: str, column: Sequence, place: Callable[[int], str], missing: bool
) -> NDArray:
    if missing:
        column = [np.nan if _is_missing(cell) else cell for cell in column]
    values = None
    if not any("_" in cell for cell in column if isinstance(cell, str)):
        with contextlib.suppress(TypeError, ValueError):
            values = np.asarray(column, dtype=np.float64)
    if (
        values is not None
        and (np.isfinite(values) | (missing & np.isnan(values))).all()
    ):
        return values
    for row, cell in enumerate(column):
        text = _text_of(cell)
        if _is_missing(cell):
            raise Refusal(
                f"{place(row)}, column {name!r}: no value; fill it in, remove the row, "
                "or let fit --impute median fill it in"
            )
        if DECIMAL_COMMA.fullmatch(text):
            raise Refusal(
                f"column {name!r} holds {text!r} in {place(row)}; where the comma is "
                "its decimal sign, add --decimal ,"
            )
        if not _is_number(text):
            raise Refusal(
                f"column {name!r} holds text ({text!r} in {place(row)}); fit --encode "
                f"{name} makes it one-hot, --drop {name} leaves it out"
            )
        if not np.isfinite(float(text)):
            raise Refusal(
                f"{place(row)}, column {name!r}: {text} is not finite; mend it"
            )
    raise Refusal(
        f"column {name!r} cannot be read as numbers; leave it out with --drop"
    )


def _text_of(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _is_missing(cell: Any) -> bool:
    return _text_of(cell).lower() in MISSING


def labels(
    column: Sequence, what: str, place: Callable[[int], str] = "row {}".format
) -> NDArray:
    """Return labels as integers where they are whole numbers, else as text.

    Text that is not how a number is written, such as 01, is a name like others.
    """
    texts = [_text_of(cell) for cell in column]
    for row, text in enumerate(texts):
        if _is_missing(text):
            raise Refusal(
                f"{place(row)}, {what}: no label; fill it in or remove the row"
            )
    try:
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        return np.array(texts)
    if not (numbers == np.round(numbers)).all() or np.abs(numbers).max() >= 2**53:
        raise Refusal(f"{what} holds real numbers; a classifier needs class labels")
    whole = numbers.astype(np.int64)
    written = zip(column, texts, whole.tolist(), strict=True)
    if any(isinstance(c, str) and t not in (f"{n}", f"{n}.0") for c, t, n in written):
        return np.array(texts)
    return whole


def check_finite(X: NDArray, what: str, missing: bool = False) -> NDArray:
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


def check_classes(y: NDArray) -> None:
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


LIBSVM_LINE = re.compile(r"^[+-]?[\d.]+(e[+-]?\d+)?(\s+\d+:\S+)+\s*(#.*)?$")
DENSE_LIMIT = 2 * 1024**3  # bytes
# What files of a kind begin with.
BEGINNINGS = {
    "parquet": (b"PAR1",),
    "npz": (b"PK",),
    "npy": (b"\x93NUMPY",),
    "image": (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*"),
    "idx": tuple(bytes([0, 0, kind]) for kind in (8, 11, 12, 13, 14)),
}
IMAGE_NAMES = (
    *(".png", ".jpg", ".jpeg", ".gif", ".bmp"),
    *(".tif", ".tiff", ".webp", ".pgm"),
)
IDX_NAME = re.compile(r"idx\d|\.idx")


def read(path: Path, how: Reading | None = None, **options: Any) -> Table:
    """Read a file, a folder or standard input, ``-``; `options` are those of Wanted."""
    wanted, how = Wanted(**options), how or Reading()
    if str(path) != "-":
        return read_path(path, wanted, how)
    data = sys.stdin.buffer.read()
    if not data:
        raise Refusal("standard input is empty; pipe a file into it")
    with TemporaryDirectory() as folder:
        path = Path(folder, "standard input")
        path.write_bytes(data)
        try:
            return read_path(path, wanted, how)
        except Refusal as refusal:
            raise Refusal(str(refusal).replace(str(path), path.name)) from None


def read_path(path: Path, wanted: Wanted, how: Reading) -> Table:
    """Read a file or a folder."""
    target, labelled = wanted.target, wanted.labelled
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = f"; {near(path.name, beside)}" if beside else ""
        raise Refusal(f"{path}: there is no such file{hint}")
    if path.is_dir():
        _no_target(target, "folders are named after the classes")
        return read_folder(path, labelled, wanted.image_shape or wanted.size)
    if path.stat().st_size == 0:
        raise Refusal(f"{path} is empty; give a file with data")
    kind = kind_of(path)
    if kind in ("csv", "parquet"):
        label = target or wanted.usual_target
        keep, called = wanted.keep, [wanted.called] if wanted.called else []
        asked = [*wanted.drop, *keep, *wanted.encode, *([label] if label else [])]
        texts = {*wanted.encode, *encoded_names(keep) - {*keep}, *called}
        asked += [*called, *(name for name in texts if name not in asked)]
        columns = (
            csv_columns(path, asked, how, label if labelled else None, texts)
            if kind == "csv"
            else parquet_columns(path)
        )
        chosen = _column_name(label, columns.names) if labelled else None
        table = as_table(columns, chosen, wanted, how.missing)
    elif wanted.drop or wanted.encode or wanted.called:
        given = {"--drop": wanted.drop, "--encode": wanted.encode}
        option = next((name for name, value in given.items() if value), "--id")
        raise Refusal(f"{option} is for named columns; {path} has none")
    elif kind == "npz":
        label = target or wanted.usual_target
        table = _read_npz(path, label, labelled, how.missing)
    elif kind == "npy":
        table = _read_npy(path, target, labelled, how.missing)
    elif kind == "image":
        if labelled:
            raise Refusal(f"{path} is one image without a label; give a folder of them")
        return read_one(path, wanted.image_shape or wanted.size)
    elif kind == "idx":
        table = _read_idx(path, target, labelled)
    else:
        _no_target(target, "LIBSVM text begins each line with the label")
        table = _read_libsvm(path, wanted.n_features)
    if table.X.shape[0] == 0:
        raise Refusal(f"{path} has no rows; give a file with data")
    check_shape(table.X.shape[1], wanted.image_shape)
    table.image_shape = wanted.image_shape or table.image_shape
    return table


def kind_of(path: Path) -> str:
    """Return what a file is, by name and first bytes.

    That is "csv", "parquet", "npz", "npy", "idx", "libsvm" or "image".
    """
    with path.open("rb") as file:
        head = file.read(4096)
    if path.suffix == ".npz":
        return "npz"
    for kind, beginnings in BEGINNINGS.items():
        if head.startswith(beginnings):
            return kind
    if path.suffix.lower() in IMAGE_NAMES:
        return "image"
    if head[:2] == b"\x1f\x8b" and IDX_NAME.search(path.name):
        return "idx"
    if path.suffix in (".csv", ".tsv") or re.search(r"\.[ct]sv\.gz$", path.name):
        return "csv"
    if path.suffix == ".bz2":
        return "libsvm"
    if head[:2] == b"\x1f\x8b":
        # As much as these bytes hold; the end may be missing.
        head = zlib.decompressobj(31).decompress(head, 4096)
    try:
        first = head.decode("utf-8", "strict" if len(head) < 4096 else "ignore")
    except UnicodeDecodeError:
        raise Refusal(
            f"{path} is of no known kind; give CSV, Parquet, npz, npy, idx, LIBSVM "
            "text, an image or a folder of images, or name the encoding of a text"
        ) from None
    if first.lstrip().startswith(("{", "[{", "[[")) or path.suffix == ".json":
        raise Refusal(f"{path} is JSON; save it as CSV or Parquet")
    lines = [line for line in first.splitlines() if line.strip()]
    return "libsvm" if lines and LIBSVM_LINE.match(lines[0]) else "csv"


def _no_target(target: str | None, reason: str) -> None:
    if target is not None:
        raise Refusal(f"--target: {reason}; leave it out")


def _column_name(target: str | None, names: Sequence[str]) -> str:
    if target is None:
        raise Refusal(
            f"say which column holds the labels: --target NAME; {near('', names)}"
        )
    if target not in names and re.fullmatch(r"-\d+", target):
        position = int(target)
        if -position <= len(names):
            return names[position]
    return target


def _rows(
    X: NDArray,
    y: NDArray | None,
    path: Path,
    labels_at: Any,
    missing: bool = False,
    **extra: Any,
) -> Table:
    """Make a table of samples that have any number of axes."""
    shape = X.shape[1:] if X.ndim > 2 else None
    X = X.reshape(len(X), -1)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if y is not None and len(y) != len(X):
        raise Refusal(
            f"{len(X)} rows in {path} and {len(y)} labels in {labels_at}; they must "
            "be as many"
        )
    X = check_finite(X, str(path), missing)
    return Table(X, y, image_shape=shape, **extra)


def _read_npy(path: Path, target: str | None, labelled: bool, missing: bool) -> Table:
    X = _loaded(path)
    if X.ndim < 2 or X.dtype.kind not in "fiub":
        raise Refusal(
            f"{path} holds {X.ndim} axes of {X.dtype}; samples are numbers, in rows"
        )
    if not labelled:
        return _rows(X, None, path, None, missing)
    found = None
    if target is not None and Path(target).is_file():
        found = _loaded(Path(target))
    if target is None or not isinstance(found, np.ndarray):
        raise Refusal(f"--target: give the npy file of the labels of {path.name}")
    y = labels(found.ravel().tolist(), target)
    return _rows(X, y, path, target, missing)


def _loaded(path: Path) -> Any:
    """Return the array of a npy file, or those of a npz file by name."""
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            arrays = {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise Refusal(
            f"{path} is no readable npy or npz file ({error}); save it again"
        ) from None
    if all(isinstance(array, np.ndarray) for array in arrays.values()):
        return arrays
    if any(name.startswith("xl/") or name == "content.xml" for name in arrays):
        raise Refusal(f"{path} is a spreadsheet; save it as CSV")
    if "schema.json" in arrays:
        raise Refusal(f"{path} is a model; give data: widemargin predict MODEL DATA")
    raise Refusal(f"{path} is an archive of other files than arrays; unpack it")


def _read_npz(path: Path, target: str | None, labelled: bool, missing: bool) -> Table:
    arrays = _loaded(path)
    target = target or "y"
    if labelled and target not in arrays:
        raise Refusal(
            f"--target: no array {target!r} in {path}; {near(target, arrays)}"
        )
    tables = [name for name, a in arrays.items() if a.ndim > 1 and name != target]
    name = "X" if "X" in tables else tables[0] if len(tables) == 1 else None
    if name is None:
        raise Refusal(
            f"{path}: the samples must be an array called X; {near('X', arrays)}"
        )
    X = arrays[name]
    if X.dtype.kind not in "fiub":
        raise Refusal(f"{path}: X holds {X.dtype}, not numbers; save it as numbers")
    y = labels(arrays[target].ravel(), f"array {target!r}") if labelled else None
    return _rows(X, y, path, f"array {target!r}", missing, target=target)


def _read_idx(path: Path, target: str | None, labelled: bool) -> Table:
    X = _idx_or_refuse(path)
    if X.ndim < 2:
        raise Refusal(f"{path} holds labels; give the file of images or samples")
    if X.dtype == np.uint8:
        # Bytes are grey levels: 0..1 is what tangents and prototypes are made for.
        X = X.astype(np.float32) / 255
    if not labelled:
        return _rows(X, None, path, None)
    guess = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    labels_at = Path(target) if target else guess
    if labels_at == path or not labels_at.is_file():
        raise Refusal(f"--target: give the idx file of the labels of {path.name}")
    y = _idx_or_refuse(labels_at).ravel()
    return _rows(X, y.astype(np.int64), path, labels_at)


def _idx_or_refuse(path: Path) -> NDArray:
    from widemargin.datasets import read_idx

    try:
        return read_idx(path)
    except ValueError as error:
        raise Refusal(f"{error} Fetch or write it again") from None


def _read_libsvm(path: Path, n_features: int | None) -> Table:
    """Features that the model does not know are passed over, as columns of CSV are."""
    from widemargin.datasets.home import read_libsvm

    try:
        X, y = read_libsvm(path)
    except ValueError as error:
        raise Refusal(f"{path} is no LIBSVM text ({error}); mend that line") from None
    check_finite(X.data.reshape(1, -1), str(path))
    notes = []
    if n_features is not None:
        extra = X.shape[1] - n_features
        if extra > 0:
            notes = [f"{extra} features that the model does not know are passed over"]
        X.resize(len(y), n_features)
    return Table(X, labels(y.tolist(), "the first column"), notes=notes)


def as_usable(X: Any, takes_sparse: bool, model: str) -> Any:
    """Make sparse data dense for the models that need it, if they fit."""
    if not sparse.issparse(X) or takes_sparse:
        return X
    if X.shape[0] * X.shape[1] * 8 > DENSE_LIMIT:
        raise Refusal(
            f"{model} needs dense data, and {X.shape[0]} x {X.shape[1]} are too many; "
            "use maxmargin, perceptron or fixedmargin"
        )
    return X.toarray()


def read_folder(
    folder: Path, labelled: bool, image_shape: tuple[int, ...] | None
) -> Table:
    """Read all images; they are resized only where `image_shape` asks for it.

    Without labels the images may lie in the folder itself.
    """
    if image_shape is not None and len(image_shape) != 2:
        raise Refusal("--image-shape: images of a folder are read as grey; write 16x16")
    classes = _entries(folder, lambda path: path.is_dir())
    if labelled and not classes:
        raise Refusal(
            f"{folder} has no sub-folders; make one per class, named after it"
        )
    homes = classes or [folder]
    files = [(home, path) for home in homes for path in _entries(home, Path.is_file)]
    for home in homes:
        if home not in {h for h, _ in files}:
            raise Refusal(
                f"{home} holds no images; put some there or remove the folder"
            )
    images = [_read_image(path, image_shape) for _, path in files]
    shape = images[0].shape
    for (_, path), image in zip(files, images, strict=True):
        if image.shape != shape:
            raise Refusal(
                f"{path} is {_size(image.shape)} and {files[0][1].name} is "
                f"{_size(shape)}; bring all to one size with "
                f"--image-shape {_size(shape)}"
            )
    X = np.stack(images).reshape(len(images), -1)
    y = np.array([home.name for home, _ in files]) if labelled else None
    rows = [str(path.relative_to(folder)) for _, path in files]
    return Table(X, y, image_shape=shape, rows=rows)


def read_one(path: Path, image_shape: tuple[int, ...] | None) -> Table:
    """Read a single image, brought to the shape of those a model was fitted on."""
    if image_shape is not None and len(image_shape) != 2:
        raise Refusal(f"{path} is read as grey, and the model was fitted on colours")
    image = _read_image(path, image_shape)
    return Table(image.reshape(1, -1), image_shape=image.shape, rows=[path.name])


def _entries(folder: Path, wanted) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if wanted(path) and not path.name.startswith(".")
    )


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _read_image(path: Path, shape: tuple[int, ...] | None) -> NDArray:
    """Return grey levels in 0..1, turned as the camera was held."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError:
        raise Refusal("images need Pillow: pip install pillow") from None
    try:
        with Image.open(path) as image:
            grey, white = _grey(path, ImageOps.exif_transpose(image))
            if shape is not None and grey.size != (shape[1], shape[0]):
                grey = grey.resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
            return np.asarray(grey, dtype=np.float32) / white
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError):
        raise Refusal(f"{path} is no readable image; mend or remove it") from None


def _grey(path: Path, image: Any) -> tuple[Any, int]:
    """Return an image of one channel, and the value that is white in it.

    What is transparent is seen on white. Pillow would cut 16 bits and real numbers off
    at 255.
    """
    from PIL import Image

    if image.mode == "F" or image.mode.startswith("I"):
        values = np.asarray(image, dtype=np.float32)
        white = 1 if image.mode == "F" else 65535
        if not (values.min() >= 0 and values.max() <= white):
            raise Refusal(
                f"{path} holds {values.min():g} to {values.max():g} (mode "
                f"{image.mode}), and such images are read as 0 to {white}; scale it, "
                "or save it with 8 bits"
            )
        return Image.fromarray(values), white
    if "A" not in image.getbands() and "transparency" not in image.info:
        return image.convert("L"), 255
    drawn = image.convert("RGBA")
    seen = Image.alpha_composite(Image.new("RGBA", image.size, "white"), drawn)
    grey, alpha = seen.convert("L"), drawn.getchannel("A").getextrema()
    if grey.getextrema() == (255, 255) and alpha[0] < alpha[1]:
        raise Refusal(
            f"{path} is white on transparent (mode {image.mode}), and what is "
            "transparent is read as white; give it a dark background"
        )
    return grey, 255
