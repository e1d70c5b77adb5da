import numpy as np
import pytest

from widemargin.tangents import Bundle, ImageTangents, LearnedTangents
from widemargin.tangents.generator import fit_tangents


def test_generators_are_cloned_and_fitted():
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 16)), np.repeat([0, 1], 15)
    generator = LearnedTangents(2)
    fitted = fit_tangents(generator, X, y)
    assert fitted is not generator
    assert fitted.tangents(X[:3]).shape == (3, 2, 16)
    assert not hasattr(generator, "tangents_")
    with pytest.raises(ValueError, match="shape"):
        fit_tangents(ImageTangents((3, 3)), X, y)


def test_what_serves_any_sample_stays():
    shared = np.ones((1, 4))
    assert fit_tangents(None, np.ones((2, 4))) is None
    assert fit_tangents(shared, np.ones((2, 4))) is shared


def test_tangents_of_single_samples_are_refused():
    X = np.ones((2, 4))
    with pytest.raises(ValueError, match="that all samples share"):
        fit_tangents(np.ones((2, 1, 4)), X)
    with pytest.raises(ValueError, match="that all samples share"):
        fit_tangents(Bundle.from_tangents(X, np.ones((1, 4))), X)
