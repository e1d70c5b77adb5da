"""The idx format of MNIST: a magic number, the shape, the values, big-endian."""

import gzip
import math
import struct
import zlib
from os import PathLike
from pathlib import Path

import numpy as np

DTYPES: dict[int, np.dtype] = {
    0x08: np.dtype("u1"),
    0x09: np.dtype("i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}


def read_idx(path: str | Path) -> np.ndarray:
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
    if not isinstance(path, str | PathLike):
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
