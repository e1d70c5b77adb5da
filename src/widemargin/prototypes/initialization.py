"""Where prototypes start, where dead ones go, and the scale of their steps.

Prototypes start from per-class k-means, means, samples, or the user's array. All of it
works class by class on weighted samples, X of shape (n_samples, n_features), and
returns prototypes of shape (n_prototypes, n_features) with their class codes. None of
them is dead, and a class never gets more prototypes than it has distinct samples.
Samples may be on a device; codes and weights are NumPy's, and so is what is returned.

A prototype is dead when it is nearest to no sample of its class: nothing moves it and
it answers for nothing. It is put on the sample of its class that is farthest from all
living prototypes of the class; several dead ones go to several samples, each chosen
with the earlier ones in place.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from widemargin._compute.engines import formula
from widemargin._compute.machine import BLOCK_NUMBERS, batched_slices, rows_in_budget
from widemargin._compute.nearest import (
    nearest_of,
    squared_norms,
)
from widemargin._compute.rounding import epsilon
from widemargin._core.arrays import (
    beside,
    in_dtype,
    largest_of,
    numpy_dtype,
    to_numpy,
    xp_of,
)
from widemargin._core.checks import (
    SIZES,
    as_matrix,
    check_option,
    format_labels,
)
from widemargin._core.decisions import class_codes
from widemargin._core.duplicates import duplicate_groups
from widemargin.prototypes.base import point_distances

INITS = ("kmeans", "means", "samples")


def k_means(
    X: np.ndarray,
    weights: np.ndarray,
    count: int,
    rng: np.random.RandomState,
    max_iter: int = 12,
) -> np.ndarray:
    """Weighted k-means from the seeds of k-means++; near enough, not converged."""
    centre = _mean(X, weights)
    X, unit = _about(X, centre)
    starts = X[spread_rows(X, weights, count, rng)]
    return (
        in_dtype(lloyd(X, weights, starts, max_iter), numpy_dtype(centre)) * unit
        + centre
    )


def _about(X: Any, centre: Any) -> tuple[Any, Any]:
    """Return rows about a centre, float64 as float32: places need no more digits."""
    X = X - centre
    if numpy_dtype(X) != np.float64:
        return X, 1
    unit = largest_of(X) or 1.0
    return in_dtype(X / unit, np.float32), unit


def spread_rows(
    X: np.ndarray, weights: np.ndarray, count: int, rng: np.random.RandomState
) -> np.ndarray:
    """Pick rows with probability proportional to the squared distance to the rest.

    This is the seeding of k-means++ (Arthur and Vassilvitskii, SODA 2007), for data
    about their mean. scikit-learn's takes ten times as long on the few hundred samples
    that a class has, and the prototypes end no better.
    """
    xp, W = xp_of(X), beside(X, weights, alike=True)
    norms = xp.einsum("ij,ij->i", X, X)
    rows: list[int] = []
    nearest, chances = xp.full_like(norms, np.inf), W
    for _ in range(count):
        edges = xp.cumsum(in_dtype(chances, np.float64), 0)
        if not edges[-1] > 0:
            break
        mark = rng.uniform() * edges[-1]
        row = int(xp.searchsorted(edges, mark, side="right"))
        rows.append(min(row, len(X) - 1))
        D = (norms - 2 * (X @ X[rows[-1]]) + norms[rows[-1]]).clip(min=0)
        nearest = xp.minimum(nearest, D)
        nearest[rows[-1]] = 0
        chances = W * nearest
    return np.array(rows, dtype=np.intp)


def lloyd(X: Any, weights: np.ndarray, P: Any, max_iter: int = 12) -> Any:
    """Weighted k-means from the starting centres `P`; near enough, not converged.

    A centre without samples stays where it is.
    """
    xp, centre = xp_of(X), P.mean(axis=0)
    X, P = X - centre, P - centre
    W, assigned = beside(X, weights, alike=True), None
    names = xp.arange(len(P), device=X.device)[:, None]
    for _ in range(max_iter):
        nearest = (X @ (-2 * P).T + (P * P).sum(axis=1)).argmin(axis=1)
        if assigned is not None and bool((nearest == assigned).all()):
            break
        assigned = nearest
        members = xp.where(names == nearest, W, xp.zeros_like(W))
        mass = members.sum(axis=1)
        alive = mass > 0
        P[alive] = (members[alive] @ X) / mass[alive, None]
    return P + centre


def _mean(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    W = beside(X, weights, alike=True)
    return (W @ X) / W.sum()


def _one_class(
    X: np.ndarray,
    weights: np.ndarray,
    count: int,
    init: str,
    rng: np.random.RandomState,
) -> np.ndarray:
    if init == "means":
        mean, W = _mean(X, weights), beside(X, weights, alike=True)
        spread = to_numpy(((W / W.sum()) @ (X - mean) ** 2) ** 0.5)
        noise = rng.standard_normal((count, X.shape[1])) if count > 1 else 0.0
        near = to_numpy(mean) + 0.01 * spread * noise
        return beside(X, near.reshape(count, -1), alike=True)
    if init == "kmeans" and count == 1:
        return _mean(X, weights)[None]
    if count >= len(X):
        return without_dead(X, X)
    if init == "samples":
        picked = rng.choice(len(X), count, replace=False, p=_shares(weights))
        return without_dead(X, X[np.sort(picked)])
    return without_dead(X, k_means(X, weights, count, rng))


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
    dtype = numpy_dtype(X)
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    placed = []
    for c, rows in zip(present, np.split(order, starts[1:]), strict=True):
        # Divided first: a narrow dtype may hold neither the largest nor the smallest.
        w = (weights[rows] / weights[rows].max()).astype(dtype)
        placed.append(to_numpy(_one_class(X[rows], w, int(counts[c]), init, rng)))
    sizes = [len(p) for p in placed]
    return np.concatenate(placed), np.repeat(present, sizes)


def class_variances(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    means: np.ndarray,
    labels: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the unbiased variance of each class about its mean, and as how many count.

    Weighted samples count as ``(sum w)^2 / sum w^2``; one alone has no variance.
    """
    variances, sizes = np.zeros(len(labels)), np.ones(len(labels))
    for j, c in enumerate(labels):
        own = codes == c
        share = weights[own] / weights[own].sum()
        sizes[j] = 1 / (share @ share)
        if sizes[j] > 1 + 1e-9:
            spread = share @ _distances(X[own], means[j : j + 1])[:, 0].astype(float)
            variances[j] = spread * sizes[j] / (sizes[j] - 1)
    return variances, sizes


def given_prototypes(
    init: Any, init_labels: Any, classes: np.ndarray, n_features: int, dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Check the user's own prototypes and return them with their class codes."""
    P = as_matrix("init", init, dtype=dtype, order="C", copy=True)
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
    codes = class_codes(
        labels, classes, name="init_labels", owner="y does not hold; the classes"
    )
    missing = ~np.isin(np.arange(len(classes)), codes)
    if missing.any():
        raise ValueError(
            f"init has no prototype for the classes {format_labels(classes[missing])}."
        )
    return P, codes


def _shares(weights: np.ndarray) -> np.ndarray:
    """Probabilities in float64, none of them zero, as NumPy's choice demands."""
    shares = np.maximum(weights.astype(np.float64), 1e-200)
    return shares / shares.sum()


def worst_covered(X: np.ndarray, alive: np.ndarray, count: int) -> list[int]:
    """Rows of `X`, at most `count`, that are worst covered by the prototypes `alive`.

    Fewer where every sample already lies on a prototype.
    """
    D = _distances(X, alive)
    # The distances come from an expanded square: below this they are rounding.
    zero = 1e3 * epsilon(numpy_dtype(X)) * float(D.max())
    nearest = D.min(axis=1)
    rows: list[int] = []
    while len(rows) < count:
        worst = int(nearest.argmax())
        if nearest[worst] <= zero:
            break
        rows.append(worst)
        nearest = np.minimum(nearest, _distances(X, X[worst : worst + 1])[:, 0])
    return rows


def _distances(X: Any, P: Any) -> np.ndarray:
    """(n, K) squared distances, NumPy's wherever the samples are."""
    return point_distances(X, to_numpy(P), None)


def without_dead(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Revive the dead among the prototypes `P` of the class of `X`, or drop them."""
    wins = np.bincount(nearest_of(X, P), minlength=len(P))
    if wins.all():
        return P
    alive = P[wins > 0]
    added = worst_covered(X, alive, int(np.sum(wins == 0)))
    return xp_of(X).concatenate([alive, X[added]]) if added else alive


def revivals(
    X: np.ndarray,
    codes: np.ndarray,
    P: np.ndarray,
    labels: np.ndarray,
    wins: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return which prototypes to put on which samples, given their `wins`."""
    prototypes: list[int] = []
    samples: list[int] = []
    for c in np.unique(labels[wins == 0]):
        dead = np.flatnonzero((labels == c) & (wins == 0))
        alive = P[(labels == c) & (wins > 0)]
        rows = np.flatnonzero(codes == c)
        if len(alive) and len(rows):
            worst = worst_covered(X[rows], alive, len(dead))
            prototypes.extend(dead[: len(worst)])
            samples.extend(rows[worst])
    return np.array(prototypes, dtype=np.intp), np.array(samples, dtype=np.intp)


@formula
def class_means(
    X: Any, codes: np.ndarray, weights: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return the (n_classes, n_features) means; zero for a class without samples."""
    totals = np.bincount(codes, weights, minlength=n_classes)
    members = csr_array(
        (weights, codes, np.arange(len(codes) + 1)), shape=(len(codes), n_classes)
    )
    return (members.T @ X) / np.where(totals > 0, totals, 1)[:, None]


def residuals(X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the samples minus the mean of their class.

    Where every class consists of equal samples there is no spread within classes, and
    the spread between them has to do.
    """
    means = class_means(X, codes, weights, int(codes.max()) + 1)
    means = beside(X, means, alike=True)
    out = X - means[codes]
    if not bool(out.any()):
        out = X - means.mean(axis=0)
    return out


# Samples that a scale is tried on; fewer than tell what is far away, and how far that
# is, in root mean squares.
TRIED, FEWEST_SAMPLES, OUTLIER_REACH = 1000, 20, 100


def chosen_scale(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    scale: str,
    spread: np.ndarray | None = None,
) -> np.ndarray | None:
    """Return what to divide the features by; None where they stay as they are.

    "auto" takes the within-class spread if the nearest neighbours of up to 1000
    samples, each left out in turn, are then wrong less often than they are without, by
    more than chance. Pixels and other features that share a unit stay as they are.
    """
    if scale == "none":
        return None
    if spread is None:
        spread = within_class_spread(X, codes, weights)
    if scale == "within_class_std":
        return spread
    rows = np.random.RandomState(0).permutation(len(X))[:TRIED]
    if len(rows) < 2:
        return None
    x, y = to_numpy(X[rows]), codes[rows]
    # A sample is not told by its own duplicate.
    rows = np.sort(np.unique(duplicate_groups(x, y), return_index=True)[1])
    x, y = x[rows], y[rows]
    raw, divided = (_neighbours_wrong(z, y) for z in (x, x / spread))
    gain = np.count_nonzero(raw & ~divided) - np.count_nonzero(divided & ~raw)
    return spread if gain > np.sqrt(np.count_nonzero(raw != divided)) else None


def _neighbours_wrong(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    X, _ = _about(X, X.mean(axis=0))
    # A product with itself is made by half; |x - y|^2 falls as x.y - |y|^2 / 2 grows.
    nearness = X @ X.T
    nearness -= squared_norms(X) / 2
    np.fill_diagonal(nearness, -np.inf)
    return codes[nearness.argmax(axis=1)] != codes


def _parts_of_spread(X: Any, codes: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Squared distances of samples to the medians of their classes, in spreads.

    Medians of some: what is far does not move them, and all take long.
    """
    centres = np.zeros((int(codes.max()) + 1, X.shape[1]))
    for c in np.unique(codes):
        rows = np.flatnonzero(codes == c)
        some = to_numpy(X[rows[:: -(-len(rows) // 200)]])
        centres[c] = np.median(some, axis=0)
    # In the unit of the widest.
    share = within.max() / np.maximum(within, 1e-30 * within.max())
    centres, share = beside(X, centres), beside(X, np.where(within > 0, share, 0.0))
    parts = [
        to_numpy((in_dtype(X[s], np.float64) - centres[codes[s]]) ** 2 @ share)
        for s in batched_slices(len(X), rows_in_budget(8 * X.shape[1]))
    ]
    return np.concatenate(parts)


def spreads(
    X: Any, codes: np.ndarray, shares: np.ndarray, means: Any, mean: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weighted mean squares of every feature about the class means and about `mean`.

    Returned with the smallest and largest values (2, n_features), and with the largest
    part of one sample in the mean square about the class means.
    """
    xp, found = xp_of(X), None
    for s in batched_slices(len(X), max(1, BLOCK_NUMBERS // X.shape[1])):
        w = beside(X, shares[s])[:, None]
        inner = in_dtype(X[s] - means[beside(X, codes[s])], np.float64) ** 2 * w
        outer = in_dtype(X[s] - mean, np.float64) ** 2 * w
        sums = inner.sum(0), outer.sum(0)
        ends = xp.min(X[s], axis=0), xp.max(X[s], axis=0), xp.max(inner, axis=0)
        if found is not None:
            sums = found[0] + sums[0], found[1] + sums[1]
            ends = (
                xp.minimum(found[2], ends[0]),
                xp.maximum(found[3], ends[1]),
                xp.maximum(found[4], ends[2]),
            )
        found = (*sums, *ends)
    assert found is not None
    within, total, low, high, most = map(to_numpy, found)
    return within, total, np.stack([low, high]), most


def within_class_spread(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Root mean square deviation of each feature from its class mean, never zero.

    A feature that is constant in every class has a thousandth of its spread between
    them; one that is constant everywhere takes the usual unit of the others.
    Samples a hundred times as far from their class as is usual do not count: broken
    records would set the unit of all others.
    """
    shares = weights / weights.sum()
    means = class_means(X, codes, weights, int(codes.max()) + 1)
    means = beside(X, means, alike=True)
    mean = beside(X, shares, alike=True) @ X
    within, total, ends, most = spreads(X, codes, shares, means, mean)
    if not most.any():
        # Every class consists of equal samples: there is what is between them.
        within = spreads(X, codes, shares, means, means.mean(0))[1]
    # Where no sample has much of the variance of most features, none is that far.
    if (
        len(X) >= FEWEST_SAMPLES
        and np.mean(len(X) * most > FEWEST_SAMPLES * within) > 0.5
    ):
        parts = _parts_of_spread(X, codes, within)
        kept = parts <= OUTLIER_REACH**2 * np.median(parts)
        if 0 < np.count_nonzero(~kept) <= len(X) // 10:
            return within_class_spread(X[kept], codes[kept], weights[kept])
    rounding = 8 * epsilon(numpy_dtype(X)) * np.abs(ends).max(axis=0)
    # Means of equal numbers need not be equal to them: the range tells.
    varying = (total > rounding**2) & (ends[1] - ends[0] > rounding)
    none = within[varying].mean() if within[varying].any() else 1.0
    variance = np.where(varying, np.maximum(within, 1e-6 * total), none)
    spread = np.sqrt(variance).astype(numpy_dtype(X))
    # What spreads too little to be divided by is as good as constant.
    least = SIZES[spread.dtype][0] ** 2
    return np.where(spread > least, spread, spread.dtype.type(1))
