"""False alarms and delays of the watch over a guarantee, by streams.

    python benchmarks/monitoring.py [--streams 1000] [--seed 0] [--only PART]

Every stream has 10 000 steps and a look after each. ``false``: answers are wrong with
probability max_error exactly, or samples do not change; the share of streams with an
alarm, which may be delta = .05. ``delay``: the error doubles, or the scores of samples
move by so many standard deviations, after so many steps; the steps until the alarm.
``bound``: the delay that no watch at this delta can go below, see `least_delay`.
``rule``: what a rule that knows both errors needs, see `knowing_rule`.
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
PARTS = ("false", "delay", "bound", "rule")


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


def least_delay(error, later, change):
    """Return a delay that no watch with P(any alarm in 10 000 steps) <= delta beats.

    Nature draws the step of the change, nu, uniformly from 0 .. `change`, and mistakes
    have probability `error` before and `later` after. For any stopping time T and any
    price c >= 0, with P_0 for "no change" and R_t = sum of P(nu) L_nu,t over nu <= t,

        E (min(T, N) - nu)^+  >=  E_0 [ sum_{t < T} R_t + c 1(T < N) ] - c delta,

    as the likelihood ratio L turns P_nu into P_0. R is Markov under P_0, so the least
    of the right side is a backward recursion over N steps in one number. Its value is
    concave in R: chords between the points of a grid lie below it, so that the bound
    stays one.
    """
    prior = np.full(change + 1, 1 / (change + 1))
    of_wrong, of_right = later / error, (1 - later) / (1 - error)
    best = 0.0
    for price in np.geomspace(6, 300, 40) / error:
        ratio = np.append(0, np.geomspace(1e-9, price, 1500))
        value = np.zeros_like(ratio)
        for step in range(STEPS - 1, -1, -1):
            begun = prior[step + 1] if step < change else 0.0
            wrong = np.interp(ratio * of_wrong + begun, ratio, value)
            right = np.interp(ratio * of_right + begun, ratio, value)
            value = np.minimum(price, ratio + error * wrong + (1 - error) * right)
        best = max(best, np.interp(prior[0], ratio, value) - price * DELTA)
    return best


def bounds():
    """Print what is possible, by how late the error may double."""
    rows = []
    for error in (0.02, 0.05, 0.1, 0.2):
        delays = [least_delay(error, 2 * error, change) for change in (0, 1000, 5000)]
        rows.append(
            (f"error {error:.0%} to {2 * error:.0%}", *(f"{d:.0f}" for d in delays))
        )
    header = ("change", "at the first", "in the first 1000", "in the first 5000")
    print_table("Mean delay that no watch can go below", header, rows)


def knowing_rule(streams, seed, error=0.02, change=5000):
    """Print delays of the rule of the bound: alarm where R_t passes a limit.

    It knows both errors and until when the change comes, and its limit is the quantile
    of the largest R_t in streams without a change.
    """
    rng, prior = np.random.default_rng(seed), 1 / (change + 1)
    of_wrong, of_right = 2.0, (1 - 2 * error) / (1 - error)

    def run(nu, limit):
        ratio = np.full(len(nu), prior)
        largest, alarm = ratio.copy(), np.full(len(nu), STEPS)
        for t in range(STEPS):
            wrong = rng.random(len(nu)) < np.where(t >= nu, 2 * error, error)
            ratio *= np.where(wrong, of_wrong, of_right)
            ratio += prior * (t < change)
            np.maximum(largest, ratio, out=largest)
            alarm[(alarm == STEPS) & (ratio >= limit)] = t + 1
        return largest, alarm

    largest, _ = run(np.full(6 * streams, STEPS), np.inf)
    limit = np.quantile(largest, 1 - DELTA)
    rows = []
    drawn = rng.integers(change + 1, size=6 * streams)
    for name, nu in (
        ("drawn from 0 to 5000", drawn),
        *((f"after {at}", np.full(2 * streams, at)) for at in (0, 1000, 2500, 5000)),
    ):
        _, alarm = run(nu, limit)
        late = np.maximum(alarm - nu, 0)
        spread = late.std() / np.sqrt(len(late))
        told = late[alarm > nu].mean()
        rows.append((name, f"{late.mean():.0f} ± {spread:.0f}", f"{told:.0f}"))
    header = ("change", "delay", "without alarms before it")
    print_table(f"Error {error:.0%} to {2 * error:.0%}, all of it known", header, rows)


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
    if options.only in (None, "bound"):
        bounds()
    if options.only in (None, "rule"):
        knowing_rule(options.streams, options.seed)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
