"""``widemargin reproduce``: the papers' tables and figures, a module each."""

from importlib import import_module
from pathlib import Path

from widemargin.cli.refusal import Refusal, near
from widemargin.progress import show_progress

PAPERS = {
    "margin-lvq": "widemargin.reproduce.margin_lvq",
    "reweighting": "widemargin.reproduce.reweighting",
    "tangent-kernels": "widemargin.cli.reproduce_kernels",
    "perceptrons": "widemargin.reproduce.perceptrons",
}


def run(paper: str, quick: bool, out: Path) -> None:
    """Print the tables; save the figures in the folder `out`."""
    if paper not in PAPERS:
        raise Refusal(f"there is no paper {paper!r}; {near(paper, PAPERS)}")
    if not out.is_dir():
        raise Refusal(f"--out: there is no folder {out}; make it first")
    try:
        with show_progress():
            import_module(PAPERS[paper]).main(quick, out)
    except ModuleNotFoundError as missing:
        raise Refusal(
            f"this needs {missing.name}: pip install {missing.name}"
        ) from None
