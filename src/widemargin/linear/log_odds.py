r"""From regressions to the classes to log-odds, by what they say of left-out samples.

Regressions f_c to targets of 1 and -1 shrink a rare class: its coefficients grow with
its share :math:`\pi_c` of the samples, those of a discriminant analysis do not. With
the mean targets :math:`m_c = 2 \pi_c - 1`, one slope s and biases b, log-odds are
differences of

.. math:: z_c = s\, \frac{f_c - m_c}{\sqrt{\pi_c}} + \log \pi_c + b_c .

A sample that is left out takes its own part from :math:`m_c`. Slope and biases have the
least cross-entropy on left-out samples, with soft targets as Platt's and two priors
that weigh as much as three samples: b is normal around 0, log s around that of normal
distributions. With the right class ahead of another one by a in the mean of n samples,
with the variance v, that is

.. math:: s_0 = \frac{n - 3}{n - 1} \frac{2 a}{v} .

So a few samples that are all answered rightly still tell how far ahead they are, where
cross-entropy alone is as sure as its targets let it.

Reference: J. Platt, Probabilistic outputs for support vector machines (1999); T.
Hastie, A. Buja, R. Tibshirani, Penalized discriminant analysis, Ann. Stat. 23 (1995).
Shapes: left_out (n, K); slopes, intercepts (K,).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

# What the priors weigh, and how many wrong answers the targets add to both sides. On
# normal classes with 3 to 20 labels each, calibration errors of priors of 1, 3 and 10
# hardly differ; those of a whole answer are larger where classes are far apart.
PRIOR, ADDED = 3.0, 0.5
# Labels may have nothing to say, or all: the least lead in standard deviations, the
# least of these, and the largest score, beyond which a row is far from all others.
LEAST_LEAD, LEAST_SPREAD, LARGEST = 0.05, 1e-3, 3.0


def fit_log_odds(
    left_out: NDArray, codes: NDArray, weights: NDArray
) -> tuple[NDArray, NDArray]:
    """Return slopes and intercepts by which scores of classes become log-odds."""
    n, n_classes = left_out.shape
    if n_classes < 2:
        return np.ones(n_classes), np.zeros(n_classes)
    total = weights.sum()
    is_class = codes[:, np.newaxis] == np.arange(n_classes)
    owned = weights[:, np.newaxis] * is_class
    rest = np.maximum(total - weights, 1e-12 * total)[:, np.newaxis]
    share = np.maximum(owned.sum(axis=0) / total, 1e-12)
    means = 2 * np.maximum(total * share - owned, 0) / rest - 1
    f = (np.clip(left_out, -LARGEST, LARGEST) - means) / np.sqrt(share)

    leads = f[is_class][:, np.newaxis] - f
    pairs = weights[:, np.newaxis] * ~is_class / (total * (n_classes - 1))
    lead = (pairs * leads).sum()
    spread = np.sqrt((pairs * (leads - lead) ** 2).sum() * n / (n - 1))
    spread = max(spread, LEAST_SPREAD)
    s_0 = 2 * max(lead, LEAST_LEAD * spread) / spread**2
    # The mean of 1 / v is larger than one over that of v.
    s_0 *= max(n - 3, 1) / (n - 1)

    right = (total + ADDED) / (total + 2 * ADDED)
    targets = np.where(is_class, right, (1 - right) / (n_classes - 1))
    priors = PRIOR / total

    def loss(parameters: NDArray) -> tuple[float, NDArray]:
        """Mean cross-entropy and its derivatives by log(s / s_0) and b."""
        s, b = s_0 * np.exp(parameters[0]), parameters[1:]
        log_P = log_softmax(s * f + np.log(share) + b, axis=1)
        slopes = weights[:, np.newaxis] * (np.exp(log_P) - targets) / total
        by_s = s * (slopes * f).sum()
        value = -(weights / total) @ (targets * log_P).sum(axis=1)
        return (
            value + priors / 2 * (parameters @ parameters),
            np.append(by_s, slopes.sum(axis=0)) + priors * parameters,
        )

    # Beyond e^20 times the slope of normal distributions nothing would change.
    bounds = [(-20.0, 20.0)] + n_classes * [(None, None)]
    start = np.zeros(n_classes + 1)
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    scale = s_0 * np.exp(found[0]) / np.sqrt(share)
    return scale, np.log(share) + found[1:] - scale * (2 * share - 1)
