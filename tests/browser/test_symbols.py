"""The page for symbols of one's own: it reads them from one example of each."""

import re
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from tests.browser.serving import served
from tests.browser.strokes import FORMS, draw_with_mouse, drawing

from widemargin.metrics import image_distortion_distances

ROOT = Path(__file__).resolve().parents[2]
FILES = ("symbols.html", "symbols.js", "fewshot.js", "paper.js", "draw.css")
SHAPE, PATCH, WINDOW = (28, 28), 2, 3


@pytest.fixture(scope="module")
def site():
    with served(ROOT / "docs") as address:
        yield f"{address}/draw/symbols.html"


@pytest.fixture
def page(site, open_page):
    """The page as a visitor finds it."""
    return open_page(site)


def as_points(strokes):
    return [[{"x": x, "y": y} for x, y in stroke.tolist()] for stroke in strokes]


def teach(page, digit, name, seed=0):
    page.click("#clear")
    draw_with_mouse(page, drawing(digit, np.random.default_rng(seed), form=0))
    page.fill("#name", name)
    page.click("#learn")


def learned(page):
    return int(page.get_attribute("html", "data-examples"))


READ = """async ([examples, drawings]) => {
    const { imageOf, learned, read, unitOf } = await import("./fewshot.js");
    const known = examples.map(([name, strokes]) => learned(name, strokes));
    const unit = unitOf(known);
    return drawings.map((strokes) => {
        const found = read(imageOf(strokes), known, unit);
        return [found.label, found.probabilities[found.best],
            found.probabilities.reduce((a, b) => a + b, 0)];
    });
}"""


def people(n, n_drawings, seed):
    """Examples of ten symbols and later drawings, of so many people.

    Somebody draws a symbol in one form.
    """
    rng = np.random.default_rng(seed)
    for _ in range(n):
        forms = [rng.integers(len(FORMS[d])) for d in range(10)]
        rounds = [
            [(d, as_points(drawing(d, rng, form=forms[d]))) for d in range(10)]
            for _ in range(1 + n_drawings)
        ]
        yield [[str(d), strokes] for d, strokes in rounds[0]], list(chain(*rounds[1:]))


def test_the_next_drawings_are_read(page):
    """200 drawings of five people, of a seed that nothing was chosen by."""
    right, sure = [], []
    for examples, later in people(5, 4, 300):
        found = page.evaluate(READ, [examples, [strokes for _, strokes in later]])
        right += [
            name == str(d) for (name, *_), (d, _) in zip(found, later, strict=True)
        ]
        sure += [share for _, share, _ in found]
        assert [total for *_, total in found] == pytest.approx([1] * len(found))
    told = [int(number) for number in re.findall(r"\d+", page.inner_text("header"))]
    assert told == [len(right), pytest.approx(sum(right), abs=1)]
    assert np.mean(right) >= 0.95
    assert abs(np.mean(sure) - np.mean(right)) < 0.1


def test_distances_are_those_of_the_library(page):
    """JavaScript against the formula in Python, on noise and on drawings."""
    rng = np.random.default_rng(0)
    strokes = [as_points(drawing(d, rng)) for d in (3, 8)]
    drawn = page.evaluate(
        """async (all) => { const { imageOf } = await import("./fewshot.js");
        return all.map((strokes) => Array.from(imageOf(strokes))); }""",
        strokes,
    )
    X = np.concatenate([drawn, rng.random((2, 784))])
    found = page.evaluate(
        """async (X) => { const { distortion } = await import("./fewshot.js");
        return X.map((x) => X.map((y) => distortion(x, y))); }""",
        X.tolist(),
    )
    expected = image_distortion_distances(
        X, shape=SHAPE, window=WINDOW, patch=PATCH, gradients="normalised",
        penalty=0.033,
    )  # fmt: skip
    assert np.array(found) == pytest.approx(expected)
    assert expected[0, 1] > 100


def test_copies_are_drawn_turned_and_stretched(page):
    """A stroke to the right, turned by a quarter, is one down; nothing is cut off."""
    found = page.evaluate(
        """async () => { const { imageOf } = await import("./fewshot.js");
        const line = [[{ x: 40, y: 100 }, { x: 240, y: 100 }]];
        return [{ turn: 0, wide: 1 }, { turn: Math.PI / 2, wide: 1 }].map(
            (copy) => Array.from(imageOf(line, copy))); }"""
    )
    flat, upright = np.array(found).reshape(2, *SHAPE)
    assert upright == pytest.approx(flat.T, abs=1e-9)
    rows, columns = np.nonzero(flat > 0.5)
    assert np.ptp(rows) + 1 == pytest.approx(2.7, abs=1.3)
    assert np.ptp(columns) + 1 == pytest.approx(20, abs=1)
    assert [np.mean(rows), np.mean(columns)] == pytest.approx([13.5, 13.5], abs=0.5)


def test_a_person_teaches_and_the_page_reads(page):
    assert page.get_attribute("#answer", "data-label") == ""
    teach(page, 3, "heart")
    assert "1 of 2" in page.inner_text("#answer")
    assert page.input_value("#name") == "A"
    teach(page, 7, "seven")
    teach(page, 0, "ring")
    assert learned(page) == 3
    for digit, name in ((3, "heart"), (7, "seven"), (0, "ring")):
        page.click("#clear")
        draw_with_mouse(page, drawing(digit, np.random.default_rng(9), form=0))
        assert page.get_attribute("#answer", "data-label") == name
        assert name in page.inner_text("#nearest-name")
        shares = page.locator("#shares li").all_inner_texts()
        assert len(shares) == 3
        assert name in shares[0]
    # The bar is as long as its share.
    bar, track = (
        page.locator(f"#shares li.best {part}").bounding_box()["width"]
        for part in (".track i", ".track")
    )
    share = int(re.search(r"(\d+) %", shares[0])[1])
    assert bar / track == pytest.approx(share / 100, abs=0.02)


def test_an_example_can_be_forgotten_and_names_are_asked_for(page):
    teach(page, 3, "heart")
    teach(page, 7, "seven")
    page.click("#learn")
    assert "Draw the symbol first" in page.inner_text("#why")
    draw_with_mouse(page, drawing(0, np.random.default_rng(1), form=0))
    page.fill("#name", "  ")
    page.click("#learn")
    assert "name" in page.inner_text("#why")
    assert learned(page) == 2
    page.get_by_label("Forget this example of heart").click()
    assert learned(page) == 1
    assert page.get_attribute("#answer", "data-label") == ""


def test_a_name_is_shown_and_never_run(page):
    teach(page, 3, "<b>x</b>")
    assert page.locator("#examples li span").inner_text() == "<b>x</b>"


def test_the_keyboard_is_enough(page):
    for length, name in ((18, "line"), (1, "dot")):
        page.focus("#paper")
        page.keyboard.press("Delete")
        page.keyboard.press("Space")
        for _ in range(length):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        page.keyboard.press("Control+A")
        page.keyboard.type(name)
        page.keyboard.press("Enter")
    assert learned(page) == 2


def test_a_stroke_is_answered_at_once(page):
    for digit in range(10):
        teach(page, digit, str(digit))
    took = []
    for seed in range(3):
        page.click("#clear")
        draw_with_mouse(page, drawing(4, np.random.default_rng(seed), form=0))
        took.append(float(page.get_attribute("html", "data-took")))
    assert min(took) <= 100


def test_the_page_is_small():
    assert sum((ROOT / "docs" / "draw" / name).stat().st_size for name in FILES) < 4e4


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_it_is_accessible_and_fits(page, accessible, scheme, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    teach(page, 3, "heart")
    teach(page, 7, "a long name")
    draw_with_mouse(page, drawing(3, np.random.default_rng(9), form=0))
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
