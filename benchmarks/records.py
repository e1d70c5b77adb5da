"""Every row of benchmarks/records.md, or some; results in a file as they come.

Run: python benchmarks/records.py [--rows nist3 usps mnist few] [--data DIR] [--out DIR]
"""

import argparse
import os
from pathlib import Path

from common import data_folder, machine, print_table
from papers.records import SECTIONS, measure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--data", help="folder of the data; default WIDEMARGIN_DATA")
    parser.add_argument("--out", type=Path, default=Path(), help="for records.json")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    os.environ["WIDEMARGIN_DATA"] = options.data or str(data_folder())
    print(machine(), flush=True)
    rows = measure(options.rows, options.quick, options.out, options.jobs)
    cells = [
        (
            row.name,
            f"≤ {row.bar}",
            row.aim,
            f"{row.error:.2f} ± {row.standard_error:.2f}",
            row.chosen,
            f"{row.seconds:.0f}",
        )
        for row in rows
    ]
    header = ("work", "bar", "aim", "error, %", "chosen on the training set", "s")
    print_table("Records", header, cells)


if __name__ == "__main__":
    main()
