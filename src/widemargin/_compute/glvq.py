"""One epoch of GLVQ, with or without a matrix: batches, pairs, gradients and Adam.

Which prototype of a class is nearest is told by products in float32, in units of the
largest sample. A score ``|p|^2 - 2 x.p`` is known up to

    e = err (|x|^2 + max |p|^2) + tiny,    err = eps (16 + sqrt(d)),

and where several lie within 2 e of the best they are compared by their differences in
float64. So are, always, the two distances that the loss is made of. With c the
derivatives of the loss by them and Omega the matrix, the gradients of a batch are

    dP_j = -2 sum_i c_ij Omega^T Omega (x_i - p_j),
    dOmega = 2 sum_ij c_ij Omega (x_i - p_j) (x_i - p_j)^T.

Shapes: X (n, d), P (K, d), Omega (r, d). Arrays of parameters, their moments and `wins`
change in place.
"""

from typing import NamedTuple

import numpy as np

from widemargin._compute.compiled import REORDER, fetch, least_of, njit, up_to
from widemargin._compute.engines import compiled_loss
from widemargin._compute.lvq import adam_in_place, loss_and_slope
from widemargin._compute.rounding import epsilon, product_error

# Below this a square may vanish in float32.
TINY = 1e-30
EPS = epsilon(np.float32)


class Columns(NamedTuple):
    """Prototypes by class: those of c are ``order[bounds[c]:bounds[c + 1]]``."""

    order: np.ndarray
    bounds: np.ndarray


class Batches(NamedTuple):
    """Rows of every batch, and its rate."""

    starts: np.ndarray
    stops: np.ndarray
    rates: np.ndarray


class Adam(NamedTuple):
    """Moments of a parameter, flat; `t` steps were made."""

    m: np.ndarray
    v: np.ndarray
    t: int
    least: float


class Loss(NamedTuple):
    """A named loss."""

    kind: int
    beta: float


class Samples(NamedTuple):
    """Samples; `offsets` are added to their squared distances, unless they are none.

    `search` are the same in float32, times `unit`; there may be none of them.
    """

    X: np.ndarray
    norms: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    search: np.ndarray
    unit: float


@njit(inner=True)
def _error(d):
    """Error of a score in float32, per unit of the squares it is made of."""
    return EPS * (16.0 + np.sqrt(d))


@njit(inner=True, fastmath=REORDER)
def gap(x, p):
    """Squared distance of two vectors, in float64."""
    total = 0.0
    for f in range(x.shape[0]):
        delta = np.float64(x[f]) - np.float64(p[f])
        total += delta * delta
    return total


@njit(inner=True, fastmath=REORDER)
def _pack(x, unit, factor, packed):
    """Write ``factor x`` in float32, x in units of 1 / `unit`; return |x|^2."""
    square = 0.0
    for f in range(x.shape[0]):
        value = np.float64(x[f]) * unit
        packed[f] = factor * value
        square += value * value
    return square


@njit()
def _prepared(P, order, unit, packed, norms):
    """Pack ``-2 p`` and ``|p|^2`` for the search; return the largest square."""
    largest = 0.0
    for j in range(P.shape[0]):
        square = _pack(P[order[j]], unit, -2.0, packed[j])
        norms[j] = square
        largest = max(largest, square)
    return largest


@njit(inner=True, fastmath=REORDER)
def _add(scores, norms):
    for j in range(scores.shape[0]):
        scores[j] += norms[j]


@njit(inner=True)
def _settle(scores, start, stop, limit, x, P, order):
    """Nearest by difference among the columns with scores up to `limit`."""
    best, at = np.inf, P.shape[0]
    for j in range(start, stop):
        if scores[j] <= limit:
            distance = gap(x, P[order[j]])
            if distance < best or (distance == best and order[j] < at):
                best, at = distance, order[j]
    return (at if at < P.shape[0] else -1), best


@njit(inner=True)
def _nearest(scores, start, stop, error, x, P, order):
    """Prototype and squared distance of the nearest in some columns; -1 for none.

    Loops without branches, which are cheaper than guesses of where the nearest is.
    """
    limit = np.float64(least_of(scores, start, stop)) + 2.0 * error
    if not limit < np.inf:
        return -1, np.inf
    # Rounded up.
    limit = np.float32(limit + EPS * abs(limit))
    count, column = up_to(scores, start, stop, limit)
    if count == 1:
        return order[column], gap(x, P[order[column]])
    return _settle(scores, start, stop, limit, x, P, order)


@njit(inner=True)
def settled_pair(row, norms, code, error, x, P, columns):
    """Nearest of the own class, nearest of the others, and their squared distances.

    The row is written over.
    """
    order = columns.order
    start, stop = columns.bounds[code], columns.bounds[code + 1]
    _add(row, norms)
    plus, d_plus = _nearest(row, start, stop, error, x, P, order)
    for j in range(start, stop):
        row[j] = np.inf
    minus, d_minus = _nearest(row, np.int64(0), row.shape[0], error, x, P, order)
    return plus, minus, d_plus, d_minus


@njit(inner=True)
def _slopes(plus, minus, d_plus, d_minus, rounding, weight, loss):
    """Weighted loss of a relative margin, and its derivatives by both distances."""
    kind, beta = loss
    if plus < 0 or minus < 0:
        margin = 0.0
        if plus != minus:
            margin = 1.0 if plus >= 0 else -1.0
        return weight * loss_and_slope(kind, beta, margin)[0], 0.0, 0.0
    total = d_plus + d_minus
    if not total > rounding:
        return weight * loss_and_slope(kind, beta, 0.0)[0], 0.0, 0.0
    value, slope = loss_and_slope(kind, beta, (d_minus - d_plus) / total)
    scale = 2.0 * weight * slope / total
    return weight * value, -scale * (d_minus / total), scale * (d_plus / total)


@njit()
def glvq_epoch(P, samples, columns, batches, spread, adam, loss, wins, scratch):
    """Pass over all batches; return the summed loss.

    `scratch` is the prototypes packed for the search, their norms and their gradient,
    and products of the largest batch: made here, every kind of array would compile a
    function of its own.
    """
    X, unit, (starts, stops, rates) = samples.X, samples.unit, batches
    K, d = P.shape
    packed, p_norms, gradient, products = scratch
    err = _error(d)
    total = 0.0
    for b in range(starts.shape[0]):
        largest = _prepared(P, columns.order, unit, packed, p_norms)
        G = products[: stops[b] - starts[b]]
        np.dot(samples.search[starts[b] : stops[b]], packed.T, G)
        for j in range(K):
            for f in range(d):
                gradient[j, f] = 0
        for row in range(G.shape[0]):
            i = starts[b] + row
            x = X[i]
            # What comes next is on its way meanwhile: a sample, and the next batch.
            if i + 1 < stops[b]:
                fetch(X, i + 1)
            if b + 1 < starts.shape[0] and starts[b + 1] + row < stops[b + 1]:
                fetch(samples.search, starts[b + 1] + row)
            error = err * (samples.norms[i] * unit * unit + largest) + TINY
            plus, minus, d_plus, d_minus = settled_pair(
                G[row], p_norms, samples.codes[i], error, x, P, columns
            )
            offset = samples.offsets[i] if samples.offsets.shape[0] else 0.0
            d_plus, d_minus, weight = (
                d_plus + offset,
                d_minus + offset,
                samples.weights[i],
            )
            value, c_plus, c_minus = _slopes(
                plus, minus, d_plus, d_minus, 0.0, weight, loss
            )
            total += value
            wins[plus if plus >= 0 else max(minus, 0)] += 1
            for side in range(2):
                j = minus if side else plus
                c = P.dtype.type(-2.0 * (c_minus if side else c_plus))
                if c != 0:
                    for f in range(d):
                        gradient[j, f] += c * (x[f] - P[j, f])
        flat = gradient.ravel()
        adam_in_place(adam.m, adam.v, flat, 0.9, 0.999, adam.t + b + 1, adam.least)
        rate = P.dtype.type(rates[b])
        for j in range(K):
            for f in range(d):
                P[j, f] -= rate * spread[f] * gradient[j, f]
    return total


@njit()
def gmlvq_epoch(
    P, omega, samples, columns, batches, ratio, adams, loss, rounding, wins, scratch
):
    """Pass over all batches; return the summed loss.

    Distances are known up to `rounding` times |Omega|^2 (|x|^2 + |p|^2). `scratch` is
    that of `glvq_epoch` in the space of Omega, what is of the size of the largest batch
    there, and of P and Omega. Loops stand for sums and products of arrays, and products
    have their place, as all of these compile for seconds.
    """
    K, rank, (starts, stops, rates) = P.shape[0], omega.shape[0], batches
    (packed, q_norms, pulled, products), of_batch, (Q, p_norms, by_P), more = scratch
    (mapped, narrow, pulls), (by_omega, by_means) = of_batch, more
    two = P.dtype.type(2)
    P_adam, omega_adam = adams
    err = _error(rank)
    total = 0.0
    for b in range(starts.shape[0]):
        x = samples.X[starts[b] : stops[b]]
        n = x.shape[0]
        Z, search, pulling, G = mapped[:n], narrow[:n], pulls[:n], products[:n]
        np.dot(x, omega.T, Z)
        np.dot(P, omega.T, Q)
        top = np.float64(TINY)
        for row in range(Z.shape[0]):
            for f in range(rank):
                top = max(top, np.float64(abs(Z[row, f])))
        unit = 1.0 / top
        largest = _prepared(Q, columns.order, unit, packed, q_norms)
        for row in range(Z.shape[0]):
            for f in range(rank):
                search[row, f] = Z[row, f] * unit
                pulling[row, f] = 0
        for j in range(K):
            for f in range(rank):
                pulled[j, f] = 0
        np.dot(search, packed.T, G)
        size = omega.dtype.type(0)
        for r in range(rank):
            for f in range(omega.shape[1]):
                size += omega[r, f] * omega[r, f]
        slip = rounding * np.float64(size)
        for j in range(K):
            p_norms[j] = 0
            for f in range(P.shape[1]):
                p_norms[j] += P[j, f] * P[j, f]
        for row in range(G.shape[0]):
            i = starts[b] + row
            z = Z[row]
            square = 0.0
            for f in range(rank):
                square += np.float64(z[f]) * np.float64(z[f])
            error = err * (square * unit * unit + largest) + TINY
            plus, minus, d_plus, d_minus = settled_pair(
                G[row], q_norms, samples.codes[i], error, z, Q, columns
            )
            noise = 2.0 * samples.norms[i]
            if plus >= 0 and minus >= 0:
                noise += p_norms[plus] + p_norms[minus]
            value, c_plus, c_minus = _slopes(
                plus, minus, d_plus, d_minus, slip * noise, samples.weights[i], loss
            )
            total += value
            wins[plus if plus >= 0 else max(minus, 0)] += 1
            for side in range(2):
                j = minus if side else plus
                c = P.dtype.type(c_minus if side else c_plus)
                if c != 0:
                    for f in range(rank):
                        pull = c * (z[f] - Q[j, f])
                        pulling[row, f] += pull
                        pulled[j, f] += pull
        np.dot(pulling.T, x, by_omega)
        np.dot(pulled.T, P, by_means)
        np.dot(pulled, omega, by_P)
        for r in range(rank):
            for f in range(P.shape[1]):
                by_omega[r, f] = (by_omega[r, f] - by_means[r, f]) * two
        for j in range(K):
            for f in range(P.shape[1]):
                by_P[j, f] = by_P[j, f] * -two
        step, least = omega_adam.t + b + 1, omega_adam.least
        flat = by_P.ravel()
        adam_in_place(P_adam.m, P_adam.v, flat, 0.9, 0.999, step, least)
        flat = by_omega.ravel()
        adam_in_place(omega_adam.m, omega_adam.v, flat, 0.9, 0.999, step, least)
        rate, omega_rate = P.dtype.type(rates[b]), P.dtype.type(rates[b] * ratio)
        for j in range(K):
            for f in range(P.shape[1]):
                P[j, f] -= rate * by_P[j, f]
        for r in range(rank):
            for f in range(P.shape[1]):
                omega[r, f] -= omega_rate * by_omega[r, f]
    return total


def class_columns(labels, codes):
    """Prototypes in the order of their classes, and where each class begins."""
    order = np.argsort(labels, kind="stable")
    classes = np.arange(max(labels.max(), codes.max()) + 2)
    return Columns(order, np.searchsorted(labels[order], classes))


def as_arrays(batches):
    """First and last rows of batches, and their rates."""
    rows = np.array([(b.start, b.stop) for b, _ in batches], dtype=np.intp).T
    rates = np.array([rate for _, rate in batches])
    return Batches(rows[0].copy(), rows[1].copy(), rates)


def largest(batches):
    """Rows of the largest batch."""
    return int((batches.stops - batches.starts).max(initial=0))


def scratch_of(P, width, most):
    """Room for prototypes packed for the search, norms, a gradient, and products."""
    shape = len(P), width
    return (
        np.empty(shape, np.float32), np.empty(len(P), np.float32),
        np.empty(shape, P.dtype), np.empty((most, len(P)), np.float32),
    )  # fmt: skip


def adam_of(state, name, descent):
    """Return the moments of a parameter of a state, to be changed in place."""
    m, v = state[f"{name}_m"].ravel(), state[f"{name}_v"].ravel()
    return Adam(m, v, state[f"{name}_t"], descent.least)


def copied(state, *names):
    """Return a state whose parameters of these names, and moments, may change."""
    keys = [key for name in names for key in (name, f"{name}_m", f"{name}_v")]
    return state | {key: np.array(state[key], order="C") for key in keys}


def stepped(state, n, *names):
    """Return the state after n steps of the parameters."""
    return state | {f"{name}_t": state[f"{name}_t"] + n for name in names}


def glvq_pass(rows, loss, descent, state, units, batches):
    """As `prototypes.glvq.glvq_pass`, in one call."""
    state = copied(state, "prototypes")
    offsets = rows.X[:0, 0] if rows.offsets is None else rows.offsets
    wins, arrays = np.zeros(len(state["prototypes"]), np.int64), as_arrays(batches)
    total = glvq_epoch(
        state["prototypes"],
        Samples(rows.X, rows.norms, rows.codes, rows.weights, offsets, *rows.narrow),
        class_columns(state["codes"], rows.codes),
        arrays,
        units["prototypes"],
        adam_of(state, "prototypes", descent),
        Loss(*compiled_loss(loss)),
        wins,
        scratch_of(state["prototypes"], rows.X.shape[1], largest(arrays)),
    )
    return stepped(state, len(batches), "prototypes"), total, wins


def gmlvq_pass(rows, loss, descent, state, units, batches):
    """As `prototypes.gmlvq.gmlvq_pass`, in one call."""
    state = copied(state, "prototypes", "omega")
    wins = np.zeros(len(state["prototypes"]), np.int64)
    none, P, rank = rows.X[:0], state["prototypes"], len(state["omega"])
    arrays, omega = as_arrays(batches), state["omega"]
    most = largest(arrays)
    total = gmlvq_epoch(
        P,
        omega,
        Samples(rows.X, rows.norms, rows.codes, rows.weights, none[:, 0], none, 1.0),
        class_columns(state["codes"], rows.codes),
        arrays,
        units["omega"],
        (adam_of(state, "prototypes", descent), adam_of(state, "omega", descent)),
        Loss(*compiled_loss(loss)),
        product_error(rows.X.dtype, rows.X.shape[1]),
        wins,
        (
            scratch_of(P, rank, most),
            tuple(np.empty((most, rank), t) for t in (P.dtype, np.float32, P.dtype)),
            (np.empty((len(P), rank), P.dtype), np.empty(len(P), P.dtype),
             np.empty(P.shape, P.dtype)),
            (np.empty(omega.shape, P.dtype), np.empty(omega.shape, P.dtype)),
        ),
    )  # fmt: skip
    return stepped(state, len(batches), "prototypes", "omega"), total, wins


def nearest_rows(X, P):
    """As `nearest.nearest_rows`."""
    centre = P.mean(axis=0)
    x, p = X - centre, P - centre
    largest = max(float(x.max(initial=0)), -float(x.min(initial=0)))
    rows = min(512, max(1, len(x)))
    packed, norms, _, products = scratch_of(p, p.shape[1], rows)
    block = np.empty((rows, p.shape[1]), np.float32), np.empty(rows), products
    order, found = np.arange(len(p)), np.empty(len(x), np.intp)
    unit = 1 / (largest or 1.0)
    _nearest_rows(x, p, order, unit, packed, norms, *block, found)
    return np.maximum(found, 0)


@njit()
def _nearest_rows(X, P, order, unit, packed, norms, block, squares, products, found):
    """Write the nearest of the references P of every row; -1 where no number tells."""
    n, K, d = X.shape[0], P.shape[0], X.shape[1]
    largest = _prepared(P, order, unit, packed, norms)
    err = _error(d)
    for start in range(0, n, block.shape[0]):
        stop = min(start + block.shape[0], n)
        search, G = block[: stop - start], products[: stop - start]
        for i in range(start, stop):
            squares[i - start] = _pack(X[i], unit, 1.0, search[i - start])
        np.dot(search, packed.T, G)
        for i in range(start, stop):
            scores = G[i - start]
            error = err * (squares[i - start] + largest) + TINY
            _add(scores, norms)
            found[i], _ = _nearest(scores, np.int64(0), K, error, X[i], P, order)
