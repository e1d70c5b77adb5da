"""``widemargin compare``: our main classifiers beside scikit-learn's, on your data."""

import json
from dataclasses import replace
from pathlib import Path

from scipy import sparse

from widemargin._compute.progress import show_progress
from widemargin.cli import Refusal, check_out, console, near, tell, text_table
from widemargin.cli.fit import paper_of
from widemargin.cli.read import (
    Reading,
    as_usable,
    check_classes,
    parse_shape,
    read,
)
from widemargin.cli.report import use_agg
from widemargin.comparison import (
    HEADER,
    LEGEND,
    Comparison,
    compare,
    default_models,
)
from widemargin.saving import write_atomically
from widemargin.tangents import ImageTangents


def run(
    data: Path,
    target: str | None,
    image_shape: str | None,
    drop: list[str] | None,
    encode: list[str] | None,
    names: list[str] | None,
    cv: int,
    max_samples: int,
    seed: int,
    out: Path | None,
    as_json: bool,
    how: Reading,
) -> None:
    """Read the data, compare the models, print the table and save the picture."""
    if out is not None:
        check_out("--out", out, ".png", inputs=(data, target))
        use_agg()
    table = read(
        data,
        target=target,
        image_shape=parse_shape(image_shape),
        drop=drop or [],
        encode=encode or [],
        how=replace(how, missing=True),
    )
    y = table.y
    assert y is not None
    check_classes(y)
    X = as_usable(table.X, sparse.issparse(table.X), "compare")
    tangents = None
    if table.image_shape is not None:
        paper = paper_of(X, table.image_shape)
        tangents = ImageTangents(shape=table.image_shape, background=paper)
    models = default_models(tangents, seed)
    for name in names or ():
        if name not in models:
            raise Refusal(f"--model: no model {name!r}; {near(name, models)}")
    if names:
        models = {name: models[name] for name in names}
    try:
        with show_progress():
            found = compare(
                X, y, models=models, cv=cv, max_samples=max_samples, random_state=seed
            )
    except ValueError as error:
        raise Refusal(str(error)) from error
    tell([*table.notes, *found.notes])
    if as_json:
        print(json.dumps(as_data(found)))
    else:
        title = f"{len(found.rows[0].wrong)} samples of {data.name}, {cv} folds"
        console().print(text_table(title, HEADER, found.table()))
        console().print(LEGEND)
    tell(f"{name} is left out: {reason}" for name, reason in found.failed.items())
    if out is not None:
        draw(found, out)
        tell([f"picture: {out}"])


def as_data(found: Comparison) -> dict:
    """Return what is printed, as JSON has it."""
    rows = [
        {
            "model": row.name,
            "error": row.error,
            "standard_error": row.standard_error,
            "rejected_for_1_percent": row.rejected,
            "calibration_error": row.calibration_error,
            "bytes": row.size,
            "fit_seconds": row.fit_seconds,
            "predict_seconds": row.predict_seconds,
        }
        for row in found.rows
    ]
    return {"models": rows, "best": found.best, "left_out": found.failed}


def draw(found: Comparison, path: Path) -> None:
    """Save the picture."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained", dpi=150)
    found.plot(ax=ax)
    write_atomically(path, lambda file: figure.savefig(file, format="png"))
    plt.close(figure)
