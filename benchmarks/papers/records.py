r"""Records with known invariances: small errors without deep networks, from few labels.

Three ideas, each a citizen of the library:

* direction features, in which tangent models of a few vectors per class do nearly as
  well as all samples do in pixels (`TVQClassifier` on `DirectionFeatures`);
* distortion distances on normalised gradients, with affine copies of the references,
  as a kernel density (`DensityClassifier`);
* the product of both, which err on different samples (`ProductClassifier`).

From few labels both learn from affine copies of images that are set upright and brought
to one size (`Deskew`).

Every row follows :mod:`papers`: its parameters come from the
training set, the test set is looked at once. What was published without deep networks,
and the bar that this project set itself, stand beside.

References: D. Keysers, T. Deselaers, C. Gollan, H. Ney, Deformation models for image
recognition, IEEE PAMI 29 (2007); J. Bruna, S. Mallat, Invariant scattering convolution
networks, IEEE PAMI 35 (2013).
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from papers import (
    Measured,
    Split,
    best,
    folds,
    judged,
    load_split,
    measured,
    over_draws,
    some_groups,
    stretches,
)
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline

from widemargin.datasets import load_mnist, load_nist3, load_usps, mnist_writers
from widemargin.meta import ProductClassifier
from widemargin.metrics import (
    image_distortion_distances,
    pseudo_2d_distortion_distances,
)
from widemargin.neighbors import DensityClassifier
from widemargin.prototypes import TVQClassifier
from widemargin.saving import write_atomically
from widemargin.tangents import Deskew, DirectionFeatures, image_affines
from widemargin.tangents.transform import copies

FILE = "records.json"
N_CANDIDATES, N_DRAWS = 200, 5
# Training and test images of a quick run.
QUICK = 400
# Of moves, in the image distortion model.
PENALTY = 0.033
DESKEWED, RESIZED = ", deskewed", ", resized"
# How far sizes are made alike. So few labels do not tell it, nor the metric: chosen on
# four draws of 300 labels and 1000 images of other writers, all of the training set.
RESIZE = 0.5
FEW = "distortion, window 3, patch 2, resized"
# Margin that TVQ asks for: of 0.4, 0.5 and 0.6 best on the stretches of USPS.
THETA = 0.5
FEW_TANGENTS = 24


class Row(NamedTuple):
    """One row of the table; `chosen` is what the training set decided."""

    name: str
    bar: float
    aim: float
    error: float
    standard_error: float
    chosen: str
    held_out: float | None
    seconds: float


class Digits(NamedTuple):
    """A set in two parts, with the groups of its training images."""

    split: Split
    groups: NDArray
    shape: tuple[int, int]
    quick: bool = False

    def splits(self) -> list[tuple]:
        """Rows to fit on and rows held out: ten parts, or a sixth of the writers."""
        if len(np.unique(self.groups)) <= 10:
            return folds(self.groups)
        held = some_groups(self.groups, 1 / 6)
        return [(np.flatnonzero(~held), np.flatnonzero(held))]

    def error(self, model: Any) -> Measured:
        """Look at the test set."""
        wrong = model.predict(self.split.X_test) != self.split.y_test
        return measured(wrong)


def load(loader: Callable, quick: bool) -> Split:
    """Both parts of a set; for a quick look both are of its training part."""
    split = load_split(loader)
    if not quick:
        return split
    X, y = split.X_train, split.y_train
    return Split(X[:QUICK], y[:QUICK], X[QUICK : 2 * QUICK], y[QUICK : 2 * QUICK])


def usps(quick: bool = False) -> Digits:
    """USPS with ten stretches."""
    split = load(load_usps, quick)
    return Digits(split, stretches(len(split.y_train)), (16, 16), quick)


def nist3(quick: bool = False) -> Digits:
    """nist3, whose two parts are a random draw, in five random parts."""
    split = load(load_nist3, quick)
    return Digits(split, np.arange(len(split.y_train)) % 5, (16, 16), quick)


def mnist(quick: bool = False) -> Digits:
    """MNIST with its writers."""
    split = load(load_mnist, quick)
    return Digits(split, mnist_writers()[: len(split.y_train)], (28, 28), quick)


def tvq(
    shape: tuple[int, int],
    n_tangents: int,
    n_jobs: int | None = None,
    *,
    told: str = "",
    **features: Any,
) -> Any:
    """One-sided TVQ on direction features, one model per class."""
    model = TVQClassifier(
        1, n_tangents, theta=THETA, max_iter=150, random_state=0, n_jobs=n_jobs
    )
    steps = upright(shape, told), DirectionFeatures(shape, **features), model
    return make_pipeline(*(step for step in steps if step is not None))


def upright(shape: tuple[int, int], told: str) -> Deskew | None:
    """Return what the end of a name says is done to images first."""
    if told.endswith(RESIZED):
        return Deskew(shape, resize=RESIZE)
    return Deskew(shape) if told.endswith(DESKEWED) else None


def tvq_candidates(
    digits: Digits, most_vectors: int, n_jobs: int | None
) -> dict[str, Any]:
    """TVQ of at most so many vectors for ten classes, on two kinds of features."""
    kinds: dict[str, dict] = {"": {}, ", grid 8": {"grid": 8, "blur": 1.3}}
    if digits.shape != (16, 16):
        kinds = {told: {"told": told} for told in (DESKEWED, RESIZED)}
    counts = (15,) if digits.quick else (15, 20, 24, 30)
    return {
        f"TVQ {m}×1{told}": tvq(digits.shape, m, n_jobs, **options)
        for m in counts
        if 10 * (1 + m) <= most_vectors
        for told, options in kinds.items()
    }


def chosen_tvq(
    digits: Digits, most_vectors: int, n_jobs: int | None
) -> tuple[str, float, Any]:
    """Name, held-out error in per cent and model of the least held-out Brier score."""
    splits = digits.splits()
    # Parts in parallel, or one part on all cores.
    inner, outer = (None, n_jobs) if len(splits) > 1 else (n_jobs, None)
    candidates = tvq_candidates(digits, most_vectors, inner)
    X, y = digits.split.X_train, digits.split.y_train
    choices = []
    # Features are made once for all models that see them.
    with TemporaryDirectory() as folder:
        for model in candidates.values():
            model.set_params(memory=folder)
        for choice in judged(candidates, X, y, splits, outer):
            choices.append(choice)
            _say(choice.name, choice.brier, choice.error)
    one = best(choices)
    model = candidates[one.name].set_params(memory=None)
    return one.name, one.error, model.set_params(tvqclassifier__n_jobs=n_jobs)


def density(
    name: str, shape: tuple[int, int], n_jobs: int | None, n_candidates: int
) -> Any:
    """Density in a distance of `metrics`, with affine copies of the references."""
    found = DensityClassifier(
        metric=metrics(shape)[name],
        transformations=image_affines(shape),
        n_candidates=n_candidates,
        candidate_transform=DirectionFeatures(shape),
        random_state=0,
        n_jobs=n_jobs,
    )
    first = upright(shape, name)
    return make_pipeline(*([] if first is None else [first]), found)


def metrics(shape: tuple[int, int]) -> dict[str, Callable]:
    """Distortion distances to choose from, on normalised gradients."""
    found: dict[str, Callable] = {}
    # Larger images are set upright; the small ones have no room for it.
    large = shape != (16, 16)
    for told in (DESKEWED, RESIZED) if large else ("",):
        for window, patch in ((2, 1), (3, 2)) if large else ((2, 1),):
            size: dict[str, Any] = {"window": window, "patch": patch, "shape": shape}
            size["gradients"] = "normalised"
            words = f"window {window}, patch {patch}{told}"
            found[f"P2DHMDM, {words}"] = partial(pseudo_2d_distortion_distances, **size)
            found[f"distortion, {words}"] = partial(
                image_distortion_distances, penalty=PENALTY, **size
            )
    return found


def chosen_density(digits: Digits, n_jobs: int | None) -> tuple[str, float, Any]:
    """Name, held-out error in per cent and fitted model of the least Brier score."""
    found = []
    for name in metrics(digits.shape):
        model = density(name, digits.shape, n_jobs, N_CANDIDATES)
        model.fit(digits.split.X_train, digits.split.y_train,
                  densityclassifier__groups=digits.groups)  # fmt: skip
        scores, errors = model[-1].cv_scores_, model[-1].cv_errors_
        at = int(scores.argmin())
        found.append((scores[at], 100 * errors[at], name, model))
        _say(name, *found[-1][:2])
    _, error, name, model = min(found, key=lambda one: one[0])
    return name, float(error), model


def product(
    of_metric: Any, of_features: Any, digits: Digits
) -> tuple[float, ProductClassifier]:
    """Held-out Brier score and fitted product of two models."""
    n_groups = len(np.unique(digits.groups))
    cv: Any = 10 if n_groups <= 10 else GroupShuffleSplit(1, test_size=1 / 6,
                                                          random_state=0)  # fmt: skip
    with config_context(enable_metadata_routing=True):
        of_metric = clone(of_metric)
        of_metric[-1].set_fit_request(groups=True)
        members = [("distortion", of_metric), ("tvq", of_features)]
        model = ProductClassifier(members, cv=cv)
        model.fit(digits.split.X_train, digits.split.y_train, groups=digits.groups)
    return model.cv_score_, model


def of_digits(
    name: str,
    digits: Digits,
    bars: dict[str, tuple[float, float]],
    most_vectors: int,
    n_jobs: int | None,
    known: dict[str, str],
) -> Iterator[Row]:
    """Rows of one set: few vectors, one metric, and the product of both.

    What is `known` was chosen, and measured, before.
    """
    start = time.perf_counter()
    X, y = digits.split.X_train, digits.split.y_train
    row = f"{name}, at most {most_vectors} vectors"
    if row in known:
        told = known[row]
        tangent = tvq_candidates(digits, most_vectors, n_jobs)[told]
    else:
        told, held, tangent = chosen_tvq(digits, most_vectors, n_jobs)
        fitted = clone(tangent).fit(X, y)
        yield _row(row, bars["few"], digits.error(fitted), told, held, start)
    if "metric" not in bars:
        return
    start, row = time.perf_counter(), f"{name}, one metric"
    if row in known:
        which = known[row]
        near = density(which, digits.shape, n_jobs, N_CANDIDATES)
    else:
        which, held, near = chosen_density(digits, n_jobs)
        yield _row(row, bars["metric"], digits.error(near), which, held, start)
    start, row = time.perf_counter(), f"{name}, product"
    if row in known:
        return
    score, both = product(near, tangent, digits)
    weights = " and ".join(f"{weight:.2f}" for weight in both.weights_)
    _say(f"product, weights {weights}", score)
    chosen = f"weights {weights} of {which} and {told}"
    yield _row(row, bars["product"], digits.error(both), chosen, None, start)


def balanced(y: NDArray, n_labels: int, seed: int) -> NDArray:
    """Draw rows with as many labels of each of ten classes."""
    rng = np.random.default_rng(seed)
    each = [np.flatnonzero(y == c) for c in range(10)]
    most = min(n_labels // 10, *map(len, each))
    return np.sort([rng.choice(own, most, replace=False) for own in each]).ravel()


class WithCopies(ClassifierMixin, BaseEstimator):
    """A classifier of samples and of their transformed copies, alike."""

    def __init__(self, estimator: Any, transformations: Sequence[Callable]):
        self.estimator = estimator
        self.transformations = transformations

    def fit(self, X: NDArray, y: NDArray) -> Self:
        """Fit the classifier to samples and copies."""
        versions = [X, *copies(X, self.transformations)]
        labels = np.tile(y, len(versions))
        self.estimator_ = clone(self.estimator).fit(np.concatenate(versions), labels)
        self.classes_ = self.estimator_.classes_
        return self

    def predict_proba(self, X: NDArray) -> NDArray:
        """Ask the classifier."""
        return self.estimator_.predict_proba(X)

    def predict(self, X: NDArray) -> NDArray:
        """Ask the classifier."""
        return self.estimator_.predict(X)


def of_few(shape: tuple[int, int], n_jobs: int | None) -> Any:
    """Product of a density and TVQ, both with copies of upright images."""
    *first, near = density(FEW, shape, n_jobs, N_CANDIDATES // 2)
    tangent = WithCopies(tvq(shape, FEW_TANGENTS, n_jobs), image_affines(shape))
    members = [("distortion", near), ("tvq", tangent)]
    # So few labels do not tell the weights either.
    return make_pipeline(*first, ProductClassifier(members, weights=(1.0, 1.0)))


def few_labels(
    n_labels: int, bars: tuple[float, float], digits: Digits, n_jobs: int | None
) -> Row:
    """Mean of several draws of as many labels of each class; a product."""
    start, errors, split = time.perf_counter(), [], digits.split
    for seed in range(N_DRAWS):
        rows = balanced(split.y_train, n_labels, seed)
        model = of_few(digits.shape, n_jobs)
        model.fit(split.X_train[rows], split.y_train[rows])
        errors.append(digits.error(model).error)
        near = model[-1].named_estimators_.distortion
        _say(f"{n_labels} labels, draw {seed}", near.cv_scores_.min(), errors[-1])
    name, told = f"MNIST, {n_labels} labels", f"product, {N_DRAWS} draws"
    return _row(name, bars, over_draws(errors), told, None, start)


# Name, samples, the most vectors, and bars and aims of each kind of row.
SETS: dict[str, tuple] = {
    "nist3": ("nist3", nist3, 500, {"few": (0.7, 0.45)}),
    "usps": ("USPS", usps, 500,
             {"few": (2.6, 2.2), "metric": (2.3, 2.0), "product": (2.0, 1.8)}),
    "mnist": ("MNIST", mnist, 250,
              {"few": (0.65, 0.5), "metric": (0.47, 0.4), "product": (0.42, 0.35)}),
}  # fmt: skip


def set_rows(
    key: str, quick: bool, n_jobs: int | None, known: dict[str, str]
) -> Iterator[Row]:
    """TVQ on direction features and, where there are bars, one metric and a product."""
    name, samples, most_vectors, bars = SETS[key]
    yield from of_digits(name, samples(quick), bars, most_vectors, n_jobs, known)


def few_label_rows(
    quick: bool, n_jobs: int | None, known: dict[str, str]
) -> Iterator[Row]:
    """Products from 300, 1000 and 5000 labels of MNIST."""
    digits = mnist(quick)
    bars = {300: (2.0, 1.6), 1000: (1.15, 0.9), 5000: (0.7, 0.55)}
    for n_labels, bar in bars.items():
        n = 100 if quick else n_labels
        if f"MNIST, {n} labels" not in known:
            yield few_labels(n, bar, digits, n_jobs)


SECTIONS: dict[str, Callable[..., Iterator[Row]]] = {
    **{key: partial(set_rows, key) for key in SETS},
    "few": few_label_rows,
}


def _row(
    name: str,
    bars: tuple[float, float],
    result: Measured,
    chosen: str,
    held_out: float | None,
    start: float,
) -> Row:
    row = Row(name, *bars, *result, chosen, held_out, time.perf_counter() - start)
    print(
        f"{name:<28}{result} %  (bar {row.bar}, aim {row.aim})  {chosen}; "
        f"{row.seconds:.0f} s",
        flush=True,
    )
    return row


def _say(name: str, brier: float, error: float | None = None) -> None:
    """Print what the training set says of a candidate."""
    told = "" if error is None else f"{error:.2f} %"
    print(f"  {name:<32} Brier {brier:.5f}  {told}", flush=True)


def measure(
    sections: list[str], quick: bool, out: Path, n_jobs: int | None = None
) -> list[Row]:
    """Measure some sections; every row is kept in ``records.json`` as it comes.

    Rows that are there already are not measured again.
    """
    file, rows = out / ("quick_" * quick + FILE), []
    if file.is_file():
        rows = [Row(**row) for row in json.loads(file.read_text())]
    for section in sections:
        known = {row.name: row.chosen for row in rows}
        for row in SECTIONS[section](quick, n_jobs, known):
            rows.append(row)
            save(rows, file)
    return rows


def save(rows: list[Row], file: Path) -> None:
    """Write rows, whole or not at all."""
    text = json.dumps([row._asdict() for row in rows], indent=1)
    write_atomically(file, lambda part: part.write_text(text))


def main(quick: bool = False, out: Path | str = ".") -> None:
    """Measure every row, quick ones on a few training images; choices are indented."""
    measure(list(SECTIONS), quick, Path(out), n_jobs=-1)
