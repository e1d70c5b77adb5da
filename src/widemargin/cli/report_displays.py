"""The parts of a report that only some models and some data have."""

from typing import Any

import numpy as np

from widemargin.cli.counting import learned_tangents
from widemargin.cli.html import Page, picture
from widemargin.cli.judge import Judgement
from widemargin.cli.modelfile import SavedModel

MOST_PROTOTYPES = 200
MOST_TANGENTS = 6
LEAST_CURVE = 3  # fewer features than this are no curve to look at
SHOWN = 12


def add_gallery(page: Page, model: SavedModel, X: Any, judged: Judgement) -> None:
    """Show the surest mistakes, as images."""
    wrong = np.flatnonzero(judged.truth != judged.answers)
    if model.image_shape is None or len(wrong) == 0:
        return
    from matplotlib import pyplot as plt

    chosen = wrong[np.argsort(judged.margins[wrong])][:SHOWN]
    columns = min(6, len(chosen))
    rows = -(-len(chosen) // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(0.95 * columns, 1.3 * rows),
        squeeze=False,
        layout="constrained",
    )
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, i in zip(axes.flat, chosen, strict=False):
        image = X[i].reshape(model.image_shape)
        axis.imshow(image, cmap="gray_r" if image.ndim == 2 else None)
        title = f"{judged.truth[i]} as {judged.answers[i]}"
        axis.set_title(title, fontsize=9, color="#d64545")
    page.add(
        "The surest mistakes",
        "What each is, and what the model takes it for.",
        picture(figure, "images the model is wrong about and sure of"),
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
    ).plot()
    scaled = ", in standardised features" if len(model.pipeline) > 1 else ""
    page.add(
        "What the model knows",
        f"{len(prototypes)} prototypes, by class{scaled}.",
        picture(shown.figure_, "the prototypes of each class"),
        wide=model.image_shape is None,
    )


def add_tangents(page: Page, model: SavedModel, X: Any) -> None:
    """Show what may vary: a model along its tangents, or a sample along its own."""
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
            f"The model of {estimator.prototype_labels_[0]} along what it learned: "
            f"{min(MOST_TANGENTS, len(moves))} of its {len(moves)} tangents."
        )
    elif getattr(estimator, "tangents", None) is not None:
        shown = TangentDisplay.from_estimator(
            estimator, sample=X[0], shape=model.image_shape
        )
        words = "One sample, moved along each of its tangents; the middle is as it is."
    else:
        return
    page.add("What may vary", words, picture(shown.figure_, "swept along tangents"))


def add_alignment(page: Page, model: SavedModel, X: Any, judged: Judgement) -> None:
    """Show the least sure right answer beside the model it moved to."""
    estimator = model.estimator
    learned = learned_tangents(estimator)
    right = np.flatnonzero(judged.truth == judged.answers)
    if learned is None or model.image_shape is None or len(right) == 0:
        return
    from widemargin.inspection import AlignmentDisplay

    chosen = right[np.argmin(judged.margins[right])]
    shown = AlignmentDisplay.from_estimator(
        estimator, X[chosen], shape=model.image_shape
    )
    page.add(
        "The least sure right answer",
        f"A {judged.truth[chosen]} and the model nearest to it, before and after.",
        picture(shown.figure_, "a sample aligned with its nearest model"),
    )


def add_training(page: Page, model: SavedModel) -> None:
    """Show how the fit went, where the model kept its history."""
    history = getattr(model.estimator, "history_", None)
    if not history or max(map(np.size, _columns(history))) < 2:
        return  # one pass is no curve
    from widemargin.inspection import TrainingCurveDisplay

    shown = TrainingCurveDisplay.from_estimator(model.estimator)
    page.add(
        "How it was learned",
        "Over the passes of the training data.",
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
        "Where the model looked",
        "Weights of the training samples: those of small margin count more.",
        picture(shown.figure_, "sample weights over the rounds"),
    )


def _columns(history: Any) -> list:
    """Return the recorded series: of a dict of them, or of one alone."""
    return list(history.values()) if isinstance(history, dict) else [history]


def _drawable(model: SavedModel) -> bool:
    return model.image_shape is not None or model.n_features >= LEAST_CURVE
