"""``widemargin export``: a model for ONNX runtimes or for C, checked before it is kept.

What was written is run on given data and compared with the model; what disagrees is
not kept.
"""

from pathlib import Path
from typing import Any

from widemargin.cli import Refusal, check_library, check_out, tell
from widemargin.saving import write_atomically

ENDINGS = {"onnx": ".onnx", "c": ".h"}
TABLES = {"onnx": ("float32", "float64"), "c": ("float32", "int8")}


def run(
    model: Path, to: str, out: Path, data: Path | None, dtype: str, name: str
) -> None:
    """Export, check and write; every refusal comes before any output."""
    if to not in ENDINGS:
        raise Refusal(f"--to must be onnx or c; got {to}")
    check_out("--out", out, ENDINGS[to])
    if dtype not in TABLES[to]:
        allowed = " or ".join(TABLES[to])
        raise Refusal(f"--dtype must be {allowed} for {to}; got {dtype}")
    if to == "onnx":
        check_library("onnx", "export to onnx", "'widemargin[onnx]'")
        if data is not None:
            check_library("onnxruntime", "the check", "'widemargin[onnx]'")
    from widemargin.cli.models import load

    saved = load(model)
    content, said = written(saved.pipeline, to, dtype, name)
    agreement = None
    if data is None:
        tell(["not checked: --data FILE would run it and compare"])
    else:
        agreement = checked(saved, content, data)
        if to == "c":
            from widemargin.export.agreement import code_bytes

            said += f"; {code_bytes(content) or 'unknown'} bytes of code (gcc -Os)"
    raw = content.encode() if isinstance(content, str) else content.SerializeToString()
    write_atomically(out, lambda path: path.write_bytes(raw))
    print(f"{type(saved.estimator).__name__} to {to}, {dtype}: {said}")
    if agreement is not None:
        print(f"Check: {agreement}")
    print(f"Exported: {out} ({len(raw) / 1024:.1f} KiB)")


def written(pipeline: Any, to: str, dtype: str, name: str) -> tuple[Any, str]:
    """Return the exported model, and a few words about it."""
    from widemargin.export import NotExportable, to_onnx
    from widemargin.export.c_header import c_header
    from widemargin.export.describe import describe

    try:
        if to == "onnx":
            content = to_onnx(pipeline, dtype=dtype)
            return content, f"{len(content.graph.node)} nodes"
        header = c_header(describe(pipeline), name, dtype)
    except (NotExportable, ValueError) as error:
        raise Refusal(str(error)) from error
    said = f"tables of {header.table_bytes} bytes"
    return header.text, f"{said}. {header.quantisation}".rstrip(". ")


def checked(saved: Any, content: Any, data: Path) -> Any:
    """Run the exported model on data; refuse what disagrees."""
    from widemargin.cli.evaluate import read_for
    from widemargin.export import check_export
    from widemargin.export.agreement import NoCompiler

    table, _ = read_for(saved, data, labelled=False)
    import numpy as np

    X = table.X.toarray() if hasattr(table.X, "toarray") else np.asarray(table.X)
    try:
        agreement = check_export(saved.pipeline, content, X.reshape(len(X), -1))
    except NoCompiler as error:
        raise Refusal(f"{error} Leave out --data to write it unchecked") from error
    except (ValueError, RuntimeError) as error:
        raise Refusal(f"the exported model cannot be run: {error}") from error
    tell(table.notes)
    if not agreement.agrees:
        raise Refusal(
            f"the exported model disagrees with the model and was not written: "
            f"{agreement}. Try another --dtype, or scale the data and fit again"
        )
    return agreement
