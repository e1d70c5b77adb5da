"""Missing values: conditional means under a mixture of Gaussians per class.

A class has a few parts k, and few factors about the mean of each,

    x = mu_k + F_c z + e,    z ~ N(0, I_q),    e_j ~ N(0, psi_cj),

in units of the spread of every feature, so that units do not matter. Where only the
features o of a sample are there, the others get their mean over all parts,

    sum_k p(k | x_o) (mu_k + F_c E[z | x_o, k]),

held within the range of the values that were learned from. Parts are those of k-means
of samples that the factors common to all classes complete, or classes as they are,
whichever expects more of what was hidden rightly. EM learns from the samples
as they are: given the factors of every sample, each feature is a regression on them
over the samples that have it, with a ridge r, and psi_j is what is left, with a prior
of one sample. It climbs

    l = sum_i w_i ln N(x_i,o) - sum_j ((r |F_j|^2 + LEAST) / psi_j + ln psi_j) / 2.

A class of n samples has the covariance of these, times 1 - s, and that within all
classes, times ``s = PSEUDO / (PSEUDO + n)``: it has the factors of both. Where there
are many classes, or few samples of each, all samples are taken for one class.

All this is right where values are missing at random, given those that are there, and
biased where they are missing because of what they are: add an indicator feature then
(:class:`sklearn.impute.MissingIndicator`).

Rubin and Thayer, "EM algorithms for ML factor analysis", Psychometrika 1982; Friedman,
"Regularized discriminant analysis", JASA 1989; Ghahramani and Jordan, "Supervised
learning from incomplete data via an EM approach", NIPS 1993. Shapes: X (n, d),
F (d, q), psi (d,); of all classes one more dimension in front.

A row is answered by itself, whatever the others of its batch are. Of a part with mean
mu, and the factors F (d, q) and precisions 1 / psi of its class, with o the features
that are there,

    M = I + F_o^T diag(1 / psi_o) F_o,    z = M^-1 F_o^T diag(1 / psi_o) (x - mu)_o,
    E[x_m] = mu_m + F_m z,

and its share in the row is that of its density of x_o. Shapes: X (n, d), logs and
owners, the classes of parts, (K,), means (K, d), factors (C, d, q), precisions (C, d).
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.machine import batched_slices, one_blas_thread, rows_in_budget
from widemargin._core.checks import FLOATS, check_random_state, validate_data
from widemargin._core.params import Counted, check_declared, parameters
from widemargin._core.samples import check_weights, class_labels


@parameters
class MixtureImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Impute missing values by conditional means of a Gaussian mixture.

    Put it before any classifier. It learns one Gaussian mixture per class and does not
    need the class of a sample that it fills in.

    Parameters
    ----------
    max_samples : int, default=2000
        Training samples, at most, that the mixtures are learned from. More samples
        take longer and change little.
    random_state : int, RandomState instance or None, default=0
        Seed of the training samples that are drawn.

    Attributes
    ----------
    mixture_ : object
        The learned mixtures.
    n_features_in_ : int
        Number of features seen in `fit`.

    See Also
    --------
    sklearn.impute.SimpleImputer : Means or medians; its models can be exported.
    sklearn.impute.KNNImputer : Means of the nearest samples.

    Notes
    -----
    A class has one Gaussian, or several where these predict hidden values better.
    Fewer than ten samples per class, or more than 32 classes, are taken for one class.
    Values that are filled in stay within the range of the training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from widemargin import GMLVQClassifier, MixtureImputer
    >>> X, y = load_iris(return_X_y=True)
    >>> holes = np.random.RandomState(0).uniform(size=X.shape) < 0.1
    >>> X[holes] = np.nan
    >>> model = make_pipeline(MixtureImputer(), GMLVQClassifier(random_state=0))
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    # As of scikit-learn's imputers: what is taken for missing.
    missing_values = np.nan

    _: KW_ONLY
    max_samples: Counted = 2000
    random_state: Any = 0

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the mixtures.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; NaN is a missing value.
        y : array-like of shape (n_samples,), optional
            Their labels; without them, or in regression, all are one class.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, not negative.

        Returns
        -------
        self
            The fitted transformer.
        """
        check_declared(self)
        rng = check_random_state(self.random_state)
        samples = self._checked(X, reset=True)
        check_missing(samples, features=True)
        codes = np.zeros(len(samples), np.intp)
        if y is not None:
            codes = self._codes_of(np.asarray(y), len(samples))
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)
        weights = check_weights(sample_weight, samples)
        rows = np.flatnonzero(weights)
        rows = rows[rng.permutation(len(rows))[: self.max_samples]]
        with one_blas_thread():
            self.mixture_ = learned_factors(samples[rows], codes[rows], weights[rows])
        return self

    def _codes_of(self, y: NDArray, n_samples: int) -> NDArray:
        """Numbers of the classes; 0 of all where `y` holds no labels."""
        if y.ndim == 0:
            raise ValueError(f"y must hold one label per sample; got {y!r:.200}.")
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        if type_of_target(y, "y") not in ("binary", "multiclass"):
            return np.zeros(n_samples, np.intp)
        return np.unique(class_labels(y, n_samples), return_inverse=True)[1]

    def transform(self, X: ArrayLike) -> NDArray:
        """Return the samples with their missing values filled in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples; NaN is a missing value.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            A copy, or `X` itself if no value is missing.
        """
        check_is_fitted(self)
        return self.mixture_.completed(check_missing(self._checked(X, reset=False)))

    def _checked(self, X: Any, *, reset: bool) -> Any:
        return validate_data(
            self, X, dtype=FLOATS, ensure_all_finite="allow-nan", reset=reset
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_missing(X: Any, *, features: bool = False) -> Any:
    """Return samples of which each, and with `features` each feature, has a value."""
    there = ~np.isnan(X)
    blank = np.flatnonzero(~there.any(axis=1))
    if len(blank):
        raise ValueError(
            f"X has no value in row {blank[0]}"
            f"{f' and {len(blank) - 1} more' if len(blank) > 1 else ''}, only NaN; "
            "leave out rows of which nothing is known."
        )
    blank = np.flatnonzero(~there.any(axis=0))
    if features and len(blank):
        raise ValueError(
            f"X has no value of feature {blank[0]}"
            f"{f' and {len(blank) - 1} more' if len(blank) > 1 else ''} in any sample, "
            "only NaN; leave out features of which nothing is known."
        )
    return X


# Passes of EM: where values are missing, and where none is, and the start is good.
PASSES = (8, 2)
# Factors that all classes share, and of each.
SHARED, OWN = 12, 24
# A class of so many samples counts as much as all of them together in its covariance.
PSEUDO = 50
# Parts of a class at most, the fewest samples of one in the mean, passes of k-means.
PARTS, PER_PART, ROUNDS = 8, 8, 10
# Samples of a class that are held out to choose between one part and several.
HELD = 25
# More classes, or fewer samples per class, are taken for one.
MOST_CLASSES, FEWEST = 32, 10
# Ridge of the factors, and variance, of one, that the prior leaves to each feature.
RIDGE, LEAST = 2.0, 0.01
# Mean, factors and psi of a class.
State = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Factors:
    """The learned model, in units about a centre.

    `logs` are those of the shares of parts, `owners` the classes of these; `low` and
    `high` are the range of what it was learned from.
    """

    centre: np.ndarray
    unit: np.ndarray
    low: np.ndarray
    high: np.ndarray
    logs: np.ndarray
    owners: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    psi: np.ndarray

    def completed(self, X: np.ndarray) -> np.ndarray:
        """Return the samples with conditional means where they are NaN."""
        from widemargin._compute.completing import complete

        holes = np.isnan(X)
        rows = np.flatnonzero(holes.any(axis=1))
        if len(rows) == 0:
            return X
        out = X.copy()
        means, factors = (a.astype(np.float64) for a in (self.means, self.factors))
        for s in batched_slices(len(rows), rows_in_budget(32 * X.shape[1])):
            some = rows[s]
            Z = (X[some] - self.centre) / self.unit
            complete(Z, self.logs, self.owners, means, factors, 1 / self.psi)
            values = np.clip(Z * self.unit + self.centre, self.low, self.high)
            out[some] = np.where(holes[some], values, X[some])
        return out


def learned_factors(X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Factors:
    """Learn from samples; NaN is a missing value."""
    X = X.astype(np.float64)
    # None counts for nothing, or the share of a part could vanish.
    w = np.maximum(weights / weights.max(), 1e-9)
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
    parts = chosen_parts(R, t, w, at)
    passes = PASSES[bool(t.all())]
    logs, owners, means, F, psi = mixture(R, t, w, at, parts, passes)
    # The most of a small model's file, and known to far fewer digits.
    means, F = means.astype(np.float32), F.astype(np.float32)
    return Factors(
        middle + unit * centre, unit * spread, low, high, logs, owners, means, F, psi
    )


def chosen_parts(R: np.ndarray, t: np.ndarray, w: np.ndarray, at: np.ndarray) -> int:
    """Return how many parts classes have at most: one, or several.

    By what each expects of a quarter of the values of samples that were held out, a
    third of each class but no more than HELD.
    """
    from widemargin._compute.completing import complete

    if np.bincount(at).max() < 3 * PER_PART:
        return 1
    held = np.zeros(len(R), dtype=bool)
    for c in range(at.max() + 1):
        held[np.flatnonzero(at == c)[2::3][:HELD]] = True
    hidden = np.random.RandomState(0).uniform(size=R[held].shape) < 0.25
    asked = np.where(hidden | (t[held] == 0), np.nan, R[held])
    hidden &= t[held] > 0
    errors = []
    for parts in (1, PARTS):
        logs, owners, means, F, psi = mixture(
            R[~held], t[~held], w[~held], at[~held], parts, PASSES[1]
        )
        found = asked.copy()
        complete(found, logs, owners, means, F, 1 / psi)
        errors.append(w[held] @ np.sum((found - R[held]) ** 2 * hidden, axis=1))
    return PARTS if errors[1] < errors[0] else 1


def mixture(
    R: np.ndarray,
    t: np.ndarray,
    w: np.ndarray,
    at: np.ndarray,
    parts: int,
    passes: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Learn classes of up to so many parts: logs, owners, means, factors and psi.

    R is 0 where t is, and about the mean of all samples; `at` are their classes.
    """
    members = [np.flatnonzero(at == c) for c in range(at.max() + 1)]
    means = np.stack([w[m] @ R[m] / (w[m] @ t[m] + 1) for m in members])
    rest = (R - means[at]) * t
    common = learned(rest, t, w, SHARED, passes)
    part, owners = at, np.arange(len(members))
    if parts > 1:
        part, owners = split(completed(common, rest, t), w, members, parts)
        mass = np.stack([w * (part == k) for k in range(len(owners))])
        # A part has a sample of the mean of its class beside its own.
        means = (mass @ R + means[owners]) / (mass @ t + 1)
        rest = (R - means[part]) * t
        common = learned(rest, t, w, SHARED, passes)
    _, shared, loose = common
    F = np.zeros((len(members), R.shape[1], SHARED + OWN))
    psi = np.empty((len(members), R.shape[1]))
    for c, m in enumerate(members):
        shift, own, left = learned(rest[m], t[m], w[m], OWN, passes)
        s = PSEUDO / (PSEUDO + len(m))
        F[c, :, : shared.shape[1]] = np.sqrt(s) * shared
        F[c, :, SHARED : SHARED + own.shape[1]] = np.sqrt(1 - s) * own
        means[owners == c] += shift
        psi[c] = s * loose + (1 - s) * left
    return np.log(np.bincount(part, w) / w.sum()), owners, means, F, psi


def split(
    R: np.ndarray, w: np.ndarray, members: list[np.ndarray], parts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of every sample, and the class of every part, by k-means."""
    from warnings import catch_warnings, simplefilter

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    given = {"n_init": 1, "max_iter": ROUNDS, "random_state": 0}
    part = np.zeros(len(R), dtype=np.intp)
    owners: list[int] = []
    for c, m in enumerate(members):
        at, count = np.zeros(len(m), dtype=np.intp), min(parts, len(m) // PER_PART)
        if count > 1:
            with catch_warnings():
                # Equal samples make fewer parts.
                simplefilter("ignore", ConvergenceWarning)
                at = KMeans(count, **given).fit(R[m], sample_weight=w[m]).labels_
            at = np.unique(at, return_inverse=True)[1]
        part[m] = len(owners) + at
        owners += [c] * (at.max() + 1)
    return part, np.array(owners)


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


def posterior(
    state: State, R: np.ndarray, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and covariances of the factors of samples, and log densities of these.

    Where nothing is missing, all samples share one covariance.
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
    return z, covariance, -(logs + squares) / 2


def completed(state: State, R: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return samples R with what their factors expect where t is 0."""
    if t.all():
        return R
    return np.where(t, R, state[0] + posterior(state, R, t)[0] @ state[1].T)


def em_pass(
    state: State, R: np.ndarray, t: np.ndarray, w: np.ndarray
) -> tuple[State, float]:
    """One pass over samples R, 0 where t is; returns what it climbs before it, too.

    Where nothing is missing, all features share the moments of the factors.
    """
    _, F, psi = state
    q, whole = F.shape[1], bool(t.all())
    z, covariance, logs = posterior(state, R, t)
    prior = (RIDGE * np.sum(F**2, axis=1) + LEAST) / psi + np.log(psi)
    height = float(w @ logs - prior.sum() / 2)
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
