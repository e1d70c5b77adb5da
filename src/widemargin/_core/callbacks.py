"""Progress of a fit: to scikit-learn's callbacks where they exist, and to an observer.

scikit-learn 1.9 lets a caller follow a fit, ``estimator.set_callbacks(ProgressBar())``.
An estimator takes part in three steps: it derives from `CallbackSupportMixin`,
decorates ``fit`` with `with_callbacks`, and either loops over a `FitProgress` (epochs)
or does its work inside the tasks of a `FitTasks`. A task with parts needs no more: the
loop that runs inside it, see :mod:`widemargin._compute.progress`, makes its subtasks.

On scikit-learn 1.7 and 1.8 the same code runs without ``set_callbacks``. Without
callbacks an observer, such as that of ``widemargin.show_progress``, is told the same.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, Self, TypeVar, cast

from widemargin._compute.progress import (
    Advance,
    Observer,
    announce,
    announced,
    ignore,
    observed_by,
    observer,
)
from widemargin._core.checks import OF_SAMPLES, naming

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import ProgressBar
    from sklearn.callback import with_callbacks as _with_callbacks

    HAS_CALLBACKS = True
except ImportError:
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin; adds nothing."""

    def _with_callbacks(method):
        return method


Item = TypeVar("Item")
Method = TypeVar("Method", bound=Callable[..., Any])


def with_callbacks(method: Method) -> Method:
    """Decorate ``fit``: scikit-learn's callbacks around it, where there are any."""
    return cast(Method, _with_callbacks(method))


_NOTHING: AbstractContextManager = nullcontext()
# A bar shows per cent, and scikit-learn's adds up all subtasks whenever one ends.
_MOST_SUBTASKS = 100


class FitTasks:
    """The tasks of a fit, one after the other; use it as a context manager.

    `n_tasks` is how many there will be at most. `state` returns the fitted attributes
    (copies) that make a usable estimator of the moment; it is called only if some
    callback wants one.
    """

    def __init__(
        self,
        estimator: Any,
        n_tasks: int,
        *,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        state: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._estimator = estimator
        self._n_tasks = n_tasks
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._data = {"X": X, "y": y, "metadata": metadata}
        self._state = state
        self._root: Any = None
        self._hush: AbstractContextManager = _NOTHING

    def __enter__(self) -> Self:
        callbacks = getattr(self._estimator, "_skl_callbacks", None)
        if HAS_CALLBACKS and callbacks:
            self._root = self._estimator._init_callback_context(
                max_subtasks=self._n_tasks
            )
            self._begin(self._root)
            if any(isinstance(callback, ProgressBar) for callback in callbacks):
                # One bar for one thing.
                self._hush = observed_by(None)
        self._hush.__enter__()
        return self

    def __exit__(self, error: Any, *details: Any) -> None:
        self._hush.__exit__(None, None, None)
        if error is None and self._root is not None:
            self._end(self._root)

    def _begin(self, task: Any) -> None:
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def _end(self, task: Any) -> bool:
        return task.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=self._state,
            **self._data,
        )

    def begin(self, name: str) -> Any:
        """Begin a task without parts; give what is returned to `end`."""
        if self._root is None:
            return None
        task = self._root.subcontext(task_name=name)
        self._begin(task)
        return task

    def end(self, task: Any) -> bool:
        """End a task; whether a callback asks to stop."""
        return task is not None and self._end(task)

    @contextmanager
    def whole(self, name: str) -> Iterator[None]:
        """Run a task that is one call: nobody can say how far it is."""
        task = self.begin(name)
        with announce(name):
            yield
        self.end(task)

    @contextmanager
    def parts(self, name: str) -> Iterator[None]:
        """Run a task whose parts are those of the loop that runs inside it."""
        if self._root is None:
            yield
            return
        task = _Parts(self, name, observer() or ignore)
        with observed_by(task.loop):
            yield
        task.finish()

    def each(self, items: Sequence[Item], name: str) -> Iterator[Item]:
        """Yield the items, a task with parts for each of them."""
        for item in announced(items, f"{name}s"):
            if self._root is None:
                yield item
                continue
            with self.parts(name):
                yield item

    def delegate(self, name: str) -> "Delegate":
        """Prepare a task that is the fit of another estimator, here or in a worker."""
        if self._root is None:
            return Delegate(None, None)
        return Delegate(self._root.subcontext(task_name=name), self._estimator)


class _Parts:
    """One task of a fit, and the first loop inside it as its subtasks."""

    def __init__(self, tasks: FitTasks, name: str, other: Observer) -> None:
        self._tasks, self._name, self._other = tasks, name, other
        self._task: Any = None

    def _open(self, max_subtasks: int | None) -> None:
        root = self._tasks._root
        self._task = root.subcontext(task_name=self._name, max_subtasks=max_subtasks)
        self._tasks._begin(self._task)

    @contextmanager
    def loop(self, description: str, total: float | None) -> Iterator[Advance]:
        """Observe a loop: a subtask for every part, or for every hundredth."""
        with self._other(description, total) as tell:
            if self._task is not None:
                yield tell
                return
            most = None if total is None else min(int(total), _MOST_SUBTASKS)
            self._open(most)
            done, made = 0.0, 0

            def advance(amount: float = 1) -> None:
                nonlocal done, made
                done += amount
                due = made + 1
                if total is not None and most is not None:
                    due = min(int(done * most / total + 1e-6), most)
                # A part is announced when it is done: some run at the same time.
                while made < due:
                    part = self._task.subcontext(task_name=description)
                    self._tasks._begin(part)
                    self._tasks._end(part)
                    made += 1
                tell(amount)

            yield advance

    def finish(self) -> None:
        """End the task; without a loop inside it had no parts."""
        if self._task is None:
            self._open(0)
        self._tasks._end(self._task)


class Delegate(NamedTuple):
    """The fit of a sub-estimator as a task of the estimator that owns it."""

    task: Any
    owner: Any

    def fit(self, estimator: Any, X: Any, y: Any, **params: Any) -> Any:
        """Fit the sub-estimator, which announces its own tasks if it can."""
        if type(estimator).__module__.startswith("widemargin."):
            return self._fit(estimator, X, y, **params)
        try:
            with naming("X", OF_SAMPLES):
                return self._fit(estimator, X, y, **params)
        except ValueError as error:
            if not str(error).startswith("Sample weights must contain"):
                raise
            raise ValueError(
                "sample_weight must have a weight that is not zero in the dtype of X, "
                f"also among the samples of two classes: {error}"
            ) from error

    def _fit(self, estimator: Any, X: Any, y: Any, **params: Any) -> Any:
        if self.task is None:
            return estimator.fit(X, y, **params)
        data = {"X": X, "y": y, "metadata": params or None}
        # scikit-learn warns of estimators without callbacks; they need none here.
        speaks = hasattr(estimator, "set_callbacks")
        spread = self.task.propagate_callback_context
        with spread(estimator) if speaks else _NOTHING:
            self.task.call_on_fit_task_begin(estimator=self.owner, **data)
            fitted = estimator.fit(X, y, **params)
            self.task.call_on_fit_task_end(estimator=self.owner, **data)
        return fitted


class FitProgress:
    """The epochs of a fit, announced to the estimator's callbacks.

    Iterate over it to get the epoch numbers 0, 1, ...; call `stop` to make the
    current epoch the last. A callback can ask for the same. The other parameters are
    those of `FitTasks`.
    """

    def __init__(self, estimator: Any, max_epochs: int, **data: Any) -> None:
        self._tasks = FitTasks(estimator, max_epochs, **data)
        self._max_epochs = max_epochs
        self._stopped = False

    def stop(self) -> None:
        """End after the epoch under way."""
        self._stopped = True

    def __iter__(self) -> Iterator[int]:
        with self._tasks as tasks, announce("epochs", self._max_epochs) as advance:
            for epoch in range(self._max_epochs):
                task = tasks.begin("epoch")
                yield epoch
                advance()
                if tasks.end(task) or self._stopped:
                    break
