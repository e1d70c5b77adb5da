"""What present values say of missing ones: a factor model per class, from samples.

Samples of a class are taken for draws of a Gaussian with few factors,

    x = mu_c + F_c z + e,    z ~ N(0, I_q),    e_j ~ N(0, psi_cj),

in units of the spread of every feature, so that units do not matter. Where only the
features o of a sample are there, the others get their mean over all classes,

    sum_c p(c | x_o) (mu_c + F_c E[z | x_o, c]),

held within the range of the values that were learned from. EM learns from the samples
as they are: given the factors of every sample, each feature is a regression on them
over the samples that have it, with a ridge r, and psi_j is what is left, with a prior
of one sample. It climbs

    l = sum_i w_i ln N(x_i,o) - sum_j ((r |F_j|^2 + LEAST) / psi_j + ln psi_j) / 2.

A class of n samples has the covariance of these, times 1 - s, and that within all
classes, times ``s = PSEUDO / (PSEUDO + n)``: it has the factors of both. Where there
are many classes, or few samples of each, all samples are taken for one class.

All this is right where values are missing at random, given those that are there, and
biased where they are missing because of what they are.

Rubin and Thayer, "EM algorithms for ML factor analysis", Psychometrika 1982; Friedman,
"Regularized discriminant analysis", JASA 1989; Ghahramani and Jordan, "Supervised
learning from incomplete data via an EM approach", NIPS 1993. Shapes: X (n, d),
F (d, q), psi (d,); of all classes one more dimension in front.
"""

from dataclasses import dataclass

import numpy as np

from widemargin._compute.machine import (
    batched_slices,
    one_blas_thread,
    rows_in_budget,
)

# Samples that are learned from, and passes of EM: where values are missing, and where
# none is, and the start is good.
ROWS, PASSES = (2000, 1000), (8, 2)
# Factors that all classes share, and of each.
SHARED, OWN = 12, 24
# A class of so many samples counts as much as all of them together in its covariance.
PSEUDO = 20
# More classes, or fewer samples per class, are taken for one.
MOST_CLASSES, FEWEST = 32, 10
# Ridge of the factors, and variance, of one, that the prior leaves to each feature.
RIDGE, LEAST = 2.0, 0.01
# Mean, factors and psi of a class.
State = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Factors:
    """The learned model, in units about a centre; `logs` are those of class shares.

    `low` and `high` are the range of what it was learned from.
    """

    centre: np.ndarray
    unit: np.ndarray
    low: np.ndarray
    high: np.ndarray
    logs: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    psi: np.ndarray

    def completed(self, X: np.ndarray) -> np.ndarray:
        """Return the samples with conditional means where they are NaN."""
        from widemargin._compute.completion import complete

        holes = np.isnan(X)
        rows = np.flatnonzero(holes.any(axis=1))
        if len(rows) == 0:
            return X
        # What is expected may lie far beyond what a coarser dtype can square.
        largest = max(np.abs(self.low).max(), np.abs(self.high).max())
        fits = largest < np.sqrt(np.finfo(X.dtype).max) / X.shape[1]
        out = X.astype(X.dtype if fits else np.float64)
        factors, precisions = self.factors.astype(np.float64), 1 / self.psi
        for s in batched_slices(len(rows), rows_in_budget(32 * X.shape[1])):
            some = rows[s]
            Z = (X[some] - self.centre) / self.unit
            complete(Z, self.logs, self.means, factors, precisions)
            values = np.clip(Z * self.unit + self.centre, self.low, self.high)
            out[some] = np.where(holes[some], values, X[some])
        return out


class Completion:
    """A model that is learned when it is first asked, or sent away.

    Until then it holds some of the samples: most models never meet a missing value.
    """

    _given: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    _factors: Factors | None = None

    def __init__(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        whole = not np.isnan(X.min())
        self._given = X[: ROWS[whole]], codes[: ROWS[whole]], weights[: ROWS[whole]]

    @property
    def factors(self) -> Factors:
        """The learned model."""
        given = self._given
        if given is not None:
            # In this order: another thread may be asking.
            with one_blas_thread():
                self._factors = learned_factors(*given)
            self._given = None
        assert self._factors is not None
        return self._factors

    def __getstate__(self) -> dict[str, Factors]:
        return {"_factors": self.factors}


def learned_factors(X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Factors:
    """Learn from samples; NaN is a missing value."""
    whole = not np.isnan(X.min())
    X, w = X.astype(np.float64), weights / weights.max()
    there = ~np.isnan(X)
    t = there.astype(float)
    # None of a feature is there by chance alone: any range will do.
    low, high = (np.nan_to_num(f.reduce(X), nan=0.0) for f in (np.fmin, np.fmax))
    # About the middle first, and divided twice: squares neither overflow nor vanish.
    middle = low / 2 + high / 2
    unit = np.where(high > low, high / 2 - low / 2, 1)
    R = np.where(there, (X - middle) / unit, 0)
    mass = w @ t
    mass[mass == 0] = 1
    centre = w @ R / mass
    R = (R - centre) * t
    spread = np.sqrt(w @ R**2 / mass)
    spread[spread == 0] = 1
    R /= spread
    w = w / w.mean()
    groups, at = np.unique(codes, return_inverse=True)
    if len(groups) > min(MOST_CLASSES, len(X) / FEWEST):
        at = np.zeros_like(at)
    members = [np.flatnonzero(at == c) for c in range(at.max() + 1)]
    means = np.stack([w[m] @ R[m] / (w[m] @ t[m] + 1) for m in members])
    R = (R - means[at]) * t
    _, shared, rest = learned(R, t, w, SHARED, PASSES[whole])
    F = np.zeros((len(members), X.shape[1], SHARED + OWN))
    psi = np.empty(means.shape)
    for c, m in enumerate(members):
        shift, own, left = learned(R[m], t[m], w[m], OWN, PASSES[whole])
        s = PSEUDO / (PSEUDO + len(m))
        F[c, :, : shared.shape[1]] = np.sqrt(s) * shared
        F[c, :, SHARED : SHARED + own.shape[1]] = np.sqrt(1 - s) * own
        means[c] += shift
        psi[c] = s * rest + (1 - s) * left
    logs = np.log([w[m].sum() / w.sum() for m in members])
    # The most of a small model's file, and known to far fewer digits.
    F = F.astype(np.float32)
    return Factors(
        middle + unit * centre, unit * spread, low, high, logs, means, F, psi
    )


def learned(R: np.ndarray, t: np.ndarray, w: np.ndarray, q: int, passes: int) -> State:
    """Learn up to q factors of samples R, which are 0 where t is."""
    state = start(R, w, min(q, R.shape[1] - 1, len(R) // 2))
    for _ in range(passes):
        state, _ = em_pass(state, R, t, w)
    return state


def start(R: np.ndarray, w: np.ndarray, q: int) -> State:
    """Begin with the principal axes, a missing value being the mean."""
    W = R * np.sqrt(w / w.sum())[:, None]
    axes = np.random.RandomState(0).standard_normal((R.shape[1], q))
    for _ in range(3 if q else 0):
        axes = np.linalg.qr(W.T @ (W @ axes))[0]
    F = W.T @ (W @ axes)
    if q:
        turn, variances, _ = np.linalg.svd(axes.T @ F)
        F = (axes @ turn) * np.sqrt(variances)
    left = np.sum(W**2, axis=0) - np.sum(F**2, axis=1)
    return np.zeros(len(F)), F, np.maximum(left, LEAST)


def em_pass(
    state: State, R: np.ndarray, t: np.ndarray, w: np.ndarray
) -> tuple[State, float]:
    """One pass over samples R, 0 where t is; returns what it climbs before it, too.

    Where nothing is missing, all samples share one covariance of their factors, and all
    features the moments of these.
    """
    mean, F, psi = state
    d, q = F.shape
    whole = bool(t.all())
    patterns = t[:1] if whole else t
    pull = F / psi[:, None]
    M = patterns @ (pull[:, :, None] * F[:, None, :]).reshape(d, q * q)
    M = M.reshape(len(patterns), q, q) + np.eye(q)
    covariance = np.linalg.inv(M)
    G = (R - mean) * t
    pulled = G @ pull
    z = pulled @ covariance[0] if whole else (covariance @ pulled[:, :, None])[:, :, 0]
    logs = t @ np.log(2 * np.pi * psi) + np.linalg.slogdet(M)[1]
    squares = G**2 @ (1 / psi) - np.sum(pulled * z, axis=1)
    prior = (RIDGE * np.sum(F**2, axis=1) + LEAST) / psi + np.log(psi)
    height = -float(w @ (logs + squares) + prior.sum()) / 2
    # Every feature is a regression on the factors and one, for its mean.
    z = np.column_stack([z, np.ones(len(z))])
    if whole:
        moments = ((z.T * w) @ z)[None]
        moments[:, :q, :q] += w.sum() * covariance
    else:
        moments = z[:, :, None] * z[:, None, :]
        moments[:, :q, :q] += covariance
        moments = (t.T * w) @ moments.reshape(len(z), -1)
    # Of a feature that no sample has, the mean stays where it is.
    ridge = np.diag(np.append(np.full(q, RIDGE), 1e-9))
    moments = moments.reshape(-1, q + 1, q + 1) + ridge
    b = R.T @ (z * w[:, None])
    if whole:
        B = np.linalg.solve(moments[0], b.T).T
    else:
        B = np.linalg.solve(moments, b[:, :, None])[:, :, 0]
    left = w @ R**2 - np.sum(B * b, axis=1)
    psi = (np.maximum(left, 0) + LEAST) / (w @ t + 1)
    return (B[:, q].copy(), B[:, :q].copy(), psi), height
