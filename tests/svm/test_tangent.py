import pickle
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from widemargin._core.temperature import LeftOut, fit_temperature
from widemargin.hyperplanes.pairwise import PairwiseMachine, left_out_duels
from widemargin.metrics import (
    TangentMetric,
    tangent_distances,
    tangent_kernel,
)
from widemargin.svm import TangentSVC
from widemargin.tangents import ImageTangents, SignalTangents

GENERATOR = ImageTangents((8, 8), ["x_shift", "y_shift", "rotation"])


def libsvm(digits, sides, kernel="rbf", gamma=0.1, C=10.0, **options):
    """LIBSVM on the full Gram matrix, through scikit-learn alone."""
    X, y, X_test, _ = digits

    def values(A, B):
        def one(side):
            return tangent_kernel(
                A, B, kernel=kernel, gamma=gamma, tangents=GENERATOR, sides=side
            )

        if sides in ("query", "reference"):
            return (one("query") + one("reference")) / 2
        return one(sides)

    svc = SVC(kernel="precomputed", C=C, decision_function_shape="ovo", **options)
    svc.fit(values(X, X), y)
    return svc, svc.decision_function(values(X_test, X))


@pytest.mark.parametrize("sides", ["query", "reference", "both", "mean", "midpoint"])
def test_duels_are_libsvms(digits, sides):
    X, y, X_test, _ = digits
    svc, expected = libsvm(digits, sides)
    ours = TangentSVC(
        C=10.0, gamma=0.1, tangents=GENERATOR, sides=sides, spring=1e-5
    ).fit(X, y)
    np.testing.assert_allclose(ours.duels(X_test), expected, atol=1e-6)
    np.testing.assert_array_equal(ours.support_, np.sort(svc.support_))
    np.testing.assert_array_equal(ours.support_bundle_.points, X[ours.support_])


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes")])
def test_two_classes(digits, labels):
    X, y, X_test, _ = digits
    two = np.array(labels)[(y > 1).astype(int)]
    ours = TangentSVC("nd", C=10.0, gamma=0.7, tangents=GENERATOR, spring=1e-5)
    ours.fit(X, two)
    _, expected = libsvm((X, two, X_test, None), "mean", "nd", 0.7)
    np.testing.assert_allclose(ours.decision_function(X_test), expected, atol=1e-6)
    np.testing.assert_array_equal(
        ours.predict(X_test) == labels[1], ours.decision_function(X_test) > 0
    )


def test_voting_agrees_with_scikit_learn(digits):
    X, y, X_test, _ = digits
    svc, _ = libsvm(digits, "mean", break_ties=False)
    ours = TangentSVC(C=10.0, gamma=0.1, tangents=GENERATOR, spring=1e-5).fit(X, y)
    K = tangent_kernel(X_test, X, gamma=0.1, tangents=GENERATOR)
    svc.set_params(decision_function_shape="ovr")
    np.testing.assert_allclose(
        ours.decision_function(X_test), svc.decision_function(K), atol=1e-6
    )


def test_weights_reach_the_solver(digits):
    X, y, X_test, _ = digits
    weights = np.linspace(0.01, 2, len(X))
    plain = TangentSVC(gamma=0.1, C=0.1).fit(X, y)
    for weighted in (
        TangentSVC(gamma=0.1, C=0.1).fit(X, y, weights),
        TangentSVC(gamma=0.1, C=0.1, class_weight={0: 9.0}).fit(X, y),
    ):
        assert np.abs(weighted.duels(X_test) - plain.duels(X_test)).max() > 0.01
    half = np.arange(len(X)) < 80
    some = TangentSVC(gamma=0.1).fit(X, y, half.astype(float))
    alone = TangentSVC(gamma=0.1).fit(X[half], y[half])
    np.testing.assert_allclose(some.duels(X_test), alone.duels(X_test), atol=1e-9)


def test_a_shift_of_many_samples():
    X, y = load_digits(return_X_y=True)
    svc = TangentSVC(psd_correction="shift", gamma=0.01).fit(X[:600] / 16, y[:600])
    K = rbf_kernel(X[:600] / 16, gamma=0.01)
    zero_sum = np.linalg.svd(np.ones((1, 600)))[2][1:]
    smallest = np.linalg.eigvalsh(zero_sum @ K @ zero_sum.T)[0]
    assert svc.smallest_eigenvalue_ == pytest.approx(smallest, abs=1e-10)
    assert svc.score(X[600:] / 16, y[600:]) > 0.9


def test_rounding_does_not_make_everything_a_support(digits):
    X, y, *_ = digits
    twice, labels = np.concatenate([X, X]), np.concatenate([y, y])
    clipped = TangentSVC(gamma=0.1, psd_correction="clip").fit(twice, labels)
    assert -1e-12 < clipped.smallest_eigenvalue_ < 0
    plain = TangentSVC(gamma=0.1).fit(twice, labels)
    np.testing.assert_array_equal(clipped.support_, plain.support_)


def test_a_refit_forgets_the_last_repair(digits):
    X, y, *_ = digits
    svc = TangentSVC(gamma=0.1, psd_correction="clip").fit(X, y)
    assert svc.smallest_eigenvalue_ > -1
    assert svc.set_params(psd_correction="none", gamma="scale").fit(X, y).gamma_ != 0.1
    assert not hasattr(svc, "smallest_eigenvalue_")


def test_parameters_set_after_fit_wait_for_the_next_one(digits):
    X, y, X_test, _ = digits
    svc = TangentSVC(gamma=0.1, tangents=GENERATOR).fit(X, y)
    before = svc.duels(X_test)
    svc.set_params(kernel="nd", sides="both", spring=1.0, gamma=3.0)
    np.testing.assert_array_equal(svc.duels(X_test), before)


@pytest.mark.parametrize("tangents", [None, np.eye(64)[:2]])
@pytest.mark.parametrize("sides", ["query", "reference"])
def test_one_frame_for_all_is_computed_once(digits, monkeypatch, tangents, sides):
    X, y, X_test, _ = digits
    calls, real = [], TangentMetric.squared_distances

    def counting(self, *args, **options):
        calls.append(options.get("sides"))
        return real(self, *args, **options)

    monkeypatch.setattr(TangentMetric, "squared_distances", counting)
    svc = TangentSVC(C=10.0, gamma=0.1, tangents=tangents, sides=sides, spring=0).fit(
        X, y
    )
    found = svc.duels(X_test)
    assert len(calls) == 2
    kept = X[:, 0 if tangents is None else 2 :]
    plain = SVC(C=10, gamma=0.1, decision_function_shape="ovo").fit(kept, y)
    np.testing.assert_allclose(
        found, plain.decision_function(X_test[:, 64 - kept.shape[1] :]), atol=1e-6
    )


def test_frames_of_queries_are_made_chunk_by_chunk(digits, monkeypatch):
    X, y, X_test, _ = digits
    svc = TangentSVC(gamma=0.1, tangents=GENERATOR).fit(X, y)
    many = np.tile(X_test, (12, 1))
    kernel, supports = svc._kernel, svc.support_bundle_
    at_once = kernel.metric.bundle(many)
    expected = np.concatenate(
        [
            kernel.between(at_once[rows], supports) @ svc.coef_
            for rows in (slice(0, 1024), slice(1024, 1200))
        ]
    )
    sizes, real = [], TangentMetric.bundle

    def counting(self, X, *args, **options):
        sizes.append(len(X))
        return real(self, X, *args, **options)

    monkeypatch.setattr(TangentMetric, "bundle", counting)
    np.testing.assert_array_equal(svc.duels(many), expected + svc.intercept_)
    assert sizes == [1024, 176]
    with config_context(working_memory=1):
        svc.duels(many)
    assert max(sizes[2:]) < 500


@pytest.mark.parametrize("landmarks", [None, 30])
def test_blank_images_are_warned_of_once(digits, landmarks):
    X, y, X_test, _ = digits
    X, X_test = X.copy(), X_test.copy()
    X[:3] = X_test[:2] = 0
    svc = TangentSVC(tangents=GENERATOR, sides="both", n_landmarks=landmarks)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        svc.fit(X, y)
    assert ["3 of 160 training" in str(w.message) for w in caught] == [True]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svc.predict(X_test)
        TangentSVC(tangents=GENERATOR, sides="mean").fit(X, y)


def test_a_kernel_of_ones_own_is_symmetrised(digits):
    X, y, *_ = digits

    def uneven(d2):
        return np.exp(-d2 / d2.mean(axis=1, keepdims=True))

    ours = TangentSVC(uneven, tangents=GENERATOR, spring=1e-5).fit(X, y)
    K = uneven(tangent_distances(X, tangents=GENERATOR, sides="mean"))
    assert np.abs(K - K.T).max() > 0.01
    svc = SVC(kernel="precomputed", C=10).fit((K + K.T) / 2, y)
    np.testing.assert_array_equal(ours.support_, np.sort(svc.support_))
    np.testing.assert_allclose(ours.intercept_, svc.intercept_)


def test_the_tolerance_reaches_the_solver(digits):
    X, y, X_test, _ = digits
    exact, rough = (
        TangentSVC(gamma=0.1, tol=tol).fit(X, y).duels(X_test) for tol in (1e-6, 0.5)
    )
    assert np.abs(exact - rough).max() > 1e-2


def test_the_machine_kept_is_whole(digits):
    X, y, X_test, _ = digits
    for options in (
        {},
        {"psd_correction": "clip", "kernel": "nd"},
        {"n_landmarks": 20},
    ):
        svc = TangentSVC(**{"gamma": 0.5, "random_state": 0, **options}).fit(X, y)
        K = tangent_kernel(
            X_test, svc.support_bundle_, kernel=svc.kernel, gamma=0.5,
            tangents=np.empty((0, 64)),
        )  # fmt: skip
        duels = K @ svc.coef_ + svc.intercept_
        np.testing.assert_allclose(duels, svc.duels(X_test), atol=1e-9)
    assert (svc.n_support_ == 20).all()
    plain = TangentSVC(gamma=0.5).fit(X, y)
    libsvm = SVC(C=10, gamma=0.5).fit(X[y < 2], y[y < 2])
    assert plain.n_support_[0] == libsvm.n_support_.sum()
    repaired = TangentSVC("nd", gamma=1.0, psd_correction="clip").fit(X, y)
    assert (repaired.n_support_ < 160).all()


def test_probabilities_need_a_fit_that_learned_them(digits):
    X, y, X_test, _ = digits
    svc = TangentSVC().fit(X, y).set_params(probability=True)
    with pytest.raises(NotFittedError, match="fitted with probability=False"):
        svc.predict_proba(X_test)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        TangentSVC(probability=True).predict_proba(X_test)
    assert svc.fit(X, y).predict_proba(X_test).shape == (100, 4)


def test_probabilities(digits):
    X, y, X_test, y_test = digits
    svc = TangentSVC(tangents=GENERATOR, probability=True).fit(X, y)
    proba = svc.predict_proba(X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    likeliest = svc.classes_[proba.argmax(axis=1)]
    assert np.array_equal(likeliest, svc.predict(X_test))
    said = proba.max(axis=1).mean()
    assert abs(said - svc.score(X_test, y_test)) < 0.05
    assert not hasattr(TangentSVC(), "predict_proba")


def test_probabilities_count_weights(digits):
    X, y, _, _ = digits
    weights = np.where(y == 0, 5.0, 0.2)
    svc = TangentSVC(gamma=0.1, C=0.1, probability=True).fit(X, y, weights)
    K = rbf_kernel(X, gamma=0.1)
    machine, codes = PairwiseMachine("gram", 0.1), np.searchsorted(svc.classes_, y)

    def temperature(of_machine, of_samples):
        said = svc._costs_of(left_out_duels(machine, K, y, of_machine))
        return fit_temperature(LeftOut(*said, codes, of_samples))[0]

    # Folds are those of another order of the samples.
    assert svc.temperature_ == pytest.approx(temperature(weights, weights), rel=1e-2)
    ones = np.ones(len(y))
    for other in (temperature(weights, ones), temperature(None, weights)):
        assert abs(np.log(svc.temperature_ / other)) > 0.1


def test_margins_are_positive_where_right(digits):
    X, y, X_test, y_test = digits
    svc = TangentSVC(tangents=GENERATOR).fit(X, y)
    asked = np.where(np.arange(100) % 2, y_test, np.roll(y_test, 1))
    margins = svc.margins(X_test, asked)
    np.testing.assert_array_equal(margins > 0, svc.predict(X_test) == asked)
    assert 0 < np.mean(margins > 0) < 1


@pytest.mark.parametrize("sides", ["mean", "reference", "midpoint"])
def test_queries_may_have_another_dtype(digits, sides):
    X, y, X_test, _ = digits
    options = {"gamma": 0.1, "tangents": GENERATOR, "sides": sides}
    exact = TangentSVC(**options).fit(X, y)
    expected = exact.duels(X_test)
    single = TangentSVC(**options).fit(X.astype(np.float32), y)
    for found in (exact.duels(X_test.astype(np.float32)), single.duels(X_test)):
        np.testing.assert_allclose(found, expected, atol=2e-3)


def test_prediction_needs_no_training_set(digits):
    X, y, X_test, _ = digits
    svc = TangentSVC(tangents=GENERATOR).fit(X, y)
    copy = pickle.loads(pickle.dumps(svc))
    np.testing.assert_array_equal(copy.duels(X_test), svc.duels(X_test))
    kept = sum(
        a.nbytes
        for a in (svc.support_bundle_.points, svc.support_bundle_.frames, svc.coef_)
    )
    assert len(pickle.dumps(svc)) < 1.2 * kept + 20_000


def test_tangents_help_when_there_are_few_samples(digits):
    X, y, X_test, y_test = digits
    with_tangents = TangentSVC(tangents=GENERATOR).fit(X[:24], y[:24])
    without = TangentSVC().fit(X[:24], y[:24])
    assert with_tangents.score(X_test, y_test) >= without.score(X_test, y_test)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "linear"}, "kernel must be one of"),
        ({"gamma": -1.0}, "gamma must be .*a.* number"),
        ({"C": 0}, "C must be 'auto' or a finite number above 0"),
        ({"sides": "one"}, "sides must be one of"),
        ({"multiclass": "ovr"}, "multiclass must be one of"),
        ({"psd_correction": "mend"}, "psd_correction must be one of"),
        ({"n_landmarks": 0}, "n_landmarks must be None or an integer"),
        ({"n_landmarks": 2.0}, "n_landmarks must be None or an integer"),
        ({"spring": -1.0}, "spring must be a finite number of at least 0"),
        (
            {"n_landmarks": 20, "psd_correction": "flip"},
            "psd_correction='flip' needs the whole Gram",
        ),
        ({"class_weight": {99: 2.0}}, "class_weight names 99, which is no class of y"),
        ({"class_weight": {99: 2.0}, "n_landmarks": 20}, "names 99, which is no class"),
        (
            {"class_weight": {0: -1.0}},
            r"class_weight\[0\] must be a finite number above 0",
        ),
        ({"class_weight": "even"}, "class_weight must be None"),
        ({"sides": "midpoint"}, "needs a generator"),
        ({"max_iter": 0}, "max_iter must be an integer"),
        ({"max_iter": -1}, "max_iter must be an integer"),
        ({"tol": np.nan}, "tol must be a finite number"),
        ({"probability": 1}, "probability must be True or False"),
    ],
)
def test_bad_parameters(digits, settings, message):
    with pytest.raises(ValueError, match=message):
        TangentSVC(**settings).fit(*digits[:2])


def test_classes_of_one_sample(digits):
    X, y, *_ = digits
    one = [0, *np.flatnonzero(y != y[0])]
    svc = TangentSVC(tangents=GENERATOR).fit(X[one], y[one])
    assert svc.predict(X[:1]) == y[0]
    with pytest.raises(ValueError, match="at least 2 samples of every class"):
        TangentSVC(probability=True).fit(X[one], y[one])
    with pytest.raises(ValueError, match="at least 2 classes"):
        TangentSVC().fit(X, np.zeros(len(X)))


@pytest.mark.parametrize("sides", ["mean", "both", "query", "reference", "midpoint"])
def test_one_row_alone_is_one_of_many(digits, sides):
    X, y, X_test, _ = digits
    svc = TangentSVC(tangents=GENERATOR, sides=sides).fit(X, y)
    together = svc.duels(X_test)
    for model in (svc, pickle.loads(pickle.dumps(svc))):
        alone = np.vstack([model.duels(row[None]) for row in X_test[:20]])
        np.testing.assert_allclose(alone, together[:20], rtol=1e-9, atol=1e-9)
    # The support vectors are packed once, and travel once.
    assert len(pickle.dumps(svc)) < 1.5 * len(pickle.dumps(svc.support_bundle_)) + 9e4


def bars(n, seed=0):
    """Bars whose classes differ in width, which stretching would hide, and overlap."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    width = 2.2 + 0.8 * y + 0.25 * rng.normal(size=n)
    columns = np.arange(12) - 5.5
    ink = 1 / (1 + np.exp(4 * (np.abs(columns) - width[:, None])))
    images = np.repeat(ink[:, None], 12, axis=1) * rng.uniform(0.5, 1, (n, 1, 1))
    return (images + 0.1 * rng.normal(size=images.shape)).reshape(n, -1), y


def late(n, drift, spread):
    """Bumps of three classes that come one after the other, on a drifting baseline."""
    rng, y = np.random.default_rng(0), np.arange(n) % 3
    at = 0.5 + 0.03 * y[:, None] + rng.normal(0, spread, (n, 1))
    X = np.exp(-(((np.linspace(0, 1, 40) - at) / 0.1) ** 2))
    return X + rng.normal(0, drift, (n, 1)) + rng.normal(0, 0.05, X.shape), y


def test_moves_that_tell_classes_apart_are_not_made():
    X, y = late(240, 0, 0.012)
    model = TangentSVC(tangents=SignalTangents(["shift"])).fit(X[:90], y[:90])
    assert (model.sides_, model.input_tangents_) == ("none", None)
    same = TangentSVC(C=model.C_, tangents="none").fit(X[:90], y[:90])
    np.testing.assert_array_equal(model.duels(X[90:]), same.duels(X[90:]))


def test_moves_are_as_free_and_as_many_as_left_out_samples_ask_for():
    X, y = late(240, 2, 0.005)
    both = SignalTangents(["shift", "offset"])
    model = TangentSVC(tangents=both).fit(X[:90], y[:90])
    assert model.input_tangents_.directions == ("offset",)
    assert model.spring_ < 1
    plain = TangentSVC(tangents="none").fit(X[:90], y[:90])
    free = TangentSVC(tangents=both, spring=1e-5).fit(X[:90], y[:90])
    for other in (plain, free):
        assert model.score(X[90:], y[90:]) > other.score(X[90:], y[90:])
    ends = {"tangents": model.input_tangents_, "spring": model.spring_}
    same = TangentSVC(C=model.C_, **ends).fit(X[:90], y[:90])
    np.testing.assert_array_equal(model.duels(X[90:]), same.duels(X[90:]))


def test_what_is_given_is_not_chosen():
    X, y = bars(150)
    tangents = ImageTangents((12, 12))
    model = TangentSVC(C=3.0, spring=0.05, tangents=tangents).fit(X, y)
    assert (model.C_, model.spring_) == (3.0, 0.05)
    assert TangentSVC(C=3.0, tangents="none").fit(X, y).C_ == 3.0
    few = TangentSVC(tangents=tangents).fit(X[[0, 1, 2, 149]], y[[0, 1, 2, 149]])
    assert (few.C_, few.spring_) == (10.0, 1e-5)
