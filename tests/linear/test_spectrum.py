"""Spectra in one line: its regressions, its views, its axes."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from widemargin import SpectrumClassifier
from widemargin.linear.feature_ridge import FLOOR
from widemargin.tangents import SavitzkyGolay, StandardNormalVariate


def powders(per_class, seed, n_classes=3):
    """Bands of unequal place, as a powder scatters them."""
    rng, w = np.random.default_rng(seed), np.linspace(-1, 1, 80)
    y = np.repeat(np.arange(n_classes), per_class)[:, np.newaxis]
    bands = np.exp(-(((w - 0.1 * y) / 0.3) ** 2)) + np.exp(-(((w + 0.5) / 0.2) ** 2))
    gain, offset = rng.uniform(0.5, 2, y.shape), rng.normal(size=y.shape)
    noise = rng.normal(0, 0.005, (len(y), len(w)))
    return gain * bands + offset + noise, y.ravel()


def test_scatter_is_no_class():
    X, y = powders(5, 0)
    X_new, y_new = powders(50, 1)
    model = SpectrumClassifier().fit(X, y)
    assert model.score(X_new, y_new) == 1.0
    assert len(model.preprocessing_) == len(model.alphas_) == 6


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_the_mean_of_ridge_regressions(n_classes):
    X, y = powders(6, 0, n_classes)
    X_new, _ = powders(4, 1, n_classes)
    chains = [SavitzkyGolay(), StandardNormalVariate()]
    model = SpectrumClassifier(chains, alpha=0.3).fit(X, y)
    values = []
    for chain in chains:
        Z, Z_new = chain.fit_transform(X), chain.transform(X_new)
        spread = Z.std(axis=0) + FLOOR * Z.std(axis=0).mean()
        targets = np.where(y[:, np.newaxis] == np.arange(n_classes), 1.0, -1.0)
        ridge = Ridge(alpha=0.3).fit(Z / spread, targets)
        values.append(ridge.predict(Z_new / spread))
    scores = np.mean(values, axis=0)
    found = model.decision_function(X_new)
    if n_classes == 2:
        scores = scores[:, 1]
    # Slopes and biases make log-odds of them; classes are of equal size.
    scores, found = scores.reshape(len(X_new), -1), found.reshape(len(X_new), -1)
    slopes = np.diff(found[:2], axis=0) / np.diff(scores[:2], axis=0)
    assert slopes.min() > 0
    np.testing.assert_allclose(slopes, slopes.mean())
    offsets = found - slopes * scores
    np.testing.assert_allclose(offsets, np.tile(offsets[0], (len(X_new), 1)))


def test_labels_that_mean_nothing_have_no_sure_answers():
    X, _ = powders(30, 0)
    rng = np.random.default_rng(2)
    P = SpectrumClassifier().fit(X, rng.permutation(90) % 3).predict_proba(X)
    assert P.max(axis=1).mean() < 0.6


@pytest.mark.parametrize("n_features", [1, 2, 4, 5, 9])
def test_few_wavelengths(n_features):
    X, y = powders(10, 0)
    model = SpectrumClassifier().fit(X[:, :n_features], y)
    assert model.predict_proba(X[:, :n_features]).shape == (30, 3)


def test_axes_that_do_not_fit():
    X, y = powders(5, 0)
    axis = np.linspace(900, 1700, 80)
    model = SpectrumClassifier(wavelengths=axis).fit(X, y)
    plain = SpectrumClassifier().fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    for wrong, message in (
        (axis[::-1], "turn both round"),
        (axis[1:], "resample_spectra"),
        (np.geomspace(900, 1700, 80), "evenly spaced"),
    ):
        with pytest.raises(ValueError, match=message):
            SpectrumClassifier(wavelengths=wrong).fit(X, y)
    uneven = SpectrumClassifier([StandardNormalVariate()], wavelengths=axis**2)
    assert uneven.fit(X, y).score(X, y) == 1.0


def test_files_with_other_wavelengths_are_refused():
    pandas = pytest.importorskip("pandas")
    X, y = powders(5, 0)
    names = [f"{w:g}" for w in np.linspace(900, 1700, 80)]
    model = SpectrumClassifier().fit(pandas.DataFrame(X, columns=names), y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pandas.DataFrame(X, columns=names[::-1]))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [("snv", ValueError), ([], TypeError), (["snv"], TypeError), (3, TypeError)],
)
def test_preprocessing_that_is_none(wrong, error):
    X, y = powders(5, 0)
    with pytest.raises(error, match="preprocessing"):
        SpectrumClassifier(wrong).fit(X, y)


def test_missing_values_are_refused():
    X, y = powders(5, 0)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SpectrumClassifier().fit(X, y)
