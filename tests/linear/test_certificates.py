"""Nothing that is certified is false, in exact arithmetic over many problems."""

from collections import Counter

import numpy as np
import pytest
from tests.linear.exact import examine, is_separable, problems

# benchmarks/certificates.py looks at thousands.
N_PROBLEMS = 800
PARTS = 2


@pytest.mark.parametrize("part", range(PARTS))
def test_no_false_certificate(part):
    found, wrong = Counter(), []
    for problem in problems(N_PROBLEMS // PARTS, seed=part):
        verdict, details = examine(problem)
        found[verdict] += 1
        if verdict == "false":
            wrong.append((problem.name, problem.options, details))
    total = sum(found.values())
    print(f"false certificates: {len(wrong)} of {total} ({dict(found)})")
    assert not wrong
    assert total == N_PROBLEMS // PARTS
    assert found["proven"] > 0.05 * total
    assert found["undecided"] < 0.05 * total


def test_the_judge_can_tell():
    assert is_separable(np.array([[0.0], [1e-300]]), [0, 1])
    assert not is_separable(np.array([[0.0], [1.0], [2.0]]), [0, 1, 0])
