"""To reproduce: the papers' tables beside ours, and their figures, a module each.

Every module has ``main(quick, out)``, which prints the tables and saves the figures in
the folder `out`. What they show is computed, loaded and drawn by the library.
"""

from pathlib import Path
from typing import Any

from widemargin._core.files import write_atomically


def save_figure(figure: Any, path: Path) -> None:
    """Save a matplotlib figure as PNG, whole or not at all, close it and say so."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda part: figure.savefig(part, format="png", dpi=120))
    plt.close(figure)
    print(f"saved {path}", flush=True)
