"""Figures 3 to 8 as PNG files; matplotlib is needed here and nowhere else."""

from pathlib import Path
from typing import Any

import numpy as np

STYLE: dict[Any, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 9,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
CYCLE = ("#1b6ca8", "#d1495b", "#2a9d6f", "#8d6bb8", "#e09f3e", "#4a4a4a")


def save_panels(
    path: Path, panels: dict[str, dict], xlabel: str, ylabel: str, **limits: Any
) -> None:
    """Draw curves {panel: {label: (x, y)}} side by side and save them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({**STYLE, "axes.prop_cycle": plt.cycler(color=CYCLE)}):
        width = 4.6 * len(panels)
        figure, axes = plt.subplots(
            1, len(panels), figsize=(width, 3.4), sharey=True, squeeze=False
        )
        for axis, (title, curves) in zip(axes[0], panels.items(), strict=True):
            for label, (x, y) in curves.items():
                axis.plot(x, y, label=label, linewidth=1.4)
            axis.set(title=title, xlabel=xlabel, **limits)
            axis.legend(loc="best", fontsize=8)
            if xlabel == "iteration":
                axis.xaxis.get_major_locator().set_params(integer=True)
        axes[0, 0].set_ylabel(ylabel)
        figure.savefig(path, dpi=130)
        plt.close(figure)


def save_weights(path: Path, found: dict[str, Any]) -> None:
    """Draw Figure 7: sorted weights, and their distance to the uniform limit."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({**STYLE, "axes.prop_cycle": plt.cycler(color=CYCLE)}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.4))
        for t, weights in found["weights"].items():
            share = 100 * np.arange(len(weights)) / len(weights)
            left.plot(share, weights, label=f"iteration {t}", linewidth=1.4)
        left.set(
            title="Weights, sorted",
            xlabel="samples, in percent",
            ylabel="weight · n",
        )
        left.legend()
        right.plot(*found["total_variation"], marker="o", markersize=3)
        right.set(
            title="Total variation to uniform on the θ-mistakes",
            xlabel="iteration",
            ylim=(0, None),
        )
        right.xaxis.get_major_locator().set_params(integer=True)
        figure.savefig(path, dpi=130)
        plt.close(figure)
