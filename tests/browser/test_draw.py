"""The page to draw on, in a browser: it answers digits and abstains from scribbles."""

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from tests.browser.serving import served
from tests.browser.strokes import draw_with_mouse, drawings

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "index.html", "draw.css", "draw.js", "paper.js", "program.js", "digits.json",
)  # fmt: skip
THREE = [[
    (85, 75), (105, 50), (140, 42), (175, 55), (183, 85), (165, 115), (130, 132),
    (165, 142), (190, 170), (185, 210), (155, 235), (115, 235), (82, 212),
]]  # fmt: skip
ONE = [[(120, 80), (148, 45), (148, 140), (148, 240)]]
ZERO = [[
    (140, 40), (100, 60), (82, 110), (82, 170), (105, 225), (140, 240), (175, 225),
    (198, 170), (198, 110), (180, 60), (140, 40),
]]  # fmt: skip
SCRIBBLES = [
    [[(40, 140), (240, 140)], [(140, 40), (140, 240)], [(60, 60), (220, 220)],
     [(220, 60), (60, 220)]],
    [[(40, 60), (240, 70), (40, 120), (240, 130), (40, 180), (240, 190), (40, 230)]],
    [[(60, 240), (100, 40), (140, 240), (180, 40), (220, 240)]],
]  # fmt: skip


@pytest.fixture(scope="module")
def site():
    with served(ROOT / "docs") as address:
        yield f"{address}/draw/index.html"


@pytest.fixture(scope="module")
def loaded(site, new_page):
    """The page, opened once."""
    page, errors = new_page(site)
    yield page, errors
    page.context.close()


@pytest.fixture
def page(loaded):
    """The page as a visitor finds it; at the end, nothing was written as an error."""
    page, errors = loaded
    page.set_viewport_size({"width": 1100, "height": 900})
    page.emulate_media(color_scheme="light")
    page.evaluate("""() => { const bend = document.getElementById("bend");
        bend.value = bend.defaultValue; document.activeElement.blur(); }""")
    page.click("#clear")
    answered(page)
    page.evaluate("document.activeElement.blur()")
    yield page
    assert errors == []


def draw(page, strokes):
    page.click("#clear")
    draw_with_mouse(page, strokes)
    return answered(page)


def answered(page):
    """What the page answers when it has seen all that was drawn."""
    return page.get_attribute("#answer", "data-label")


def test_digits_are_answered_and_scribbles_are_not(page):
    assert draw(page, THREE) == "3"
    assert "This is a 3" in page.inner_text("#answer").replace("\n", " ")
    assert draw(page, ZERO) == "0"
    assert draw(page, ONE) == "1"
    for scribble in SCRIBBLES:
        assert draw(page, scribble) == ""
        assert "I abstain" in page.inner_text("#answer")


READ = """async (drawings) => {
    const { asDigit } = await import("./draw.js");
    const { answer, load } = await import("./program.js");
    const program = load(await (await fetch("digits.json")).json());
    return drawings.map((strokes) => {
        const found = answer(program, asDigit(strokes));
        return [found.label, found.accepted];
    });
}"""


def test_ordinary_digits_are_read(page):
    """200 drawings by simulated strokes, of a seed that nothing was chosen by."""
    drawn = list(drawings(20, seed=300))
    strokes = [
        [[{"x": x, "y": y} for x, y in stroke] for stroke in one] for _, one in drawn
    ]
    answers = page.evaluate(READ, strokes)
    accepted = [yes for _, yes in answers]
    right = [
        yes and label == str(digit)
        for (label, yes), (digit, _) in zip(answers, drawn, strict=True)
    ]
    assert sum(right) >= 0.95 * len(drawn)
    assert len(drawn) - sum(accepted) <= 0.03 * len(drawn)
    told = [int(number) for number in re.findall(r"\d+", page.inner_text("header"))]
    # Browsers differ by a pixel.
    assert told[1:4] == pytest.approx(
        [len(drawn), sum(right), len(drawn) - sum(accepted)], abs=1
    )


def test_the_page_is_small():
    assert sum((ROOT / "docs" / "draw" / name).stat().st_size for name in FILES) < 1e6


def test_the_program_answers_as_the_classifier_did(page):
    """JavaScript against the formula in Python, on noise and on drawings."""
    stored = json.loads((ROOT / "docs" / "draw" / "digits.json").read_text())
    formula = runpy.run_path(str(ROOT / "docs" / "draw" / "train.py"))
    X = np.random.default_rng(0).random((20, 784))
    D = np.sort(formula["class_distances"](stored, X), axis=1)
    found = page.evaluate(
        """async (X) => {
        const { answer, load } = await import("./program.js");
        const program = load(await (await fetch("digits.json")).json());
        return X.map((x) => { const a = answer(program, x);
            return [a.distance ** 2, a.confidence, ...a.probabilities]; });
    }""",
        X.tolist(),
    )
    distance, confidence, *P = np.array(found).T
    assert distance == pytest.approx(D[:, 0])
    gap = (D[:, 1] - D[:, 0]) / (D[:, 1] + D[:, 0])
    assert confidence == pytest.approx(gap)
    assert np.sum(P, axis=0) == pytest.approx(1)
    ratio = np.exp(-gap / stored["temperature"] - stored["lead"])
    assert np.sort(P, axis=0)[-2] / np.max(P, axis=0) == pytest.approx(ratio)


def test_a_stroke_is_answered_at_once(page):
    """Within two frames of a screen, on a slow machine too."""
    draw(page, THREE)
    took = []
    for _ in range(5):
        page.dispatch_event("#bend", "input")
        took.append(float(page.get_attribute("html", "data-took")))
    assert min(took) <= 33


def test_the_nearest_model_bends_to_the_drawing(page):
    draw(page, THREE)
    assert "a 3" in page.inner_text("#nearest-name")
    left = float(page.inner_text("#left-name").split(": ")[1])
    page.focus("#bend")
    page.keyboard.press("Home")
    answered(page)
    assert float(page.inner_text("#left-name").split(": ")[1]) > left


def test_a_one_can_be_drawn_with_the_keyboard_alone(page):
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "paper":
            break
    for _ in range(9):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Space")
    for _ in range(18):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert answered(page) == "1"
    page.keyboard.press("Delete")
    answered(page)
    assert page.inner_text("#answer") == "Draw a digit"
    reached = {"paper"}
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"paper", "clear", "undo", "bend"} <= reached


def test_a_finger_draws_too(site, open_page):
    page = open_page(site, has_touch=True, viewport={"width": 360, "height": 740})
    page.locator("#paper").scroll_into_view_if_needed()
    box = page.locator("#paper").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    answered(page)
    assert page.inner_text("#answer") != "Draw a digit"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_it_is_accessible_and_fits(page, accessible, scheme, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    draw(page, THREE)
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
