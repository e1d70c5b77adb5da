"""What the library is for: beside boosting, a small CNN, Rocket and SNV + PLS-DA.

Every table is one `widemargin.compare` of models with their defaults: the same rows are
fitted and asked, and each row is asked by a model that has not seen it. Digits, spectra
and beats have few labels: each part is fitted alone and asked about all the others.

The CNN has two convolutions and is trained for at least 60 epochs and 1500 steps of
Adam. Data augmentation shifts images by up to half a pixel and turns them by up to 10
degrees, anew in every epoch. SNV + PLS-DA takes the number of components by
cross-validation.

Run: python benchmarks/peers.py [--only tables]; the CNN needs torch, Rocket aeon: rows
whose library is missing are left out.
"""

import argparse
import importlib.util
import warnings

import numpy as np
from common import machine, print_table
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_classification,
    make_hastie_10_2,
    make_moons,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from tangents_hurt import curvature, drawn, offset, scatter, shift, slope

from widemargin import (
    FewShotImageClassifier,
    GMLVQClassifier,
    SignalClassifier,
    SpectrumClassifier,
    TangentKNeighborsClassifier,
    TangentSVC,
    TVQClassifier,
    compare,
)
from widemargin.tangents import ImageTangents, SignalTangents, TransformTangents

EPOCHS, STEPS, BATCH, SHIFT, TURN = 60, 1500, 64, 0.5, 10.0


class SmallCNN(ClassifierMixin, BaseEstimator):
    """Two convolutions and a linear layer, with random shifts and turns."""

    def __init__(self, side=8, random_state=0):
        self.side = side
        self.random_state = random_state

    def fit(self, X, y):
        """Train by Adam on images that are moved anew in every epoch."""
        import torch
        from torch import nn

        torch.manual_seed(self.random_state)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.unit_ = np.abs(X).max()
        images, labels = self._images(X), torch.as_tensor(codes)
        inner = 64 * (self.side // 4) ** 2
        self.net_ = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(inner, len(self.classes_)),
        )  # fmt: skip
        adam = torch.optim.Adam(self.net_.parameters(), lr=2e-3, weight_decay=1e-4)
        for _ in range(max(EPOCHS, STEPS * BATCH // max(len(X), BATCH))):
            moved = self._moved(images)
            for rows in torch.randperm(len(moved)).split(BATCH):
                adam.zero_grad()
                loss = nn.functional.cross_entropy(self.net_(moved[rows]), labels[rows])
                loss.backward()
                adam.step()
        self.net_.eval()
        return self

    def _images(self, X):
        import torch

        shape = (-1, 1, self.side, self.side)
        return torch.as_tensor(np.asarray(X) / self.unit_).float().reshape(shape)

    def _moved(self, images):
        import torch
        from torch.nn import functional

        n = len(images)
        angle = torch.deg2rad((2 * torch.rand(n) - 1) * TURN)
        by = (2 * torch.rand(n, 2) - 1) * SHIFT * 2 / self.side
        cos, sin = angle.cos(), angle.sin()
        rows = torch.stack([cos, -sin, by[:, 0], sin, cos, by[:, 1]], 1)
        grid = functional.affine_grid(rows.reshape(n, 2, 3), images.shape, False)
        return functional.grid_sample(images, grid, align_corners=False)

    def predict_proba(self, X):
        """Return the softmax of the network."""
        import torch

        with torch.no_grad():
            return self.net_(self._images(X)).softmax(1).numpy()

    def predict(self, X):
        """Return the most probable class."""
        return self.classes_[self.predict_proba(X).argmax(1)]


class PLSDA(ClassifierMixin, BaseEstimator):
    """SNV, then regression on latent variables, then linear discriminants."""

    def fit(self, X, y):
        """Choose the number of components by cross-validation."""
        parts = StratifiedKFold(3, shuffle=True, random_state=0)
        able = range(1, min(10, len(X) * 2 // 3 - len(np.unique(y))) + 1)
        shares = [
            cross_val_score(_snv_pls(n), X, y, cv=parts, scoring="accuracy").mean()
            for n in able
        ]
        self.model_ = _snv_pls(able[int(np.argmax(shares))]).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        """Return the class of each spectrum."""
        return self.model_.predict(X)

    def predict_proba(self, X):
        """Return what the linear discriminants say."""
        return self.model_.predict_proba(X)


class _Scores(BaseEstimator):
    """PLS scores of one-hot labels, as a transformer."""

    def __init__(self, n_components=2):
        self.n_components = n_components

    def fit(self, X, y):
        """Regress one-hot labels."""
        hot = (np.asarray(y)[:, None] == np.unique(y)).astype(float)
        self.pls_ = PLSRegression(self.n_components, scale=False).fit(X, hot)
        return self

    def transform(self, X):
        """Return the scores."""
        return self.pls_.transform(X)


def snv(X):
    """Bring every spectrum to mean 0 and variance 1 (standard normal variate)."""
    return (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)


def _snv_pls(n):
    return make_pipeline(
        FunctionTransformer(snv), _Scores(n), LinearDiscriminantAnalysis()
    )


def few(y, per_class, parts, seed):
    """Give `parts` disjoint draws of so many samples a class, and all others."""
    rng = np.random.RandomState(seed)
    orders = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    for k in range(parts):
        rows = [order[k * per_class : (k + 1) * per_class] for order in orders]
        train = np.sort(np.concatenate(rows))
        yield train, np.setdiff1d(np.arange(len(y)), train)


def show(title, X, y, models, **how):
    found = compare(X, y, models=models, max_samples=None, **how)
    print_table(title, ["model", "error, %", "ECE", "kB", "fit, s", "µs"], [
        [c for k, c in enumerate(row) if k != 2] for row in found.table()
    ])  # fmt: skip
    for name, reason in found.failed.items():
        print(f"{name}: {reason}")


def table_models():
    return {
        "SVC (scaled)": make_pipeline(StandardScaler(), SVC()),
        "random forest": RandomForestClassifier(200, random_state=0),
        "gradient boosting": HistGradientBoostingClassifier(random_state=0),
        "GMLVQ": GMLVQClassifier(random_state=0),
    }


def tables():
    rng = np.random.RandomState(0)
    moons, labels = make_moons(2000, noise=0.2, random_state=0)
    noisy = np.hstack([moons, rng.normal(size=(2000, 10))])
    mixed = make_classification(
        2000, 20, n_informative=8, n_clusters_per_class=2, random_state=0
    )
    radius = make_hastie_10_2(4000, random_state=0)
    steps = rng.uniform(size=(4000, 10))
    parity = (steps[:, :3] > 0.5).sum(axis=1) % 2
    for title, X, y in (
        ("wine, 178 x 13", *load_wine(return_X_y=True)),
        ("breast cancer, 569 x 30", *load_breast_cancer(return_X_y=True)),
        ("clusters in 20 features, 2000 rows", *mixed),
        ("two moons and 10 features of noise, 2000 rows", noisy, labels),
        ("a sphere in 10 features, 4000 rows", *radius),
        ("steps of three of ten features, 4000 rows", steps, parity),
    ):
        show(title, X, y, table_models(), cv=5)


def images():
    X, y = load_digits(return_X_y=True)
    moves = ImageTangents((8, 8))
    for per_class in (5, 20, 100):
        models = {
            "gradient boosting": HistGradientBoostingClassifier(random_state=0),
            "1-NN": KNeighborsClassifier(1),
            "small CNN, augmented": SmallCNN(),
            "few-shot": FewShotImageClassifier((8, 8)),
            "tangent neighbours": TangentKNeighborsClassifier(tangents=moves),
            "tangent SVC": TangentSVC(tangents=moves, random_state=0),
            "TVQ": TVQClassifier(random_state=0),
        }
        if importlib.util.find_spec("torch") is None:
            del models["small CNN, augmented"]
        folds = list(few(y, per_class, 3 if per_class < 100 else 1, seed=0))
        show(f"digits, {per_class} labels per class", X, y, models, cv=folds)


def spectra():
    own = TransformTangents([scatter, offset, slope, curvature, shift])
    for per_class in (6, 30):
        X, y = drawn(0, 200)
        models = {
            "SVC (scaled)": make_pipeline(StandardScaler(), SVC()),
            "gradient boosting": HistGradientBoostingClassifier(random_state=0),
            "SNV + PLS-DA": PLSDA(),
            "six preprocessings and ridge": SpectrumClassifier(),
            "tangent neighbours": TangentKNeighborsClassifier(tangents=own),
            "tangent SVC": TangentSVC(tangents=own, random_state=0),
        }
        folds = list(few(y, per_class, 5, seed=0))
        show(f"drawn spectra, {per_class} labels per class", X, y, models, cv=folds)


def beats(seed, per_class, length=120):
    """Beats of three forms at changing times, gains and baselines."""
    rng, t = np.random.default_rng(seed), np.linspace(-1, 1, length)
    X, y = [], np.repeat(np.arange(3), per_class)
    for width in np.array([0.05, 0.08, 0.12])[y]:
        late, lift, tilt = rng.normal(0, [0.15, 0.5, 0.5])
        wave = np.exp(-(((t - late) / width) ** 2)) * np.exp(rng.normal(0, 0.1))
        X.append(wave + lift + tilt * t + rng.normal(0, 0.15, length))
    return np.array(X), y


def signals():
    X, y = beats(0, 200)
    moves = SignalTangents(["shift", "offset", "slope"])
    models = {
        "gradient boosting": HistGradientBoostingClassifier(random_state=0),
        "convolutions and ridge (as Rocket)": SignalClassifier(),
        "tangent neighbours": TangentKNeighborsClassifier(5, tangents=moves),
        "tangent SVC": TangentSVC(tangents=moves, random_state=0),
    }
    if importlib.util.find_spec("aeon"):
        from signals import mini_rocket

        models["MiniRocket"] = mini_rocket(0)
    for per_class in (10, 50):
        folds = list(few(y, per_class, 3, seed=0))
        show(f"drawn beats, {per_class} labels per class", X, y, models, cv=folds)


PARTS = {"tables": tables, "images": images, "spectra": spectra, "signals": signals}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    warnings.simplefilter("ignore")
    print(machine())
    for name in parser.parse_args().only:
        PARTS[name]()


if __name__ == "__main__":
    main()
