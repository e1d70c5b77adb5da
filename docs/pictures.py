"""Draw the pictures of the README again: python docs/pictures.py."""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from widemargin.cli.demo import draw, tell_story

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"


def main():
    """Run the README's picture and the demonstration, and save what they draw."""
    text = (ROOT / "README.md").read_text()
    snippet = re.search(r"```python\n(import matplotlib.*?)```", text, re.DOTALL)
    plt.figure(figsize=(8, 1.8), layout="constrained")
    exec(snippet.group(1), {})
    plt.axis("off")
    plt.savefig(IMAGES / "turned.png", dpi=110)
    draw(tell_story(), IMAGES / "hero.png")


if __name__ == "__main__":
    main()
