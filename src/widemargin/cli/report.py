"""``widemargin report``: one HTML file with every display that applies to a model."""

import platform
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

import widemargin
from widemargin.cli.counting import vectors_kept
from widemargin.cli.files import write_atomically
from widemargin.cli.html import Page, code, confusion, picture, table
from widemargin.cli.judge import Judgement, load_and_judge
from widemargin.cli.modelfile import SavedModel
from widemargin.cli.refusal import Refusal
from widemargin.cli.report_displays import (
    add_alignment,
    add_gallery,
    add_prototypes,
    add_tangents,
    add_training,
    add_weights,
)

REJECTED = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.9)
WIDEST_CONFUSION = 40


def run(model_path: Path, data: Path, target: str | None, out: Path) -> None:
    """Judge the model on labelled data and write the page, whole or not at all."""
    if out.is_dir() or not out.parent.is_dir():
        raise Refusal(f"--out: {out} cannot be written; name a file in a folder")
    use_agg()
    model, X, judged = load_and_judge(model_path, data, target)
    size = model_path.stat().st_size
    page = build(model, model.prepare(X), judged, str(data.name), size)
    page.add("The same in Python", "", code(snippet(model)), wide=True)
    write_page(page, out)
    print(f"Report: {out}")


def use_agg() -> None:
    """Draw without a screen, or say what is missing."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise Refusal(
            "a report needs matplotlib: pip install 'widemargin[plot]'"
        ) from None
    matplotlib.use("Agg")


def write_page(page: Page, out: Path) -> None:
    """Write the page, whole or not at all."""
    write_atomically(out, lambda path: path.write_text(page.render(), "utf-8"))


def build(
    model: SavedModel, X: Any, judged: Judgement, data: str, size: int | None = None
) -> Page:
    """Return the page on samples that are prepared for the classifier itself."""
    estimator = model.estimator
    settings = estimator.get_params(deep=False)
    default = type(estimator)().get_params(deep=False)
    changed = [f"{k}={v}" for k, v in settings.items() if str(v) != str(default[k])]
    page = Page(
        title=f"{type(estimator).__name__} on {data}",
        lead=f"{len(judged.truth)} labelled samples, {X.shape[1]} features, "
        f"{len(judged.classes)} classes. "
        + (
            f"Set: {', '.join(changed)}."
            if changed
            else "All parameters as by default."
        ),
        footer=f"widemargin {widemargin.__version__}, scikit-learn "
        f"{sklearn.__version__}, Python {platform.python_version()}",
    )
    page.tiles = tiles(model, judged, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        add_margins(page, judged, getattr(estimator, "theta", None))
        add_rejection(page, judged)
        if len(judged.classes) <= WIDEST_CONFUSION:
            page.add(
                "Which classes are confused",
                "Rows are true classes, columns are answers.",
                confusion(judged.confusion, judged.classes),
                wide=len(judged.classes) > 12,
            )
        add_gallery(page, model, X, judged)
        add_prototypes(page, model)
        add_tangents(page, model, X)
        add_alignment(page, model, X, judged)
        add_training(page, model)
        add_weights(page, model)
    return page


def tiles(model: SavedModel, judged: Judgement, size: int | None) -> list:
    """Return the numbers at the top of the page."""
    n = len(judged.truth)
    found = [
        ("error", f"{100 * judged.error:.2f} %"),
        ("rejected for 1 % error", f"{100 * judged.rejected_at(0.01):.1f} %"),
        ("µs per prediction", f"{1e6 * judged.seconds / n:.3g}"),
    ]
    kept = vectors_kept(model.estimator)
    if kept is not None:
        found.append(("vectors kept", f"{kept}"))
    if size is not None:
        found.append(("model file", f"{size / 1024:.0f} KiB"))
    return found


def add_margins(page: Page, judged: Judgement, theta: float | None) -> None:
    """Show the distribution of the margins."""
    from widemargin.inspection import MarginDistributionDisplay

    shown = MarginDistributionDisplay(
        margins={"these data": judged.margins}, theta=theta
    ).plot()
    page.add(
        "How sure the answers are",
        "Share of samples with at most this margin; left of zero they are wrong.",
        picture(shown.figure_, "cumulative distribution of the margins")
        + table(
            ["share of samples", "margin at most"],
            [
                [f"{100 * share:.0f} %", f"{np.quantile(judged.margins, share):.3g}"]
                for share in QUANTILES
            ],
        ),
    )


def add_rejection(page: Page, judged: Judgement) -> None:
    """Show what rejecting the least sure would buy."""
    from widemargin.inspection import ErrorRejectDisplay

    shown = ErrorRejectDisplay(curves={"these data": judged.curve}).plot(
        max_rejection=0.5
    )
    rows = [
        [f"{100 * share:.0f} %", f"{100 * judged.error_when_rejecting(share):.2f} %"]
        for share in REJECTED
    ]
    page.add(
        "What rejecting buys",
        "Error among the answered against the share refused, least sure first. "
        "Measured on these data; RejectingClassifier makes promises for others.",
        picture(shown.figure_, "error against share rejected")
        + table(["rejected", "error of the rest"], rows),
    )


def snippet(model: SavedModel) -> str:
    """Return Python that builds the same estimator."""
    estimator = model.estimator
    module = type(estimator).__module__.rsplit(".", 1)[0]
    lines = [f"from {module} import {type(estimator).__name__}"]
    if getattr(estimator, "tangents", None) is not None:
        lines.append("from widemargin.tangents import ImageTangents")
    steps = repr(estimator)
    if len(model.pipeline) > 1:
        lines += [
            "from sklearn.pipeline import make_pipeline",
            "from sklearn.preprocessing import StandardScaler",
        ]
        steps = f"make_pipeline(StandardScaler(), {steps})"
    lines += ["", f"model = {steps}", "model.fit(X_train, y_train)"]
    return "\n".join([*lines, "model.predict(X_test)"])
