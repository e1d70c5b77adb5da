r"""Margins from distances and from hyperplanes, one signed number per sample.

Write d₊ for the distance of a sample to the nearest model of its own label and d₋ for
the distance to the nearest model of any other label. Both scores are positive exactly
where the nearest-model rule is right:

* relative margin μ = (d₋ − d₊) / (d₋ + d₊) in [−1, 1], without unit; with *squared*
  distances this is the margin of Aiolli and Sperduti's tangent vector quantisation;
* hypothesis margin (d₋ − d₊) / 2, in the unit of the data: how far every model may
  move, at worst, before the answer changes. Its distances are *not* squared.

A hyperplane :math:`f(x) = w \cdot x + b` is one vector :math:`a = [w, b/\rho]` once
every sample is placed at height :math:`\rho` in one more dimension: with the reflected
pattern :math:`\bar y = l\,[x, \rho]` of label :math:`l = \pm 1`,
:math:`\bar y \cdot a = l f(x)`. Dividing by :math:`\|a\|` gives the directional margin,
by :math:`\|w\|` the geometric one, so directional ≤ geometric in absolute value, and
for the best planes :math:`1 \le \gamma/\gamma_d \le \sqrt{1 + R_x^2/\rho^2}` with
:math:`R_x` the longest sample.

Every function returns shape (n_samples,); the smallest is the margin of the set.

The sample margin is the exact distance from a sample to the boundary of its class.
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
F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins, eq. 11.
K. Crammer et al., Margin analysis of the LVQ algorithm, Lemma 1 and section 3.
P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, sections 2.1
and 2.3.
C. Lawson, R. Hanson, Solving least squares problems, chapter 23.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from scipy.spatial.distance import cdist

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._compute.rounding import saturated
from widemargin._core.checks import (
    FloatArray,
    as_floats,
    as_matrix,
    check_number,
    check_same_length,
)
from widemargin._core.decisions import as_labels, class_codes
from widemargin._core.samples import check_orderable


class NearestRightWrong(NamedTuple):
    """Distances to, and columns of, the nearest right and wrong reference."""

    d_plus: FloatArray
    d_minus: FloatArray
    index_plus: NDArray
    index_minus: NDArray


def relative_margin(d_plus: ArrayLike, d_minus: ArrayLike) -> FloatArray:
    r"""Relative margin :math:`\mu = (d_- - d_+) / (d_- + d_+)`.

    Parameters
    ----------
    d_plus : array-like of shape (n_samples,) or float
        Distance, or squared distance, to the nearest model of the right label. The
        squared one gives the margin of [AS02]_ (11).
    d_minus : array-like of shape (n_samples,) or float
        Likewise, to the nearest model of a wrong label.

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        In [−1, 1], positive iff ``d_plus < d_minus``. Two equal distances give 0, also
        if both are 0 or both infinite. One infinite distance (no such model) gives −1
        or 1.

    References
    ----------
    .. [AS02] F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins.

    Examples
    --------
    >>> from widemargin.margins import relative_margin
    >>> relative_margin([1.0, 3.0, 0.0], [3.0, 1.0, 0.0])
    array([ 0.5, -0.5,  0. ])
    """
    d_plus, d_minus = _check_distances(d_plus, d_minus)
    # (large - small) / (large + small), by the larger one: no sum overflows, and the
    # smallest numbers there are keep their order.
    small, large = np.minimum(d_plus, d_minus), np.maximum(d_plus, d_minus)
    known = np.isfinite(large) & (large > 0)
    gap = np.subtract(large, small, out=np.ones_like(large), where=known)
    np.divide(gap, large, out=gap, where=known)
    share = np.divide(small, large, out=np.zeros_like(large), where=known)
    margin = np.where(d_plus < d_minus, 1, -1) * gap / (1 + share)
    return np.where(d_plus == d_minus, 0, margin).astype(d_plus.dtype)[()]


def hypothesis_margin(d_plus: ArrayLike, d_minus: ArrayLike) -> FloatArray:
    r"""Hypothesis margin :math:`\theta = (d_- - d_+) / 2` of nearest-prototype rules.

    The largest distance such that no answer changes while every prototype moves less
    than that; at most :func:`~widemargin.margins.sample_margin` in absolute value.

    Parameters
    ----------
    d_plus : array-like of shape (n_samples,) or float
        Distance, not squared, to the nearest prototype of the right label.
    d_minus : array-like of shape (n_samples,) or float
        Distance, not squared, to the nearest prototype of a wrong label.

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        In the unit of the distances, positive iff ``d_plus < d_minus``; ±inf where one
        distance is infinite, 0 where both are.

    References
    ----------
    .. [1] K. Crammer et al., Margin analysis of the LVQ algorithm, Lemma 1.

    Examples
    --------
    >>> from widemargin.margins import hypothesis_margin
    >>> hypothesis_margin([1.0, 3.0], [3.0, 1.0])
    array([ 1., -1.])
    """
    d_plus, d_minus = _check_distances(d_plus, d_minus)
    differ = d_plus != d_minus
    none = np.zeros(differ.shape, d_plus.dtype)
    difference = np.subtract(d_minus, d_plus, out=none, where=differ)
    half = difference / 2
    # Half of the smallest number there is would be no difference at all.
    return np.where(half == 0, difference, half)[()]


def nearest_right_wrong(
    distances: ArrayLike, reference_labels: ArrayLike, y: ArrayLike
) -> NearestRightWrong:
    """Nearest reference of the right and of a wrong label, for every sample.

    Parameters
    ----------
    distances : array-like of shape (n_samples, n_references)
        Non-negative. An infinite entry takes the reference out for that sample, for
        instance a sample from its own neighbours.
    reference_labels : array-like of shape (n_references,)
        Label of each column.
    y : array-like of shape (n_samples,)
        Label of each row; every label must have a reference.

    Returns
    -------
    nearest : NearestRightWrong
        Named tuple ``(d_plus, d_minus, index_plus, index_minus)`` of arrays of shape
        (n_samples,); of equally near references the first counts. Where there is no
        reference of the kind the distance is inf and the index −1.

    Examples
    --------
    >>> from widemargin.margins import nearest_right_wrong
    >>> nearest = nearest_right_wrong(
    ...     [[1.0, 2.0, 5.0], [4.0, 3.0, 1.0]], ["a", "b", "b"], ["a", "b"])
    >>> nearest.d_plus, nearest.d_minus
    (array([1., 1.]), array([2., 4.]))
    >>> nearest.index_plus, nearest.index_minus
    (array([0, 2]), array([1, 0]))
    """
    matrix = as_matrix("distances", distances, ensure_all_finite=False)
    if not (matrix >= 0).all():
        raise ValueError("distances must be numbers >= 0, without NaN.")
    codes, y_codes = encode_labels("reference_labels", reference_labels, y)
    if matrix.shape != (len(y_codes), len(codes)):
        raise ValueError(
            f"distances must have one row per entry of y and one column per entry of "
            f"reference_labels, shape ({len(y_codes)}, {len(codes)}); "
            f"got {matrix.shape}."
        )
    right = y_codes[:, None] == codes[None, :]
    d_plus, index_plus = _row_minimum(matrix, right)
    d_minus, index_minus = _row_minimum(matrix, ~right)
    return NearestRightWrong(d_plus, d_minus, index_plus, index_minus)


def encode_labels(
    name: str, reference_labels: ArrayLike, y: ArrayLike
) -> tuple[NDArray, NDArray]:
    """Return both label arrays as positions among the labels of the references."""
    references = as_labels(name, reference_labels)
    classes, codes = np.unique(check_orderable(references, name), return_inverse=True)
    owner = f"{name} does not; the labels there"
    return codes, class_codes(y, classes, owner=owner)


def _row_minimum(distances: FloatArray, mask: NDArray) -> tuple[FloatArray, NDArray]:
    masked = np.where(mask, distances, distances.dtype.type(np.inf))
    index = masked.argmin(axis=1)
    minimum = np.take_along_axis(masked, index[:, None], axis=1)[:, 0]
    return minimum, np.where(np.isinf(minimum), -1, index)


def _check_distances(
    d_plus: ArrayLike, d_minus: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    plus, minus = as_floats("d_plus", d_plus), as_floats("d_minus", d_minus)
    for name, distances in (("d_plus", plus), ("d_minus", minus)):
        if (distances < 0).any():
            raise ValueError(f"{name} contains negative values; distances are >= 0.")
    if plus.ndim and minus.ndim and plus.shape != minus.shape:
        raise ValueError(
            f"d_plus and d_minus must have the same shape; got {plus.shape} "
            f"and {minus.shape}."
        )
    dtype = np.result_type(plus, minus)
    return plus.astype(dtype, copy=False), minus.astype(dtype, copy=False)


def directional_margin(
    X: ArrayLike,
    coef: ArrayLike,
    intercept: float,
    y: ArrayLike,
    *,
    intercept_scaling: float = 1.0,
) -> FloatArray:
    r"""Directional margin :math:`l\,f(x) / \sqrt{\|w\|^2 + (b/\rho)^2}` per sample.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Samples.
    coef : array-like of shape (n_features,) or (1, n_features)
        Normal vector w of the hyperplane.
    intercept : float or array-like of shape (1,)
        Offset b of the hyperplane.
    y : array-like of shape (n_samples,)
        Labels −1 and +1.
    intercept_scaling : float, default=1.0
        Value of the constant feature that carries the intercept, > 0. As it grows the
        directional margin approaches the geometric one.

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        Positive iff on the right side; 0 everywhere for ``coef = 0, intercept = 0``.

    Examples
    --------
    >>> from widemargin.margins import directional_margin
    >>> directional_margin([[0.0], [8.0]], [3.0], -12.0, [-1, 1], intercept_scaling=3.0)
    array([2.4, 2.4])
    """
    rho = check_number("intercept_scaling", intercept_scaling, above=0)
    f, norm, b, dtype = _functional_margin(X, coef, intercept, y)
    # Multiplied by a small rho rather than divided by it, nothing overflows.
    unit = min(rho, 1.0)
    length = math.hypot(norm * unit, b * (unit / rho))
    return saturated(f * (unit / length if length else 1.0), dtype)


def geometric_margin(
    X: ArrayLike, coef: ArrayLike, intercept: float, y: ArrayLike
) -> FloatArray:
    r"""Geometric margin :math:`l\,f(x) / \|w\|`: signed distance to the hyperplane.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Samples.
    coef : array-like of shape (n_features,) or (1, n_features)
        Normal vector w of the hyperplane.
    intercept : float or array-like of shape (1,)
        Offset b of the hyperplane.
    y : array-like of shape (n_samples,)
        Labels −1 and +1.

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        Positive iff on the right side. Without a plane (``coef = 0``) no step changes
        the answer: ±inf by the sign of the intercept, 0 if that is 0 too.

    Examples
    --------
    >>> from widemargin.margins import geometric_margin
    >>> geometric_margin([[0.0], [8.0]], [3.0], -12.0, [-1, 1])
    array([4., 4.])
    """
    f, norm, _, dtype = _functional_margin(X, coef, intercept, y)
    if norm == 0:
        return np.where(f == 0, f, np.copysign(np.inf, f)).astype(dtype)
    return saturated(f / norm, dtype)


def _functional_margin(
    X: Any, coef: ArrayLike, intercept: float, y: ArrayLike
) -> tuple[FloatArray, float, float, np.dtype]:
    """Values l f(x) in float64, length of w, b, and the dtype of the samples."""
    X = as_matrix("X", X, accept_sparse=("csr", "csc"))
    w = as_floats("coef", coef)
    w = w[0] if w.ndim == 2 and len(w) == 1 else w
    if w.shape != (X.shape[1],):
        raise ValueError(
            f"coef must be one hyperplane of X's {X.shape[1]} features, shape "
            f"({X.shape[1]},); got shape {np.shape(coef)}."
        )
    b = as_floats("intercept", intercept)
    if b.size != 1:
        raise ValueError(f"intercept must be one number; got shape {b.shape}.")
    if not (np.isfinite(w).all() and np.isfinite(b).all()):
        raise ValueError("coef and intercept must be finite.")
    labels = as_labels("y", y)
    if not np.isin(labels, (-1, 1)).all():
        raise ValueError(
            "y must contain -1 and +1 only; two classes a, b become such labels by "
            "np.where(y == b, 1, -1)."
        )
    check_same_length(X=X, y=labels)
    w, offset = w.astype(np.float64), float(b.reshape(()))
    # A plane has no unit: the largest weight becomes one.
    size = float(np.abs(w).max()) or abs(offset) or 1.0
    w, offset = w / size, offset / size
    if math.isinf(offset):
        raise ValueError("intercept is so large beside coef that no number is as far.")
    f = X @ w + offset
    return f * labels.astype(np.float64), float(np.linalg.norm(w)), offset, X.dtype


def sample_margin(
    X: ArrayLike, prototypes: ArrayLike, prototype_labels: ArrayLike, y: ArrayLike
) -> FloatArray:
    r"""Signed distance of every sample to the decision boundary of its class.

    With one prototype per side this is
    :math:`(d_-^2 - d_+^2) / (2 \|p_+ - p_-\|)`. It is positive where the nearest
    prototype has the right label, and minus the distance to the region of the right
    label elsewhere. In absolute value it is never below the hypothesis margin.

    Cost per sample, with a prototypes of its label and b of the others: a·b inner
    products, as matrix products. Then a Python loop solves one non-negative
    least-squares problem for each destination cell that neither closed form nor lower
    bound settles. At worst these are b problems in a unknowns, or a in b if the sample
    is misclassified. The hypothesis margin costs a + b distances.

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
    centre = P.mean(axis=0)
    span = np.linalg.qr((P - centre).T)[0] if len(P) < P.shape[1] else None
    P = _coordinates(P, centre, span)
    margin = np.empty(len(samples))
    # About four arrays of shape (samples, prototypes) live at once.
    for batch in batched_slices(len(samples), rows_in_budget(4 * 8 * len(P))):
        rows = samples[batch].astype(np.float64)
        Z = _coordinates(rows, centre, span)
        margin[batch] = _sample_margin(Z, P, labels, y_codes[batch])
    # Distances of prototypes may be wide.
    return saturated(margin, samples.dtype)


def _coordinates(
    points: FloatArray, centre: FloatArray, span: FloatArray | None
) -> FloatArray:
    return points - centre if span is None else (points - centre) @ span


def _sample_margin(
    X: FloatArray, P: FloatArray, labels: NDArray, y: NDArray
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
