"""Read data by what it is: CSV, Parquet, npz, npy, idx, LIBSVM text, or images.

Images lie in a folder, one sub-folder per class; they become grey levels in 0..1.
"""

import re
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse

from widemargin.cli.columns import (
    Reading,
    Table,
    as_table,
    check_finite,
    check_shape,
    csv_columns,
    labels,
    parquet_columns,
)
from widemargin.cli.refusal import Refusal, near

LIBSVM_LINE = re.compile(r"^[+-]?[\d.]+(e[+-]?\d+)?(\s+\d+:\S+)+\s*(#.*)?$")
DENSE_LIMIT = 2 * 1024**3  # bytes
IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")
IMAGE_NAMES = (
    *(".png", ".jpg", ".jpeg", ".gif", ".bmp"),
    *(".tif", ".tiff", ".webp", ".pgm"),
)
IDX_NAME = re.compile(r"idx\d|\.idx")


def read(path: Path, **options: Any) -> Table:
    """Read a file, a folder or standard input, ``-``, as `read_path` does."""
    if str(path) != "-":
        return read_path(path, **options)
    data = sys.stdin.buffer.read()
    if not data:
        raise Refusal("standard input is empty; pipe a file into it")
    with TemporaryDirectory() as folder:
        path = Path(folder, "standard input")
        path.write_bytes(data)
        try:
            return read_path(path, **options)
        except Refusal as refusal:
            raise Refusal(str(refusal).replace(str(path), path.name)) from None


def read_path(
    path: Path,
    *,
    target: str | None = None,
    usual_target: str | None = None,
    labelled: bool = True,
    image_shape: tuple[int, ...] | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    n_features: int | None = None,
    how: Reading | None = None,
    size: tuple[int, ...] | None = None,
) -> Table:
    """Read a file or a folder; labels only if `labelled`.

    `target` is what the user says, `usual_target` what holds where names do. Of named
    columns all but `drop` are features, or those in `keep` if given. `size` is what a
    single image is brought to.
    """
    how = how or Reading()
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = f"; {near(path.name, beside)}" if beside else ""
        raise Refusal(f"{path}: there is no such file{hint}")
    if path.is_dir():
        _no_target(target, "folders are named after the classes")
        return read_folder(path, labelled, image_shape)
    if path.stat().st_size == 0:
        raise Refusal(f"{path} is empty; give a file with data")
    kind = kind_of(path)
    if kind in ("csv", "parquet"):
        wanted = target or usual_target
        asked = [*drop, *keep, *([wanted] if wanted else [])]
        columns = (
            csv_columns(path, asked, how) if kind == "csv" else parquet_columns(path)
        )
        chosen = _column_name(wanted, columns.names) if labelled else None
        table = as_table(
            columns, target=chosen, drop=drop, keep=keep, missing=how.missing
        )
    elif drop:
        raise Refusal(f"--drop is for named columns; {path} has none")
    elif kind == "npz":
        table = _read_npz(path, target or usual_target, labelled, how.missing)
    elif kind == "npy":
        table = _read_npy(path, target, labelled, how.missing)
    elif kind == "image":
        if labelled:
            raise Refusal(f"{path} is one image without a label; give a folder of them")
        return read_one(path, image_shape or size)
    elif kind == "idx":
        table = _read_idx(path, target, labelled)
    else:
        _no_target(target, "LIBSVM text begins each line with the label")
        table = _read_libsvm(path, n_features)
    if table.X.shape[0] == 0:
        raise Refusal(f"{path} has no rows; give a file with data")
    check_shape(table.X.shape[1], image_shape)
    table.image_shape = image_shape or table.image_shape
    return table


def kind_of(path: Path) -> str:
    """Return what a file is, by name and first bytes.

    That is "csv", "parquet", "npz", "npy", "idx", "libsvm" or "image".
    """
    with path.open("rb") as file:
        head = file.read(4096)
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:2] == b"PK" or path.suffix == ".npz":
        return "npz"
    if head[:6] == b"\x93NUMPY":
        return "npy"
    if head.startswith(IMAGES) or path.suffix.lower() in IMAGE_NAMES:
        return "image"
    if head[:3] in (b"\0\0\x08", b"\0\0\x0d", b"\0\0\x0e", b"\0\0\x0b", b"\0\0\x0c"):
        return "idx"
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
    X: np.ndarray,
    y: np.ndarray | None,
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
    X = _npy(path)
    if X.ndim < 2 or X.dtype.kind not in "fiub":
        raise Refusal(
            f"{path} holds {X.ndim} axes of {X.dtype}; samples are numbers, in rows"
        )
    if not labelled:
        return _rows(X, None, path, None, missing)
    if target is None or not Path(target).is_file():
        raise Refusal(f"--target: give the npy file of the labels of {path.name}")
    y = labels(_npy(Path(target)).ravel().tolist(), target)
    return _rows(X, y, path, target, missing)


def _npy(path: Path) -> np.ndarray:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise Refusal(
            f"{path} is no readable npy file ({error}); save it again"
        ) from None


def _read_npz(path: Path, target: str | None, labelled: bool, missing: bool) -> Table:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise Refusal(
            f"{path} is no readable npz file ({error}); save it again"
        ) from None
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
    from widemargin.datasets import read_idx

    X = _idx_or_refuse(read_idx, path)
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
    y = _idx_or_refuse(read_idx, labels_at).ravel()
    return _rows(X, y.astype(np.int64), path, labels_at)


def _idx_or_refuse(read_idx: Any, path: Path) -> np.ndarray:
    try:
        return read_idx(path)
    except ValueError as error:
        raise Refusal(f"{error} Fetch or write it again") from None


def _read_libsvm(path: Path, n_features: int | None) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), n_features=n_features)
    except ValueError as error:
        if n_features is not None and "features" in str(error):
            raise Refusal(
                f"{path} has more features than the {n_features} the model was fitted "
                "with; give data of the same kind"
            ) from None
        raise Refusal(f"{path} is no LIBSVM text ({error}); mend that line") from None
    check_finite(X.data.reshape(1, -1), str(path))
    # The solvers behind scikit-learn want 32-bit indices.
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return Table(X, labels(y, "the first column"))


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


def _read_image(path: Path, shape: tuple[int, ...] | None) -> np.ndarray:
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise Refusal("images need Pillow: pip install pillow") from None
    try:
        with Image.open(path) as image:
            grey = image.convert("L")
            if shape is not None and grey.size != (shape[1], shape[0]):
                grey = grey.resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
            return np.asarray(grey, dtype=np.float32) / 255
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError):
        raise Refusal(f"{path} is no readable image; mend or remove it") from None
