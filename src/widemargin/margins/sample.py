r"""Sample margin: the exact distance from a sample to the boundary of its class.

Prototypes cut space into Voronoi cells. A sample of label l that is classified rightly
has to travel to the nearest cell of another label; one that is classified wrongly, to
the nearest cell of its own. Call the prototypes of the destination q and the others p.
The union of the cells of all q is also the union over q of the polyhedra

.. math:: C_q = \{z : \|z - q\| \le \|z - p\| \text{ for all } p\}

in which only the p, never the other q, are constraints: fewer half-spaces, same union.
The distance to :math:`C_q` is at least its distance to the worst half-space,
:math:`\max_p (\|x - q\|^2 - \|x - p\|^2) / (2 \|q - p\|)`, and equal to it if the foot
of that perpendicular lies in :math:`C_q`; otherwise it is a least-distance problem,
solved through its dual by non-negative least squares.

Only the directions the prototypes span matter, so everything runs in at most
min(n_features, n_prototypes) dimensions.

References
----------
K. Crammer et al., Margin analysis of the LVQ algorithm, section 3.
C. Lawson, R. Hanson, Solving least squares problems, chapter 23.
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.spatial.distance import cdist

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._core.checks import FloatArray, as_matrix, check_same_length
from widemargin.margins.scores import encode_labels

__all__ = ["sample_margin"]


def sample_margin(
    X: npt.ArrayLike,
    prototypes: npt.ArrayLike,
    prototype_labels: npt.ArrayLike,
    y: npt.ArrayLike,
) -> FloatArray:
    r"""Signed distance of every sample to the decision boundary of its class.

    With one prototype per side this is
    :math:`(d_-^2 - d_+^2) / (2 \|p_+ - p_-\|)`. It is positive where the nearest
    prototype has the right label, and minus the distance to the region of the right
    label elsewhere. In absolute value it is never below the hypothesis margin.

    Cost per sample, with a prototypes of its label and b of the others: a·b inner
    products, as matrix products; then, in a Python loop, one non-negative
    least-squares problem for each destination cell that the closed form does not
    settle and the lower bound does not rule out. At worst these are b problems in a
    unknowns, or a in b if the sample is misclassified. The hypothesis margin costs
    a + b distances.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    prototypes : array-like of shape (n_prototypes, n_features)
        Prototypes, of two labels at least.
    prototype_labels : array-like of shape (n_prototypes,)
        Label of each prototype.
    y : array-like of shape (n_samples,)
        Label of each sample; every label must have a prototype.

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        One signed distance per sample, 0 on the boundary.

    Examples
    --------
    >>> from widemargin.margins import sample_margin
    >>> prototypes, labels = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], ["a", "b", "b"]
    >>> sample_margin([[1.0, 0.5], [5.0, 6.0]], prototypes, labels, ["a", "a"])
    array([ 1., -5.])
    """
    samples = as_matrix("X", X)
    P = as_matrix("prototypes", prototypes, dtype=np.float64)
    if samples.shape[1] != P.shape[1]:
        raise ValueError(
            f"X has {samples.shape[1]} features but prototypes have {P.shape[1]}; "
            "they must agree."
        )
    labels, y_codes = encode_labels("prototype_labels", prototype_labels, y)
    check_same_length(prototypes=P, prototype_labels=labels)
    check_same_length(X=samples, y=y_codes)
    if labels.max() == 0:
        raise ValueError(
            "prototype_labels holds one label only, so there is no boundary; "
            "prototypes of two labels at least are needed."
        )
    # A power of two, so exact: no square overflows or vanishes.
    largest = max(np.abs(P).max(), float(np.abs(samples).max()))
    unit = np.ldexp(1.0, min(int(np.frexp(largest)[1]), 1022))
    P = P / unit
    centre = P.mean(axis=0)
    span = np.linalg.qr((P - centre).T)[0] if len(P) < P.shape[1] else None
    P = _coordinates(P, centre, span)
    margin = np.empty(len(samples))
    # About four arrays of shape (samples, prototypes) live at once.
    for batch in batched_slices(len(samples), rows_in_budget(4 * 8 * len(P))):
        rows = samples[batch].astype(np.float64) / unit
        Z = _coordinates(rows, centre, span)
        margin[batch] = _sample_margin(Z, P, labels, y_codes[batch])
    # Beyond the dtype of X, its largest number: distances of prototypes are wide.
    most = float(np.finfo(samples.dtype).max)
    with np.errstate(over="ignore"):
        return np.clip(margin * unit, -most, most).astype(samples.dtype)


def _coordinates(
    points: FloatArray, centre: FloatArray, span: FloatArray | None
) -> FloatArray:
    return points - centre if span is None else (points - centre) @ span


def _sample_margin(
    X: FloatArray,
    P: FloatArray,
    labels: npt.NDArray[np.intp],
    y: npt.NDArray[np.intp],
) -> FloatArray:
    distances = cdist(X, P)
    margin = np.empty(len(X))
    for label in np.unique(y):
        own = labels == label
        rows = np.flatnonzero(y == label)
        right = distances[rows][:, own].min(1) < distances[rows][:, ~own].min(1)
        for mine, target, sign in ((rows[right], ~own, 1), (rows[~right], own, -1)):
            if len(mine):
                margin[mine] = sign * _distance_to_cells(X[mine], P[target], P[~target])
    return margin + 0.0


def _distance_to_cells(
    X: FloatArray, targets: FloatArray, others: FloatArray
) -> FloatArray:
    """Distance from each x to the points nearer to a target than to all others."""
    shape = (len(X), len(targets))
    lower, settled = np.empty(shape), np.empty(shape, dtype=bool)
    for j, q in enumerate(targets):
        normals, offsets = _half_spaces(q, others)
        violation = offsets - X @ normals.T
        worst = violation.argmax(axis=1)
        depth = np.maximum(violation.max(axis=1), 0)
        after = violation - depth[:, None] * (normals @ normals.T)[worst]
        tolerance = 1e-13 * (np.abs(offsets).max() + np.linalg.norm(X, axis=1))
        lower[:, j] = depth
        settled[:, j] = (after <= tolerance[:, None]).all(axis=1)
    distance = np.where(settled, lower, np.inf).min(axis=1)
    open_pairs = ~settled & (lower < distance[:, None])
    for i in np.flatnonzero(open_pairs.any(axis=1)):
        candidates = np.flatnonzero(open_pairs[i])
        for j in candidates[np.argsort(lower[i, candidates])]:
            if lower[i, j] >= distance[i]:
                break
            normals, offsets = _half_spaces(targets[j], others)
            violation = offsets - normals @ X[i]
            distance[i] = min(distance[i], _least_distance(normals, violation))
    return distance


def _half_spaces(q: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return unit n and offsets o with ‖z − q‖ ≤ ‖z − p‖ iff n·z ≥ o, for every p."""
    normals = q - others
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    # A prototype that coincides with q excludes nothing: 0·z >= 0.
    normals = normals / np.where(length > 0, length, 1)
    return normals, np.einsum("ij,ij->i", normals, (q + others) / 2)


def _least_distance(normals: FloatArray, violation: FloatArray) -> float:
    """Length of the shortest v with normals @ v >= violation."""
    # Lawson and Hanson's LDP: for E = [normalsᵀ; violationᵀ] the residual of
    # min ‖E u − e_last‖, u >= 0, is parallel to [v, −1], so v = normalsᵀ u / (1 − s)
    # with s = violation·u. Optimality gives ‖normalsᵀ u‖² = s (1 − s), hence the
    # quotient below, which does not cancel. The scale makes both parts of order one.
    scale = violation.max()
    E = np.vstack([normals.T, violation / scale])
    last = np.zeros(len(E))
    last[-1] = 1
    multipliers, _ = nnls(E, last, maxiter=30 * E.shape[1])
    s = E[-1] @ multipliers
    return float(scale * s / np.linalg.norm(normals.T @ multipliers))
