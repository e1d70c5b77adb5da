"""Tables 1 and 2 and Figures 3 to 8 of the re-weighting paper, done again.

``python -m widemargin.reproduce.reweighting [--quick] [--out FOLDER]`` prints the
tables, paper and ours side by side, and writes them with the figures to a folder.

Reference: F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
Artificial Intelligence 137 (2002). The paper's draw of 10 705 NIST digits was never
published, nor its step; nist3 is another draw from the same database.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from widemargin.datasets.nist3 import Split
from widemargin.prototypes import TVQClassifier
from widemargin.reproduce.reweighting_data import SETS, load_set
from widemargin.reproduce.reweighting_figures import (
    figure_3,
    figure_4,
    figure_5,
    figure_6,
    figure_7,
    figure_8,
    follow,
)
from widemargin.reproduce.reweighting_tables import Row, table_1, table_2, two_sided

HEADER = ("method", "parameters", "paper, %", "ours, %", "fit, s", "test, s")
SHOWN = (0, 5, 20, 60, 150)


def tables(split: Split, *, quick: bool, seed: int) -> tuple[list[Row], dict[str, Any]]:
    """Both tables of one set as rows, and the fitted models of Table 1."""
    rows, models = table_1(split, seed=seed)
    rows += table_2(split, seed=seed, max_iter=30 if quick else 150)
    rows.append(two_sided(split, seed=seed, max_iter=5 if quick else 60))
    return rows, models


def figures(
    split: Split, models: dict[str, Any], out: Path, *, quick: bool, seed: int
) -> dict[str, Any]:
    """Compute and save Figures 3 to 8; return their data by name."""
    from widemargin.reproduce.reweighting_plots import save_panels, save_weights

    n_iter = 20 if quick else 150
    shown = tuple(t for t in SHOWN if t < n_iter) + ((n_iter,) if quick else (150,))
    at = np.unique(np.r_[0:11, np.linspace(12, n_iter, 30).astype(int), shown])
    model = TVQClassifier(1, 15, theta=0.4, max_iter=n_iter, random_state=seed)
    followed = follow(model, split, at)
    data: dict[str, Any] = {
        "figure_3": figure_3(split, at, seed),
        "figure_4": figure_4(split, followed, at, seed),
        "figure_5": figure_5(followed, shown),
        "figure_6": figure_6(split, shown, seed),
        "figure_7": figure_7(split, n_iter, seed),
        "figure_8": figure_8({"TVQ 15×1": model, **_rejecting(models)}, split),
    }
    errors = {"xlabel": "iteration", "ylabel": "error, %"}
    share = {"xlabel": "margin", "ylabel": "share of samples below"}
    panels = {"Test error by start": data["figure_3"]}
    save_panels(out / "figure-3.png", panels, **errors, ylim=(0, 12))
    save_panels(out / "figure-4.png", data["figure_4"], **errors, ylim=(0, None))
    save_panels(out / "figure-5.png", data["figure_5"], **share)
    save_panels(out / "figure-6.png", data["figure_6"], **share)
    save_weights(out / "figure-7.png", data["figure_7"])
    save_panels(
        out / "figure-8.png",
        {"Rejection": data["figure_8"]},
        xlabel="error among accepted, %",
        ylabel="rejected, %",
        xlim=(0, 4),
        ylim=(0, 15),
    )
    return data


def _rejecting(models: dict[str, Any]) -> dict[str, Any]:
    kept = ("HSS 1-sided", "LVQ", "TD-Neuron", "SVM, poly d=2")
    return {name: model for name, model in models.items() if name.startswith(kept)}


def markdown(rows: Sequence[Row], title: str) -> str:
    """Set one table in Markdown, aligned."""
    cells = [list(HEADER)]
    for row in rows:
        paper = "–" if row.paper is None else f"{row.paper:.2f}"
        times = f"{row.fit_seconds:.1f}", f"{row.test_seconds:.2f}"
        cells.append([row.method, row.parameters, paper, f"{row.ours:.2f}", *times])
    widths = [max(len(line[c]) for line in cells) for c in range(len(HEADER))]
    lines = [
        "| " + " | ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)) + " |"
        for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join([f"### {title}", "", *lines, ""])


def main(
    quick: bool = False,
    out: str | Path = "reweighting",
    data_home: str | Path | None = None,
    sets: Sequence[str] = SETS,
    seed: int = 0,
) -> dict[str, Any]:
    """Reproduce the paper; print the tables and write them and the figures to `out`.

    Parameters
    ----------
    quick : bool, default=False
        Take 1000 samples to train and to test and few iterations, for a look in under
        a minute. Numbers then mean nothing.
    out : path, default="reweighting"
        Folder for ``reweighting.md`` and ``figure-3.png`` to ``figure-8.png``.
    data_home : path, default=None
        Folder of the data sets; None is the environment variable WIDEMARGIN_DATA.
    sets : sequence of {"nist3", "usps"}, default=("nist3", "usps")
        Sets for the tables; the paper's numbers are those of nist3, and the figures
        are of the first set.
    seed : int, default=0
        Of everything random.

    Returns
    -------
    dict
        ``"tables"``: {set: list of rows}; ``"figures"``: {name: data}.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"tables": {}, "figures": {}}
    texts = []
    for i, name in enumerate(sets):
        split = load_set(name, data_home, quick)
        rows, models = tables(split, quick=quick, seed=seed)
        if name != "nist3":
            rows = [row._replace(paper=None) for row in rows]
        found["tables"][name] = rows
        sizes = f"{len(split.y_train)} train, {len(split.y_test)} test"
        texts.append(markdown(rows, f"{name}: {sizes}"))
        print(texts[-1], flush=True)
        if i == 0:
            found["figures"] = figures(split, models, folder, quick=quick, seed=seed)
    distances = found["figures"]["figure_7"]["total_variation"]
    texts.append(
        "Total variation between the weights and uniform on the θ-mistakes: "
        + ", ".join(
            f"{d:.3f} (t={t})" for t, d in list(zip(*distances, strict=True))[::6]
        )
        + ".\n"
    )
    texts += [f"![Figure {f}](figure-{f}.png)\n" for f in range(3, 9)]
    print(texts[-7], flush=True)
    (folder / "reweighting.md").write_text("\n".join(texts), encoding="utf-8")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="reweighting")
    parser.add_argument("--data-home")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    main(options.quick, options.out, options.data_home, options.sets, options.seed)
