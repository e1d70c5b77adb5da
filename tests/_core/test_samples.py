import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError

from widemargin import (
    GLVQClassifier,
    MaxMarginClassifier,
    TangentKNeighborsClassifier,
)
from widemargin._core.checks import check_background, is_plain
from widemargin._core.duplicates import duplicate_groups
from widemargin._core.samples import check_samples, check_weights, check_X
from widemargin.metrics import tangent_distances
from widemargin.tangents import ImageTangents


class Fitted(GLVQClassifier):
    n_features_in_ = 2


class InRows(Fitted):
    _memory_order = "C"


@pytest.mark.parametrize(
    "X",
    [
        [[0.0, 1.0]],
        np.zeros((1, 2), int),
        np.zeros((1, 2), ">f8"),
        np.zeros((1, 2), np.float16),
        np.zeros(2),
        np.zeros((0, 2)),
        np.array([[np.nan, 0.0]]),
        np.array([[np.inf, 0.0]], np.float32),
        np.zeros((1, 2)).view(np.memmap),
    ],
    ids=lambda X: getattr(X, "dtype", type(X)),
)
def test_only_what_a_check_would_return_is_plain(X):
    assert not is_plain(X)


def test_plain_samples_are_returned_as_they_are():
    for dtype in (np.float32, np.float64):
        X = np.ones((3, 2), dtype)
        assert check_X(Fitted(), X) is X
        assert check_X(InRows(), X) is X
        across = np.asfortranarray(X)
        assert check_X(Fitted(), across) is across
        assert check_X(InRows(), across).flags.c_contiguous


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("labels", [int, str, bool, np.uint8])
def test_plain_samples_of_a_fit_are_those_of_any_check(monkeypatch, labels, order):
    rng = np.random.default_rng(0)
    X = np.array(rng.normal(size=(30, 3)), order=order)
    y = rng.permutation(np.arange(30) % 2).astype(labels)
    plain = GLVQClassifier()
    plain.feature_names_in_ = np.array(["a", "b", "c"], object)
    fast = check_samples(plain, X, y)
    monkeypatch.setattr("widemargin._core.samples.is_plain", lambda *_: False)
    slow = check_samples(GLVQClassifier(), X, y)
    assert fast.X.flags.c_contiguous
    assert (fast.X == slow.X).all()
    assert (fast.codes == slow.codes).all()
    assert (fast.classes == slow.classes).all()
    assert plain.n_features_in_ == 3
    assert not hasattr(plain, "feature_names_in_")


def test_plain_labels_are_refused_and_warned_of_as_ever():
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.warns(UserWarning, match="could represent a regression"):
        check_samples(GLVQClassifier(), X, np.arange(30))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        check_samples(GLVQClassifier(), X, np.arange(29) % 2)
    with pytest.raises(ValueError, match="Unknown label type"):
        check_samples(GLVQClassifier(), X, X[:, 0])
    with pytest.raises(ValueError, match="values of up to"):
        check_samples(GLVQClassifier(), 1e70 * X, np.arange(30) % 2)
    with pytest.raises(ValueError, match="values of up to"):
        check_samples(GLVQClassifier(), 1e-70 * X, np.arange(30) % 2)


def test_the_rest_is_refused_as_ever():
    with pytest.raises(ValueError, match="3 features"):
        check_X(Fitted(), np.ones((1, 3)))
    with config_context(assume_finite=False), pytest.raises(ValueError, match="NaN"):
        check_X(Fitted(), np.array([[np.nan, 0.0]]))
    with pytest.raises(NotFittedError):
        GLVQClassifier().predict(np.ones((1, 2)))


@pytest.mark.parametrize("weights", [np.zeros(4), np.ones((4, 1)), np.ones(3), "ab"])
def test_weights_that_cannot_be_are_refused_by_name(weights):
    with pytest.raises(ValueError, match=r"^sample_weight"):
        check_weights(weights, np.eye(4))


@pytest.mark.parametrize("background", [1e300, -3e38, np.nan, "white"])
def test_a_background_that_the_dtype_does_not_hold_is_refused(background):
    with pytest.raises(ValueError, match=r"^background must be"):
        check_background(background, np.eye(4, dtype=np.float32))


@pytest.mark.parametrize(
    "use",
    [
        lambda X, y: GLVQClassifier().fit(X, y),
        lambda X, y: GLVQClassifier().fit(X.reshape(6, 16), y).predict(X),
        lambda X, y: TangentKNeighborsClassifier().fit(X, y),
        lambda X, y: MaxMarginClassifier().fit(X, y),
        lambda X, y: ImageTangents((4, 4)).tangents(X),
        lambda X, y: tangent_distances(X, X, tangents="none"),
    ],
)
def test_images_that_are_no_rows_are_told_how_to_become_rows(use):
    images = np.arange(96.0).reshape(6, 4, 4)
    with pytest.raises(ValueError, match=r"^X must have .*X\.reshape\(len\(X\), -1\)"):
        use(images, [0, 1, 0, 1, 0, 1])


def test_complex_samples_are_refused_in_one_line():
    X = np.ones((50, 50)) + 0j
    for ask in (lambda: GLVQClassifier().fit(X, X[0]), lambda: tangent_distances(X)):
        with pytest.raises(ValueError, match=r"^X must hold .*not supp.*$"):
            ask()


def test_no_weights_are_ones_for_samples_of_any_kind():
    for rows in ([[1.0], [2.0]], ((1.0,), (2.0,)), np.eye(2)):
        assert check_weights(None, rows).tolist() == [1, 1]


def test_columns_of_text_are_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2, 3, 4], "colour": list("rgbr")})
    with pytest.raises(ValueError, match=r"column 'colour': .*OneHotEncoder"):
        GLVQClassifier().fit(frame, [0, 1, 0, 1])


def test_twins_of_tensors_are_those_of_arrays():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X = np.random.default_rng(0).integers(0, 3, size=(60, 3)).astype(float)
    codes = np.arange(60) % 2
    assert np.array_equal(
        duplicate_groups(torch.as_tensor(X), codes), duplicate_groups(X, codes)
    )


def test_copies_that_a_projection_has_rounded_are_twins():
    """As of sklearn's PCA, whose fit_transform rounds equal rows differently."""
    rng = np.random.RandomState(0)
    X, codes = rng.normal(size=(200, 6)) * 10.0 ** np.arange(6), rng.randint(0, 3, 200)
    rows = rng.randint(0, 200, 600)
    rounded = X[rows] * (1 + 2e-16 * rng.randint(-2, 3, (600, 6)))
    groups = duplicate_groups(rounded, codes[rows])
    first = np.unique(groups, return_index=True)[1]
    np.testing.assert_array_equal(rows, rows[first][groups])
    # A feature that tells rows apart does so beside a large one.
    X[:, 5] = 1e10
    X[:, 0] *= 1e-6
    assert len(np.unique(duplicate_groups(X[:, [0, 5]], np.zeros(200, int)))) == 200


def test_rounded_copies_do_not_choose_more_prototypes():
    from sklearn.decomposition import PCA

    from widemargin import GLVQClassifier

    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(150, 40)), np.arange(150) % 3
    X[:, :2] += 1.5 * np.eye(3)[y][:, :2]
    rows = np.repeat(np.arange(150), 5)
    Z = PCA(8, svd_solver="full").fit_transform(X[rows])
    assert len(np.unique(Z, axis=0)) > 150
    model = GLVQClassifier(random_state=0).fit(Z, y[rows])
    exact = np.unique(duplicate_groups(Z, y[rows]), return_index=True)[1]
    other = GLVQClassifier(random_state=0).fit(Z[exact][np.arange(150).repeat(5)],
                                               y[rows][exact].repeat(5))  # fmt: skip
    assert len(model.prototypes_) == len(other.prototypes_)
