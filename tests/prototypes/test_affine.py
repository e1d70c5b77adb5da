import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from widemargin.metrics import tangent_alignment
from widemargin.prototypes.tangent_models import (
    principal_model,
    random_frames,
    retract,
    slide,
    weighted_moments,
)


def explained(X, weights, C, T):
    delta = X - C
    residual = delta - delta @ T.T @ T
    return float(weights @ (residual**2).sum(1))


@given(
    st.lists(st.integers(0, 4), min_size=6, max_size=12).filter(any), st.integers(0, 9)
)
@settings(deadline=None, max_examples=30)
def test_weighted_moments_are_those_of_replicas(copies, seed):
    # Integers and a number of copies that is a power of two leave no rounding.
    copies = np.array(copies)
    copies[0] += (1 << int(copies.sum() - 1).bit_length()) - copies.sum()
    X = np.random.RandomState(seed).randint(-8, 9, (len(copies), 3)).astype(float)
    C, Sigma = weighted_moments(X, copies.astype(float))
    replicas = np.repeat(X, copies, axis=0)
    mean = replicas.mean(axis=0)
    assert_array_equal(C, mean)
    assert_array_equal(Sigma, (replicas - mean).T @ (replicas - mean) / len(replicas))


@pytest.mark.parametrize(("n", "d"), [(40, 6), (5, 9)])
def test_principal_model_beats_any_other(n, d):
    rng = np.random.RandomState(0)
    X, w = rng.standard_normal((n, d)) * np.arange(1, d + 1), rng.uniform(0.1, 2, n)
    C, T = principal_model(X, w, 2)
    assert_allclose(T @ T.T, np.eye(2), atol=1e-12)
    best = explained(X, w, C, T)
    for _ in range(20):
        other = retract((T + 0.1 * rng.standard_normal(T.shape))[None])[0]
        assert explained(X, w, C + 0.1 * rng.standard_normal(d), other) > best


def test_principal_model_of_few_samples_has_zero_rows():
    X = np.array([[1.0, 0, 0, 0], [3.0, 0, 0, 0]])
    C, T = principal_model(X, np.ones(2), 3)
    assert_array_equal(C, [2, 0, 0, 0])
    assert_allclose(np.abs(T), [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], atol=1e-12)


@pytest.mark.parametrize("size", [0.1, 1e6])
def test_retract_keeps_the_space_and_zero_rows(size):
    rng = np.random.RandomState(1)
    frames = random_frames(3, 3, 7, rng)
    moved = frames + size * rng.standard_normal(frames.shape)
    moved[1, 2] = 0
    out = retract(moved)
    for before, after in zip(moved, out, strict=True):
        rank = np.linalg.matrix_rank(before)
        assert_allclose(after @ after.T, np.diag([1.0] * rank + [0] * (3 - rank)),
                        atol=1e-9)  # fmt: skip
        assert_allclose(before - before @ after.T @ after, 0, atol=1e-7 * size)


@given(st.integers(0, 99), st.sampled_from([0.0, 1e-9, 1e-4, 1.0]))
@settings(deadline=None, max_examples=40)
def test_retract_is_gram_schmidt_in_order(seed, apart):
    rng = np.random.RandomState(seed)
    frames = rng.standard_normal((2, 4, 6))
    frames[0, 2] = frames[0, 0] - 3 * frames[0, 1] + apart * frames[0, 2]
    Q, R = np.linalg.qr(frames.transpose(0, 2, 1))
    Q = (Q * np.sign(np.einsum("kii->ki", R))[:, None]).transpose(0, 2, 1)
    out = retract(frames)
    assert_allclose(out[1], Q[1], atol=1e-10)
    assert_allclose(out[0] @ out[0].T, np.diag([1, 1, 1, apart > 0]), atol=1e-13)
    if apart:
        assert_allclose(out[0], Q[0], atol=1e-12 / apart)


@pytest.mark.parametrize("n_own", [0, 2, 4])
@pytest.mark.parametrize("spring", [1e-5, 0.3])
def test_slide_is_the_alignment(n_own, spring):
    rng = np.random.RandomState(2)
    X, C = rng.standard_normal((5, 9)), rng.standard_normal(9)
    U, T = random_frames(5, n_own, 9, rng), random_frames(1, 3, 9, rng)[0]
    moved, q = slide(X, U, C, T, spring)
    truth = tangent_alignment(
        X, np.tile(C, (5, 1)), X_tangents=U, Y_tangents=T, spring=spring
    )
    assert_allclose(moved, truth.x_aligned, atol=1e-8)
    assert_allclose(C + q @ T, truth.y_aligned, atol=1e-8)
