"""The report in a browser: its numbers are Python's, and everything can be reached."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from widemargin.cli.app import app
from widemargin.cli.evaluate import load_and_evaluate

pytest.importorskip("matplotlib")
pytest.importorskip("skops")
runner = pytest.importorskip("typer.testing").CliRunner()

NASTY = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>'


def run(*arguments):
    done = runner.invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.stderr


@pytest.fixture(scope="module")
def report(chromium, tmp_path_factory):
    """A report on digits: (the page, what Python says of the same model)."""
    folder = tmp_path_factory.mktemp("report")
    X, y = load_digits(return_X_y=True)
    X = (X / 16).reshape(-1, 8, 8)
    np.savez(folder / "train.npz", X=X[:150], y=y[:150])
    np.savez(folder / "test.npz", X=X[150:450], y=y[150:450])
    model = folder / "m.skops"
    run("fit", folder / "train.npz", "--model", "tvq", "--set", "max_iter=3",
        "--set", "n_tangents=3", "--out", model)  # fmt: skip
    run("report", model, folder / "test.npz", "--out", folder / "r.html")
    results = load_and_evaluate(model, folder / "test.npz", None)[-1]
    assert results.error > 0
    return folder / "r.html", results


def said(page):
    return {
        name: page.inner_text(f"#said-{name}")
        for name in ("threshold", "error", "refused", "counts")
    }


def test_the_slider_says_what_python_computes(report, open_page):
    path, results = report
    page = open_page(path)
    curve = results.curve
    last = len(curve.thresholds) - 1
    for step in (0, 1, 7, last // 2, last - 1, last):
        page.eval_on_selector(
            "#threshold",
            "(e, value) => { e.value = value; e.dispatchEvent(new Event('input')); }",
            str(step),
        )
        words = said(page)
        assert words["error"] == f"{100 * curve.error_rate[step]:.2f} %"
        assert words["refused"] == f"{100 * curve.rejection_rate[step]:.1f} %"
        kept = results.confidence >= curve.thresholds[step]
        wrong = int((results.truth != results.answers)[kept].sum())
        assert words["counts"] == f"{wrong} wrong of {int(kept.sum())} answered"
    marks = page.evaluate("document.getElementById('mark-high').getAttribute('x1')")
    assert float(marks) > 0


def test_arrow_keys_move_the_threshold_and_the_marks_together(report, open_page):
    page = open_page(report[0])
    page.focus("#threshold")
    before = page.get_attribute("#reject-dot", "cx")
    low = page.get_attribute("#mark-low", "x1")
    for _ in range(5):
        page.keyboard.press("PageUp")
    assert page.get_attribute("#reject-dot", "cx") != before
    assert page.get_attribute("#mark-low", "x1") != low
    assert page.is_visible("#band")
    assert "rejected" in page.get_attribute("#threshold", "aria-valuetext")


def test_a_cell_of_the_confusion_matrix_lists_its_samples(report, open_page):
    path, results = report
    page = open_page(path)
    counts = results.confusion - np.diag(np.diag(results.confusion))
    i, j = np.unravel_index(counts.argmax(), counts.shape)
    page.click(f'td[data-cell="{i} {j}"] button')
    listed = page.query_selector_all("#samples button")
    assert len(listed) == counts[i, j]
    assert page.inner_text("#found").startswith(f"{counts[i, j]} of 300")
    page.keyboard.press("Enter")
    assert page.locator("#detail figure").count() == 3
    assert "left between them" in page.inner_text("#detail")


def test_samples_are_sorted_filtered_and_found(report, open_page):
    path, results = report
    page = open_page(path)
    first = np.argsort(results.margins, kind="stable")[0]
    assert f"row {first + 1}:" in page.locator("#samples button").first.get_attribute(
        "aria-label"
    )
    page.select_option("#which", "wrong")
    wrong = int((results.truth != results.answers).sum())
    assert page.inner_text("#found").startswith(f"{wrong} of 300")
    page.select_option("#which", "all")
    page.fill("#search", "row 77")
    assert page.inner_text("#found").startswith("1 of 300")
    page.fill("#search", "")
    page.click("#more")
    assert page.locator("#samples button").count() == 120


def test_pictures_are_there_and_sweeps_move_them(report, open_page):
    page = open_page(report[0])
    ink = "(e) => e.getContext('2d').getImageData(0, 0, e.width, e.height).data.join()"
    first = page.locator("#samples canvas").first.evaluate(ink)
    assert len(set(first.split(","))) > 5
    before = page.locator("#swept").evaluate(ink)
    page.focus("#move-0")
    page.keyboard.press("End")
    moved = page.locator("#swept").evaluate(ink)
    assert moved != before
    page.click("#still")
    assert page.locator("#swept").evaluate(ink) == before


def test_the_keyboard_reaches_everything(report, open_page):
    page = open_page(report[0])
    wanted = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, [tabindex]')]
            .filter((e) => e.checkVisibility()).length"""
    )
    seen = set()
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        number = page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, [tabindex]')]
                .indexOf(document.activeElement)"""
        )
        seen.add(number)
    assert len(seen - {-1}) == wanted


@pytest.mark.parametrize("width", [360, 1100])
def test_it_is_accessible_and_fits(report, open_page, accessible, width):
    page = open_page(report[0], viewport={"width": width, "height": 800})
    page.locator("#samples button").first.click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_reads_without_a_script(report, open_page):
    page = open_page(report[0], ready=False, java_script_enabled=False)
    assert page.is_visible("text=The smallest margins")
    assert not page.is_visible("#threshold")
    assert page.is_visible("table.confusion")


def test_strings_of_the_data_stay_strings(chromium, tmp_path, open_page):
    wine = load_wine()
    y = np.array(["a", NASTY, "&amp;"])[wine.target]
    np.savez(tmp_path / "d.npz", X=wine.data[:, :4], y=y)
    run("fit", tmp_path / "d.npz", "--model", "glvq", "--out", tmp_path / "m")
    run("report", tmp_path / "m", tmp_path / "d.npz", "--out", tmp_path / "r.html")
    page = open_page(tmp_path / "r.html")
    page.on("dialog", lambda _: pytest.fail("a string was run"))
    options = page.locator("#truth option").all_inner_texts()
    assert {"a", NASTY, "&amp;"} < set(options)
    assert page.locator("main img[src=x]").count() == 0


def test_the_policy_lets_nothing_else_run(report, chromium):
    text = report[0].read_text("utf-8")
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = chromium.new_page()
    page.goto(report[0].as_uri())
    ran = page.evaluate(
        """() => { const s = document.createElement('script');
            s.textContent = 'window.ran = 1'; document.body.append(s);
            return window.ran === 1; }"""
    )
    assert not ran
    page.close()
