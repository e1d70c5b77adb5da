"""Every example line of docs/command_line.md names commands and options that exist."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from widemargin.cli.app import app
from widemargin.cli.models import MODELS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "command_line.md").read_text()
LINES = re.findall(r"^widemargin (.*)$", PAGE, flags=re.MULTILINE)


def test_every_command_has_an_example():
    listed = CliRunner().invoke(app, ["--help"]).output.split("Commands:")[1]
    commands = {line.split()[0] for line in listed.splitlines() if line[:3].strip()}
    assert commands == {line.split()[0] for line in LINES}


def test_help_is_not_cut():
    listed = CliRunner().invoke(app, ["--help"]).output.split("Commands:")[1]
    assert "..." not in listed
    assert len(listed.splitlines()) > 8


@pytest.mark.parametrize("line", LINES)
def test_the_options_exist(line):
    words = line.split()
    text = CliRunner().invoke(app, [words[0], "--help"]).output
    for option in (word for word in words if word.startswith("--")):
        assert option in text
    if "--model" in words:
        assert words[words.index("--model") + 1] in MODELS


def test_the_session_is_what_is_printed(command, tmp_path):
    pytest.importorskip("pandas")
    frame = load_iris(as_frame=True).frame
    frame["species"] = load_iris().target_names[frame.pop("target")]
    frame = frame.sample(frac=1, random_state=0)
    frame[:100].to_csv(tmp_path / "train.csv", index=False)
    frame[100:].to_csv(tmp_path / "test.csv", index=False)
    frame[100:103].drop(columns="species").to_csv(tmp_path / "new.csv", index=False)
    (block,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    same = doctest.OutputChecker().check_output
    for part in block.split("$ widemargin ")[1:]:
        line, expected = part.split("\n", 1)
        _, out, err = command(*shlex.split(line))
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert same(expected, out + err, options), f"{line}\n{out}{err}"
