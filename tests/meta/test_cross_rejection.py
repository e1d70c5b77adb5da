"""Rejection with every sample left out once: the count, its bound, refusals."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from widemargin import HSSClassifier, RejectingClassifier
from widemargin.margins import confidence_of, cross_conformal_level
from widemargin.meta.rejecting import alpha_for, folds_at_random, least_error

X, y = load_digits(return_X_y=True)
ORDER = np.random.RandomState(0).permutation(len(X))
X, y = X[ORDER], y[ORDER]
FEW, FRESH = slice(0, 120), slice(120, 500)
LDA = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


def rejecting(estimator=LDA, **options):
    given = {"max_error": 0.1, "delta": None, "cv": 3, "random_state": 0}
    return RejectingClassifier(estimator, **(given | options))


@pytest.mark.parametrize("cv", [2, "leave-one-out"])
def test_accepts_by_the_count_of_its_definition(cv):
    X_few, y_few = X[:60], y[:60]
    hss = HSSClassifier(1, n_tangents=2)
    model = rejecting(hss, cv=cv, max_error=0.2).fit(X_few, y_few)
    n_folds = 60 if cv == "leave-one-out" else cv
    assert len(model.estimators_) == n_folds
    # The folds are drawn first; models are asked one sample at a time.
    parts = folds_at_random(60, n_folds, np.random.RandomState(0))
    alpha, accepted = alpha_for(0.2, 60, n_folds), []
    for x in X[FRESH][:40]:
        answer, count = model.estimator_.predict(x[None])[0], 0
        for part, one in zip(parts, model.estimators_, strict=True):
            if one.predict(x[None])[0] != answer:
                count += len(part)
                continue
            sure = confidence_of(one, x[None])[0]
            wrong = one.predict(X_few[part]) != y_few[part]
            count += np.sum(confidence_of(one, X_few[part])[wrong] >= sure - 1e-6)
        accepted.append((1 + count) / 61 <= alpha)
    np.testing.assert_array_equal(model.accepts(X[FRESH][:40]), accepted)
    assert 0 < np.mean(accepted) < 1
    labels = model.predict(X[FRESH][:40])
    np.testing.assert_array_equal(labels != -1, accepted)


def test_models_are_fitted_without_their_fold():
    model = rejecting(HSSClassifier(1, n_tangents=2), cv=4, max_error=0.3)
    model.fit(X[FEW], y[FEW])
    for one in model.estimators_:
        assert one.n_features_in_ == 64
        assert one is not model.estimator_
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X[FRESH]), model.predict(X[FRESH]))
    assert clone(model).cv == 4


@pytest.mark.parametrize(("n", "k"), [(200, 200), (200, 2), (57, 3)])
def test_alpha_is_the_inverse_of_the_level(n, k):
    for error in (0.05, 0.1, 0.2):
        alpha = alpha_for(error, n, k)
        if alpha > 0:
            assert cross_conformal_level(alpha, n, k) == pytest.approx(error)
    # At the least error that can be guaranteed no mistake may be as sure.
    assert alpha_for(least_error(n, k), n, k) == pytest.approx(1 / (n + 1))


@pytest.mark.parametrize("cv", [2, "leave-one-out"])
def test_the_guarantee_is_kept_on_average(cv):
    # Overlapping classes, of which one in eight is wrong.
    rng, shares, answered = np.random.RandomState(0), [], []
    for draw in range(12):
        labels = rng.randint(0, 2, 800)
        points = rng.normal(size=(800, 2)) + 2.2 * labels[:, None] * [1, 0]
        model = rejecting(GaussianNB(), cv=cv, random_state=draw)
        model.fit(points[:40], labels[:40])
        accepted = model.accepts(points[40:])
        wrong = model.predict(points[40:]) != labels[40:]
        shares.append(np.mean(accepted & wrong))
        answered.append(accepted.mean())
    assert np.mean(shares) <= 0.1
    assert np.mean(answered) > (0.05 if cv == 2 else 0.4)


def test_more_is_answered_than_with_a_hold_out():
    few = slice(0, 200)
    hss = HSSClassifier(1, n_tangents=4)
    held = RejectingClassifier(hss, max_error=0.05, random_state=0)
    shares = [
        one.fit(X[few], y[few]).accepts(X[200:800]).mean()
        for one in (held, rejecting(hss, max_error=0.05, cv="leave-one-out"))
    ]
    assert shares[1] >= 1.3 * shares[0] > 0


def test_a_confidence_of_ones_own_and_weights():
    def sure(model, X):
        return model.predict_proba(X).max(axis=1)

    model = rejecting(KNeighborsClassifier(), confidence_func=sure, max_error=0.3)
    weights = np.ones(120)
    weights[:20] = 0  # which leaves them out
    model.fit(X[FEW], y[FEW], sample_weight=weights)
    assert model.n_held_out_ == 100
    assert np.isnan(model.threshold_)
    assert 0 < model.accepts(X[FRESH]).mean() < 1
    assert abs(model.coverage_ - model.accepts(X[FRESH]).mean()) < 0.25


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delta": 0.05}, "got delta=0.05: set it to None"),
        ({"per": "predicted"}, "got per='predicted'"),
        ({"outlier_fraction": 0.1}, "got outlier_fraction=0.1"),
        ({"max_error": None, "coverage": 0.5}, "got coverage=0.5"),
        ({"max_error": 0.01}, "max_error=0.01 cannot be guaranteed by cv=3 on 120"),
        ({"cv": 1}, "cv"),
        ({"cv": "all"}, "cv"),
        ({"cv": 1.5}, "cv"),
    ],
)
def test_bad_parameters(options, said):
    with pytest.raises(ValueError, match=said):
        rejecting(**options).fit(X[FEW], y[FEW])


def test_export_refuses_models_of_folds():
    pytest.importorskip("onnx")
    from widemargin.export import to_onnx

    model = rejecting(HSSClassifier(1), max_error=0.3).fit(X[FEW], y[FEW])
    with pytest.raises(ValueError, match="a model for each fold"):
        to_onnx(model)
