import numba
import numpy as np
import pytest

from widemargin._compute.frames import squared_distance


@numba.njit
def measured(x, U, y, V, sides, spring, delta, residual):
    """Only kernels call this one."""
    return squared_distance(x, U, y, V, sides, spring, delta, residual)


@pytest.mark.parametrize(
    ("apart", "rtol"), [(1.0, 1e-12), (1e-3, 1e-12), (1e-5, 1e-10)]
)
def test_least_squares_of_nearly_parallel_frames(apart, rtol):
    """The normal equations lose twice the digits that lstsq does."""
    rng = np.random.default_rng(0)
    d, n_tangents = 30, 5
    for _ in range(50):
        noise = rng.normal(size=(2, n_tangents, d))
        frames = [noise[0], noise[0] + apart * noise[1]]
        U, V = (np.linalg.qr(frame.T)[0].T.copy() for frame in frames)
        x, y = rng.normal(size=(2, d))
        both = np.vstack([U, V]).T
        moves = np.linalg.lstsq(both, x - y, rcond=None)[0]
        expected = np.sum((x - y - both @ moves) ** 2)
        got = measured(x, U, y, V, 1, 0.0, np.empty(d), np.empty(d))
        assert got == pytest.approx(expected, rel=rtol)
