"""Plain words: sentences of a text in Markdown or numpydoc, and how long they are."""

import re

LONGEST = 25
# Shorter ones are titles and cells of tables.
FEWEST = 4


def sentences(text):
    """Return the sentences of a page in Markdown; code counts as one word."""
    text = re.sub(r"^(`{3,}|:{3,})[^\n]*\n.*?^\1\s*$", fence, text, flags=re.M | re.S)
    text = re.sub(r"^\$\$.*?\$\$[.,]?$", "\n", text, flags=re.M | re.S)
    text = re.sub(r"<(svg|style)\b.*?</\1>", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->|</?\w[^>]*>", "", text, flags=re.S)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``.*?``|`[^`]*`|\$[^$]*\$", "Code", text, flags=re.S)
    blocks = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("|"):
            blocks += [*stripped.strip("|").split("|"), ""]
        elif re.match(r"#|---|:\w|\(\w+\)=|={3}", stripped) or not stripped:
            blocks.append("")
        elif re.match(r"[-*>:] |\d+\. ", stripped):
            blocks += ["", re.sub(r"^([-*>:]|\d+\.) ", "", stripped)]
        elif blocks and blocks[-1]:
            blocks[-1] += " " + stripped
        else:
            blocks.append(stripped)
    return [
        one.strip()
        for block in blocks
        for one in re.split(r"(?<=[.!?])[*)\"”]*\s+(?=[^a-z\s])", block)
        if words(one) >= FEWEST
    ]


def fence(found):
    """Keep the words of cards and glossaries, drop code and lists of pages."""
    block = found.group()
    if block.startswith(":"):
        return "\n".join(block.splitlines()[1:-1])
    return "\n"


def words(sentence):
    """Return the number of words, numbers and pieces of code."""
    return len([word for word in sentence.split() if re.search(r"\w", word)])


def long_ones(text, longest=LONGEST):
    """Return the sentences with more words than that."""
    return [one for one in sentences(text) if words(one) > longest]
