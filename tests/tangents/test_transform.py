import numpy as np
import pytest
from scipy import ndimage

from widemargin.tangents import TransformTangents

X = np.random.default_rng(0).random((6, 9)) + 0.5


def power(X, p):
    return X ** (1 + p)


def power_tangent(X):
    return X * np.log(X)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
def test_auto_step_does_not_depend_on_units(unit, scale):
    def f(X, p):
        return scale * power(X / scale, unit * p)

    found = TransformTangents(f).tangents(scale * X)[:, 0]
    expected = unit * scale * power_tangent(X)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_auto_step_in_float32():
    single = X.astype(np.float32)
    found = TransformTangents(power).tangents(single)[:, 0]
    np.testing.assert_allclose(found, power_tangent(X), atol=1e-3)


def test_auto_step_for_a_function_that_works_in_float32():
    def f(X, p):
        return power(X.astype(np.float32), np.float32(p))

    found = TransformTangents(f).tangents(X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[:, 0], power_tangent(X), atol=1e-3)


def test_steps_are_chosen_by_fit_and_then_kept():
    generator = TransformTangents([power, lambda X, p: X + 1e3 * p]).fit(X)
    steps = generator.steps_
    assert steps.shape == (2,)
    # Far smaller where the function moves faster.
    assert steps[0] > 100 * steps[1]
    seen = []

    def spy(X, p):
        seen.append(p)
        return power(X, p)

    generator = TransformTangents(spy).fit(X)
    seen.clear()
    generator.tangents(1e6 * X)
    assert sorted(seen) == [-generator.steps_[0], generator.steps_[0]]


def test_given_steps_are_used_as_they_are():
    def cube(X, p):
        return X + p**3

    found = TransformTangents([cube, cube], step=[0.5, 2.0]).tangents(X)
    np.testing.assert_allclose(found[:, 0], 0.25)
    np.testing.assert_allclose(found[:, 1], 4.0)
    found = TransformTangents([cube, power], step=0.5).tangents(X)
    np.testing.assert_allclose(found[:, 0], 0.25)


def test_image_library_as_a_transformation():
    rows, columns = np.mgrid[:20, :20]
    image = np.exp(-((rows - 8.0) ** 2 + (columns - 11.0) ** 2) / 6)

    def rotate(X, degrees):
        images = X.reshape(-1, 20, 20)
        moved = ndimage.rotate(
            images, degrees, axes=(1, 2), reshape=False, mode="nearest"
        )
        return moved.reshape(X.shape)

    tangent = TransformTangents(rotate).tangents(image.reshape(1, -1))[0, 0]
    moved = [rotate(image.reshape(1, -1), p)[0] for p in (2.0, 1.0)]
    errors = [
        np.linalg.norm(m - image.ravel() - p * tangent)
        for m, p in zip(moved, (2.0, 1.0), strict=True)
    ]
    assert errors[0] < 0.1 * np.linalg.norm(moved[0] - image.ravel())
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_jumps_at_zero_do_not_blow_up():
    # Pixels that turn out of the image fall to zero however small the angle is.
    X = np.ones((1, 100)) + np.random.default_rng(0).random((1, 100))

    def rotate(X, degrees):
        return ndimage.rotate(
            X.reshape(-1, 10, 10), degrees, axes=(1, 2), reshape=False, order=1
        ).reshape(X.shape)

    tangent = TransformTangents(rotate).tangents(X)
    assert np.abs(tangent).max() < 10 * np.abs(rotate(X, 1.0) - X).max()


def test_functions_may_work_in_place_and_ignore_the_parameter():
    def in_place(X, p):
        X += p
        return X

    before = X.copy()
    found = TransformTangents([in_place, lambda X, p: X]).tangents(X)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_allclose(found[:, 0], 1)
    assert not found[:, 1].any()


def test_blank_samples_have_no_tangents_and_no_warnings():
    def overflowing(X, p):
        return X * np.exp(100 * p)

    assert not TransformTangents(overflowing).tangents(np.zeros((2, 3))).any()


def wider(X, p):
    return np.hstack([X, X])


def undefined(X, p):
    return X * np.sqrt(p) if p >= 0 else np.full_like(X, np.nan)


def words(X, p):
    return np.full(X.shape, "x")


class Stateful:
    def __call__(self, X, p):
        return X[0]


@pytest.mark.parametrize(
    ("functions", "error", "message"),
    [
        (
            [power, wider],
            ValueError,
            r"functions\[1\] \(wider\) .*\(6, 9\); .*\(6, 18\)",
        ),
        (undefined, ValueError, r"functions\[0\] \(undefined\) returned NaN"),
        (words, ValueError, r"functions\[0\] \(words\) returned .*no numbers"),
        ([Stateful()], ValueError, r"functions\[0\] \(Stateful\) must return"),
        ([power, 3], TypeError, r"functions\[1\] must be a callable .* got 3"),
        ([lambda X: X], TypeError, r"must take samples and a number, f\(X, p\)"),
        ([], TypeError, "functions must be a callable"),
        (None, TypeError, "functions must be a callable"),
    ],
)
def test_bad_functions_are_named(functions, error, message):
    for method in ("fit", "tangents", "bundle"):
        with pytest.raises(error, match=message):
            getattr(TransformTangents(functions), method)(X)


@pytest.mark.parametrize(
    "step", ["big", 0, -1.0, np.nan, [1.0, 2.0, 3.0], [[1.0]], [1.0, -1.0], None]
)
def test_bad_steps_are_refused(step):
    with pytest.raises(ValueError, match="step must be"):
        TransformTangents([power, power], step=step).tangents(X)
