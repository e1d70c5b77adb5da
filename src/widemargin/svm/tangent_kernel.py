"""The kernel of a TangentSVC: everything about it that must not change after fit.

Kernels with tangents at one end are made symmetric, (k(x, x') + k(x', x))/2, in
training as in prediction, so that both see the same machine.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from numpy.typing import NDArray

from widemargin.metrics import tangent_distances
from widemargin.metrics.distances import bundle_distances
from widemargin.metrics.kernels import kernel_of_distances, resolve_gamma
from widemargin.metrics.spectrum import symmetrize
from widemargin.tangents import Bundle, as_bundle


@dataclass(frozen=True)
class TangentKernel:
    """A function of the distance, and which distance; `gamma` may still be "scale"."""

    function: str | Callable
    gamma: Any
    tangents: Any
    sides: str
    spring: float

    def bundle(self, X: NDArray, n_jobs: int | None = None) -> Bundle:
        """Give samples the frames that the distance looks at."""
        # The tangents of a midpoint belong to no sample: the points are enough.
        tangents = None if self.sides == "midpoint" else self.tangents
        return as_bundle(X, tangents, n_jobs=n_jobs)

    def fitted_to(self, bundle: Bundle) -> Self:
        """Take the cheapest of equal distances, knowing what frames look like."""
        if self.sides in ("x", "y") and bundle.is_shared:
            # With one frame for all, or none, either end gives the same.
            return replace(self, sides="mean")
        return self

    def scaled_to(self, d2: NDArray, n_samples: int | None = None) -> Self:
        """Turn the gamma "scale" into a number; see `resolve_gamma`."""
        return replace(
            self, gamma=resolve_gamma(d2, self.function, self.gamma, n_samples)
        )

    @property
    def needs_scale(self) -> bool:
        """Whether distances are needed to tell gamma."""
        return self.gamma == "scale" and self.function == "rbf"

    def squared_distances(
        self,
        x: Bundle,
        y: Bundle | None = None,
        *,
        sides: str | None = None,
        n_jobs: int | None = None,
    ) -> NDArray:
        """Squared distances of all pairs; y None is x."""
        if self.sides == "midpoint":
            return tangent_distances(
                x.points, None if y is None else y.points, tangents=self.tangents,
                sides="midpoint", spring=self.spring, n_jobs=n_jobs,
            )  # fmt: skip
        sides = sides or self.sides
        return bundle_distances(
            x, x if y is None else y, sides=sides, spring=self.spring,
            symmetric=y is None and sides in ("two", "mean"), n_jobs=n_jobs,
        )  # fmt: skip

    def gram(self, d2: NDArray) -> NDArray:
        """Kernel values of a set with itself, from its squared distances, in place."""
        K = kernel_of_distances(d2, self.function, self.gamma)
        if self.sides in ("x", "y") or callable(self.function):
            symmetrize(K)
        return K

    def between(self, x: Bundle, y: Bundle, n_jobs: int | None = None) -> NDArray:
        """Kernel values of two sets."""
        K = kernel_of_distances(
            self.squared_distances(x, y, n_jobs=n_jobs), self.function, self.gamma
        )
        if self.sides in ("x", "y"):
            other = "y" if self.sides == "x" else "x"
            mirrored = self.squared_distances(x, y, sides=other, n_jobs=n_jobs)
            K += kernel_of_distances(mirrored, self.function, self.gamma)
            K /= 2
        return K
