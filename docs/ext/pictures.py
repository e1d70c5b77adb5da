"""The pictures of the guide and of the performance page, drawn when the site is built.

A picture is a function that returns a figure; ``@picture`` puts it into
``docs/drawn/NAME.png``. Those of the performance page read the tables of
``benchmarks/*.md``, so that page and picture cannot disagree.
"""

import doctest
import re
from pathlib import Path

import matplotlib
import numpy as np
from sphinx.application import Sphinx

matplotlib.use("Agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
GREY, DARK, RED, ORANGE, BLUE = "#9aa5b1", "#52606d", "#d64545", "#e8833a", "#1f5f8b"
PICTURES = {}


def picture(draw):
    """Register a picture under the name of its function."""
    PICTURES[draw.__name__] = draw
    return draw


def bare(ax):
    """Leave out the frame above and to the right."""
    ax.spines[["top", "right"]].set_visible(False)


def read_tables(name):
    """Return the tables of a page of benchmarks: one list of dicts of strings each."""
    tables, rows = [], []
    for line in [*(ROOT / "benchmarks" / name).read_text().splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            head, _, *body = rows
            tables.append([dict(zip(head, row, strict=True)) for row in body])
            rows = []
    return tables


def find_table(name, *columns):
    """Return the first table of a page that has all these columns."""
    return next(t for t in read_tables(name) if all(c in t[0] for c in columns))


def number(text, default=np.nan):
    """Return the first number of a cell."""
    found = re.search(r"\d+(\.\d+)?", text.replace("10⁻", ""))
    return float(found.group()) if found else default


def bars_against_one(ax, labels, values, peer, unit):
    """Draw horizontal bars of times in units of a peer's, and the peer as a line."""
    places = np.arange(len(labels))[::-1]
    ax.barh(places, values, 0.6, color=RED, label="widemargin")
    ax.axvline(1, color=GREY, linewidth=2, label=peer)
    for place, value in zip(places, values, strict=True):
        ax.text(value, place, f" {value:g}", va="center", fontsize=9)
    ax.set_yticks(places, labels)
    ax.set_xlabel(unit)
    ax.set_xlim(0, 1.15 * max(1, *values))
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    bare(ax)


@picture
def distances():
    """One- and two-sided distance between two lines in the plane."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    x, y = np.array([0.0, 0.0]), np.array([2.6, 1.5])
    u, v = np.array([0.94, 0.34]), np.array([0.5, -0.87])
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    reach = np.linspace(-1.6, 3.0, 2)[:, None]
    foot_x = x + u * (u @ (y - x))
    solved = np.linalg.solve(
        [[u @ u, -(u @ v)], [u @ v, -(v @ v)]], [u @ (y - x), v @ (y - x)]
    )
    meeting = x + solved[0] * u
    cases = (
        ("Euclidean", x, y, ""),
        ('one-sided (sides="query")', foot_x, y, "x"),
        ('two-sided (sides="both"), spring 0', meeting, meeting, "xy"),
    )
    for ax, (title, start, end, lines) in zip(axes, cases, strict=True):
        if "x" in lines:
            ax.plot(*(x + reach * u).T, color=BLUE, alpha=0.5)
        if "y" in lines:
            ax.plot(*(y + reach * v - 0.6 * v).T, color=ORANGE, alpha=0.6)
        ax.plot(*np.stack([start, end]).T, color=RED, linewidth=2.5)
        ax.plot(*x, "o", color=BLUE, markersize=8)
        ax.plot(*y, "s", color=ORANGE, markersize=8)
        ax.annotate("x", x, (-12, -4), textcoords="offset points")
        ax.annotate("x′", y, (8, 4), textcoords="offset points")
        length = np.linalg.norm(end - start)
        ax.set_title(f"{title}: d = {length:.2f}", fontsize=11)
        ax.set(aspect="equal", xlim=(-1.4, 4.2), ylim=(-1.0, 2.6), xticks=[], yticks=[])
        bare(ax)
    return figure


def run_until(page, what):
    """Run the Python of a page until it has drawn a display; return its figure."""
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        code = block
        if ">>>" in block:
            examples = doctest.DocTestParser().get_examples(block)
            code = "".join(example.source for example in examples)
        exec(code, names)
        if what in code:
            return names["display"].figure_
    raise ValueError(f"no block of the page has {what}")


@picture
def first_hour_sweep():
    """Show what step 2 of the first hour draws."""
    page = (ROOT / "docs" / "first_hour.md").read_text()
    return run_until(page, "TangentDisplay.from_estimator")


@picture
def first_hour_alignment():
    """Show what step 4 of the first hour draws."""
    page = (ROOT / "docs" / "first_hour.md").read_text()
    return run_until(page, "AlignmentDisplay.from_estimator")


@picture
def signal_sweep():
    """One curve along the directions of signals."""
    from widemargin.inspection import TangentDisplay
    from widemargin.tangents import SignalTangents

    time = np.linspace(0, 1, 80)
    curve = np.exp(-(((time - 0.35) / 0.06) ** 2)) + 0.6 * np.exp(
        -(((time - 0.68) / 0.1) ** 2)
    )
    directions = ["shift", "scale", "amplitude", "offset", "slope", "curvature"]
    figure, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
    TangentDisplay.from_estimator(
        SignalTangents(directions), curve, positions=time, ax=ax
    )
    return figure


@picture
def alignment():
    """Show what the guide draws of two digits, moved towards each other."""
    page = (ROOT / "docs" / "guide" / "tangent_distances.md").read_text()
    return run_until(page, "AlignmentDisplay.from_estimator")


@picture
def margin_field():
    """Show the relative margin and the distance to a border of the same points."""
    from sklearn.datasets import make_blobs

    from widemargin import GLVQClassifier, MaxMarginClassifier

    X, y = make_blobs([90, 90], centers=[(-1.2, 0), (1.6, 0.6)], random_state=3)
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained")
    steps = np.linspace(-4.5, 5, 120)
    grid = np.stack(np.meshgrid(steps, steps * 0.65), axis=-1).reshape(-1, 2)
    models = {
        'GLVQ: unit "relative"': GLVQClassifier(random_state=0),
        'MaxMargin: unit "distance"': MaxMarginClassifier(),
    }
    for ax, (title, model) in zip(axes, models.items(), strict=True):
        values = model.fit(X, y).decision_function(grid).reshape(120, 120)
        limit = np.abs(values).max()
        shown = ax.contourf(
            steps, steps * 0.65, values, 21, cmap="RdBu_r", vmin=-limit, vmax=limit
        )
        ax.contour(steps, steps * 0.65, values, [0], colors="#1f2933")
        for label, colour in ((0, "#12304d"), (1, "#7a1f1f")):
            ax.plot(*X[y == label].T, ".", color=colour, markersize=4)
        figure.colorbar(shown, ax=ax, shrink=0.85)
        ax.set(xticks=[], yticks=[], title=title)
    return figure


def _held_out_digits():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16, y, test_size=0.5, random_state=0)


@picture
def margins_and_rejection():
    """Margins of two models, and what refusing by them buys."""
    from widemargin import GLVQClassifier, TVQClassifier
    from widemargin.inspection import ErrorRejectDisplay, MarginDistributionDisplay

    X, X_new, y, y_new = _held_out_digits()
    models = {
        "GLVQ": GLVQClassifier(random_state=0).fit(X, y),
        "TVQ": TVQClassifier(n_tangents=8, max_iter=60, random_state=0).fit(X, y),
    }
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
    MarginDistributionDisplay.from_estimator(
        models, X_new, y_new, ax=axes[0], ordered=False
    )
    ErrorRejectDisplay.from_estimator(
        models, X_new, y_new, ax=axes[1], max_rejection=0.5
    )
    return figure


@picture
def tangent_models():
    """Models of TVQ: centroids, and what their tangents do to them."""
    from widemargin import TVQClassifier
    from widemargin.inspection import TangentDisplay

    X, _, y, _ = _held_out_digits()
    model = TVQClassifier(n_tangents=4, max_iter=60, random_state=0).fit(X, y)
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for ax, label in zip(axes, (3, 7), strict=True):
        first = np.flatnonzero(model.prototype_labels_ == label)[0]
        TangentDisplay(
            sample=model.prototypes_[first],
            tangents=model.tangents_[first],
            names=[f"tangent {k + 1}" for k in range(4)],
            shape=(8, 8),
        ).plot(ax)
        ax.set_title(f"a model of the {label}", fontsize=11)
    return figure


@picture
def certificate():
    """Draw the widest line between two classes, and its margin."""
    from sklearn.datasets import make_blobs

    from widemargin import MaxMarginClassifier

    X, y = make_blobs([40, 40], centers=[(-3, -1.5), (3, 1.5)], random_state=4)
    model = MaxMarginClassifier(C=np.inf).fit(X, y)
    w, b = model.coef_[0], model.intercept_[0]
    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for label, colour, mark in ((0, BLUE, "o"), (1, ORANGE, "s")):
        ax.plot(*X[y == label].T, mark, color=colour, markersize=5)
    ends = np.array([X[:, 1].min() - 0.5, X[:, 1].max() + 0.5])
    for offset, style in ((0, "-"), (-1, "--"), (1, "--")):
        shift = offset * model.margin_ * np.linalg.norm(w)
        ax.plot((shift - b - w[1] * ends) / w[0], ends, style, color=RED, linewidth=1.4)
    ax.set_title(
        f"margin {model.margin_:.4f}; none exceeds {model.margin_upper_bound_:.4f}",
        fontsize=11,
    )
    ax.set(aspect="equal", xticks=[], yticks=[])
    return figure


@picture
def theta():
    """Show what re-weighting does to the margins of a linear model."""
    from sklearn.linear_model import LogisticRegression

    from widemargin import MarginReweightingClassifier
    from widemargin.inspection import MarginDistributionDisplay

    X, _, y, _ = _held_out_digits()
    plain = LogisticRegression(C=0.01, max_iter=500)
    # One round is the plain learner, its margins in the same unit.
    models = {
        name: MarginReweightingClassifier(
            plain, theta=0.5, max_iter=rounds, validation_fraction=None, random_state=0
        ).fit(X, y)
        for name, rounds in (("logistic regression", 1), ("re-weighted", 15))
    }
    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    MarginDistributionDisplay.from_estimator(models, X, y, ax=ax)
    return figure


@picture
def performance_kernels():
    """Kernel machines on USPS, here and in the paper."""
    rows = find_table("tangent_kernels.md", "kernel", "error %", "paper")
    names = [row["kernel"] for row in rows]
    places = np.arange(len(rows))
    figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
    for shift, column, colour in ((-0.2, "paper", GREY), (0.2, "error %", RED)):
        values = [number(row[column]) for row in rows]
        label = "the paper" if column == "paper" else "widemargin"
        bars = ax.bar(places + shift, values, 0.4, color=colour, label=label)
        ax.bar_label(bars, fmt="%.1f", fontsize=8, padding=1)
    ax.set_xticks(places, names, rotation=30)
    ax.set_ylabel("USPS test error, %")
    ax.legend(frameon=False)
    bare(ax)
    return figure


@picture
def performance_models():
    """TVQ on nist3, here and in the paper."""
    rows = [
        row
        for row in find_table("tangent_models.md", "method", "paper", "ours")
        if row["paper"]
    ]
    names = [row["method"].partition(" (")[0] for row in rows]
    places = np.arange(len(rows))
    figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
    for shift, column, colour in ((-0.2, "paper", GREY), (0.2, "ours", RED)):
        values = [number(row[column]) for row in rows]
        label = "the paper" if column == "paper" else "widemargin"
        bars = ax.bar(places + shift, values, 0.4, color=colour, label=label)
        ax.bar_label(bars, fmt="%.1f", fontsize=8, padding=1)
    ax.set_xticks(places, names, rotation=40, ha="right")
    ax.set_ylabel("NIST-3 test error, %")
    ax.legend(frameon=False)
    bare(ax)
    return figure


@picture
def performance_prototypes():
    """Prototypes against nearest neighbours, by the number of prototypes."""
    rows = find_table("prototypes.md", "set", "test", "1-NN")
    names = [f"{row['set']}, {row['per class']}" for row in rows]
    places = np.arange(len(rows))
    figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
    for shift, column, colour, label in (
        (-0.2, "1-NN", GREY, "1-NN, all training samples"),
        (0.2, "test", RED, "prototypes, the member that cross-validation chose"),
    ):
        values = [number(row[column]) for row in rows]
        bars = ax.bar(places + shift, values, 0.4, color=colour, label=label)
        ax.bar_label(bars, fmt="%.1f", fontsize=8, padding=1)
    ax.set_xticks(places, names, rotation=30, ha="right")
    ax.set_ylabel("test error, %")
    ax.legend(frameon=False)
    bare(ax)
    return figure


@picture
def performance_distances():
    """All pairs of tangent distances against the matrix product."""
    rows = find_table("README.md", "distance", "threads", "ratio", "bar")
    labels = [f"{row['distance']}, {row['threads']} threads" for row in rows]
    figure, ax = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
    bars_against_one(
        ax,
        [label.replace("1 threads", "1 thread") for label in labels],
        [number(row["ratio"]) for row in rows],
        "the matrix product alone",
        "time, in units of the matrix product of the same sizes",
    )
    return figure


@picture
def performance_linear():
    """Certified hyperplanes against the solvers of LIBLINEAR and LIBSVM."""
    labels, values, before = [], [], ""
    for row in find_table("linear.md", "what", "bar", "ratio"):
        # Ratios of times only; of the pairs of digits the page tells more than one.
        if not re.match(r"≤ [\d.]+(?! s\b)", row["bar"]) or "45" in row["what"]:
            continue
        ratios = [float(v) for v in re.findall(r"\d+\.\d+", row["ratio"])]
        peers = re.findall(r"≤ [\d.]+ ([\w-]+)", row["bar"]) or ["LinearSVC"]
        what = re.sub(r", [\d ]+ supports", "", row["what"])
        what = what.replace("the same", before)
        before = what.partition(",")[0]
        for i, ratio in enumerate(ratios):
            one = re.sub(r"C = (\S+) and (\S+)", rf"C = \{i + 1}", what)
            peer = peers[min(i, len(peers) - 1)] if one == what else peers[0]
            if one == what and len(peers) < len(ratios):
                peer = ("LinearSVC", "liblinear-official")[i]
            labels.append(f"{one} / {peer}")
            values.append(ratio)
    figure, ax = plt.subplots(figsize=(9.5, 4), layout="constrained")
    bars_against_one(ax, labels, values, "the peer", "time, in units of the peer's")
    return figure


@picture
def performance_guarantees():
    """Broken guarantees of rejection, in thousand draws from sixteen distributions."""
    rows = find_table("rejection.md", "distribution", "broken")
    figure, ax = plt.subplots(figsize=(8.5, 4.6), layout="constrained")
    places = np.arange(len(rows))[::-1]
    for shift, column, colour in (
        (0.2, "broken", RED),
        (-0.2, "coverage 0.6 broken", ORANGE),
    ):
        values = [number(row[column]) for row in rows]
        label = "max_error" if column == "broken" else "coverage"
        ax.barh(places + shift, values, 0.4, color=colour, label=f"guarantee: {label}")
    ax.axvline(5, color="#1f2933", linestyle=":", label="allowed: 5 %")
    ax.set_yticks(places, [row["distribution"] for row in rows])
    ax.set_xlabel("guarantees broken, % of 1000 draws")
    ax.legend(frameon=False, loc="upper right", bbox_to_anchor=(0.97, 1))
    bare(ax)
    return figure


def draw(app):
    """Draw what is missing or older than what it is drawn from."""
    folder = Path(app.srcdir, "drawn")
    folder.mkdir(exist_ok=True)
    sources = [Path(__file__), *(ROOT / "benchmarks").glob("*.md")]
    newest = max(path.stat().st_mtime for path in sources)
    for name, make in PICTURES.items():
        path = folder / f"{name}.png"
        if not path.exists() or path.stat().st_mtime < newest:
            figure = make()
            figure.savefig(path, dpi=130)
            plt.close(figure)


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
