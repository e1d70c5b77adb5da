import numba
import numpy as np
import pytest

from widemargin._compute import formulas
from widemargin._compute.frames import best_moves, squared_distance


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


@pytest.mark.parametrize("spring", [0.0, 1e-9])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_what_is_in_the_span_is_not_away(scale, spring):
    """Residuals were rounding, 1e-16 of the difference, and not zero."""
    rng = np.random.default_rng(0)
    n, d = 200, 7
    U, V = (np.linalg.qr(rng.normal(size=(n, d, 2)))[0] for _ in range(2))
    U, V = np.ascontiguousarray(U.mT), np.ascontiguousarray(V.mT)
    moves = rng.normal(size=(n, 1, 4))
    inside = scale * (moves @ np.concatenate([U, V], axis=1))[:, 0]
    beside = inside + 1e-9 * scale * rng.normal(size=(n, d))
    found = [formulas.best_moves.__wrapped__, best_moves]
    torch = pytest.importorskip("torch")
    from widemargin._compute.device.pairs import _energy

    W = torch.from_numpy(np.concatenate([U, V], axis=1))
    found.append(lambda x, *_: (_energy(torch.from_numpy(x), W, spring).numpy(),))
    for measure in found:
        zero = measure(inside, U, V, spring)[0]
        assert (zero == 0).all() == (spring == 0)
        assert (measure(beside, U, V, spring)[0] > 0).all()
        assert (measure(np.zeros((n, d)), U, V, spring)[0] == 0).all()
