"""Model files: skops archives that run no code of strangers, written whole.

A file holds the fitted pipeline and what is needed to read data the same way. Only
NumPy, SciPy and scikit-learn types that skops itself trusts and classes of widemargin
are ever made from it.
"""

import json
import zipfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

import widemargin
from widemargin._core.files import write_atomically
from widemargin.cli.columns import Table
from widemargin.cli.refusal import Refusal, check_library

FORMAT = 1
# Plain containers of numbers that fitted models hold and skops does not list.
HARMLESS = {
    "numpy.dtype",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
}


@dataclass
class SavedModel:
    """A fitted pipeline and the shape of the data it was fitted on."""

    pipeline: Any
    name: str
    names: list[str]
    image_shape: tuple[int, ...] | None
    target: str | None
    n_features: int
    version: str = widemargin.__version__
    format: int = FORMAT

    @property
    def estimator(self) -> Any:
        """The classifier itself, without scaling before it or refusing after it."""
        last = self.pipeline[-1]
        return getattr(last, "estimator_", last)

    def accepts(self, X: Any) -> Any:
        """Return which answers on prepared samples it stands by; None where all."""
        last = self.pipeline[-1]
        return last.accepts(X) if hasattr(last, "accepts") else None

    def prepare(self, X: Any) -> Any:
        """Return `X` as the classifier sees it."""
        return self.pipeline[:-1].transform(X) if len(self.pipeline) > 1 else X


def save(model: SavedModel, path: Path) -> None:
    """Write the model, whole or not at all."""
    # Not dataclasses.asdict, which copies every array inside.
    content = {name: getattr(model, name) for name in model.__dataclass_fields__}
    data = _skops().dumps(content)
    unknown = _unknown_types(data)
    if unknown:
        raise Refusal(
            f"a model with {', '.join(unknown[:3])} inside cannot be saved safely; use "
            "parameters that are numbers, text or parts of widemargin"
        )
    write_atomically(path, lambda temporary: temporary.write_bytes(data))


def load(path: Path) -> SavedModel:
    """Read a model, or refuse with the reason."""
    again = "fit and save the model again"
    if not path.is_file():
        raise Refusal(f"{path}: there is no such model; make one with widemargin fit")
    io, data = _skops(), path.read_bytes()
    if not data:
        raise Refusal(f"{path} is an empty or damaged model file; {again}")
    try:
        unknown = _unknown_types(data)
        if unknown:
            raise Refusal(
                f"{path} holds {', '.join(unknown[:3])}, which no widemargin model "
                "needs; it was not loaded. Use only files made by widemargin fit"
            )
        content = io.loads(data, trusted=io.get_untrusted_types(data=data))
    except (zipfile.BadZipFile, json.JSONDecodeError, EOFError):
        raise Refusal(f"{path} is no model file or is damaged; {again}") from None
    except Refusal:
        raise
    except Exception as error:
        # A damaged or foreign archive can fail anywhere inside skops.
        kind = type(error).__name__
        raise Refusal(f"{path} cannot be read ({kind}: {error}); {again}") from None
    fields = SavedModel.__dataclass_fields__
    if not isinstance(content, dict) or not set(content) >= {"format", "version"}:
        raise Refusal(f"{path} holds no widemargin model; {again}")
    if content["format"] != FORMAT or set(content) != set(fields):
        raise Refusal(
            f"{path} was written by widemargin {content['version']} in format "
            f"{content['format']}, this is {widemargin.__version__} with format "
            f"{FORMAT}; {again}"
        )
    model = SavedModel(**content)
    if not _is_usable(model):
        raise Refusal(f"{path} holds no classifier of widemargin; {again}")
    return model


def _is_usable(model: SavedModel) -> bool:
    """Whether the fields have the types that the commands count on."""
    return (
        isinstance(model.pipeline, Pipeline)
        and hasattr(model.estimator, "margins")
        and hasattr(model.estimator, "classes_")
        and isinstance(model.n_features, int)
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


def _unknown_types(data: bytes) -> list[str]:
    return [t for t in _skops().get_untrusted_types(data=data) if not _is_ours(t)]


def _is_ours(type_name: str) -> bool:
    """Whether a type is a class defined in widemargin, or known to be harmless."""
    if type_name in HARMLESS:
        return True
    module, _, name = type_name.rpartition(".")
    if not (module == "widemargin" or module.startswith("widemargin.")):
        return False
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return False
    return isinstance(found, type) and found.__module__ == module


def check_skops() -> None:
    """Refuse before any work where no model file could be written."""
    check_library("skops", "a model file", "skops")


def _skops() -> Any:
    check_skops()
    import skops.io

    return skops.io
