"""The distances of bundles as a function, until all hold a TangentMetric."""

from typing import Any

from numpy.typing import NDArray

from widemargin.metrics.tangent import TangentMetric
from widemargin.tangents import Bundle


def bundle_distances(
    x: Bundle,
    y: Bundle,
    *,
    sides: str,
    spring: float,
    squared: bool = True,
    symmetric: bool = False,
    n_jobs: int | None = None,
) -> NDArray:
    """Tangent distances of bundles, by those who have checked them, and warned."""
    metric = TangentMetric(None, sides, float(spring))
    ask: Any = metric.squared_distances if squared else metric.distances
    return ask(x, None if symmetric else y, n_jobs=n_jobs)
