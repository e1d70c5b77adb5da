"""UCI tables: one label among numbers, in text files of a dozen conventions.

A table is read from ``NAME/NAME.npz`` where that exists, else from the original text.
Nobody publishes checksums of the texts, so a download is checked by the digest of its
rows (`content_digest`).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from widemargin.datasets.bunch import bunch, split_bunch
from widemargin.datasets.home import (
    Source,
    check_content,
    find_or_fetch,
    get_data_home,
    read_npz,
)

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
PathLike = str | os.PathLike[str] | None


@dataclass(frozen=True)
class TextTable:
    """How the original text of a set is laid out, and what it must contain."""

    name: str
    files: Sequence[str]  # paths below UCI
    digests: Sequence[str]  # one per part: train and test, or the whole
    separator: str | None = ","
    label_first: bool = False
    skip: int = 0  # leading columns that are neither label nor feature
    label_codes: dict[str, int] | None = None
    n_train: int | None = None  # split of a set that comes in one file

    @property
    def sources(self) -> list[Source]:
        """The original files."""
        return [Source(Path(file).name, UCI + file) for file in self.files]

    def read(self, folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the parts (X, y), from npz or from text."""
        ready = folder / f"{self.name}.npz"
        if not ready.is_file():
            return self._read_text(folder)
        file = read_npz(ready)
        if "X" in file:
            return self._split(file["X"], file["y"])
        return [(file[f"X_{p}"], file[f"y_{p}"]) for p in ("train", "test")]

    def _read_text(self, folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
        parts = [self._parse(folder / source.name) for source in self.sources]
        return parts if len(parts) > 1 else self._split(*parts[0])

    def _split(self, X, y) -> list[tuple[np.ndarray, np.ndarray]]:
        if self.n_train is None:
            return [(X, y)]
        return [
            (X[: self.n_train], y[: self.n_train]),
            (X[self.n_train :], y[self.n_train :]),
        ]

    def _parse(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        lines = path.read_text().splitlines()
        rows = [
            line.split(self.separator)[self.skip :] for line in lines if line.strip()
        ]
        at = 0 if self.label_first else -1
        labels = [row.pop(at).strip() for row in rows]
        codes = self.label_codes
        y = [int(label) if codes is None else codes[label] for label in labels]
        X = [[float(v) if v.strip() != "?" else np.nan for v in row] for row in rows]
        return np.array(X), np.array(y, dtype=np.int64)

    def verify(self, folder: Path) -> None:
        """Raise ValueError unless the text in `folder` holds this set."""
        try:
            parts = self._read_text(folder)
        except (KeyError, IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"unreadable: {error}") from error
        check_content(self.digests, *parts)

    def load(
        self,
        *,
        data_home: PathLike,
        download: bool,
        return_X_y: bool,
        subset: str | None = None,
        drop_missing: bool = False,
        **extra: Any,
    ) -> Any:
        """Return the Bunch of a public loader."""
        folder = find_or_fetch(
            get_data_home(data_home) / self.name,
            self.sources,
            ready=[f"{self.name}.npz"],
            download=download,
            verify=self.verify,
        )
        parts = [
            (np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.int64))
            for X, y in self.read(folder)
        ]
        if subset is not None:
            return split_bunch(*parts, subset=subset, return_X_y=return_X_y, **extra)
        X, y = parts[0]
        if drop_missing:
            whole = ~np.isnan(X).any(axis=1)
            X, y = X[whole], y[whole]
        return bunch(X, y, return_X_y=return_X_y, **extra)
