"""The commands and their options; what they do lives in a module of their own."""

import inspect
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import widemargin
from widemargin.cli import leave, one_line


class OneLineGroup(TyperGroup):
    """A wrong option ends like any other bad input: in one line."""

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run the command that the arguments name."""
        options["standalone_mode"] = False
        if not standalone_mode:
            return super().main(*args, **options)
        try:
            code = super().main(*args, **options)
        except Exception as error:
            # Typer carries its own copy of click in some versions: no class to name.
            message = getattr(error, "format_message", None)
            if message is None:
                raise
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()  # type: ignore[attr-defined]
                raise SystemExit(2) from None
            leave(f"{message()} See widemargin --help")
        raise SystemExit(code if isinstance(code, int) else 0)


# Plain help: the formatted one imports a Markdown parser, which takes longer than
# everything else that help needs.
app = typer.Typer(
    name="widemargin",
    cls=OneLineGroup,
    help="Classifiers that ignore harmless changes, report a confidence, and abstain.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DATA = (
    "CSV(.gz), Parquet, npz, npy, idx(.gz), LIBSVM text, an image, a folder with one "
    "folder per class, or - for standard input."
)
TARGET = "Column or array of the labels; for idx the file of the labels."
DataPath = Annotated[Path, typer.Argument(help=DATA, metavar="DATA")]
ModelPath = Annotated[Path, typer.Argument(help="Made by fit.", metavar="MODEL")]
Device = Annotated[str, typer.Option(help="Where to work: cpu, or cuda for a GPU.")]
Target = Annotated[str | None, typer.Option(help=TARGET)]
Drop = Annotated[list[str] | None, typer.Option(help="Leave a column out. Repeatable.")]
Encode = Annotated[
    list[str] | None,
    typer.Option(help="Make a categorical column one-hot. Repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TEXT_OPTIONS: dict[str, tuple[Any, Any]] = {
    "decimal": (".", Annotated[str, typer.Option(help="Decimal sign of CSV: . or ,")]),
    "delimiter": (
        None,
        Annotated[
            str | None,
            typer.Option(help="Of CSV: one character or tab; by default detected."),
        ],
    ),
    "header": (
        "auto",
        Annotated[
            str, typer.Option(help="Does CSV begin with column names: auto, yes, no.")
        ],
    ),
    "encoding": ("utf-8", Annotated[str, typer.Option(help="Of CSV: latin-1, ...")]),
}


def command(
    module: str, function: str = "run", *, reads_text: bool = False
) -> Callable[[Callable[..., None]], None]:
    """Make a command of a signature: its options go to a function of a module.

    The module is imported when the command is called. Where it `reads_text`, options
    that say how a text file is to be read are added, and arrive as one.
    """

    def register(options: Callable[..., None]) -> None:
        @wraps(options)
        def call(**given: Any) -> None:
            if reads_text:
                from widemargin.cli.read import Reading

                given["how"] = Reading(*(given.pop(name) for name in TEXT_OPTIONS))
            getattr(import_module(f"widemargin.cli.{module}"), function)(**given)

        signature = inspect.signature(options)
        shown = list(signature.parameters.values())
        if reads_text:
            shown += [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY,
                                  default=default, annotation=annotation)
                for name, (default, annotation) in TEXT_OPTIONS.items()
            ]  # fmt: skip
        call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in shown}
        app.command()(one_line(call))

    return register


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
    """Classifiers that ignore harmless changes, report a confidence, and abstain."""


@command("demo")
def demo(
    out: Annotated[
        Path, typer.Option(help="Where the picture is saved; must end in .png.")
    ] = Path("widemargin-demo.png"),
    report: Annotated[
        Path, typer.Option(help="Where the report is saved; must end in .html.")
    ] = Path("widemargin-demo.html"),
) -> None:
    """Show tangents and models on scikit-learn's digits."""


@command("fit", reads_text=True)
def fit(
    data: DataPath,
    model: Annotated[
        str | None,
        typer.Option(
            help="Name of a model: see `models`. By default gmlvq for tables, svc for "
            "images, maxmargin for sparse data."
        ),
    ] = None,
    few: Annotated[
        bool,
        typer.Option(
            "--few", help="Images with few labels: the same as --model fewshot."
        ),
    ] = False,
    target: Target = None,
    image_shape: Annotated[
        str | None, typer.Option(help="Rows are images of this shape: 16x16.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Parameter of the model: theta=0.3. Repeatable."),
    ] = None,
    drop: Drop = None,
    encode: Encode = None,
    scale: Annotated[
        bool | None,
        typer.Option(
            help="Standardise the features. By default yes for dense tables, unless "
            "the model scales them itself."
        ),
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Cross-validate a small grid first.")
    ] = False,
    max_error: Annotated[
        float | None,
        typer.Option(help="Abstain where unsure, to keep errors below this share."),
    ] = None,
    impute: Annotated[
        str | None,
        typer.Option(
            help="Impute missing values: mixture, mean, median, most_frequent. By "
            "default mixture."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the model is saved.")] = Path(
        "model.skops"
    ),
) -> None:
    """Fit a model and save it."""


@command("evaluate", "predict", reads_text=True)
def predict(
    model: ModelPath,
    data: DataPath,
    max_error: Annotated[
        float | None,
        typer.Option(help="Abstain where unsure, to keep errors below this share."),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(help="Labelled data, new to the model, for --max-error."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="CSV to write; standard output by default.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of every class.")
    ] = False,
    called: Annotated[
        str | None,
        typer.Option("--id", help="Name rows by this column, not by their number."),
    ] = None,
    device: Device = "cpu",
) -> None:
    """Predict labels, each with its margin."""


@command("evaluate", "evaluate", reads_text=True)
def evaluate(
    model: ModelPath,
    data: DataPath,
    target: Target = None,
    as_json: AsJson = False,
    device: Device = "cpu",
) -> None:
    """Print errors, margins and confusion on labelled data."""


@command("report", reads_text=True)
def report(
    model: ModelPath,
    data: DataPath,
    target: Target = None,
    out: Annotated[
        Path, typer.Option(help="Where the report is saved; must end in .html.")
    ] = Path("widemargin-report.html"),
) -> None:
    """Write an HTML file with plots of the model and its errors."""


@command("compare", reads_text=True)
def compare(
    data: DataPath,
    target: Target = None,
    image_shape: Annotated[
        str | None, typer.Option(help="Rows are images of this shape: 16x16.")
    ] = None,
    drop: Drop = None,
    encode: Encode = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--model", help="Compare this model only. Repeatable."),
    ] = None,
    cv: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 5,
    max_samples: Annotated[
        int, typer.Option(help="Draw so many samples from larger data.")
    ] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Picture to save; must end in .png.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare our models with scikit-learn's on your data."""


@command("models")
def models(
    name: Annotated[
        str | None, typer.Argument(help="List its parameters.", metavar="[NAME]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the models, or the parameters of one."""


@command("export")
def export(
    model: ModelPath,
    to: Annotated[str, typer.Option(help="onnx or c.")],
    out: Annotated[Path, typer.Option(help="File to write: .onnx, or .h for C.")],
    data: Annotated[
        Path | None, typer.Option(help="Samples to check it on, as fit reads them.")
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="float32; for onnx also float64, for c also int8.")
    ] = "float32",
    name: Annotated[
        str, typer.Option(help="What the functions of a C header are called after.")
    ] = "model",
) -> None:
    """Write a model as an ONNX graph or a C header."""


@command("doctor")
def doctor(as_json: AsJson = False) -> None:
    """Show versions, BLAS, threads, numba's cache and memory."""


@command("compile")
def compile(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="Models to compile for: tvq, knn, ... By default all."),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="Of the samples: float32, float64 or both.")
    ] = "both",
) -> None:
    """Compile kernels ahead, for containers and CI."""
