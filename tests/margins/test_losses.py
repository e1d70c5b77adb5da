"""Contract of the margin losses: one line in LOSSES tests a new one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from widemargin.margins import (
    Exponential,
    Hinge,
    LinearLoss,
    MarginLoss,
    Ramp,
    Sigmoid,
    check_loss,
)
from widemargin.margins.losses import BY_NAME, value_and_slope

modest = settings(max_examples=50, deadline=None)
LOSSES = [
    Hinge(),
    Hinge(beta=3.0),
    Ramp(),
    Ramp(beta=0.25),
    Exponential(),
    Exponential(beta=2.5),
    Sigmoid(),
    Sigmoid(beta=20.0),
    LinearLoss(),
]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


@every_loss
@modest
@given(theta=st.floats(-4, 4), step=st.floats(1e-5, 1e-4))
def test_derivative_is_the_slope_away_from_kinks(loss, theta, step):
    left, middle, right = loss.derivative(theta + step * np.array([-1.0, 0.0, 1.0]))
    ends = loss.value(theta + step * np.array([-1.0, 1.0]))
    slope = (ends[1] - ends[0]) / (2 * step)
    # At a kink the slope is between the one-sided derivatives; elsewhere these agree.
    tolerance = 1e-6 * max(1, abs(left)) + step**2 * 1e4
    assert min(left, right) - tolerance <= slope <= max(left, right) + tolerance
    assert min(left, right) - tolerance <= middle <= max(left, right) + tolerance


@every_loss
@modest
@given(theta=st.lists(st.floats(-50, 50), min_size=2, max_size=6))
def test_losses_fall_as_the_margin_grows(loss, theta):
    theta = np.sort(theta)
    assert (np.diff(loss.value(theta)) <= 0).all()
    assert (loss.derivative(theta) <= 0).all()


@pytest.mark.parametrize("loss", [x for x in LOSSES if x.bounds_mistakes], ids=repr)
@modest
@given(theta=st.floats(-1e3, 1e3))
def test_classification_losses_bound_the_mistakes(loss, theta):
    assert loss.value(theta) >= (1 if theta < 0 else 0)


@modest
@given(theta=st.floats(-1e3, 1e3), beta=st.floats(0.1, 100))
def test_twice_the_sigmoid_bounds_the_mistakes(theta, beta):
    assert 2 * Sigmoid(beta).value(theta) >= (1 if theta < 0 else 0)


@every_loss
def test_loss_is_a_component(loss):
    copy = clone(loss)
    assert type(copy) is type(loss)
    assert copy.get_params() == loss.get_params()
    assert isinstance(loss, MarginLoss)
    assert check_loss(loss) is loss
    for name in loss.get_params():
        copy.set_params(**{name: 7.0})
        assert copy.get_params()[name] == 7.0
        assert loss.get_params()[name] != 7.0


@every_loss
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shape_and_dtype_are_kept(loss, shape, dtype):
    margin = np.linspace(-1, 1, int(np.prod(shape)), dtype=dtype).reshape(shape)
    for result in (loss(margin), loss.value(margin), loss.derivative(margin)):
        assert result.shape == shape
        assert result.dtype == dtype


@every_loss
def test_numpy_scalars_as_parameters_keep_float32(loss):
    params = {name: np.float64(v) for name, v in loss.get_params().items()}
    loss = clone(loss).set_params(**params)
    assert loss.value(np.zeros(2, np.float32)).dtype == np.float32
    assert loss.derivative(np.zeros(2, np.float32)).dtype == np.float32


@every_loss
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_margins_stay_finite(loss, dtype):
    margin = np.array([-1e30, -1e3, 1e3, 1e30], dtype=dtype)
    assert np.isfinite(loss.value(margin)).all()
    assert np.isfinite(loss.derivative(margin)).all()


@every_loss
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_have_the_values_of_arrays(loss, dtype):
    torch = pytest.importorskip("torch")
    assert loss.array_api
    margin = np.linspace(-1, 1, 9, dtype=dtype)
    found = value_and_slope(loss, torch.tensor(margin))
    for tensor, array in zip(found, value_and_slope(loss, margin), strict=True):
        assert tensor.dtype == getattr(torch, dtype)
        np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-6)


@every_loss
def test_bad_margins_are_refused(loss):
    for method in (loss, loss.value, loss.derivative):
        with pytest.raises(ValueError, match="margin contains NaN"):
            method([0.0, np.nan])
        with pytest.raises(ValueError, match="margin must be numbers"):
            method(["a"])


@pytest.mark.parametrize("kind", [k for k in BY_NAME.values() if hasattr(k(), "beta")])
@pytest.mark.parametrize("beta", [0, -1.0, np.nan, np.inf])
def test_bad_beta_is_refused_when_used(kind, beta):
    loss = kind(beta=beta)
    with pytest.raises(ValueError, match="beta"):
        loss.value([0.0])
    with pytest.raises(ValueError, match="beta"):
        loss.derivative([0.0])


def test_values_by_hand():
    theta = np.array([-3.0, -0.25, 0.0, 0.25, 3.0])
    np.testing.assert_array_equal(Hinge(2.0)(theta), [7, 1.5, 1, 0.5, 0])
    np.testing.assert_array_equal(Ramp(2.0)(theta), [2, 1.5, 1, 0.5, 0])
    np.testing.assert_array_equal(Ramp(2.0).derivative(theta), [0, -2, -2, -2, 0])
    np.testing.assert_allclose(Exponential(2.0)(theta), np.exp(-2 * theta))
    np.testing.assert_allclose(Sigmoid(2.0)(theta), 1 / (1 + np.exp(2 * theta)))
    np.testing.assert_array_equal(LinearLoss()(theta), -theta)


def test_every_loss_with_a_name_is_tested():
    assert set(BY_NAME.values()) == {type(loss) for loss in LOSSES}


@pytest.mark.parametrize(("name", "kind"), BY_NAME.items())
def test_check_loss_knows_the_names(name, kind):
    assert type(check_loss(name)) is kind


class Squared:
    """Not a MarginLoss, but a pair of functions."""

    def value(self, margin):
        return (1 - margin) ** 2

    def derivative(self, margin):
        return -2 * (1 - margin)


class Blind(Squared):
    derivative = None


class Summed(Squared):
    def value(self, margin):
        return np.sum((1 - margin) ** 2)


class Infinite(Squared):
    def derivative(self, margin):
        return np.where(margin == 0, np.inf, 1.0)


class Wordy(Squared):
    def value(self, margin):
        return np.full(margin.shape, "big")


def test_check_loss_takes_any_object_with_both_methods():
    loss = Squared()
    assert check_loss(loss) is loss


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("hing", "loss must be one of 'hinge', 'ramp'"),
        (None, "has no method value"),
        (Hinge, r"Hinge\(\), not the class"),
        (lambda margin: -margin, "has no method value"),
        (Blind(), "has no method derivative"),
        (Summed(), r"loss\.value must return one number per margin"),
        (Wordy(), r"loss\.value must return one number per margin"),
        (Infinite(), r"loss\.derivative must be finite"),
        (Hinge(beta=-1), "beta"),
    ],
)
def test_check_loss_says_what_would_work(loss, message):
    with pytest.raises(ValueError, match=message):
        check_loss(loss)
