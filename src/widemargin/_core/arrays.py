"""Arrays of other libraries: the data decide where the work is done.

Under ``sklearn.set_config(array_api_dispatch=True)`` whoever hands in a tensor gets
tensors back, in the same library and on the same device. Tensors in main memory, and
arrays of ``array_api_strict``, are seen by the library as the NumPy arrays they are.
Tensors on a device stay there wherever there is code for it (`device_methods`); the
rest says in one line that it stays on the CPU. Arrays of CuPy are seen as the tensors
that share their memory. Without dispatch scikit-learn's rule holds: what NumPy can read
is read, and answered in NumPy.

scikit-learn's helpers are private: here is the one place that uses them. A tensor
without gradients, in float32 or float64, is all that the rest of the library knows.
"""

import sys
from collections.abc import Callable, Hashable
from functools import cache, partial, update_wrapper, wraps
from importlib import import_module
from types import MethodType
from typing import Any, ClassVar, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils._array_api import _convert_to_numpy, get_namespace_and_device

from widemargin._compute.machine import rows_in_budget
from widemargin._core.lazy import ROWWISE, accuracy, is_lazy, rowwise, with_state

# Numbers that a device works on at once: 2 GB in float32.
DEVICE_ROWS = 2**29
# Tests set this: tensors in main memory take the way of those on a device.
EVERY_TENSOR_IS_ON_A_DEVICE = False

Method = TypeVar("Method", bound=Callable)

FITS = ("fit", "partial_fit")
ASKS = (*ROWWISE, "margin_bound", "bundle", "apply", "adjoint", "jvp")


def is_tensor(array: Any) -> bool:
    """Whether this is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_cupy(array: Any) -> bool:
    """Whether this is an array of CuPy."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def is_foreign(array: Any) -> bool:
    """Whether this is an array of a library that is not NumPy."""
    if isinstance(array, np.ndarray | np.generic):
        return False
    known = is_tensor(array) or is_cupy(array)
    return known or hasattr(type(array), "__array_namespace__")


def on_device(array: Any) -> bool:
    """Whether this is a tensor that the code of `_compute.device` works on."""
    if not is_tensor(array):
        return False
    return array.device.type != "cpu" or EVERY_TENSOR_IS_ON_A_DEVICE


def to_numpy(array: Any) -> Any:
    """Return a foreign array as a NumPy one, without a copy where there can be none."""
    if is_tensor(array):
        return array.detach().cpu().numpy()
    if is_cupy(array):
        return array.get()
    if is_foreign(array):
        return _convert_to_numpy(array, array.__array_namespace__())
    return array


def as_tensor(name: str, array: Any) -> Any:
    """Return an array of CuPy as the tensor that shares its memory; keep all others."""
    if not is_cupy(array):
        return array
    check_foreign(name, array)
    try:
        import torch

        return torch.from_dlpack(array)
    except (ImportError, RuntimeError, BufferError) as error:
        raise ValueError(
            f"{name} is an array of CuPy, which torch for CUDA works on, but it cannot "
            f"({error}); install it, or pass {name}.get()."
        ) from error


def to_device(array: Any, device: Any) -> Any:
    """Return an array as a tensor on `device`; all else, or without one, as it is."""
    if is_tensor(array) and device is not None:
        return array.to(device)
    if device is None or not isinstance(array, np.ndarray):
        return array
    import torch

    # A view that cannot be written to, or runs backwards, is none of torch's.
    array = np.ascontiguousarray(array) if array.ndim else array
    array = array if array.flags.writeable else array.copy()
    return torch.from_numpy(array).to(device)


def beside(X: Any, array: Any, *, alike: bool = False) -> Any:
    """Return an array where `X` is, all else as it is; `alike` in its dtype, too.

    >>> beside(np.zeros(2, np.float32), np.ones(1), alike=True).dtype
    dtype('float32')
    """
    if alike:
        array = in_dtype(array, numpy_dtype(X))
    return to_device(array, place_of(X))


def place_of(array: Any) -> Any:
    """Return the device of a tensor, for `to_device`; None is NumPy."""
    return array.device if is_tensor(array) else None


def as_numbers(array: Any) -> Any:
    """Return a tensor as it is, and what else there is as an array of float64."""
    return array if is_tensor(array) else np.asarray(to_numpy(array), dtype=float)


def is_array(array: Any) -> bool:
    """Whether this is what the library works on: NumPy's, or a tensor on a device."""
    return isinstance(array, np.ndarray) or on_device(array)


def is_one_row(array: Any) -> bool:
    """Whether all rows are one in memory, as after ``xp.broadcast_to``."""
    step = array.stride(0) if is_tensor(array) else array.strides[0]
    return len(array) > 0 and step == 0


def rows_at_once(X: Any, numbers: float, most: float = np.inf) -> int:
    """How many rows may be worked on at once, of so many numbers in the dtype of X.

    In main memory `most` at once, which stay in a cache.
    """
    if is_tensor(X):
        return max(1, int(DEVICE_ROWS / numbers))
    return int(min(most, rows_in_budget(numbers * numpy_dtype(X).itemsize)))


def device_of(array: Any) -> Any:
    """Return the device where the work on this array is done; None is the CPU."""
    return array.device if on_device(array) else None


def run_at(X: Any, run: Callable) -> Callable:
    """Return `run`, a map on threads, or a plain one where X is on a device of one."""
    return map if is_tensor(X) else run


def xp_of(array: Any) -> Any:
    """Return the array API of this array, NumPy's or torch's."""
    return _torch_api() if is_tensor(array) else np


@cache
def _torch_api() -> Any:
    return import_module("sklearn.externals.array_api_compat.torch")


def through_numpy(function: Callable, array: Any) -> Any:
    """Return what a function of NumPy arrays makes of this one, where this one is."""
    if not is_tensor(array):
        return function(array)
    return to_device(np.asarray(function(to_numpy(array))), array.device).to(
        array.dtype
    )


def in_dtype(array: Any, dtype: Any) -> Any:
    """Return an array of NumPy or torch in another float type, named as in NumPy."""
    if not is_tensor(array):
        return array.astype(dtype, copy=False)
    return array.to(getattr(sys.modules["torch"], np.dtype(dtype).name))


def numpy_dtype(array: Any) -> np.dtype:
    """Return NumPy's name for the type of an array."""
    if is_tensor(array):
        return np.dtype(str(array.dtype).removeprefix("torch."))
    return array.dtype


def largest_of(array: Any) -> float:
    """Largest absolute value, NaN aside; 0 of nothing."""
    if is_tensor(array):
        return float(array.abs().max()) if array.numel() else 0.0
    array = array.data if sparse.issparse(array) else array
    largest = max(float(array.max(initial=0)), -float(array.min(initial=0)))
    return largest if largest == largest else largest_of(np.nan_to_num(array, nan=0.0))


def check_foreign(name: str, array: Any) -> None:
    """Say in one line what a tensor must be, where it is not."""
    if is_cupy(array) and not get_config()["array_api_dispatch"]:
        raise ValueError(
            f"{name} is an array of CuPy: it is used where it is after "
            f"sklearn.set_config(array_api_dispatch=True); else pass {name}.get()."
        )
    if not is_tensor(array):
        return
    if array.device.type != "cpu" and not get_config()["array_api_dispatch"]:
        raise ValueError(
            f"{name} is a tensor on {array.device}: it is used there after "
            f"sklearn.set_config(array_api_dispatch=True); else pass {name}.cpu()."
        )
    if array.requires_grad:
        raise ValueError(
            f"{name} has gradients attached, which end here; pass {name}.detach()."
        )
    kind = str(array.dtype).removeprefix("torch.")
    if "float" in kind and kind not in ("float32", "float64"):
        raise ValueError(
            f"{name} is of {kind}, which is too coarse for distances; pass "
            f"{name}.float(), of CuPy {name}.astype('float32')."
        )
    if array.layout is not sys.modules["torch"].strided:
        raise ValueError(
            f"{name} is a sparse tensor, which is not supported; pass "
            f"{name}.to_dense()."
        )


def check_tensor(name: str, array: Any, *, n_axes: int | None = 2) -> Any:
    """Return a finite tensor of floats, float32 kept, else float64; never half."""
    import torch

    check_foreign(name, array)
    if array.is_complex():
        raise ValueError(f"{name} must be real numbers. Complex data not supported.")
    if not array.is_floating_point():
        array = array.to(torch.float64)
    if n_axes is not None and array.ndim != n_axes:
        raise ValueError(
            f"{name} must have {n_axes} axes; got shape {tuple(array.shape)}."
        )
    if n_axes == 2 and 0 in array.shape:
        raise ValueError(
            f"{name} has shape {tuple(array.shape)}: at least one sample and one "
            "feature are needed."
        )
    if not bool(torch.isfinite(array).all()):
        raise ValueError(
            f"Input {name} contains NaN or infinity; fill in missing values on the "
            f"CPU first, by MixtureImputer or another imputer."
        )
    return array.contiguous()


def checked_on_device(name: str, array: Any, *, n_axes: int | None = 2) -> Any:
    """Return a tensor on a device, checked by `check_tensor`; None for all else."""
    return check_tensor(name, array, n_axes=n_axes) if on_device(array) else None


def check_one_place(**arrays: Any) -> None:
    """Raise where tensors on a device meet arrays that are elsewhere."""
    places = {
        name: str(array.device) if on_device(array) else "the CPU"
        for name, array in arrays.items()
        if array is not None
    }
    if len(set(places.values())) > 1:
        listed = " and ".join(f"{name} on {place}" for name, place in places.items())
        raise ValueError(
            f"{listed}: all must be in one place; move them with .to(device) or .cpu()."
        )


class ArrayPlace(NamedTuple):
    """A library of arrays and a device in it."""

    xp: Any
    device: Any

    def wrap(self, answer: Any) -> Any:
        """Return numbers there; text and all that is no array stay."""
        if isinstance(answer, tuple) and type(answer) is tuple:
            return tuple(self.wrap(part) for part in answer)
        if is_tensor(answer):
            if "torch" in self.xp.__name__:
                return answer.to(self.device)
            return self.xp.from_dlpack(answer)
        if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "biuf":
            return answer
        if answer.ndim:
            answer = np.ascontiguousarray(answer)
        if not answer.flags.writeable:
            answer = answer.copy()
        return self.xp.asarray(answer, device=self.device)


def array_place_of(array: Any) -> ArrayPlace | None:
    """Return where to answer; None is NumPy, as without dispatch."""
    if not is_foreign(array) or not get_config()["array_api_dispatch"]:
        return None
    xp, _, device = get_namespace_and_device(array)
    return ArrayPlace(xp, device)


class _Available:
    """A method that is there only if a check raises nothing."""

    def __init__(self, check: Callable[[Any], Any], method: Callable) -> None:
        self.check, self.method = check, method
        update_wrapper(cast(Any, self), method)

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self.method
        self.check(owner)
        return MethodType(self.method, owner)


def available_if(check: Callable[[Any], Any]) -> Callable[[Method], Method]:
    """Decorate a method that is there unless ``check(self)`` raises an AttributeError.

    As scikit-learn's, but what is raised is what the user reads, and the method has the
    door of the others.
    """
    return cast(Any, partial(_Available, check))


class ArrayDispatchMixin:
    """Mixin: public methods take any arrays and answer with arrays like the first.

    Inside, samples are NumPy arrays, or tensors on a device in the methods that
    `device_methods` names; everything else that is handed in, and all fitted arrays,
    are NumPy arrays. Fitted arrays are kept where the samples are; a pickle has
    them in NumPy, so that it can be read where there is no such library.
    """

    device_methods: ClassVar[tuple[str, ...]] = ()
    # Which of `FITS` take Dask collections: those of "fit" go to `_fit_blocks`.
    lazy_methods: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in (*FITS, *ASKS, "score"):
            method = cls.__dict__.get(name)
            if isinstance(method, _Available):
                method.method = _dispatch_method(name, method.method)
            elif callable(method):
                setattr(cls, name, _dispatch_method(name, method))

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        return {name: to_numpy(value) for name, value in state.items()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        # What may vary is computed where the samples are, or not at all.
        tangents = getattr(self, "tangents", None)
        there = getattr(tangents, "device_methods", True)
        tags.array_api_support = bool(self.device_methods and there)
        return tags


def _dispatch_method(name: str, method: Callable) -> Callable:
    fits = name in FITS

    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        given = (*args, *options.values())
        lazy = any(map(is_lazy, given))
        if fits and lazy and name in self.lazy_methods:
            return getattr(self, f"_{name}_blocks")(*args, **options)
        if name == "score":
            return (accuracy if lazy else method)(self, *args, **options)
        if lazy or (not fits and vars(self).get("_parts") is not None):
            return rowwise(self, name, args, options)
        held = {key: value for key, value in vars(self).items() if is_foreign(value)}
        if not held and not any(map(is_foreign, given)):
            return method(self, *args, **options)
        place = array_place_of(_samples(args, options))
        args = tuple(
            as_tensor("X" if value is args[0] else "y", value) for value in args
        )
        options = {key: as_tensor(key, value) for key, value in options.items()}
        data = _samples(args, options)
        check_foreign("X", data)
        if on_device(data) and name not in self.device_methods:
            raise ValueError(
                f"{type(self).__name__}.{name} works on the CPU only; pass X.cpu()"
                f"{', of CuPy X.get()' if any(map(is_cupy, given)) else ''}."
            )
        args = tuple(_inner(value, data) for value in args)
        options = {key: _inner(value, data) for key, value in options.items()}
        own = {key: to_numpy(value) for key, value in held.items()}
        if not fits:
            answer = method(_twin(self, own), *args, **options)
            return answer if place is None else place.wrap(answer)
        vars(self).update(own)
        try:
            method(self, *args, **options)
        except BaseException:
            vars(self).update(held)
            raise
        if place is not None:
            kept = self._get_param_names()
            for key, value in list(vars(self).items()):
                if key not in kept and isinstance(value, np.ndarray):
                    vars(self)[key] = place.wrap(value)
        return self

    return call


def _samples(args: tuple, options: dict[str, Any]) -> Any:
    """Return what a method is asked about; some take a word before."""
    return options.get("X", next((a for a in args if not isinstance(a, str)), None))


def dispatch_function(function: Any = None, *, lazily: Callable | None = None) -> Any:
    """Decorate a function of samples: it answers with arrays like the first argument.

    What is on a device stays there; the function sees all else as NumPy arrays.
    ``lazily(function, args, options)`` says what becomes of Dask collections, which are
    refused without it.
    """
    if function is None:
        return partial(dispatch_function, lazily=lazily)

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if any(map(is_lazy, (*args, *options.values()))):
            if lazily is not None:
                return lazily(call, args, options)
            raise ValueError(
                f"X, Y: {function.__name__} takes no Dask collections; pass what "
                "compute() makes of them."
            )
        if not any(map(is_foreign, (*args, *options.values()))):
            return function(*args, **options)
        place = array_place_of(args[0] if args else options.get("X"))

        def seen(name: str, value: Any) -> Any:
            value = as_tensor(name, value)
            check_foreign(name, value)
            return value if on_device(value) else to_numpy(value)

        args = tuple(seen("XY"[i : i + 1] or "Y", a) for i, a in enumerate(args))
        options = {name: seen(name, value) for name, value in options.items()}
        answer = function(*args, **options)
        return answer if place is None else place.wrap(answer)

    return call


def refuse_device(owner: str, **arrays: Any) -> None:
    """Say in one line that there is no code for a device here."""
    for name, array in arrays.items():
        if on_device(array):
            raise ValueError(f"{owner} works on the CPU only; pass {name}.cpu().")


def _inner(value: Any, data: Any) -> Any:
    """Return an argument as methods know it: the samples may be on a device."""
    if not is_foreign(value) or (value is data and on_device(data)):
        return value
    check_foreign("an argument" if value is not data else "X", value)
    return to_numpy(value)


def _twin(estimator: Any, arrays: dict[str, Any]) -> Any:
    """Return the same estimator, with other arrays; it changes nothing of the first."""
    if not arrays:
        return estimator
    return with_state(type(estimator), vars(estimator) | arrays)


def to_cpu(estimator: Any) -> Any:
    """Return an estimator whose private methods can be called: its arrays NumPy's."""
    held = {key: value for key, value in vars(estimator).items() if is_foreign(value)}
    return _twin(estimator, {key: to_numpy(value) for key, value in held.items()})


_made: WeakKeyDictionary = WeakKeyDictionary()


def cached_on(owner: Any, key: Hashable, make: Callable[[], Any]) -> Any:
    """Return what `make` makes, once for `owner` and `key`, as long as `owner` lives.

    What an owner looks like elsewhere belongs neither to its state nor to its pickle.
    """
    known = _made.setdefault(owner, {})
    if key not in known:
        known[key] = make()
    return known[key]
