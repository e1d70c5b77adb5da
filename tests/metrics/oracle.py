"""The slow, obvious distances.

Tangent distances are one least-squares problem per pair; distortion models try every
move of every pixel, or every path of moves.
"""

from itertools import product

import numpy as np


def least_squares(delta, directions, spring):
    """Smallest |delta - D^T c|^2 + k|c|^2 over c, by a dense augmented solve."""
    directions = np.asarray(directions, float).reshape(-1, delta.shape[0])
    size = len(directions)
    if size == 0:
        return float(delta @ delta)
    system = np.vstack([directions.T, np.sqrt(spring) * np.eye(size)])
    target = np.concatenate([np.asarray(delta, float), np.zeros(size)])
    solution = np.linalg.lstsq(system, target, rcond=1e-12)[0]
    return float(((system @ solution - target) ** 2).sum())


def pair(x, U, y, V, sides, spring):
    delta = np.asarray(x, float) - np.asarray(y, float)
    if sides == "query":
        return least_squares(delta, U, spring)
    if sides == "reference":
        return least_squares(delta, V, spring)
    if sides == "mean":
        return (least_squares(delta, U, spring) + least_squares(delta, V, spring)) / 2
    return least_squares(delta, np.concatenate([U, V]), spring)


def all_pairs(X, U, Y, V, sides, spring):
    return np.array(
        [
            [pair(x, u, y, v, sides, spring) for y, v in zip(Y, V, strict=True)]
            for x, u in zip(X, U, strict=True)
        ]
    )


def midpoint_pairs(X, Y, generator, spring):
    """Frames of each midpoint image by SVD, one pair at a time."""
    out = np.empty((len(X), len(Y)))
    for i, x in enumerate(np.asarray(X, float)):
        for j, y in enumerate(np.asarray(Y, float)):
            raw = generator.tangents(((x + y) / 2)[None])[0]
            lengths = np.linalg.norm(raw, axis=1, keepdims=True)
            _, values, rows = np.linalg.svd(raw / np.where(lengths > 0, lengths, 1))
            out[i, j] = least_squares(x - y, rows[: len(values)][values > 1e-6], spring)
    return out


def gradient_at(image, background=0.0, eps=None):
    """Sobel gradient at any pixel of an endless background around the image."""
    height, width = image.shape

    def value(r, c):
        inside = 0 <= r < height and 0 <= c < width
        return image[r, c] if inside else background

    def gradient(r, c):
        sides = ((-1, 1), (0, 2), (1, 1))
        across = sum(w * (value(r + k, c + 1) - value(r + k, c - 1)) for k, w in sides)
        down = sum(w * (value(r + 1, c + k) - value(r - 1, c + k)) for k, w in sides)
        g = np.array([across, down]) / 8
        return g if eps is None else g / np.sqrt(g @ g + eps**2)

    return gradient


def patch_cost(x, y, patch, background=0.0, eps=None):
    """The function c(i, j, a, b)."""
    g_x, g_y = (gradient_at(image, background, eps) for image in (x, y))
    offsets = list(product(range(-patch, patch + 1), repeat=2))

    def cost(i, j, a, b):
        pairs = [(g_x(i + u, j + v), g_y(i + a + u, j + b + v)) for u, v in offsets]
        return sum(float(((p - q) ** 2).sum()) for p, q in pairs)

    return cost


def distortion(x, y, window, patch, penalty=0.0, **options):
    """Every pixel by itself."""
    cost = patch_cost(x, y, patch, **options)
    moves = list(product(range(-window, window + 1), repeat=2))
    return sum(
        min(cost(i, j, a, b) + penalty * (a * a + b * b) for a, b in moves)
        for i, j in product(*map(range, x.shape))
    )


def pseudo_2d(x, y, window, patch, **options):
    """Every path down every column, and every path through the columns."""
    cost, (height, width) = patch_cost(x, y, patch, **options), x.shape
    moves = range(-window, window + 1)

    def paths(length):
        every = product(moves, repeat=length)
        return [p for p in every if all(abs(d) <= 1 for d in np.diff(p))]

    def near(i, j, a, b):
        return min(cost(i, j, a, b + e) for e in (-1, 0, 1))

    known = {
        (i, j, a, b): near(i, j, a, b)
        for i, j, a, b in product(range(height), range(width), moves, moves)
    }
    down = paths(height)
    column = {
        (j, b): min(sum(known[i, j, a, b] for i, a in enumerate(p)) for p in down)
        for j, b in product(range(width), moves)
    }
    return min(sum(column[j, b] for j, b in enumerate(p)) for p in paths(width))
