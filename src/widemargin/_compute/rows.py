"""Rows of a dense or CSR matrix, seen the same way by every sequential learner.

A matrix travels as four plain arrays ``(dense, data, indices, indptr)``. Either `dense`
is filled and the other three are empty, or the reverse; the branch is taken once per
row and costs nothing next to the row itself.

Rows are shifted by a centre c and raised to the height rho without being copied: with
``v = sum_k m_k x_k`` and ``s = sum_k m_k`` the weight of the shifted patterns
``[x_k - c, rho]`` is ``w = v - s c`` and ``w0 = rho s``, and

    [x - c, rho] . [w, w0] = v.x - s c.x - v.c + s (c.c + rho^2),

so that one number per row (``c.x``) and two running ones (``s``, ``v.c``) are enough.
Reference: Tsampouka and Shawe-Taylor, Perceptron-like large margin classifiers, 2005.

The weighted Gram matrix of CSR rows, ``sum_k h_k [x_k, 1] [x_k, 1]^T``, is the
curvature of the squared hinge over the patterns inside the margin. Rows have few
entries, so that scattering their outer products beats both a dense product and a
general sparse one. Shapes: CSR (n, d); weight (n,); result (d + 1, d + 1), symmetric.
"""

import numpy as np

from widemargin._compute.compiled import njit


@njit(cache=True, nogil=True, fastmath=True)
def _dense_dot(row, vector):
    total = 0.0
    for j in range(row.shape[0]):
        total += row[j] * vector[j]
    return total


# Reordering sums pays only for contiguous rows: on sparse ones it makes the compiler
# gather and scatter, which is half as fast as reading one entry after another.
@njit(cache=True, nogil=True)
def row_dot(dense, data, indices, indptr, k, vector):
    """Inner product of row `k` with `vector`."""
    if indptr.shape[0] == 0:
        return _dense_dot(dense[k], vector)
    total = 0.0
    for j in range(indptr[k], indptr[k + 1]):
        total += data[j] * vector[indices[j]]
    return total


@njit(cache=True, nogil=True)
def row_add(dense, data, indices, indptr, k, factor, vector):
    """Add `factor` times row `k` to `vector`, in place."""
    if indptr.shape[0] == 0:
        row = dense[k]
        for j in range(row.shape[0]):
            vector[j] += factor * row[j]
    else:
        for j in range(indptr[k], indptr[k + 1]):
            vector[indices[j]] += factor * data[j]


@njit(cache=True, nogil=True)
def next_random(state):
    """Next 64 pseudo-random bits of the one-element `state` (xorshift64*)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(2685821657736338717)


@njit(cache=True, nogil=True)
def shuffle(order, n, state):
    """Permute the first `n` entries of `order` at random, in place."""
    for i in range(n - 1, 0, -1):
        j = np.int64((next_random(state) >> np.uint64(11)) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]


@njit(cache=True, nogil=True)
def weighted_gram(data, indices, indptr, weight, n_features):
    """Sum of `weight`-ed outer products of the rows, each extended by a one."""
    gram = np.zeros((n_features + 1, n_features + 1))
    for k in range(weight.shape[0]):
        h = weight[k]
        if h == 0.0:
            continue
        gram[n_features, n_features] += h
        for i in range(indptr[k], indptr[k + 1]):
            value = h * data[i]
            row = gram[indices[i]]
            row[n_features] += value
            for j in range(indptr[k], indptr[k + 1]):
                row[indices[j]] += value * data[j]
    gram[n_features, :n_features] = gram[:n_features, n_features]
    return gram
