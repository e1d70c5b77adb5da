"""None, one or several classes: exact p-values, folds, one class, refusals."""

import pickle

import numpy as np
import pytest
from benchmarks import conformal as simulation
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import widemargin as wm
from widemargin import ConformalClassifier, HSSClassifier
from widemargin._core.confidence import class_contrasts_of, class_distances_of
from widemargin.margins import (
    conformal_p_values,
    cross_conformal_level,
    samples_for_alpha,
    smallest_alpha,
)
from widemargin.meta.conformal import has_closed_form
from widemargin.tangents import ImageTangents

X, y = load_digits(return_X_y=True)
ORDER = np.random.RandomState(0).permutation(len(X))
X, y = X[ORDER], y[ORDER]
TRAIN, TEST = slice(0, 1000), slice(1000, None)
AFFINE = HSSClassifier(1, n_tangents=6)
NEAREST = wm.TangentKNeighborsClassifier(tangents="none")


class Refitted(wm.TangentKNeighborsClassifier):
    """Neighbours of whom nothing is known."""

    _keeps_distances = False


class RefittedNeighbours(KNeighborsClassifier):
    """Neighbours of whom nothing is known."""


def conformal(estimator=AFFINE, **options):
    return ConformalClassifier(estimator, **({"random_state": 0} | options))


@pytest.fixture(scope="module")
def model():
    return conformal().fit(X[TRAIN], y[TRAIN])


def slow_p_value(calibration, score):
    """Return the definition: the share of the n + 1 that are as strange."""
    return np.mean([s >= score for s in [*calibration, score]])


class TestPValue:
    @given(
        st.lists(st.integers(-5, 5), min_size=1, max_size=30),
        st.lists(st.integers(-6, 6), min_size=1, max_size=5),
    )
    def test_is_its_definition(self, calibration, scores):
        slow = [slow_p_value(calibration, s) for s in scores]
        np.testing.assert_allclose(conformal_p_values(calibration, scores), slow)

    def test_is_uniform_over_all_ranks(self):
        # Each of n + 1 scores may be the new one: the levels are met exactly.
        scores = np.random.RandomState(0).normal(size=20)
        p = [conformal_p_values(np.delete(scores, i), scores[i]) for i in range(20)]
        np.testing.assert_allclose(np.sort(p), np.arange(1, 21) / 20)

    def test_rounding_makes_ties(self):
        known = np.array([0.1 + 0.2, 1.0, 2.0])
        assert conformal_p_values(known, [0.3])[0] == 1
        assert conformal_p_values(known, [np.nextafter(2.0, 3)])[0] == 0.5
        assert conformal_p_values([1.0, np.inf], [np.inf])[0] == 2 / 3

    def test_levels(self):
        for alpha in (0.01, 0.05, 0.1, 0.2, 0.37):
            n = samples_for_alpha(alpha)
            assert smallest_alpha(n) <= alpha * (1 + 1e-9)
            assert n == 1 or smallest_alpha(n - 1) > alpha

    def test_level_of_folds_is_the_weighted_mean_of_p_values(self):
        rng = np.random.RandomState(1)
        sizes = np.array([3, 4, 4])
        counts = np.array([rng.randint(0, m + 1) for m in sizes])
        p, n, k = (1 + counts.sum()) / (1 + sizes.sum()), sizes.sum(), len(sizes)
        mean = np.average((1 + counts) / (1 + sizes), weights=sizes + 1)
        assert (p * (n + 1) + k - 1) / (n + k) == pytest.approx(mean)
        assert cross_conformal_level(p, n, k) == pytest.approx(min(1, 2 * mean))
        assert cross_conformal_level(0.05, 40, 40) == 0.1


def test_a_level_without_a_finite_inverse_takes_more_samples_than_there_are():
    assert samples_for_alpha(5e-324) >= 10**18


def test_sets_hold_the_right_class_and_strangers_none(model):
    p = model.p_values(X[TEST])
    codes = y[TEST]
    own = p[np.arange(len(p)), codes]
    assert np.mean(own <= 0.05) < 0.08
    sets = model.predict_set(X[TEST])
    assert np.array_equal(sets, p > 0.05)
    assert np.array_equal(model.predict_set(X[TEST], 0.2), p > 0.2)
    assert sets.sum(axis=1).mean() < 1.3
    noise = np.random.RandomState(0).randint(0, 17, (200, 64))
    assert not model.predict_set(noise).any()
    assert (model.predict(noise) == -1).all()


def test_p_values_are_ranks_among_held_out_samples(model):
    # The oracle: distances to the fitted affine models, ranks by loops.
    inner = model.estimator_
    D = np.stack(
        [
            ((X[TEST][:20] - c) ** 2).sum(1) - (((X[TEST][:20] - c) @ t.T) ** 2).sum(1)
            for c, t in zip(inner.prototypes_, inner.tangents_, strict=True)
        ],
        axis=1,
    )
    np.testing.assert_allclose(class_distances_of(inner, X[TEST][:20]) ** 2, D)
    d = np.sqrt(D)
    other = np.stack([np.delete(d, c, axis=1).min(axis=1) for c in range(10)], axis=1)
    contrast = d * np.sqrt(d / other)
    np.testing.assert_allclose(class_contrasts_of(inner, X[TEST][:20]), contrast)
    p = model.p_values(X[TEST][:20])
    for code, scores, _ in model._calibrations[0]:
        slow = [slow_p_value(scores, s) for s in contrast[:, code]]
        np.testing.assert_allclose(p[:, code], slow)


def test_answers_are_single_classes_that_the_estimator_gives(model):
    answers, sets = model.predict(X[TEST]), model.predict_set(X[TEST])
    spoken = answers != -1
    assert np.array_equal(spoken, model.accepts(X[TEST]))
    assert (sets[spoken].sum(axis=1) == 1).all()
    assert np.array_equal(answers[spoken], model.estimator_.predict(X[TEST])[spoken])
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.p_values(X[TEST]), model.p_values(X[TEST]))
    twin = clone(model).fit(X[TRAIN], y[TRAIN])
    assert np.array_equal(twin.predict(X[TEST]), answers)


@pytest.mark.parametrize(
    "estimator",
    [
        NEAREST,
        KNeighborsClassifier(3),
        wm.TangentDensityClassifier(tangents="none", gamma=0.01),
        GaussianNB(),
        SVC(),
        RandomForestClassifier(20, random_state=0),
        make_pipeline(StandardScaler(), wm.GLVQClassifier(max_iter=5, random_state=0)),
        wm.MarginReweightingClassifier(AFFINE, max_iter=1),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("nonconformity", ["contrast", "distance"])
def test_around_any_classifier(estimator, nonconformity):
    model = conformal(estimator, nonconformity=nonconformity, alpha=0.1)
    model.fit(X[TRAIN][:700], y[TRAIN][:700])
    p = model.p_values(X[TEST])
    own = p[np.arange(len(p)), y[TEST]]
    assert np.mean(own <= 0.1) < 0.15
    assert np.mean(own) > 0.4
    single = model.p_values(X[TEST][:3])
    np.testing.assert_allclose(single, p[:3])


class TestFolds:
    def test_few_samples_are_left_out_one_by_one(self):
        few = np.concatenate([np.flatnonzero(y == c)[:25] for c in (1, 2, 3)])
        model = conformal().fit(X[few], y[few])
        assert len(model.estimators_) == 75
        assert (model.n_calibration_ == 25).all()
        np.testing.assert_allclose(model.guaranteed_level(), 0.1)
        # The definition, from models without each sample.
        rows = np.flatnonzero(np.isin(y, (1, 2, 3)))[-5:]
        counts = np.zeros((5, 3))
        for i in few:
            rest = np.setdiff1d(few, [i])
            one = clone(AFFINE).fit(X[rest], y[rest])
            c = int(np.searchsorted([1, 2, 3], y[i]))
            own = class_contrasts_of(one, X[[i]])[0, c]
            counts[:, c] += class_contrasts_of(one, X[rows])[:, c] <= own
        np.testing.assert_allclose(model.p_values(X[rows]), (1 + counts) / 26)

    @pytest.mark.parametrize(
        "estimator",
        [
            NEAREST,
            KNeighborsClassifier(3),
            wm.TangentKNeighborsClassifier(
                tangents=ImageTangents(shape=(8, 8), directions=["x_shift"]),
                sides="both",
            ),
        ],
        ids=["ours", "scikit-learn's", "tangents"],
    )
    @pytest.mark.parametrize("nonconformity", ["contrast", "distance"])
    def test_neighbours_are_left_out_in_closed_form(self, estimator, nonconformity):
        few = np.concatenate([np.flatnonzero(y == c)[:21] for c in (1, 2, 8)])
        # A copy within a class, and one in another.
        few = np.append(few, few[:1])
        A, b = X[few], np.append(y[few[:-1]], 8)
        A[1] = A[0]
        options = {"cv": "leave-one-out", "nonconformity": nonconformity}
        model = conformal(estimator, **options).fit(A, b)
        assert len(model.estimators_) == 1
        # A subclass is not known to have it, and is fitted without each sample.
        if isinstance(estimator, wm.TangentKNeighborsClassifier):
            refitted = Refitted(**estimator.get_params(deep=False))
        else:
            refitted = RefittedNeighbours(**estimator.get_params(deep=False))
        slow = conformal(refitted, **options).fit(A, b)
        assert len(slow.estimators_) == 64
        asked = np.concatenate([A[:8], X[TEST][:40], A[:1] + 0.5])
        np.testing.assert_allclose(model.p_values(asked), slow.p_values(asked))
        for one in (model, slow):
            np.testing.assert_allclose(one.guaranteed_level(), 0.1)
            with pytest.raises(ValueError, match=r"compares \d+ models"):
                one.acceptance_limits()
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.p_values(asked), model.p_values(asked))

    @pytest.mark.parametrize(
        "estimator",
        [
            wm.TangentKNeighborsClassifier(tangents=ImageTangents(shape=(8, 8))),
            KNeighborsClassifier(metric="seuclidean"),
            make_pipeline(StandardScaler(), KNeighborsClassifier()),
            AFFINE,
        ],
    )
    def test_what_learns_has_no_closed_form(self, estimator):
        assert not has_closed_form(estimator)
        assert not has_closed_form(
            wm.TangentKNeighborsClassifier(tangents="none", algorithm="rerank")
        )

    def test_plain_neighbours_are_left_out_one_by_one_at_any_size(self):
        model = conformal(NEAREST).fit(X[:330], y[:330])
        assert np.array_equal(model.n_calibration_, np.bincount(y[:330]))
        np.testing.assert_allclose(model.guaranteed_level(), 0.1)
        p = model.p_values(X[TEST])[np.arange(797), y[TEST]]
        assert np.mean(p <= 0.05) < 0.08

    def test_more_are_left_out_in_ten_folds(self):
        few = slice(0, 330)
        model = conformal().fit(X[few], y[few])
        assert len(model.estimators_) == 10
        assert np.array_equal(model.n_calibration_, np.bincount(y[few]))
        level = model.guaranteed_level(0.05)
        assert ((level > 0.1) & (level <= 1)).all()
        assert np.mean(model.p_values(X[TEST])[np.arange(797), y[TEST]] <= 0.05) < 0.08

    def test_a_hold_out_guarantees_alpha(self, model):
        assert np.array_equal(model.guaranteed_level(0.1), np.full(10, 0.1))
        # As many as alpha needs, more than a quarter of a class.
        enough = np.concatenate([np.flatnonzero(y == c)[:110] for c in (0, 1)])
        model = conformal(alpha=0.02).fit(X[enough], y[enough])
        assert (model.n_calibration_ == 49).all()
        assert model.smallest_alpha_ == 0.02


class TestOneClass:
    @pytest.mark.parametrize(
        "estimator",
        [AFFINE, HSSClassifier(), NEAREST, IsolationForest(random_state=0)],
    )
    def test_strangers_to_it_are_told(self, estimator):
        model = conformal(estimator, one_class=True).fit(X[y == 3], y[y == 3])
        assert model.classes_.tolist() == [3]
        assert model.p_values(X[:50]).shape == (50, 1)
        own, others = model.predict(X[y == 3]), model.predict(X[y == 0])
        assert set(own) <= {3, -1}
        assert (own == 3).mean() > 0.9
        assert (others == 3).mean() < 0.3
        decision = model.decision_function(X[:50])
        assert np.array_equal(decision > 0, model.predict(X[:50]) == 3)

    def test_it_must_be_asked_for(self):
        one = X[y == 3], y[y == 3]
        with pytest.raises(ValueError, match=r"y holds one class.*one_class=True"):
            conformal().fit(*one)
        with pytest.raises(ValueError, match="GLVQClassifier learns what tells"):
            conformal(wm.GLVQClassifier(), one_class=True).fit(*one)
        with pytest.raises(ValueError, match="set one_class=True"):
            conformal(IsolationForest()).fit(*one)
        with pytest.raises(ValueError, match="HSSClassifier; it holds one class"):
            AFFINE.fit(*one)


def test_weights_teach_and_do_not_calibrate():
    weights = np.random.RandomState(0).uniform(0.5, 2, 700)
    weights[:100] = 0
    weighted = conformal().fit(X[:700], y[:700], sample_weight=weights)
    # A weight of nothing is no sample.
    left = conformal().fit(X[100:700], y[100:700], sample_weight=weights[100:])
    assert np.array_equal(weighted.p_values(X[TEST]), left.p_values(X[TEST]))
    plain = conformal().fit(X[100:700], y[100:700])
    assert np.array_equal(plain.n_calibration_, weighted.n_calibration_)
    assert not np.array_equal(weighted.p_values(X[TEST]), plain.p_values(X[TEST]))


class TestRefusals:
    def test_parameters(self):
        for options, said in (
            ({"alpha": 1.5}, "alpha must be"),
            ({"cv": 1}, "cv must be"),
            ({"cv": "some"}, "cv must be"),
            ({"nonconformity": "far"}, "nonconformity must be"),
            (
                {"nonconformity": lambda m, X: X[:, 0]},
                "one number per sample and class",
            ),
            ({"reject_label": 3}, "reject_label=3 is one of the classes"),
        ):
            with pytest.raises(ValueError, match=said):
                conformal(**options).fit(X[:700], y[:700])

    def test_alpha_that_no_such_sample_reaches(self, model):
        with pytest.raises(
            ValueError, match=r"0\.0\d+ at least; 999 of each class would do"
        ):
            model.predict_set(X[:5], 0.001)
        with pytest.raises(ValueError, match=r"0\.091 is the smallest that they"):
            conformal(alpha=0.01).fit(X[:180], y[:180])
        with pytest.raises(ValueError, match="calibration samples of every class"):
            conformal(alpha=0.01, cv=0.3).fit(X[TRAIN], y[TRAIN])

    def test_a_class_of_one_sample(self):
        rare = np.append(np.flatnonzero(y[:400] != 7), np.flatnonzero(y == 7)[0])
        with pytest.raises(ValueError, match=r"one sample of 7; .* 20 for alpha=0.05"):
            conformal().fit(X[rare], y[rare])

    def test_fitted_estimators(self):
        inner = clone(AFFINE).fit(X[:500], y[:500])
        model = conformal(inner, cv="prefit").fit(X[500:1000], y[500:1000])
        assert np.array_equal(model.n_calibration_, np.bincount(y[500:1000]))
        with pytest.raises(ValueError, match=r"cannot be reached .* calibration"):
            conformal(inner, cv="prefit").fit(X[500:550], y[500:550])
        with pytest.raises(ValueError, match="was not fitted with"):
            conformal(inner, cv="prefit").fit(X[:99], y[:99] + 1)


@pytest.mark.parametrize("name", simulation.WORLDS)
def test_the_level_is_kept(name):
    """The simulation of benchmarks/conformal.py, in short."""
    for row in simulation.levels(name, n_fits=25, seed=1):
        assert row.p_value > 1e-4, row
