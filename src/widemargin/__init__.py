"""Wide-margin, transformation-invariant classifiers for scikit-learn.

One sentence of mathematics runs through the package, and its folders read like it:
*what may vary* (:mod:`widemargin.tangents`), *how far* (:mod:`widemargin.metrics`),
*how sure* (:mod:`widemargin.margins`), *how learned* (the estimator packages).
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_SUBPACKAGES = ("datasets", "margins", "metrics", "tangents")

__all__ = [*_SUBPACKAGES, "__version__"]


def __getattr__(name: str) -> Any:
    # Everything below loads on first use, so that importing the package stays
    # as cheap as importing scikit-learn.
    if name in _SUBPACKAGES:
        return import_module(f"widemargin.{name}")
    raise AttributeError(f"module 'widemargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
