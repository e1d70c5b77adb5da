"""A case of every kind at real sizes, and worlds that keep their law."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.fuzz import large
from tests.fuzz.problems import KINDS, PARTITIONS, World, cuts

SEED = 12


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_is_the_same_whenever_it_is_made(kind):
    world, again = World(kind, 40, 4, 3), World(kind, 40, 4, 3)
    for one, other in zip(world.fresh(50), again.fresh(50), strict=True):
        assert np.array_equal(large.dense(one), large.dense(other))
    assert not np.array_equal(world.fresh(50)[1], world.fresh(50, 2)[1])
    X, y = world.train(600)
    Q, q = world.fresh(600)
    assert len(np.unique(y)) == 4
    model = make_pipeline(StandardScaler(), LogisticRegression())
    # There is something to learn, and it holds for samples drawn later.
    common = np.unique(q, return_counts=True)[1].max() / len(q)
    assert model.fit(large.dense(X), y).score(large.dense(Q), q) > common + 0.1


@pytest.mark.parametrize("kind", PARTITIONS)
def test_blocks_hold_all_rows(kind):
    y = np.repeat(["a", "b", "c"], [5, 30, 15])
    order, sizes = cuts(np.random.default_rng(0), y, kind)
    assert sorted(order) == [*range(50)]
    assert sum(sizes) == 50
    assert min(sizes) >= 0
    assert (0 in sizes) or kind != "empty"


def test_defects_are_found():
    class Wrong(LogisticRegression):
        def predict_proba(self, X):
            return np.eye(len(self.classes_))[super().predict_proba(X).argmax(axis=1)]

    X, y = World("noisy", 20, 3, 0).train(500)
    Q, q = World("noisy", 20, 3, 0).fresh(2000)
    assert large.mistaken(LogisticRegression().fit(X, y), Q, q) < 0.06
    assert large.mistaken(Wrong().fit(X, y), Q, q) > 0.1


@pytest.mark.parametrize("kind", sorted({kind.__name__ for kind in large.KINDS}))
def test_a_case_of_every_kind(kind, monkeypatch):
    # Small ones: `make fuzz-large` draws them as large as they come.
    monkeypatch.setattr(large, "ROWS", dict.fromkeys(large.ROWS, (400, 20_000)))
    outcomes, describe = large.case(SEED, 0, f"^{kind}$")
    assert outcomes
    assert "world = World(" in describe()
    wrong = [outcome for outcome in outcomes if outcome.sort == "defect"]
    assert not wrong, (wrong, describe())
