"""Every model from file to page, and the page: self-contained, with what applies."""

import base64
import csv
import hashlib
import io
import itertools
import json
import re
import warnings
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from widemargin import HSSClassifier, RejectingClassifier
from widemargin.cli import html, interactive, models, report
from widemargin.cli.evaluate import Evaluation, guarantee_of
from widemargin.cli.interactive import _start
from widemargin.cli.models import MODELS
from widemargin.cli.report import vectors_kept

pytest.importorskip("matplotlib")
pytest.importorskip("widemargin.inspection")

QUICK = {
    "hss": ["--set", "n_tangents=2"],
    "tvq": ["--set", "max_iter=5"],
    "tdneuron": ["--set", "max_tangents=2"],
}
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


@pytest.fixture
def read_page(tmp_path):
    def read(name="widemargin-report.html"):
        text = (tmp_path / name).read_text()
        check_page(text)
        return text

    return read


def run_snippet(page, X, y):
    """Run the page's Python; return the model that it fits."""
    (code,) = re.findall(r"<pre[^>]*><code>(.*?)</code>", page, flags=re.DOTALL)
    names = {"X_train": X, "y_train": y, "X_test": X}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what fit says of these data is not looked at
        exec(unescape(code), names)
    return names["model"]


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_images(name, command, digits_npz, read_page):
    options = QUICK.get(name, [])
    code, out, err = command("fit", digits_npz, "--model", name, "--out", "m", *options)
    assert code == 0, err
    assert "120 samples, 64 features, 10 classes" in out
    code, out, err = command("predict", "m", digits_npz)
    assert code == 0, err
    rows = list(csv.reader(io.StringIO(out)))
    assert rows[0] == ["row", "label", "margin"]
    labels = np.array([int(row[1]) for row in rows[1:]])
    with np.load(digits_npz) as data:
        truth, X = data["y"], data["X"].reshape(-1, 64)
    assert (labels != truth).mean() < 0.1
    model = models.load(digits_npz.with_name("m"))
    np.testing.assert_array_equal(model.pipeline.predict(X), labels)
    # A margin of the answer given: positive, up to ties.
    assert min(float(row[2]) for row in rows[1:]) >= 0
    code, out, err = command("report", "m", digits_npz, "--out", "r.html")
    assert code == 0, err
    assert "Report: r.html" in out
    page = read_page("r.html")
    assert "data:image/png;base64," in page
    sections = re.findall(r"<h2>(.*?)</h2>", page)
    assert {"How sure the answers are", "What rejecting buys"} <= set(sections)
    prototypes = MODELS[name].path.startswith("widemargin.prototypes")
    # A kernel LVQ keeps its prototypes as combinations of samples, not as images.
    assert ("What the model learned" in sections) == (
        prototypes and name != "kernellvq"
    )
    assert ("Feature importance" in sections) == (name == "gmlvq")
    varies = name in ("hss", "tvq", "tdneuron") or MODELS[name].tangents == "inputs"
    assert ("Tangents" in sections) == varies


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_a_table(name, command, iris, iris_rows, read_page):
    options = ("--target", "species", "--model", name, *QUICK.get(name, []))
    code, _, err = command("fit", iris, *options)
    assert code == 0, err
    code, _, err = command("report", "model.skops", iris)
    assert code == 0, err
    page = read_page()
    assert ("<h2>Feature importance</h2>" in page) == (name == "gmlvq")
    # Rows of a table have no tangents but those that a model learned of them.
    if MODELS[name].tangents == "inputs":
        assert "<h2>Tangents</h2>" not in page
    X = np.array([row[:4] for row in iris_rows[1]], float)
    y = np.array([row[4] for row in iris_rows[1]])
    saved = models.load(iris.with_name("model.skops")).pipeline
    again = run_snippet(page, X, y)
    np.testing.assert_array_equal(again.predict(X), saved.predict(X))


def test_a_page_tells_what_stands_before_the_model(command, iris, read_page):
    fit = ("fit", iris, "--target", "species", "--model", "glvq", "--impute", "median")
    command(*fit, "--scale")
    command("report", "model.skops", iris)
    assert "by class, in features as StandardScaler gives them." in read_page()
    command(*fit)
    command("report", "model.skops", iris)
    page = read_page()
    assert "prototypes, by class." in page
    assert "SimpleImputer(" in page
    assert "StandardScaler" not in page


def test_the_python_of_images_brings_their_tangents(command, digits, digits_npz):
    command("fit", digits_npz, "--model", "knn")
    command("report", "model.skops", digits_npz)
    page = digits_npz.with_name("widemargin-report.html").read_text()
    model = run_snippet(page, *digits)
    assert model.tangents.shape == (8, 8)


@pytest.mark.parametrize("max_error", [0.04, 0.001])
def test_a_page_tells_refusals(command, read_page, tmp_path, max_error):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    new = np.arange(len(y)) % 3 == 0
    np.savez(tmp_path / "a.npz", X=X[~new], y=y[~new])
    np.savez(tmp_path / "b.npz", X=X[new], y=y[new])
    options = ("--model", "glvq", "--scale", "--seed", 3, "--max-error", max_error)
    code, out, err = command("fit", "a.npz", *options)
    assert code == 0, err
    saved = models.load(tmp_path / "model.skops")
    answered = saved.accepts(X[new])
    labels = saved.estimator.predict(saved.prepare(X[new]))
    wrong = (labels != y[new]) & answered
    error = wrong.sum() / answered.sum() if answered.any() else None
    code, out, err = command("evaluate", "model.skops", "b.npz")
    assert code == 0, err
    out = " ".join(out.split())
    assert f"It answers {answered.sum()} of {new.sum()}" in out
    if answered.any():
        said = f"{wrong.sum()} of them wrongly: error {100 * error:.2f} %. "
        said += (
            "Guaranteed: of its answers at most 4 % are wrong, with probability 95 %."
        )
        assert said in out
    else:
        assert "It rejects every sample: nothing could be guaranteed." in out
    found = json.loads(command("evaluate", "model.skops", "b.npz", "--json")[1])
    assert found["error"] == pytest.approx((labels != y[new]).mean())
    assert found["refusal"] == {
        "answered": answered.sum(), "wrong": wrong.sum(), "error": error,
        "max_error": max_error, "coverage": None, "delta": 0.05,
    }  # fmt: skip
    code, _, err = command("report", "model.skops", "b.npz")
    assert code == 0, err
    page = read_page()
    share = f"<b>{100 * answered.mean():.1f} %</b><span>answered</span>"
    assert share in page
    assert ("with probability 95 %" in page) == answered.any()
    # The slider begins where the model does.
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    level = np.frombuffer(base64.b64decode(data["level"]), "<u4")
    np.testing.assert_array_equal(level >= data["start"], answered)
    # The Python holds out the same samples, and nothing sees them.
    again = run_snippet(page, X[~new], y[~new])
    assert isinstance(again, RejectingClassifier)
    assert again.threshold_ == pytest.approx(saved.refusing.threshold_)
    np.testing.assert_array_equal(again.predict(X[new]), saved.pipeline.predict(X[new]))


def test_a_slider_of_confidence_cannot_begin_at_other_refusals():
    level = np.array([0, 1, 2, 3])
    assert _start(level, None) == 0
    assert _start(level, level > 1) == 2
    assert _start(level, level > 9) == 4
    assert _start(level, level == 1) == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"coverage": 0.8}, "Guaranteed: at least 80 % of samples are answered, with"),
        ({"max_error": 0.1, "delta": None}, "on the samples held out, of its answers"),
    ],
)
def test_guarantees_in_words(settings, words):
    X, y = load_digits(return_X_y=True)
    model = RejectingClassifier(GaussianNB(), random_state=0, **settings).fit(X, y)
    assert words in guarantee_of(model)


def test_bad_out_is_refused(refuses, command, iris):
    command("fit", iris, "--target", "species", "--model", "glvq")
    assert "--out" in refuses("report", "model.skops", iris, "--out", "no/r.html")
    message = refuses("report", "model.skops", iris, "--out", "r.txt")
    assert "--out must end in .html" in message


def test_labels_are_escaped():
    page = html.Page("<b>", "x & y")
    page.add("a", "b", html.confusion(np.array([[1, 2], [0, 3]]), ["<i>", "&"]))
    text = page.render()
    assert "<i>" not in text
    assert "&lt;i&gt;" in text
    assert "x &amp; y" in text


def test_long_names_of_classes_stand_upright():
    counts = np.array([[1, 2], [0, 3]])
    assert "upright" in html.confusion(counts, ["Iris setosa", "b"])
    assert "upright" not in html.confusion(counts, [1000, 20])


def test_words_over_the_mistakes_do_not_overlap(monkeypatch):
    truth = np.array(["Iris setosa", "versicolor", "Iris virginica"])
    zeros, drawn = np.zeros(3), []
    results = Evaluation(truth, np.roll(truth, 1), zeros, zeros, truth, 1.0)
    monkeypatch.setattr(report, "picture", lambda figure, words: drawn.append(figure))
    saved = models.SavedModel(None, "m", [], (4, 4), None, 16)
    report.add_gallery(html.Page("", ""), saved, np.eye(3, 16), results)
    drawn[0].canvas.draw()
    (axes,) = drawn[0].axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 3
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))


def test_vectors_kept_counts_prototypes_and_their_tangents():
    class Model:
        n_features_in_ = 4
        prototypes_ = np.ones((3, 4))
        tangents_ = np.array([np.eye(4)[:2], np.eye(4)[:2], [[1, 0, 0, 0], 4 * [0]]])

    assert vectors_kept(Model()) == 3 + 5
    assert vectors_kept(object()) is None


@pytest.mark.parametrize("light", [False, True])
def test_paper_is_light(light):
    image = pytest.importorskip("PIL.Image")
    X, y = load_digits(n_class=3, return_X_y=True)
    X = 16 - X[:60] if light else X[:60]
    hss = HSSClassifier(n_tangents=2).fit(X, y[:60])
    results = Evaluation(y[:60], y[:60], X[:, 20], X[:, 20], hss.classes_, 1.0)
    saved = models.SavedModel(hss, "hss", [], (8, 8), None, 64)
    made = interactive.interactive_parts(saved, X, results, {})
    assert made.data["sweeps"]["light"] == light
    for name in ("samples", "references"):
        with image.open(io.BytesIO(made.sprites[name])) as sprite:
            # The first column of the first digit is paper.
            assert np.asarray(sprite.convert("L"))[:8, 0].min() > 250
