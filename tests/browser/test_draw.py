"""The page to draw on, in a browser: it answers digits and refuses scribbles."""

import fcntl
import math
import os
import runpy
import shutil
from pathlib import Path

import pytest
from tests.browser.serving import served

ROOT = Path(__file__).resolve().parents[2]
SIZE = 280
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
def folder(chromium, tmp_path_factory):
    """The built page; what is built already may be named in the environment."""
    built = os.environ.get("WIDEMARGIN_DRAW_SITE")
    return Path(built) if built else built_once(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def site(folder):
    with served(folder) as address:
        yield f"{address}/draw/index.html"


@pytest.fixture(scope="module")
def loaded(site, new_page):
    """The page, opened once: loading it compiles the runtime, which takes a second."""
    page, errors = new_page(site)
    yield page, errors
    page.context.close()


@pytest.fixture
def page(loaded):
    """The page as a visitor finds it; at the end, nothing was written as an error."""
    page, errors = loaded
    page.set_viewport_size({"width": 1100, "height": 900})
    page.emulate_media(color_scheme="light")
    page.select_option("#model", "tvq")
    page.evaluate("""() => { const bend = document.getElementById("bend");
        bend.value = bend.defaultValue; document.activeElement.blur(); }""")
    page.click("#clear")
    answered(page)
    page.evaluate("document.activeElement.blur()")
    yield page
    assert errors == []


def built_once(base):
    """Build the page in a folder that all processes of this run share."""
    pytest.importorskip("onnx", reason="the models are exported by onnx")
    if shutil.which("npm") is None:
        pytest.skip("no npm to bring onnxruntime-web")
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    done = base / "drawing"
    with (base / "drawing.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            part = base / "drawing.part"
            shutil.rmtree(part, ignore_errors=True)
            build(part / "draw")
            part.rename(done)
    return done


def build(out):
    build = runpy.run_path(str(ROOT / "docs" / "draw" / "build.py"))
    out.mkdir(parents=True)
    try:
        build["bring_runtime"](out)
    except Exception as error:
        pytest.skip(f"npm brought no onnxruntime-web: {error}")
    for name in ("index.html", "draw.css", "draw.js"):
        shutil.copy(ROOT / "docs" / "draw" / name, out / name)
    build["build_models"](out)


def draw(page, strokes):
    page.click("#clear")
    box = page.locator("#paper").bounding_box()
    for stroke in strokes:
        points = [
            (box["x"] + x * box["width"] / SIZE, box["y"] + y * box["height"] / SIZE)
            for x, y in stroke
        ]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points[1:]:
            page.mouse.move(*point)
        page.mouse.up()
    return answered(page)


def answered(page):
    """What the page answers when it has seen all that was drawn."""
    page.wait_for_selector("html[data-busy=no]")
    return page.get_attribute("#answer", "data-label")


@pytest.mark.parametrize("model", ["tvq", "knn"])
def test_digits_are_answered_and_scribbles_refused(page, model):
    page.select_option("#model", model)
    assert draw(page, THREE) == "3"
    assert "This is a 3" in page.inner_text("#answer").replace("\n", " ")
    assert draw(page, ZERO) == "0"
    assert draw(page, ONE) == "1"
    for scribble in SCRIBBLES:
        assert draw(page, scribble) == ""
        assert "rather not say" in page.inner_text("#answer")


BARE = """([size, times]) => {
    const a = new Float32Array(size).fill(0.5), b = new Float32Array(size).fill(0.25);
    let sum = 0;
    const begin = performance.now();
    for (let t = 0; t < times; t += 1)
        for (let k = 0; k < size; k += 1) sum += a[k] * b[k];
    const took = (performance.now() - begin) / times;
    return sum === times * size / 8 ? took : NaN;
}"""


@pytest.mark.parametrize("model", ["tvq", "knn"])
def test_a_stroke_is_answered_at_once(page, folder, model):
    """30 ms are 60 products with all numbers of the larger model, in plain script."""
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(folder / "draw" / "knn.onnx").graph
    size = sum(math.prod(table.dims) for table in graph.initializer)
    page.select_option("#model", model)
    draw(page, THREE)
    took, bare = [], []
    for _ in range(5):
        bare.append(page.evaluate(BARE, [size, 20]))
        page.dispatch_event("#bend", "input")
        answered(page)
        took.append(float(page.get_attribute("html", "data-took")))
    assert min(took) <= 60 * min(bare)


def test_answers_do_not_queue(page):
    """Whoever draws faster than it answers waits for one answer, not for many."""
    page.select_option("#model", "knn")
    draw(page, THREE)
    before = int(page.get_attribute("html", "data-asked"))
    page.evaluate("""() => { for (let k = 0; k < 50; k += 1)
        document.getElementById("bend").dispatchEvent(new Event("input")); }""")
    answered(page)
    assert int(page.get_attribute("html", "data-asked")) == before + 2


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
    assert page.inner_text("#answer") == "Draw, and it will tell"
    reached = {"paper"}
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"paper", "clear", "undo", "model", "bend"} <= reached


def test_a_finger_draws_too(site, open_page):
    page = open_page(site, has_touch=True, viewport={"width": 360, "height": 740})
    page.locator("#paper").scroll_into_view_if_needed()
    box = page.locator("#paper").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    answered(page)
    assert page.inner_text("#answer") != "Draw, and it will tell"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_it_is_accessible_and_fits(page, accessible, scheme, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    draw(page, THREE)
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
