"""Where TVQ starts, and whose weights it reports.

Models start as those of HSS, which describe each class, as samples with random
tangents, or as class means with random tangents.
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from widemargin.prototypes.affine import random_frames
from widemargin.prototypes.hss_rounds import ClassModels, class_rows
from widemargin.tangents import Bundle

INITS = ("hss", "random", "mean")
# The alternation need not end: the ascent goes on from wherever it is.
HSS_ROUNDS = 8


def initial_models(
    bundle: Bundle,
    codes: np.ndarray,
    weights: np.ndarray,
    *,
    n_models: int,
    n_tangents: int,
    init: str,
    spring: float,
    n_jobs: int | None,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centroids (K, d), frames (K, m, d) and class codes (K,) to start from."""
    C, T, labels = [], [], []
    for c, rows in class_rows(codes):
        X, w = bundle.points[rows], weights[rows]
        if init == "hss":
            models = ClassModels(bundle[rows], w, n_models, n_tangents, spring, rng)
            for _ in range(1 if models.is_exact else HSS_ROUNDS):
                models.round(n_jobs)
            centroids, frames = models.C, models.T
        else:
            centroids = _centroids(X, w, n_models, init, rng)
            frames = random_frames(len(centroids), n_tangents, X.shape[1], rng)
        C.append(centroids)
        T.append(frames)
        labels.append(np.full(len(centroids), c))
    dtype = bundle.points.dtype
    return (
        np.concatenate(C).astype(dtype),
        np.concatenate(T).astype(dtype),
        np.concatenate(labels),
    )


def _centroids(X, weights, n_models, init, rng) -> np.ndarray:
    n_models = min(n_models, len(X))
    share = weights / weights.sum()
    if init == "random":
        return X[rng.choice(len(X), n_models, replace=False, p=share)].astype(float)
    mean = share @ X.astype(float)
    if n_models == 1:
        return mean[None]
    spread = np.sqrt(share @ (X - mean) ** 2)
    return mean + 0.1 * spread * rng.standard_normal((n_models, X.shape[1]))


def weights_by_row(model: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Rewrite ``history_["weights"]`` from distinct samples to the rows of `X`.

    Equal samples share the weight of the one they were merged into, in proportion to
    what the user gave them; samples held out or of weight zero have none.
    """
    samples = model._trained
    X = validate_data(model, X, dtype=[np.float64, np.float32], reset=False)
    codes = np.searchsorted(model.classes_, np.asarray(y))
    given = _check_sample_weight(sample_weight, X, dtype=np.float64)
    # Adding zero turns -0.0, which equals 0.0, into the same bytes.
    place = {
        (code, (row + 0.0).tobytes()): i
        for i, (code, row) in enumerate(zip(samples.codes, samples.X, strict=True))
    }
    rows = np.array(
        [place.get((c, (r + 0.0).tobytes()), -1) for c, r in zip(codes, X, strict=True)]
    )
    given = np.where(rows >= 0, given, 0.0)
    totals = np.bincount(rows.clip(0), given, minlength=len(samples.X))
    share = np.where(given > 0, given / np.where(totals > 0, totals, 1)[rows], 0.0)
    model.history_["weights"] = [
        gamma[rows] * share for gamma in model.history_["weights"]
    ]
