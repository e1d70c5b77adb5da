"""What Figures 3 to 8 of the re-weighting paper show, as plain arrays.

Every function returns a dict of curves, {label: (x, y)}, or a dict of such dicts, one
per panel.
"""

from typing import Any

import numpy as np
from sklearn.metrics import euclidean_distances

from widemargin.datasets.nist3 import Split
from widemargin.margins import error_reject_curve, relative_margin
from widemargin.metrics import tangent_distances
from widemargin.prototypes import HSSClassifier, TVQClassifier

Curves = dict[str, tuple[np.ndarray, np.ndarray]]


def class_distances(
    X: np.ndarray, prototypes: np.ndarray, tangents: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Squared distances (n, n_classes) to the nearest model of every class."""
    D = tangent_distances(X, prototypes, Y_tangents=tangents, sides="y", spring=0)
    return np.stack([D[:, labels == c].min(axis=1) for c in np.unique(labels)], axis=1)


def margins(D: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Relative margins from squared distances to classes."""
    rows = np.arange(len(D))
    rest = D.copy()
    rest[rows, codes] = np.inf
    return relative_margin(D[rows, codes], rest.min(axis=1))


def follow(model: TVQClassifier, split: Split, at: np.ndarray) -> dict[str, list]:
    """Fit `model`; margins of both parts at the start (0) and after the passes `at`."""
    start = HSSClassifier(model.prototypes_per_class, model.n_tangents, random_state=0)
    model.set_params(record_models=True, tol=0.0).fit(split.X_train, split.y_train)
    first = start.fit(split.X_train, split.y_train)
    out: dict[str, list] = {"iteration": [], "train": [], "test": []}
    # A fit that has nothing left to do ends early: its last pass is shown instead.
    for t in np.unique(np.minimum(at, model.n_iter_)):
        C, T = (first.prototypes_, first.tangents_)
        labels = first.prototype_labels_
        if t:
            C, T = model.history_["models"][t - 1]
            labels = model.prototype_labels_
        elif model.init != "hss":
            continue
        out["iteration"].append(int(t))
        for part, X, y in (
            ("train", split.X_train, split.y_train),
            ("test", split.X_test, split.y_test),
        ):
            codes = np.searchsorted(model.classes_, y)
            out[part].append(margins(class_distances(X, C, T, labels), codes))
    return out


def error_curve(followed: dict[str, list], part: str) -> tuple[np.ndarray, np.ndarray]:
    """Error in percent over the iterations."""
    errors = [100 * np.mean(mu <= 0) for mu in followed[part]]
    return np.array(followed["iteration"]), np.array(errors)


def cumulative(mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of the samples with a margin below each value."""
    values = np.linspace(-0.4, 1.0, 281)
    return values, np.searchsorted(np.sort(mu), values) / len(mu)


def figure_3(split: Split, at: np.ndarray, seed: int) -> Curves:
    """Test error over the iterations for the three ways to start."""
    names = {"hss": "HSS models", "mean": "class means, random tangents",
             "random": "random models"}  # fmt: skip
    curves = {}
    for init, name in names.items():
        model = TVQClassifier(
            1, 15, theta=0.4, init=init, max_iter=int(at[-1]), random_state=seed
        )
        curves[name] = error_curve(follow(model, split, at), "test")
    return curves


def figure_4(
    split: Split, followed: dict[str, list], at: np.ndarray, seed: int
) -> dict[str, Curves]:
    """Train and test errors of TVQ; and what is left of them without re-weighting."""
    plain = TVQClassifier(
        1, 15, theta=0.4, k=0, max_iter=int(at[-1]), random_state=seed
    )
    plain_followed = follow(plain, split, at)
    typical = {
        "train": error_curve(followed, "train"),
        "test": error_curve(followed, "test"),
    }
    both = {f"{part}, re-weighting": curve for part, curve in typical.items()}
    for part in ("train", "test"):
        both[f"{part}, mean margin only"] = error_curve(plain_followed, part)
    return {"(a) typical errors": typical, "(b) with and without": both}


def figure_5(followed: dict[str, list], shown: tuple[int, ...]) -> dict[str, Curves]:
    """Cumulative margins of TVQ 15×1 on both parts, at some iterations."""
    return {
        f"({letter}) {part} set": _cumulative_at(followed, part, shown)
        for letter, part in (("a", "train"), ("b", "test"))
    }


def figure_6(split: Split, shown: tuple[int, ...], seed: int) -> dict[str, Curves]:
    """Cumulative training margins of a small and of a large model."""
    out = {}
    for letter, (m, Q) in (("a", (10, 1)), ("b", (15, 3))):
        model = TVQClassifier(Q, m, theta=0.4, max_iter=max(shown), random_state=seed)
        followed = follow(model, split, np.array(shown))
        out[f"({letter}) {m}×{Q}"] = _cumulative_at(followed, "train", shown)
    return out


def _cumulative_at(followed: dict[str, list], part: str, shown: Any) -> Curves:
    return {
        f"iteration {t}": cumulative(mu)
        for t, mu in zip(followed["iteration"], followed[part], strict=True)
        if t in shown or t == followed["iteration"][-1]
    }


def figure_7(split: Split, max_iter: int, seed: int) -> dict[str, Any]:
    """Weights at some iterations, and how far they are from uniform on the mistakes.

    Returns
    -------
    dict
        ``"weights"``: {iteration: weights times n, sorted}; ``"total_variation"``:
        (iterations, distance between the weights and the uniform distribution on the
        θ-mistakes of that iteration).
    """
    model = TVQClassifier(
        1, 15, theta=0.4, max_iter=max_iter, tol=0.0, random_state=seed,
        record_weights=True, record_models=True,
    ).fit(split.X_train, split.y_train)  # fmt: skip
    n, labels = len(split.y_train), model.prototype_labels_
    codes = np.searchsorted(model.classes_, split.y_train)
    iterations = np.unique(np.geomspace(1, model.n_iter_, 25).astype(int))
    distances = []
    for t in iterations:
        C, T = model.history_["models"][t - 1]
        D = class_distances(split.X_train, C, T, labels)
        mistakes = margins(D, codes) < 0.4
        uniform = mistakes / max(1, mistakes.sum())
        distances.append(np.abs(model.history_["weights"][t - 1] - uniform).sum() / 2)
    shown = [t for t in (1, 5, 20, 60, model.n_iter_) if t <= model.n_iter_]
    weights = {t: n * np.sort(model.history_["weights"][t - 1])[::-1] for t in shown}
    return {"weights": weights, "total_variation": (iterations, np.array(distances))}


def two_best(model: Any, X: np.ndarray) -> np.ndarray:
    """Difference of the two best predictions, the paper's criterion of rejection."""
    if hasattr(model, "outputs"):
        scores = model.outputs(X)
    elif hasattr(model, "tangents_"):
        labels = model.prototype_labels_
        scores = -class_distances(X, model.prototypes_, model.tangents_, labels)
    elif hasattr(model, "prototypes_"):
        D = euclidean_distances(X, model.prototypes_, squared=True)
        labels = model.prototype_labels_
        scores = -np.stack(
            [D[:, labels == c].min(axis=1) for c in np.unique(labels)], axis=1
        )
    else:
        scores = model.decision_function(X)
    best = np.sort(scores, axis=1)
    return best[:, -1] - best[:, -2]


def figure_8(models: dict[str, Any], split: Split) -> Curves:
    """Share rejected over the error among the accepted, both in percent."""
    curves = {}
    for name, model in models.items():
        curve = error_reject_curve(
            split.y_test, model.predict(split.X_test), two_best(model, split.X_test)
        )
        keep = curve.rejection_rate <= 0.25
        curves[name] = 100 * curve.error_rate[keep], 100 * curve.rejection_rate[keep]
    return curves
