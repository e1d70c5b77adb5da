"""Who is told how far long work has come: at most one observer, by the outermost loop.

A loop names what it does and how much there is of it, then says each part that is
done. Loops inside another loop say nothing, whether they run in the same thread or in
a worker, so that one bar is one piece of work. A loop of a single item is no loop:
what is inside speaks for it. Without an observer nothing of this costs anything.

`show_progress` is somebody who listens: a bar drawn by rich. scikit-learn's callbacks
are for ``fit`` alone; where they draw a bar already, this one keeps still.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from threading import Timer
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")
# advance(amount=1): so much more is done.
Advance = Callable[..., None]
# observer(description, total) opens a loop; a total of None is not known beforehand.
Observer = Callable[[str, float | None], AbstractContextManager[Advance]]
# Seconds before a bar appears: work that ends earlier draws nothing.
_DELAY = 0.5


def silent(amount: float = 1) -> None:
    """Tell nobody."""


@contextmanager
def ignore(description: str, total: float | None) -> Iterator[Advance]:
    """Observe nothing."""
    yield silent


# Worker threads begin with an empty context: what runs in them has no observer.
_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


def observer() -> Observer | None:
    """Return whom a loop that begins here would tell, None for nobody."""
    current = _observer.get()
    return None if current is ignore else current


def is_observed() -> bool:
    """Whether somebody watches this thread, even if loops are silent just now."""
    return _observer.get() is not None


@contextmanager
def observed_by(new: Observer | None) -> Iterator[None]:
    """Tell `new` of the loops within; None silences them."""
    token = _observer.set(new or ignore)
    if new is not None:
        _listeners.append(new)
    try:
        yield
    finally:
        _observer.reset(token)
        if new is not None:
            _listeners.remove(new)


# Observers of the process, whatever context and thread a note comes from.
_listeners: list[Observer] = []


def note(text: str) -> None:
    """Tell the latest observer that reads notes one line, from inside any loop."""
    for listener in reversed(_listeners):
        read = getattr(listener, "note", None)
        if read is not None:
            read(text)
            return


def announce(
    description: str, total: float | None = None
) -> AbstractContextManager[Advance]:
    """Announce a loop; gives what its body calls with the amount done, 1 by default.

    `total` None is for work whose end is not known, or that has no parts to count.
    The function given is `silent` where nobody listens.
    """
    listener = observer()
    if listener is None or (total is not None and total <= 1):
        return _SILENCE
    return _outermost(listener, description, total)


_SILENCE: AbstractContextManager[Advance] = nullcontext(silent)


@contextmanager
def _outermost(
    listener: Observer, description: str, total: float | None
) -> Iterator[Advance]:
    with observed_by(None), listener(description, total) as advance:
        yield advance


def announced(
    items: Iterable[Item], description: str, weights: Sequence[float] | None = None
) -> Iterable[Item]:
    """Yield the items of a loop, announcing each one when the next is asked for.

    `weights` say how much of the work each item is; without them all count the same.
    The total is the number of items in either case.
    """
    if observer() is None:
        return items
    if weights is None:
        items = list(items)
        weights = [1] * len(items)
    return _announcing(items, description, weights) if len(weights) > 1 else items


def _announcing(
    items: Iterable[Item], description: str, weights: Sequence[float]
) -> Iterator[Item]:
    n = len(weights)
    scale = n / sum(weights)
    with announce(description, n) as advance:
        for item, weight in zip(items, weights, strict=True):
            yield item
            advance(scale * weight)


@contextmanager
def show_progress(console: "Console | None" = None) -> Iterator[None]:
    """Show how far the work within is: what it does, the share done, the time left.

    Parameters
    ----------
    console : rich.console.Console, default=None
        Where to draw. None is standard error, and nothing is drawn unless that is a
        terminal or a notebook. A console that is no terminal gets one line per loop,
        when it ends.

    Notes
    -----
    A bar appears after half a second and goes when its loop ends. There is one at a
    time, for the outermost loop; results do not depend on it. Work in other processes
    and threads that you start yourself is not seen. In a fit whose end nobody knows
    the bar moves without a share.

    It needs rich: ``pip install "widemargin[cli]"``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import show_progress
    >>> from widemargin.metrics import tangent_distances
    >>> X, along_first_axis = np.eye(3), np.array([[1.0, 0.0, 0.0]])
    >>> with show_progress():
    ...     D = tangent_distances(X, tangents=along_first_axis)
    >>> D.shape
    (3, 3)
    """
    try:
        from rich.console import Console
    except ImportError as error:
        raise ImportError(
            'show_progress draws with rich: pip install "widemargin[cli]".'
        ) from error
    chosen = Console(stderr=True) if console is None else console
    seen = console is not None or chosen.is_terminal or chosen.is_jupyter
    # Somebody listens already: one bar for one thing.
    if not seen or is_observed():
        yield
        return
    with observed_by(_bars_on(chosen)):
        yield


def _bars_on(console: "Console") -> Observer:
    """Return the observer that draws a bar for every loop it is told of."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    @contextmanager
    def draw(description: str, total: float | None) -> Iterator[Advance]:
        known = (TaskProgressColumn(), TimeRemainingColumn())
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *((TimeElapsedColumn(),) if total is None else known),
            console=console,
            transient=console.is_terminal or console.is_jupyter,
            # What is printed meanwhile goes above the bar, but never leaves a file.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        task = progress.add_task(description, total=total)
        # A thread of its own: the first item may take minutes.
        timer = Timer(_DELAY, progress.start)
        timer.daemon = True
        timer.start()
        try:
            yield lambda amount=1: progress.advance(task, amount)
        finally:
            try:
                timer.cancel()
                timer.join()
            finally:
                progress.stop()

    draw.note = console.print  # type: ignore[attr-defined]
    return draw
