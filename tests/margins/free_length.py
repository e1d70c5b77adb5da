"""What holds of runs with free length for every N ≥ 1, of which the library takes one.

K and the other symbols are those of `widemargin.margins.perceptrons`.
"""

import math

from scipy.optimize import brentq


def norm_bound(R, gamma_d, margin, t, N, f_max=1.0):
    """Longest a can be after t ≥ N + 1 updates with η = 1 (2.42)."""
    growth = f_max * R**2 / gamma_d * (math.log((t - 1) / N) + 1 / N) / 2
    return f_max * (R * N + margin * (t - N) + growth)


def updates_bound(R, gamma_d, margin, N, f_max=1.0):
    """Most updates (2.43): the largest t ≥ N + 1 that it allows, or N."""
    K = (f_max * R / gamma_d) ** 2 / (1 - f_max * margin / gamma_d)
    q = gamma_d / (f_max * R)

    def room(t):
        flat = N * q * (1 - q) + 1 / (2 * N) + math.log((t - 1) / N) / 2
        return K - (t - N) / flat

    if room(N + 1) < 0:
        return N
    return brentq(room, N + 1, 1e9, rtol=1e-14) * (1 + 1e-12)
