"""Fuzz everything public: ``python -m tests.fuzz --calls 1000000 --jobs 16``.

``--large`` draws samples of real sizes, and compares models with brute force, with each
other in other places and forms, and with what they say of fresh samples.

Cases are numbered; a case draws a few calls from (seed, number) and judges each. Cases
go to worker processes in chunks. A worker that is stuck where no alarm reaches it, or
that dies, is replaced, and the case that it was in is a defect. The state file holds
what is done, so that a run can be ended at any time and taken up again.
"""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from tests.fuzz.runner import run


def tell(outcome: dict, seed: int, shown: int, given: str = "") -> None:
    counts, kinds = outcome["counts"], outcome["kinds"]
    from tests.fuzz.values import MISSING

    total = sum(counts.values())
    print(f"{total} calls in {outcome['cases']} cases, {outcome['seconds']:.0f} s: "
          f"{counts['right']} right, {counts['refused']} refused by name, "
          f"{counts['defect']} defects of {len(kinds)} kinds "
          f"(seed {seed})")  # fmt: skip
    if MISSING:
        print(f"not made, because not installed: {', '.join(MISSING)}")
    worst = sorted(kinds.items(), key=lambda item: -item[1]["count"])
    for kind, defect in worst[:shown]:
        print(f"\n{defect['count']} × {kind}\n  python -m tests.fuzz --seed {seed} "
              f"--case {defect['case']}{given}")  # fmt: skip
        for line in (defect["detail"] + "\n" + defect["code"]).splitlines()[:30]:
            print("  " + line[:400])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--resume", type=Path, default=None, metavar="FILE")
    parser.add_argument("--show", type=int, default=20, help="kinds of defects to show")
    parser.add_argument("--only", default="", help="pattern of the names to call")
    parser.add_argument("--extreme", type=float, default=0.0, metavar="SHARE",
                        help="share of the numbers from the ends of the floats"
                        )  # fmt: skip
    parser.add_argument("--large", action="store_true", help="samples of real sizes")
    parser.add_argument("--case", type=int, default=None, help="make one case again")
    args = parser.parse_args()
    # Workers read it too.
    os.environ["WIDEMARGIN_FUZZ_EXTREME"] = str(args.extreme)
    cases = "tests.fuzz.large" if args.large else "tests.fuzz.functions"
    if args.case is not None:
        os.environ.setdefault("SCIPY_ARRAY_API", "1")
        there = import_module(cases)
        import_module("tests.fuzz.judge").SECONDS = there.SECONDS
        outcomes, describe = there.case(args.seed, args.case, args.only)
        print(describe())
        for outcome in outcomes:
            print(f"{outcome.sort:8} {outcome.call}  {outcome.kind}")
            if outcome.sort == "defect":
                print("    " + outcome.detail.replace("\n", "\n    "))
        return int(any(outcome.sort == "defect" for outcome in outcomes))
    outcome = run(
        args.calls, args.seconds, args.seed, args.jobs, args.resume, args.only, cases
    )
    given = f" --extreme {args.extreme}" * bool(args.extreme) + " --large" * args.large
    given += f" --only '{args.only}'" * bool(args.only)
    tell(outcome, args.seed, args.show, given)
    return int(outcome["counts"]["defect"] > 0)


if __name__ == "__main__":
    sys.exit(main())
