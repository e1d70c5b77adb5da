"""Preprocessing of spectra, against the definitions, and axes that do not fit."""

import numpy as np
import pytest

from widemargin.tangents import (
    MultiplicativeScatterCorrection,
    SavitzkyGolay,
    SpectrumTangents,
    StandardNormalVariate,
    resample_spectra,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 40)).cumsum(axis=1) + 20


def test_variates_have_mean_zero_and_spread_one():
    Z = StandardNormalVariate().fit_transform(X)
    np.testing.assert_allclose(Z.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=1), 1)
    moved = StandardNormalVariate().fit_transform(3 * X - 50)
    np.testing.assert_allclose(moved, Z, atol=1e-10)
    flat = StandardNormalVariate().fit(X).transform(np.full((1, 40), 0.1))
    assert not flat.any()


def test_scatter_correction_is_a_regression_on_the_mean_spectrum():
    model = MultiplicativeScatterCorrection().fit(X)
    for x, found in zip(X, model.transform(X), strict=True):
        b, a = np.polyfit(X.mean(axis=0), x, 1)
        np.testing.assert_allclose(found, (x - a) / b)
    bare = model.transform(np.full((1, 40), 3.0))
    np.testing.assert_allclose(bare, X.mean())


def test_polynomials_are_fitted_to_windows():
    found = SavitzkyGolay(window=7, degree=3, derivative=2).fit_transform(X)
    offsets = np.arange(7) - 3
    for i in (3, 20, 36):
        fitted = np.polynomial.Polynomial.fit(offsets, X[0, i - 3 : i + 4], 3)
        np.testing.assert_allclose(found[0, i], fitted.deriv(2)(0), atol=1e-9)


def test_derivatives_are_by_the_unit_of_the_axis():
    axis = 900 + 2.0 * np.arange(40)
    found = SavitzkyGolay(derivative=1, wavelengths=axis).fit_transform(X)
    np.testing.assert_allclose(found, SavitzkyGolay().fit_transform(X) / 2)


def test_float32_stays_and_loses_no_digits():
    smooth = 1 + 1e-3 * np.sin(np.linspace(0, 3, 40))[np.newaxis]
    step = SavitzkyGolay(derivative=2, degree=3)
    given = smooth.astype(np.float32)
    found = step.fit_transform(given)
    assert found.dtype == np.float32
    expected = step.fit_transform(given.astype(float))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "step",
    [StandardNormalVariate(), MultiplicativeScatterCorrection(), SavitzkyGolay()],
)
def test_missing_values_are_refused(step):
    broken = X.copy()
    broken[0, -1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        step.fit(broken)
    with pytest.raises(ValueError, match="NaN"):
        step.fit(X).transform(broken)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 4}, "window must be odd"),
        ({"window": 41}, "at most the 40 wavelengths"),
        ({"derivative": 3}, "derivative <= degree < window"),
        ({"window": 3, "degree": 3}, "derivative <= degree < window"),
        ({"degree": -1}, "degree"),
        ({"wavelengths": np.arange(39)}, "resample_spectra"),
        ({"wavelengths": np.arange(40)[::-1]}, "these descend; turn both round"),
        ({"wavelengths": np.r_[np.arange(39), 5]}, "entry 39, 5, does not exceed"),
        ({"wavelengths": np.geomspace(1, 2, 40)}, "evenly spaced"),
        ({"wavelengths": np.r_[np.arange(39), np.nan]}, "wavelengths"),
        ({"wavelengths": np.ones((2, 40))}, "one number for each column of X"),
    ],
)
def test_filters_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        SavitzkyGolay(**options).fit(X)


def test_axes_are_brought_together():
    axis = np.geomspace(900, 1700, 40)
    onto = np.linspace(900, 1700, 25)
    lines = axis + np.array([[0.0], [5.0]])
    found = resample_spectra(lines, axis, onto)
    np.testing.assert_allclose(found, onto + np.array([[0.0], [5.0]]))
    with pytest.raises(ValueError, match="cut it to what was measured"):
        resample_spectra(lines, axis, onto + 1)
    with pytest.raises(ValueError, match="turn both round"):
        resample_spectra(lines, axis[::-1], onto)


def moved(x, name, p, axis):
    """Spectra that the direction has moved by p."""
    tau = 2 * (axis - axis.mean()) / np.ptp(axis)
    step = np.ptp(axis) / (len(axis) - 1)
    return {
        "gain": (1 + p) * x,
        "scatter": (1 + p * tau) * x,
        "shift": np.sin((axis + p * step) / 100),
        "stretch": np.sin((axis + p * step * tau) / 100),
        "offset": x + p,
        "slope": x + p * tau,
    }[name]


@pytest.mark.parametrize("even", [True, False])
def test_spectrum_tangents_are_derivatives(even):
    axis = np.linspace(900, 1700, 400) if even else np.geomspace(900, 1700, 400)
    x = np.sin(axis / 100)
    names = ["gain", "scatter", "shift", "stretch", "offset", "slope"]
    made = SpectrumTangents(names, wavelengths=axis, sigma=0)
    found = made.fit(x[np.newaxis]).tangents(x[np.newaxis])[0]
    for name, tangent in zip(names, found, strict=True):
        h = 1e-4
        ends = (moved(x, name, s * h, axis) for s in (1, -1))
        expected = np.subtract(*ends) / (2 * h)
        np.testing.assert_allclose(tangent[5:-5], expected[5:-5], atol=1e-3)


def test_what_pairs_differ_by_is_learned():
    drift = np.linspace(0, 1, 40) ** 2
    other = X + RNG.normal(size=(7, 1)) * drift
    made = SpectrumTangents((), pairs=(X, other))
    (tangent,) = made.fit(X).tangents(X[:1])[0]
    np.testing.assert_allclose(
        np.abs(tangent), drift / np.linalg.norm(drift), atol=1e-8
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"directions": "warp"}, "directions"),
        ({"directions": ()}, "directions must name at least one"),
        ({"wavelengths": np.arange(40)[::-1]}, "turn both round"),
        ({"interferents": np.ones((2, 30))}, "interferents must have the 40"),
        ({"interferents": [[np.nan] * 40]}, "NaN"),
        ({"pairs": X}, "two arrays"),
        ({"pairs": (X, X[:3])}, "the same samples in both"),
    ],
)
def test_tangents_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        SpectrumTangents(**options).fit(X)
