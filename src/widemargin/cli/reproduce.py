"""``widemargin reproduce``: the papers' tables and figures, a module each."""

from importlib import import_module
from pathlib import Path

from widemargin.cli.refusal import Refusal, near

PAPERS = {
    "margin-lvq": "margin_lvq",
    "reweighting": "reweighting",
    "tangent-kernels": "tangent_kernels",
    "perceptrons": "perceptrons",
}


def run(paper: str, quick: bool, out: Path) -> None:
    """Print the tables; save the figures in the folder `out`."""
    if paper not in PAPERS:
        raise Refusal(f"there is no paper {paper!r}; {near(paper, PAPERS)}")
    if not out.is_dir():
        raise Refusal(f"--out: there is no folder {out}; make it first")
    module = import_module(f"widemargin.reproduce.{PAPERS[paper]}")
    try:
        module.main(quick, out)
    except ModuleNotFoundError as missing:
        raise Refusal(
            f"this needs {missing.name}: pip install {missing.name}"
        ) from None
