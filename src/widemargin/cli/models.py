"""Models as the command knows them: by name, in one table, and in files.

`grid` is what ``--search`` tries, the smallest or smoothest first; `tangents` says
where image tangents go: "inputs" (always, where the image shape is known), "both" (only
with ``--set sides=both``) or "no". `curves` says that a row is one curve, whose columns
are not standardised one by one.

Of files it is what :mod:`widemargin.saving` keeps, checked. Every way in which a file
cannot be used is a refusal.
"""

import ast
import inspect
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import widemargin
from widemargin import saving
from widemargin._core.confidence import decisive, look_through, nested
from widemargin.cli import Refusal, check_library, near
from widemargin.cli.read import Table


@dataclass(frozen=True)
class ModelEntry:
    """One row of the table."""

    estimator: str
    says: str
    tangents: str = "no"
    sparse: bool = False
    curves: bool = False
    grid: dict[str, list] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Where the class is imported from."""
        return f"widemargin.{widemargin._ESTIMATORS[self.estimator]}.{self.estimator}"

    def load(self) -> type:
        """Import the class."""
        return getattr(widemargin, self.estimator)

    @property
    def takes_missing(self) -> bool:
        """Whether the model itself knows what a missing value means."""
        return bool(getattr(self.load(), "_allow_nan", False))


def _row(
    estimator: str,
    says: str,
    tangents: str = "no",
    sparse: bool = False,
    curves: bool = False,
    **grid: list,
) -> ModelEntry:
    return ModelEntry(estimator, says, tangents, sparse, curves, grid)


_PROTOTYPES, _C = [1, 4, 16, "auto"], [1.0, 10.0, 100.0]
MODELS = {
    "gmlvq": _row("GMLVQClassifier", "tables: prototypes and a learned metric",
                  prototypes_per_class=[1, 4, "auto"]),
    "tvq": _row("TVQClassifier", "small: prototypes with tangents", "both",
                prototypes_per_class=[1, "auto"], n_tangents=[4, 8, "auto"],
                theta=[0.2, 0.4]),
    "knn": _row("TangentKNeighborsClassifier",
                "nearest neighbours in tangent distance", "inputs",
                n_neighbors=[5, 3, 1]),
    "svc": _row("TangentSVC", "a support vector machine of tangent distances",
                "inputs", C=_C),
    "maxmargin": _row("MaxMarginClassifier",
                      "text, sparse data: a certified maximum margin", sparse=True,
                      C=[0.01, 0.1, 1.0, 10.0]),
    "lvq": _row("LVQClassifier", "prototypes, trained sample by sample",
                prototypes_per_class=_PROTOTYPES),
    "marginlvq": _row("MarginLVQClassifier", "prototypes with a hypothesis-margin loss",
                      prototypes_per_class=_PROTOTYPES),
    "glvq": _row("GLVQClassifier", "prototypes with a relative-margin loss",
                 prototypes_per_class=_PROTOTYPES),
    "kernellvq": _row("KernelLVQClassifier", "prototypes in the space of a kernel",
                      prototypes_per_class=_PROTOTYPES),
    "hss": _row("HSSClassifier", "class means with principal directions", "both",
                prototypes_per_class=[1, 2, 4, "auto"],
                n_tangents=[2, 4, 8, 12, "auto"]),
    "tdneuron": _row("TDNeuronClassifier",
                     "one discriminative tangent model per class",
                     max_tangents=[2, 4, 8, 16]),
    "density": _row("TangentDensityClassifier",
                    "kernel densities of tangent distances", "inputs",
                    sides=["query", "reference", "both"]),
    "signal": _row("SignalClassifier", "time series: shapes anywhere in a signal",
                   curves=True, n_features=[5000, 10000]),
    "spectrum": _row("SpectrumClassifier", "spectra: the mean of six preprocessings",
                     curves=True, preprocessing=["auto"]),
    "fewshot": _row("FewShotImageClassifier", "images: few labels of each class",
                    ink=["auto", False]),
    "virtualsvc": _row("VirtualSVC",
                       "an SVM with transformed support vectors",
                       "inputs", C=_C),
    "invariantsvc": _row("InvariantHyperplaneSVC",
                         "an SVM of whitened features",
                         "inputs", shrinkage=[0.01, 0.1, 0.5]),
    "perceptron": _row("MarginPerceptron", "a perceptron with margin", sparse=True,
                       update=["plain", "relaxation"]),
    "fixedmargin": _row("FixedMarginPerceptron",
                        "a perceptron with a fixed directional margin", sparse=True,
                        normalize=[False, True]),
}  # fmt: skip


def run(name: str | None, as_json: bool) -> None:
    """Print the models, or the parameters of one."""
    if as_json:
        shown = {name: find(name, "")} if name else MODELS
        print(json.dumps({key: as_data(one) for key, one in shown.items()}))
    elif name is not None:
        entry = find(name, "")
        print(f"{name}: {entry.says}; {entry.path}")
        for one in parameters(entry):
            print(f"  {one['name']}={one['default']}  {one['type']}")
    else:
        for name, entry in MODELS.items():
            grid = ", ".join(f"{key}={values}" for key, values in entry.grid.items())
            print(f"{name:<13}{entry.says}\n{'':<13}{entry.path}; search: {grid}")


def parameters(entry: ModelEntry) -> list[dict[str, str]]:
    """Return name, default and type of every parameter."""
    kind = entry.load()
    listed = (inspect.getdoc(kind) or "").partition("\nAttributes\n")[0]
    words = dict(re.findall(r"^([\w, ]+) : (.*)$", listed, re.MULTILINE))
    found = []
    for name, parameter in inspect.signature(kind).parameters.items():
        said = next((w for names, w in words.items() if name in names.split(", ")), "")
        said = re.sub(r",? default=.*", "", said)
        found.append({"name": name, "default": repr(parameter.default), "type": said})
    return found


def as_data(entry: ModelEntry) -> dict[str, Any]:
    """Return the entry as JSON has it."""
    return {
        "class": entry.path,
        "says": entry.says,
        "sparse": entry.sparse,
        "search": entry.grid,
        "parameters": parameters(entry),
    }


def find(name: str, option: str = "--model: ") -> ModelEntry:
    """Return the entry called `name`, which the user gave by this option."""
    if name not in MODELS:
        raise Refusal(f"{option}no model {name!r}; {near(name, MODELS)}")
    return MODELS[name]


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE; a value is a Python literal, else text."""
    read: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise Refusal(f"--set: {setting!r} is not KEY=VALUE; write theta=0.3")
        read[key.strip()] = _literal(text.strip())
    return read


def _literal(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def build(
    name: str,
    settings: dict[str, Any],
    *,
    image_shape: tuple[int, ...] | None,
    seed: int,
    background: float = 0.0,
) -> Any:
    """Return the unfitted estimator with image tangents, seed and settings."""
    entry = find(name)
    estimator = entry.load()()
    known = estimator.get_params()
    if "random_state" in known:
        estimator.set_params(random_state=seed)
    wants = entry.tangents == "inputs" or (
        entry.tangents == "both" and settings.get("sides") == "both"
    )
    if wants and image_shape is not None:
        from widemargin.tangents import ImageTangents

        moves = ImageTangents(shape=image_shape, background=background)
        estimator.set_params(tangents=moves)
    elif entry.tangents == "inputs":
        # A table has no tangents, and whoever fits one knows.
        estimator.set_params(tangents="none")
    elif entry.tangents == "both" and settings.get("sides") == "both":
        raise Refusal(
            "--set sides=both needs tangents of images: add --image-shape 16x16"
        )
    if "shape" in known and image_shape is not None:
        estimator.set_params(shape=image_shape)
    # Parts first, so that tangents__sigma finds the tangents of this call.
    known = estimator.get_params()
    for key, value in settings.items():
        if key not in known:
            raise Refusal(f"--set: {name} has no parameter {key!r}; {near(key, known)}")
        # Of names of choices "none" is one, as in scale="none".
        named = value is None and isinstance(known[key], str)
        estimator.set_params(**{key: "none" if named else value})
    return estimator


@dataclass
class SavedModel:
    """A fitted classifier and the shape of the data it was fitted on.

    What is before the classifier, and what refuses, may be nested in any order.
    """

    pipeline: Any
    name: str
    names: list[str]
    image_shape: tuple[int, ...] | None
    target: str | None
    n_features: int

    @property
    def estimator(self) -> Any:
        """The classifier itself, without scaling before it or refusing after it."""
        *_, classifier = nested(self.pipeline)
        return classifier

    @property
    def before(self) -> list[Any]:
        """What the samples pass on their way to the classifier."""
        pipelines = (one for one in nested(self.pipeline) if hasattr(one, "steps"))
        return [step for one in pipelines for _, step in one.steps[:-1]]

    @property
    def refusing(self) -> Any:
        """The outermost that refuses answers; None where nothing does."""
        found = (one for one in nested(self.pipeline) if hasattr(one, "reject_label_"))
        return next(found, None)

    @property
    def takes_missing(self) -> bool:
        """Whether a step before the classifier fills in missing values, or it may."""
        filled = any(hasattr(step, "missing_values") for step in self.before)
        return filled or getattr(self.estimator, "_allow_nan", False)

    def name_columns(self) -> None:
        """Let Python know the names, too, as a fit on a data frame would."""
        if self.names:
            first = (*self.before, self.estimator)[0]
            for one in (first, self.refusing or first):
                one.feature_names_in_ = np.array(self.names, dtype=object)

    def accepts(self, X: Any) -> Any:
        """Return which answers on samples as given it stands by; None where all."""
        last, seen = look_through(self.pipeline, X)
        return last.accepts(seen) if hasattr(last, "accepts") else None

    def prepare(self, X: Any) -> Any:
        """Return `X` as the classifier sees it."""
        return decisive(self.pipeline, X)[1]


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
    fields = {
        name: content[name]
        for name in SavedModel.__dataclass_fields__
        if name in content
    }
    model = SavedModel(content["model"], **fields)
    if not _is_usable(model):
        raise Refusal(f"{path} holds no classifier of widemargin; {saving.AGAIN}")
    return model


def _is_usable(model: SavedModel) -> bool:
    """Whether the fields have the types that the commands count on."""
    return (
        hasattr(model.estimator, "margins")
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
