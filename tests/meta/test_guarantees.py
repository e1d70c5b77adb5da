"""The simulation of benchmarks/rejection.py, in short: guarantees are kept."""

import numpy as np
import pytest
from benchmarks import rejection as simulation

WORLDS = simulation.worlds()


def test_there_are_enough_distributions():
    assert len(WORLDS) >= 10


@pytest.mark.filterwarnings("ignore:max_error=")
@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("name", WORLDS)
def test_guarantees_are_kept(name):
    world, delta, n_draws = WORLDS[name], 0.2, 40
    allowed = delta + 3 * np.sqrt(delta * (1 - delta) / n_draws)
    error = {"max_error": world.max_error}
    both = error | {
        "outlier_fraction": 0.05,
        "outlier_score": simulation.far(world, "wrong"),
    }
    for guarantee in (error, {"coverage": 0.6}, both):
        broken, _ = simulation.count_broken(world, guarantee, delta, n_draws, 1)
        assert broken <= allowed


@pytest.mark.filterwarnings("ignore:max_error=")
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_classes_that_were_not_learned_are_not_forgotten():
    # Moving them into training would break this guarantee in most draws.
    world = WORLDS["the same, most rows held out"]
    broken, answered = simulation.count_broken(world, {"max_error": 0.1}, 0.05, 60, 0)
    assert broken <= 0.1
    assert answered > 0.05
