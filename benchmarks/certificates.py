"""How many certificates of the hyperplanes are false, in exact rational arithmetic.

    python benchmarks/certificates.py [--problems 2200] [--dask 500] [--seed 0]

Problems are small, random and degenerate: separable, barely so, with duplicates,
collinear, inseparable, touching, far from the origin, with an income column, constant
columns, one-hot; scales from 1e-55 to 1e55, float32 and float64, dense and sparse,
hard and soft, all methods, kernels and perceptrons; a sixth of them are kernels of
samples as far from the origin as 1e10. Every margin is compared with the
margin of the stored plane, every bound with the combination it names, every claim that
classes are inseparable with a linear programme checked in rationals. The same check is
in tests/linear/test_certificates.py.

Then problems of two to four classes, hard and soft, weighted or not, are fitted over
six partitions of a Dask array: rows as they come, sorted by class, uneven blocks, a
class each, empty blocks, one block. What each fit says is checked in the same way, and
against what is proven here of the same problem at a gap of 1e-9. A part of that is in
tests/cluster/test_margins.py.
"""

import argparse
import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.linear.exact import examine, far_kernels, problems


def of_partitions(n_problems, seed):
    """Count what fits of Dask collections say; return whether any of it is false."""
    from tests.cluster import partitions

    begin, found = time.perf_counter(), Counter()
    for number, problem in enumerate(partitions.problems(n_problems, seed)):
        for partition, verdict, details in partitions.examine(problem, seed=number):
            found[verdict] += 1
            if verdict in ("false", "open"):
                print(f"  {verdict}: {problem.name} {problem.options}, {partition}")
                print(f"    {details}")
    print(
        f"false bounds of Dask fits, {n_problems} problems x "
        f"{len(partitions.PARTITIONS)} partitions, exact arithmetic: {found['false']}"
    )
    print(
        f"  confirmed {found['true']}, refused as on one machine {found['refused']}, "
        f"gaps open that one machine closes {found['open']}; "
        f"{time.perf_counter() - begin:.0f} s"
    )
    return found["false"] > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=2200)
    parser.add_argument("--dask", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begin, found = time.perf_counter(), Counter()
    n_far = given.problems // 6
    near = problems(given.problems - n_far, given.seed)
    for problem in chain(near, far_kernels(n_far, given.seed)):
        verdict, details = examine(problem)
        found[verdict] += 1
        if verdict == "false":
            print(f"  {problem.name} {problem.options}: {details}")
    seconds = time.perf_counter() - begin
    print(f"false certificates: {found['false']} of {sum(found.values())}")
    print(
        f"  margins and bounds confirmed {found['true']}, proven inseparable "
        f"{found['proven']}, not decided {found['undecided']}; {seconds:.0f} s"
    )
    return int(of_partitions(given.dask, given.seed) or found["false"] > 0)


if __name__ == "__main__":
    sys.exit(main())
