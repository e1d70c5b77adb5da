import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.tangents import orthonormalize


def projector(rows, rtol=1e-9):
    """Orthogonal projector on the span of `rows`, by SVD of the normalised rows."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    _, values, basis = np.linalg.svd(rows, full_matrices=False)
    basis = basis[values > rtol]
    return basis.T @ basis, len(basis)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 12), st.integers(1, 9)
)
def test_frames_are_orthonormal_and_span_the_tangents(seed, n_tangents, d, rank):
    rng = np.random.default_rng(seed)
    rank = min(rank, n_tangents, d)
    tangents = rng.normal(size=(3, n_tangents, rank)) @ rng.normal(size=(3, rank, d))
    # Rows of very different length, as thickness and shift have.
    tangents *= 10.0 ** rng.integers(-12, 12, size=(3, n_tangents, 1))
    tangents[0, rng.integers(n_tangents)] = 0
    frames = orthonormalize(tangents)
    assert frames.shape == tangents.shape
    for raw, frame in zip(tangents, frames, strict=True):
        expected, found_rank = projector(raw)
        gram = np.diag(np.arange(n_tangents) < found_rank)
        np.testing.assert_allclose(frame @ frame.T, gram, atol=1e-12)
        np.testing.assert_allclose(frame.T @ frame, expected, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e59])
def test_scale_does_not_matter(scale):
    tangents = np.random.default_rng(0).normal(size=(4, 5, 9))
    expected = orthonormalize(tangents)
    np.testing.assert_allclose(orthonormalize(scale * tangents), expected, atol=1e-13)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e11])
def test_float32_keeps_its_dtype_rank_and_orthogonality(scale):
    rng = np.random.default_rng(1)
    tangents = rng.normal(size=(5, 7, 400))
    tangents[:, 1] = tangents[:, 0] + 1e-3 * tangents[:, 1]
    frames = orthonormalize((scale * tangents).astype(np.float32))
    assert frames.dtype == np.float32
    units = frames.astype(np.float64)
    gram = units @ units.transpose(0, 2, 1)
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(7), gram.shape), atol=1e-6)


def test_nearly_dependent_rows_stay_orthogonal():
    rng = np.random.default_rng(2)
    first = rng.normal(size=(1, 1, 50))
    tangents = first + 1e-7 * rng.normal(size=(1, 6, 50))
    frame = orthonormalize(tangents)[0]
    np.testing.assert_allclose(frame @ frame.T, np.eye(6), atol=1e-12)


def test_rtol_decides_what_is_dependent():
    tangents = np.array([[[1.0, 0.0], [1.0, 1e-3]]])
    assert np.count_nonzero(orthonormalize(tangents).any(axis=2)) == 2
    loose = orthonormalize(tangents, rtol=1e-2)[0]
    np.testing.assert_array_equal(loose, [[1.0, 0.0], [0.0, 0.0]])


def test_more_tangents_than_features_and_none_at_all():
    tangents = np.random.default_rng(3).normal(size=(2, 6, 3))
    frames = orthonormalize(tangents)
    np.testing.assert_allclose(frames[0, :3] @ frames[0, :3].T, np.eye(3), atol=1e-12)
    assert not frames[:, 3:].any()
    assert orthonormalize(np.empty((4, 0, 3))).shape == (4, 0, 3)
    assert not orthonormalize(np.zeros((2, 3, 4))).any()


def test_awkward_input_is_accepted_and_left_alone():
    tangents = np.random.default_rng(4).normal(size=(5, 3, 8))
    before = tangents.copy()
    tangents.setflags(write=False)
    expected = orthonormalize(tangents)
    np.testing.assert_array_equal(tangents, before)
    strided = np.repeat(tangents, 2, axis=2)[:, :, ::2]
    np.testing.assert_array_equal(orthonormalize(strided), expected)
    integers = np.rint(9 * tangents).astype(int)
    assert orthonormalize(integers).dtype == np.float64


@pytest.mark.parametrize(
    ("tangents", "kwargs", "message"),
    [
        (np.ones((2, 3)), {}, r"\(n_samples, n_tangents, n_features\)"),
        (np.full((1, 1, 2), np.nan), {}, "tangents contains NaN"),
        (np.full((1, 1, 2), np.inf), {}, "tangents contains infinity"),
        (np.ones((1, 1, 2)), {"rtol": -1.0}, "rtol"),
        (np.ones((1, 1, 2)), {"rtol": 1.0}, "rtol"),
    ],
)
def test_errors_name_the_parameter(tangents, kwargs, message):
    with pytest.raises(ValueError, match=message):
        orthonormalize(tangents, **kwargs)
