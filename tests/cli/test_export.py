"""``widemargin export`` checks what it writes, and writes it whole or not at all."""

import shutil
import subprocess

import pytest

onnx = pytest.importorskip("onnx")
needs_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="there is no gcc to compile the header with"
)


@pytest.fixture
def glvq(command, iris):
    arguments = "--target", "species", "--model", "glvq", "--out", "iris.skops"
    code, _, err = command("fit", iris, *arguments)
    assert code == 0, err
    return "iris.skops"


def test_onnx(command, glvq, iris, tmp_path):
    code, out, err = command(
        "export", glvq, "--to", "onnx", "--out", "iris.onnx", "--data", iris
    )
    assert code == 0, err
    assert "Check: 50 of 50 labels equal" in out
    model = onnx.load(tmp_path / "iris.onnx")
    onnx.checker.check_model(model, full_check=True)
    # Nothing of this machine is in the file.
    assert str(tmp_path).encode() not in (tmp_path / "iris.onnx").read_bytes()


@needs_gcc
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_c(command, glvq, iris, tmp_path, dtype):
    code, out, err = command(
        "export", glvq, "--to", "c", "--out", "iris.h", "--data", iris,
        "--dtype", dtype, "--name", "iris",
    )  # fmt: skip
    assert code == 0, err
    assert "labels equal" in out
    assert "bytes of code" in out
    header = (tmp_path / "iris.h").read_text()
    assert "iris_predict" in header
    assert str(tmp_path) not in header


@needs_gcc
@pytest.mark.parametrize("to", ["onnx", "c"])
def test_what_impute_fills_in_leaves_too(command, iris, tmp_path, to):
    lines = iris.read_text().splitlines()
    holes = [lines[0], *(f",{line.split(',', 1)[1]}" for line in lines[1:10])]
    (tmp_path / "holes.csv").write_text("\n".join([*holes, *lines[10:]]) + "\n")
    arguments = "--target", "species", "--model", "tvq", "--impute", "median"
    assert command("fit", "holes.csv", *arguments, "--out", "iris.skops")[0] == 0
    file = {"onnx": "iris.onnx", "c": "iris.h"}[to]
    code, out, err = command(
        "export", "iris.skops", "--to", to, "--out", file, "--data", "holes.csv"
    )
    assert code == 0, err
    assert f"Check: {len(lines) - 1} of {len(lines) - 1} labels equal" in out


def test_without_data_it_says_that_nothing_was_checked(command, glvq, tmp_path):
    code, _, err = command("export", glvq, "--to", "onnx", "--out", "iris.onnx")
    assert code == 0
    assert "not checked" in err
    assert (tmp_path / "iris.onnx").exists()


def test_refusals(refuses, glvq, iris, command):
    assert "onnx or c" in refuses("export", glvq, "--to", "java", "--out", "a.java")
    assert ".onnx" in refuses("export", glvq, "--to", "onnx", "--out", "a.h")
    assert "int8" in refuses(
        "export", glvq, "--to", "c", "--out", "a.h", "--dtype", "float64"
    )
    assert "identifier" in refuses(
        "export", glvq, "--to", "c", "--out", "a.h", "--name", "a b"
    )
    assert "no such" in refuses("export", "b.skops", "--to", "c", "--out", "a.h")
    assert "folder" in refuses("export", glvq, "--to", "c", "--out", "no/a.h")


def test_what_cannot_be_carried_is_named(refuses, command, iris):
    arguments = "--target", "species", "--model", "density", "--out", "d.skops"
    assert command("fit", iris, *arguments)[0] == 0
    said = refuses("export", "d.skops", "--to", "onnx", "--out", "d.onnx")
    assert "TangentDensityClassifier cannot be exported" in said


def test_what_disagrees_is_not_written(refuses, glvq, iris, monkeypatch):
    from widemargin.export import program

    right = program.References
    monkeypatch.setattr(
        program, "References", lambda points, *rest: right(points + 1, *rest)
    )
    said = refuses("export", glvq, "--to", "onnx", "--out", "iris.onnx", "--data", iris)
    assert "disagrees" in said


@needs_gcc
def test_without_a_compiler_the_check_is_refused(refuses, glvq, iris, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    said = refuses("export", glvq, "--to", "c", "--out", "iris.h", "--data", iris)
    assert "no gcc" in said


@needs_gcc
def test_the_header_compiles_elsewhere(command, glvq, tmp_path):
    command("export", glvq, "--to", "c", "--out", "iris.h")
    (tmp_path / "main.c").write_text(
        '#include "iris.h"\nint main(void) { return 0; }\n'
    )
    subprocess.run(
        ["gcc", "-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic", "main.c"],
        cwd=tmp_path,
        check=True,
    )
