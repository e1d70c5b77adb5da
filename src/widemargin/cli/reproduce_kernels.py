"""Print the tables of the paper on tangent distance kernels, and save its figures."""

from pathlib import Path

import numpy as np

from widemargin.datasets import load_usps
from widemargin.reproduce import tangent_kernel_figures, tangent_kernels

QUICK = (600, 300)  # training and test images; the paper has 7291 and 2007
HEADER = (
    "kernel",
    "gamma",
    "C",
    "spring",
    "cv error",
    "error",
    "at paper's",
    "paper",
    "supports",
)


def main(quick: bool = False, out: Path | str = ".") -> None:
    """Run tables 2 and 3 on USPS line by line, then the rivals and the figures."""
    train, test = (load_usps(subset=part) for part in ("train", "test"))
    n_train, n_test = QUICK if quick else (len(train.data), len(test.data))
    rng = np.random.default_rng(0)
    rows = [
        np.sort(rng.choice(len(part.data), n, replace=False))
        for part, n in ((train, n_train), (test, n_test))
    ]
    X, y = train.data[rows[0]].astype(np.float64), train.target[rows[0]]
    digits = tangent_kernels.Digits.scaled(
        X, y, test.data[rows[1]].astype(np.float64), test.target[rows[1]]
    )
    print(f"USPS, {n_train} training and {n_test} test images; errors in per cent")
    print(
        "".join(f"{head:>11}" if i else f"{head:<40}" for i, head in enumerate(HEADER))
    )
    for line in tangent_kernels.tables(digits):
        _print_line(line)
    for line in tangent_kernels.rivals(digits):
        _print_line(line)
    figures = (
        (2, tangent_kernel_figures.figure_2()),
        (3, tangent_kernel_figures.figure_3(X, y)),
        (4, tangent_kernel_figures.figure_4(X[np.flatnonzero(y == 2)[0]])),
    )
    for number, figure in figures:
        path = Path(out) / f"tangent_kernels_figure_{number}.png"
        figure.savefig(path, dpi=120, bbox_inches="tight")
        print(f"saved {path}")


def _print_line(line: tangent_kernels.Line) -> None:
    published = None if line.paper is None else line.paper.error
    numbers = (
        *(line.gamma, line.C, line.spring, line.cv_error, line.error),
        *(line.error_at_papers, published, line.supports),
    )
    cells = ("" if v is None or np.isnan(v) else f"{v:.4g}" for v in numbers)
    print(f"{line.name:<40}" + "".join(f"{cell:>11}" for cell in cells), flush=True)
