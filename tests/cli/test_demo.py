import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import widemargin
from widemargin.cli import demo, files, main, terminal
from widemargin.cli.app import app

runner = CliRunner()


@pytest.fixture(scope="module")
def story():
    return demo.tell()


def test_the_case_is_what_it_says(story):
    labels = story.labels
    assert labels[story.query] == labels[story.relative] != labels[story.lookalike]
    assert story.euclid[story.lookalike] < story.euclid[story.relative]
    assert story.tangent[story.relative] < story.tangent[story.lookalike]
    image, other = (story.images[i].ravel() for i in (story.query, story.relative))
    assert story.euclid[story.relative] == pytest.approx(np.linalg.norm(image - other))
    assert story.alignment.squared_distances[0] ** 0.5 == pytest.approx(
        story.tangent[story.relative], rel=1e-6
    )


def test_tangents_help_at_every_number_of_labels(story):
    euclid, tangent = story.errors["Euclidean"], story.errors["tangent"]
    assert len(euclid) == len(demo.LABELS_PER_CLASS)
    assert all(t < e for t, e in zip(tangent, euclid, strict=True))


def test_the_command_prints_and_saves(tmp_path):
    out = tmp_path / "demo.png"
    result = runner.invoke(app, ["demo", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [out]
    assert "tangent distance" in result.output
    assert "1-NN error" in result.output


def test_the_printed_python_runs():
    namespace: dict = {}
    exec(demo.SNIPPET, namespace)
    assert namespace["D"].shape == (100, 1697)


@pytest.mark.parametrize(
    ("out", "message"), [("picture.jpg", "must end in .png"), ("no/a.png", "no folder")]
)
def test_bad_out_is_refused_before_any_work(out, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["demo", "--out", out])
    assert result.exit_code == 2
    assert message in result.output


def test_version():
    result = runner.invoke(app, ["--version"])
    assert result.output.strip() == f"widemargin {widemargin.__version__}"


def test_main_runs_the_app(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["widemargin", "--version"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert widemargin.__version__ in capsys.readouterr().out


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail(temporary):
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        files.write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_images_are_readable_without_colour():
    text = terminal.image_text(np.array([[0.0, 1.0], [1.0, 0.0]]))
    console = Console(no_color=True, width=20)
    with console.capture() as capture:
        console.print(text)
    assert capture.get().splitlines() == ["  @@", "@@  "]
