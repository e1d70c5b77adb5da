import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from widemargin.tangents import ImageTangents

SIZE = 32
FIELDS = {
    "x_shift": lambda x, y: (1 + 0 * x, 0 * y),
    "y_shift": lambda x, y: (0 * x, 1 + 0 * y),
    "scaling": lambda x, y: (x, y),
    "rotation": lambda x, y: (y, -x),
    "axis_deformation": lambda x, y: (x, -y),
    "diagonal_deformation": lambda x, y: (y, x),
}
LINEAR = (*FIELDS, "contrast", "blur")


def pixel_grid(height=SIZE, width=SIZE):
    """Column and row of every pixel, from the centre."""
    rows, columns = np.mgrid[:height, :width].astype(float)
    return columns - (width - 1) / 2, rows - (height - 1) / 2


def blob(x, y, variance, centre=(2.0, -1.5)):
    """Gaussian of unit mass, so that smoothing only adds to its variance."""
    square = (x - centre[0]) ** 2 + (y - centre[1]) ** 2
    return np.exp(-square / (2 * variance)) / (2 * np.pi * variance)


def tangent_of(image, name, **params):
    generator = ImageTangents(image.shape, directions=name, **params)
    return generator.tangents(image.reshape(1, -1)).reshape(image.shape)


def check_second_order(moved, image, tangent, p):
    """Assert that the error of image + p tangent shrinks fourfold when p halves."""
    errors = [
        np.linalg.norm(moved(step) - image - step * tangent) for step in (p, p / 2)
    ]
    assert errors[0] < 0.2 * np.linalg.norm(moved(p) - image)
    assert 3.5 < errors[0] / errors[1] < 4.5


@pytest.mark.parametrize("sigma", [0.8, 1.3])
@pytest.mark.parametrize("name", FIELDS)
def test_tangent_is_the_derivative_of_the_moved_image(name, sigma):
    x, y = pixel_grid()
    half = SIZE / 2
    field_x, field_y = FIELDS[name](x / half, y / half)
    variance = 2.5**2

    def moved(p):
        return blob(x + p * field_x, y + p * field_y, variance + sigma**2)

    tangent = tangent_of(blob(x, y, variance), name, sigma=sigma)
    check_second_order(moved, moved(0), tangent, p=0.5)


def test_blur_is_the_derivative_of_diffusion():
    x, y = pixel_grid()

    def diffused(p):
        return blob(x, y, 2.5**2 + 1.0 + 2 * p)

    tangent = tangent_of(blob(x, y, 2.5**2), "blur", sigma=1.0)
    check_second_order(diffused, diffused(0), tangent, p=0.5)


def test_directions_without_a_gradient():
    image = np.random.default_rng(0).random((5, 7))
    np.testing.assert_array_equal(tangent_of(image, "brightness"), np.ones((5, 7)))
    np.testing.assert_array_equal(tangent_of(image, "contrast"), image)
    np.testing.assert_array_equal(
        tangent_of(image, "contrast", background=-1.0), image + 1
    )


def test_thickness_is_the_squared_gradient():
    image = np.random.default_rng(0).random((5, 7))
    along_x, along_y = tangent_of(image, "x_shift"), tangent_of(image, "y_shift")
    np.testing.assert_allclose(tangent_of(image, "thickness"), along_x**2 + along_y**2)


@pytest.mark.parametrize("sigma", [1.0, 1.5, 2.0])
def test_gradient_against_ndimage(sigma):
    image = np.random.default_rng(0).random((14, 11)) - 3
    for name, order in (("x_shift", (0, 1)), ("y_shift", (1, 0))):
        expected = ndimage.gaussian_filter(
            image + 3, sigma, order=order, mode="constant", truncate=4
        )
        found = tangent_of(image, name, sigma=sigma, background=-3)
        np.testing.assert_allclose(found, expected, atol=5e-3 * np.abs(expected).max())


def test_sigma_zero_takes_central_differences():
    image = np.random.default_rng(0).random((6, 8))
    along_y, along_x = np.gradient(image)
    found_x = tangent_of(image, "x_shift", sigma=0)
    found_y = tangent_of(image, "y_shift", sigma=0)
    np.testing.assert_allclose(found_x[:, 1:-1], along_x[:, 1:-1], atol=1e-15)
    np.testing.assert_allclose(found_y[1:-1], along_y[1:-1], atol=1e-15)
    # Beyond the border there is background.
    np.testing.assert_allclose(found_x[:, 0], image[:, 1] / 2, atol=1e-15)


def test_sigma_auto_depends_on_the_shorter_side():
    image = np.random.default_rng(0).random((16, 25))
    np.testing.assert_array_equal(
        tangent_of(image, "rotation"), tangent_of(image, "rotation", sigma=0.8)
    )


def test_shift_has_the_direction_of_x_at_u_plus_p():
    x, y = pixel_grid()
    image = blob(x, y, 9.0)
    for name, axis in (("x_shift", 1), ("y_shift", 0)):
        change = np.roll(image, -1, axis=axis) - image
        tangent = tangent_of(image, name, sigma=0.5)
        assert np.sum(change * tangent) > 0.9 * np.sum(tangent**2)


def test_rotation_of_an_oblong_image_is_a_rotation():
    image = blob(*pixel_grid(20, 40), 6.0, centre=(0, 0))
    rotation, scaling = (
        np.abs(tangent_of(image, name, sigma=1.0)).max()
        for name in ("rotation", "scaling")
    )
    assert rotation < 1e-3 * scaling


def test_background_is_what_lies_outside():
    generator = ImageTangents((6, 6), directions=ImageTangents._known)
    X = np.random.default_rng(0).random((3, 36))
    on_minus_one = ImageTangents((6, 6), generator.directions, background=-1.0)
    np.testing.assert_allclose(
        on_minus_one.tangents(X - 1), generator.tangents(X), atol=1e-14
    )
    blank = np.full((2, 36), -1.0)
    assert not ImageTangents((6, 6), background=-1).bundle(blank).frames.any()


def test_dim_images_keep_their_rank():
    X = np.random.default_rng(0).random((3, 100)).astype(np.float32)
    for scale in (1e-6, 1.0, 255.0):
        bundle = ImageTangents((10, 10)).bundle(X * np.float32(scale))
        np.testing.assert_array_equal(bundle.ranks, 7)


def test_channels_are_images_of_their_own():
    image = np.random.default_rng(0).random((5, 4, 3))
    for name in ImageTangents._known:
        for c in range(3):
            np.testing.assert_allclose(
                tangent_of(image, name)[..., c],
                tangent_of(image[..., c], name),
                atol=1e-15,
            )


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3)),
    sigma=st.floats(0, 3),
    name=st.sampled_from(LINEAR),
)
def test_adjoint_is_the_transpose(seed, shape, sigma, name):
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, 2, np.prod(shape)))
    generator = ImageTangents(shape, sigma=sigma)
    left = np.sum(generator.apply(name, u) * v, axis=1)
    right = np.sum(u * generator.adjoint(name, v), axis=1)
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LINEAR)
def test_tangents_are_the_linear_map_of_the_image_less_background(name):
    X = np.random.default_rng(0).random((3, 30))
    generator = ImageTangents((6, 5), directions=name, background=0.25)
    assert generator.linear_directions == (name,)
    np.testing.assert_array_equal(
        generator.tangents(X)[:, 0], generator.apply(name, X - 0.25)
    )
    assert generator.apply(name, X.astype(np.float32)).dtype == np.float32


def test_apply_returns_memory_of_its_own():
    X = np.ones((1, 4))
    generator = ImageTangents((2, 2))
    for function in (generator.apply, generator.adjoint):
        assert not np.shares_memory(function("contrast", X), X)


def test_simard7():
    generator = ImageTangents((3, 3))
    assert generator.n_tangents == 7
    assert generator.linear_directions == tuple(FIELDS)
    assert not generator.is_affine
    assert ImageTangents((3, 3), directions=(*LINEAR, "brightness")).is_affine


@pytest.mark.parametrize(
    ("params", "n_features", "message"),
    [
        ({}, 256, r"ImageTangents needs shape=.* 256 features could be \(16, 16\)"),
        ({}, 192, r"needs shape=.* 192 features could be \(8, 8, 3\)"),
        ({}, 10, r"needs shape=.height, width. or .* got None"),
        ({"shape": (15, 16)}, 256, r"shape=\(15, 16\) has 240 .* be \(16, 16\)"),
        ({"shape": (8, 8)}, 192, r"could be \(8, 8, 3\)"),
        ({"shape": 16}, 256, "needs shape="),
        ({"shape": (16.0, 16)}, 256, "needs shape="),
        ({"shape": (-16, -16)}, 256, "needs shape="),
        ({"shape": (4, 4, 4, 4)}, 256, "needs shape="),
        ({"shape": (3, 3), "directions": "spin"}, 9, "'simard7', 'x_shift', .*'spin'"),
        ({"shape": (3, 3), "directions": ["blur", "spin"]}, 9, "'contrast', .*'spin'"),
        ({"shape": (3, 3), "directions": []}, 9, "directions must be a name"),
        ({"shape": (3, 3), "directions": None}, 9, "directions must be a name"),
        (
            {"shape": (3, 3), "sigma": -1},
            9,
            "sigma must be 'auto' or a finite number of at least 0",
        ),
        ({"shape": (3, 3), "sigma": "big"}, 9, "sigma must be 'auto'"),
        ({"shape": (3, 3), "sigma": np.nan}, 9, "sigma must be 'auto'"),
        ({"shape": (3, 3), "background": None}, 9, "background must be a finite"),
        ({"shape": (3, 3), "background": np.inf}, 9, "background must be a finite"),
    ],
)
def test_errors_teach(params, n_features, message):
    X = np.zeros((2, n_features))
    for method in ("fit", "tangents", "bundle"):
        with pytest.raises(ValueError, match=message):
            getattr(ImageTangents(**params), method)(X)


def test_directions_without_a_linear_map_say_why():
    generator = ImageTangents((2, 2))
    with pytest.raises(ValueError, match=r"'thickness' .* is quadratic .* 'x_shift'"):
        generator.apply("thickness", np.ones((1, 4)))
    with pytest.raises(ValueError, match=r"'brightness' .* same for every image"):
        generator.adjoint("brightness", np.ones((1, 4)))
    with pytest.raises(ValueError, match="name must be one of 'x_shift'"):
        generator.apply("simard7", np.ones((1, 4)))
    with pytest.raises(ValueError, match=r"could be \(3, 3\)"):
        generator.adjoint("blur", np.ones((1, 9)))
