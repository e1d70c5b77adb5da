"""A real browser, where there is one: Debian's Chromium, driven by Playwright.

Pages are opened without a network. A page that writes an error to its console fails
its test; `accessible` asks axe for violations that are serious or worse.
"""

import os
import shutil
from pathlib import Path

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium():
    """The browser; tests that need it skip where it is not installed."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed"
    )
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("no browser: apt-get install chromium, or set CHROMIUM to one")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def new_page(chromium):
    """Open a file or an address: gives the page, and what it writes as errors."""

    def new_page(where, *, ready=True, **options):
        options = {"viewport": {"width": 1100, "height": 900}, **options}
        page, errors = chromium.new_context(**options).new_page(), []
        page.on(
            "console",
            lambda said: errors.append(said.text) if said.type == "error" else None,
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(where.as_uri() if isinstance(where, Path) else where)
        if ready:
            page.wait_for_selector("html[data-ready=yes]")
        return page, errors

    return new_page


@pytest.fixture
def open_page(new_page):
    """Open pages for one test; at the end, nothing was written as an error."""
    opened = []

    def open_page(where, **options):
        opened.append(new_page(where, **options))
        return opened[-1][0]

    yield open_page
    for page, _ in opened:
        page.context.close()
    assert [error for _, errors in opened for error in errors] == []


@pytest.fixture(scope="session")
def violations():
    """Ask axe for what is serious, or worse: (rule, where it begins)."""
    package = pytest.importorskip(
        "axe_playwright_python", reason="axe-playwright-python is not installed"
    )
    axe = (Path(package.__file__).parent / "axe.min.js").read_text("utf-8")

    def ask(page):
        # Evaluated by the driver: the page's own policy lets nothing in.
        page.evaluate(axe)
        found = page.evaluate(
            """async () => (await axe.run(document, {preload: false,
                resultTypes: ["violations"]})).violations"""
        )
        return [
            (one["id"], one["nodes"][0]["html"][:200])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    return ask


@pytest.fixture
def accessible(violations):
    """Nothing serious may be wrong."""

    def check(page):
        assert violations(page) == []

    return check
