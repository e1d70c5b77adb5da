"""The two perceptron estimators."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning

from widemargin.linear import (
    FixedMarginPerceptron,
    MarginPerceptron,
    MaxMarginClassifier,
)
from widemargin.margins import directional_margin


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(80, centers=2, n_features=3, random_state=1, cluster_std=0.8)


def best_margin(X, y, rho):
    model = MaxMarginClassifier(
        C=np.inf, intercept_scaling=rho, penalize_intercept=True, tol=1e-9
    )
    return model.fit(X, y).directional_margin_


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"margin_threshold": 2.0, "learning_rate": 0.1},
        {"update": "relaxation", "learning_rate": 1.5},
    ],
)
def test_margin_perceptron_keeps_its_promises(blobs, options):
    X, y = blobs
    model = MarginPerceptron(random_state=0, max_iter=10_000, **options).fit(X, y)
    gamma_d = best_margin(X, y, model.intercept_scaling_)
    bounds = model.bounds(gamma_d)
    assert model.n_updates_ <= bounds.updates <= model.bounds_.updates
    assert model.directional_margin_ >= bounds.margin
    assert model.margin_upper_bound_ >= gamma_d * (1 - 1e-9)
    assert model.score(X, y) == 1.0
    signs = np.where(y == 1, 1, -1)
    w, b = model.coef_[0], model.intercept_[0]
    measured = directional_margin(
        X, w, b, signs, intercept_scaling=model.intercept_scaling_
    ).min()
    assert measured == pytest.approx(model.directional_margin_)
    assert model.margins(X, y).min() == pytest.approx(model.margin_)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("factor", ["constant", "projected"])
def test_fixed_margin_perceptron_reaches_beta(blobs, normalize, factor):
    X, y = blobs
    gamma_d = best_margin(X, y, 2.0)
    beta = 0.6 * gamma_d
    model = FixedMarginPerceptron(
        beta,
        normalize=normalize,
        update_factor=factor,
        intercept_scaling=2.0,
        random_state=0,
        max_iter=50_000,
    ).fit(X, y)
    assert model.directional_margin_ > beta
    bounds = model.bounds(gamma_d)
    assert bounds.margin == beta
    if not normalize:
        assert model.n_updates_ <= bounds.updates


@pytest.mark.parametrize("normalize", [False, True])
def test_beta_out_of_reach_says_what_is_possible(blobs, normalize):
    X, y = blobs
    gamma_d = best_margin(X, y, 2.0)
    for beta in (1.2 * gamma_d, 100.0):
        model = FixedMarginPerceptron(
            beta,
            normalize=normalize,
            intercept_scaling=2.0,
            random_state=0,
            max_iter=100_000,
        )
        with pytest.raises(ValueError, match="directional margin above") as error:
            model.fit(X, y)
        bound = float(str(error.value).split("above ")[1].split(" ")[0])
        assert gamma_d * (1 - 1e-5) <= bound <= beta


def test_beta_zero_is_the_perceptron(blobs):
    X, y = blobs
    model = FixedMarginPerceptron(random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.n_updates_ <= model.bounds_.updates


def test_weights_are_the_factors_of_the_update(blobs):
    X, y = blobs
    weight = np.linspace(0.5, 2.0, len(y))
    a = MarginPerceptron(margin_threshold=1.0, shuffle=False).fit(
        X, y, sample_weight=weight
    )
    b = MarginPerceptron(margin_threshold=1.0, learning_rate=3.0, shuffle=False)
    b.fit(X, y, sample_weight=weight / 3.0)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-12)
    assert a.n_updates_ == b.n_updates_
    c = MarginPerceptron(margin_threshold=1.0, shuffle=False).fit(X, y)
    assert not np.allclose(a.coef_, c.coef_)


def test_warm_start_goes_on(blobs):
    X, y = blobs
    gamma_d = best_margin(X, y, 2.0)
    options = {"intercept_scaling": 2.0, "random_state": 0, "max_iter": 100_000}
    chain = FixedMarginPerceptron(0.5 * gamma_d, warm_start=True, **options).fit(X, y)
    again = chain.fit(X, y)
    assert again.n_updates_ == 0
    cold = FixedMarginPerceptron(0.9 * gamma_d, **options).fit(X, y)
    warm = FixedMarginPerceptron(0.89 * gamma_d, warm_start=True, **options).fit(X, y)
    warm.set_params(margin=0.9 * gamma_d).fit(X, y)
    assert warm.n_updates_ < cold.n_updates_ / 2


@pytest.mark.parametrize(
    "model",
    [
        MarginPerceptron(margin_threshold=1.0, intercept_scaling=3.0, random_state=0),
        MarginPerceptron("relaxation", intercept_scaling=3.0, random_state=0),
        FixedMarginPerceptron(0.1, intercept_scaling=3.0, random_state=0),
        FixedMarginPerceptron(
            0.1,
            normalize=True,
            learning_rate=0.01,
            intercept_scaling=3.0,
            random_state=0,
        ),
    ],
)
def test_batches(blobs, model):
    X, y = blobs
    classes = [0, 1]
    for _ in range(50):
        for part in np.array_split(np.arange(len(y)), 3):
            model.partial_fit(X[part], y[part], classes=classes)
    assert model.score(X, y) == 1.0
    assert model.margin_upper_bound_ >= best_margin(X, y, 3.0) * (1 - 1e-9)
    before = model.n_updates_
    with pytest.raises(ValueError, match="is not what the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="does not name"):
        model.partial_fit(X[:2], [0, 5])
    model.fit(X, y).partial_fit(X, y)
    assert model.n_updates_ >= 0
    assert before > 0


def test_three_classes():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="still updating"):
        model = MarginPerceptron(random_state=0, max_iter=100, multiclass="ovr").fit(
            X, y
        )
    assert model.coef_.shape == (3, 4)
    assert model.bounds_[0] is not None
    assert model.bounds_[1] is None
    assert np.array_equal(model.margins(X, y) > 0, model.predict(X) == y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MarginPerceptron("bold"), "update must be one of"),
        (MarginPerceptron(margin_threshold=0.0), "margin_threshold"),
        (MarginPerceptron(learning_rate=0.0), "learning_rate"),
        (
            MarginPerceptron("relaxation", learning_rate=2.0),
            "learning_rate must be below 2",
        ),
        (
            MarginPerceptron("relaxation", margin_threshold=1.0, relaxation_target=1.0),
            "relaxation_target must be",
        ),
        (MarginPerceptron(relaxation_target=3.0), "relaxation"),
        (MarginPerceptron(intercept_scaling=0.0), "intercept_scaling"),
        (FixedMarginPerceptron(-1.0), "margin"),
        (FixedMarginPerceptron(normalize=True), "margin > 0"),
        (FixedMarginPerceptron(learning_rate=0.1), "normalize=True"),
        (FixedMarginPerceptron(normalize="short"), "normalize must be"),
        (FixedMarginPerceptron(update_factor="random"), "update_factor must be one of"),
        (FixedMarginPerceptron(max_iter=0), "max_iter"),
    ],
)
def test_bad_parameters(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit([[0.0], [1.0]], [0, 1])


def test_relaxation_sees_weights():
    X, y = make_blobs(60, centers=2, random_state=0, cluster_std=1.5)
    weight = np.where(y == 1, 1.0, 0.1)
    options = {"shuffle": False, "max_iter": 5, "n_iter_no_change": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain = MarginPerceptron("relaxation", **options).fit(X, y)
        weighted = MarginPerceptron("relaxation", **options).fit(X, y, weight)
        balanced = MarginPerceptron(
            "relaxation", class_weight={0: 0.1, 1: 1.0}, **options
        ).fit(X, y)
    assert not np.allclose(plain.coef_, weighted.coef_)
    np.testing.assert_allclose(weighted.coef_, balanced.coef_)


def test_overlapping_classes_end_early():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), np.arange(500) % 2
    with pytest.warns(ConvergenceWarning, match="no fewer updates"):
        model = MarginPerceptron(random_state=0).fit(X, y)
    assert model.n_iter_ < 500
    patient = MarginPerceptron(random_state=0, n_iter_no_change=None, max_iter=300)
    with pytest.warns(ConvergenceWarning, match="still updating"):
        assert patient.fit(X, y).n_iter_ == 300


def test_a_warning_names_the_offset():
    X, y = load_iris(return_X_y=True)
    for offset, named in ((0, False), (1000, True)):
        X = np.column_stack([X[:, :4], np.full(len(X), offset)])
        with pytest.warns(ConvergenceWarning) as told:
            MarginPerceptron(random_state=0).fit(X, y)
        assert ("farther from the origin" in str(told[0].message)) == named


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("multiclass", ["ovo", "ddag", "ovr"])
@pytest.mark.parametrize("make", [MarginPerceptron, FixedMarginPerceptron])
def test_samples_on_the_plane_are_answered_alone_as_in_a_batch(make, multiclass):
    """Planes of whole numbers have samples on them, and products round as they like."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 12)).astype(float)
    y = (X[:, :4].sum(axis=1) + rng.integers(0, 2, 400) > 2) + X[:, 5] * X[:, 6]
    model = make(random_state=0, multiclass=multiclass).fit(X, y)
    X = np.unique(X, axis=0)
    alone = np.concatenate([model.predict(x[None]) for x in X])
    np.testing.assert_array_equal(model.predict(X), alone)
    if multiclass == "ovo" and make is FixedMarginPerceptron:
        assert np.count_nonzero(model.pairwise_distances(X) == 0) > 10
