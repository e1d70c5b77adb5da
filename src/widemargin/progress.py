"""A bar for everything that takes long, drawn by rich.

Fits, predictions, distances and kernels announce their loops, see
:mod:`widemargin._compute.progress`; here is somebody who listens. scikit-learn's
callbacks are for ``fit`` alone; where they draw a bar already, this one keeps still.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from widemargin._compute.progress import Advance, Observer, is_observed, observed_by

if TYPE_CHECKING:
    from rich.console import Console

# Seconds before a bar appears: work that ends earlier draws nothing.
_DELAY = 0.5


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

    return draw
