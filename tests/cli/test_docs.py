"""Every example line of docs/command.md names commands and options that exist."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from widemargin.cli.app import app
from widemargin.cli.models import MODELS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "command.md").read_text()
LINES = re.findall(r"^widemargin (.*)$", PAGE, flags=re.MULTILINE)


def test_every_command_has_an_example():
    listed = CliRunner().invoke(app, ["--help"]).output.split("Commands:")[1]
    commands = {line.split()[0] for line in listed.splitlines() if line[:3].strip()}
    assert commands == {line.split()[0] for line in LINES}


def test_the_table_of_the_demo_is_one():
    table = re.compile(r"^\| model \| error .*?\n\n", re.MULTILINE | re.DOTALL)
    texts = [(ROOT / name).read_text() for name in ("README.md", "docs/performance.md")]
    assert len({table.search(text)[0] for text in texts}) == 1


@pytest.mark.parametrize("line", LINES)
def test_the_options_exist(line):
    words = line.split()
    text = CliRunner().invoke(app, [words[0], "--help"]).output
    for option in (word for word in words if word.startswith("--")):
        assert option in text
    if "--model" in words:
        assert words[words.index("--model") + 1] in MODELS
