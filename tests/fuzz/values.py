"""Arrays, labels and parameters of every kind, drawn from one generator of numbers.

A draw depends on the seed alone, so that any call can be made again from its number.
Most values are what a user would give; the rest is everything else.
"""

import os
import re
import tempfile
from functools import lru_cache
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

try:
    import pandas as pd
except ImportError:
    pd = None
try:
    import polars as pl
except ImportError:
    pl = None

Generator = np.random.Generator

# Kinds of input that cannot be made here, said at the end of a run.
MISSING = [name for name, there in (("pandas", pd), ("polars", pl)) if there is None]


# Share of the arrays and junk that is taken from the ends of the floats on purpose.
EXTREME = float(os.environ.get("WIDEMARGIN_FUZZ_EXTREME", 0))


def pick(rng: Generator, *options: Any) -> Any:
    """One of the options, each as likely as the others."""
    return options[rng.integers(len(options))]


def rarely(rng: Generator, share: float) -> bool:
    return bool(rng.random() < share)


def numbers(rng: Generator, shape: tuple) -> np.ndarray:
    """Finite float64 values: spread, lattices, copies, blanks, outliers; any scale."""
    kind = rng.integers(8)
    if kind < 3:
        values = rng.normal(size=shape)
    elif kind == 3:
        values = rng.integers(-2, 3, size=shape).astype(float)
    elif kind == 4:
        values = rng.integers(0, 2, size=shape).astype(float)
    elif kind == 5:
        values = np.full(shape, rng.normal())
    elif kind == 6:
        values = rng.normal(size=shape)
        if len(shape) and shape[0]:
            values = values[rng.integers(shape[0], size=shape[0])]
    else:
        values = np.where(rng.random(shape) < 0.5, 0.0, rng.normal(size=shape))
    if rarely(rng, 0.08) and values.size:
        values.flat[rng.integers(values.size)] *= 10.0 ** rng.integers(2, 12)
    if rarely(rng, 0.15):
        values = values + 10.0 ** rng.integers(0, 9)
    if rarely(rng, 0.25):
        far = rarely(rng, 0.3)
        with np.errstate(all="ignore"):
            values = values * 10.0 ** float(rng.uniform(-300, 300) if far else
                                            rng.uniform(-8, 8))  # fmt: skip
    if EXTREME and rarely(rng, EXTREME):
        ends = pick(rng, (-323, -290), (-165, -150), (-50, -30), (30, 50), (150, 160),
                    (290, 308))  # fmt: skip
        with np.errstate(all="ignore"):
            largest = np.abs(values).max(initial=0) or 1.0
            values = values / largest * 10.0 ** rng.uniform(*ends)
    return values


def poisoned(rng: Generator, values: np.ndarray) -> np.ndarray:
    """The same with a NaN or an infinity somewhere."""
    if values.size and values.dtype.kind in "fc":
        values = values.copy()
        values.flat[rng.integers(values.size)] = pick(rng, np.nan, np.inf, -np.inf)
    return values


DTYPES = ("float32", "float16", "int64", "int32", "int8", "uint8", "bool", "longdouble",
          ">f8", ">f4", "complex128", "object", "str", "bytes",
          "datetime64[s]")  # fmt: skip


def cast(rng: Generator, values: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        if dtype in ("int64", "int32", "int8", "uint8"):
            info = np.iinfo(dtype)
            held = np.nan_to_num(values).clip(max(info.min, -1e9), min(info.max, 1e9))
            return held.astype(dtype)
        if dtype == "datetime64[s]":
            return np.nan_to_num(values).clip(-1e9, 1e9).astype(np.int64).astype(dtype)
        if dtype == "object":
            held = values.astype(object)
            if held.size and rarely(rng, 0.3):
                held.flat[rng.integers(held.size)] = pick(rng, None, "a", {}, [1])
            return held
        return values.astype(dtype)


def dressed(rng: Generator, values: np.ndarray, plain: float = 0.5) -> Any:
    """The same numbers in another dtype, order, stride or container."""
    if rarely(rng, plain):
        return values
    if rarely(rng, 0.5):
        return (
            np.asarray(values, np.float32)
            if rarely(rng, 0.7)
            else cast(rng, values, pick(rng, *DTYPES))
        )
    kind = rng.integers(14)
    two = values.ndim == 2
    if kind == 0:
        return np.asfortranarray(values)
    if kind == 1:
        return np.repeat(values, 2, axis=0)[::2]
    if kind == 2:
        return np.ascontiguousarray(values[::-1])[::-1] if values.ndim else values
    if kind == 3:
        values = values.copy()
        values.flags.writeable = False
        return values
    if kind == 4 and values.size:
        with tempfile.TemporaryFile() as file:
            held = np.memmap(file, values.dtype, "w+", shape=values.shape)
        held[...] = values
        if rarely(rng, 0.5):
            held.flags.writeable = False
        return held
    if kind == 5:
        return values.tolist()
    if kind in (6, 7) and two and pd is not None:
        names = [f"f{i}" for i in range(values.shape[1])]
        if rarely(rng, 0.1):
            names = list(range(values.shape[1]))
        if rarely(rng, 0.1) and names:
            names[-1] = names[0] if rarely(rng, 0.5) else 7
        return pd.DataFrame(values, columns=names)
    if kind == 8 and two and pl is not None:
        return pl.DataFrame({f"f{i}": values[:, i] for i in range(values.shape[1])})
    if kind in (9, 10) and two:
        make = pick(rng, sparse.csr_array, sparse.csc_matrix, sparse.coo_array,
                    sparse.csr_matrix, sparse.lil_array)  # fmt: skip
        return make(values)
    if kind == 11:
        return np.ma.masked_array(values)
    if kind == 12 and two:
        return tuple(map(tuple, values.tolist()))
    return values


def bent(rng: Generator, values: np.ndarray) -> np.ndarray:
    """The same numbers in a shape that was not asked for."""
    kind = rng.integers(7)
    if kind == 0:
        return values.ravel()
    if kind == 1:
        return values[np.newaxis]
    if kind == 2:
        return values[:0]
    if kind == 3:
        return values[..., :0]
    if kind == 4:
        return values.T
    if kind == 5:
        return values.ravel()[:1].reshape(()) if values.size else values
    return values[..., :-1]


def matrix(rng: Generator, n: int, d: int, odd: float = 0.15) -> Any:
    """(n, d) samples; `odd` is the share of what should be refused."""
    values = numbers(rng, (n, d))
    if rarely(rng, odd / 2):
        values = poisoned(rng, values)
    if rarely(rng, odd / 3):
        values = bent(rng, values)
    if rarely(rng, odd / 10):
        return pick(rng, None, "X", 3.0, object(), [], {}, [[1.0], [1.0, 2.0]], [[]])
    return dressed(rng, values)


def vector(rng: Generator, n: int, odd: float = 0.15, low: float | None = None) -> Any:
    """(n,) numbers, at least `low` unless odd."""
    values = numbers(rng, (n,))
    if low is not None:
        values = np.abs(values) + low
    if rarely(rng, odd / 2):
        values = poisoned(rng, values)
    if rarely(rng, odd / 2):
        values = pick(rng, -np.abs(values), values[:-1], values[:, None], values[:0],
                      np.zeros_like(values), np.append(values, 1.0))  # fmt: skip
    if rarely(rng, odd / 10):
        return pick(rng, None, "weights", 1.0, object(), [], {})
    if rarely(rng, 0.7):
        return values
    return dressed(rng, values)


def codes(rng: Generator, n: int, n_classes: int) -> np.ndarray:
    if rarely(rng, 0.7):
        return rng.permutation(np.arange(n) % n_classes)
    return rng.integers(0, n_classes, size=n)


def labels(rng: Generator, n: int, odd: float = 0.15, n_classes: int = 0) -> Any:
    """(n,) labels of any kind."""
    n_classes = n_classes or int(rng.integers(2, 4))
    held = codes(rng, n, n_classes)
    if rarely(rng, odd):
        kind = rng.integers(12)
        return [
            held[:-1], np.append(held, 0), np.zeros(n, int), rng.normal(size=n),
            np.where(held == 0, np.nan, 1.0), held[:, None], np.eye(n_classes)[held],
            held[:0], None, np.array([None, "a", 1, 2.5], dtype=object)[held % 4],
            "labels", held.astype(complex),
        ][kind]  # fmt: skip
    kind = rng.integers(11)
    if kind == 0:
        return np.array(["no", "yes", "äh"])[held]
    if kind == 1:
        return np.array(["no", "yes", "äh"], dtype=object)[held]
    if kind == 2:
        return held.astype(float) - 1.0
    if kind == 3:
        return (held > 0) if n_classes == 2 else held.astype(np.int8)
    if kind == 4:
        return held.tolist()
    if kind == 5 and pd is not None:
        return pd.Series(np.array(["u", "v", "w"])[held])
    if kind == 6 and pd is not None:
        return pd.Series(pd.Categorical(np.array(["u", "v", "w"])[held]))
    if kind == 7 and pl is not None:
        return pl.Series(held)
    if kind == 8:
        return np.array([-3, 10**9, 7])[held]
    return held


JUNK = (
    None, float("nan"), float("inf"), -float("inf"), -1, 0, 1, 2, 3, 0.5, 0.1, 1.5,
    1e-300,
    1e300, 5e-324, -0.0, "", "nonsense", True, False, np.float32(0.25), np.int64(2),
    np.bool_(True),
    [1, 2], [0.5, 0.5], np.array([1.0, 2.0]), [], (), {}, b"x", 1j, object(), len, int,
    np.array(0.5), "auto", 10**20, {"a": 1}, np.str_("auto"), [[1.0, 2.0]], {0: 1.0,
    1: 2.0},
)  # fmt: skip


CALLED = {
    "weights",
    "kernel",
    "metric",
    "confidence_func",
    "weight_gain",
    "margin",
    "functions",
}


def junk(rng: Generator, name: str) -> Any:
    value = JUNK[rng.integers(len(JUNK))]
    if EXTREME and rarely(rng, EXTREME):
        value = float(pick(rng, 1, 3, -1)) * 10.0 ** int(rng.integers(-324, 308))
    # A function that a user gives may fail in its own words.
    if name in CALLED and (value is len or value is int):
        return "nonsense"
    # Processes cost a second each and are what joblib tests.
    if name == "n_jobs" and isinstance(value, Integral) and abs(value) < 5:
        return value if value < -1 or value == 0 else 1
    # A long time that was asked for is no hang.
    if isinstance(value, int) and value > 5 and re.search("iter|steps", name):
        return 3
    return value


@lru_cache(None)
def options(owner: Any, name: str) -> tuple:
    """Strings that the docstring of `owner` lists for a parameter."""
    found: list[str] = []
    for cls in getattr(owner, "__mro__", (owner,)):
        text = cls.__doc__ or ""
        for line in re.findall(
            rf"^ *[\w, ]*\b{name}\b[\w, ]* : (.*(?:\\\n.*)?)", text, re.M
        ):
            found += re.findall(r"[\"']([\w.\-]+)[\"']", line)
        if found:
            break
    return tuple(dict.fromkeys(found))


# What a user would set, where the docstring's strings are not all of it.
POOLS: dict[str, tuple] = {
    "C": (0.01, 1.0, 100.0), "gamma": (0.1, 1.0, "scale"), "degree": (1, 2, 3),
    "coef0": (0.0, 1.0), "spring": (0.0, 1e-5, 0.1), "tol": (1e-2, 1e-4, 1e-9),
    "max_iter": (1, 2, 5), "prototypes_per_class": (1, 2),
    "n_tangents": (0, 1, 2), "max_tangents": (0, 1, 2), "n_neighbors": (1, 2, 3),
    "n_components": (1, 2, 5), "learning_rate": (0.01, 0.3), "theta": (0.1, 0.4, 0.9),
    "beta": (0.0, 0.1, 1.0, 5.0), "random_state": (0, 1), "n_jobs": (None, 1),
    "validation_fraction": (0.2, 0.4), "delta": (None, 0.05, 0.5),
    "coverage": (0.5, 0.9),
    "max_error": (0.1, 0.4), "cv": (0.25, 0.5, 2, 3),
    "class_weight": (None, "balanced"),
    "intercept_scaling": (None, 0.5, 2.0), "rho": (None, 0.5, 2.0),
    "b": (None, 0.5, 1.0), "window": (0, 1, 0.2),
    "n_landmarks": (None, 2, 5), "shape": ((2, 2), (3, 2), (2, 3), (1, 4), (2, 2, 1)),
    "sigma": (0.0, 0.5, 1.0), "background": (0.0, -1.0), "eta": (0.5, 1.0),
    "shrinkage": (0.0, 0.5, 0.99), "step": (0.1, 1.0), "bandwidth": (0.5, 2.0),
    "margin_scale": (0.5, 2.0), "weight_gain": (1.0, 0.5, "ratio"),
    "batch_size": (1, 4),
    "directions": ("simard7", ("x_shift",), ["x_shift", "rotation"], ("shift",),
    ("offset", "slope")),
    "early_stopping": (True, False), "shuffle": (True, False),
    "stay_in_class": (True, False),
    "reinit_dead": (True, False), "squared": (True, False), "patch": (0, 1),
    "radius": (1, 2.5),
    "n_channels": (1, 2), "down": (0, 1, -1), "right": (0, 2),
    "diagonal": (True, False),
    "n_features": (1, 5), "log_base": (2.0, 10.0), "R": (2.0,), "r": (1.0,),
    "gamma_d": (0.5,),
    "n_classes": (None, 2, 3), "n_samples": (None, 10), "alpha": (None, 0.1),
    "n_candidates": (1, 50), "record_weights": (True, False),
    "record_models": (True, False),
    "f_min": (None, 0.5), "f_max": (None, 1.0), "b_u": (None, 2.0),
    "relaxation_target": (None, 3.0), "margin_threshold": (None, 0.5, 1.0),
    "margin": ("auto",), "reject_label": (None, -7, "none"), "max_support": (2, 10),
    "n_steps_per_reweight": (1, 2), "n_iter_no_change": (1, 3), "epsilon": (0.1, 0.4),
    "matrix_learning_rate": (0.01, 0.1), "rtol": (None, 1e-6),
    "per_class": (True, False),
    "local": (True, False), "max_cv_samples": (5, 100), "shift_test": (True, False),
}  # fmt: skip


def parameter(rng: Generator, owner: Any, name: str, odd: float = 0.25) -> Any:
    """A value for a parameter, mostly one that the documentation allows."""
    if rarely(rng, odd):
        return junk(rng, name)
    known = POOLS.get(name, ()) + options(owner, name)
    return known[rng.integers(len(known))] if known else junk(rng, name)


def show(value: Any) -> str:
    """Python that makes `value` again, as far as that can be written."""
    if isinstance(value, np.ma.MaskedArray):
        return f"np.ma.masked_array({show(np.asarray(value))})"
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OM":
            return f"np.array({value.tolist()!r}, dtype={value.dtype.str!r})"
        nan = "".join(
            f"{n}=np.{n}; " for n in ("nan", "inf") if n in repr(value.tolist())
        )
        note = "" if value.flags.c_contiguous else " (strided)"
        note += "" if value.flags.writeable else " (read-only)"
        note += " (memmap)" if isinstance(value, np.memmap) else ""
        text = f"np.array({value.tolist()!r}, dtype={value.dtype.str!r})"
        if value.size == 0:
            text = f"np.empty({value.shape}, {value.dtype.str!r})"
        return text + (f"  # {nan}{note}" if nan or note else "")
    if sparse.issparse(value):
        return f"sparse.{type(value).__name__}({show(value.toarray())})"
    if pd is not None and isinstance(value, pd.DataFrame):
        return (
            f"pd.DataFrame({show(value.to_numpy())}, columns={list(value.columns)!r})"
        )
    if pd is not None and isinstance(value, pd.Series):
        return f"pd.Series({value.tolist()!r}, dtype={str(value.dtype)!r})"
    if pl is not None and isinstance(value, pl.DataFrame):
        return f"pl.DataFrame({value.to_dict(as_series=False)!r})"
    return repr(value)
