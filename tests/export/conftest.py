"""Small data, and the models that can leave Python."""

import shutil

import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def digits():
    """Training and test rows of four digits, in float32 and at most 1."""
    X, y = load_digits(n_class=4, return_X_y=True)
    X = (X / 16).astype(np.float32)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="session")
def gcc():
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc to compile the header with")
