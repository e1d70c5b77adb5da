"""Weighted Gram matrix of CSR columns, ``sum_k h_k [x_k, 1] [x_k, 1]^T``.

The curvature of the squared hinge over the patterns inside the margin. Rows have few
entries, so that scattering their outer products beats both a dense product and a
general sparse one. Shapes: CSR (n, d); weight (n,); result (d + 1, d + 1), symmetric.
"""

import numpy as np

from widemargin._compute.compiled import njit


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
