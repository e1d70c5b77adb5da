"""Compiled conditional means and covariances of factor models, a row at a time.

A row is answered by itself, whatever the others of its batch are. Of a component with
mean mu, factors F (d, q) and precisions 1 / psi, with o the features that are there,

    M = I + F_o^T diag(1 / psi_o) F_o,    z = M^-1 F_o^T diag(1 / psi_o) (x - mu)_o,
    E[x_m] = mu_m + F_m z,    Cov[x_m] = diag(psi_m) + F_m M^-1 F_m^T,

and its share in the row is that of its density of x_o. Shapes: X (n, d), means and
precisions (K, d), factors (K, d, q), logs (K,).
"""

import numpy as np

from widemargin._compute.compiled import njit


@njit(cache=True, nogil=True)
def posterior(x, mean, F, precision, root, z):
    """Write the Cholesky root of M, and z; return the log density but for a constant.

    `root` and `z` are written over.
    """
    d, q = F.shape
    root[:] = 0.0
    z[:] = 0.0
    height = 0.0
    for j in range(d):
        if x[j] != x[j]:
            continue
        gap = x[j] - mean[j]
        height += 0.5 * (np.log(precision[j]) - gap * gap * precision[j])
        for a in range(q):
            pull = F[j, a] * precision[j]
            z[a] += pull * gap
            for b in range(a + 1):
                root[a, b] += pull * F[j, b]
    for a in range(q):
        root[a, a] += 1.0
        for b in range(a + 1):
            value = root[a, b]
            for c in range(b):
                value -= root[a, c] * root[b, c]
            root[a, b] = np.sqrt(value) if a == b else value / root[b, b]
    forward(root, z)
    for a in range(q):
        height += 0.5 * z[a] * z[a] - np.log(root[a, a])
    for a in range(q - 1, -1, -1):
        for b in range(a + 1, q):
            z[a] -= root[b, a] * z[b]
        z[a] /= root[a, a]
    return height


@njit(cache=True, nogil=True)
def forward(root, z):
    """Solve ``root u = z`` in place."""
    for a in range(len(z)):
        for b in range(a):
            z[a] -= root[a, b] * z[b]
        z[a] /= root[a, a]


@njit(cache=True, nogil=True)
def complete(X, logs, means, factors, precisions):
    """Put conditional means, in place, where the rows of X are NaN."""
    n_parts, d, q = factors.shape
    root, z, shares = np.empty((q, q)), np.empty((n_parts, q)), np.empty(n_parts)
    for i in range(len(X)):
        for k in range(n_parts):
            shares[k] = logs[k] + posterior(
                X[i], means[k], factors[k], precisions[k], root, z[k]
            )
        shares[:] = np.exp(shares - shares.max())
        shares /= shares.sum()
        for j in range(d):
            if X[i, j] != X[i, j]:
                value = 0.0
                for k in range(n_parts):
                    if shares[k] > 0.0:
                        own = means[k, j]
                        for a in range(q):
                            own += factors[k, j, a] * z[k, a]
                        value += shares[k] * own
                X[i, j] = value
