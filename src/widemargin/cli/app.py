"""The commands and their options; what they do lives in a module of their own."""

from pathlib import Path
from typing import Annotated

import typer

import widemargin

app = typer.Typer(
    name="widemargin",
    help="Wide-margin, transformation-invariant classifiers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"widemargin {widemargin.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Wide-margin, transformation-invariant classifiers."""


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="Where the picture is saved; must end in .png.")
    ] = Path("widemargin-demo.png"),
) -> None:
    """Show on scikit-learn's digits what a tangent is and what it buys."""
    if out.suffix != ".png":
        typer.echo(f"--out must end in .png; got {out}", err=True)
        raise typer.Exit(2)
    if not out.parent.is_dir():
        typer.echo(f"--out: there is no folder {out.parent}; make it first", err=True)
        raise typer.Exit(2)
    from widemargin.cli.demo import run

    run(out)
