"""Handwritten digits: USPS, MNIST, and nist3, the set of Aiolli and Sperduti.

Pixels are float32 between 0 (paper) and 1 (ink), rows of ``image_shape``.
MNIST comes in the idx format: a magic number, the shape, the values, big-endian.

nist3 are digits of NIST special database 3, as in Aiolli and Sperduti's experiments.
MNIST's training set mixes two NIST databases. The extended labels of QMNIST tell them
apart: series (hsf) 0 is SD-3. Of these digits 10 705 are drawn at random, freed of
their empty borders and brought to 16×16 grey levels: 5 000 to train, 5 705 to test.
The authors' own draw was never published; this one is reproducible from its seed.

Reference: F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
section 6; C. Yadav, L. Bottou, Cold case: the lost MNIST digits, NeurIPS 2019.
"""

import gzip
import math
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.datasets.home import (
    PathLike,
    Source,
    find_or_fetch,
    get_data_home,
    read_libsvm,
    read_npz,
    split_bunch,
)

DIGITS = np.arange(10)
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
USPS = (
    Source("usps.bz2", LIBSVM + "usps.bz2", "md5:ec16c51db3855ca6c91edd34d0e9b197"),
    Source("usps.t.bz2", LIBSVM + "usps.t.bz2", "md5:8ea070ee2aca1ac39742fdd1ef5ed118"),
)
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST = tuple(
    Source(name, _MNIST + name, f"sha256:{digest}")
    for name, digest in (
        (
            "train-images-idx3-ubyte.gz",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    )
)
_QMNIST = (
    "https://raw.githubusercontent.com/facebookresearch/qmnist/"
    "94061367ec2e099ea18c553c75727ecf849ddb9b/"
)
QMNIST = (
    Source(
        "qmnist-train-labels-idx2-int.gz",
        _QMNIST + "qmnist-train-labels-idx2-int.gz",
        "sha256:2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
    ),
)
DTYPES: dict[int, np.dtype] = {
    0x08: np.dtype("u1"),
    0x09: np.dtype("i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
N_DIGITS, N_TRAIN, SIDE = 10_705, 5_000, 16
SD3_SERIES = 0


def load_usps(
    *,
    subset: str = "all",
    data_home: PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """USPS: 7291 + 2007 digits from envelopes, 16×16.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``usps/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (n, 256) float32 in [0, 1], ``target``, ``target_names``,
        ``image_shape``, ``n_train``, ``DESCR``. Euclidean 1-NN errs on 5.63 % of test.

    Examples
    --------
    >>> from widemargin.datasets import load_usps
    >>> load_usps(subset="test").data.shape  # doctest: +SKIP
    (2007, 256)
    """
    folder = find_or_fetch(
        get_data_home(data_home) / "usps",
        USPS,
        ready=["usps.npz"],
        download=download_if_missing,
    )
    train, test = _read_usps(folder)
    return _images(load_usps, train, test, subset, return_X_y)


def _images(
    loader: Callable, train: tuple, test: tuple, subset: str, return_X_y: bool
) -> Any:
    side = math.isqrt(train[0].shape[1])
    return split_bunch(
        train,
        test,
        subset=subset,
        return_X_y=return_X_y,
        target_names=DIGITS,
        image_shape=(side, side),
        DESCR=loader.__doc__,
    )


def _read_usps(folder: Path) -> tuple[tuple, tuple]:
    if (folder / "usps.npz").is_file():
        file = read_npz(folder / "usps.npz")
        parts = [(file[f"X_{p}_milli"], file[f"y_{p}"]) for p in ("train", "test")]
    else:
        parts = []
        for source in USPS:
            X, y = read_libsvm(folder / source.name, 256)
            # LIBSVM counts the classes from 1.
            parts.append((np.round(1000 * X.toarray()), y - 1))
    train, test = ((_ink(milli), y.astype(np.int64)) for milli, y in parts)
    return train, test


def _ink(milli: NDArray) -> NDArray:
    """From −1000 (paper) .. 1000 (ink) to 0 .. 1."""
    return ((milli.astype(np.float64) / 1000 + 1) / 2).astype(np.float32)


def load_mnist(
    *,
    subset: str = "all",
    data_home: PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """MNIST: 60 000 + 10 000 digits, 28×28.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``mnist/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (n, 784) float32 in [0, 1], ``target``, ``target_names``,
        ``image_shape``, ``n_train``, ``DESCR``. Euclidean 1-NN errs on 3.09 % of test.

    Examples
    --------
    >>> from widemargin.datasets import load_mnist
    >>> load_mnist(subset="test").data.shape  # doctest: +SKIP
    (10000, 784)
    """
    folder = _mnist_folder(data_home, download_if_missing)
    train, test = (
        (_unit_rows(folder / images.name), _labels(folder / labels.name))
        for images, labels in (MNIST[:2], MNIST[2:])
    )
    return _images(load_mnist, train, test, subset, return_X_y)


def _mnist_folder(data_home: PathLike, download: bool) -> Path:
    return find_or_fetch(get_data_home(data_home) / "mnist", MNIST, download=download)


def _unit_rows(path: Path) -> NDArray:
    images = read_idx(path)
    return images.reshape(len(images), -1).astype(np.float32) / 255


def _labels(path: Path) -> NDArray:
    return read_idx(path).astype(np.int64)


def mnist_writers(
    *, data_home: PathLike = None, download_if_missing: bool = True
) -> NDArray:
    """Writer of every training image of MNIST, by QMNIST's extended labels.

    Parameters
    ----------
    data_home : path, optional
        Folder with ``qmnist-labels/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the file is absent.

    Returns
    -------
    ndarray of shape (60000,)
        Numbers of the writers; none of them wrote a test image.

    Examples
    --------
    >>> from widemargin.datasets import mnist_writers
    >>> mnist_writers().shape  # doctest: +SKIP
    (60000,)
    """
    return _qmnist(data_home, download_if_missing)[:, 2].astype(np.int64)


def _qmnist(data_home: PathLike, download: bool) -> NDArray:
    folder = get_data_home(data_home) / "qmnist-labels"
    return read_idx(find_or_fetch(folder, QMNIST, download=download) / QMNIST[0].name)


def load_nist3(
    *,
    subset: str = "all",
    data_home: PathLike = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """nist3: 5000 + 5705 digits of NIST special database 3, 16×16, out of MNIST.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which rows; "all" is train first, then test.
    data_home : path, optional
        Folder with ``mnist/`` and ``qmnist-labels/``: see :func:`get_data_home`.
    download_if_missing : bool, default=True
        If False, raise FileNotFoundError where the files are absent.
    return_X_y : bool, default=False
        Return only ``(data, target)``.

    Returns
    -------
    Bunch
        ``data`` (n, 256) float32 in [0, 1], ``target``, ``target_names``,
        ``image_shape``, ``n_train``, ``DESCR``.

    Examples
    --------
    >>> from widemargin.datasets import load_nist3
    >>> load_nist3(subset="train").data.shape  # doctest: +SKIP
    (5000, 256)
    """
    mnist = _mnist_folder(data_home, download_if_missing)
    drawn = make_nist3(
        read_idx(mnist / MNIST[0].name),
        read_idx(mnist / MNIST[1].name),
        _qmnist(data_home, download_if_missing)[:, 1],
    )
    return _images(load_nist3, *drawn, subset, return_X_y)


def read_idx(path: str | Path) -> NDArray:
    """Read an idx file, gzipped or not.

    Parameters
    ----------
    path : path
        Of the file.

    Returns
    -------
    ndarray
        Its values in their shape and type, in the machine's byte order.

    Raises
    ------
    ValueError
        If the file is something else, or damaged; it names the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from widemargin.datasets import read_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "three"
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a string or a Path; got {path!r:.80}.")
    if Path(path).is_dir():
        raise ValueError(f"path must be that of a file; {str(path)!r} is a folder.")
    try:
        raw = Path(path).read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is cut short or damaged ({error}).") from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in DTYPES:
        raise ValueError(f"{path} is not an idx file.")
    dtype, ndim = DTYPES[raw[2]], raw[3]
    start = 4 + 4 * ndim
    if len(raw) < start:
        raise ValueError(f"{path} is cut short: its header has no shape.")
    shape = struct.unpack(f">{ndim}I", raw[4:start])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(raw) != expected:
        raise ValueError(f"{path} should have {expected} bytes and has {len(raw)}.")
    values = np.frombuffer(raw, dtype, offset=start).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def make_nist3(
    images: NDArray, labels: NDArray, series: NDArray
) -> tuple[tuple, tuple]:
    """Build nist3 from MNIST's training set.

    Parameters
    ----------
    images : ndarray of shape (60000, 28, 28), uint8
        MNIST's training images.
    labels : ndarray of shape (60000,)
        Their digits.
    series : ndarray of shape (60000,)
        Column 1 (hsf) of QMNIST's extended training labels.

    Returns
    -------
    train, test : tuple
        ``(X, y)`` of 5000 and of 5705 images.
    """
    pool = np.flatnonzero(np.asarray(series) == SD3_SERIES)
    if len(pool) < N_DIGITS:
        raise ValueError(
            f"series holds {len(pool)} digits of NIST SD-3 (value {SD3_SERIES}); nist3 "
            f"needs {N_DIGITS}. Pass column 1 of qmnist-train-labels-idx2-int."
        )
    drawn = np.random.RandomState(0).permutation(pool)[:N_DIGITS]
    X = np.stack([fill_frame(images[i], SIDE).ravel() for i in drawn])
    y = np.asarray(labels)[drawn].astype(np.intp)
    return (X[:N_TRAIN], y[:N_TRAIN]), (X[N_TRAIN:], y[N_TRAIN:])


def fill_frame(image: NDArray, side: int) -> NDArray:
    """Cut the empty borders off and stretch what is left over side × side pixels."""
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    if len(rows) == 0:
        return np.zeros((side, side), np.float32)
    ink = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] / 255
    down, across = _resampling(ink.shape[0], side), _resampling(ink.shape[1], side)
    return (down @ ink @ across.T).astype(np.float32)


def _resampling(n: int, side: int) -> NDArray:
    """(side, n) rows of weights: linear interpolation, widened where it shrinks."""
    scale = n / side
    centres = (np.arange(side) + 0.5) * scale
    distance = np.abs(centres[:, None] - (np.arange(n) + 0.5)) / max(1.0, scale)
    weights = np.maximum(0, 1 - distance)
    return weights / weights.sum(axis=1, keepdims=True)
