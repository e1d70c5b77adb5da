"""The site as it was built, in a browser: WIDEMARGIN_SITE names its folder."""

import functools
import html
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.browser.serving import served

MOST_BYTES = 1.5e6
BUILT = os.environ.get("WIDEMARGIN_SITE")
FOLDER = Path(BUILT or "docs/_build/html").resolve()
# The page to draw on has tests and a runtime of its own.
PAGES = sorted(
    name
    for path in FOLDER.rglob("*.html")
    if not (name := path.relative_to(FOLDER).as_posix()).startswith(("_static", "draw"))
)
# Listings of source code are made by one rule: two of them stand for all.
LOOKED_AT = [
    name
    for name in PAGES
    if not name.startswith("_modules/")
    or name in ("_modules/index.html", "_modules/widemargin/prototypes/glvq.html")
]
SOME = [
    "index.html", "install.html", "first_hour.html", "guide/margins.html",
    "guide/tangent_distances.html", "search.html",
    "howto/rejecting.html", "examples/index.html", "examples/sure/choosing_theta.html",
    "reference/widemargin.TVQClassifier.html", "reference/capabilities.html",
    "papers/reweighting.html", "performance.html",
]  # fmt: skip
LOOKS = [("light", 1300), ("dark", 360)]
OTHER_LOOKS = [("dark", 1300), ("light", 360)]
# What scrolls beside code, tables and formulas, which may.
SIDEWAYS = """(e) => getComputedStyle(e).overflowX === 'auto' && e.clientWidth > 100
    && e.scrollWidth > e.clientWidth + 1
    && !e.matches('pre, .math, .pst-scrollable-table-container, .table-wrapper,'
        + ' .genindextable')"""
FOCUSABLE = "a[href], button, input, select, summary, [tabindex='0']"

pytestmark = pytest.mark.skipif(
    not BUILT, reason="WIDEMARGIN_SITE names no built site; make test-site builds one"
)


@pytest.fixture(scope="module")
def site():
    with served(FOLDER) as address:
        yield address


def look_at(chromium, scheme, width):
    """Return a page that is as wide, and a list of what it says is wrong."""
    size = {"width": width, "height": 900}
    page = chromium.new_context(viewport=size, color_scheme=scheme).new_page()
    errors = []
    page.on(
        "console",
        lambda said: errors.append(said.text) if said.type == "error" else None,
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "requestfailed",
        lambda asked: (
            None  # what a page still asked for when it was left
            if "ABORTED" in (asked.failure or "")
            else errors.append(f"not loaded: {asked.url}")
        ),
    )
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith(("http://127.0.0.1", "data:"))
            else errors.append(f"asked for: {asked.url}")
        ),
    )
    return page, errors


@pytest.mark.parametrize(
    ("names", "scheme", "width"),
    [
        *(("all", *look) for look in LOOKS),
        *(("some", *look) for look in OTHER_LOOKS),
    ],
)
def test_pages_load_fit_and_are_accessible(
    site, chromium, violations, names, scheme, width
):
    page, errors = look_at(chromium, scheme, width)
    wrong = []
    for name in LOOKED_AT if names == "all" else SOME:
        errors.clear()
        page.goto(f"{site}/{name}")
        found = violations(page) + errors
        if page.evaluate("document.documentElement.dataset.theme") != scheme:
            found.append("another theme than asked for")
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            found.append(f"{wide} pixels wide")
        if page.evaluate(f"[...document.querySelectorAll('main *')].some({SIDEWAYS})"):
            found.append("text is wider than the page")
        if page.evaluate(
            "[...document.images].some((one) => one.complete && !one.naturalWidth)"
        ):
            found.append("a picture is missing")
        wrong += [f"{name}: {problem}" for problem in found]
    page.context.close()
    assert not wrong, "\n".join(wrong)


def test_the_table_of_estimators_is_filtered(site, chromium):
    page, errors = look_at(chromium, "light", 1300)
    page.goto(f"{site}/reference/capabilities.html")
    shown = page.locator("table.capabilities tbody tr:visible")
    all_of_them = shown.count()
    page.get_by_label("partial fit").check()
    page.get_by_label("tensors").check()
    names = [row.split()[0] for row in shown.all_inner_texts()]
    both = {"GLVQClassifier", "GMLVQClassifier", "HSSClassifier", "TVQClassifier"}
    assert set(names) == both
    page.get_by_label("tensors").uncheck()
    page.get_by_label("partial fit").uncheck()
    assert shown.count() == all_of_them
    assert not errors
    page.context.close()


def test_no_page_is_too_large(site, chromium):
    page, _ = look_at(chromium, "light", 1300)
    sizes = {}
    page.on(
        "response",
        lambda answer: sizes.setdefault(
            answer.url, int(answer.headers.get("content-length", 0))
        ),
    )
    page.goto(f"{site}/index.html")
    page.wait_for_load_state("networkidle")
    page.context.close()
    # What every page brings, pictures left out, and the largest of all pages with it.
    common = sum(
        size
        for url, size in sizes.items()
        if not re.search(r"\.(png|svg|html)(\?|$)", url)
    )
    assert common > 1e5
    largest = max(PAGES, key=lambda name: (FOLDER / name).stat().st_size)
    assert common + (FOLDER / largest).stat().st_size <= MOST_BYTES, largest


@pytest.mark.parametrize("width", [1300, 360])
def test_search_finds(site, chromium, width):
    page, errors = look_at(chromium, "light", width)
    page.goto(f"{site}/guide/tangent_distances.html")
    glass = page.locator("button.search-button__button i:visible").first
    assert glass.bounding_box()["width"] > 10
    glass.click()
    page.keyboard.type("TVQClassifier")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li")
    links = page.eval_on_selector_all(
        "#search-results li a", "(all) => all.map((one) => one.href)"
    )
    assert any("reference/widemargin.TVQClassifier.html" in link for link in links)
    page.goto(f"{site}/search.html?q=abracadabra")
    page.wait_for_function(
        "document.querySelector('#search-results').innerText.includes('did not match')"
    )
    assert errors == []
    page.context.close()


# What people search for, and the page they mean.
FIRST = {
    "abstain": "howto/rejecting", "reject option": "howto/rejecting",
    "out-of-distribution": "howto/rejecting", "confidence": "guide/margins",
    "calibration": "guide/margins", "novelty detection": "howto/conformal",
    "conformal": "howto/conformal", "data augmentation": "guide/tangents",
    "feature importance": "guide/prototypes", "missing values": "guide/prototypes",
    "NIR spectra": "howto/spectra", "chemometrics": "howto/spectra",
    "baseline correction": "howto/spectra", "imbalanced": "faq", "categorical": "faq",
    "few-shot": "howto/few_labels", "ONNX": "howto/saving", "GPU": "howto/gpu",
    "hyperparameter": "howto/tuning", "CNN": "what_for",
}  # fmt: skip


def test_search_finds_the_right_page_first(site, chromium):
    page, _ = look_at(chromium, "light", 1300)
    first = {}
    for words in FIRST:
        page.goto(f"{site}/search.html?q={words.replace(' ', '+')}")
        link = page.wait_for_selector("#search-results li a").get_attribute("href")
        first[words] = link.partition(".html")[0]
    page.context.close()
    assert len(FIRST) == 20
    assert first == FIRST


def test_the_theme_can_be_chosen_and_stays(site, chromium):
    page, errors = look_at(chromium, "light", 1300)
    page.goto(f"{site}/index.html")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.locator("button.theme-switch-button:visible").first.click()
    page.locator("button[data-mode=dark]:visible").first.click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.goto(f"{site}/guide/tangent_distances.html")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    dark = page.evaluate(paper)
    brightness = [
        sum(int(part) for part in re.findall(r"\d+", colour)[:3])
        for colour in (light, dark)
    ]
    assert brightness[0] > 600 > 200 > brightness[1]
    assert errors == []
    page.context.close()


@pytest.mark.parametrize("width", [1300, 360])
@pytest.mark.parametrize(
    "name", ["index.html", "guide/prototypes.html", "examples/index.html"]
)
def test_the_keyboard_reaches_everything(site, chromium, name, width):
    page, errors = look_at(chromium, "light", width)
    page.goto(f"{site}/{name}")
    page.wait_for_load_state("networkidle")
    # Radio buttons of one group are one stop; hidden menus are none.
    wanted = page.evaluate(
        """(focusable) => {
            window.stops = [...document.querySelectorAll(focusable)].filter((e) =>
                e.checkVisibility({visibilityProperty: true}) && e.tabIndex >= 0
                && !e.disabled && !e.closest('dialog:not([open])')
                && e.getClientRects().length);
            return window.stops.map((e) => e.outerHTML.slice(0, 120));
        }""",
        FOCUSABLE,
    )
    assert len(wanted) > 10
    seen = set()
    for _ in range(len(wanted) + 10):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("window.stops.indexOf(document.activeElement)"))
    missed = [text for k, text in enumerate(wanted) if k not in seen]
    assert missed == []
    assert errors == []
    page.context.close()


@functools.cache
def links_and_anchors(path):
    """Return where a page leads to and the anchors it has."""
    text = Path(path).read_text("utf-8")
    links, anchors = (
        {html.unescape(found) for found in re.findall(pattern, text)}
        for pattern in (r'\s(?:href|src)="([^"]*)"', r'\s(?:id|name)="([^"]*)"')
    )
    return links, anchors


def test_every_link_inside_the_site_leads_somewhere():
    files = {str(path) for path in FOLDER.rglob("*") if path.is_file()}
    broken = []
    for name in PAGES:
        here = str(FOLDER / name)
        for link in links_and_anchors(here)[0]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = here
            if parts.path:
                beside = os.path.join(os.path.dirname(here), unquote(parts.path))
                target = os.path.normpath(beside)
            if target not in files:
                broken.append(f"{name}: {link}")
            elif (
                parts.fragment
                and target.endswith(".html")
                and unquote(parts.fragment) not in links_and_anchors(target)[1]
            ):
                broken.append(f"{name}: {link} has no such anchor")
    assert len(files) > len(PAGES) > 100
    assert broken == []


def test_the_reader_of_machines_finds_every_page():
    text = (FOLDER / "llms.txt").read_text("utf-8")
    assert "TVQClassifier" in text
