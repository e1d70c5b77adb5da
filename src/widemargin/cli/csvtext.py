"""CSV: columns by name; fast where the cells are what they seem, else cell by cell."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from widemargin.cli.refusal import Refusal

Columns = tuple[list[str], list[Sequence], Callable[[int], str]]


def csv_columns(path: Path) -> Columns:
    """Return names, columns, and a function that says where a row is in the file."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise Refusal(f"{path} is not UTF-8 text; save it as UTF-8 CSV") from None
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise Refusal(f"{path} is empty; give a file with data")
    separator = max(",;\t", key=lines[0].count)
    head = next(csv.reader(lines[:1], delimiter=separator))
    has_header = not all(_is_number(cell) for cell in head)
    names = (
        [c.strip() for c in head] if has_header else list(map(str, range(len(head))))
    )
    body = lines[has_header:]
    if not body:
        raise Refusal(f"{path} has a header and no rows; give a file with data")
    columns = _fast(body, separator, len(names))
    if columns is None:
        columns = _cell_by_cell(path, body, separator, names, numbers[has_header:])
    return names, columns, lambda row: f"line {numbers[row + has_header]}"


def _fast(body: list[str], separator: str, width: int) -> list[Sequence] | None:
    """Columns as the first row has them: numbers or text; None where that fails."""
    first = next(csv.reader(body[:1], delimiter=separator))
    if len(first) != width:
        return None
    numeric = [i for i, cell in enumerate(first) if _is_number(cell)]
    text = [i for i in range(width) if i not in set(numeric)]
    columns: dict[int, Sequence] = {}
    try:
        for chosen, dtype in ((numeric, float), (text, object)):
            if chosen:
                values = np.loadtxt(
                    body,
                    dtype=dtype,
                    delimiter=separator,
                    quotechar='"',
                    comments=None,
                    usecols=chosen,
                    ndmin=2,
                )
                columns |= dict(zip(chosen, values.T, strict=True))
    except ValueError:
        return None
    # usecols hides cells beyond the last column.
    if any(line.count(separator) > width - 1 and '"' not in line for line in body):
        return None
    return [columns[i] for i in range(width)]


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
