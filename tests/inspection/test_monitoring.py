"""The picture of a watch: bounds, evidence, alarms."""

import numpy as np
import pytest

from widemargin import GLVQClassifier, PromiseMonitor
from widemargin.inspection import PromiseMonitorDisplay

RNG = np.random.RandomState(0)
X = RNG.normal(size=(400, 2)) + np.repeat([[0, 0], [4, 0]], 200, axis=0)
y = np.repeat([0, 1], 200)
ROWS = RNG.permutation(400)
MODEL = GLVQClassifier(1, random_state=0).fit(X[::2], y[::2])


def watched(n_labels=100, shift=0.0):
    watch = PromiseMonitor(MODEL, max_error=0.1, random_state=0).fit(X[1:200:2])
    rows = ROWS[ROWS % 2 == 1]
    watch.watch(X[rows] + [0, shift])
    return watch.label(np.arange(n_labels), y[rows][:n_labels])


def test_draws_bounds_and_evidence():
    watch = watched(shift=3.0)
    display = PromiseMonitorDisplay.from_monitor(watch)
    above, below = display.axes_
    error = next(line for line in above.lines if line.get_label() == "error so far")
    assert error.get_ydata()[-1] == pytest.approx(100 * watch.error_)
    assert above.collections[0].get_label() == "bounds, 95 %"
    marks = [line for line in below.lines if line.get_marker() == "o"]
    places = [line.get_xdata().tolist() for line in marks]
    # Thirty points of this batch are kept.
    assert places[0] == []
    assert abs(places[1][0] - watch.shift_alarm_) <= 7
    assert below.get_ylim()[1] < 5


def test_draws_a_monitor_that_has_seen_nothing():
    watch = PromiseMonitor(MODEL, max_error=0.1).fit()
    assert len(PromiseMonitorDisplay.from_monitor(watch).axes_) == 2


def test_bad_monitor():
    with pytest.raises(ValueError, match="PromiseMonitor whose fit was called"):
        PromiseMonitorDisplay.from_monitor(PromiseMonitor(MODEL))
