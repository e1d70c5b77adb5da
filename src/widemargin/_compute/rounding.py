"""Rounding: how far off a computed number may be, and the next one on the safe side.

Certificates and bounds add here what arithmetic may have lost; with u = eps / 2, a sum
of m products is off by at most ``m u / (1 - m u)`` of the sum of their sizes. Samples
are of a size whose squares are numbers (`widemargin._core.checks.SIZES`), so that
nothing else asks how large numbers may be.

N. Higham, Accuracy and stability of numerical algorithms, SIAM (2002), section 3.1.
"""

from functools import cache
from typing import Any

import numpy as np


@cache
def epsilon(dtype: Any = np.float64) -> float:
    """Distance of 1 to the next number of a dtype."""
    return float(np.finfo(dtype).eps)


def rounding(n_terms: int, dtype: Any = np.float64) -> float:
    """Relative error of a sum of products: m u / (1 - m u), more for conversions.

    >>> bool(rounding(1) < 1e-15)
    True
    """
    unit = (n_terms + 4) * epsilon(dtype) / 2
    return unit / (1 - unit) if unit < 0.5 else np.inf


@cache
def product_error(dtype: Any, n_features: int) -> float:
    """Return the rounding of an inner product and its uses, per unit of the norms.

    In units of the dtype's epsilon, 16 and the root of the number of features, as
    errors of either sign add up.
    """
    return epsilon(dtype) * (16.0 + np.sqrt(n_features))


def below(values: Any) -> Any:
    """Return the next smaller number, of the same dtype."""
    return np.nextafter(values, np.asarray(values).dtype.type(-np.inf))


def above(values: Any) -> Any:
    """Return the next larger number, of the same dtype."""
    return np.nextafter(values, np.asarray(values).dtype.type(np.inf))


def rounded_up(value: float, dtype: Any) -> Any:
    """Return the least number of a dtype that is not below a value."""
    found = np.dtype(dtype).type(value)
    return above(found) if found < value else found


def saturated(values: Any, dtype: Any) -> Any:
    """Return NumPy's numbers in a dtype, its largest for those that it cannot hold."""
    largest = float(np.finfo(dtype).max)
    return np.clip(values, -largest, largest).astype(dtype)


def rounded_down(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Return finite numbers of a dtype, none above those given."""
    found = saturated(values, dtype)
    return np.where(found > values, below(found), found)
