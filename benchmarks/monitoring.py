"""False alarms and delays of the watch over a promise, by streams.

    python benchmarks/monitoring.py [--streams 1000] [--seed 0] [--only PART]

Every stream has 10 000 steps and a look after each. ``false``: answers are wrong with
probability max_error exactly, or samples do not change; the share of streams with an
alarm, which may be delta = .05. ``delay``: the error doubles, or the scores of samples
move by so many standard deviations, after so many steps; the steps until the alarm.
"""

import argparse
import sys

import numpy as np
from common import print_table

from widemargin.margins.monitoring import (
    Ranks,
    error_bets,
    error_factors,
    p_value_bets,
    p_value_factors,
)

DELTA, STEPS, KNOWN = 0.05, 10_000, 300
PARTS = ("false", "delay")


def first_alarm(evidence):
    """Step of the first alarm, from 1 on; 0 where there is none."""
    raised = np.flatnonzero(evidence >= -np.log(DELTA))
    return int(raised[0]) + 1 if len(raised) else 0


def error_alarm(wrong, max_error):
    """Step of the alarm over mistakes."""
    return first_alarm(error_bets(max_error).follow(error_factors(wrong, max_error)))


def shift_alarm(scores, seed):
    """Step of the alarm over scores, after some that are known."""
    ranks = Ranks(seed).know(scores[:KNOWN])
    return first_alarm(
        p_value_bets().follow(p_value_factors(ranks.follow(scores[KNOWN:])))
    )


def false_alarms(n_streams, seed):
    """Print the share of streams with an alarm; return whether one is too large."""
    rng = np.random.default_rng(seed)
    rows, shares = [], []
    for max_error in (0.01, 0.05, 0.1, 0.3):
        alarms = [
            error_alarm(rng.random(STEPS) < max_error, max_error) > 0
            for _ in range(n_streams)
        ]
        rows.append((f"error {max_error:.0%}", f"{100 * np.mean(alarms):.1f}"))
        shares.append(np.mean(alarms))
    few = max(1, n_streams // 5)
    for name, draw in (
        ("scores, no ties", rng.standard_normal),
        ("scores, three values", lambda n: rng.integers(0, 3, n).astype(float)),
        ("scores, heavy tails", rng.standard_cauchy),
    ):
        alarms = [shift_alarm(draw(KNOWN + STEPS), k) > 0 for k in range(few)]
        rows.append((f"{name} ({few} streams)", f"{100 * np.mean(alarms):.1f}"))
        shares.append(np.mean(alarms))
    title = f"False alarms in {n_streams} streams of {STEPS}, looks after each"
    print_table(title, ("stream", "alarms, %"), rows)
    return max(shares) > DELTA


def delays(n_streams, seed):
    """Print how many steps after a change the alarm comes, mean and nine in ten."""
    rng = np.random.default_rng(seed)
    few = max(1, n_streams // 5)
    rows = []

    def told(alarms, change):
        # False ones before the change are left out; where none came the stream's end.
        late = [STEPS if a == 0 else a - change for a in alarms if a == 0 or a > change]
        return f"{np.mean(late):.0f} / {np.quantile(late, 0.9):.0f}"

    for max_error in (0.02, 0.05, 0.1, 0.2):
        cells = []
        for change in (0, 1000, 5000):
            alarms = []
            for _ in range(few):
                before = rng.random(change) < max_error
                after = rng.random(STEPS) < 2 * max_error
                alarms.append(error_alarm(np.append(before, after), max_error))
            cells.append(told(alarms, change))
        rows.append((f"error {max_error:.0%} to {2 * max_error:.0%}", *cells))
    for moved in (0.25, 0.5, 1.0, -0.5):
        cells = []
        for change in (0, 1000, 5000):
            alarms = []
            for k in range(max(1, few // 4)):
                scores = rng.normal(size=KNOWN + change + STEPS)
                scores[KNOWN + change :] += moved
                alarms.append(shift_alarm(scores, k))
            cells.append(told(alarms, change))
        rows.append((f"scores move by {moved:+g}", *cells))
    header = ("change", "from the first on", "after 1000", "after 5000")
    print_table("Steps from the change to the alarm: mean / nine in ten", header, rows)


def main():
    """Print the tables; the exit status tells whether alarms are false too often."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    broken = False
    if options.only in (None, "false"):
        broken = false_alarms(options.streams, options.seed)
    if options.only in (None, "delay"):
        delays(options.streams, options.seed)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
