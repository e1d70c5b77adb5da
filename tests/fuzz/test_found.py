"""What the fuzzer found, one call for each kind: refused by name, or answered."""

import pickle
from dataclasses import replace
from fractions import Fraction
from functools import cache

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.contract.registry import make

import widemargin
from widemargin import inspection, margins, metrics, tangents
from widemargin._core.left_out import _right_share, _with_own
from widemargin._core.temperature import LeftOut, fit_temperature
from widemargin.datasets import read_idx
from widemargin.export.agreement import Answers, compare, python_answers
from widemargin.hyperplanes import walks
from widemargin.linear import MarginPerceptron, MaxMarginClassifier
from widemargin.meta import (
    MarginReweightingClassifier,
    ProductClassifier,
    RejectingClassifier,
)
from widemargin.metrics import (
    TangentMetric,
    repair_spectrum,
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
    KernelLVQClassifier,
    LVQClassifier,
    MarginLVQClassifier,
    TDNeuronClassifier,
    TVQClassifier,
)
from widemargin.svm import (
    DDAGClassifier,
    InvariantHyperplaneSVC,
    JitteredSVC,
    TangentSVC,
    VirtualSVC,
)

matplotlib.use("Agg")
RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(12, 4)), np.arange(12) % 2
ROUNDS = [[0.1, 0.5], [0.2, 0.4]]
Predicted = inspection.MarginDistributionDisplay.from_predictions
Weights = inspection.SampleWeightDisplay.from_margins
Curves = inspection.TrainingCurveDisplay.from_estimator
ErrorReject = inspection.ErrorRejectDisplay.from_estimator


@cache
def fitted():
    return GLVQClassifier(max_iter=2, random_state=0).fit(X, y)


REFUSED = {
    "a name that is none": (lambda: tangents.as_bundle(X, X[:1], name=[1]), "name"),
    "smoothing beyond the image": (
        lambda: tangents.DirectionFeatures((2, 2), smoothing=1e300).fit(X),
        "smoothing",
    ),
    "a label that is infinite": (
        lambda: RejectingClassifier(
            fitted(), coverage=0.5, delta=None, reject_label=np.inf
        ).fit(X, y),
        "reject_label",
    ),
    "dates for a foreign classifier": (
        lambda: margins.confidence_of(
            LogisticRegression().fit(X, y), X.astype("datetime64[s]")
        ),
        "X holds what LogisticRegression",
    ),
    "weights beyond their dtype": (
        lambda: margins.margin_reweight(
            np.ones(2, np.float32), [0.0, 1.0], 0.5, sample_weight=[1e300, 1.0]
        ),
        "weights",
    ),
    "sides that are an array": (
        lambda: TangentMetric(sides=np.ones(2)).bundle(X),  # type: ignore[arg-type]
        "sides",
    ),
    "copies without number": (
        lambda: TVQClassifier(weight_gain=1e40).fit(X.astype(np.float32), y),
        "weight_gain must be",
    ),
    "a power without end": (
        lambda: TangentSVC(tangents="none", kernel="nd", gamma=1e40).fit(X, y),
        "gamma",
    ),
    "a polynomial without end": (
        lambda: JitteredSVC("poly", gamma=1e160, transformations=[]).fit(X, y),
        "X gives values of kernel='poly'",
    ),
    "bounds that are no numbers": (
        lambda: margins.perceptron_bounds(
            "standard", R=2.0, r=1.0, gamma_d=0.1, b=1e308
        ),
        "gamma_d",
    ),
    "a path that is none": (lambda: read_idx(3), "path"),  # type: ignore[arg-type]
    "a folder": (lambda: read_idx("."), "path"),
    "axes that are none": (lambda: Curves(fitted(), ax=[1]), "ax"),
    "keys that are none": (lambda: Curves(fitted(), keys=3), "keys"),
    "a curve's name": (lambda: Curves(fitted(), name={}), "name"),
    "no model": (lambda: Curves(None), "estimator"),
    "no model of weights": (
        lambda: inspection.SampleWeightDisplay.from_estimator(None),
        "estimator",
    ),
    "labels of another kind": (lambda: ErrorReject(fitted(), X, ["a"] * 12), "y must"),
    "labels of another number": (lambda: ErrorReject(fitted(), X, y[:3]), "y must"),
    "scores of another number": (lambda: Predicted([0, 1], [0.1, 0.2, 3]), "y_true"),
    "scores of one number": (lambda: Predicted([0, 1], 0.5), "y_score"),
    "theta of another kind": (lambda: Weights(ROUNDS, {}), "theta"),
    "rounds of another kind": (lambda: Weights(ROUNDS, 0.3, rounds=0.5), "rounds"),
    "rounds that are words": (lambda: Weights(ROUNDS, 0.3, rounds=["a"]), "rounds"),
    "no alignment": (
        lambda: inspection.AlignmentDisplay.from_alignment([1.0]),
        "alignment",
    ),
    "a prototype that is not there": (
        lambda: inspection.TangentDisplay.from_estimator(
            GLVQLike(), index=2, shape=(2, 2)
        ),
        "index",
    ),
    "words for a sample": (
        lambda: inspection.TangentDisplay.from_estimator(
            tangents.ImageTangents((2, 2)), ["a"] * 4
        ),
        "sample",
    ),
    "a kernel beyond float32": (
        lambda: InvariantHyperplaneSVC(kernel="poly", shrinkage=0.5).fit(
            np.full((6, 3), 1e7, np.float32), [0, 1] * 3
        ),
        "kernel",
    ),
    "sparse samples for a foreign classifier": (
        lambda: margins.confidence_of(
            KNeighborsClassifier(1, algorithm="kd_tree").fit(X, y), sparse.csr_array(X)
        ),
        "X holds what KNeighborsClassifier",
    ),
    "labels without an order": (
        lambda: tangents.LearnedTangents(1).fit(X[:2], np.array(["a", None], object)),
        "y holds",
    ),
    "a learning rate beyond all numbers": (
        lambda: MarginPerceptron(learning_rate=1e300, random_state=0).partial_fit(
            X * 1e9, y, classes=[0, 1]
        ),
        "X, sample_weight and",
    ),
    "a kernel that returns no number": (
        lambda: (
            MaxMarginClassifier(kernel=lambda a, b: a @ b.T)
            .fit(X[:3], [0, 1, 1])
            .predict(sparse.csr_array(X))
        ),
        "kernel",
    ),
    "a blur whose square is none": (
        lambda: tangents.DirectionFeatures((2, 2), blur=5e-324).fit(X),
        "blur",
    ),
    "tangents beyond float32": (
        lambda: (
            tangents.DirectionFeatures((2, 2))
            .fit(X.astype(np.float32))
            .jvp(X.astype(np.float32), np.full((12, 1, 4), 1e200))
        ),
        "tangents",
    ),
    "weights whose sums are none": (
        lambda: GLVQClassifier().fit(X, y, np.full(12, 1e301)),
        "sample_weight",
    ),
    "kernel values whose sums are none": (
        lambda: repair_spectrum(np.full((4, 4), 1e308)),
        "K has values",
    ),
    "numbers for models": (
        lambda: inspection.BoundDisplay.from_estimator([1.0], X, y, theta=0.1),
        "estimators",
    ),
}


def sqeuclidean(A, B):
    return pairwise_distances(A, B, metric="sqeuclidean")


class GLVQLike:
    prototypes_ = np.eye(4)[:2]
    tangents_ = np.ones((2, 1, 4))


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_by_name(kind):
    call, begins = REFUSED[kind]
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert str(caught.value).startswith(begins)


@pytest.mark.parametrize("rate", [1e150, 1e200, 1e300])
@pytest.mark.parametrize("learner", [GLVQClassifier, KernelLVQClassifier])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_steps_of_any_length_leave_a_model_with_finite_distances(learner, rate):
    model = learner(learning_rate=rate, max_iter=3, random_state=0).fit(X, y)
    assert np.isfinite(model.transform(X) if hasattr(model, "transform") else 0).all()
    assert np.isfinite(model.decision_function(X)).all()


def test_the_step_that_goes_too_far_is_not_taken():
    start = GLVQClassifier(max_iter=1, learning_rate=1e-300, random_state=0).fit(X, y)
    far = GLVQClassifier(max_iter=1, learning_rate=1e200, random_state=0)
    with pytest.warns(ConvergenceWarning, match="without finite squares"):
        far.fit(X, y)
    np.testing.assert_allclose(far.prototypes_, start.prototypes_, rtol=1e-12)


def test_nothing_is_certain_where_no_feature_counts():
    same = np.full((8, 3), -0.7, np.float32)
    model = GMLVQClassifier(metric="local", max_iter=2, random_state=0)
    model.fit(same, [2, 0, 0, 0, 1, 1, 2, 1])
    moved = same + np.array([1.0, 0, 2], np.float32)
    np.testing.assert_array_equal(model.certified_radius(moved), 0)


def test_shared_frames_are_as_orthonormal_as_the_points_are_precise():
    shared = np.array([[1.0, 1.0], [1.0, 0.0]], np.float32)
    D = tangent_distances(X[:, :2], X_tangents=shared, spring=0)
    np.testing.assert_allclose(D, 0, atol=1e-14)


@pytest.mark.parametrize("beta", [5e-324, 1e-300, 1e300])
@pytest.mark.parametrize(
    "loss",
    [margins.Hinge, margins.Ramp, margins.Exponential, margins.Sigmoid],
)
def test_losses_of_any_scale_are_numbers_of_the_dtype_of_the_margins(loss, beta):
    mu = np.array([-2.0, -0.5, 0.0, 0.5, 2.0], np.float32)
    for values in (loss(beta).value(mu), loss(beta).derivative(mu)):
        assert values.dtype == np.float32
        assert np.isfinite(values).all()


def test_a_far_plane_has_margins_that_are_numbers():
    x, one = np.full((1, 2), 0.35, np.float32), np.ones(1)
    far = margins.directional_margin(x, [1e-287, 0.0], 1.5, one)
    np.testing.assert_allclose(far, 1.0)
    low = margins.directional_margin(
        x, [1.0, 0.0], 1e300, one, intercept_scaling=1e-300
    )
    np.testing.assert_allclose(low, 1e-300, atol=1e-30)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_that_found_nothing_yet_claims_no_bound_on_the_margin():
    far = np.array([[1.1e14, 1.1e14], [1.08e14, 1.12e14], [1.08e14, 1.08e14]])
    model = MaxMarginClassifier(kernel=lambda a, b: a @ b.T, max_iter=1, tol=0.01)
    model.fit(far, [0, 1, 2])
    assert model.dual_coef_.size == 0
    np.testing.assert_array_equal(model.margin_upper_bound_, np.inf)
    np.testing.assert_array_equal(model.gap_, 1.0)


@pytest.mark.filterwarnings("ignore:. of . training samples have no tangents")
@pytest.mark.parametrize("n", range(2, 10))
def test_neighbours_of_any_number_with_tangents_of_their_own(n):
    model = TangentKNeighborsClassifier(
        tangents=tangents.LearnedTangents(1, local=True)
    )
    weights = np.arange(12) < n
    model.fit(X.astype(np.float32), y, sample_weight=weights)
    np.testing.assert_array_equal(model.predict(X[:n].astype(np.float32)), y[:n])


def test_a_spring_may_be_any_number():
    bundle = tangents.as_bundle(X, X[:1])
    D = TangentMetric(sides="mean", spring=10**20).squared_distances(bundle)
    np.testing.assert_allclose(D, TangentMetric().squared_distances(
        tangents.as_bundle(X, None)), atol=1e-12)  # fmt: skip


def test_a_kernel_as_narrow_as_can_be_is_zero_far_away():
    model = TangentSVC(gamma=1e300, random_state=0).fit(X, y)
    assert np.isfinite(model.decision_function(X + 1e4)).all()


def test_unions_make_tangents():
    union = tangents.TangentUnion([tangents.SignalTangents(("shift",))])
    assert union.tangents(X).shape == (12, 1, 4)


def test_a_guarantee_that_no_sample_can_keep_accepts_nothing():
    for error in (5e-324, 1e-300):
        threshold = margins.reject_threshold(
            y, y, np.arange(12.0), max_error=error, delta=0.05
        )
        assert threshold == np.inf


@pytest.mark.parametrize("power", [60, -60])
def test_weights_of_any_size_are_relative(power):
    w = np.arange(1.0, 13.0)
    models = [
        TVQClassifier(max_iter=2, random_state=0).fit(X, y, u) for u in
        (w, w * 2.0**power)
    ]  # fmt: skip
    np.testing.assert_array_equal(models[0].prototypes_, models[1].prototypes_)


def test_steps_of_a_transformation_of_large_float32_numbers():
    generator = tangents.TransformTangents([lambda x, p: x * (1 + p)])
    far = (X * 1e11).astype(np.float32)
    found = generator.fit(far).tangents(far)[:, 0]
    np.testing.assert_allclose(found, far, rtol=1e-2)


@pytest.mark.parametrize("scale", [2.0**-190, 2.0**190])
def test_steps_of_any_size_are_steps(scale):
    plain, scaled = (
        GLVQClassifier(max_iter=2, random_state=0).fit(X * u, y) for u in (1.0, scale)
    )
    np.testing.assert_allclose(scaled.prototypes_, plain.prototypes_ * scale, rtol=1e-6)


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e300])
def test_probabilities_of_any_temperature(temperature):
    model = GLVQClassifier(temperature=temperature, max_iter=2, random_state=0)
    shares = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_what_rounding_has_spread_is_no_unit():
    same = np.full((3, 1), 9.083968768555652e-9, np.float32)
    assert (
        GLVQClassifier(max_iter=2, random_state=0).fit(same, [0, 1, 0]).scale_ is None
    )


def test_all_are_mistakes_below_a_theta_beyond_the_dtype_of_the_margins():
    mu = np.array([-0.5, 0.2], np.float32)
    np.testing.assert_array_equal(margins.margin_reweight([1, 2], mu, 1e300), [2, 3])


@pytest.mark.parametrize("scale", [1e-59, 1.0, 1e59])
def test_sparse_samples_of_any_size_have_a_kernel(scale):
    model = DDAGClassifier().fit(sparse.csr_matrix(X * scale), y)
    assert np.isfinite(model.decision_function(sparse.csr_matrix(X * scale))).all()


def test_neighbours_in_float32_of_samples_beyond_it():
    model = TangentKNeighborsClassifier(
        tangents=tangents.LearnedTangents(1, local=True)
    )
    model.fit(X.astype(np.float32), y)
    assert set(model.predict(X * 3e38)) <= {0, 1}


def test_direction_features_too_soft_to_see_anything_are_zero():
    images = np.abs(X).astype(np.float32)
    features = tangents.DirectionFeatures((2, 2), eps=1e300).fit(images)
    assert np.isfinite(features.transform(images)).all()


@pytest.mark.filterwarnings("ignore:most training samples lie in the span")
def test_a_spring_so_weak_that_all_distances_are_rounding():
    model = TangentDensityClassifier(
        tangents=tangents.TransformTangents([lambda x, p: x * (1 + p)]),
        spring=5e-324, gamma="cv", random_state=0,
    )  # fmt: skip
    line = np.repeat(X[:6], 2, axis=0) * np.arange(1.0, 13.0)[:, None]
    model.fit(line, np.arange(12) // 2 % 2)
    assert np.isfinite(model.gamma_)


@pytest.mark.parametrize("label", [1e-300, 0.1, 300, -1e300])
def test_a_reject_label_stays_what_it_is(label):
    model = RejectingClassifier(fitted(), coverage=0.5, delta=None, reject_label=label)
    answers = model.fit(X, y.astype(bool)).predict(X)
    assert set(answers.tolist()) == {label, *answers[model.accepts(X)].tolist()}
    assert set(answers[model.accepts(X)].tolist()) <= {0, 1}
    assert not model.accepts(X).all()


def test_samples_without_features_are_refused_before_a_foreign_classifier_sees_them():
    pandas = pytest.importorskip("pandas")
    model = MarginReweightingClassifier(KNeighborsClassifier(1))
    with pytest.raises(ValueError, match=r"X has 0 feature"):
        model.fit(pandas.DataFrame(np.empty((8, 0))), np.arange(8) % 2)


def test_a_foreign_classifier_that_cannot_answer_is_named():
    model = MarginReweightingClassifier(LogisticRegression()).fit(X, y)
    dates = np.zeros(X.shape, "datetime64[s]")
    with pytest.raises(TypeError, match="X holds what LogisticRegression"):
        model.confidence(dates)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sides", ["both", "query", "mean"])
def test_a_spring_beyond_the_dtype_is_stiff(dtype, sides):
    points = X[:6].astype(dtype)
    frames = np.ones((1, points.shape[1]))
    found = tangent_distances(points, tangents=frames, sides=sides, spring=1e300)
    expected = pairwise_distances(points) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_no_radius_is_certified_that_answers_in_float32_do_not_have():
    rng = np.random.default_rng(0)
    far = (1e7 + rng.integers(2, size=(12, 4))).astype(np.float32)
    model = GLVQClassifier(max_iter=5, random_state=0).fit(far, np.arange(12) % 2)
    asked = rng.normal(size=(5, 4)).astype(np.float32)
    radius = model.certified_radius(asked)
    step = rng.normal(size=(200, 4))
    step *= 0.99 / np.linalg.norm(step, axis=1, keepdims=True)
    for row, r, answer in zip(asked, radius, model.predict(asked), strict=True):
        near = (row + r * step).astype(np.float32)
        assert (model.predict(near) == answer).all()


def test_a_penalty_that_leads_out_of_the_numbers_stops_the_training():
    line = X[:, :1].astype(np.float32)
    model = GMLVQClassifier(max_iter=5, random_state=0, regularization=1e20)
    with pytest.warns(ConvergenceWarning, match="without finite"):
        model.fit(line, y)
    assert np.isfinite(model.omega_).all()


@pytest.mark.parametrize("model", [
    MaxMarginClassifier(penalize_intercept=True), MaxMarginClassifier(),
    MaxMarginClassifier(kernel="rbf", penalize_intercept=True),
    MaxMarginClassifier(method="dynamic"), MarginPerceptron(max_iter=3),
])  # fmt: skip
@pytest.mark.parametrize("rho", [5e-324, 1e-200, 1e150, 1e300])
def test_a_height_beyond_the_samples_is_refused(model, rho):
    with pytest.raises(ValueError, match="intercept_scaling must be of the size"):
        clone(model).set_params(intercept_scaling=rho).fit(X, y)


def test_a_kernel_narrower_than_its_dtype_tells_equal_from_different():
    points = (1e11 * X[:6]).astype(np.float32)
    model = TangentSVC(tangents="none", gamma=1e300, C=1e9).fit(points, y[:6])
    np.testing.assert_array_equal(model.predict(points), y[:6])
    along = np.eye(4)[:1]
    found = tangent_kernel(points, tangents=along, gamma=1e300)
    np.testing.assert_array_equal(found, np.eye(6))


@pytest.mark.parametrize(
    ("rate", "scale", "dtype"),
    [(1e160, 1, float), (1e160, 1e58, float), (1e40, 1, np.float32)],
)
@pytest.mark.filterwarnings("ignore:learning_rate=.* diverges", "ignore:training met")
def test_a_step_beyond_the_floats_is_taken_back(rate, scale, dtype):
    model = TVQClassifier(
        learning_rate=rate, max_iter=5, class_weight="balanced", random_state=0
    )
    model.fit((scale * X[:10, :3]).astype(dtype), y[:10])
    assert np.isfinite(model.prototypes_).all()


def test_a_machine_without_supports_answers_samples_of_another_size():
    huge = np.full((8, 1), -5.7e58)
    model = TangentSVC(tangents="none", tol=1e300, random_state=0).fit(huge, y[:8])
    assert len(model.support_) == 0
    assert np.isfinite(model.decision_function([[26.0]])).all()


def test_a_unit_beside_which_every_margin_is_infinite():
    line = np.array([[10001.6], [9999.9], [9999.0], [10000.0], [10000.0]])
    codes = np.array([1, 1, 0, 0, 0])
    model = MarginLVQClassifier(2, margin_scale=5e-324, max_iter=5, random_state=0)
    found = model.fit(line, codes).support_weights(line, codes)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("scale", "dtype"), [(7.5e-59, float), (1e-11, np.float32)])
def test_slopes_of_units_beyond_their_dtype_are_the_largest_there_are(scale, dtype):
    bits = [[0, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 0, 0]]
    few, codes = (scale * np.array(bits)).astype(dtype), np.array([0, 0, 1, 1, 0])
    model = TDNeuronClassifier(
        max_iter=3, max_tangents=1, tol=1e-9, validation_fraction=1e-20, random_state=0
    )
    weights = [750880031.4632357, 0.316, 0.539, 0.326, 0.0085]
    model.fit(few, codes, sample_weight=weights)
    assert np.isfinite(model.slopes_).all()
    np.testing.assert_array_equal(model.predict(few), codes)


@pytest.mark.parametrize("what", ["a", {}, [1]])
@pytest.mark.parametrize("node", [LogisticRegression(), KNeighborsClassifier(1)])
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda node: MarginReweightingClassifier(node, random_state=0),
        lambda node: MarginReweightingClassifier(node, random_state=2),
        lambda node: RejectingClassifier(node, coverage=0.5, delta=None),
        lambda node: ProductClassifier([("one", node), ("two", node)]),
        DDAGClassifier,
    ],
)
@pytest.mark.parametrize("weights", [None, np.ones(12)])
def test_what_is_no_number_is_named_whoever_meets_it(wrapped, node, what, weights):
    given = X.astype(object)
    given[1, 1] = what
    told = {}
    if weights is not None and isinstance(node, LogisticRegression):
        told["sample_weight"] = weights
    with pytest.raises((TypeError, ValueError), match=r"X (must hold|holds what)"):
        wrapped(node).fit(given, y, **told)


def test_a_kernel_machine_without_supports_answers():
    model = MaxMarginClassifier(kernel=lambda a, b: a @ b.T, max_iter=1, tol=0.01)
    far = np.array([[1.1e14, 1.1e14], [1.08e14, 1.12e14], [1.08e14, 1.08e14]])
    with pytest.warns(ConvergenceWarning):
        model.fit(far, [0, 1, 2])
    assert len(model.support_) == 0
    assert np.isfinite(model.decision_function(far)).all()


def test_features_in_units_far_from_the_origin_have_the_nearest_prototype():
    rng = np.random.default_rng(0)
    P = rng.normal(size=(12, 3)) * [1, 7, 50] + 1e4
    P[0] += 1e7
    P, codes = P.astype(np.float32), np.arange(12) % 2
    model = LVQClassifier(
        algorithm="lvq1", init=P, init_labels=codes, max_iter=1, learning_rate=1e-30,
        scale="within_class_std",
    ).fit(P, codes)  # fmt: skip
    points, unit = model.prototypes_.astype(float), model.scale_.astype(float)
    first, second = points[rng.integers(1, 12, size=(2, 4000))]
    share = 0.5 + 1e-3 * rng.normal(size=(4000, 1))
    asked = (share * first + (1 - share) * second).astype(np.float32)
    d = (((asked[:, None].astype(float) - points) / unit) ** 2).sum(axis=2)
    expected = model.prototype_labels_[d.argmin(axis=1)]
    np.testing.assert_array_equal(model.predict(asked), expected)


def test_a_step_that_no_kernel_takes_may_have_any_size():
    shift = tangents.SignalTangents(("shift",))
    model = InvariantHyperplaneSVC(tangents=shift, step=1e300, random_state=0)
    assert np.isfinite(model.fit(X.astype(np.float32), y).decision_function(X)).all()


def test_a_spring_of_any_size_is_stiff():
    shift = tangents.SignalTangents(("shift",))
    model = TangentKNeighborsClassifier(1, tangents=shift, spring=1.7e308).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)


def test_copies_moved_beyond_the_floats_are_refused():
    shift = tangents.SignalTangents(("shift",))
    with pytest.raises(ValueError, match=r"X moved by step=1e\+300 has values"):
        VirtualSVC(tangents=shift, step=1e300).fit(X.astype(np.float32), y)


def test_a_smallest_gradient_that_vanishes_in_the_dtype():
    images = np.array([[0, 0, 0, 0], [1, 0, 1, 0]], np.float32)
    features = tangents.DirectionFeatures((2, 2, 1), eps=5e-324).fit(images)
    found = features.transform(images)
    assert not found[0].any()
    assert np.isfinite(found).all()
    assert found[1].any()


def test_a_step_that_vanishes_in_the_dtype_is_named():
    X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    along = tangents.SignalTangents(directions=("shift",))
    model = InvariantHyperplaneSVC(tangents=along, kernel="poly", step=1e-300)
    with pytest.raises(
        ValueError, match=r"^step must be of the size of samples in float32"
    ):
        model.fit(X, [0, 0, 0, 1, 1, 1])


def test_tangents_have_a_name():
    with pytest.raises(ValueError, match=r"^name must be"):
        tangents.as_bundle(np.eye(2), np.array([[np.nan, 0.0]]), name="")


def test_densities_far_away_are_those_of_the_differences():
    random = np.random.default_rng(0)
    X = random.normal(scale=100, size=(12, 2)).astype(np.float32)
    y = np.arange(12) % 2
    model = DensityClassifier(1.0).fit(X, y)
    Q = random.normal(scale=4e9, size=(200, 2)).astype(np.float32)
    found = model.decision_function(Q)
    assert_array_equal(
        found, np.concatenate([model.decision_function(q[None]) for q in Q])
    )
    # A log-odds of 1e11: the nearest of each class decide, in integers.
    x, q = (np.vectorize(Fraction, otypes=[object])(a.astype(float)) for a in (X, Q))
    d2 = ((x[None] - q[:, None]) ** 2).sum(axis=2)
    truth = (d2[:, y == 0].min(axis=1) - d2[:, y == 1].min(axis=1)).astype(float)
    # What float64 knows of a squared distance of 1e20.
    assert_allclose(found, truth, rtol=0, atol=1e6)
    assert np.median(np.abs(truth)) > 1e10


def test_densities_sharper_than_any_number():
    model = DensityClassifier(1e300).fit([[0.0], [1.0], [1.0], [0.0]], [0, 1, 0, 1])
    assert_array_equal(model.decision_function([[1e6], [1e6 + 0.1]]), [0, 0])


def test_invariant_machines_far_from_the_origin_do_not_depend_on_the_batch():
    random = np.random.default_rng(0)
    X = 1e8 + random.integers(-2, 3, size=(40, 6)).astype(float)
    model = InvariantHyperplaneSVC(kernel="rbf", gamma=0.1, random_state=0)
    labels = random.integers(3, size=40)
    found = model.fit(X, labels).decision_function(X)
    alone = np.concatenate([model.decision_function(x[None]) for x in X])
    assert_allclose(found, alone, atol=1e-9)
    near = clone(model).fit(X - 1e8, labels)
    # As far as the solver's tolerance goes.
    assert_allclose(found, near.decision_function(X - 1e8), atol=3e-3)


def test_a_temperature_above_all_numbers():
    X = 1e6 + np.random.default_rng(0).integers(0, 2, (12, 3)).astype(np.float32)
    X[2, 1] = 1e12
    model = TVQClassifier(max_iter=5, random_state=0, temperature=1.5e308)
    model.fit(X, [1, 0, 0, 0, 2, 2, 0, 1, 1, 0, 2, 1])
    assert np.isfinite(model.temperature_)
    assert_allclose(model.predict_proba(X), 1 / 3)


def test_a_normal_of_rounding_has_no_direction():
    X = np.full((12, 1), -0.7440737124996846)
    model = MaxMarginClassifier(kernel=_product, max_iter=2, random_state=0)
    model.fit(X, [0, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1])
    assert_array_equal(model.decision_function(1e8 * X), np.zeros(12))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scores_so_large_that_no_sample_pulls():
    X = np.array(
        [
            [4.1869840354291937e18, 3.639251585479311e18],
            [4.2044182419075446e18, 4.903014979231789e18],
            [4.2916166044268047e18, 4.1869840354291937e18],
            [4.1869840354291937e18, 4.1869840354291937e18],
            [3.8720683891803704e18, 4.1869840354291937e18],
        ]
    )
    model = MaxMarginClassifier(kernel=_product, random_state=0)
    model.set_params(max_iter=200).fit(X, [0, 0, 1, 1, 2])
    assert np.isfinite(model.decision_function(X)).all()


def _product(X, Y):
    return X @ Y.T


@pytest.mark.parametrize("kernel", ["poly", "rbf"])
def test_parameters_set_after_a_fit_leave_landmarks_alone(kernel):
    model = InvariantHyperplaneSVC(kernel=kernel, random_state=0).fit(X, y)
    before = model.decision_function(X)
    model.set_params(kernel="linear", degree=5, gamma=3.0, coef0=2.0)
    assert_array_equal(model.decision_function(X), before)


def test_tangents_too_long_for_a_kernel_are_named():
    kernel = {"kernel": "poly", "gamma": 1e150}
    model = InvariantHyperplaneSVC(**kernel, tangents=np.array([[1.0, 0.0]]))
    with pytest.raises(
        ValueError, match=r"^X gives values of kernel='poly' that are not"
    ):
        model.fit(np.full((20, 2), 7e-43), np.arange(20) % 2)


def test_a_width_that_is_nothing_in_float32_is_the_least_there_is():
    model = MarginLVQClassifier(
        2, decision="parzen", bandwidth=1e-300, max_iter=3, random_state=0
    ).fit(X.astype(np.float32), y)
    scores = model.decision_function(X.astype(np.float32))
    assert np.isfinite(scores).all()


def test_costs_of_any_unit_have_a_temperature():
    costs = np.array([[0.0, 1e-320, 1.0], [1e-320, 0.0, 1.0], [0.0, 1e-318, 1.0]])
    codes = np.array([0, 1, 0])
    T, lead = fit_temperature(LeftOut(costs, codes, codes, np.ones(3)))
    assert T > 0
    assert np.isfinite(lead)


def test_eigenvectors_that_lapack_does_not_find():
    few, more = 30316035055817.418, 30316065371852.473
    rows = [(0, 1, 0), (1, 0, 0), (0, 1, 1), (1, 0, 1), (1, 0, 0), (1, 1, 1), (1, 0, 0)]
    Z = np.where([*rows, (0, 1, 0)], more, few)
    found = tangents.LearnedTangents(1).fit(Z, [0, 0, 0, 1, 1, 1, 1, 0])
    assert_allclose(np.linalg.norm(found.tangents_), 1)


def test_a_height_far_below_the_slack_is_no_height():
    Z = 1e-58 * np.array([[1.2, 8.3, -5.4], [9.8, 1.7, -7.5]])
    model = MaxMarginClassifier(penalize_intercept=True).fit(Z, [1, 0])
    assert_array_equal(model.predict(Z), [1, 0])


def test_numbers_of_passes_are_any_integers():
    X = np.random.default_rng(0).normal(size=(8, 6))
    model = TVQClassifier(max_iter=np.int64(2), n_tangents=2, random_state=0)
    assert model.fit(X, np.arange(8) % 3).n_iter_ <= 2


def test_few_samples_reweighted_in_a_pipeline_are_saved():
    """Of so few no sample is left out: the temperature alone is known."""
    X, y = np.array([[-2.0, 0.0], [0.0, 2.0], [2.0, 0.0]]), [2, 0, 1]
    model = widemargin.MarginReweightingClassifier(
        widemargin.GLVQClassifier(max_iter=5, random_state=0), max_iter=3
    )
    model = make_pipeline(StandardScaler(), model).fit(X, y)
    read = pickle.loads(pickle.dumps(model))
    assert np.array_equal(read.predict_proba(X), model.predict_proba(X))


def test_a_refusing_classifier_wraps_none():
    """The outer one would count refusals of the inner one as answers."""
    inner = widemargin.RejectingClassifier(make("GLVQClassifier"), coverage=0.5)
    for one in (inner, make_pipeline(StandardScaler(), inner)):
        model = widemargin.RejectingClassifier(one, coverage=0.7)
        with pytest.raises(ValueError, match="estimator must answer every sample"):
            model.fit(np.arange(20.0)[:, None], np.arange(20) % 2)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"models": 3}, "models must map"), ({"cv": {0: 1.0}}, "cv must be"),
     ({"cv": "ab"}, "cv must be"), ({"max_samples": "auto"}, "max_samples must be"),
     ({"X": 3.0}, "X must hold"), ({"X": np.array(3.0)}, "X must hold"),
     ({"y": [None, "a"] * 5}, "y")],
)  # fmt: skip
def test_a_comparison_refuses_by_name(given, said):
    asked = {"X": np.arange(10.0)[:, None], "y": np.arange(10) % 2} | given
    with pytest.raises((ValueError, TypeError), match=said):
        widemargin.compare(asked.pop("X"), asked.pop("y"), **asked)


@pytest.mark.parametrize("y", ["labels", [1.0, np.nan]])
def test_an_imputer_refuses_labels_by_name(y):
    with pytest.raises(ValueError, match=r"\by\b"):
        widemargin.MixtureImputer().fit([[1.0], [2.0]], y)


def test_padding_refuses_a_length_by_name():
    with pytest.raises(ValueError, match="length must be"):
        tangents.pad_series([[1.0, 2.0]], ())


def test_further_images_have_labels_in_a_column():
    X, y = np.random.default_rng(0).random((6, 4)), np.array([0, 1, 2] * 2)
    model = widemargin.FewShotImageClassifier().fit(X[:3], y[:3])
    with pytest.warns(UserWarning, match="column-vector"):
        model.add_samples(X[3:], y[3:, None])
    assert len(model.classes_) == 3


def test_a_watch_of_next_to_no_error():
    model = make("LVQClassifier").fit([[0.0], [1.0]], [0, 1])
    monitor = widemargin.PromiseMonitor(model, max_error=1e-300).fit()
    monitor.label(monitor.watch([[0.0], [1.0]]).numbers, [0, 0])
    assert (monitor.n_labelled_, monitor.n_wrong_) == (2, 1)
    assert monitor.error_bounds_[0] > 0


def test_a_metric_asks_bundles_only():
    metric = metrics.TangentMetric()
    with pytest.raises((ValueError, TypeError), match="bundle"):
        metric.fades([1.0])


def test_rounding_decides_which_of_equal_duels_an_export_tells():
    """Three classes with as many votes: each one's margin is to the answer."""
    X = 0.1 * np.eye(6)[[1, 3, 0, 4, 1, 3, 5, 3, 5, 0, 4, 0]]
    y = [2, 0, 2, 1, 0, 1, 2, 2, 1, 0, 1, 0]
    model = widemargin.VirtualSVC().fit(X, y)
    Q = 0.05 * np.array([[0.0, 1, 0, 0, 1, 0], [0, 0, 0, 2, 0, 0]])
    mine = python_answers(model, Q)
    # Another one of the equal classes, which lost other duels.
    other = replace(mine, labels=np.array([0, mine.labels[1]]),
                    margins=np.array([[0, 0, 0], mine.margins[1]]))  # fmt: skip
    assert mine.labels[0] == 2
    assert mine.margins[0].min() < -0.01
    assert compare(model, other, Q, mine=mine).agrees
    wrong = replace(mine, margins=mine.margins - 0.01)
    assert not compare(model, wrong, Q, mine=mine).agrees


@pytest.mark.parametrize("lead", [1e-6, 0.1])
def test_a_duel_that_is_rounding_decides_what_another_label_lost(lead):
    """Class 0 beat the answer by next to nothing, else it lost that, not 5 to 2."""
    X, y = load_iris(return_X_y=True)
    model = widemargin.MaxMarginClassifier().fit(X, y)
    lost = np.array([[-5.0, lead, -3.0]])
    mine = Answers(model.classes_[[1]], lost, lost.max(axis=1))
    there = np.array([[0.0, 0.0, -3.0]])
    other = replace(mine, margins=there, confidence=there.max(axis=1))
    assert compare(model, other, X[:1], mine=mine).agrees == (lead < 1e-5)


@pytest.mark.parametrize("row", [[np.nan, 2.0], [2.0, np.nan]])
def test_a_series_of_one_value_has_no_steps(row):
    X = np.random.default_rng(0).normal(size=(12, 2))
    model = widemargin.SignalClassifier().fit(X, np.arange(12) % 2)
    assert np.isfinite(model.predict_proba([row])).all()
    assert np.isfinite(model.decision_function([row])).all()


@pytest.mark.parametrize("method", ["bisection", "paper-bisection2"])
def test_rounds_of_a_bisection_take_one_engine(method, monkeypatch):
    """Whether a kernel pays was asked for each round, the shortest one first."""
    told, sweep = set(), walks.sweep

    def watched(rows, factors, walk, rule, show, limits, trace):
        told.add(limits.most)
        return sweep(rows, factors, walk, rule, show, limits, trace)

    monkeypatch.setattr(walks, "sweep", watched)
    X = np.random.default_rng(0).normal(size=(20, 2)) + [[0, 0], [9, 9]] * 10
    model = MaxMarginClassifier(method=method, max_iter=300, tol=0.01)
    model.fit(X, np.arange(20) % 2)
    assert told == {300}


def test_a_wrapper_around_nothing_is_refused_by_name():
    inner = widemargin.MarginReweightingClassifier(estimator=float("nan"))
    with pytest.raises(ValueError, match="estimator must be a classifier"):
        widemargin.ConformalClassifier(inner).fit([[0.0], [1.0]] * 4, [0, 1] * 4)


@pytest.mark.parametrize("n", [9, 60, 333, 335])
def test_all_right_is_a_share_of_one(n):
    """n shares of 1 / n sum to more than 1: then chance was negative, and ahead 0."""
    costs, codes = np.eye(2)[np.arange(n) % 2], 1 - np.arange(n) % 2
    seen = LeftOut(costs, codes, codes, np.full(n, 0.1))
    assert _with_own(seen, seen, 1.0, 1.0) is seen
    assert _with_own(seen, seen, _right_share(seen), _right_share(seen)) is seen
