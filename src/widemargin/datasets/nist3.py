"""nist3: digits of NIST special database 3, as in Aiolli and Sperduti's experiments.

MNIST's training set mixes two NIST databases. The extended labels of QMNIST tell them
apart: series (hsf) 0 is SD-3. Of these digits 10 705 are drawn at random, freed of
their empty borders and brought to 16×16 grey levels: 5 000 to train, 5 705 to test.
The authors' own draw was never published; this one is reproducible from its seed.

Arrays: images (n, 28, 28) -> X (n, 256) in [0, 1].

Reference: F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
section 6; C. Yadav, L. Bottou, Cold case: the lost MNIST digits, NeurIPS 2019.
"""

import numpy as np

N_DIGITS, N_TRAIN, SIDE = 10_705, 5_000, 16
SD3_SERIES = 0


def make_nist3(
    images: np.ndarray, labels: np.ndarray, series: np.ndarray, *, seed: int = 0
) -> tuple[tuple, tuple]:
    """Build nist3 from MNIST's training set.

    Parameters
    ----------
    images : ndarray of shape (60000, 28, 28), uint8
        MNIST's training images.
    labels : ndarray of shape (60000,)
        Their digits.
    series : ndarray of shape (60000,)
        Column 1 (hsf) of QMNIST's extended training labels.
    seed : int, default=0
        Of the draw and of the split.

    Returns
    -------
    train, test : tuple
        ``(X, y)`` of 5000 and of 5705 images.
    """
    pool = np.flatnonzero(np.asarray(series) == SD3_SERIES)
    if len(pool) < N_DIGITS:
        raise ValueError(
            f"series holds {len(pool)} digits of NIST SD-3 (value {SD3_SERIES}); nist3 "
            f"needs {N_DIGITS}. Pass column 1 of qmnist-train-labels-idx2-int."
        )
    drawn = np.random.RandomState(seed).permutation(pool)[:N_DIGITS]
    X = np.stack([fill_frame(images[i], SIDE).ravel() for i in drawn])
    y = np.asarray(labels)[drawn].astype(np.intp)
    return (X[:N_TRAIN], y[:N_TRAIN]), (X[N_TRAIN:], y[N_TRAIN:])


def fill_frame(image: np.ndarray, side: int) -> np.ndarray:
    """Cut the empty borders off and stretch what is left over side × side pixels."""
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    if len(rows) == 0:
        return np.zeros((side, side), np.float32)
    ink = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] / 255
    down, across = _resampling(ink.shape[0], side), _resampling(ink.shape[1], side)
    return (down @ ink @ across.T).astype(np.float32)


def _resampling(n: int, side: int) -> np.ndarray:
    """(side, n) rows of weights: linear interpolation, widened where it shrinks."""
    scale = n / side
    centres = (np.arange(side) + 0.5) * scale
    distance = np.abs(centres[:, None] - (np.arange(n) + 0.5)) / max(1.0, scale)
    weights = np.maximum(0, 1 - distance)
    return weights / weights.sum(axis=1, keepdims=True)
