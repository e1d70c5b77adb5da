"""Two large sparse sets of the LIBSVM collection: a9a (Adult) and w8a (web pages).

Features are zeros and ones in a CSR matrix; labels are −1 and 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from widemargin.datasets.home import (
    PathLike,
    Source,
    check_content,
    find_or_fetch,
    get_data_home,
    split_bunch,
)

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


@dataclass(frozen=True)
class SparseSet:
    """Two files, NAME and NAME.t, plain as published or compressed with bz2."""

    name: str
    n_features: int
    digests: tuple[str, str]

    @property
    def names(self) -> list[str]:
        """The original files: train, test."""
        return [self.name, f"{self.name}.t"]

    def read(self, folder: Path) -> list[tuple]:
        """Return the parts (X, y)."""
        parts = []
        for name in self.names:
            packed = folder / f"{name}.bz2"
            path = packed if packed.is_file() else folder / name
            X, y = load_svmlight_file(str(path), n_features=self.n_features)
            # LIBSVM and liblinear behind scikit-learn want 32-bit indices.
            X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
            parts.append((X, y.astype(np.int64)))
        return parts

    def verify(self, folder: Path) -> None:
        """Raise ValueError unless the files in `folder` hold this set."""
        check_content(self.digests, *self.read(folder))

    def load(
        self,
        loader: Callable,
        data_home: PathLike,
        download: bool,
        return_X_y: bool,
        subset: str,
    ) -> Any:
        """Return the Bunch of a public loader, which describes it."""
        folder = find_or_fetch(
            get_data_home(data_home) / self.name,
            [Source(name, LIBSVM + name) for name in self.names],
            ready=[f"{name}.bz2" for name in self.names],
            download=download,
            verify=self.verify,
        )
        train, test = self.read(folder)
        return split_bunch(
            train,
            test,
            subset=subset,
            return_X_y=return_X_y,
            target_names=[-1, 1],
            DESCR=loader.__doc__,
        )


A9A = SparseSet(
    "a9a",
    123,
    (
        "5e4e8a6b5143fc0205aeacd6522110faf9d4ffb6fe7e9019074126add26c43f2",
        "b58661169743b89afc337fe658545f21c592a81f5d0f8edbfaedfbf7b42e31a9",
    ),
)
W8A = SparseSet(
    "w8a",
    300,
    (
        "0530606066d96bca71cba5160fc96f90ad2a3d33b08921de05bd74031f8694f3",
        "b64b09c326ec23678e56792779776f9506670046c6e4b05b6b16c493d8606ed3",
    ),
)


def load_a9a(
    *,
    subset: str = "all",
    data_home: PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """a9a: 32 561 + 16 281 people of a census, who earns more than 50 000 dollars.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``a9a/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` sparse (n, 123) of zeros and ones; ``target`` −1 or 1,
        ``target_names``, ``n_train``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_a9a
    >>> load_a9a(subset="test").data.shape  # doctest: +SKIP
    (16281, 123)
    """
    return A9A.load(load_a9a, data_home, download_if_missing, return_X_y, subset)


def load_w8a(
    *,
    subset: str = "all",
    data_home: PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """w8a: 49 749 + 14 951 web pages by 300 key words, one category or not.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``w8a/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` sparse (n, 300) of zeros and ones; ``target`` −1 or 1,
        ``target_names``, ``n_train``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_w8a
    >>> load_w8a(subset="test").data.shape  # doctest: +SKIP
    (14951, 300)
    """
    return W8A.load(load_w8a, data_home, download_if_missing, return_X_y, subset)
