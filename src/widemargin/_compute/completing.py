"""Conditional means of missing values, row by row: the kernels of `missing`."""

import numpy as np

from widemargin._compute.compiled import njit


@njit(inner=True)
def factorise(x, F, precision, root):
    """Write the Cholesky root of M; return the log of its part in the density."""
    d, q = F.shape
    root[:] = 0.0
    height = 0.0
    for j in range(d):
        if x[j] != x[j]:
            continue
        height += 0.5 * np.log(precision[j])
        for a in range(q):
            pull = F[j, a] * precision[j]
            for b in range(a + 1):
                root[a, b] += pull * F[j, b]
    for a in range(q):
        root[a, a] += 1.0
        for b in range(a + 1):
            value = root[a, b]
            for c in range(b):
                value -= root[a, c] * root[b, c]
            root[a, b] = np.sqrt(value) if a == b else value / root[b, b]
        height -= np.log(root[a, a])
    return height


@njit(inner=True)
def row_posterior(x, mean, F, precision, root, z):
    """Write z; return what gaps to the mean add to the log density."""
    d, q = F.shape
    z[:] = 0.0
    height = 0.0
    for j in range(d):
        if x[j] != x[j]:
            continue
        gap = x[j] - mean[j]
        height -= 0.5 * gap * gap * precision[j]
        for a in range(q):
            z[a] += F[j, a] * precision[j] * gap
    for a in range(q):
        for b in range(a):
            z[a] -= root[a, b] * z[b]
        z[a] /= root[a, a]
        height += 0.5 * z[a] * z[a]
    for a in range(q - 1, -1, -1):
        for b in range(a + 1, q):
            z[a] -= root[b, a] * z[b]
        z[a] /= root[a, a]
    return height


@njit()
def complete(X, logs, owners, means, factors, precisions):
    """Put conditional means, in place, where the rows of X are NaN."""
    n_parts, d = means.shape
    n_classes, _, q = factors.shape
    roots, heights = np.empty((n_classes, q, q)), np.empty(n_classes)
    z, shares = np.empty((n_parts, q)), np.empty(n_parts)
    for i in range(len(X)):
        x = X[i]
        for c in range(n_classes):
            heights[c] = factorise(x, factors[c], precisions[c], roots[c])
        for k in range(n_parts):
            c = owners[k]
            gaps = row_posterior(x, means[k], factors[c], precisions[c], roots[c], z[k])
            shares[k] = logs[k] + heights[c] + gaps
        # One by one: of arrays numba compiles what it would say of their shapes too.
        largest, total = shares.max(), 0.0
        for k in range(n_parts):
            shares[k] = np.exp(shares[k] - largest)
            total += shares[k]
        for k in range(n_parts):
            shares[k] /= total
        for j in range(d):
            if x[j] != x[j]:
                value = 0.0
                for k in range(n_parts):
                    if shares[k] > 0.0:
                        own = means[k, j]
                        for a in range(q):
                            own += factors[owners[k], j, a] * z[k, a]
                        value += shares[k] * own
                x[j] = value
