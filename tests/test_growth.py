"""benchmarks/growth.py runs, and its exponents are those of known powers."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks import growth

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="memory is read from /proc"
)


def test_exponents_are_those_of_powers():
    n = 500 * 2 ** np.arange(6)
    assert growth.exponent(n, 1e-9 * n**2.0, 0) == pytest.approx(2)
    # Only the last four tell how it goes on.
    assert growth.exponent(n, np.maximum(n, 2000), 0) == pytest.approx(1)
    assert np.isnan(growth.exponent(n, 0.0 * n, 0))


def test_what_is_taken_is_seen():
    seconds, above = growth.watched(lambda: np.ones(2**23).sum())
    assert 0 < seconds < 10
    assert 0.9 * 2**26 < above < 2 * 2**26


@pytest.mark.parametrize("axis", ["samples", "prototypes"])
def test_all_numbers_grow(axis):
    first, _ = growth.LADDERS[axis]
    name = "LVQClassifier"
    assert name in growth.names_for(axis)
    rows = growth.climb(name, [axis], most=100.0, last=2 * first)
    assert [row[:2] for row in rows] == [[axis, first], [axis, 2 * first]]
    cells = growth.told(name, [row[1:] for row in rows])
    assert len(cells) == 10
    assert cells[:2] == [name, str(2 * first)]


def test_one_that_takes_long_is_the_last():
    assert len(growth.climb("LVQClassifier", ["features"], most=1e-9, last=160)) == 1


def test_every_classifier_has_a_way_up():
    assert set(growth.THEIRS) < set(growth.names_for("samples"))
    for name in growth.names_for("samples"):
        assert callable(growth.make(name).fit)
