"""Wide-margin, transformation-invariant classifiers for scikit-learn.

One sentence of mathematics runs through the package, and its folders read like it:
*what may vary* (:mod:`widemargin.tangents`), *how far* (:mod:`widemargin.metrics`),
*how sure* (:mod:`widemargin.margins`), *how learned* (the estimator packages).
The estimators can be imported from here; the rest lives in its package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from widemargin.linear import (
        FixedMarginPerceptron,
        MarginPerceptron,
        MaxMarginClassifier,
    )
    from widemargin.meta import RejectingClassifier

__version__ = "0.1.0"

# Everything loads on first use, so that importing the package stays as cheap as
# importing scikit-learn.
_SUBPACKAGES = (
    "datasets",
    "inspection",
    "linear",
    "margins",
    "meta",
    "metrics",
    "tangents",
)
_ESTIMATORS = {
    "FixedMarginPerceptron": "linear",
    "MarginPerceptron": "linear",
    "MaxMarginClassifier": "linear",
    "RejectingClassifier": "meta",
}

__all__ = [
    "FixedMarginPerceptron",
    "MarginPerceptron",
    "MaxMarginClassifier",
    "RejectingClassifier",
    "__version__",
    "datasets",
    "inspection",
    "linear",
    "margins",
    "meta",
    "metrics",
    "tangents",
]


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"widemargin.{name}")
    if name in _ESTIMATORS:
        return getattr(import_module(f"widemargin.{_ESTIMATORS[name]}"), name)
    raise AttributeError(f"module 'widemargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
