"""A short run of the fuzzer; ``make fuzz`` is the long one."""

import numpy as np
from tests.contract.registry import NAMES
from tests.fuzz.deployed import CASES, DEPLOYED
from tests.fuzz.functions import PUBLIC, case
from tests.fuzz.runner import run

import widemargin


def test_no_defects():
    outcome = run(calls=2_000, seconds=30, seed=7, jobs=1)
    told = "\n\n".join(
        f"{kind} (case {defect['case']})\n{defect['detail']}\n{defect['code']}"
        for kind, defect in outcome["kinds"].items()
    )
    assert not outcome["kinds"], told
    assert sum(outcome["counts"].values()) > 0


def test_a_case_is_the_same_whenever_it_is_made():
    # Two that call no estimator of theirs for long.
    for number in (3, 8):
        (first, text), (second, again) = case(5, number), case(5, number)
        assert text() == again()
        assert [o.sort for o in first] == [o.sort for o in second]


def test_everything_public_is_called():
    assert {"metrics.tangent_distances", "margins.relative_margin"} <= set(PUBLIC)
    names = {n for n in dir(widemargin) if callable(getattr(widemargin, n))}
    assert {n for n in names if n[0] != "_"} == {*NAMES, *DEPLOYED, "show_progress"}


def test_what_becomes_of_models():
    for number, kind in enumerate([kind for kind, _ in CASES] * 3):
        outcomes, describe = kind(np.random.default_rng([12, number]))
        wrong = [outcome for outcome in outcomes if outcome.sort == "defect"]
        assert outcomes
        assert not wrong, (wrong, describe())
