"""Classifiers that remember their training samples, here or where a cluster has them.

Samples and their frames are one bundle. Frames are many times as large as the points
they come from: a pickle has the points only, and the frames are made again of them. The
samples of a Dask collection stay with its workers, a model for each partition.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, cast

from numpy.typing import NDArray

from widemargin._core.arrays import to_numpy
from widemargin._core.classifier import MarginClassifier
from widemargin._core.shards import Shards
from widemargin.tangents import Bundle


class RemembersSamples(MarginClassifier):
    """Base of classifiers with a `bundle_`: a subclass says how to make it again."""

    device_methods: ClassVar[tuple[str, ...]] = (
        *("fit", "predict", "predict_proba", "decision_function"),
        *("margins", "confidence"),
    )
    lazy_methods = ("fit",)
    # Models of the partitions of a Dask collection, where that was fitted.
    _parts = cast("Shards | None", None)

    bundle_: Bundle

    @abstractmethod
    def _remake(self, points: NDArray) -> None:
        """Make the bundle of its points, which are in the metric's unit."""

    @staticmethod
    def _parted(shards: Shards, make: Callable, *args: Any, **options: Any) -> Shards:
        """Make the model of every partition, where it is."""
        parts = shards.map(make, *args, **options)
        # What goes wrong, goes wrong now.
        parts.sum(_size)
        return parts

    def __getstate__(self) -> dict[str, Any]:
        if self._parts is not None:
            raise ValueError(
                f"this {type(self).__name__} cannot be saved or sent: its training "
                "samples are with the workers that it was fitted on. Fit it again "
                "where it is needed."
            )
        state = dict(super().__getstate__())
        if "bundle_" in state:
            state["_points"] = to_numpy(state.pop("bundle_").points)
            state.pop("_search", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        points = state.pop("_points", None)
        super().__setstate__(state)
        if points is not None:
            self._remake(points)


def _size(part: Any) -> int:
    return len(part.bundle_)
