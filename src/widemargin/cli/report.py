"""``widemargin report``: one HTML file with every display that applies to a model."""

import platform
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import widemargin
from widemargin._core.confidence import nested
from widemargin.cli import check_library, check_out
from widemargin.cli.evaluate import (
    QUANTILES,
    REJECTED,
    Evaluation,
    guarantee_of,
    load_and_evaluate,
)
from widemargin.cli.html import (
    Page,
    Plot,
    asset,
    code,
    confusion,
    picture,
    round_steps,
    table,
)
from widemargin.cli.interactive import interactive_parts
from widemargin.cli.models import SavedModel
from widemargin.fewshot import FewShotImageClassifier
from widemargin.inspection import style
from widemargin.inspection.models import common_theta, generator_of, learned_tangents
from widemargin.saving import write_atomically

WIDEST_PAGE = 40  # classes of a confusion matrix
MOST_PROTOTYPES = 200
MOST_TANGENTS = 6
LEAST_CURVE = 3  # fewer features than this are no curve to look at
SHOWN = 12
LISTED = 20
MOST_REJECTED = 0.5


def run(model: Path, data: Path, target: str | None, out: Path, how: Any) -> None:
    """Judge the model on labelled data and write the page, whole or not at all."""
    check_out("--out", out, ".html", inputs=(model, data, target))
    use_agg()
    saved, table, X, results = load_and_evaluate(model, data, target, how)
    size = model.stat().st_size
    page = build(saved, X, results, str(data.name), size, table.rows)
    page.add("The same in Python", "", code(snippet(saved)), wide=True)
    write_page(page, out)
    print(f"Report: {out}")


def use_agg() -> None:
    """Draw without a screen, or say what is missing."""
    check_library("matplotlib", "a report", "'widemargin[plot]'")
    import matplotlib

    matplotlib.use("Agg")


def write_page(page: Page, out: Path) -> None:
    """Write the page, whole or not at all."""
    write_atomically(out, lambda path: path.write_text(page.render(), "utf-8"))


def build(
    model: SavedModel,
    X: Any,
    results: Evaluation,
    data: str,
    size: int | None = None,
    rows: Sequence[str] = (),
) -> Page:
    """Return the page on samples that are prepared for the classifier itself."""
    estimator = model.estimator
    settings = estimator.get_params(deep=False)
    default = type(estimator)().get_params(deep=False)
    changed = [f"{k}={v}" for k, v in settings.items() if str(v) != str(default[k])]
    page = Page(
        title=f"{type(estimator).__name__} on {data}",
        lead=f"{len(results.truth)} labelled samples, {X.shape[1]} features, "
        f"{len(results.classes)} classes. "
        + (
            f"Set: {', '.join(changed)}."
            if changed
            else "All parameters as by default."
        )
        + (f" {guarantee_of(model.refusing)}" if model.refusing is not None else ""),
        footer=f"widemargin {widemargin.__version__}, scikit-learn "
        f"{sklearn.__version__}, Python {platform.python_version()}",
    )
    page.tiles = tiles(model, results, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sure = add_margins(page, results, common_theta([estimator]))
        buys = add_rejection(page, results)
        if len(results.classes) <= WIDEST_PAGE:
            page.add(
                "Which classes are confused",
                "Rows are true classes, columns are answers.",
                confusion(results.confusion, results.classes),
                wide=len(results.classes) > 12,
            )
        add_gallery(page, model, X, results)
        add_samples(page, results, rows)
        plots = {"margin": asdict(sure), "reject": asdict(buys)}
        interactive = interactive_parts(model, X, results, plots, rows)
        page.bar, page.data = asset("threshold.html"), interactive.html()
        add_prototypes(page, model)
        add_relevances(page, model)
        add_tangents(page, model, X, interactive.data["sweeps"] is not None)
        add_alignment(page, model, X, results)
        add_labelled(page, model, X, results)
        add_training(page, model)
        add_weights(page, model)
    return page


def tiles(model: SavedModel, results: Evaluation, size: int | None) -> list:
    """Return the numbers at the top of the page."""
    found = [("error", f"{100 * results.error:.2f} %")]
    if results.accepted is not None:
        share, error = results.accepted.mean(), results.error_of_answered
        found = [
            ("answered", f"{100 * share:.1f} %"),
            ("error of the answered", "–" if error is None else f"{100 * error:.2f} %"),
            ("error if all were answered", found[0][1]),
        ]
    found += [
        ("rejected for 1 % error", f"{100 * results.rejected_at(0.01):.1f} %"),
        ("µs per prediction", results.microseconds),
    ]
    kept = vectors_kept(model.estimator)
    if kept is not None:
        found.append(("vectors kept", f"{kept}"))
    if size is not None:
        found.append(("model file", f"{size / 1024:.0f} KiB"))
    return found


def add_margins(page: Page, results: Evaluation, theta: float | None) -> Plot:
    """Show the distribution of the margins; return where it is drawn."""
    margins = np.sort(results.margins)
    low, high = min(float(margins[0]), 0.0), max(float(margins[-1]), 0.0)
    high = high if high > low else low + 1.0
    plot = Plot(low, high, 0.0, 100.0)
    # As many steps as can be seen.
    few = np.unique(np.linspace(0, len(margins) - 1, 400).astype(int))
    shares = 100 * (few + 1) / len(margins)
    zero = plot.x(0.0)
    inner = f'<line class="zero" x1="{zero}" x2="{zero}" y1="10" y2="250"/>'
    if theta is not None and low < theta < high:
        at = plot.x(theta)
        inner += (
            f'<line class="zero" x1="{at}" x2="{at}" y1="10" y2="250"/>'
            f'<text x="{at + 4}" y="22">θ</text>'
        )
    inner += plot.curve(margins[few], shares) + (
        '<g id="marks" hidden><rect id="band" class="band" y="10" height="240"/>'
        '<line id="mark-low" class="mark" y1="10" y2="250"/>'
        '<line id="mark-high" class="mark" y1="10" y2="250"/></g>'
    )
    drawn = plot.render(
        inner,
        "cumulative distribution of the margins",
        "margin",
        "samples with at most this margin, %",
        round_steps(low, high),
    )
    page.add(
        "How sure the answers are",
        "Share of samples with at most this margin; left of zero they are wrong.",
        drawn
        + table(
            ["share of samples", "margin at most"],
            [
                [f"{100 * share:.0f} %", f"{np.quantile(results.margins, share):.3g}"]
                for share in QUANTILES
            ],
        ),
    )
    return plot


def add_rejection(page: Page, results: Evaluation) -> Plot:
    """Show what rejecting the least sure would buy; return where it is drawn."""
    curve = results.curve
    within = np.flatnonzero(curve.rejection_rate <= MOST_REJECTED)
    few = within[np.unique(np.linspace(0, len(within) - 1, 400).astype(int))]
    refused, error = 100 * curve.rejection_rate[few], 100 * curve.error_rate[few]
    plot = Plot(0.0, 100 * MOST_REJECTED, 0.0, max(1.05 * float(error.max()), 0.1))
    dot = '<circle id="reject-dot" class="dot" r="6" hidden/>'
    # Between two thresholds nothing else can be had: steps.
    xs, ys = np.repeat(refused, 2)[1:], np.repeat(error, 2)[:-1]
    drawn = plot.render(
        plot.curve(xs, ys) + dot,
        "error among the answered against the share rejected",
        "rejected, %",
        "error among the answered, %",
        round_steps(0.0, 100 * MOST_REJECTED),
    )
    rows = [
        [f"{100 * share:.0f} %", f"{100 * results.error_when_rejecting(share):.2f} %"]
        for share in REJECTED
    ]
    page.add(
        "What rejecting buys",
        "Error among the answered against the share rejected, least sure first. "
        f"Its mean over all shares (AURC) is {100 * results.aurc:.2f} %. "
        "Measured on these data; RejectingClassifier gives a guarantee for others.",
        drawn + table(["rejected", "error of the rest"], rows),
    )
    return plot


def add_samples(page: Page, results: Evaluation, rows: Sequence[str]) -> None:
    """List the smallest margins, where no script can list them all."""
    worst = np.argsort(results.margins, kind="stable")[:LISTED]
    names = rows or [f"row {i + 1}" for i in range(len(results.margins))]
    listed = [
        [names[i], results.truth[i], results.answers[i], f"{results.margins[i]:.3g}"]
        for i in worst
    ]
    page.sections.append(
        '<section class="wide still"><h2>The smallest margins</h2>'
        '<p class="soft">With JavaScript, this page lists all samples with their '
        "pictures.</p>"
        + table(["sample", "true class", "answer", "margin"], listed)
        + "</section>"
    )
    page.sections.append(asset("samples.html"))


def add_gallery(page: Page, model: SavedModel, X: Any, results: Evaluation) -> None:
    """Show the surest mistakes, as images."""
    wrong = np.flatnonzero(results.truth != results.answers)
    if model.image_shape is None or len(wrong) == 0:
        return
    chosen = wrong[np.argsort(results.margins[wrong])][:SHOWN]
    images = X[chosen].reshape(-1, *model.image_shape)
    if images.shape[-1] == 1 and images.ndim == 4:
        images = images[..., 0]
    pairs = [(str(results.truth[i]), str(results.answers[i])) for i in chosen]
    words = [
        f"{truth} as {answer}"
        if len(truth + answer) < 9
        else f"{style.short(truth, 11)}\nas {style.short(answer, 9)}"
        for truth, answer in pairs
    ]
    lines = [slice(k, k + 6) for k in range(0, len(chosen), 6)]
    size = len(lines), min(6, len(chosen))
    inches = style.mosaic_inches(*size, images[0], labelled=True, margin=0.1)
    axes = style.new_axes("a report", inches)
    style.draw_mosaic(
        axes,
        [images[line] for line in lines],
        limits=style.most_values([images]),
        labels=[words[line] for line in lines],
    )
    page.add(
        "The surest mistakes",
        "The true class of each, and the answer.",
        picture(axes.figure, "images with wrong answers of high confidence"),
    )


def add_prototypes(page: Page, model: SavedModel) -> None:
    """Show the prototypes, as images or curves."""
    estimator = model.estimator
    prototypes = getattr(estimator, "prototypes_", None)
    if prototypes is None or not _drawable(model):
        return
    if prototypes.shape[1] != model.n_features or hasattr(estimator, "dual_coef_"):
        return  # prototypes in the space of a kernel are no samples to look at
    from widemargin.inspection import PrototypeDisplay

    few = slice(MOST_PROTOTYPES)
    shown = PrototypeDisplay(
        prototypes=prototypes[few],
        labels=estimator.prototype_labels_[few],
        shape=model.image_shape,
        feature_names=model.names or None,
    ).plot()
    # What fills in missing values leaves features in their units.
    steps = [
        type(step).__name__
        for step in model.before
        if not hasattr(step, "missing_values")
    ]
    after = f", in features as {', then '.join(steps)} gives them" if steps else ""
    page.add(
        "What the model learned",
        f"{len(prototypes)} prototypes, by class{after}.",
        picture(shown.figure_, "the prototypes of each class"),
        wide=model.image_shape is None,
    )


def add_relevances(page: Page, model: SavedModel) -> None:
    """Show what counts in a learned distance."""
    if not hasattr(model.estimator, "relevance_matrix_"):
        return
    from widemargin.inspection import RelevanceDisplay

    try:
        shown = RelevanceDisplay.from_estimator(
            model.estimator,
            shape=model.image_shape,
            feature_names=model.names or None,
        )
    except ValueError:
        return  # curves of many matrices, which cannot be told apart
    page.add(
        "Feature importance",
        "Share of each feature in the learned distance, on the training data.",
        picture(shown.figure_, "relevances of the features"),
        wide=True,
    )


def add_tangents(page: Page, model: SavedModel, X: Any, sweeps: bool) -> None:
    """Show tangents: a model along its own, or a sample along those it has."""
    estimator = model.estimator
    from widemargin.inspection import TangentDisplay

    if not _drawable(model):
        return
    learned = learned_tangents(estimator)
    if learned is not None:
        if not np.any(learned[0]):
            return
        moves = learned[0][np.abs(learned[0]).max(axis=1) > 0]
        shown = TangentDisplay(
            sample=estimator.prototypes_[0],
            tangents=moves[:MOST_TANGENTS],
            shape=model.image_shape,
        ).plot()
        words = (
            f"A model along its {len(moves)} learned tangents: changes that it ignores."
        )
    elif generator_of(estimator) is not None:
        shown = TangentDisplay.from_estimator(
            estimator, sample=X[0], shape=model.image_shape
        )
        words = "A sample along each of its tangents: changes that the model ignores."
    else:
        return
    drawn = picture(shown.figure_, "swept along tangents")
    if sweeps:
        drawn = f'<div class="still">{drawn}</div>{asset("sweeps.html")}'
    page.add("Tangents", words, drawn, wide=sweeps)


def add_alignment(page: Page, model: SavedModel, X: Any, results: Evaluation) -> None:
    """Show the least sure right answer beside the model it moved to."""
    estimator = model.estimator
    learned = learned_tangents(estimator)
    right = np.flatnonzero(results.truth == results.answers)
    if learned is None or model.image_shape is None or len(right) == 0:
        return
    from widemargin.inspection import AlignmentDisplay

    chosen = right[np.argmin(results.margins[right])]
    shown = AlignmentDisplay.from_estimator(
        estimator, X[chosen], shape=model.image_shape
    )
    page.add(
        "The least sure right answer",
        f"A {results.truth[chosen]} and the model nearest to it, before and after.",
        picture(shown.figure_, "a sample aligned with its nearest model"),
    )


def add_labelled(page: Page, model: SavedModel, X: Any, results: Evaluation) -> None:
    """Show the least sure answers above the labelled images nearest to them."""
    estimator = model.estimator
    if not isinstance(estimator, FewShotImageClassifier) or estimator.shape_ is None:
        return
    if estimator.members_ == ("pixels",):
        return
    chosen = np.argsort(results.confidence)[:SHOWN]
    found = estimator.nearest(X[chosen])
    lines, words = [], []
    for k in range(0, len(chosen), 6):
        for images, labels in (
            (found.seen, results.answers[chosen]),
            (found.copies, found.labels),
        ):
            lines.append(np.abs(images[k : k + 6]))
            words.append([style.short(str(label), 11) for label in labels[k : k + 6]])
    size = len(lines), min(6, len(chosen))
    inches = style.mosaic_inches(*size, lines[0][0], labelled=True, margin=0.1)
    axes = style.new_axes("a report", inches)
    style.draw_mosaic(axes, lines, limits=style.most_values(lines), labels=words)
    page.add(
        "The least sure answers and the labelled images nearest to them",
        "Above an image and the answer, below the labelled image that is nearest, in "
        "the copy that fits best.",
        picture(axes.figure, "answers above the nearest labelled images"),
    )


def add_training(page: Page, model: SavedModel) -> None:
    """Show how the fit went, where the model kept its history."""
    history = getattr(model.estimator, "history_", None)
    if not history or max(map(np.size, _columns(history))) < 2:
        return  # one pass is no curve
    from widemargin.inspection import TrainingCurveDisplay

    shown = TrainingCurveDisplay.from_estimator(model.estimator)
    page.add(
        "Training",
        "By passes over the training data.",
        picture(shown.figure_, "training curves"),
    )


def add_weights(page: Page, model: SavedModel) -> None:
    """Show the weights of the samples, where the model re-weights."""
    estimator = model.estimator
    history = getattr(estimator, "history_", None)
    recorded = isinstance(history, dict) and len(history.get("weights", ())) > 0
    if not recorded and not hasattr(estimator, "sample_weight_"):
        return
    from widemargin.inspection import SampleWeightDisplay

    shown = SampleWeightDisplay.from_estimator(estimator)
    page.add(
        "Sample weights",
        "Weights of the training samples: those of small margin count more.",
        picture(shown.figure_, "sample weights over the rounds"),
    )


def _columns(history: Any) -> list:
    """Return the recorded series: of a dict of them, or of one alone."""
    return list(history.values()) if isinstance(history, dict) else [history]


def _drawable(model: SavedModel) -> bool:
    return model.image_shape is not None or model.n_features >= LEAST_CURVE


def snippet(model: SavedModel) -> str:
    """Return Python that builds and fits the same."""
    built = unfitted(model)
    parts = [built, *built.get_params().values()]
    imports = sorted({_import_of(type(p)) for p in parts if hasattr(p, "get_params")})
    written = built.__repr__(N_CHAR_MAX=float("inf"))
    fitted = ["", f"model = {written}", "model.fit(X_train, y_train)"]
    return "\n".join([*imports, *fitted, "model.predict(X_test)"])


def unfitted(model: SavedModel) -> Any:
    """Return what a fit of which gives the model: refusing goes around everything.

    What was held out to choose a threshold was seen by no step before the classifier.
    """
    steps = [clone(step) for step in (*model.before, model.estimator)]
    built = make_pipeline(*steps) if len(steps) > 1 else steps[0]
    refusing = [one for one in nested(model.pipeline) if hasattr(one, "reject_label_")]
    for one in reversed(refusing):
        settings = one.get_params(deep=False)
        prefit = isinstance(one.cv, str) and one.cv == "prefit"
        settings |= {"estimator": built, "cv": "auto" if prefit else one.cv}
        built = type(one)(**settings)
    return built


def _import_of(kind: type) -> str:
    """Return how a class is imported: from the outermost package that has it."""
    parts = kind.__module__.split(".")
    homes = (".".join(parts[:k]) for k in range(1, len(parts) + 1))
    home = next(h for h in homes if getattr(import_module(h), kind.__name__, 0) is kind)
    return f"from {home} import {kind.__name__}"


def vectors_kept(estimator: Any) -> int | None:
    """Count the rows of features that a prediction is computed from.

    Hyperplanes, else support vectors, else prototypes with the tangents they learned,
    else remembered samples.
    """
    coef = getattr(estimator, "coef_", None)
    if coef is not None and np.shape(coef)[-1] == estimator.n_features_in_:
        return len(np.atleast_2d(coef))
    machine = getattr(estimator, "svc_", estimator)
    for name in ("support_vectors_", "support_"):
        if hasattr(machine, name):
            return len(getattr(machine, name))
    if hasattr(estimator, "prototypes_"):
        count = len(estimator.prototypes_)
        tangents = learned_tangents(estimator)
        if tangents is not None and tangents.size:
            count += int((np.abs(tangents).max(axis=2) > 0).sum())
        return count
    if hasattr(estimator, "bundle_"):
        return len(estimator.bundle_.points)
    return getattr(estimator, "n_samples_fit_", None)
