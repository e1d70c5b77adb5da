import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import widemargin
from widemargin.cli import demo_models, main, story
from widemargin.cli.app import app

runner = CliRunner()


@pytest.fixture(scope="module")
def case():
    return story.find_case()


def test_the_case_is_what_it_says(case):
    labels = case.labels
    assert labels[case.query] == labels[case.relative] != labels[case.lookalike]
    assert case.euclid[case.lookalike] < case.euclid[case.relative]
    assert case.tangent[case.relative] < case.tangent[case.lookalike]
    image, other = (case.images[i].ravel() for i in (case.query, case.relative))
    assert case.euclid[case.relative] == pytest.approx(np.linalg.norm(image - other))
    assert case.alignment.squared_distances[0] ** 0.5 == pytest.approx(
        case.tangent[case.relative], rel=1e-6
    )


def test_tangents_help_at_every_number_of_labels():
    euclid, tangent = story.errors_with_few_labels().values()
    assert len(euclid) == len(story.LABELS_PER_CLASS)
    assert all(t < e for t, e in zip(tangent, euclid, strict=True))


def test_the_command_prints_and_saves(tmp_path):
    out, report = tmp_path / "demo.png", tmp_path / "demo.html"
    result = runner.invoke(app, ["demo", "--out", str(out), "--report", str(report)])
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(b"\x89PNG")
    assert sorted(tmp_path.iterdir()) == [report, out]
    assert "tangent distance" in result.output
    assert "1-NN error" in result.output
    assert f"Report: {report}" in result.output.replace("\n", "")
    page = report.read_text()
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    rows = readme.partition("| model | error |")[2].partition("\n\n")[0]
    said = re.findall(r"^\|[^|]*\| ([\d.]+) %", rows, re.MULTILINE)
    for name, error in zip(demo_models.contestants(), said, strict=True):
        printed = re.search(rf"^│ {name} .*? ([\d.]+) ±", result.output, re.MULTILINE)
        # Readme has the numbers of one version of scikit-learn.
        assert float(printed[1]) == pytest.approx(float(error), abs=0.25)
        assert f"<td>{name}</td>" in page
    assert page.count("data:image/png;base64,") >= 6
    assert all(line in result.output for line in demo_models.SNIPPET.splitlines())


def test_the_models_are_judged_by_what_they_answer():
    data = demo_models.digits()
    chosen = ("sklearn 1-NN", "sklearn SVC", "GLVQ", "TVQ")
    models = {name: demo_models.contestants()[name] for name in chosen}
    found = demo_models.side_by_side(data, models)
    for row in found.rows:
        assert row.error == pytest.approx(1 - row.estimator.score(data[1], data[3]))
        assert row.error < 0.05
    assert found.rows[0].rejected is None
    assert "cannot" in found.rows[0].cells()


def test_prototypes_fit_the_terminal():
    model = SimpleNamespace(prototypes_=np.zeros((10, 64)))
    for width in (30, 80, 200):
        console = Console(width=width, no_color=True)
        with console.capture() as capture:
            demo_models.print_prototypes(model, console)
        lines = capture.get().splitlines()
        assert max(map(len, lines)) <= width
        assert sum(line.count("                ") for line in lines[1:]) >= 80


def test_the_printed_python_runs():
    namespace: dict = {}
    exec(demo_models.SNIPPET, namespace)
    assert namespace["D"].shape == (100, 1697)
    assert namespace["X_train"].shape == (500, 64)


@pytest.mark.parametrize(
    ("option", "path", "message"),
    [
        ("--out", "picture.jpg", "must end in .png"),
        ("--out", "no/a.png", "no folder"),
        ("--report", "page.txt", "must end in .html"),
        ("--report", "no/a.html", "no folder"),
    ],
)
def test_bad_out_is_refused_before_any_work(refuses, option, path, message):
    assert message in refuses("demo", option, path)


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "sys.argv = ['widemargin', '--help']\n"
        "from widemargin.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'sklearn', 'rich', 'matplotlib', 'numba', 'skops'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_main_runs_the_app(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["widemargin", "--version"])
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert widemargin.__version__ in capsys.readouterr().out


def test_images_are_readable_without_colour():
    text = story.image_text(np.array([[0.0, 1.0], [1.0, 0.0]]))
    console = Console(no_color=True, width=20)
    with console.capture() as capture:
        console.print(text)
    assert capture.get().splitlines() == ["  @@", "@@  "]
