"""Every example runs in its quick form, prints numbers and shows pictures."""

import os
import re
import runpy
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
HOME = Path(os.environ.get("WIDEMARGIN_DATA") or ROOT.parent / "shared" / "data")
PNG = b"\x89PNG\r\n\x1a\n"
# What takes long, and what stands for it here.
QUICK = {
    "choosing_sigma": [
        ("SIGMAS = [0.0, 0.4, 0.8, 1.2, 1.6, 2.0]", "SIGMAS = [0.0, 0.8]")
    ],
    "digits_with_few_labels": [
        ("DRAWS, COUNTS = 3, (1, 2, 5, 10, 20)", "DRAWS, COUNTS = 2, (2, 5)")
    ],
    "reading_an_alignment": [("X = X[:1000] / 16.0", "X = X[:300] / 16.0")],
    "svm_that_ignores_rotation": [
        ("ANGLES = (0, 5, 10, 15, 20, 25, 30)", "ANGLES = (0, 20)"),
        ("test_size=0.3, random_state", "test_size=0.3, train_size=200, random_state"),
    ],
    "leaving_python": [("TVQClassifier(max_iter=100)", "TVQClassifier(max_iter=20)")],
    "drifting_baseline": [("recordings(300)", "recordings(60)")],
    "spectra_with_own_transformations": [("measured(300)", "measured(50)")],
    "beef_by_its_spectrum": [("DRAWS = (3, 5, 8), 10", "DRAWS = (3, 8), 2")],
    "leaves_by_their_outlines": [("n_shifts=30", "n_shifts=2")],
    "choosing_theta": [
        (
            "THETAS = [-0.2, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8]",
            "THETAS = [0.1, 0.4]",
        ),
        ("max_iter=60", "max_iter=10"),
        ("cv=5", "cv=3"),
    ],
    "reading_a_margin_plot": [("ROUNDS, THETA = 20, 0.3", "ROUNDS, THETA = 4, 0.3")],
    "rejecting_at_a_target_error": [
        (
            '    "logistic regression": make_pipeline(\n'
            "        StandardScaler(), LogisticRegression(max_iter=300)\n    ),\n",
            "",
        )
    ],
    "certified_hyperplane": [
        ("TOLERANCES = (3e-1, 1e-1, 3e-2, 1e-2, 1e-3)", "TOLERANCES = (1e-1, 1e-3)"),
        ("max_iter=200_000", "max_iter=5000"),
    ],
    "how_many_prototypes": [("PER_CLASS = (1, 2, 4, 8, 16)", "PER_CLASS = (1, 2, 4)")],
    "model_for_a_microcontroller": [
        (
            "TANGENTS, PROTOTYPES = (0, 1, 2, 4, 8, 12), (1, 2, 4, 8, 12)",
            "TANGENTS, PROTOTYPES = (0, 4), (1, 4)",
        )
    ],
}


def test_there_are_examples():
    assert len(EXAMPLES) >= 18
    assert set(QUICK) <= {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, tmp_path_factory, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    text = path.read_text()
    for name in re.findall(r'load_ucr\("(\w+)"', text):
        if not any(HOME.rglob(f"{name}.*")) and not any(
            HOME.rglob(f"{name.lower()}.*")
        ):
            pytest.skip(f"needs {name} in WIDEMARGIN_DATA or ../shared/data")
        monkeypatch.setenv("WIDEMARGIN_DATA", str(HOME))
    for whole, quick in QUICK.get(path.stem, []):
        assert whole in text, f"{path.stem} has no {whole!r}; mend QUICK"
        text = text.replace(whole, quick)
    script = tmp_path_factory.mktemp("quick") / path.name
    script.write_text(text)
    # Shown pictures are saved, so that they can be looked at here.
    monkeypatch.setattr(plt, "show", lambda: plt.savefig(f"{path.stem}.png"))
    with warnings.catch_warnings(), plt.rc_context():
        warnings.simplefilter("error")
        runpy.run_path(str(script), run_name="__main__")
    plt.close("all")
    assert re.search(r"\d", capsys.readouterr().out)
    assert [file.name for file in tmp_path.iterdir()] == [f"{path.stem}.png"]
    assert (tmp_path / f"{path.stem}.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_told_in_cells(path):
    text = path.read_text()
    title, line, *_ = text.removeprefix('"""\n').splitlines()
    assert line == "=" * len(title)
    assert len(title) <= 50, "the title stands in a side bar"
    cells = re.findall(r"^# %%\n# (\S.*)\n# (-+)$", text, re.MULTILINE)
    assert len(cells) >= 2
    assert all(len(head) == len(rule) for head, rule in cells)
    assert "WIDEMARGIN_QUICK" not in text
