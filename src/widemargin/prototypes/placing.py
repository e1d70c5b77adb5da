"""Where prototypes start: per-class k-means, means, samples, or the user's array.

Everything here works class by class on weighted samples, X of shape
(n_samples, n_features), and returns prototypes of shape (n_prototypes, n_features)
with their class codes. None of them is dead, and a class never gets more prototypes
than it has distinct samples.
"""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from widemargin._compute.nearest import squared_norms
from widemargin._core.checks import check_option
from widemargin.prototypes.repair import without_dead

INITS = ("kmeans", "means", "samples")


def prototype_counts(prototypes_per_class: Any, classes: np.ndarray) -> np.ndarray:
    """Return the number of prototypes wanted for each class."""
    if isinstance(prototypes_per_class, Mapping):
        keys = set(prototypes_per_class)
        labels = set(classes.tolist())
        if keys != labels:
            raise ValueError(
                "prototypes_per_class must have one entry per class; missing "
                f"{sorted(labels - keys, key=str)[:5]}, unknown "
                f"{sorted(keys - labels, key=str)[:5]}."
            )
        counts = [prototypes_per_class[label] for label in classes.tolist()]
    else:
        counts = [prototypes_per_class] * len(classes)
    for count in counts:
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
            raise ValueError(
                "prototypes_per_class must be a positive integer or a dict of them "
                f"by label; got {prototypes_per_class!r}."
            )
    return np.asarray(counts, dtype=np.intp)


def spread_samples(
    X: np.ndarray, weights: np.ndarray, count: int, rng: np.random.RandomState
) -> np.ndarray:
    """Pick samples with probability proportional to the squared distance to the rest.

    This is the seeding of k-means++ (Arthur and Vassilvitskii, SODA 2007).
    """
    X = X - (weights @ X) / weights.sum()
    norms = squared_norms(X)
    rows, nearest = [], np.full(len(X), np.inf)
    chances = weights
    for _ in range(count):
        edges = np.cumsum(chances, dtype=np.float64)
        if edges[-1] == 0:
            break
        row = int(np.searchsorted(edges, rng.uniform() * edges[-1], side="right"))
        rows.append(min(row, len(X) - 1))
        D = np.maximum(norms - 2 * (X @ X[rows[-1]]) + norms[rows[-1]], 0)
        nearest = np.minimum(nearest, D)
        nearest[rows[-1]] = 0
        chances = weights * nearest
    return np.array(rows, dtype=np.intp)


def lloyd(
    X: np.ndarray, weights: np.ndarray, P: np.ndarray, max_iter: int = 12
) -> np.ndarray:
    """Weighted k-means from the starting centres `P`; near enough, not converged."""
    centre = P.mean(axis=0)
    X, P = X - centre, P - centre
    assigned = np.full(len(X), -1)
    rows = np.arange(len(X))
    for _ in range(max_iter):
        nearest = (X @ (-2 * P).T + squared_norms(P)).argmin(axis=1)
        if np.array_equal(nearest, assigned):
            break
        assigned = nearest
        members = np.zeros((len(P), len(X)), dtype=X.dtype)
        members[nearest, rows] = weights
        mass = members.sum(axis=1)
        alive = mass > 0
        P[alive] = (members[alive] @ X) / mass[alive, None]
    return P + centre


def _one_class(
    X: np.ndarray,
    weights: np.ndarray,
    count: int,
    init: str,
    rng: np.random.RandomState,
) -> np.ndarray:
    mean = (weights @ X) / weights.sum()
    if init == "means":
        spread = np.sqrt(weights @ (X - mean) ** 2 / weights.sum())
        noise = rng.standard_normal((count, X.shape[1])) if count > 1 else 0.0
        return (mean + 0.01 * spread * noise).reshape(count, -1).astype(X.dtype)
    if init == "kmeans" and count == 1:
        return mean[None]
    if count >= len(X):
        return without_dead(X, X)
    if init == "samples":
        picked = rng.choice(len(X), count, replace=False, p=weights / weights.sum())
        return without_dead(X, X[np.sort(picked)])
    seeds = X[spread_samples(X, weights, count, rng)]
    return without_dead(X, lloyd(X, weights, seeds))


def initial_prototypes(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    counts: np.ndarray,
    init: str,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, np.ndarray]:
    """Place `counts[c]` prototypes in each class c that occurs in `codes`.

    A class with fewer distinct samples than that gets one prototype per sample.
    """
    check_option("init (unless it is an array)", init, INITS)
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    placed = []
    for c, rows in zip(present, np.split(order, starts[1:]), strict=True):
        w = weights[rows].astype(X.dtype)
        placed.append(_one_class(X[rows], w, int(counts[c]), init, rng))
    sizes = [len(p) for p in placed]
    return np.concatenate(placed), np.repeat(present, sizes)


def given_prototypes(
    init: Any, init_labels: Any, classes: np.ndarray, n_features: int, dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Check the user's own prototypes and return them with their class codes."""
    P = check_array(init, dtype=dtype, order="C", copy=True, input_name="init")
    if P.shape[1] != n_features:
        raise ValueError(
            f"init must have shape (n_prototypes, {n_features}) to match X; "
            f"got {P.shape}."
        )
    if init_labels is None:
        raise ValueError("init is an array: init_labels must give its labels.")
    labels = np.asarray(init_labels)
    if labels.shape != (len(P),):
        raise ValueError(
            f"init_labels must have shape ({len(P)},), one label per row of init; "
            f"got {labels.shape}."
        )
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        raise ValueError(
            f"init_labels holds labels that y does not: "
            f"{np.unique(labels[unknown])[:5]}."
        )
    missing = ~np.isin(classes, labels)
    if missing.any():
        raise ValueError(
            f"init has no prototype for the classes {classes[missing][:5]}."
        )
    return P, np.searchsorted(classes, labels)
