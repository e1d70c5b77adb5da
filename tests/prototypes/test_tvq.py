import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin.margins import margin_reweight
from widemargin.metrics import TangentMetric
from widemargin.prototypes import HSSClassifier, TVQClassifier
from widemargin.tangents import ImageTangents

TWO = {"sides": "both", "tangents": ImageTangents((8, 8))}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600]


@pytest.fixture(scope="module")
def unseen():
    X, y = load_digits(return_X_y=True)
    return X[600:] / 16, y[600:]


def same_models(one, other, atol=0.0):
    assert_allclose(one.prototypes_, other.prototypes_, atol=atol)
    assert_allclose(one.tangents_, other.tangents_, atol=atol)


@pytest.mark.parametrize("options", [{}, TWO])
def test_learns_more_than_hss(digits, unseen, options):
    start = HSSClassifier(1, n_tangents=4, **options).fit(*digits)
    model = TVQClassifier(1, n_tangents=4, theta=0.3, max_iter=60, **options)
    model.fit(*digits)
    assert model.score(*unseen) >= start.score(*unseen)
    low = np.quantile(start.margins(*digits), 0.05)
    assert model.history_["margin_quantiles"][-1][1] > low
    frames = model.tangents_
    identity = np.broadcast_to(np.eye(4), (10, 4, 4))
    assert_allclose(frames @ frames.transpose(0, 2, 1), identity, atol=1e-9)


def test_history_describes_the_models_after_the_pass(digits):
    X, y = digits
    model = TVQClassifier(1, n_tangents=3, max_iter=7, record_weights=True).fit(X, y)
    mu = model.margins(X, y)
    history = model.history_
    assert history["loss"][-1] == pytest.approx(np.maximum(0, 0.4 - mu).mean())
    assert history["n_theta_mistakes"][-1] == np.sum(mu < 0.4)
    assert history["train_error"][-1] == np.mean(model.predict(X) != y)
    quantiles = np.quantile(mu, (0, 0.05, 0.25, 0.5, 0.75))
    assert_allclose(history["margin_quantiles"][-1], quantiles)
    assert history["H"][-1] == pytest.approx(history["weights"][-1] @ mu)
    assert {len(rows) for rows in history.values()} == {model.n_iter_} == {7}


def test_weights_grow_where_margins_are_small(digits):
    X, y = digits
    options = {"n_tangents": 3, "theta": 0.3, "learning_rate": 1.0}
    start = HSSClassifier(1, n_tangents=3).fit(X, y)
    first = TVQClassifier(1, max_iter=1, record_weights=True, **options).fit(X, y)
    w = margin_reweight(np.ones(len(y)), start.margins(X, y), 0.3)
    assert_allclose(first.history_["weights"][0], w / w.sum())
    second = TVQClassifier(1, max_iter=2, record_weights=True, **options).fit(X, y)
    w = margin_reweight(w, first.margins(X, y), 0.3)
    assert_allclose(second.history_["weights"][1], w / w.sum())


def test_weights_become_uniform_on_the_mistakes(digits):
    X, y = digits
    model = TVQClassifier(
        1, n_tangents=2, theta=0.5, max_iter=120, tol=0, record_weights=True
    ).fit(X, y)
    mistakes = model.margins(X, y) < 0.5
    target = mistakes / mistakes.sum()
    far = [np.abs(g - target).sum() / 2 for g in model.history_["weights"]]
    assert far[-1] < far[40] < far[0]
    assert far[-1] < 0.2


@pytest.mark.parametrize(
    "options", [{}, {"init": "random"}, {"prototypes_per_class": 2}]
)
def test_weight_two_is_two_samples(digits, options):
    X, y = digits[0][:200], digits[1][:200]
    rng = np.random.RandomState(0)
    w = rng.randint(0, 4, len(y))
    settings = {
        "random_state": 0,
        "n_tangents": 2,
        "max_iter": 8,
        "record_weights": True,
        **options,
    }
    weighted = TVQClassifier(**settings).fit(X, y, w)
    replicas = np.repeat(np.arange(len(y)), w)
    repeated = TVQClassifier(**settings).fit(X[replicas], y[replicas])
    same_models(weighted, repeated)
    gamma = np.bincount(replicas, repeated.history_["weights"][-1], len(y))
    assert_allclose(weighted.history_["weights"][-1], gamma, atol=1e-15)
    assert_allclose(gamma.sum(), 1)


@pytest.mark.parametrize("init", ["hss", "weights", "random", "mean"])
@pytest.mark.parametrize("prototypes_per_class", [1, 2])
def test_every_start_leads_somewhere(digits, init, prototypes_per_class):
    model = TVQClassifier(
        prototypes_per_class, 3, theta=0.3, init=init, max_iter=60, random_state=0
    ).fit(*digits)
    assert model.score(*digits) > 0.9
    assert len(model.prototypes_) == 10 * prototypes_per_class


def test_no_tangents_is_lvq(digits):
    model = TVQClassifier(1, n_tangents=0, theta=0.1, max_iter=60).fit(*digits)
    assert model.tangents_.shape == (10, 0, 64)
    start = HSSClassifier(1, n_tangents=0).fit(*digits)
    assert model.score(*digits) > start.score(*digits) + 0.02
    assert np.isfinite(model.margin_bound(*digits, theta=0.1).value)


def test_defaults_on_four_features():
    X, y = load_iris(return_X_y=True)
    assert cross_val_score(TVQClassifier(), X, y).mean() > 0.9


def test_early_stopping_keeps_the_best(digits):
    model = TVQClassifier(1,
        n_tangents=3, early_stopping=True, validation_fraction=0.2,
        n_iter_no_change=5, max_iter=60, random_state=0, record_weights=True,
    ).fit(*digits)  # fmt: skip
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_iter_ < 60
    held = model.history_["weights"][-1] == 0
    assert 100 < held.sum() < 140
    X, y = digits[0][held], digits[1][held]
    assert model.score(X, y) == pytest.approx(max(scores))


def test_stops_when_every_margin_is_reached(digits):
    model = TVQClassifier(1, n_tangents=8, theta=0.05, max_iter=150).fit(*digits)
    assert model.history_["n_theta_mistakes"][-1] == 0
    assert model.n_iter_ < 150


def test_threads_change_nothing(digits):
    models = [
        TVQClassifier(1, n_tangents=3, max_iter=5, n_jobs=jobs).fit(*digits)
        for jobs in (1, 2)
    ]
    same_models(*models)


@pytest.mark.parametrize("options", [{}, {**TWO, "spring": 1e-3}])
def test_float32(digits, options):
    X, y = digits
    narrow = TVQClassifier(1, n_tangents=3, max_iter=5, **options)
    narrow.fit(X.astype(np.float32), y)
    wide = clone(narrow).fit(X, y)
    assert narrow.prototypes_.dtype == narrow.tangents_.dtype == np.float32
    assert_allclose(narrow.history_["loss"], wide.history_["loss"], rtol=1e-2)


def test_partial_fit_goes_on(digits):
    X, y = digits
    model = TVQClassifier(1, n_tangents=3, theta=0.3, max_iter=2, random_state=0)
    model.fit(X, y)
    losses = [model.history_["loss"][-1]]
    for _ in range(40):
        model.partial_fit(X, y)
        losses.append(model.history_["loss"][-1])
    assert losses[-1] < 0.7 * losses[0]
    assert model.n_iter_ == 42


def test_hard_input_has_finite_answers():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((30, 20))
    X[:, 5] = 1.0
    y = np.arange(30) % 3
    X[1] = X[0]
    X, y = np.vstack([X, X[2] + 1]), np.append(y, 3)
    model = TVQClassifier(1, n_tangents=15, max_iter=20).fit(X, y)
    assert np.isfinite(model.prototypes_).all()
    assert np.isfinite(model.tangents_).all()
    assert np.isfinite(model.margins(X, y)).all()
    assert_array_equal(model.tangents_[3], 0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"theta": 1.0}, "theta"),
        ({"theta": -1.5}, "theta"),
        ({"n_tangents": 64}, "n_tangents"),
        ({"prototypes_per_class": 0}, "prototypes_per_class"),
        ({"init": "zero"}, "init must be one of"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"weight_gain": -1.0}, "weight_gain"),
        ({"sides": "both"}, "needs tangents"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters(digits, parameters, message):
    with pytest.raises(ValueError, match=message):
        TVQClassifier(**parameters).fit(*digits)


def lines_of_classes(n=180, d=12, seed=0):
    """Classes that vary widely along a direction of their own, and little else."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    along = np.linalg.qr(rng.normal(size=(d, 9)))[0].T.reshape(3, 3, d)
    X = np.einsum("nk,nkd->nd", 8 * rng.normal(size=(n, 3)), along[y])
    return X + 0.3 * rng.normal(size=(n, d)), y


def test_tangents_are_chosen_by_the_data():
    X, y = lines_of_classes()
    model = TVQClassifier(1, random_state=0).fit(X, y)
    # An eighth of twelve features is one direction; the classes have three.
    assert model.tangents_.shape[1] >= 3
    fixed = TVQClassifier(1, 1, random_state=0).fit(X, y)
    X_new, y_new = lines_of_classes(n=540)
    assert model.score(X_new[180:], y_new[180:]) > fixed.score(X_new[180:], y_new[180:])


def test_what_is_given_is_not_chosen(monkeypatch):
    def never(*args):
        raise AssertionError("nothing is left to choose")

    monkeypatch.setattr(TVQClassifier, "_mistakes", never)
    X, y = lines_of_classes()
    assert TVQClassifier(1, 2, max_iter=3).fit(X, y).tangents_.shape[1] == 2
    wide = np.hstack([X] * 14)
    model = TVQClassifier(1, max_iter=3).fit(wide, y)
    assert model.tangents_.shape[1] == 20


def test_only_clear_differences_choose(monkeypatch):
    X, y = lines_of_classes()

    def mistakes(self, fit, held, n_tangents):
        wrong = np.zeros(len(held.samples))
        wrong[:10] = 1
        if n_tangents == 3:
            wrong[7:10] = 0  # three fewer, where chance makes a difference of root 3
        if n_tangents == 4:
            wrong[9] = 0  # one fewer of one
        return wrong

    monkeypatch.setattr(TVQClassifier, "_mistakes", mistakes)
    model = TVQClassifier(1, max_iter=3).fit(X, y)
    assert model.tangents_.shape[1] == 3


def test_float32_learns_where_tangents_explain_nearly_all():
    """Of unscaled units a few explain all but a millionth."""
    X, y = load_breast_cancer(return_X_y=True)
    scores = []
    for dtype in (np.float64, np.float32):
        model = TVQClassifier(n_tangents=7, random_state=0)
        model.fit(X[:300].astype(dtype), y[:300])
        assert model.prototypes_.dtype == dtype
        scores.append(model.score(X[300:].astype(dtype), y[300:]))
    assert scores[1] > scores[0] - 0.02


def test_models_of_float32_answer_float64_exactly():
    X, y = load_breast_cancer(return_X_y=True)
    narrow = X.astype(np.float32)
    model = TVQClassifier(random_state=0).fit(narrow, y)
    expected = []
    for C, T in zip(model.prototypes_, model.tangents_, strict=True):
        frame = np.linalg.qr(T.astype(float).T)[0]
        moved = narrow.astype(float) - C
        expected.append(((moved - moved @ frame @ frame.T) ** 2).sum(axis=1))
    found = model._squared_distances(narrow.astype(float))
    np.testing.assert_allclose(found, np.array(expected).T, rtol=1e-6)


def wide(n, d, n_shifted, seed):
    """Two classes that differ in the means of some of many features."""
    rng = np.random.RandomState(seed)
    y = rng.randint(0, 2, n)
    X = rng.normal(size=(n, d))
    X[:, :n_shifted] += y[:, None]
    return X, y


@pytest.mark.parametrize("size", [("auto", "auto"), (1, 3)])
@pytest.mark.parametrize(("d", "n_shifted"), [(300, 15), (2000, 40)])
def test_training_keeps_what_the_start_knows(size, d, n_shifted):
    """No margin is near theta: to raise their mean it gives up a class."""
    for seed in (3, 4):
        X, y = wide(520, d, n_shifted, seed)
        start = HSSClassifier(1, size[1], scale="none").fit(X[:120], y[:120])
        model = TVQClassifier(*size, random_state=0).fit(X[:120], y[:120])
        score = model.score(X[120:], y[120:])
        assert score > start.score(X[120:], y[120:]) - 0.05
        for sure in (start, model):
            says = sure.predict_proba(X[120:]).max(axis=1).mean()
            assert abs(says - sure.score(X[120:], y[120:])) < 0.1


def test_margins_that_theta_is_far_from_give_up_no_class():
    """Of more samples than features, too: 70 to 30, each feature tells a little."""
    rng = np.random.RandomState(0)
    y = (rng.uniform(size=3000) > 0.7).astype(int)
    X = rng.normal(size=(3000, 100)) + 0.2 * y[:, None]
    model = TVQClassifier(1, 3).fit(X[:2000], y[:2000])
    right = model.predict(X[2000:]) == y[2000:]
    assert right.mean() > 0.78
    assert right[y[2000:] == 1].mean() > 0.5
    # Half of them reach this.
    assert TVQClassifier(1, 3, theta=0.02, max_iter=6).fit(X, y).n_iter_ == 6


def test_a_start_that_is_kept_is_the_start():
    X, y = wide(120, 2000, 40, seed=4)
    start = HSSClassifier(1, 3, scale="none").fit(X, y)
    model = TVQClassifier(1, 3).fit(X, y)
    same_models(model, start, atol=1e-9)
    assert model.n_iter_ == 1
    assert model.history_["train_error"] == [np.mean(start.predict(X) != y)]
    # What the user asks for to the letter is done.
    for given in ({"learning_rate": 1e-3}, {"early_stopping": True}):
        model = TVQClassifier(1, 3, max_iter=12, tol=0, **given).fit(X, y)
        assert model.n_iter_ > 10


def test_batches_of_few_samples_are_as_sure_as_right():
    X, y = wide(460, 300, 15, seed=5)
    for model in (HSSClassifier(), TVQClassifier(random_state=0)):
        model.partial_fit(X[:60], y[:60], classes=[0, 1])
        model.partial_fit(X[60:], y[60:])
        assert "_left_out_of_fit" not in vars(model)
        first = clone(model).partial_fit(X[:60], y[:60], classes=[0, 1])
        says = first.predict_proba(X[60:]).max(axis=1).mean()
        assert abs(says - first.score(X[60:], y[60:])) < 0.1


def test_frames_of_samples_that_choose_are_made_once(monkeypatch):
    made, bundle = [], TangentMetric.bundle

    def counted(self, X, *args, **options):
        made.append(repr(self.tangents))
        return bundle(self, X, *args, **options)

    monkeypatch.setattr(TangentMetric, "bundle", counted)
    X, y = load_digits(return_X_y=True)
    model = TVQClassifier(
        sides="both", tangents=ImageTangents((8, 8)), max_iter=3, random_state=0
    )
    model.fit(X[:120], y[:120])
    # All springs share the frames; of fewer directions there are others.
    assert repr(model.tangents) in made
    assert len(made) == len(set(made))


def test_copies_that_a_projection_rounded_are_one_sample():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = np.tile(X[:120], (3, 1)), np.tile(y[:120], 3)
    # fit_transform's copies differ by rounding, those of transform do not.
    steps = make_pipeline(StandardScaler(), PCA(8, svd_solver="full"))
    one, other = clone(steps).fit_transform(X), steps.fit(X).transform(X)
    assert len(np.unique(one, axis=0)) > len(np.unique(other, axis=0)) == 120
    fits = [TVQClassifier(max_iter=5, random_state=0).fit(Z, y) for Z in (one, other)]
    same_models(*fits, atol=1e-9)
