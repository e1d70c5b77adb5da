import inspect

import pytest

from widemargin.cli import reproduce


def test_the_paper_is_run_with_what_was_asked(command, monkeypatch, tmp_path):
    calls = []

    class Paper:
        @staticmethod
        def main(quick, out):
            calls.append((quick, out.resolve()))
            print("a table")

    monkeypatch.setattr(reproduce, "import_module", lambda name: Paper)
    code, out, err = command("reproduce", "perceptrons", "--quick")
    assert code == 0, err
    assert out == "a table\n"
    assert calls == [(True, tmp_path.resolve())]


@pytest.mark.parametrize("paper", reproduce.PAPERS.values())
def test_every_paper_has_a_main(paper):
    module = pytest.importorskip(f"widemargin.reproduce.{paper}")
    if not hasattr(module, "main"):
        pytest.skip("main of this paper is not written yet")
    assert next(iter(inspect.signature(module.main).parameters)) == "quick"


def test_unknown_paper_and_folder(refuses):
    assert "did you mean 'perceptrons'" in refuses("reproduce", "perceptron")
    assert "no folder" in refuses("reproduce", "perceptrons", "--out", "nowhere")
