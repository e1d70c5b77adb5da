"""The page that draws the house shows the house there is."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
SOURCE = ROOT / "src" / "widemargin"


def test_every_package_is_drawn_and_every_drawn_one_exists():
    drawn = set(re.findall(r"\b([a-z_]+)/(?=[\s`,)])", PAGE)) - {"docs", "tests"}
    there = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert drawn == there


def test_the_files_named_exist():
    for name in re.findall(r"`([a-z_]+/[a-z_]+\.py)`", PAGE):
        assert (SOURCE / name).exists() or (ROOT / name).exists(), name
