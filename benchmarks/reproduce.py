"""The tables and figures of a paper, theirs beside ours.

Run: python benchmarks/reproduce.py PAPER [--quick] [--out FOLDER]
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import widemargin

PAPERS = ("margin-lvq", "reweighting", "tangent-kernels", "perceptrons", "records")


def main(words: Sequence[str] | None = None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--quick", action="store_true", help="in a minute or so")
    parser.add_argument("--out", type=Path, default=Path(), help="for the figures")
    options = parser.parse_args(words)
    if options.out.exists() and not options.out.is_dir():
        parser.error(f"--out: {options.out} is a file; name a folder")
    options.out.mkdir(parents=True, exist_ok=True)
    module = import_module(f"papers.{options.paper.replace('-', '_')}")
    try:
        with widemargin.show_progress():
            module.main(options.quick, options.out)
    except FileNotFoundError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
