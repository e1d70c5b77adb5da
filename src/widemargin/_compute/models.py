"""From inner products to margins and back to weights, a block of samples at a time.

A tangent model j is the affine space C_j + span(T_j); its rows in the stacked matrix
are [C_j; T_j1; ..; T_jm]. That matrix times a block of samples gives Z. `one_sided`
turns every column of Z into the squared distances z to all models, picks the nearest
right and the nearest wrong one, and makes what the way back needs of these two: the
coefficients [1, alpha] and the pulls c [1, alpha], where

    c = 4 gamma z_minus / (z_plus + z_minus)^2       (right model),
    c = -4 gamma z_plus / (z_plus + z_minus)^2       (wrong model).

Between passes models move little: the angle of a sample above the tangents of a model
changes by at most the angle these turn by, and its distance by how far the centroid
goes. Models that were far enough cannot have become the nearest, and `_some` leaves
them out; samples are gathered by the models that they are still compared with.

Then the sums of pull x^T over the samples of each model are the whole gradient but for
the small corrections in `moments`, the sums of pull [1, alpha]; `_add_pulls` forms
both, by products.
Shapes: Z (K (1+m), n), pulls (2, n, 1+m), moments (K, 1+m, 1+m).
"""

import numpy as np

from widemargin._compute.compiled import REORDER, fetch, njit

# Neighbours that pull at the same model, from which on they are not worth gathering.
_RUN = 64


@njit(fastmath=REORDER)
def _squared_distances(Z, norms, offsets, squared):
    """Write the (K, n) squared distances; along the samples, loops vectorise."""
    n_models, width = offsets.shape
    two, zero = Z.dtype.type(2), Z.dtype.type(0)
    for j in range(n_models):
        out, centroid = squared[j], Z[j * width]
        for i in range(len(norms)):
            out[i] = norms[i] - two * centroid[i] + offsets[j, 0]
        for k in range(1, width):
            row, offset = Z[j * width + k], offsets[j, k]
            for i in range(len(norms)):
                alpha = row[i] - offset
                out[i] -= alpha * alpha
        for i in range(len(norms)):
            out[i] = max(out[i], zero)


@njit(inner=True, fastmath=REORDER)
def _remember(Z, norms, offsets, squared, low, reach):
    """Write distances, and how far samples are from centroids, to begin bounds with."""
    n_models, width = offsets.shape
    two, zero = Z.dtype.type(2), Z.dtype.type(0)
    for j in range(n_models):
        centroid, offset = Z[j * width], offsets[j, 0]
        for i in range(len(norms)):
            low[j, i] = np.sqrt(squared[j, i])
            reach[j, i] = np.sqrt(max(norms[i] - two * centroid[i] + offset, zero))


@njit(inner=True, fastmath=REORDER)
def _loosen(low, reach, cosine, sine, shift):
    """Let a model turn and shift: distances that were `low` are no lower after it.

    A sample `reach` from the centroid stands above the tangents at an angle, whose sine
    is low / reach. More than rounding is taken off.
    """
    zero, less = low.dtype.type(0), low.dtype.type(1 - 2.0**-20)
    for i in range(low.shape[0]):
        along = np.sqrt(max(reach[i] * reach[i] - low[i] * low[i], zero))
        low[i] = max(less * (cosine * low[i] - sine * along - shift), zero)
        reach[i] = (reach[i] + shift) / less


@njit(inner=True, fastmath=REORDER)
def _explained(products, offset):
    """Return the squared length of the part of a sample along a model's tangents."""
    total = products.dtype.type(0)
    for k in range(1, products.shape[0]):
        alpha = products[k] - offset[k]
        total += alpha * alpha
    return total


@njit(inner=True)
def _some(X, models, norms, right, nearest, bounds, gathered, pairs, squared, slots):
    """Write squared distances to the models that may be nearest, infinity for others.

    Those that were `nearest` come first; others need not where their distance cannot be
    below these. Products go to `pairs`, a row for each pair, at `slots` (-1: none);
    return how many there are.
    """
    (rows, offsets), (_, _, low, reach) = models, bounds
    n_models, width = offsets.shape
    n, d = X.shape
    zero = X.dtype.type(0)
    best, listed = np.empty((2, n), X.dtype), np.empty(n, np.intp)
    for i in range(n):
        best[0, i] = best[1, i] = np.inf
    filled = 0
    for again in range(2):
        for j in range(n_models):
            count = 0
            for i in range(n):
                side = 0 if right[i, j] else 1
                if again == 0:
                    squared[j, i], slots[j, i] = np.inf, -1
                    wanted = nearest[i, side] == j
                else:
                    # Written so that NaN is wanted.
                    far = low[j, i] * low[j, i] > best[side, i]
                    wanted = slots[j, i] < 0 and not far
                if wanted:
                    listed[count] = i
                    count += 1
            if count == 0:
                continue
            for a in range(count):
                row, sample = gathered[a], X[listed[a]]
                for f in range(d):
                    row[f] = sample[f]
            products = pairs[filled : filled + count]
            np.dot(gathered[:count], rows[j * width : (j + 1) * width].T, products)
            for a in range(count):
                i = listed[a]
                above = norms[i] - 2 * products[a, 0] + offsets[j, 0]
                left = max(above - _explained(products[a], offsets[j]), zero)
                squared[j, i], slots[j, i] = left, filled + a
                low[j, i], reach[j, i] = np.sqrt(left), np.sqrt(max(above, zero))
                side = 0 if right[i, j] else 1
                best[side, i] = min(best[side, i], left)
            filled += count
    return filled


@njit(inner=True)
def _slopes(z_plus, z_minus, gamma, tiny):
    """Return c of the nearest right and of the nearest wrong model."""
    total = z_plus + z_minus
    if not total > tiny or np.isinf(total):
        return 0.0, 0.0
    scale = 4.0 * gamma / total
    return scale * (z_minus / total), -scale * (z_plus / total)


@njit(inner=True)
def _margin(z_plus, z_minus):
    """Relative margin; an infinite distance means that there is no such model."""
    if z_plus == z_minus:
        return 0.0
    if np.isinf(z_plus) or np.isinf(z_minus):
        return 1.0 if z_plus < z_minus else -1.0
    return (z_minus - z_plus) / (z_minus + z_plus)


@njit()
def one_sided(
    X,
    norms,
    right,
    gamma,
    models,
    tiny,
    nearest,
    margins,
    totals,
    bounds,
    size,
    scratch,
):
    """Fill nearest (n, 2) and margins (n,), and the totals.

    `right` is (n, K), true where the model has the sample's class. `models` are the
    stacked models (K (1+m), d), and their products with the own centroid (K, 1+m).
    `totals` are sums over samples: of pulls x (K, 1+m, d), moments and sizes (K, 1+m).
    At most `size` samples at a time need what is written over, `scratch`, see
    `margin_ascent`.

    `bounds` are whether any are known, how models moved since (K, 3), cosine and sine
    of their turn and the shift of the centroid, and `low` and `reach` (K, n), which are
    written too; (K, 0) where they do not pay. Pairs that they exclude are left out;
    `nearest` is what was so before the models moved. Return how many pairs were
    compared.
    """
    n = X.shape[0]
    knows, moves, low, reach = bounds
    n_models, tracks = low.shape[0], low.shape[1] > 0
    if knows:
        for j in range(n_models):
            _loosen(low[j], reach[j], moves[j, 0], moves[j, 1], moves[j, 2])
    compared = 0
    sums, moments, sizes = totals
    for j in range(n_models):
        for k in range(sizes.shape[1]):
            sizes[j, k] = 0.0
            for i in range(sums.shape[2]):
                sums[j, k, i] = 0.0
            for i in range(moments.shape[2]):
                moments[j, k, i] = 0.0
    count = -(-n // size)
    for b in range(count):
        s = slice(n * b // count, n * (b + 1) // count)
        ahead = X[s.stop : n * (b + 2) // count] if b + 1 < count else X[n:]
        known = s if tracks else slice(0, 0)
        compared += _block(
            X[s], norms[s], right[s], gamma[s], models, tiny, nearest[s], margins[s],
            totals, (knows, moves, low[:, known], reach[:, known]), scratch, ahead,
        )  # fmt: skip
    return compared


@njit(inner=True)
def _part(scratch, start, rows, columns):
    """Take the next rows and columns of what is written over, and where it ends."""
    stop = start + rows * columns
    return scratch[start:stop].reshape(rows, columns), stop


@njit(inner=True)
def _block(
    X,
    norms,
    right,
    gamma,
    models,
    tiny,
    nearest,
    margins,
    totals,
    bounds,
    scratch,
    ahead,
):
    """Do so for one block, `ahead` being the next, and add to what is returned."""
    (rows, offsets), (sums, moments, sizes) = models, totals
    knows, _, low, reach = bounds
    n_models, width = offsets.shape
    n, d = X.shape
    Z, at = _part(scratch, np.int64(0), n_models * width, n)
    squared, at = _part(scratch, at, n_models, n)
    flat_pulls, at = _part(scratch, at, 2 * n, width)
    flat_alphas, at = _part(scratch, at, 2 * n, width)
    gathered, at = _part(scratch, at, 2 * n, d + width)
    weighted, at = _part(scratch, at, 2 * n, width)
    pulls = flat_pulls.reshape(2, n, width)
    alphas = flat_alphas.reshape(2, n, width)
    pairs = Z.reshape(n * n_models, width)
    slots = np.empty((n_models, n), np.intp)
    compared = n * n_models
    if not knows:
        np.dot(rows, X.T, Z)
        _squared_distances(Z, norms, offsets, squared)
        if low.shape[1]:
            _remember(Z, norms, offsets, squared, low, reach)
    else:
        compared = _some(
            X, models, norms, right, nearest, bounds,
            gathered.reshape(-1)[: n * d].reshape(n, d), pairs, squared, slots,
        )  # fmt: skip
    starts = np.empty(n_models + 1, np.intp)
    for j in range(n_models + 1):
        starts[j] = 0
    for i in range(n):
        # The next block is on its way meanwhile.
        if i < ahead.shape[0]:
            fetch(ahead, i)
        z_plus = z_minus = np.inf
        plus = minus = -1
        for j in range(n_models):
            if right[i, j]:
                if squared[j, i] < z_plus:
                    z_plus, plus = squared[j, i], j
            elif squared[j, i] < z_minus:
                z_minus, minus = squared[j, i], j
        nearest[i, 0], nearest[i, 1] = plus, minus
        margins[i] = _margin(z_plus, z_minus)
        slopes = _slopes(z_plus, z_minus, gamma[i], tiny)
        for side in range(2):
            j, c = nearest[i, side], slopes[side]
            if j < 0:
                continue
            starts[j + 1] += 1
            alpha = alphas[side, i]
            alpha[0] = 1
            for k in range(1, width):
                product = pairs[slots[j, i], k] if knows else Z[j * width + k, i]
                alpha[k] = product - offsets[j, k]
            for k in range(width):
                pulls[side, i, k] = c * alpha[k]
                sizes[j, k] += abs(c) * alpha[k] * alpha[k]
    for j in range(n_models):
        starts[j + 1] += starts[j]
    _add_pulls(X, nearest, pulls, alphas, starts, gathered, weighted, sums, moments)
    return compared


@njit(inner=True)
def _add(total, part, first):
    """Add columns of `part`, from the `first` on.

    One by one: of arrays numba compiles what it would say of their shapes too, which
    takes three seconds.
    """
    for i in range(total.shape[0]):
        for k in range(total.shape[1]):
            total[i, k] += part[i, first + k]


@njit(inner=True)
def _add_pulls(X, nearest, pulls, alphas, starts, gathered, weighted, sums, moments):
    """Add pull x^T (K, 1+m, d) and pull [1, alpha] (K, 1+m, 1+m) for each model."""
    (n, d), width, n_models = X.shape, pulls.shape[2], starts.shape[0] - 1
    own, inner = np.empty((width, d), X.dtype), np.empty((width, width), X.dtype)
    both = np.empty((width, d + width), X.dtype)
    # Gathered once, the samples of a model lie side by side: one product for each.
    # Those of a class that has one model do so as they are.
    at = np.empty(n_models, np.intp)
    for j in range(n_models):
        at[j] = starts[j]
    none = np.int64(0)  # no literal: it would be compiled for it, and again for numbers
    for side in range(2):
        first = 0
        while first < n:
            j = nearest[first, side]
            last = first + 1
            while last < n and nearest[last, side] == j:
                last += 1
            if j >= 0 and last - first >= _RUN:
                pulled = pulls[side, first:last].T
                np.dot(pulled, X[first:last], own)
                np.dot(pulled, alphas[side, first:last], inner)
                _add(sums[j], own, none)
                _add(moments[j], inner, none)
            elif j >= 0:
                for i in range(first, last):
                    row = gathered[at[j]]
                    for k in range(d):
                        row[k] = X[i, k]
                    for k in range(width):
                        row[d + k] = alphas[side, i, k]
                        weighted[at[j], k] = pulls[side, i, k]
                    at[j] += 1
            first = last
    for j in range(n_models):
        if starts[j] < at[j]:
            part = slice(starts[j], at[j])
            np.dot(weighted[part].T, gathered[part], both)
            _add(sums[j], both, none)
            _add(moments[j], both, d)
