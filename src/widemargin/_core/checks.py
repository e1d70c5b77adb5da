"""The one checker of parameters: name first, NaN refused, the way out said."""

import math
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, get_tags
from sklearn.utils import check_random_state as _check_random_state
from sklearn.utils.validation import validate_data as _validate_data

from widemargin._core.arrays import (
    checked_on_device,
    largest_of,
    numpy_dtype,
    to_numpy,
)

FLOATS = (np.float64, np.float32)
_NATIVE = tuple(np.dtype(kind) for kind in FLOATS)
# How small and how large the largest value of samples may be: weighted sums of fourth
# powers are then numbers in float64, and squared distances in float32.
SIZES = {np.dtype(np.float64): (1e-60, 1e60), np.dtype(np.float32): (1e-12, 1e12)}
FloatArray = NDArray[np.floating[Any]]


def check_option(name: str, value: Any, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`, else say which ones there are."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")
    return value


def is_auto(value: Any) -> bool:
    """Whether a parameter leaves the choice to the data."""
    return isinstance(value, str) and value == "auto"


def check_count(
    name: str, value: Any, otherwise: str = "", *, low: int = 1, bits: int = 31
) -> int:
    """Return an integer of at least `low`; the error begins with what else would do."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < low:
        raise ValueError(
            f"{name} must be {otherwise}an integer of at least {low}; got {value!r}."
        )
    if int(value) >= 2**bits:
        raise ValueError(f"{name} must be below 2**{bits}; got {value!r}.")
    return int(value)


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    infinite: bool = False,
    otherwise: str = "",
) -> float:
    """Return a number within its bounds, never NaN; infinity only where `infinite`.

    >>> check_number("theta", 0.25, above=0, below=1)
    0.25
    >>> check_number("theta", float("nan"), above=0, below=1)
    Traceback (most recent call last):
    ...
    ValueError: theta must be a finite number above 0 and below 1; got nan.
    """
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        number = float(value)
        if (
            not math.isnan(number)
            and (infinite or math.isfinite(number))
            and (above is None or number > above)
            and (at_least is None or number >= at_least)
            and (below is None or number < below)
            and (at_most is None or number <= at_most)
        ):
            return number
    bounds = [
        f"{words} {bound:g}"
        for words, bound in (
            ("above", above),
            ("of at least", at_least),
            ("below", below),
            ("of at most", at_most),
        )
        if bound is not None
    ]
    kind = "a number" if infinite else "a finite number"
    wanted = " ".join([kind, " and ".join(bounds)]).strip()
    raise ValueError(f"{name} must be {otherwise}{wanted}; got {value!r}.")


def check_gamma(gamma: Any) -> None:
    """Refuse, as the gamma of a kernel, all but a number above 0 and "scale"."""
    if not isinstance(gamma, str) or gamma != "scale":
        check_number("gamma", gamma, above=0, otherwise="'scale' or ")


def check_flag(name: str, value: Any) -> bool:
    """Return a boolean; anything that merely looks true is refused."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def check_text(name: str, value: Any, otherwise: str = "") -> str:
    """Return a string; the error begins with what else would do."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be {otherwise}a string; got {value!r}.")
    return value


def check_spring(spring: Any, *, free: bool = True) -> float:
    """Return a cost of moving: finite and not negative, nor zero unless `free` is."""
    if free:
        return check_number("spring", spring, at_least=0)
    return check_number("spring", spring, above=0)


def check_background(background: Any, X: NDArray) -> Any:
    """Return the value of an empty pixel, a number that `X` can hold."""
    value = check_number("background", background)
    dtype = numpy_dtype(X)
    most = SIZES[dtype][1]
    if abs(value) > most:
        raise ValueError(
            f"background must be of the size of the numbers in X, at most {most:g} in "
            f"{dtype}; got {value:g}."
        )
    return value


def check_neighbors(n_neighbors: Any, at_most: int) -> int:
    """Return a number of neighbours, or say how many there may be."""
    if check_count("n_neighbors", n_neighbors) > at_most:
        raise ValueError(
            f"n_neighbors must be at most n_samples={at_most}, the training samples "
            f"there are; got {n_neighbors}."
        )
    return int(n_neighbors)


def refuse_class(name: str, value: Any) -> None:
    """Say that an instance is wanted, where it is a class."""
    if isinstance(value, type):
        raise TypeError(
            f"{name} is the class {value.__name__}; pass an instance, "
            f"{value.__name__}(...)."
        )


def refuse_pairs(name: str, estimator: Any, otherwise: str = "") -> None:
    """Refuse what learns from a matrix of all pairs, where samples are parted."""
    tags = get_tags(estimator) if hasattr(estimator, "__sklearn_tags__") else None
    if tags is not None and tags.input_tags.pairwise:
        raise ValueError(
            f"{name} learns from a matrix of all pairs of samples, of which parts are "
            f"taken here: {estimator!r}; give a classifier of samples{otherwise}."
        )


_SHAPES = {1: "(length,)", 2: "(height, width)", 3: "(height, width, channels)"}


def check_image_shape(
    shape: Any, owner: str, n_features: int | None = None, *, axes: tuple = (2, 3)
) -> tuple:
    """Return a shape of one of `axes` many sides that `n_features` features can have.

    That is (height, width) or (height, width, channels), unless said otherwise.
    """
    try:
        sides = () if isinstance(shape, str) else tuple(shape)
    except TypeError:
        sides = ()
    whole = [isinstance(n, Integral) and not isinstance(n, bool) for n in sides]
    if len(sides) not in axes or not all(whole) or min(sides) < 1:
        wanted = " or ".join(_SHAPES[n] for n in axes)
        raise ValueError(
            f"{owner} needs shape={wanted}, positive integers"
            f"{_possible_shape(n_features, axes)}; got {shape!r}."
        )
    sides = tuple(int(n) for n in sides)
    if n_features is not None and math.prod(sides) != n_features:
        raise ValueError(
            f"shape={sides} has {math.prod(sides)} pixels and values, but X has "
            f"{n_features} features{_possible_shape(n_features, axes)}."
        )
    return sides


def check_sides(shape: Any, owner: str, n_features: int) -> tuple[int, int, int]:
    """Return the height, width and channels of an image of a shape."""
    height, width, channels = (*check_image_shape(shape, owner, n_features), 1)[:3]
    return height, width, channels


def border_of(images: NDArray) -> NDArray:
    """Values on the border of images (n, height, width), or with channels."""
    edge = np.ones(images.shape[1:3], bool)
    edge[1:-1, 1:-1] = False
    return images[:, edge]


def warn_of_paper(background: float, X: Any, sides: tuple[int, ...]) -> None:
    """Warn where images lie on paper that is far from what is taken to be outside."""
    images = to_numpy(X[:1000]).reshape(-1, *sides)
    border = border_of(images)
    half = float(images.max()) / 2 - float(images.min()) / 2
    if min(sides[:2]) < 3 or half == 0:
        return
    paper = float(np.median(border))
    # Half of the border is of one value, and that is not what is outside.
    alike = np.mean(np.abs(border - paper) < 0.1 * half)
    if alike > 0.5 and abs(paper - background) > 0.5 * half:
        warn_caller(
            f"background is {background:g}, and most of the border of the images is "
            f"{paper:.3g}: what moves in from outside looks like an edge. Pass "
            f"background={paper:.3g}."
        )


def _possible_shape(n_features: int | None, axes: tuple) -> str:
    for n_axes, channels in ((2, 1), (3, 3)):
        side = math.isqrt((n_features or 0) // channels)
        if n_axes in axes and side and side * side * channels == n_features:
            shape = (side, side, channels)[:n_axes]
            return f"; {n_features} features could be {shape}"
    return ""


def check_class_weight(class_weight: Any, classes: NDArray) -> None:
    """Refuse all but None, "balanced" and finite weights above 0 of known labels."""
    if class_weight is None:
        return
    if isinstance(class_weight, str) and class_weight == "balanced":
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must be None, 'balanced' or a dict {label: weight}; got "
            f"{class_weight!r}."
        )
    known = set(classes.tolist())
    for label, weight in class_weight.items():
        if label not in known:
            raise ValueError(
                f"class_weight names {label!r}, which is no class of y; the classes "
                f"are {format_labels(classes)}."
            )
        check_number(f"class_weight[{label!r}]", weight, above=0)


_CONVERSION = re.compile(
    "could not convert|argument must be|setting an array element|inhomogeneous|"
    "Cannot cast|cannot convert|too large to convert|[Uu]nsupported|not supported|"
    "Expected unique column names|at least one array or dtype"
)


_RAGGED = re.compile("setting an array element|inhomogeneous")
# Those of them that a classifier which is not ours can only mean X by.
OF_SAMPLES = re.compile(
    "could not convert|argument must be a string|setting an array element|inhomogeneous"
)


@contextmanager
def naming(name: str, errors: re.Pattern = _CONVERSION) -> Iterator[None]:
    """Let the errors of a conversion say what was to be converted.

    What NumPy says stays: scikit-learn's own checks look for it.
    """
    try:
        # Sums that only look for NaN may leave the range of numbers.
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except Exception as error:
        if str(error).startswith("Found array with dim"):
            raise ValueError(
                f"{name} must have one row per sample; images become rows by "
                f"{name}.reshape(len({name}), -1). {error}"
            ) from error
        if not errors.search(str(error)) or name in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        # Of complex numbers scikit-learn prints all of them below.
        said = str(error).partition("\n")[0]
        if name == "X" and _RAGGED.search(said):
            said += (
                " Every row needs as many numbers; widemargin.tangents.pad_series makes"
                " one array of series of unequal length, resample_spectra one of"
                " spectra with axes of their own."
            )
        raise kind(f"{name} must hold numbers only: {said}") from error


def text_columns(X: Any) -> str:
    """Name the columns of a data frame that are no numbers, for an error; or ""."""
    names = getattr(X, "columns", None)
    if names is None or not hasattr(X, "dtypes"):
        return ""
    kinds = [str(kind).lower() for kind in X.dtypes]
    found = [
        repr(str(name))
        for name, kind in zip(names, kinds, strict=True)
        if not re.match(r"u?int|float|bool|decimal|complex", kind)
    ]
    if not found:
        return ""
    few = ", ".join(found[:5])
    return (
        f" Text is in column{'s' * (len(found) > 1)} {few}: leave it out, or encode "
        "it by scikit-learn's OneHotEncoder."
    )


def check_size(
    X: Any, name: str = "X", *, whole: bool = False, dtype: Any = None
) -> None:
    """Refuse samples whose squares leave the range of a dtype, their own by default.

    Only of a `whole` training set is the largest value too small: a sample of it, or
    one that is asked about, may be as small as it likes.
    """
    dtype, largest = np.dtype(dtype or numpy_dtype(X)), largest_of(X)
    smallest, most = SIZES[dtype]
    if largest > most or (whole and 0 < largest < smallest):
        instead = ", or pass them as float64" * (dtype == np.float32)
        raise ValueError(
            f"{name} has values of up to {largest:.2g}; in {dtype} the largest may be "
            f"from {smallest:g} to {most:g}: divide them by a number of their size"
            f"{instead}."
        )


def validate_data(
    estimator: Any, X: Any, *y: Any, whole: bool = True, **options: Any
) -> Any:
    """As scikit-learn's, with a name for X where it cannot be converted.

    Samples on a device stay there, and are finite floats whatever else may be asked.
    `check_size` looks at floats; one block of a training set is not the `whole`.
    """
    tensor = checked_on_device("X", X)
    if tensor is not None:
        X = tensor
        options = {"skip_check_array": True, "reset": options.get("reset", True)}
    try:
        with naming("X"):
            found = _validate_data(estimator, X, *y, **options)
    except ValueError as error:
        if str(error).startswith("X must hold numbers only") and text_columns(X):
            raise ValueError(f"{error}.{text_columns(X)}") from error
        if not str(error).startswith("Input X contains NaN"):
            raise
        name = type(estimator).__name__
        raise ValueError(
            f"Input X contains NaN, which {name} does not take: fill in missing values "
            f"first, for instance by make_pipeline(MixtureImputer(), {name}(...))."
        ) from error
    except LookupError as error:
        raise ValueError(
            f"X must hold one row of numbers per sample; got {type(X).__name__}, in "
            "which no row was found."
        ) from error
    if tensor is not None or not options.get("skip_check_array"):
        rows = found[0] if isinstance(found, tuple) else found
        check_size(rows, whole=whole and options.get("reset", True))
    return found


def check_random_state(random_state: Any) -> np.random.RandomState:
    """As scikit-learn's, with a name for what cannot be a seed."""
    try:
        return _check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, an integer from 0 to 2**32 - 1 or a "
            f"RandomState; got {random_state!r}, which cannot be used to seed one."
        ) from error


def as_floats(name: str, values: ArrayLike) -> NDArray:
    """Return `values` as a float array without NaN; float32 stays float32."""
    with naming(name):
        array = np.asarray(values)
    if array.dtype.kind not in "buif":
        raise ValueError(f"{name} must be numbers; got an array of {array.dtype}.")
    array = np.asarray(array, dtype=np.result_type(array.dtype, np.float32))
    if np.isnan(array).any():
        raise ValueError(f"{name} contains NaN; every value must be a number.")
    return array


def as_float_vector(name: str, values: ArrayLike) -> NDArray:
    """Return `values` as a non-empty one-dimensional float array without NaN."""
    vector = as_floats(name, values)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(
            f"{name} must be one number per sample, an array of shape (n_samples,) "
            f"with n_samples >= 1; got shape {vector.shape}."
        )
    return vector


def is_plain(X: Any, n_features: int | None = None) -> TypeGuard[NDArray]:
    """Whether `X` is what a check of samples would return, as it is.

    Saying so takes microseconds, where scikit-learn's checks of a single row take
    longer than most answers.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in _NATIVE
        and X.size > 0
        and (n_features is None or X.shape[1] == n_features)
        # NaN is within no limits.
        and bool(X.max() <= SIZES[X.dtype][1])
        and bool(X.min() >= -SIZES[X.dtype][1])
    )


def as_matrix(name: str, values: Any, **options: Any) -> Any:
    """Return `values` as a two-dimensional finite array; float32 stays float32."""
    found = as_array(name, values, n_axes=2, **options)
    if options.get("ensure_all_finite", True) is not False:
        check_size(found, name)
    return found


def as_array(
    name: str, values: Any, *, n_axes: int | None = None, **options: Any
) -> Any:
    """Return `values` as a finite array of `n_axes`, or of any number of axes."""
    tensor = checked_on_device(name, values, n_axes=n_axes)
    if tensor is not None:
        return tensor
    if n_axes is None:
        any_shape = {"ensure_2d": False, "allow_nd": True}
        options |= any_shape | {"ensure_min_samples": 0, "ensure_min_features": 0}
    with naming(name):
        return check_array(
            to_numpy(values), **({"dtype": FLOATS, "input_name": name} | options)
        )


def check_same_length(**arrays: NDArray) -> None:
    """Raise unless all named arrays have the same number of samples."""
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise ValueError(f"One entry per sample is needed in each: {listed}.")


def format_labels(labels: NDArray, n_shown: int = 10) -> str:
    """List a few labels as a user would write them."""
    shown = ", ".join(repr(label) for label in np.asarray(labels)[:n_shown].tolist())
    return shown + (", …" if len(labels) > n_shown else "")


# Whether what a fit warns of has been, or will be, said by another.
_hushed: ContextVar[bool] = ContextVar("hushed", default=False)


@contextmanager
def hushed() -> Iterator[None]:
    """Warn of nothing within: a fit of a part repeats what that of the whole says."""
    token = _hushed.set(True)
    try:
        yield
    finally:
        _hushed.reset(token)


def is_hushed() -> bool:
    """Whether this is the fit of a part, whose whole was checked and warned of."""
    return _hushed.get()


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user: the first frame outside this package and sklearn.

    Decorators and base classes then need no stack levels to be counted.
    """
    if is_hushed():
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in ("widemargin", "sklearn", "contextlib", "joblib"):
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
