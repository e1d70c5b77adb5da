"""Tangent neighbours, densities and kernel machines, with the bars they must meet.

USPS 7291/2007 (16 × 16); parameters are chosen on left-out stretches of the training
set. Sections: neighbours, densities, kernels, rivals, speed, figures. MNIST has a
script of its own, mnist.py.

Run: python benchmarks/tangent_kernels.py [--quick] [--sections kernels,speed]
     [--figures FOLDER]
"""

import argparse
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from common import alternate, machine, percent, print_table, train_test
from papers import Split, stretches, tangent_kernels, timed
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from widemargin.datasets import load_usps
from widemargin.metrics import image_distortion_distances, tangent_distances
from widemargin.neighbors import TangentDensityClassifier, TangentKNeighborsClassifier
from widemargin.svm import JitteredSVC, TangentSVC
from widemargin.tangents import (
    GaussianSmoother,
    ImageTangents,
    SignalTangents,
    image_shifts,
)

SHAPE = (16, 16)
# The training set is cut into stretches; the mixture is chosen on a draw of its images.
STRETCHES, DRAWN = 10, 2000
SECTIONS = (
    "neighbours", "densities", "kernels", "rivals", "speed", "repair", "figures",
)  # fmt: skip


def usps(quick):
    X_train, y_train, X_test, y_test = train_test(load_usps)
    n_train, n_test = (1500, 500) if quick else (len(X_train), len(X_test))
    return X_train[:n_train], y_train[:n_train], X_test[:n_test], y_test[:n_test]


class Setting:
    """Images smoothed by one sigma, and their tangents with another."""

    def __init__(self, data, smoothing, sigma):
        X, self.y, X_test, self.y_test = data
        smoother = GaussianSmoother(SHAPE, smoothing).fit(X)
        self.X, self.X_test = smoother.transform(X), smoother.transform(X_test)
        self.tangents = ImageTangents(SHAPE, sigma=sigma)

    def density(self, jobs, **options):
        """Fit a density, gamma chosen on left-out stretches of the training set."""
        classifier = TangentDensityClassifier(
            tangents=self.tangents,
            max_cv_samples=len(self.X),
            random_state=0,
            n_jobs=jobs,
            **options,
        )
        groups = stretches(len(self.X), STRETCHES)
        return classifier.fit(self.X, self.y, groups=groups)

    def error(self, classifier):
        """Test error in per cent."""
        return percent(classifier.predict(self.X_test) != self.y_test)


def choose_setting(data, jobs):
    """Smoothing and sigma of the least Brier score on left-out stretches.

    Counts of left-out errors (about 1 %) differ by single samples, the score does not.
    """
    rows = []
    for smoothing, sigma in product((0.0, 0.4, 0.6, 0.8), (0.5, 0.7, 0.9)):
        density = Setting(data, smoothing, sigma).density(jobs)
        score, left_out = density.cv_scores_.min(), density.cv_errors_.min()
        rows.append((smoothing, sigma, f"{score:.5f}", f"{100 * left_out:.2f}"))
    print_table(
        "Densities of left-out stretches of the training set",
        ("smoothing", "sigma", "Brier score", "least error %"),
        rows,
    )
    smoothing, sigma = min(rows, key=lambda row: float(row[2]))[:2]
    print(f"\nchosen: smoothing {smoothing}, sigma {sigma}", flush=True)
    return Setting(data, smoothing, sigma)


class Mixture:
    """Image distortion plus `weight` times two-sided tangent distance.

    Each is counted in its typical size, the median to the nearest of a few training
    images.
    """

    def __init__(self, X, tangents, weight):
        self.tangents, self.sizes = tangents, (1.0, 1.0)
        nearest = (np.min(part, axis=1) for part in self.parts(X[:300], X[300:1500]))
        distortion, tangent = map(np.median, nearest)
        self.sizes = distortion, tangent / weight

    def parts(self, X, Y):
        """Both distances of all pairs, one after the other."""
        yield image_distortion_distances(X, Y, shape=SHAPE)
        yield tangent_distances(X, Y, tangents=self.tangents)

    def __call__(self, X, Y):
        """Sum of both."""
        parts = zip(self.parts(X, Y), self.sizes, strict=True)
        return sum(part / size for part, size in parts)


def bumps(distances, sharpness):
    """Votes of a kernel density; distances to the nearest of all are typically 1."""
    return np.exp(-sharpness * (distances - distances[:, :1]))


def mixture(setting, weight, sharpness, jobs):
    """Density of the 20 nearest in the mixture, of the 150 nearest in one-sided."""
    return TangentKNeighborsClassifier(
        20,
        weights=partial(bumps, sharpness=sharpness),
        metric=Mixture(setting.X, setting.tangents, weight),
        tangents=setting.tangents,
        algorithm="rerank",
        n_candidates=150,
        n_jobs=jobs,
    )


def choose_mixture(setting, jobs):
    """Weight and sharpness of the least Brier score on left-out stretches."""
    X, y = setting.X, setting.y
    groups = stretches(len(X), STRETCHES)
    drawn = np.random.default_rng(0).permutation(len(X))[:DRAWN]
    right = y[drawn, None] == np.unique(y)
    sharpnesses, rows = (2, 4, 8, 16), []
    for weight in (0.1, 0.25, 0.5, 1.0):
        knn = mixture(setting, weight, 1, jobs)
        shares = np.empty((len(sharpnesses), *right.shape))
        for group in range(STRETCHES):
            asked, rest = groups[drawn] == group, groups != group
            distances, indices = knn.fit(X[rest], y[rest]).kneighbors(X[drawn[asked]])
            votes = y[rest][indices][:, :, None] == np.unique(y)
            for share, sharpness in zip(shares, sharpnesses, strict=True):
                share[asked] = (bumps(distances, sharpness)[:, :, None] * votes).sum(1)
        shares /= shares.sum(axis=2, keepdims=True)
        scores = np.mean(np.sum((shares - right) ** 2, axis=2), axis=1)
        errors = np.sum(shares.argmax(axis=2) != right.argmax(axis=1), axis=1)
        rows += [
            (weight, sharpness, f"{score:.5f}", f"{100 * error / len(drawn):.2f}")
            for sharpness, score, error in zip(sharpnesses, scores, errors, strict=True)
        ]
    header = ("weight", "sharpness", "Brier score", "left-out error %")
    print_table("Distortion + weight × two-sided, left-out stretches", header, rows)
    return min(rows, key=lambda row: float(row[2]))[:2]


def neighbours(setting, jobs):
    """Errors of nearest neighbours."""
    X, tangents = setting.X, setting.tangents
    distortion = partial(image_distortion_distances, shape=SHAPE)
    rerank = {"algorithm": "rerank", "n_candidates": 150, "metric": distortion}
    weight, sharpness = choose_mixture(setting, jobs)
    plain = partial(TangentKNeighborsClassifier, n_jobs=jobs)
    rows = []
    for name, knn, bar in (
        ("Euclid 1-NN", plain(tangents="none"), ""),
        ("2S 1-NN", plain(tangents=tangents), "≤ 2.9"),
        ("distortion 1-NN, Euclid top 150", plain(**rerank), ""),
        ("distortion 1-NN, 1S top 150", plain(**rerank, tangents=tangents), ""),
        (
            f"distortion + {weight} × 2S, density",
            mixture(setting, weight, sharpness, jobs),
            "aim 2.2",
        ),
    ):
        start = time.perf_counter()
        error = setting.error(knn.fit(X, setting.y))
        rows.append((name, f"{error:.2f}", bar, f"{time.perf_counter() - start:.1f}"))
        print(f"  {name}: {error:.2f} %", flush=True)
    print_table("Nearest neighbours", ("what", "test error %", "bar", "seconds"), rows)


def densities(setting, jobs):
    """Errors of kernel densities."""
    four, eight = (image_shifts(SHAPE, diagonal=diagonal) for diagonal in (False, True))
    rows = []
    at_fit = {"transform_test": False}
    for name, options, bar in (
        ("no shifts", {}, "≤ 2.7"),
        ("4 shifts, training images", {"transformations": four, **at_fit}, ""),
        ("8 shifts, training images", {"transformations": eight, **at_fit}, ""),
        ("4 shifts, training and test images", {"transformations": four}, "≤ 2.5"),
    ):
        start = time.perf_counter()
        density = setting.density(jobs, **options)
        error = setting.error(density)
        took = time.perf_counter() - start
        best = density.cv_scores_.argmin()
        told = (
            f"{density.gamma_:.2f}",
            f"{density.cv_scores_[best]:.5f}",
            f"{100 * density.cv_errors_[best]:.2f}",
            f"{error:.2f}",
        )
        rows.append((name, *told, bar, f"{took:.0f}"))
        print(f"  {name}: {error:.2f} %", flush=True)
    print_table(
        "Kernel densities, two-sided",
        ("what", "gamma", "Brier", "left-out %", "test error %", "bar", "seconds"),
        rows,
    )


def told_lines(title, lines):
    rows = []
    for line in lines:
        paper = line.paper
        rows.append(
            (
                line.name,
                "" if np.isnan(line.gamma) else f"{line.gamma:g}",
                f"{line.C:g}",
                "" if np.isnan(line.spring) else f"{line.spring:g}",
                f"{line.cv_error:.2f}",
                f"{line.error:.2f}",
                "" if paper is None else f"{line.error_at_papers:.2f}",
                ""
                if paper is None
                else f"{paper.error} ({paper.gamma:g}, {paper.C:g})",
                f"{line.train_seconds:.1f}",
                "" if paper is None else f"{paper.train_seconds:.0f}",
                f"{line.test_seconds:.1f}",
                "" if paper is None else f"{paper.test_seconds:.0f}",
                f"{line.supports:.0f}",
                "" if paper is None else paper.supports,
            )
        )
        print(f"  {line.name}: {line.error:.2f} %", flush=True)
    print_table(
        title,
        (
            "kernel",
            "gamma",
            "C",
            "spring",
            "CV %",
            "error %",
            "at paper's",
            "paper (gamma, C)",
            "train s",
            "paper",
            "test s",
            "paper",
            "SVs",
            "paper",
        ),
        rows,
    )


def speed(data, digits, jobs, repeats):
    """Exact search against brute force; tangent kernels against Euclid."""
    X, y, X_test, _ = data
    knn = {
        algorithm: TangentKNeighborsClassifier(
            tangents=ImageTangents(SHAPE), algorithm=algorithm, n_jobs=jobs
        ).fit(X, y)
        for algorithm in ("brute", "exact", "rerank")
    }
    found = {name: model.kneighbors(X_test[:64])[1] for name, model in knn.items()}

    def ask(name):
        found[name] = knn[name].kneighbors(X_test)[1]

    times = alternate([partial(ask, name) for name in knn], repeats)
    rows = []
    for (name, index), took in zip(found.items(), times, strict=True):
        same = percent(index[:, 0] == found["brute"][:, 0])
        bar = "≥ 2×" if name == "exact" else ""
        against = f"{times[0] / took:.2f}×"
        rows.append((name, f"{took:.2f}", against, bar, f"{same:.2f}"))
    print_table(
        f"USPS two-sided nearest neighbour, {len(X_test)} × {len(X)}, {jobs} threads",
        ("algorithm", "seconds", "against brute", "bar", "same neighbour %"),
        rows,
    )
    machines = {
        "scikit-learn SVC, RBF": SVC(C=10, gamma=8),
        "Euclid, RBF": TangentSVC(gamma=8, tangents="none", n_jobs=jobs),
        "mean, RBF": _tangent_svc("mean", 10, jobs),
        "two-sided, RBF": _tangent_svc("both", 10, jobs),
    }
    few = Split(*(part[:300] for part in digits))
    for svc in machines.values():
        # The first call compiles, or looks for what was compiled before.
        timed(svc, few)
    each = [partial(timed, svc, digits) for svc in machines.values()]
    took = dict(zip(machines, alternate(each, repeats), strict=True))
    bars = {"mean, RBF": "≤ 3×", "two-sided, RBF": "≤ 6×"}
    print_table(
        "Training and test together, C = 10, gamma 8 (Euclid) and 10 (tangent)",
        ("kernel", "seconds", "against Euclid", "bar", "against scikit-learn"),
        [
            (
                name,
                f"{seconds:.1f}",
                f"{seconds / took['Euclid, RBF']:.2f}×",
                bars.get(name, ""),
                f"{seconds / took['scikit-learn SVC, RBF']:.2f}×",
            )
            for name, seconds in took.items()
        ],
    )


def _tangent_svc(sides, gamma, jobs):
    tangents = ImageTangents(SHAPE)
    options = {"tangents": tangents, "psd_correction": "none", "n_jobs": jobs}
    return TangentSVC(gamma=gamma, sides=sides, **options)


def beats(n, width, seed):
    """Three classes of heart beats, their peaks early or late, on a drifting line."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    t = np.linspace(-0.5, 0.5, 96) - rng.normal(0, 0.03, (n, 1))
    wave = np.where(y == 2, 0.1, 0.06)[:, None]
    X = 1.2 * np.exp(-((t / width) ** 2)) + 0.3 * np.exp(-(((t - 0.25) / wave) ** 2))
    X += (y != 1)[:, None] * 0.15 * np.exp(-(((t + 0.2) / 0.05) ** 2))
    X += rng.normal(0, 0.2, (n, 1)) + rng.normal(0, 0.2, (n, 1)) * t
    return X + rng.normal(0, 0.03, X.shape), y


def drawn(data, n, seed):
    """Different samples of a training set: n to train on, 600 others."""
    X, y = data
    order = np.random.default_rng(seed).permutation(len(X))
    fit, new = order[:n], order[n : n + 600]
    return X[fit], y[fit], X[new], y[new]


def repair(data):
    """Errors on new samples without repair and with the default, means of draws."""
    drift = SignalTangents(["shift", "scale", "offset", "slope"])
    rolls = [partial(np.roll, shift=k, axis=1) for k in (-4, -2, 2, 4)]
    digits = load_digits(return_X_y=True)
    sets = {}
    for width, n in product((0.025, 0.05), (60, 240, 1000)):
        sets[f"beats, {width}", n] = (
            lambda seed, n=n, w=width: (*beats(n, w, seed), *beats(600, w, seed + 9)),
            drift,
            rolls,
        )
    for name, of, n in (("digits", digits, 1000), ("USPS", data[:2], 1500)):
        shape = (8, 8) if name == "digits" else SHAPE
        sets[f"{name}, training set", n] = (
            partial(drawn, of, n),
            ImageTangents(shape),
            image_shifts(shape, diagonal=False),
        )
    rows = []
    for (name, n), (draw, tangents, moves) in sets.items():
        models = {
            "mean": partial(TangentSVC, tangents=tangents),
            "both": partial(TangentSVC, tangents=tangents, sides="both"),
            "nd": partial(TangentSVC, "nd", tangents=tangents),
            "jittered": partial(JitteredSVC, transformations=moves),
        }
        cells = []
        for make in models.values():
            wrong = {"none": [], "auto": []}
            clipped = 0
            for seed, (method, found) in product(range(3), wrong.items()):
                X, y, X_new, y_new = draw(seed=seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = make(psd_correction=method).fit(X, y)
                clipped += hasattr(model, "smallest_eigenvalue_")
                found.append(percent(model.predict(X_new) != y_new))
            none, auto = (f"{np.mean(wrong[m]):.1f}" for m in ("none", "auto"))
            cells.append(f"{none} / {auto} ({clipped})")
        rows.append((name, n, *cells))
    print_table(
        "Error % without correction / with psd_correction='auto' (draws of 3 clipped)",
        ("data", "n", "TangentSVC", "two-sided", "nd", "JitteredSVC"),
        rows,
    )


def figures(data, folder):
    import matplotlib

    matplotlib.use("Agg")
    tangent_kernels.save_figures(*data[:2], folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1500/500 images")
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--figures", type=Path, default=None)
    options = parser.parse_args()
    sections = set(options.sections.split(",")) - {""}
    unknown = sections - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {SECTIONS}")
    print(machine())
    data, jobs = usps(options.quick), options.jobs
    digits = tangent_kernels.scaled(Split(*data))
    if sections & {"neighbours", "densities"}:
        setting = choose_setting(data, jobs)
    if "neighbours" in sections:
        neighbours(setting, jobs)
    if "speed" in sections:
        speed(data, digits, jobs, options.repeats)
    if "kernels" in sections:
        told_lines(
            "Tables 2 and 3: parameters by five-fold cross-validation on train, and "
            "the paper's",
            tangent_kernels.tables(digits, n_jobs=jobs),
        )
    if "rivals" in sections:
        told_lines(
            "Other ways to the same knowledge; parameters on 30 % of train held out",
            tangent_kernels.rivals(digits),
        )
    if "densities" in sections:
        densities(setting, jobs)
    if "repair" in sections:
        repair(data)
    if "figures" in sections and options.figures is not None:
        figures(data, options.figures)


if __name__ == "__main__":
    main()
