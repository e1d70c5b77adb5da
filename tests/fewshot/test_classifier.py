"""Few labelled images in one line: choices, probabilities, bad input."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_sample_images
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import widemargin
from widemargin import FewShotImageClassifier, TangentDensityClassifier
from widemargin.fewshot.views import full_turns
from widemargin.tangents import DirectionFeatures, ImageTangents
from widemargin.tangents.image import ImageAffine

X, y = load_digits(return_X_y=True)


def few(n, start=0):
    """Rows of so many images of each digit."""
    each = [np.flatnonzero(y == c)[start : start + n] for c in range(10)]
    return np.concatenate(each)


def shapes(n, seed, side=20):
    """Crosses and rings of ink, slanted, of any size and place, on paper."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    r, c = np.indices((side, side))
    images = np.zeros((n, side, side))
    for i, code in enumerate(codes):
        middle, size = rng.uniform(8, 11, 2), rng.uniform(3, 5)
        down = r - middle[0]
        along = c - middle[1] - rng.uniform(-0.6, 0.6) * down
        ring = np.abs(np.hypot(down, along) - size)
        bars = np.minimum(np.abs(down), np.abs(along))
        bars = np.where(np.maximum(np.abs(down), np.abs(along)) < size, bars, 9)
        images[i] = np.clip(1.5 - (ring if code else bars), 0, 1)
    return images, np.array(["cross", "ring"])[codes]


def textures(n, seed, side=16):
    """Gratings of two directions, with noise; no paper anywhere."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    r, c = np.indices((side, side))
    angle = np.where(codes, 0.3, 1.2)[:, None, None]
    phase = rng.uniform(0, 6.3, (n, 1, 1))
    waves = np.sin(np.cos(angle) * r + np.sin(angle) * c + phase)
    return waves + rng.normal(size=waves.shape), codes


@pytest.mark.parametrize("n", [1, 3])
def test_ink_is_recognised(n):
    images, labels = shapes(2 * n, 0)
    model = FewShotImageClassifier().fit(images, labels)
    assert model.ink_
    assert model.shape_ == (20, 20, 1)
    assert model.score(*shapes(60, 1)) > 0.9


@pytest.mark.parametrize("n", [1, 4])
def test_what_is_no_ink_stays_as_it_is(n):
    images, labels = textures(2 * n, 0)
    model = FewShotImageClassifier().fit(images, labels)
    assert not model.ink_
    if n > 1:
        assert model.score(*textures(60, 1)) > 0.9


def test_better_than_a_plain_density():
    rows = few(4)
    new = np.setdiff1d(np.arange(len(y)), rows)[:500]
    plain = TangentDensityClassifier(tangents=ImageTangents((8, 8)))
    plain.fit(X[rows], y[rows])
    model = FewShotImageClassifier().fit(X[rows], y[rows])
    assert model.score(X[new], y[new]) > plain.score(X[new], y[new])


@pytest.mark.parametrize("n", [1, 2, 10])
def test_probabilities_are_about_right(n):
    # Of all writers: the first images of the set are by few.
    order = np.random.default_rng(0).permutation(len(y))
    rows = np.concatenate([order[y[order] == c][:n] for c in range(10)])
    new = np.setdiff1d(order, rows)[:600]
    P = FewShotImageClassifier().fit(X[rows], y[rows]).predict_proba(X[new])
    right = P.argmax(axis=1) == y[new]
    assert abs(P.max(axis=1).mean() - right.mean()) < {1: 0.15, 2: 0.2, 10: 0.05}[n]


def test_scenes_are_less_sure_than_things_on_one_ground():
    """With one image of a class, patches of photographs: two of five are right."""
    rng, patches, codes = np.random.default_rng(0), [], []
    for code, image in enumerate(load_sample_images().images):
        for corner in rng.integers(0, (200, 300), (4, 2)):
            for _ in range(31):
                r, c = corner + rng.integers(0, 100, 2)
                patches.append(image[r : r + 12, c : c + 12])
                codes.append(4 * code + len(codes) // 31 % 4)
    images, codes = np.array(patches) / 255, np.array(codes)
    first = np.arange(0, len(codes), 31)
    model = FewShotImageClassifier().fit(images[first], codes[first])
    new = np.setdiff1d(np.arange(len(codes)), first)
    right = model.score(images[new], codes[new])
    sure = model.predict_proba(images[new]).max(axis=1).mean()
    assert right < 0.6
    assert abs(sure - right) < 0.15
    shifted = FewShotImageClassifier().fit(*shapes(2, 0))
    assert shifted.temperature_ < model.temperature_


def test_light_paper_and_units_do_not_matter():
    images, labels = shapes(10, 0)
    new = shapes(30, 1)[0]
    model = FewShotImageClassifier().fit(images, labels)
    light = FewShotImageClassifier().fit(255 - 255 * images, labels)
    np.testing.assert_allclose(
        light.decision_function(255 - 255 * new),
        model.decision_function(new),
        rtol=1e-5,
        atol=1e-8,
    )


def test_rows_and_images_are_the_same():
    images, labels = shapes(10, 0)
    model = FewShotImageClassifier().fit(images, labels)
    rows = FewShotImageClassifier((20, 20)).fit(images.reshape(10, -1), labels)
    new = shapes(8, 1)[0]
    expected = model.predict_proba(new)
    np.testing.assert_array_equal(rows.predict_proba(new.reshape(8, -1)), expected)
    np.testing.assert_array_equal(model.predict_proba(new[..., None]), expected)


def test_colours():
    rng = np.random.default_rng(0)
    codes = np.arange(40) % 2
    images = rng.random((40, 12, 12, 3))
    # Bars of one colour or the other, which are alike in grey.
    for i, code in enumerate(codes):
        at = rng.integers(0, 8)
        images[i, :, at : at + 4, code] += 1.0
    model = FewShotImageClassifier().fit(images[:20], codes[:20])
    assert model.shape_ == (12, 12, 3)
    assert not model.ink_
    assert model.score(images[20:], codes[20:]) > 0.8


def spots(n, seed):
    """Spots whose colour is the class: shapes and edges say nothing."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 3
    images = np.repeat(rng.random((n, 1, 1, 3)), 12, axis=1).repeat(12, axis=2)
    for image, code in zip(images, codes, strict=True):
        top, left = rng.integers(1, 7, 2)
        image[top : top + 4, left : left + 4] = 0.3 * rng.random(3) + np.eye(3)[code]
    return images + 0.1 * rng.normal(size=images.shape), codes


def test_members_that_know_nothing_count_little():
    model = FewShotImageClassifier().fit(*spots(36, 0))
    weights = dict(zip(model.members_, model.weights_, strict=True))
    of_values = weights.get("values", 0) + weights.get("discriminant_values", 0)
    assert of_values > 0.6 * model.weights_.sum()
    alone = FewShotImageClassifier(members=("values",)).fit(*spots(36, 0))
    asked = spots(150, 1)
    assert model.score(*asked) > alone.score(*asked)


def test_discriminants_need_two_images_of_a_class():
    images, codes = spots(3, 0)
    members = FewShotImageClassifier().fit(images, codes).members_
    assert not any("discriminant" in name for name in members)
    with pytest.raises(ValueError, match="needs a class with two images"):
        FewShotImageClassifier(members=("discriminant",)).fit(images, codes)


@pytest.mark.filterwarnings("ignore:Classes with one")
def test_samples_that_are_added_count_as_if_they_had_been_there():
    rows, more = few(2), few(2, 2)[:9]
    weights = np.linspace(0.5, 2, len(rows) + len(more))
    every = np.concatenate([rows, more])
    whole = FewShotImageClassifier().fit(X[every], y[every], weights)
    model = FewShotImageClassifier().fit(X[rows], y[rows], weights[: len(rows)])
    model.add_samples(X[more], y[more], weights[len(rows) :])
    np.testing.assert_allclose(
        model.predict_proba(X[:50]), whole.predict_proba(X[:50]), atol=1e-12
    )
    assert model.shape == "auto"
    for shape in ((1, 8, 8), (1, 8, 8, 1)):
        model.add_samples(X[-2:-1].reshape(shape), [12])
    model.add_samples(X[-1:], [11])
    assert 11 in model.classes_


def test_a_copy_of_a_sample_counts_as_its_weight():
    rows = few(3)
    twice = np.concatenate([rows, rows[:7]])
    weights = 1.0 + (np.arange(len(rows)) < 7)
    heavy = FewShotImageClassifier().fit(X[rows], y[rows], weights)
    model = FewShotImageClassifier().fit(X[twice], y[twice])
    np.testing.assert_allclose(
        model.predict_proba(X[:40]), heavy.predict_proba(X[:40]), atol=1e-9
    )


def test_threads_and_chunks_change_nothing(monkeypatch):
    rows = few(3)
    model = FewShotImageClassifier().fit(X[rows], y[rows])
    expected = model.predict_proba(X[:100])
    threads = FewShotImageClassifier(n_jobs=2).fit(X[rows], y[rows])
    np.testing.assert_array_equal(threads.predict_proba(X[:100]), expected)
    monkeypatch.setattr("widemargin.fewshot.classifier.CHUNK", 7)
    np.testing.assert_allclose(model.predict_proba(X[:100]), expected, atol=1e-10)


def test_parts_can_be_exchanged(tmp_path):
    rows = few(3)

    def squares(A, B):
        return ((A[:, None] - B) ** 2).sum(axis=2)

    model = FewShotImageClassifier(
        features=make_pipeline(DirectionFeatures((8, 8)), PCA(10)),
        metric=squares,
        transformations=(),
        members=("distortion", "features"),
        ink=False,
    ).fit(X[rows], y[rows])
    assert model.members_ == ("distortion", "features")
    assert model.score(X[300:500], y[300:500]) > 0.7
    model = FewShotImageClassifier().fit(X[rows], y[rows])
    widemargin.save(model, tmp_path / "model.skops")
    again = widemargin.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(
        again.predict_proba(X[:9]), model.predict_proba(X[:9])
    )


def test_images_of_other_sizes():
    images, labels = shapes(4, 0)
    with pytest.raises(ValueError, match=r"images of one size; got .*\(20, 20\)"):
        FewShotImageClassifier().fit([*images, np.zeros((9, 9))], [*labels, "ring"])
    with pytest.raises(ValueError, match="X holds images of shape"):
        FewShotImageClassifier((10, 40)).fit(images, labels)
    model = FewShotImageClassifier().fit(images, labels)
    with pytest.raises(ValueError, match="features"):
        model.predict(np.zeros((1, 10, 10)))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="class"):
        FewShotImageClassifier().fit(X[:3], [0, 0, 0])


def test_one_image_of_a_class_beside_many():
    rows = np.concatenate([few(5)[:45], [np.flatnonzero(y == 9)[0]]])
    with pytest.warns(UserWarning, match=r"one distinct image each: 9\. They are kept"):
        model = FewShotImageClassifier().fit(X[rows], y[rows])
    asked = np.flatnonzero(y == 9)[1:60]
    assert model.score(X[asked], y[asked]) > 0.1


def test_blank_images_and_two_labels_are_told():
    images, labels = shapes(8, 0)
    images[3] = 0
    with pytest.warns(UserWarning, match="1 of the images are blank"):
        FewShotImageClassifier().fit(images, labels)
    images[3] = images[4]
    with pytest.warns(UserWarning, match="two labels"):
        model = FewShotImageClassifier().fit(images, labels)
    P = model.predict_proba(images[4:5])
    assert P.max() < 0.9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"members": "all"}, "members must be"),
        ({"members": ("pixel",)}, "members must be"),
        ({"metric": "euclidean"}, "metric"),
        ({"features": 3}, "features must be None"),
        ({"transformations": "some"}, "transformations"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"ink": "yes"}, "ink"),
        ({"shape": (3, 3)}, "shape="),
    ],
)
def test_parameters_are_checked(settings, words):
    with pytest.raises(ValueError, match=words):
        FewShotImageClassifier(**settings).fit(X[:30], y[:30])


def test_distortion_needs_images():
    with pytest.raises(ValueError, match="needs images"):
        FewShotImageClassifier(members=("distortion",)).fit(X[:30, :7], y[:30])


def test_suggestions_are_unsure_and_not_alike():
    rows = few(2)
    model = FewShotImageClassifier().fit(X[rows], y[rows])
    pool = np.setdiff1d(np.arange(400), rows)
    # Every image of the pool is there twice: one of each pair is enough.
    twice = np.concatenate([X[pool], X[pool]])
    found = model.suggest(twice, 12)
    assert len(np.unique(found % len(pool))) == 12
    P = np.sort(model.predict_proba(X[pool]), axis=1)
    gaps = P[:, -1] - P[:, -2]
    assert gaps[found[0] % len(pool)] == gaps.min()
    assert gaps[found % len(pool)].mean() < np.quantile(gaps, 0.3)
    assert sorted(model.suggest(X[:3], 9)) == [0, 1, 2]
    with pytest.raises(ValueError, match="n must be"):
        model.suggest(X[:3], 0)


@pytest.mark.filterwarnings("ignore:Classes with one")
def test_labels_that_are_asked_for_are_worth_more():
    order = np.random.default_rng(0).permutation(len(y))
    pool, new = order[:600], order[600:1000]
    first = [np.flatnonzero(y[pool] == c)[0] for c in range(10)]
    errors = []
    for clever in (True, False):
        rows = list(first)
        for _ in range(3):
            model = FewShotImageClassifier(members=("features",), ink=False)
            model.fit(X[pool][rows], y[pool][rows])
            rest = np.setdiff1d(np.arange(600), rows)
            asked = model.suggest(X[pool][rest], 10) if clever else slice(10)
            rows += rest[asked].tolist()
        model.fit(X[pool][rows], y[pool][rows])
        errors.append(1 - model.score(X[new], y[new]))
    assert errors[0] < errors[1]


def marks(n, seed, turn=False, about=False, side=20):
    """The letters F and L of ink, a little moved; turned by any angle, or mirrored."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    images = np.zeros((n, side, side))
    for image, code in zip(images, codes, strict=True):
        top, left = rng.integers(3, 5), rng.integers(6, 8)
        image[top : top + 12, left : left + 2] = 1
        for row in (top, top + 5) if code else (top + 10,):
            image[row : row + 2, left : left + 7] = 1
        if about:
            image[:] = image[:, ::-1]
        if turn:
            turned = ImageAffine((side, side), rng.uniform(0, 2 * np.pi))
            image[:] = turned(image.reshape(1, -1)).reshape(side, side)
    return images, np.array(["L", "F"])[codes]


@pytest.mark.parametrize("n", [1, 4])
def test_full_circles(n):
    images, labels = marks(2 * n, 0)
    asked = marks(60, 1, turn=True)
    model = FewShotImageClassifier(rotations="full").fit(images, labels)
    assert not model.ink_
    assert model.score(*asked) > 0.95
    assert FewShotImageClassifier().fit(images, labels).score(*asked) < 0.9
    with pytest.raises(ValueError, match="ink must be"):
        FewShotImageClassifier(rotations="full", ink=True).fit(images, labels)


def test_the_first_turns_are_spread_out():
    turns = [0.0, *(turn.rotation for turn in full_turns((8, 8)))]
    quarters = np.round(np.array(turns) / (2 * np.pi) * 24).astype(int)
    assert sorted(quarters) == list(range(24))
    assert quarters[:4].tolist() == [0, 12, 6, 18]


def test_mirror_images():
    images, labels = marks(6, 0)
    asked = marks(30, 1, about=True)
    model = FewShotImageClassifier(mirror=True).fit(images, labels)
    assert model.score(*asked) == 1.0
    view = next(iter(model._fitted_members.values())).view
    first = view.images[:6].reshape(6, 20, 20)
    second = view.images[6:12].reshape(6, 20, 20)
    np.testing.assert_array_equal(second, first[:, :, ::-1])


def test_the_nearest_labelled_image():
    images, labels = shapes(12, 0)
    model = FewShotImageClassifier(ink=True, transformations=()).fit(images, labels)
    found = model.nearest(images)
    assert found.rows.tolist() == list(range(12))
    assert found.labels.tolist() == labels.tolist()
    np.testing.assert_array_equal(found.seen, found.copies)
    assert found.seen.shape == (12, 20, 20)
    turned = ImageAffine((20, 20), 0.15)(images.reshape(12, -1))
    model = FewShotImageClassifier(ink=False, members=("features",))
    found = model.fit(images, labels).nearest(turned)
    assert (found.rows == np.arange(12)).mean() > 0.8
    # The copy fits better than the image itself.
    seen = found.seen[found.rows == np.arange(12)]
    copies = found.copies[found.rows == np.arange(12)]
    given = images[found.rows == np.arange(12)]
    assert ((seen - copies) ** 2).sum() < 0.5 * ((seen - given) ** 2).sum()
    with pytest.raises(ValueError, match="no copies"):
        FewShotImageClassifier(members=("pixels",)).fit(images, labels).nearest(images)
