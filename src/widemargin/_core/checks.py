"""Checks shared by every package: each error names the parameter and the way out."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def check_option(name: str, value: Any, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`, else say which ones there are."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")
    return value


def check_count(name: str, value: Any, otherwise: str = "") -> int:
    """Return an integer of at least 1; the error begins with what else would do."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise ValueError(
            f"{name} must be {otherwise}an integer of at least 1; got {value!r}."
        )
    return int(value)


def check_spring(spring: Any) -> None:
    """Refuse a cost of moving that is negative or infinite."""
    if not isinstance(spring, Real) or not 0 <= float(spring) < float("inf"):
        raise ValueError(
            f"spring must be a finite number of at least 0; got {spring!r}."
        )
