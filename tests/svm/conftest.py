import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="package")
def digits():
    """Samples and labels of four digits, to learn from and to be asked about."""
    X, y = load_digits(n_class=4, return_X_y=True)
    X = X / 16
    return X[:160], y[:160], X[160:260], y[160:260]
