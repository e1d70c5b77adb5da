"""``widemargin evaluate``: error, margins, reject curve and confusion in a terminal."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from widemargin.cli.judge import Judgement, load_and_judge

REJECTED = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 1.0)
WIDEST_CONFUSION = 26


def run(model_path: Path, data: Path, target: str | None) -> None:
    """Print how good the model is on labelled data."""
    model, _, judged = load_and_judge(model_path, data, target)
    console = Console()
    n, wrong = len(judged.truth), int((judged.truth != judged.answers).sum())
    console.print(
        f"{model.name} on {data.name}: error {100 * judged.error:.2f} % "
        f"({wrong} of {n}), {1e6 * judged.seconds / n:.3g} µs per sample",
        highlight=False,
    )
    console.print(margin_table(judged))
    console.print(reject_table(judged))
    if len(judged.classes) <= WIDEST_CONFUSION:
        console.print(confusion_table(judged))
    console.print(worst_pairs(judged), highlight=False)


def margin_table(judged: Judgement) -> Table:
    """Quantiles of the margins."""
    table = Table(title="Margins (negative: wrong)", title_justify="left")
    table.add_column("quantile")
    for quantile in QUANTILES:
        table.add_column(f"{100 * quantile:.0f} %", justify="right")
    values = np.quantile(judged.margins, QUANTILES)
    table.add_row("margin", *(f"{value:.3g}" for value in values))
    return table


def reject_table(judged: Judgement) -> Table:
    """Error among the answered when the least sure are rejected."""
    table = Table(title="Rejecting the least sure", title_justify="left")
    table.add_column("rejected")
    for share in REJECTED:
        table.add_column(f"{100 * share:.0f} %", justify="right")
    errors = (judged.error_when_rejecting(share) for share in REJECTED)
    table.add_row("error", *(f"{100 * error:.2f} %" for error in errors))
    table.caption = (
        f"For an error of 1 % reject {100 * judged.rejected_at(0.01):.1f} %. "
        "Measured on these data; it is no promise for others."
    )
    return table


def confusion_table(judged: Judgement) -> Table:
    """Show counts: rows are true classes, columns are answers."""
    table = Table(
        title="Confusion (rows: truth, columns: answer)", title_justify="left"
    )
    table.add_column("")
    for label in judged.classes:
        table.add_column(str(label), justify="right")
    for i, (label, row) in enumerate(
        zip(judged.classes, judged.confusion, strict=True)
    ):
        cells = [
            f"[bold]{count}[/]" if i == j else str(count) if count else "·"
            for j, count in enumerate(row)
        ]
        table.add_row(str(label), *cells)
    return table


def worst_pairs(judged: Judgement, most: int = 3) -> str:
    """Name the pairs of classes that are confused most."""
    counts = judged.confusion.copy()
    np.fill_diagonal(counts, 0)
    order = np.argsort(counts, axis=None)[::-1][:most]
    pairs = [np.unravel_index(place, counts.shape) for place in order]
    words = [
        f"{judged.classes[i]} taken for {judged.classes[j]} ({counts[i, j]} ×)"
        for i, j in pairs
        if counts[i, j]
    ]
    return "Confused most: " + ("; ".join(words) if words else "nothing")
