r"""Samples left out: which leave together, and what is said of them without them.

Where a closed form is no model of what training would have done without a sample,
`refitted` fits again without some. Folds hold every class, and copies leave together.
They say what models like it are; where each fit ends elsewhere, as of a perceptron that
does not come to rest, the training samples say which of them it is. Of the same
samples it learned a share :math:`\Delta` more than the others did, which lost o of
theirs on samples left out, up to a standard error e. What it says of its training
samples counts

.. math:: \kappa = \max\Bigl(0, 1 - \frac{o^2 + e^2}{\Delta^2}\Bigr),

as Stein's estimate does, its mistakes weighted such that it loses o as well; what
others say of samples left out counts :math:`1 - \kappa`. So models that learn by heart
say nothing of themselves.

For planes there is a closed form: what a sample adds to its own margin.

A plane of largest margin is a sum over samples, :math:`w = \sum_i \alpha_i y_i x_i`.
Without sample i it is the largest margin of the others. As long as the same of them
stay free, neither without a weight nor at the largest weight allowed,

.. math:: y_i f^{-i}(x_i) = y_i f(x_i) - \alpha_i S_i^2,

:math:`S_i` being the distance of :math:`x_i` from the span of the other free samples:
from all combinations of them, whose coefficients sum to one where the bias is free. In
a space where samples own a coordinate of squared length :math:`D_i` (slack that is paid
by its square), the distance includes it and the margin does not,
:math:`y_i f(x_i) - \alpha_i (S_i^2 - D_i)`. A sample without a weight changes nothing.

With K of the free samples, D on its diagonal and a border of ones for the bias,
:math:`S_i^2 = 1 / (K^{-1})_{ii}`.

Where the plane is no such optimum, or a sample that leaves changes who is free, others
take over as those of a soft margin do, where :math:`\alpha_i = (1 - y_i f(x_i)) / D_i`:
so D is taken from the spread of the margins over that of the coefficients.

A weight is left out with its sample. Samples with the same values and class are one
observation that came several times, as a sample of weight 2 is, and are left out
together, unless chance makes equal rows: where features have few values, or equal rows
are in two classes, each is an observation of its own.

Reference: O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple
parameters for support vector machines, Machine Learning 46, 2002. Shapes: K (m, m) of
the free samples.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dtrtrs
from sklearn.base import clone
from sklearn.utils import get_tags

from widemargin._compute.progress import observed_by
from widemargin._core.arrays import to_cpu
from widemargin._core.checks import hushed
from widemargin._core.samples import Samples
from widemargin._core.temperature import FITTED, LeftOut, joined

# Samples of a class, more or less, that are left out where each costs much.
OF_A_CLASS = 250
# Samples that are left out of models fitted again are so many, and parts of all; where
# models grow fast with their samples, parts are smaller.
ENOUGH, FOLDS, FINE = 500, 5, 10
# More samples than these are not few, whatever their features: fits take long.
MOST_REFITTED = 10_000
# Leverages above this are one, up to rounding.
_ALL = 1.0 - 1e-9
# What the smallest distances may be off by, relative to the mean square: as little as
# a singular system needs.
_RIDGES = 10.0 ** np.arange(-10, 1, 2)


def left_out_folds(samples: Samples, many: float) -> list[NDArray]:
    """Rows to leave out of a model together, where samples are few; else none.

    Samples are few where a class has fewer than `many` observations in the mean. Each
    part is a fifth of every class, a tenth where samples are fewer than features,
    ENOUGH at most; copies leave together and count once, and every class keeps some.
    There are as many parts as ENOUGH observations need. Infinitely many are asked for
    by models that leave samples out without another fit, of any number of samples.
    """
    codes, n, d = samples.codes, len(samples), samples.X.shape[1]
    n_classes = np.count_nonzero(np.bincount(codes))
    too_many = n > MOST_REFITTED and bool(np.isfinite(many))
    if n_classes < 2 or too_many or samples.share < 1:
        return []
    groups = samples.observations if samples.inverse is None else None
    if groups is None and n >= n_classes * many:
        return []
    groups = np.arange(n) if groups is None else groups
    first, place = np.unique(groups, return_index=True, return_inverse=True)[1:]
    if len(first) >= n_classes * many:
        return []
    order = np.random.RandomState(0).permutation(len(first))
    sizes = np.bincount(codes[first])
    order = order[sizes[codes[first[order]]] > 1]
    # Class by class, so that no part has more than one of a class that is rare.
    order = order[np.argsort(codes[first[order]], kind="stable")]
    n_parts = max(FINE if len(first) < d else FOLDS, len(first) // ENOUGH)
    parts, count = [], 0
    for k in range(n_parts):
        if count >= min(ENOUGH, len(first)):
            break
        left = order[k::n_parts]
        if len(left):
            parts.append(np.flatnonzero(np.isin(place, left)))
            count += len(left)
    return parts


def refitted(
    model: Any,
    samples: Samples,
    parts: list[NDArray],
    ask: Callable[[Any, Samples], LeftOut],
    in_terms_of: Callable[[LeftOut, LeftOut, LeftOut], LeftOut] | None = None,
) -> LeftOut:
    """Ask models that are fitted to all samples but those of a part, in turn.

    `model` is fitted to all; where it is another than these, its word counts, too.
    ``in_terms_of(said, mine, theirs)`` says what `model` would have said of a part, by
    what `model` and another say of the samples that trained both.
    """
    pairwise, whole = get_tags(model).input_tags.pairwise, to_cpu(model)
    said, mine, theirs = [], [], []
    for rows in parts:
        without = clone(model)
        # What parts are like is nobody's matter, and they have no parts themselves;
        # what the whole has chosen at some cost, they need not choose again.
        without.__dict__.pop("_skl_callbacks", None)
        without.__dict__["_is_part"] = model
        if getattr(model, "class_weight", None) is not None:
            without.set_params(class_weight=None)
        keep = np.delete(np.arange(len(samples)), rows)
        columns = samples.rows[keep]

        def ask_it(rows: NDArray, it: Any = without, columns: Any = columns) -> LeftOut:
            some = samples.take(rows)
            if pairwise:
                some = replace(some, X=some.X[:, columns])
            found = ask(it, some)
            # Of a class that is still to come nothing is known.
            present = np.flatnonzero(np.isin(samples.classes, it.classes_))
            costs = np.full((len(found.costs), len(samples.classes)), np.inf)
            costs[:, present] = found.costs
            return found._replace(costs=costs, answers=present[found.answers])

        others = samples.take(keep)
        if pairwise:
            others = replace(others, X=others.X[:, columns])
        kept = keep[np.random.RandomState(0).permutation(len(keep))[:FITTED]]
        with hushed(), observed_by(None):
            without = to_cpu(without.fit(others.X, others.labels, others.weights))
            left = ask_it(rows, without)
            both = ask(whole, samples.take(kept)), ask_it(kept, without)
        said.append(left if in_terms_of is None else in_terms_of(left, *both))
        mine.append(_right_share(both[0]))
        theirs.append(_right_share(both[1]))
    some = np.random.RandomState(0).permutation(len(samples))[:FITTED]
    own = ask(whole, samples.take(some))
    return _with_own(own, joined(said), float(np.mean(mine)), float(np.mean(theirs)))


def _shares(seen: LeftOut) -> NDArray:
    """Weights that sum to one; NaN where there are none."""
    weights = seen.weights / seen.weights.max()
    return weights / weights.sum()


def _right_share(seen: LeftOut) -> float:
    """Share of right answers, by weight; shares of all may sum to more than one."""
    return min(1.0, float(_shares(seen) @ (seen.answers == seen.codes)))


def _with_own(own: LeftOut, others: LeftOut, mine: float, theirs: float) -> LeftOut:
    """Join what models say of samples left out and a model of its `own`, as it differs.

    Of the same training samples it has the share `mine` right, the others `theirs`.
    """
    left, learned, shares = _right_share(others), _right_share(own), _shares(others)
    ahead, lost = mine - theirs, theirs - left
    chance = left * (1 - left) * float(shares @ shares)
    if not (ahead**2 > lost**2 + chance and 0 < learned < 1):
        return others
    counts = 1 - (lost**2 + chance) / ahead**2
    goal = min(max(learned - lost, 0.0), 1.0)
    is_right = own.answers == own.codes
    scale = np.where(is_right, goal / learned, (1 - goal) / (1 - learned))
    weights = counts * others.weights.sum() * scale * _shares(own)
    rest = (1 - counts) * others.weights
    return joined([own._replace(weights=weights), others._replace(weights=rest)])


def squared_spans(K: NDArray, private: NDArray | None = None, *, bias: bool) -> NDArray:
    """Squared distance of every free sample from the span of the others.

    `private` are squared private coordinates, which are in the distances; `bias` says
    whether the bias is free. NaN where products are no numbers.

    >>> K = np.array([[0.0, 0.0], [0.0, 9.0]])
    >>> squared_spans(K, bias=True).round(6)
    array([9., 9.])
    """
    # With a border, a number more in all products changes nothing but rounding.
    size = float(np.diag(K).mean()) or 1.0
    shift = size if bias else 0.0
    for ridge in _RIDGES * size:
        system = K + shift
        system.flat[:: len(K) + 1] += ridge if private is None else private + ridge
        most = 4.0 * float(np.diag(system).max())
        factor, failed = dpotrf(system.T, lower=1, overwrite_a=1)
        if not failed:
            break
    else:
        return np.full(len(K), np.nan)
    inverse = np.diag(dpotri(factor, lower=1)[0])
    if bias:
        u = dpotrs(factor, np.ones(len(K)), lower=1)[0]
        inverse = inverse - u * u / u.sum()
    # Without others there is no span, but no two samples are infinitely far apart.
    return 1.0 / np.maximum(inverse, 1.0 / most)


def unit_factor(system: NDArray) -> tuple[NDArray, NDArray]:
    """Upper Cholesky factor of a positive system at a unit diagonal, and the scale."""
    scale = 1.0 / np.sqrt(np.diag(system))
    return dpotrf(system * scale[:, None] * scale)[0], scale


def feature_spans(
    X: Any, private: NDArray, factor: tuple[NDArray, NDArray], least: float = 1.0
) -> NDArray:
    r"""Squared distances from the span, less private coordinates, by features.

    `factor` is that of ``least * A``, with :math:`z = [x, 1]` and
    :math:`A = \sum_j z_j z_j^T / D_j` and the price of w and bias on its diagonal:
    :math:`S_i^2 - D_i = q_i / (1 - q_i / D_i)` where :math:`q_i = z_i^T A^{-1} z_i`.
    An infinite private coordinate is that of a sample which is not in the sum.
    """
    upper, scale = factor
    Z = np.empty((X.shape[0], len(scale)))
    Z[:, :-1] = X.toarray() if sp.issparse(X) else X
    Z[:, -1] = 1.0
    Z *= scale
    Z = dtrtrs(upper, Z.T, trans=1, overwrite_b=1)[0]
    q = least * np.einsum("ij,ij->j", Z, Z)
    return q / (1.0 - np.minimum(q / private, _ALL))


def spread_ratio(margins: NDArray, shares: NDArray) -> float:
    """Return the spread of margins over that of coefficients; 0 where there is none."""
    margins, shares = margins - margins.mean(), shares - shares.mean()
    of_margins, of_shares = float(margins @ margins), float(shares @ shares)
    return (of_margins / of_shares) ** 0.5 if of_shares > 0 else 0.0
