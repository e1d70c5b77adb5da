"""Progress callbacks: scikit-learn's API where it exists, nothing where it does not.

scikit-learn 1.9 lets a caller follow a fit, ``estimator.set_callbacks(ProgressBar())``.
An estimator takes part in three steps: it derives from `CallbackSupportMixin`,
decorates ``fit`` with `with_callbacks`, and loops over a `FitProgress`. On
scikit-learn 1.7 and 1.8 the same code runs without ``set_callbacks``.
"""

from collections.abc import Callable, Iterator
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin; adds nothing."""

    def with_callbacks(method):
        """Return `method` as it is."""
        return method


class FitProgress:
    """The epochs of a fit, announced to the estimator's callbacks.

    Iterate over it to get the epoch numbers 0, 1, ...; call `stop` to make the
    current epoch the last. A callback can ask for the same. `state` returns the
    fitted attributes (copies) that make a usable estimator of the current epoch; it
    is called only if some callback wants one.
    """

    def __init__(
        self,
        estimator: Any,
        max_epochs: int,
        *,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        state: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._estimator = estimator
        self._max_epochs = max_epochs
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._data = {"X": X, "y": y, "metadata": metadata}
        self._state = state
        self._stopped = False

    def stop(self) -> None:
        """End after the epoch under way."""
        self._stopped = True

    def __iter__(self) -> Iterator[int]:
        if not HAS_CALLBACKS:
            for epoch in range(self._max_epochs):
                yield epoch
                if self._stopped:
                    return
            return
        root = self._estimator._init_callback_context(max_subtasks=self._max_epochs)
        root.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        for epoch in range(self._max_epochs):
            task = root.subcontext(task_name="epoch")
            task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
            yield epoch
            if self._end(task) or self._stopped:
                break
        self._end(root)

    def _end(self, task: Any) -> bool:
        return task.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=self._state,
            **self._data,
        )
