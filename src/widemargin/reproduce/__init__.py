"""To reproduce: the papers' tables beside ours, and their figures, a module each.

Every module has ``main(quick, out)``, which prints the tables and saves the figures in
the folder `out`. What they show is loaded, computed and drawn by the library.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from widemargin._core.files import write_atomically


class Split(NamedTuple):
    """A set in two parts: samples in rows, integer labels."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load_split(load: Callable, n_samples: int | None = None, **options: Any) -> Split:
    """Return both parts of a set of `widemargin.datasets`, or the first of each."""
    parts = [
        load(subset=part, return_X_y=True, **options) for part in ("train", "test")
    ]
    return Split(*(array[:n_samples] for part in parts for array in part))


def save_figure(figure: Any, path: Path) -> None:
    """Save a matplotlib figure as PNG, whole or not at all, close it and say so."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda part: figure.savefig(part, format="png", dpi=120))
    plt.close(figure)
    print(f"saved {path}", flush=True)
