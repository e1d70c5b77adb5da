"""The slow, obvious tangent distances: one least-squares problem per pair."""

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
    if sides == "x":
        return least_squares(delta, U, spring)
    if sides == "y":
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
