"""Model files: skops archives that run no foreign code, written completely or not.

A file holds a fitted model and what is needed to read data the same way. Only NumPy,
SciPy and scikit-learn types that skops itself trusts and classes of widemargin are ever
made from it. The command writes the same files: what it fitted can be loaded in Python,
and what Python saved can be evaluated, reported on and exported by the command.

All files of the project are there whole or not at all: written under another name
beside their place, flushed to the disk and then moved. A writer that was killed leaves
such a part behind; who writes the same file an hour later removes it.
"""

import json
import os
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from types import FunctionType
from typing import Any

from sklearn.base import BaseEstimator

import widemargin
from widemargin._core.confidence import nested
from widemargin._core.lazy import WATCHING

# Seconds after which a part that does not grow counts as left behind.
STALE = 3600
FORMAT = 3
FIELDS = {
    *("format", "version", "model", "name", "names", "image_shape", "target"),
    "n_features",
}
# Plain containers of numbers that fitted models hold and skops does not list.
HARMLESS = {
    "numpy.dtype",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.utils._bunch.Bunch",
}
AGAIN = "fit and save the model again"


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : fitted classifier or pipeline
        Made of parts of widemargin and scikit-learn. Functions of your own, such as
        those of :class:`~widemargin.tangents.TransformTangents`, must be defined in a
        module that can be imported. The file holds their names only.
    path : path
        File to write, ``model.skops`` by custom. What is there stays until the new file
        is whole.

    Raises
    ------
    ValueError
        If the model is not fitted or holds what cannot be saved safely.

    See Also
    --------
    load : Read it again.

    Examples
    --------
    >>> import os, tempfile, widemargin
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = widemargin.GLVQClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.skops")
    ...     widemargin.save(model, path)
    ...     again = widemargin.load(path)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    *_, inner = nested(model)
    n_features = getattr(model, "n_features_in_", None)
    if isinstance(model, type) or n_features is None:
        raise ValueError(
            f"model must be a fitted classifier or pipeline; got {model!r:.200}. Call "
            "its fit first."
        )
    fitted = getattr(getattr(inner, "estimator_", inner), "input_tangents_", None)
    # Tangents that all samples share are an array, whose shape is no image's.
    known = (
        g for g in (fitted, getattr(inner, "tangents", None)) if hasattr(g, "tangents")
    )
    shape = next(filter(None, (getattr(g, "shape", None) for g in known)), None)
    write(
        {
            "model": model,
            "name": type(inner).__name__,
            "names": [str(name) for name in getattr(model, "feature_names_in_", ())],
            "image_shape": None if shape is None else tuple(map(int, shape)),
            "target": None,
            "n_features": int(n_features),
        },
        Path(path),
    )


def load(
    path: str | os.PathLike[str], *, functions: Sequence[Callable[..., Any]] = ()
) -> Any:
    """Read a model that :func:`save` or the command wrote.

    Nothing in the file is run: what it holds beside numbers and classes of widemargin
    and scikit-learn is refused.

    Parameters
    ----------
    path : path
        The file.
    functions : sequence of functions, default=()
        Functions of your own that the model may use, such as those of its
        :class:`~widemargin.tangents.TransformTangents`. Others are refused by name.

    Returns
    -------
    fitted classifier or pipeline
        As it was saved; of the command's files a pipeline, or a
        :class:`~widemargin.RejectingClassifier` around one.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, of another format, or holds what no model needs.

    See Also
    --------
    save : Write it.
    """
    return read(Path(path), [_name_of(function) for function in functions])["model"]


def _name_of(function: Any) -> str:
    """Return the name that a file has for a function of a module."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"functions must be functions of a module; got {function!r}.")
    return f"{function.__module__}.{function.__name__}"


def _is_importable(function: FunctionType) -> bool:
    module = sys.modules.get(function.__module__)
    named = getattr(module, function.__name__, None)
    return function.__module__ != "__main__" and named is function


@contextmanager
def _unwatched(model: Any) -> Iterator[None]:
    """Take off what watched the fits of a model and of all estimators inside."""
    held = [(one, name) for one in _estimators(model, set()) for name in WATCHING]
    taken = [(one, k, vars(one).pop(k)) for one, k in held if k in vars(one)]
    try:
        yield
    finally:
        for one, name, value in taken:
            vars(one)[name] = value


def _estimators(value: Any, seen: set[int]) -> Iterator[Any]:
    if id(value) in seen:
        return
    seen.add(id(value))
    inside: Any = value if isinstance(value, list | tuple) else ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, BaseEstimator):
        yield value
        inside = list(vars(value).values())
    for one in inside:
        yield from _estimators(one, seen)


def _functions(value: Any, seen: set[int]) -> Iterator[FunctionType]:
    """Yield the functions that a model holds as parameters."""
    if isinstance(value, FunctionType):
        yield value
    if id(value) in seen:
        return
    seen.add(id(value))
    inside: Any = value if isinstance(value, list | tuple) else ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, BaseEstimator):
        inside = list(vars(value).values())
    for one in inside:
        yield from _functions(one, seen)


def write(content: dict[str, Any], path: Path) -> None:
    """Write the fields of a model file; format and version are added."""
    content = {"format": FORMAT, "version": widemargin.__version__, **content}
    assert set(content) == FIELDS
    functions = set(_functions(content["model"], set()))
    lost = [one.__qualname__ for one in functions if not _is_importable(one)]
    if lost:
        raise ValueError(
            f"a model with the function {lost[0]} inside cannot be saved: it is not "
            "found by a name. Define it by def in a module of its own and import it"
        )
    with _unwatched(content["model"]):
        data = skops().dumps(content, compression=zipfile.ZIP_DEFLATED, compresslevel=3)
    unknown = _unknown_types(data, map(_name_of, functions))
    if unknown:
        instead = "use parameters that are numbers, text or parts of widemargin"
        if all(name.startswith("sklearn.") for name in unknown):
            instead = "joblib.dump takes it, for files that nobody else writes"
        if hasattr(content["model"], "best_estimator_"):
            instead = "save its best_estimator_"
        raise ValueError(
            f"a model with {', '.join(unknown[:3])} inside cannot be saved safely; "
            f"{instead}"
        )
    write_atomically(path, lambda temporary: temporary.write_bytes(data))


def read(path: Path, functions: Iterable[str] = ()) -> dict[str, Any]:
    """Return the fields of a model file, or say why it cannot be read.

    It may use the `functions` of these names.
    """
    io = skops()
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: there is no such model; make one with widemargin fit or "
            "widemargin.save"
        )
    data = path.read_bytes()
    if not data:
        raise ValueError(f"{path} is an empty or damaged model file; {AGAIN}")
    try:
        unknown = _unknown_types(data, functions)
        content = None if unknown else io.loads(data, trusted=_untrusted(data))
    except (zipfile.BadZipFile, json.JSONDecodeError, EOFError, zlib.error):
        raise ValueError(f"{path} is no model file or is damaged; {AGAIN}") from None
    except Exception as error:
        # A damaged or foreign archive can fail anywhere inside skops.
        kind = type(error).__name__
        raise ValueError(f"{path} cannot be read ({kind}: {error}); {AGAIN}") from None
    if unknown:
        short = ", ".join(name.rpartition(".")[2] for name in unknown[:3])
        raise ValueError(
            f"{path} holds {', '.join(unknown[:3])}, which is not widemargin's; it was "
            "not loaded. If these are functions of your own, import them and call "
            f"widemargin.load(path, functions=[{short}]); else do not use the file"
        )
    if not isinstance(content, dict) or not set(content) >= {"format", "version"}:
        raise ValueError(f"{path} holds no widemargin model; {AGAIN}")
    if content["format"] != FORMAT or set(content) != FIELDS:
        raise ValueError(
            f"{path} was written by widemargin {content['version']} in format "
            f"{content['format']}, this is {widemargin.__version__} with format "
            f"{FORMAT}, whose parameters have other names; {AGAIN}"
        )
    return content


def skops() -> Any:
    """Return ``skops.io``, or say how to get it."""
    try:
        import skops.io
    except ModuleNotFoundError as missing:
        if missing.name != "skops":
            raise
        raise ModuleNotFoundError(
            "a model file needs skops: pip install skops", name="skops"
        ) from None
    return skops.io


def _untrusted(data: bytes) -> list[str]:
    return list(skops().get_untrusted_types(data=data))


def _unknown_types(data: bytes, functions: Iterable[str] = ()) -> list[str]:
    known = set(functions)
    return [n for n in _untrusted(data) if not _is_ours(n) and n not in known]


def _is_ours(type_name: str) -> bool:
    """Whether a type is a class defined in widemargin, or known to be harmless."""
    if type_name in HARMLESS:
        return True
    module, _, name = type_name.rpartition(".")
    if not (module == "widemargin" or module.startswith("widemargin.")):
        return False
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return False
    return isinstance(found, type) and found.__module__ == module


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> None:
    """Call ``write(part)`` with a name beside `path`, then move the result there.

    Parameters
    ----------
    path : path
        Where the file shall be. What is there stays until the new one is whole.
    write : callable
        Writes all of the file to the path it is given.

    Raises
    ------
    OSError
        If anything cannot be written; it names `path`.
    """
    # Through links: what they point at is replaced, not they themselves.
    place = Path(os.path.realpath(path))
    part = place.with_name(f".{place.name}.{token_hex(4)}.part")
    try:
        remove_parts(place)
        write(part)
        # What the system only promised to write may still fail: ask.
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(place)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def remove_parts(path: Path) -> None:
    """Remove the parts of `path` that nobody has written to for long."""
    for part in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 8}.part"):
        with suppress(FileNotFoundError):
            if time.time() - part.stat().st_mtime > STALE:
                part.unlink()
