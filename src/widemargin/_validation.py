"""Checks shared by every package: each error names the parameter and the way out."""

from collections.abc import Iterable
from typing import Any


def check_option(name: str, value: Any, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`, else say which ones there are."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")
    return value
