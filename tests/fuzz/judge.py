"""One call, and what became of it: right, refused by name, or a defect."""

import inspect
import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from tests.fuzz.values import show

RIGHT, REFUSED, DEFECT = "right", "refused", "defect"
# Of one call; what draws the cases says so.
SECONDS = 20

# scikit-learn's own refusals, which its checks of estimators ask for word by word.
FAMILIAR = re.compile(
    r"dual coefficients or intercepts are not finite|cannot use sparse input|"
    r"Expected 2D array|Found \d+ sample|"
    r"Found array with|Found input variables with inconsistent|"
    r"not fitted yet|Unknown label type|should be a 1d array|"
    r"got an array of shape|Sparse data was passed|dense data is required|"
    r"Complex data not supported|Negative values in data|feature names|"
    r"expecting \d+ features|Cannot clone|Unable to convert array of bytes|"
    r"A column-vector|y cannot be None|bad input shape|Unsupported dtype|"
    r"Expected .* min_features|greater than 50%|cannot be used to seed|Seed must be|"
    r"Mix of label input types|not compatible with arrays of bytes"
)
# Words of Python and NumPy that no check of ours would use.
DEPTHS = re.compile(
    r"inhomogeneous|broadcast|unsupported operand|could not convert|not iterable|"
    r"has no attribute|not callable|positional argument|unexpected keyword|"
    r"cannot reshape|out of bounds|ufunc|unhashable|truth value|not supported between|"
    r"must be real number|length-1 arrays|invalid literal|has no len|operand|"
    r"cannot convert float|size of array|zero-size|matmul|singular|converge|"
    r"infs or NaNs|not subscriptable|bad operand|cannot be interpreted|object cannot|"
    r"setting an array element|too large to convert|Overflow|unpack|NoneType"
)
HARMLESS = re.compile(
    r"feature names|column-vector y was passed|unique classes is greater than 50%|"
    # What a foreign classifier that was given says of itself.
    r"lbfgs failed to converge"
)
OURS = ("ConvergenceWarning", "UserWarning", "DataConversionWarning", "FutureWarning")
HERE = Path(__file__).parts[:-1]
BELOW = ("numpy", "scipy", "numba", "joblib", "pandas", "polars", "llvmlite")


class TooLong(BaseException):
    """Raised by the alarm; nobody below catches it."""


@lru_cache(4096)
def _where(filename: str) -> tuple[str, ...]:
    return Path(filename).parts


@dataclass(frozen=True)
class Outcome:
    """What became of a call; `kind` groups defects of one cause."""

    sort: str
    call: str = ""
    kind: str = ""
    detail: str = ""
    result: Any = None
    # What it warned of.
    told: tuple[str, ...] = ()


def _ring(_: int, frame: Any) -> None:
    while frame is not None:
        # To compile takes its time, and cannot be taken up again where it was broken
        # off; the parent watches over it.
        if {"numba", "llvmlite"} & set(_where(frame.f_code.co_filename)):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            return
        frame = frame.f_back
    raise TooLong


@contextmanager
def alarm():
    # Of this process's own time: what others use of the machine is no hang. The parent
    # watches over calls that wait.
    if signal.getsignal(signal.SIGPROF) is not _ring:
        signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def call(
    title: str,
    function: Callable,
    *args: Any,
    _names: Iterable[str] = (),
    **kwargs: Any,
) -> Outcome:
    """Call and sort; a refusal must hold one of `_names`."""
    caught: list[warnings.WarningMessage] = []
    for attempt in range(2):
        try:
            with warnings.catch_warnings(record=True) as caught, alarm():
                warnings.simplefilter("always")
                result = function(*args, **kwargs)
            break
        except TooLong:
            # The first time may have been spent on compiling.
            if attempt:
                return Outcome(DEFECT, title, "hang", f"more than {SECONDS} s")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return _sort_error(title, error, _names)
    for warning in caught:
        text = str(warning.message).split("\n")[0]
        name = warning.category.__name__
        if HARMLESS.search(text):
            continue
        if name not in OURS or _where(warning.filename)[:-1] != HERE:
            where = "/".join(_where(warning.filename)[-3:])
            detail = f"{name} at {where}:{warning.lineno}: {text}"
            return Outcome(DEFECT, title, f"warning {name} {where}:{warning.lineno}",
                           detail)  # fmt: skip
    told = tuple(str(warning.message) for warning in caught)
    return Outcome(RIGHT, title, result=result, told=told)


def _sort_error(title: str, error: BaseException, names: Iterable[str]) -> Outcome:
    text = str(error)
    # Lines of source are read for defects only: refusals are a quarter of all calls.
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    path = _where(codes[-1].co_filename)
    own = [code for code in codes if "widemargin" in _where(code.co_filename)]
    where = "?"
    if own:
        where = f"{'/'.join(_where(own[-1].co_filename)[-2:])}:{own[-1].co_name}"
    kind = f"{type(error).__name__} {where} {re.sub(r'[-0-9.e+]+', '#', text)[:60]}"
    below = any(part in path for part in BELOW)
    known = isinstance(error, ValueError | TypeError)
    named = re.search(r"(?<!\w)(" + "|".join(map(re.escape, names)) + r")(?!\w)", text)
    if known and not below:
        if "sklearn" in path and (FAMILIAR.search(text) or named):
            return Outcome(REFUSED, title, kind)
        if FAMILIAR.search(text):
            return Outcome(REFUSED, title, kind)
        if named and (named.start() == 0 or not DEPTHS.search(text)):
            return Outcome(REFUSED, title, kind)
    frames = traceback.extract_tb(error.__traceback__)
    last = "".join(traceback.format_list(frames[-3:]))
    return Outcome(DEFECT, title, kind, f"{type(error).__name__}: {text[:300]}\n{last}")


def wrong(title: str, what: str, **values: Any) -> Outcome:
    """A defect that an oracle found."""
    listed = "\n".join(
        f"{name} = {show(value)[:600]}" for name, value in values.items()
    )
    return Outcome(DEFECT, title, f"wrong {what}", listed)


@lru_cache(4096)
def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter]:
    """Parameters of a function or method, looked up once for all objects of a class."""
    held = getattr(function, "__func__", None)
    if held is None:
        return _parameters(function)
    return MappingProxyType(dict(list(_parameters(held).items())[1:]))


def finite(value: Any) -> bool:
    array = np.asarray(value)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
