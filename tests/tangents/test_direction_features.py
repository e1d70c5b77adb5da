"""Direction features against the published formula, pixel by pixel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.tangents import (
    Deskew,
    DirectionFeatures,
    GaussianSmoother,
    ImageTangents,
)


def slow_features(image, grid, smoothing, eps, blur, power, directions=8):
    """The sums of the formula, one pixel at a time; not yet divided by the norm."""
    h, w = image.shape
    padded = np.zeros((h + 6, w + 6))
    padded[3:-3, 3:-3] = image
    radius = max(1, int(np.ceil(4 * smoothing)))
    k = np.arange(-radius, radius + 1)
    weights = np.exp(-(k**2) / (2 * smoothing**2))
    weights /= weights.sum()
    smooth = np.zeros_like(padded)
    for r in range(h + 6):
        for c in range(w + 6):
            for a, wa in zip(k, weights, strict=True):
                for b, wb in zip(k, weights, strict=True):
                    if 0 <= r + a < h + 6 and 0 <= c + b < w + 6:
                        smooth[r, c] += wa * wb * padded[r + a, c + b]
    sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
    f = np.zeros((directions, *grid))
    for u in range(-2, h + 2):
        for v in range(-2, w + 2):
            patch = smooth[u + 2 : u + 5, v + 2 : v + 5]
            g_x, g_y = (patch * sobel).sum(), (patch * sobel.T).sum()
            m = np.hypot(g_x, g_y)
            q = m / np.sqrt(m**2 + eps**2)
            phi = np.arctan2(g_y, g_x) * directions / (2 * np.pi)
            for d in range(directions):
                away = (phi - d + directions / 2) % directions - directions / 2
                plane = q * max(0, 1 - abs(away))
                for i in range(grid[0]):
                    for j in range(grid[1]):
                        c_i = (i + 0.5) * h / grid[0] - 0.5
                        c_j = (j + 0.5) * w / grid[1] - 0.5
                        f[d, i, j] += (
                            np.exp(-((u - c_i) ** 2) / (2 * blur[0] ** 2))
                            * np.exp(-((v - c_j) ** 2) / (2 * blur[1] ** 2))
                            * plane
                        )
    return f.ravel() ** power


def test_the_formula():
    images = np.random.default_rng(0).random((3, 7, 9))
    images[:, 0, 0] = 1.0
    model = DirectionFeatures((7, 9), grid=(2, 3), smoothing=0.6)
    found = model.fit_transform(images.reshape(3, -1))
    blur = 0.6 * 7 / 2, 0.6 * 9 / 3
    expected = np.array(
        [slow_features(x, (2, 3), 0.6, 0.05, blur, 0.5) for x in images]
    )
    expected /= np.sqrt((expected**2).sum(axis=1).mean())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 3]),
    st.sampled_from(["strongest", "keep"]),
)
def test_pushed_tangents_are_derivatives(seed, channels, pooling):
    rng = np.random.default_rng(seed)
    X, T = rng.random((2, 6 * 5 * channels)), rng.normal(size=(2, 3, 6 * 5 * channels))
    model = DirectionFeatures((6, 5, channels), channels=pooling).fit(X)
    pushed = model.jvp(X, T)
    h = 1e-6
    for k in range(3):
        ahead, behind = (
            model.transform(X + h * T[:, k]),
            model.transform(X - h * T[:, k]),
        )
        difference = (ahead - behind) / (2 * h)
        scale = np.abs(difference).max()
        # A kink of the shares lies within the step for a few pixels at most.
        assert np.median(np.abs(pushed[:, k] - difference)) < 1e-6 * scale
        np.testing.assert_allclose(pushed[:, k], difference, atol=0.02 * scale)


def test_scale_and_background_do_not_matter():
    X, _ = load_digits(return_X_y=True)
    X = X[:50]
    expected = DirectionFeatures((8, 8)).fit_transform(X)
    moved = DirectionFeatures((8, 8), background=-3.0).fit_transform(X / 10 - 3)
    np.testing.assert_allclose(moved, expected, rtol=1e-6, atol=1e-9)
    single = DirectionFeatures((8, 8)).fit_transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-4)
    alone = DirectionFeatures((8, 8)).fit(X).transform(X[:1])
    np.testing.assert_allclose(alone, expected[:1], rtol=1e-12)


def test_blank_images_have_no_features():
    X = np.zeros((2, 64))
    model = DirectionFeatures((8, 8)).fit(X)
    assert not model.transform(X).any()
    assert np.isfinite(model.jvp(X, np.ones((2, 1, 64)))).all()


def test_kept_channels_are_those_of_single_images():
    images = np.random.default_rng(1).random((4, 8, 8, 2))
    images[0, 0, 0] = 1.0
    both = DirectionFeatures((8, 8, 2), channels="keep").fit(images.reshape(4, -1))
    found = both.transform(images.reshape(4, -1)).reshape(4, -1, 2) * both.scale_
    for c in range(2):
        one = DirectionFeatures((8, 8)).fit(images[..., c].reshape(4, -1))
        expected = one.transform(images[..., c].reshape(4, -1)) * one.scale_
        np.testing.assert_allclose(found[..., c], expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": None}, "64 features could be"),
        ({"shape": (4, 4)}, "16 pixels"),
        ({"grid": 9}, "grid=9 has more cells"),
        ({"grid": 0}, "grid must be 'auto' or an integer"),
        ({"grid": (1, 2, 3)}, "grid must be one or two"),
        ({"eps": 0}, "eps must be"),
        ({"eps": float("nan")}, "eps must be"),
        ({"power": 1.5}, "power must be"),
        ({"blur": -1}, "blur must be"),
        ({"smoothing": "much"}, "smoothing must be one of"),
        ({"directions": 1}, "directions must be"),
        ({"channels": "mean"}, "channels must be one of"),
        ({"background": float("inf")}, "background must be"),
    ],
)
def test_bad_parameters(settings, message):
    model = DirectionFeatures(**({"shape": (8, 8)} | settings))
    with pytest.raises(ValueError, match=message):
        model.fit(np.ones((2, 64)))


def test_bad_tangents():
    X = np.random.default_rng(0).random((2, 64))
    model = DirectionFeatures((8, 8)).fit(X)
    with pytest.raises(ValueError, match="tangents must have shape"):
        model.jvp(X, np.ones((2, 64)))
    with pytest.raises(ValueError, match="tangents contains NaN"):
        model.jvp(X, np.full((2, 1, 64), np.nan))


@pytest.mark.parametrize(
    "made", [DirectionFeatures, Deskew, GaussianSmoother, ImageTangents]
)
def test_light_paper_is_told(made):
    dark = load_digits().data[:50] / 16
    light = 0.93 - 0.8 * dark
    with pytest.warns(UserWarning, match=r"background is 0, .* Pass background=0\.93"):
        made((8, 8)).fit(light)
    made((8, 8), background=0.93).fit(light)
    made((8, 8)).fit(dark)
    made((8, 8)).fit(np.random.default_rng(0).random((50, 64)) + 1)
    made((8, 8)).fit(np.ones((2, 64)))


class AnySize(DirectionFeatures):
    """scikit-learn's checks bring data of many widths: one row of pixels each."""

    def _plan(self, n_features, dtype):
        self.shape, shape = (1, n_features), self.shape
        try:
            return super()._plan(n_features, dtype)
        finally:
            self.shape = shape


@parametrize_with_checks([AnySize(grid=1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def slow_deskew(image):
    h, w = image.shape
    r, c = np.mgrid[:h, :w]
    mean_r, mean_c = (image * r).sum() / image.sum(), (image * c).sum() / image.sum()
    slant = (image * (r - mean_r) * (c - mean_c)).sum()
    slant /= (image * (r - mean_r) ** 2).sum()
    slant = np.clip(slant, -1, 1)
    out = np.zeros_like(image)
    for i in range(h):
        at = np.arange(w) + slant * (i - mean_r)
        out[i] = np.interp(at, np.arange(-1, w + 1), np.r_[0, image[i], 0], 0, 0)
    return out


def test_deskew_against_the_formula():
    images = np.random.default_rng(0).random((20, 6, 9))
    found = Deskew((6, 9)).fit_transform(images.reshape(20, -1)).reshape(20, 6, 9)
    np.testing.assert_allclose(found, [slow_deskew(x) for x in images], atol=1e-12)


def test_deskew_keeps_the_upright_and_the_blank():
    bar = np.zeros((7, 7))
    bar[:, 3] = 1
    X = np.stack([bar.ravel(), np.zeros(49), np.eye(7)[0].repeat(7)])
    np.testing.assert_allclose(Deskew((7, 7)).fit_transform(X)[:2], X[:2], atol=1e-12)
    huge = Deskew((7, 7)).fit_transform(X * 1e59)
    np.testing.assert_allclose(huge[0], X[0] * 1e59, rtol=1e-12)
    with_ground = Deskew((7, 7), background=-1.0).fit_transform(X[:1] - 1)
    np.testing.assert_allclose(with_ground, X[:1] - 1, atol=1e-12)


def slow_resize(image, q):
    """Upright ink in the middle, its spreads nearer to a fifth of the sides."""
    (h, w), total = image.shape, image.sum()
    r, c = np.arange(h)[:, None], np.arange(w)
    mean_r, mean_c = (image * r).sum() / total, (image * c).sum() / total
    slant = (image * (r - mean_r) * (c - mean_c)).sum()
    slant = np.clip(slant / (image * (r - mean_r) ** 2).sum(), -1, 1)
    down = np.sqrt((image * (r - mean_r) ** 2).sum() / total)
    beside = c - mean_c - slant * (r - mean_r)
    along = np.sqrt((image * beside**2).sum() / total)
    down, along = (max(s, 1 / 3) ** q for s in (5 * down / h, 5 * along / w))
    padded, out = np.pad(image, 1), np.zeros_like(image)
    between = RegularGridInterpolator(
        (np.arange(-1, h + 1), np.arange(-1, w + 1)), padded, "linear", False, 0.0
    )
    for i, j in np.ndindex(h, w):
        at_r = mean_r + down * (i - (h - 1) / 2)
        at_c = mean_c + along * (j - (w - 1) / 2) + slant * (at_r - mean_r)
        out[i, j] = between((at_r, at_c)).item()
    return out


@pytest.mark.parametrize("resize", [0.3, 1.0])
def test_resizing_against_the_formula(resize):
    images = np.random.default_rng(1).random((8, 7, 10)) ** 4
    images[0, :, :3] = images[1, 4:] = 0
    # A bar, which stays one.
    images[2], images[2, :, 4] = 0, 1
    found = Deskew((7, 10), resize=resize).fit_transform(images.reshape(8, -1))
    slow = [slow_resize(image, resize) for image in images]
    np.testing.assert_allclose(found.reshape(8, 7, 10), slow, atol=1e-12)


def test_resizing_makes_sizes_and_places_alike():
    r, c = np.indices((28, 28))
    blots = [
        np.exp(-((r - a) ** 2) / 2 / s**2 - (c - b) ** 2 / 2 / t**2)
        for a, b, s, t in [(10, 17, 2, 3), (15, 12, 3, 4), (13.5, 13.5, 5.6, 5.6)]
    ]
    X = np.stack(blots).reshape(3, -1)
    far = [np.abs(one - one[2]).max() for one in (X, Deskew((28, 28), resize=1.0)
                                                  .fit_transform(X))]  # fmt: skip
    assert far[1] < 0.1 * far[0]


def test_resizing_keeps_the_blank_and_channels_together():
    X = np.random.default_rng(2).random((3, 5, 6))
    X[1] = 0
    twice = np.repeat(X[..., None], 2, axis=3).reshape(3, -1)
    one = Deskew((5, 6), resize=0.5, background=1.0).fit_transform(X.reshape(3, -1) + 1)
    np.testing.assert_array_equal(one[1], np.ones(30))
    both = Deskew((5, 6, 2), resize=0.5, background=1.0).fit_transform(twice + 1.0)
    np.testing.assert_allclose(both.reshape(3, 30, 2)[..., 1], one, rtol=1e-12)


def test_deskew_names_what_is_wrong():
    with pytest.raises(ValueError, match="resize must be"):
        Deskew((8, 8), resize=1.5).fit(np.ones((1, 64)))
    with pytest.raises(ValueError, match="64 features could be"):
        Deskew().fit(np.ones((1, 64)))
    with pytest.raises(ValueError, match="background must be"):
        Deskew((8, 8), background=float("nan")).fit(np.ones((1, 64)))


def test_tangents_of_features_bring_moved_images_together():
    X = load_digits().data[:40]
    T = ImageTangents((8, 8), "x_shift").tangents(X)
    model = DirectionFeatures((8, 8)).fit(X)
    F, moved = model.transform(X), model.transform(X + 0.01 * T[:, 0])
    pushed = 0.01 * model.jvp(X, T)[:, 0]
    left = np.linalg.norm(moved - F - pushed, axis=1)
    assert np.median(left / np.linalg.norm(moved - F, axis=1)) < 0.3
