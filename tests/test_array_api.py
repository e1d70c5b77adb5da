"""Tensors of torch: in, out, refused; models that change places.

The way of tensors on a device is tested on tensors in main memory: a switch makes the
library take them for such.
"""

import pickle
import sys
from functools import partial

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from widemargin import FewShotImageClassifier
from widemargin._core import arrays
from widemargin.linear import MarginPerceptron
from widemargin.metrics import (
    TangentMetric,
    image_distortion_distances,
    pseudo_2d_distortion_distances,
    tangent_alignment,
    tangent_distances,
    tangent_kernel,
)
from widemargin.neighbors import (
    DensityClassifier,
    TangentDensityClassifier,
    TangentKNeighborsClassifier,
)
from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    HSSClassifier,
    LVQClassifier,
    TVQClassifier,
)
from widemargin.svm import TangentSVC
from widemargin.tangents import (
    Bundle,
    Deskew,
    DirectionFeatures,
    GaussianSmoother,
    ImageAffine,
    ImageTangents,
    LearnedTangents,
    SignalTangents,
    TangentUnion,
    TransformTangents,
    image_shifts,
    orthonormalize,
)

torch = pytest.importorskip("torch", reason="torch is not installed")
torch.set_num_threads(1)

from widemargin._compute.device import search as device_search  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*have no tangents at all")
X, y = load_digits(return_X_y=True)
X = X / 16
IMAGES = ImageTangents((8, 8))
SHARED = np.eye(64)[:4] + 0.1


@pytest.fixture(autouse=True)
def dispatch():
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture
def on_device(monkeypatch):
    """Tensors as a GPU has them: NumPy cannot read them on behalf of the library."""
    monkeypatch.setattr(arrays, "EVERY_TENSOR_IS_ON_A_DEVICE", True)
    read = torch.Tensor.__array__

    def array(self, *args, **options):
        frame = sys._getframe(1)
        while frame.f_globals["__name__"].partition(".")[0] in LIBRARIES:
            frame = frame.f_back
        asking = frame.f_globals["__name__"]
        if asking.startswith("widemargin"):
            raise TypeError(f"{asking} takes a tensor on a device for a NumPy array")
        return read(self, *args, **options)

    monkeypatch.setattr(torch.Tensor, "__array__", array)


LIBRARIES = ("numpy", "scipy", "sklearn", "torch")


def tensor(array):
    return torch.tensor(array)


def brighter(X, p):
    return X * (1 + p)


def steeper(X, p):
    return X + p * X**2


GENERATORS = [
    IMAGES,
    ImageTangents((8, 8), directions=("brightness", "contrast", "blur", "thickness")),
    ImageTangents((4, 8, 2)),
    SignalTangents(("shift", "warp", "amplitude", "slope"), n_channels=2),
    TransformTangents([brighter, steeper]),
    LearnedTangents(3),
    LearnedTangents(3, per_class=True),
    LearnedTangents(3, local=True),
    TangentUnion([IMAGES, LearnedTangents(2)]),
]


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: type(g).__name__)
@pytest.mark.parametrize("labelled", [True, False])
def test_tangents_on_a_device(generator, labelled, on_device):
    labels = y[:90] if labelled or getattr(generator, "per_class", False) else None
    here = clone(generator).fit(X[:90], labels)
    there = clone(generator).fit(tensor(X[:90]), labels)
    labels = labels if labelled else None
    expected = here.bundle(X[:90], labels)
    found = there.bundle(tensor(X[:90]), labels)
    assert isinstance(found.frames, torch.Tensor)
    projections = [
        np.einsum("nld,nle->nde", F, F) for F in (found.frames.numpy(), expected.frames)
    ]
    np.testing.assert_allclose(*projections, atol=1e-7)
    raw = there.tangents(tensor(X[:9]), None if labels is None else labels[:9])
    assert raw.shape == (9, here.n_tangents, 64)
    for name in getattr(generator, "linear_directions", ()):
        for method in ("apply", "adjoint"):
            np.testing.assert_allclose(
                getattr(there, method)(name, tensor(X[:5])),
                getattr(here, method)(name, X[:5]),
                atol=1e-12,
            )
    again = pickle.loads(pickle.dumps(there))
    np.testing.assert_allclose(again.tangents(X[:9]), here.tangents(X[:9]), atol=1e-7)


def test_what_functions_return_is_brought_to_the_samples(on_device):
    def in_numpy(X, p):
        return brighter(X.numpy(), p)

    found = TransformTangents(in_numpy, step=0.1).tangents(tensor(X[:9]))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found[:, 0], X[:9], atol=1e-12)


def test_images_turned_on_a_device(on_device):
    for shape in ((8, 8), (4, 8, 2)):
        turned = ImageAffine(shape, rotation=0.3, down=1.2, background=0.5)
        np.testing.assert_allclose(turned(tensor(X)), turned(X), atol=1e-12)


def test_smoothing_and_frames_on_a_device(on_device):
    smoother = GaussianSmoother((8, 8), background=0.2).fit(tensor(X))
    expected = GaussianSmoother((8, 8), background=0.2).fit(X).transform(X)
    np.testing.assert_allclose(smoother.transform(tensor(X)), expected, atol=1e-12)
    T = np.random.default_rng(0).normal(size=(5, 3, 7))
    np.testing.assert_allclose(orthonormalize(tensor(T)), orthonormalize(T), atol=1e-12)


def test_bundles_on_a_device(on_device):
    here, there = IMAGES.bundle(X[:20]), IMAGES.bundle(tensor(X[:20]))
    assert there.ranks.tolist() == here.ranks.tolist()
    joined = Bundle.concatenate([there[:5], there[[5, 6]]])
    np.testing.assert_allclose(joined.frames, here[:7].frames, atol=1e-12)
    assert isinstance(pickle.loads(pickle.dumps(there)).points, np.ndarray)
    shared = Bundle.from_tangents(tensor(X[:20]), SHARED)
    assert shared.is_shared
    assert shared[3:5].is_shared
    assert pickle.loads(pickle.dumps(shared)).is_shared
    assert shared.to(None).is_shared
    with pytest.raises(ValueError, match="in one place"):
        Bundle(tensor(X[:20]), here.frames)


@pytest.mark.parametrize("sides", ["both", "query", "reference", "mean", "midpoint"])
@pytest.mark.parametrize("squared", [True, False])
def test_distances_on_a_device(sides, squared, on_device):
    options = {"tangents": IMAGES, "sides": sides, "squared": squared}
    expected = tangent_distances(X[:20], X[10:40], **options)
    found = tangent_distances(tensor(X[:20]), tensor(X[10:40]), **options)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    one = tangent_distances(tensor(X[:20]), **options)
    np.testing.assert_allclose(one, tangent_distances(X[:20], **options), atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "nd", "log", np.exp])
def test_kernels_on_a_device(kernel, on_device):
    ours = kernel if isinstance(kernel, str) else torch.exp
    options = {"tangents": SHARED, "sides": "mean"}
    found = tangent_kernel(tensor(X[:20]), kernel=ours, **options)
    expected = tangent_kernel(X[:20], kernel=kernel, **options)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("gradients", ["sobel", "normalised"])
@pytest.mark.parametrize(
    "metric",
    [partial(image_distortion_distances, penalty=0.3), pseudo_2d_distortion_distances],
)
def test_distortion_on_a_device(metric, gradients, on_device):
    options = {"shape": (8, 8), "background": 0.5, "gradients": gradients}
    found = metric(tensor(X[:9]), tensor(X[9:20]), **options)
    expected = metric(X[:9], X[9:20], **options)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("sides", ["both", "query", "reference", "mean"])
@pytest.mark.parametrize(
    ("algorithm", "dtype"),
    [
        ("exact", np.float64),
        ("exact", np.float32),
        ("brute", np.float64),
        ("rerank", np.float64),
    ],
)
@pytest.mark.parametrize("tangents", [IMAGES, SHARED, "none"], ids=["own", "one", "no"])
def test_neighbours_are_those_of_the_cpu(
    sides, algorithm, tangents, dtype, on_device, monkeypatch
):
    known, labels = X[:90].astype(dtype), y[:90]
    # Duplicates, blanks, ties: the first index wins on both.
    known[60:70], known[80:82] = known[:10], 0
    asked = np.concatenate([known[55:65], X[600:610]]).astype(dtype)
    knn = TangentKNeighborsClassifier(
        4, tangents=tangents, sides=sides, n_candidates=40
    )
    monkeypatch.setattr(device_search, "components_on_device", lambda _: 16)
    slow = "rerank" if algorithm == "rerank" else "brute"
    here = clone(knn).set_params(algorithm=slow).fit(known, labels)
    there = clone(knn).set_params(algorithm=algorithm)
    there.fit(tensor(known), tensor(labels))
    distances, indices = here.kneighbors(asked)
    found, places = there.kneighbors(tensor(asked))
    atol = 2e-6 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(found, distances, atol=atol)
    if dtype == np.float64:
        np.testing.assert_array_equal(places, indices)
    np.testing.assert_array_equal(there.predict(tensor(asked)), here.predict(asked))
    here.set_params(n_neighbors=1).fit(known, labels)
    there.set_params(n_neighbors=1).fit(tensor(known), tensor(labels))
    for ask, more in (
        ("margins", (np.resize(labels, len(asked)),)),
        ("confidence", ()),
        ("decision_function", ()),
    ):
        # Of equal candidates at the edge either may be left out.
        if algorithm == "rerank" and ask != "confidence":
            continue
        found = getattr(there, ask)(tensor(asked), *more)
        np.testing.assert_allclose(found, getattr(here, ask)(asked, *more), atol=1e-5)


def test_no_candidate_is_missed_where_distances_are_products(on_device):
    """Classes without a candidate had a score of -1, on a device only."""
    knn = TangentKNeighborsClassifier(
        tangents="none", algorithm="rerank", n_candidates=2
    )
    expected = knn.fit(X[:99], y[:99]).decision_function(X[99:120])
    found = knn.fit(tensor(X[:99]), y[:99]).decision_function(tensor(X[99:120]))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-9)


def test_neighbours_of_the_training_samples_and_other_metrics(on_device):
    knn = TangentKNeighborsClassifier(2, tangents=IMAGES)
    here, there = (
        clone(knn).fit(X[:100], y[:100]),
        clone(knn).fit(tensor(X[:100]), y[:100]),
    )
    for found, expected in zip(there.kneighbors(), here.kneighbors(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)

    def distortion(X, Y):
        return image_distortion_distances(X, Y, shape=(8, 8))

    for algorithm in ("brute", "rerank"):
        knn = TangentKNeighborsClassifier(
            metric=distortion, algorithm=algorithm, n_candidates=9
        )
        here = clone(knn).fit(X[:60], y[:60])
        there = clone(knn).fit(tensor(X[:60]), tensor(y[:60]))
        np.testing.assert_allclose(
            there.confidence(tensor(X[90:99])), here.confidence(X[90:99]), atol=1e-9
        )


@pytest.mark.parametrize("settings", [{}, {"n_candidates": 9}])
@pytest.mark.parametrize("metric", ["distortion", "tangent"])
def test_densities_of_any_metric(settings, metric, on_device):
    metrics = {
        "distortion": partial(image_distortion_distances, shape=(8, 8)),
        "tangent": TangentMetric(IMAGES),
    }
    model = DensityClassifier(metric=metrics[metric], random_state=0, **settings)
    here = clone(model).fit(X[:60], y[:60])
    there = clone(model).fit(tensor(X[:60]), tensor(y[:60]))
    np.testing.assert_allclose(there.gamma_, here.gamma_)
    found = there.decision_function(tensor(X[90:99]))
    np.testing.assert_allclose(found, here.decision_function(X[90:99]), atol=1e-6)
    found = here.decision_function(tensor(X[90:99]))
    np.testing.assert_allclose(found, here.decision_function(X[90:99]), atol=1e-6)


def test_tangent_candidates_by_features_stay_on_the_cpu(on_device):
    knn = TangentKNeighborsClassifier(
        tangents=IMAGES, algorithm="rerank", candidate_transform=FunctionTransformer()
    )
    with pytest.raises(ValueError, match="works on the CPU only"):
        knn.fit(tensor(X[:60]), y[:60])
    knn.fit(X[:60], y[:60])
    with pytest.raises(ValueError, match="works on the CPU only"):
        knn.predict(tensor(X[60:70]))


def test_densities_on_a_device(on_device):
    density = TangentDensityClassifier(
        tangents=IMAGES, transformations=image_shifts((8, 8), diagonal=False),
        max_cv_samples=40, random_state=0,
    )  # fmt: skip
    weights = np.random.default_rng(0).uniform(size=90)
    here = clone(density).fit(X[:90], y[:90], weights)
    there = clone(density).fit(tensor(X[:90]), tensor(y[:90]), tensor(weights))
    assert there.gamma_ == pytest.approx(here.gamma_, rel=1e-6)
    np.testing.assert_allclose(
        there.decision_function(tensor(X[100:120])), here.decision_function(X[100:120]),
        rtol=1e-6, atol=1e-4,
    )  # fmt: skip


MODELS = [
    GLVQClassifier(2, max_iter=3, random_state=0),
    GLVQClassifier(init="means", prototypes_per_class=2, max_iter=2, random_state=0),
    GLVQClassifier(
        max_iter=4, scale="within_class_std", early_stopping=True, random_state=0
    ),
    GMLVQClassifier(n_components=8, max_iter=3, random_state=0),
    HSSClassifier(2, 4, max_iter=3, random_state=0),
    HSSClassifier(1, 4, sides="both", tangents=IMAGES, max_iter=2),
    TVQClassifier(1, 4, max_iter=4, random_state=0),
    TVQClassifier(2, 4, sides="both", tangents=IMAGES, max_iter=3, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_models_on_a_device(model, on_device):
    here = clone(model).fit(X[:200], y[:200])
    there = clone(model).fit(tensor(X[:200]), tensor(y[:200]))
    assert isinstance(there.prototypes_, torch.Tensor)
    # A model of the CPU asked about tensors, and the reverse, and one that was saved.
    expected = here.margins(X[300:400], y[300:400])
    found = here.margins(tensor(X[300:400]), tensor(y[300:400]))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    saved = pickle.loads(pickle.dumps(there))
    assert isinstance(saved.prototypes_, np.ndarray)
    np.testing.assert_allclose(
        saved.margins(X[300:400], y[300:400]),
        there.margins(tensor(X[300:400]), y[300:400]),
        atol=1e-9,
    )
    np.testing.assert_array_equal(
        there.predict(X[300:400]), there.predict(tensor(X[300:400]))
    )
    # Adam divides gradients by their size: where they are rounding, so are its steps.
    atol = 0.05 if "LVQ" in type(model).__name__ else 1e-6
    np.testing.assert_allclose(
        there.margins(tensor(X[300:400]), y[300:400]), expected, atol=atol
    )
    assert there.score(tensor(X), tensor(y)) == pytest.approx(
        here.score(X, y), abs=5e-3
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_batches_on_a_device(model, on_device):
    one, other = clone(model), clone(model)
    for rows in (slice(0, 150), slice(150, 300)):
        one.partial_fit(X[rows], y[rows], np.arange(10))
        other.partial_fit(tensor(X[rows]), tensor(y[rows]), np.arange(10))
    if "LVQ" in type(model).__name__:
        # Adam again: steps where gradients are rounding.
        agree = other.predict(tensor(X[:500])).numpy() == one.predict(X[:500])
        assert agree.mean() > 0.96
    else:
        np.testing.assert_allclose(other.prototypes_, one.prototypes_, atol=1e-6)


def test_a_pipeline_on_a_device(on_device):
    model = make_pipeline(
        GaussianSmoother((8, 8)), TangentKNeighborsClassifier(tangents=IMAGES)
    )
    here, there = (
        clone(model).fit(X[:200], y[:200]),
        model.fit(tensor(X[:200]), y[:200]),
    )
    answers = there.predict(tensor(X[200:300]))
    assert isinstance(answers, torch.Tensor)
    np.testing.assert_array_equal(answers, here.predict(X[200:300]))


def test_labels_that_are_text(on_device):
    names = np.array(list("abcdefghij"))[y]
    knn = TangentKNeighborsClassifier(tangents=IMAGES).fit(tensor(X[:99]), names[:99])
    assert knn.predict(tensor(X[:5])).tolist() == names[:5].tolist()
    assert knn.score(tensor(X[:5]), names[:5]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.half(), "too coarse"),
        (lambda X: X.bfloat16(), "too coarse"),
        (lambda X: X.requires_grad_(), "detach"),
        (lambda X: X.to_sparse(), "to_dense"),
        (lambda X: X.to(torch.complex64), "[Cc]omplex"),
        (lambda X: X / 0, "NaN|infinity"),
        (lambda X: X[0], "axes|2D|1D"),
        (lambda X: X[:0], "at least one|minimum of 1"),
        (lambda X: X[:, :5], "features"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_bad_tensors(change, message, there, monkeypatch):
    monkeypatch.setattr(arrays, "EVERY_TENSOR_IS_ON_A_DEVICE", there)
    wrong = change(torch.tensor(X[:30]))
    knn = TangentKNeighborsClassifier(tangents=IMAGES).fit(X[:30], y[:30])
    with pytest.raises((ValueError, TypeError), match=message):
        knn.predict(wrong)
    if message != "features":
        with pytest.raises((ValueError, TypeError), match=message):
            GLVQClassifier(max_iter=1).fit(wrong, y[: len(wrong)])


def test_integers_are_numbers(on_device):
    whole = torch.tensor(np.rint(X[:60] * 16).astype(int))
    model = TangentKNeighborsClassifier(tangents=IMAGES).fit(whole, y[:60])
    assert model.score(whole, tensor(y[:60])) == 1


def test_places_are_not_mixed(on_device):
    with pytest.raises(ValueError, match="X on cpu and Y on the CPU: all must be in"):
        tangent_distances(tensor(X[:5]), X[5:9], tangents=IMAGES)
    with pytest.raises(ValueError, match="in one place"):
        tangent_distances(tensor(X[:5]), tangents=np.ones((5, 1, 64)))


@pytest.mark.parametrize("shape", [(-1, 64), (-1, 8, 8)])
def test_few_images_on_a_device(shape, on_device, monkeypatch):
    asked = []

    def spied(X, Y, **options):
        asked.append((type(X), type(Y)))
        return image_distortion_distances(X, Y, **options)

    monkeypatch.setattr("widemargin.fewshot.members.image_distortion_distances", spied)
    images = X.reshape(shape)
    here = FewShotImageClassifier(members=("distortion", "pixels", "discriminant"))
    there = clone(here).fit(tensor(images[:60]), tensor(y[:60]))
    here.fit(images[:60], y[:60])
    assert isinstance(there.weights_, torch.Tensor)
    new = tensor(images[300:400])
    for model in (here, there):
        found = model.predict_proba(new)
        assert isinstance(found, torch.Tensor)
        expected = here.predict_proba(images[300:400])
        np.testing.assert_allclose(found, expected, atol=1e-8)
    assert asked
    assert all(kinds == (torch.Tensor, torch.Tensor) for kinds in asked)
    assert there.suggest(new, 3).tolist() == here.suggest(images[300:400], 3).tolist()
    np.testing.assert_array_equal(
        there.nearest(new).rows, here.nearest(images[300:400]).rows
    )
    more = clone(here).fit(images[:50], y[:50])
    more.add_samples(tensor(images[50:60]), tensor(y[50:60]))
    np.testing.assert_allclose(more.predict_proba(images[300:400]), expected, atol=1e-8)


def test_what_stays_on_the_cpu_says_so(on_device):
    for model in (TangentSVC(tangents=IMAGES), LVQClassifier(), MarginPerceptron()):
        with pytest.raises(ValueError, match="works on the CPU only; pass"):
            model.fit(tensor(X[:50]), tensor(y[:50]))
        assert not model.__sklearn_tags__().array_api_support
    for step in (Deskew((8, 8)), DirectionFeatures((8, 8))):
        with pytest.raises(ValueError, match="fit works on the CPU only; pass"):
            step.fit(tensor(X[:50]))
    with pytest.raises(ValueError, match=r"works on the CPU only; pass X.cpu\(\)"):
        tangent_alignment(tensor(X[:2]), tensor(X[2:4]), tangents=IMAGES)
    knn = TangentKNeighborsClassifier(tangents=IMAGES).fit(X[:50], y[:50])
    svc = GLVQClassifier(max_iter=1).fit(X[:50], y[:50])
    with pytest.raises(ValueError, match="certified_radius works on the CPU only"):
        svc.certified_radius(tensor(X[:5]))
    assert knn.predict(tensor(X[:5])).tolist() == y[:5].tolist()


@pytest.mark.parametrize(
    "model", [GLVQClassifier(max_iter=3), GMLVQClassifier(max_iter=3), TVQClassifier(1)]
)
def test_probabilities_on_a_device(model, on_device):
    model.set_params(random_state=0).fit(X[:200], y[:200])
    found = model.predict_proba(tensor(X[200:260]))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found, model.predict_proba(X[200:260]), atol=1e-5)


def test_what_may_vary_decides_where_models_may_be():
    assert HSSClassifier(tangents=IMAGES).__sklearn_tags__().array_api_support
    generator = TransformTangents(lambda image, size: image, 0.1)
    generator.device_methods = ()
    assert not HSSClassifier(tangents=generator).__sklearn_tags__().array_api_support


class Cupy:
    """Enough of CuPy: arrays that NumPy cannot read, around tensors."""

    __name__ = "cupy"

    class ndarray:
        def __init__(self, values):
            self.values = torch.as_tensor(values)
            self.shape, self.dtype, self.device = values.shape, values.dtype, "gpu"

        def get(self):
            return self.values.numpy()

        def __array__(self, *args, **options):
            raise TypeError("Implicit conversion to a NumPy array is not allowed.")

        def __dlpack__(self, **options):
            return self.values.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

        def __len__(self):
            return len(self.values)

    def asarray(self, values, device=None):
        return self.ndarray(values)

    from_dlpack = asarray


CUPY = Cupy()


def test_arrays_of_cupy_are_tensors(on_device, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", CUPY)
    known = arrays.get_namespace_and_device

    def namespace(array):
        ours = isinstance(array, Cupy.ndarray)
        return (CUPY, True, "gpu") if ours else known(array)

    monkeypatch.setattr(arrays, "get_namespace_and_device", namespace)
    here = GLVQClassifier(max_iter=3, random_state=0).fit(tensor(X[:200]), y[:200])
    there = GLVQClassifier(max_iter=3, random_state=0)
    there.fit(CUPY.asarray(X[:200]), CUPY.asarray(y[:200]))
    assert isinstance(there.prototypes_, Cupy.ndarray)
    np.testing.assert_array_equal(there.prototypes_.get(), here.prototypes_)
    asked = CUPY.asarray(X[200:250])
    for method in ("predict", "predict_proba"):
        found = getattr(there, method)(asked)
        assert isinstance(found, Cupy.ndarray)
        np.testing.assert_array_equal(
            found.get(), getattr(here, method)(tensor(X[200:250]))
        )
    assert there.score(asked, y[200:250]) == here.score(tensor(X[200:250]), y[200:250])
    found = tangent_distances(asked, tangents=IMAGES)
    expected = tangent_distances(tensor(X[200:250]), tangents=IMAGES)
    np.testing.assert_array_equal(found.get(), expected)
    assert pickle.loads(pickle.dumps(there)).predict(X[:3]).shape == (3,)
    with pytest.raises(ValueError, match="certified_radius works on the CPU only"):
        there.certified_radius(asked)
    with (
        sklearn.config_context(array_api_dispatch=False),
        pytest.raises(ValueError, match=r"X is an array of CuPy.*pass X.get\(\)"),
    ):
        here.predict(asked)


def test_without_dispatch(monkeypatch):
    knn = TangentKNeighborsClassifier(tangents=IMAGES)
    with sklearn.config_context(array_api_dispatch=False):
        knn.fit(tensor(X[:50]), tensor(y[:50]))
        assert isinstance(knn.predict(tensor(X[:5])), np.ndarray)
        meta = torch.empty((5, 64), device="meta")
        with pytest.raises(ValueError, match="array_api_dispatch=True"):
            knn.predict(meta)
        with pytest.raises(ValueError, match="array_api_dispatch=True"):
            tangent_distances(meta, tangents=IMAGES)
        with pytest.raises(ValueError, match="array_api_dispatch=True"):
            IMAGES.bundle(meta)


def test_a_failed_fit_keeps_the_model(on_device):
    model = GLVQClassifier(max_iter=1).fit(tensor(X[:50]), tensor(y[:50]))
    before = model.prototypes_
    with pytest.raises(ValueError, match="NaN"):
        model.fit(tensor(X[:50]) / 0, tensor(y[:50]))
    assert model.prototypes_ is before


def test_functions_of_samples_read_tensors_of_the_cpu():
    turn = ImageAffine((8, 8), rotation=0.1)
    found = turn(torch.from_numpy(X[:5]))
    np.testing.assert_array_equal(np.asarray(found), turn(X[:5]))


def test_divided_features_far_from_the_origin_on_a_device(on_device):
    rng = np.random.default_rng(0)
    far = (1e6 + rng.normal(size=(300, 3)) * [1, 3, 10]).astype(np.float32)
    labels = (far[:, 0] > 1e6).astype(int)
    model = GLVQClassifier(2, scale="within_class_std", max_iter=5, random_state=0)
    model.fit(far, labels)
    found = model.decision_function(tensor(far))
    # Differences of the stored numbers, in float64.
    x, p = far[:, None].astype(float), model.prototypes_[None].astype(float)
    D = (((x - p) / model.scale_.astype(float)) ** 2).sum(axis=2)
    zero, one = (D[:, model.prototype_labels_ == c].min(axis=1) for c in (0, 1))
    np.testing.assert_allclose(found, (zero - one) / (zero + one), atol=1e-5)
