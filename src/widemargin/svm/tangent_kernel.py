"""The kernel of a TangentSVC: everything about it that must not change after fit.

Kernels with tangents at one end are made symmetric, (k(x, x') + k(x', x))/2, in
training as in prediction, so that both see the same machine.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from numpy.typing import NDArray

from widemargin.metrics import TangentMetric
from widemargin.metrics.kernels import kernel_of_distances, resolve_gamma
from widemargin.metrics.spectrum import symmetrize
from widemargin.tangents import Bundle


@dataclass(frozen=True)
class TangentKernel:
    """A function of a distance; `gamma`, in the metric's unit, may still be "scale"."""

    function: str | Callable
    gamma: Any
    metric: TangentMetric

    def bundle(
        self, X: NDArray, y: NDArray | None = None, n_jobs: int | None = None
    ) -> Bundle:
        """Give samples, of known labels or not, the frames the distance looks at."""
        return self.metric.bundle(X, y, n_jobs=n_jobs)

    def fitted_to(self, bundle: Bundle) -> Self:
        """Take the cheapest of equal distances, knowing what frames look like."""
        if self.metric.sides in ("x", "y") and bundle.is_shared:
            # With one frame for all, or none, either end gives the same.
            return replace(self, metric=replace(self.metric, sides="mean"))
        return self

    def scaled_to(self, d2: NDArray, n_samples: int | None = None) -> Self:
        """Turn the gamma "scale" into a number; see `resolve_gamma`."""
        return replace(
            self, gamma=resolve_gamma(d2, self.function, self.gamma, n_samples)
        )

    @property
    def needs_scale(self) -> bool:
        """Whether distances are needed to tell gamma."""
        return isinstance(self.gamma, str) and self.function == "rbf"

    def squared_distances(self, x: Bundle, n_jobs: int | None = None) -> NDArray:
        """Squared distances of all pairs of a set."""
        return self.metric.squared_distances(x, n_jobs=n_jobs)

    def gram(self, d2: NDArray) -> NDArray:
        """Kernel values of a set with itself, from its squared distances, in place."""
        K = kernel_of_distances(d2, self.function, self.gamma)
        if self.metric.sides in ("x", "y") or callable(self.function):
            symmetrize(K)
        return K

    def between(
        self, x: Bundle, y: Bundle, n_jobs: int | None = None, prepared: Any = None
    ) -> NDArray:
        """Kernel values of two sets, the second prepared by the metric or not."""
        K = self._values(x, y, self.metric.sides, prepared, n_jobs)
        if self.metric.sides in ("x", "y"):
            other = "y" if self.metric.sides == "x" else "x"
            K += self._values(x, y, other, prepared, n_jobs)
            K /= 2
        return K

    def _values(self, x, y, sides, prepared, n_jobs) -> NDArray:
        d2 = self.metric.squared_distances(
            x, y, sides=sides, prepared=prepared, n_jobs=n_jobs
        )
        return kernel_of_distances(d2, self.function, self.gamma)
