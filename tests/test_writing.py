"""The pages a user reads are in plain words: short sentences, words of the field."""

from pathlib import Path

import pytest
from tests.writing import long_ones, sentences, words

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NAMED = (
    "index", "what_for", "first_hour", "faq", "install", "command_line", "glossary",
    "performance",
)  # fmt: skip
PAGES = [
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in NAMED),
    *sorted(DOCS.glob("guide/*.md")),
    *sorted(DOCS.glob("howto/*.md")),
]
# Still to be written again; the list only shrinks.
NOT_YET = {"docs/howto/refusing.md", "docs/howto/spectra.md"}
# The share of sentences that may be longer than 25 words.
ALLOWED = 0.05


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_sentences_are_short(path):
    if name_of(path) in NOT_YET:
        pytest.skip("still to be written again")
    text = path.read_text()
    found = long_ones(text)
    assert len(found) <= ALLOWED * len(sentences(text)), "\n\n".join(found)


def test_sentences_are_counted():
    text = """# A title of no account

A first sentence, with `code of many words`, and $x = y$.
A second: [a link](to/it), two.
- an item of a list
  that goes on

| a | cell of five short words |
|---|---|

```python
no.words
```
"""
    assert [words(one) for one in sentences(text)] == [7, 5, 8, 5]
    assert long_ones("word " * 26 + ".")
    assert not long_ones("word " * 25 + ".")
