"""Who is told how far long work has come: at most one observer, by the outermost loop.

A loop names what it does and how much there is of it, then says each part that is
done. Loops inside another loop say nothing, whether they run in the same thread or in
a worker, so that one bar is one piece of work. A loop of a single item is no loop:
what is inside speaks for it. Without an observer nothing of this costs anything.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
# advance(amount=1): so much more is done.
Advance = Callable[..., None]
# observer(description, total) opens a loop; a total of None is not known beforehand.
Observer = Callable[[str, float | None], AbstractContextManager[Advance]]


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
    try:
        yield
    finally:
        _observer.reset(token)


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
