"""The HTML report: self-contained, with what applies and nothing else."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from widemargin.cli import html
from widemargin.cli.models import MODELS
from widemargin.cli.report import vectors_kept

pytest.importorskip("matplotlib")
pytest.importorskip("widemargin.inspection")

QUICK = {"tvq": ["--set", "max_iter=5"], "tdneuron": ["--set", "max_tangents=2"]}
VOID = {"meta", "img", "br", "input"}


class Balanced(HTMLParser):
    """Fails where a tag is closed that is not open; collects what is loaded."""

    def __init__(self):
        super().__init__()
        self.open, self.loads = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [value for key, value in attrs if key in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check_page(text):
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert parser.loads
    for source in parser.loads:
        assert source.startswith("data:image/png;base64,")
        assert base64.b64decode(source.split(",")[1]).startswith(b"\x89PNG")
    assert not re.search(r"url\(|@import|https?://|unsafe-|style=|\son\w+=", text)
    assert "width=device-width" in text
    # The policy names the style sheet and the script of this page, and nothing else.
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; img-src data:; ")
    for tag in ("style", "script"):
        (code,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert len(text) < 3_000_000


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_report(name, command, digits_npz):
    command("fit", digits_npz, "--model", name, *QUICK.get(name, []))
    code, out, err = command("report", "model.skops", digits_npz, "--out", "r.html")
    assert code == 0, err
    assert "Report: r.html" in out
    text = digits_npz.with_name("r.html").read_text()
    check_page(text)
    sections = re.findall(r"<h2>(.*?)</h2>", text)
    assert {"How sure the answers are", "What rejecting buys"} <= set(sections)
    prototypes = MODELS[name].path.startswith("widemargin.prototypes")
    # A kernel LVQ keeps its prototypes as combinations of samples, not as images.
    assert ("What the model knows" in sections) == (prototypes and name != "kernellvq")
    varies = name in ("hss", "tvq", "tdneuron") or MODELS[name].tangents == "inputs"
    assert ("What may vary" in sections) == varies


def test_a_table_of_named_columns_has_a_report_too(command, iris):
    command("fit", iris, "--target", "species", "--model", "glvq")
    code, _, err = command("report", "model.skops", iris)
    assert code == 0, err
    text = iris.with_name("widemargin-report.html").read_text()
    check_page(text)
    assert "in standardised features" in text
    assert "make_pipeline(StandardScaler()" in text


def test_bad_out_is_refused(refuses, command, iris):
    command("fit", iris, "--target", "species", "--model", "glvq")
    assert "--out" in refuses("report", "model.skops", iris, "--out", "no/r.html")


def test_labels_are_escaped():
    page = html.Page("<b>", "x & y")
    page.add("a", "b", html.confusion(np.array([[1, 2], [0, 3]]), ["<i>", "&"]))
    text = page.render()
    assert "<i>" not in text
    assert "&lt;i&gt;" in text
    assert "x &amp; y" in text


def test_vectors_kept_counts_prototypes_and_their_tangents():
    class Model:
        n_features_in_ = 4
        prototypes_ = np.ones((3, 4))
        tangents_ = np.array([np.eye(4)[:2], np.eye(4)[:2], [[1, 0, 0, 0], 4 * [0]]])

    assert vectors_kept(Model()) == 3 + 5
    assert vectors_kept(object()) is None
