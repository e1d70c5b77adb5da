"""Where data lie, and how they get there: whole, checked, once.

A set is a folder of files. If the files are there they are used. Otherwise they are
downloaded into a hidden folder beside it, checked, and only then moved into place. A
file whose checksum is published is checked by it; the others by the digest of what
they contain, which does not depend on line ends or on the order of the rows.

What a loader returns is made here too.
"""

import hashlib
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from widemargin._core.checks import check_option

ENVIRONMENT = "WIDEMARGIN_DATA"
PathLike = str | os.PathLike[str] | None
SUBSETS = ("train", "test", "all")


def split_bunch(
    train: tuple, test: tuple, *, subset: str, return_X_y: bool, **extra: Any
) -> Any:
    """Return the chosen subset of a set that comes split."""
    check_option("subset", subset, SUBSETS)
    if subset == "all":
        parts, y = [train[0], test[0]], np.concatenate([train[1], test[1]])
        if sparse.issparse(train[0]):
            X = sparse.vstack(parts, format="csr")
        else:
            X = np.concatenate(parts)
    else:
        X, y = train if subset == "train" else test
    return bunch(X, y, return_X_y=return_X_y, n_train=len(train[1]), **extra)


def bunch(X: Any, y: Any, *, return_X_y: bool, target_names, **extra: Any) -> Any:
    """Return the arrays, alone or with what is known about them."""
    if return_X_y:
        return X, y
    return Bunch(data=X, target=y, target_names=np.asarray(target_names), **extra)


class Source(NamedTuple):
    """One original file: its name, its address, its checksum where one is known."""

    name: str
    url: str
    known_hash: str | None = None


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that holds the data sets; it need not exist.

    Parameters
    ----------
    data_home : path, optional
        Taken as it is. By default the environment variable ``WIDEMARGIN_DATA``, else
        ``~/widemargin_data``.

    Returns
    -------
    pathlib.Path
        One sub-folder per data set.

    Examples
    --------
    >>> from widemargin.datasets import get_data_home
    >>> get_data_home("somewhere").name
    'somewhere'
    """
    if data_home is None:
        data_home = os.environ.get(ENVIRONMENT) or "~/widemargin_data"
    return Path(data_home).expanduser()


def find_or_fetch(
    folder: Path,
    sources: Sequence[Source],
    *,
    ready: Sequence[str] = (),
    download: bool = True,
    verify: Callable[[Path], None] | None = None,
) -> Path:
    """Return `folder` once it holds all `ready` files or all `sources`.

    `verify` reads the downloaded files in a folder and raises ValueError if they do
    not hold what they should.
    """
    names = [source.name for source in sources]
    if any(group and _holds(folder, group) for group in (ready, names)):
        return folder
    if not download:
        raise FileNotFoundError(_where_to_put(folder, sources, "are not there"))
    try:
        import pooch
    except ModuleNotFoundError:
        reason = "are not there, and to download them needs pooch (pip install pooch)"
        raise FileNotFoundError(_where_to_put(folder, sources, reason)) from None
    _download(pooch.retrieve, folder, sources, verify)
    return folder


def _holds(folder: Path, names: Sequence[str]) -> bool:
    return all((folder / name).is_file() for name in names)


def _download(retrieve, folder, sources, verify) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".download-", dir=folder))
    try:
        for source in sources:
            retrieve(
                source.url, known_hash=source.known_hash, fname=source.name, path=beside
            )
        if verify is not None:
            verify(beside)
        for source in sources:
            (beside / source.name).replace(folder / source.name)
    except OSError as error:
        reason = f"could not be downloaded ({type(error).__name__})"
        raise OSError(_where_to_put(folder, sources, reason)) from error
    except ValueError as error:
        reason = f"were downloaded and are not what they should be ({error})"
        raise OSError(_where_to_put(folder, sources, reason)) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def _where_to_put(folder: Path, sources: Sequence[Source], reason: str) -> str:
    names = ", ".join(source.name for source in sources)
    lines = "\n".join(f"  {source.url}" for source in sources)
    return (
        f"The files {names} of the data set {folder.name!r} {reason}. Put them into "
        f"{folder}, or set {ENVIRONMENT} or data_home= to the folder that holds "
        f"{folder.name}/. They come from\n{lines}"
    )


def read_npz(path: Path) -> dict[str, NDArray]:
    """Return all arrays of an npz file, or say which file is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise OSError(
            f"{path} is damaged ({error}); remove it, and it is fetched again."
        ) from error


def read_libsvm(path: Path, n_features: int | None = None) -> tuple[Any, NDArray]:
    """Return sparse rows and labels of a LIBSVM text, packed or not."""
    X, y = load_svmlight_file(str(path), n_features=n_features)
    # LIBSVM and liblinear behind scikit-learn want 32-bit indices.
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y


def content_digest(X, y) -> str:
    """Return a digest of labelled rows, whatever their order; NaN is a value."""
    if sparse.issparse(X):
        X = X.toarray()
    values = np.column_stack([X, y]).astype(np.float64) * 1e6
    whole = np.where(np.isnan(values), -(2.0**53), np.round(values)).astype("<i8")
    rows = sorted(hashlib.sha256(row.tobytes()).digest() for row in whole)
    return hashlib.sha256(b"".join(rows)).hexdigest()


def check_content(expected: Sequence[str], *parts: tuple) -> None:
    """Raise ValueError unless the parts (X, y) have the expected digests."""
    for number, (digest, (X, y)) in enumerate(zip(expected, parts, strict=True)):
        if content_digest(X, y) != digest:
            raise ValueError(f"part {number + 1} of {len(parts)} has other contents")
