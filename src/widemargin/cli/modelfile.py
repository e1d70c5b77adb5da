"""Model files as the command uses them: what :mod:`widemargin.saving` keeps, checked.

Every way in which a file cannot be used is a refusal.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from widemargin import saving
from widemargin.cli.columns import Table
from widemargin.cli.refusal import Refusal, check_library


@dataclass
class SavedModel:
    """A fitted pipeline and the shape of the data it was fitted on."""

    pipeline: Any
    name: str
    names: list[str]
    image_shape: tuple[int, ...] | None
    target: str | None
    n_features: int

    @property
    def estimator(self) -> Any:
        """The classifier itself, without scaling before it or refusing after it."""
        last = self.pipeline[-1]
        return getattr(last, "estimator_", last) if self.refuses else last

    @property
    def refuses(self) -> bool:
        """Whether it keeps some answers back."""
        return hasattr(self.pipeline[-1], "accepts")

    @property
    def imputes(self) -> bool:
        """Whether it fills in what is missing."""
        return any(hasattr(step, "missing_values") for _, step in self.pipeline.steps)

    def accepts(self, X: Any) -> Any:
        """Return which answers on prepared samples it stands by; None where all."""
        return self.pipeline[-1].accepts(X) if self.refuses else None

    def prepare(self, X: Any) -> Any:
        """Return `X` as the classifier sees it."""
        return self.pipeline[:-1].transform(X) if len(self.pipeline) > 1 else X


def save(model: SavedModel, path: Path) -> None:
    """Write the model, whole or not at all."""
    # Not dataclasses.asdict, which copies every array inside.
    content = {name: getattr(model, name) for name in model.__dataclass_fields__}
    check_skops()
    try:
        saving.write({"model": content.pop("pipeline"), **content}, path)
    except ValueError as error:
        raise Refusal(str(error)) from error


def load(path: Path) -> SavedModel:
    """Read a model, or refuse with the reason."""
    check_skops()
    try:
        content = saving.read(path)
    except (ValueError, FileNotFoundError) as error:
        raise Refusal(str(error)) from None
    pipeline = content["model"]
    if not isinstance(pipeline, Pipeline):
        pipeline = Pipeline([("model", pipeline)])
    fields = {
        name: content[name]
        for name in SavedModel.__dataclass_fields__
        if name in content
    }
    model = SavedModel(pipeline, **fields)
    if not _is_usable(model):
        raise Refusal(f"{path} holds no classifier of widemargin; {saving.AGAIN}")
    return model


def _is_usable(model: SavedModel) -> bool:
    """Whether the fields have the types that the commands count on."""
    return (
        bool(model.pipeline.steps)
        and hasattr(model.estimator, "margins")
        and hasattr(model.estimator, "classes_")
        and isinstance(model.n_features, int)
        and isinstance(model.name, str)
        and isinstance(model.names, list)
        and all(isinstance(name, str) for name in model.names)
    )


def match_features(model: SavedModel, table: Table, path: Path) -> None:
    """Refuse data with another number of features than the model's."""
    if table.X.shape[1] != model.n_features:
        raise Refusal(
            f"{path} has {table.X.shape[1]} features and the model was fitted on "
            f"{model.n_features}; give data of the same kind"
        )


def check_skops() -> None:
    """Refuse before any work where no model file could be written."""
    check_library("skops", "a model file", "skops")
