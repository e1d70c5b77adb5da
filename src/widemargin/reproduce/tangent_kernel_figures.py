"""Haasdonk and Keysers 2002, figures 2 to 4, drawn from what the library computes.

Reference: B. Haasdonk, D. Keysers, Tangent distance kernels for support vector
machines, ICPR 2002.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.metrics import tangent_alignment, tangent_distances
from widemargin.reproduce.tangent_kernels import SHAPE
from widemargin.tangents import ImageTangents, TransformTangents
from widemargin.tangents.image import FIELDS


def figure_2() -> Any:
    """Illustration of the four tangent distances of two points in space.

    Each point is varied by a turn about the third axis and a rise with the angle, so
    that its tangent is a line askew to the other's.
    """
    import matplotlib.pyplot as plt

    x, y = np.array([[2.0, 0.2, 0.0]]), np.array([[0.4, 1.8, 1.0]])
    generator = TransformTangents([_helix])
    lines = {"x": generator.tangents(x)[0, 0], "y": generator.tangents(y)[0, 0]}
    middle = (x + y) / 2
    lines["m"] = generator.tangents(middle)[0, 0]
    figure = plt.figure(figsize=(11, 3.2))
    panels = (("y", "1S"), ("two", "2S"), ("mean", "MN"), ("midpoint", "MP"))
    for place, (sides, name) in enumerate(panels):
        axes: Any = figure.add_subplot(1, 4, place + 1, projection="3d")
        if sides != "midpoint":
            _line(axes, x[0], lines["x"], dashed=sides == "y")
            _line(axes, y[0], lines["y"], dashed=False)
        else:
            _line(axes, middle[0], lines["m"], dashed=False)
        shown = ("x", "y") if sides == "mean" else (sides,)
        for side in shown:
            pair = tangent_alignment(x, y, tangents=generator, sides=side)
            ends = np.concatenate([pair.x_aligned, pair.y_aligned])
            axes.plot(*ends.T, "o-", color="tab:red", markersize=3)
        axes.scatter(*np.concatenate([x, y]).T, color="black")
        for point, label in ((x[0], "x"), (y[0], "x'")):
            axes.text(*point, f"  {label}")
        d = tangent_distances(x, y, tangents=generator, sides=sides, squared=False)
        axes.set_title(f"{name}: d = {d[0, 0]:.2f}")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_zticks([])
    return figure


def _helix(X: NDArray, p: float) -> NDArray:
    c, s = np.cos(p), np.sin(p)
    turned = X[:, :1] * [[c, s]] + X[:, 1:2] * [[-s, c]]
    return np.column_stack([turned, X[:, 2] + 0.4 * p * X[:, 0]])


def _line(axes: Any, point: NDArray, direction: NDArray, *, dashed: bool) -> None:
    steps = np.linspace(-0.8, 0.8, 2)[:, None]
    style = "--" if dashed else "-"
    axes.plot(*(point + steps * direction).T, style, color="0.6")


def figure_3(X: NDArray, y: NDArray, per_digit: int = 4) -> Any:
    """Examples of USPS digits."""
    import matplotlib.pyplot as plt

    classes = np.unique(y)
    figure, grid = plt.subplots(
        per_digit, len(classes), figsize=(len(classes), per_digit), squeeze=False
    )
    for column, label in enumerate(classes):
        chosen = np.flatnonzero(y == label)[:per_digit]
        for row in range(per_digit):
            if row < len(chosen):
                grid[row, column].imshow(X[chosen[row]].reshape(SHAPE), cmap="gray_r")
            grid[row, column].axis("off")
    return figure


def figure_4(x: NDArray) -> Any:
    """Tangents t_i of one image, and the points x + t_i of its tangent space."""
    import matplotlib.pyplot as plt

    generator = ImageTangents(SHAPE)
    tangents = generator.tangents(x[np.newaxis])[0]
    names = (*FIELDS, "thickness")
    figure, grid = plt.subplots(2, 1 + len(tangents), figsize=(11, 3))
    grid[0, 0].imshow(x.reshape(SHAPE), cmap="gray_r")
    grid[0, 0].set_title("x")
    for column, (name, tangent) in enumerate(zip(names, tangents, strict=True), 1):
        grid[0, column].imshow(tangent.reshape(SHAPE), cmap="gray")
        grid[0, column].set_title(name, fontsize=7)
        grid[1, column].imshow((x + tangent).reshape(SHAPE), cmap="gray_r")
    for axes in grid.ravel():
        axes.axis("off")
    return figure
