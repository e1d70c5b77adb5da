"""Tangent neighbours, densities and kernel machines, with the bars they must meet.

USPS 7291/2007 (16 × 16); parameters by cross-validation or leaving one out on the
training set. Sections: neighbours, densities, kernels, rivals, speed, figures.

Run: python benchmarks/tangent_kernels.py [--quick] [--sections kernels,speed]
     [--mnist [--mnist-test 10000]] [--figures FOLDER]
"""

import argparse
import resource
import time
from functools import partial
from pathlib import Path

import numpy as np
from common import alternate, machine, print_table, train_test
from sklearn.svm import SVC

from widemargin.datasets import load_mnist, load_usps
from widemargin.metrics import image_distortion_distances, tangent_distances
from widemargin.neighbors import TangentDensityClassifier, TangentKNeighborsClassifier
from widemargin.reproduce import tangent_kernel_figures, tangent_kernels
from widemargin.reproduce.tangent_kernels import Digits, timed
from widemargin.svm import TangentSVC
from widemargin.tangents import ImageTangents, image_shifts

SHAPE = (16, 16)
# Training samples left out, one at a time, to choose by.
LEFT_OUT = 2000
SECTIONS = ("neighbours", "densities", "kernels", "rivals", "speed", "figures")


def usps(quick):
    X_train, y_train, X_test, y_test = train_test(load_usps)
    n_train, n_test = (1500, 500) if quick else (len(X_train), len(X_test))
    return X_train[:n_train], y_train[:n_train], X_test[:n_test], y_test[:n_test]


def percent(wrong):
    return 100 * float(np.mean(wrong))


def choose_sigma(X, y, jobs):
    """Sigma of the least Brier score on left-out training samples, by their density.

    Counts of left-out errors (about 1 %) differ by single samples, the score does not.
    """
    scores = {}
    for sigma in (0.6, 0.8, 1.0, 1.2):
        density = TangentDensityClassifier(
            tangents=ImageTangents(SHAPE, sigma=sigma),
            cv_samples=LEFT_OUT // 2,
            random_state=0,
            n_jobs=jobs,
        ).fit(X, y)
        scores[sigma] = density.cv_scores_.min()
    told = ", ".join(f"{sigma}: {score:.4f}" for sigma, score in scores.items())
    print(f"\nleft-out Brier score by sigma: {told}", flush=True)
    return min(scores, key=scores.get)


class BothDistances:
    """Image distortion plus two-sided tangent distance, each in its typical size.

    The typical size is the median to the nearest of a few training images, so that
    neither counts for more, and nothing is left to choose.
    """

    def __init__(self, X, tangents):
        self.tangents, self.sizes = tangents, (1.0, 1.0)
        parts = self.parts(X[:300], X[300:1500])
        self.sizes = tuple(np.median(part.min(axis=1)) for part in parts)

    def parts(self, X, Y):
        """Both distances of all pairs, one after the other."""
        yield image_distortion_distances(X, Y, shape=SHAPE)
        yield tangent_distances(X, Y, tangents=self.tangents)

    def __call__(self, X, Y):
        """Sum of both, each in its typical size."""
        parts = zip(self.parts(X, Y), self.sizes, strict=True)
        return sum(part / size for part, size in parts)


def neighbours(data, jobs, sigma):
    """Errors of nearest neighbours."""
    X, y, X_test, y_test = data
    tangents = ImageTangents(SHAPE, sigma=sigma)
    distortion = partial(image_distortion_distances, shape=SHAPE)
    rerank = {"algorithm": "rerank", "n_candidates": 150, "tangents": tangents}
    rows = []
    for name, settings, bar in (
        ("Euclid 1-NN", {}, ""),
        (f"2S 1-NN, sigma={sigma}", {"tangents": tangents}, "≤ 2.9"),
        (
            "distortion 1-NN, Euclid top 150",
            {**rerank, "tangents": None, "metric": distortion},
            "",
        ),
        ("distortion 1-NN, 1S top 150", {**rerank, "metric": distortion}, ""),
        (
            "distortion + 2S 1-NN, 1S top 150",
            {**rerank, "metric": BothDistances(X, tangents)},
            "aim 2.2",
        ),
    ):
        start = time.perf_counter()
        knn = TangentKNeighborsClassifier(n_jobs=jobs, **settings).fit(X, y)
        error = percent(knn.predict(X_test) != y_test)
        rows.append((name, f"{error:.2f}", bar, f"{time.perf_counter() - start:.1f}"))
        print(f"  {name}: {error:.2f} %", flush=True)
    print_table("Nearest neighbours", ("what", "test error %", "bar", "seconds"), rows)


def densities(data, jobs, sigma):
    """Errors of kernel densities; beta by leaving training samples out."""
    X, y, X_test, y_test = data
    four = image_shifts(SHAPE, diagonal=False)
    rows = []
    for name, settings, bar in (
        ("no shifts", {}, "≤ 2.7"),
        ("4 shifts, training images", {"shifts": four, "shift_test": False}, ""),
        ("4 shifts, training and test images", {"shifts": four}, "≤ 2.5, aim 2.2"),
    ):
        start = time.perf_counter()
        if not rows or "shift_test" in settings:
            density = TangentDensityClassifier(
                tangents=ImageTangents(SHAPE, sigma=sigma),
                cv_samples=LEFT_OUT,
                random_state=0,
                n_jobs=jobs,
                **settings,
            ).fit(X, y)
        else:
            # Fitted already: the training images are the same.
            density.set_params(shift_test=True)
        error = percent(density.predict(X_test) != y_test)
        took = time.perf_counter() - start
        chosen = density.betas_ == density.beta_
        left_out = 100 * float(density.cv_errors_[chosen][0])
        told = f"{density.beta_:.2f}", f"{left_out:.2f}", f"{error:.2f}"
        rows.append((name, *told, bar, f"{took:.0f}"))
        print(f"  {name}: {error:.2f} %", flush=True)
    print_table(
        "Kernel densities, two-sided",
        ("what", "beta", "left-out error %", "test error %", "bar", "seconds"),
        rows,
    )


def told_lines(title, lines):
    rows = []
    for line in lines:
        paper = line.paper
        rows.append(
            (
                line.name,
                f"{line.gamma:g}",
                f"{line.C:g}",
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
        "Euclid, RBF": TangentSVC(gamma=8, sides="y", n_jobs=jobs),
        "mean, RBF": _tangent_svc("mean", 10, jobs),
        "two-sided, RBF": _tangent_svc("two", 10, jobs),
    }
    took = {name: sum(timed(m, digits)[1:]) for name, m in machines.items()}
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
    return TangentSVC(gamma=gamma, sides=sides, tangents=tangents, n_jobs=jobs)


def mnist(n_test, n_brute, jobs):
    """Exact search on all of MNIST; brute force on the first few, for the ratio."""
    X, y, X_test, y_test = train_test(load_mnist)
    X_test, y_test = X_test[:n_test], y_test[:n_test]
    tangents = ImageTangents((28, 28))
    knn = TangentKNeighborsClassifier(10, tangents=tangents, n_jobs=jobs)
    start = time.perf_counter()
    knn.fit(X, y)
    fitted = time.perf_counter()
    distances, indices = knn.kneighbors(X_test)
    took = time.perf_counter() - fitted
    mine = [knn.kneighbors(X[:1000], 11)]
    theirs = [(distances, indices)]
    density = [density_error(y, mine, theirs, y_test)]
    for shift in image_shifts((28, 28), diagonal=False):
        mine.append(knn.kneighbors(shift(X[:1000]), 11))
        theirs.append(knn.kneighbors(shift(X_test)))
    density.append(density_error(y, mine, theirs, y_test))
    few = X_test[:n_brute]
    exact = time.perf_counter()
    knn.kneighbors(few)
    exact = time.perf_counter() - exact
    knn._search.algorithm = "brute"
    brute = time.perf_counter()
    same = knn.kneighbors(few)[1]
    brute = time.perf_counter() - brute
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    first = percent(y[indices[:, 0]] != y_test)
    print_table(
        f"MNIST two-sided, 60000 × {len(X_test)}, exact search, {jobs} threads",
        ("what", "value", "bar"),
        [
            ("frames and projections", f"{fitted - start:.0f} s", ""),
            ("10 neighbours of every test image", f"{took:.0f} s", "printed"),
            (f"exact against brute, {n_brute} images", f"{brute / exact:.2f}×", "≥ 4×"),
            ("same neighbours", f"{percent(same == indices[:n_brute]):.2f} %", "100 %"),
            ("1-NN test error", f"{first:.2f} %", ""),
            (
                "3-NN test error",
                f"{percent(knn_vote(y, indices[:, :3]) != y_test):.2f} %",
                "",
            ),
            ("density of the 10 nearest, test error", f"{density[0]:.2f} %", ""),
            (
                "the same, 4 shifts of the test image",
                f"{density[1]:.2f} %",
                "≤ 1.1 %",
            ),
            ("peak memory of the process", f"{peak:.2f} GB", "≤ 3 GB"),
        ],
    )


def density_error(y, mine, theirs, y_test):
    """Test error of the densities of the nearest, over all shifts given.

    `mine` are the neighbours of the first training images, each left out of its own,
    on which the width is chosen; `theirs` those of the test images.
    """
    left, near = (np.hstack(parts) for parts in zip(*mine, strict=True))
    left[near == np.arange(len(near))[:, None]] = np.inf
    typical = np.mean(left.min(axis=1) ** 2)
    betas = [scale / typical for scale in (0.5, 1, 2, 4, 8, 16)]
    errors = [np.sum(nearby(y, left, near, beta) != y[: len(near)]) for beta in betas]
    distances, indices = (np.hstack(parts) for parts in zip(*theirs, strict=True))
    answers = nearby(y, distances, indices, betas[int(np.argmin(errors))])
    return percent(answers != y_test)


def nearby(y, distances, indices, beta):
    """Class with the largest kernel density of its samples among the nearest."""
    density = np.zeros((len(indices), 10))
    rows, nearest = np.arange(len(indices)), distances.min(axis=1) ** 2
    for d, near in zip(distances.T, indices.T, strict=True):
        density[rows, y[near]] += np.exp(-beta * (d**2 - nearest))
    return density.argmax(axis=1)


def knn_vote(y, indices):
    votes = np.zeros((len(indices), 10))
    for place in range(indices.shape[1]):
        # The nearest decides between equals.
        votes[np.arange(len(indices)), y[indices[:, place]]] += 1 - 1e-3 * place
    return votes.argmax(axis=1)


def figures(data, folder):
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    X, y = data[:2]
    for number, figure in (
        (2, tangent_kernel_figures.figure_2()),
        (3, tangent_kernel_figures.figure_3(X, y)),
        (4, tangent_kernel_figures.figure_4(X[np.flatnonzero(y == 2)[0]])),
    ):
        path = folder / f"tangent_kernels_figure_{number}.png"
        figure.savefig(path, dpi=120, bbox_inches="tight")
        print(f"figure {number}: {path.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1500/500 images")
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--figures", type=Path, default=None)
    parser.add_argument("--mnist", action="store_true")
    parser.add_argument("--mnist-test", type=int, default=10_000)
    parser.add_argument("--mnist-brute", type=int, default=200)
    options = parser.parse_args()
    sections = set(options.sections.split(",")) - {""}
    unknown = sections - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {SECTIONS}")
    print(machine())
    data, jobs = usps(options.quick), options.jobs
    digits = Digits.scaled(*data)
    sigma = "auto"
    if sections & {"neighbours", "densities"}:
        sigma = choose_sigma(*data[:2], jobs)
    if "neighbours" in sections:
        neighbours(data, jobs, sigma)
    if "speed" in sections:
        speed(data, digits, jobs, options.repeats)
    if "kernels" in sections:
        told_lines(
            "Tables 2 and 3: parameters by three-fold cross-validation on train, and "
            "the paper's",
            tangent_kernels.tables(digits, n_jobs=jobs),
        )
    if "rivals" in sections:
        told_lines(
            "Other ways to the same knowledge; parameters on 30 % of train held out",
            tangent_kernels.rivals(digits),
        )
    if "densities" in sections:
        densities(data, jobs, sigma)
    if "figures" in sections and options.figures is not None:
        figures(data, options.figures)
    if options.mnist:
        mnist(options.mnist_test, options.mnist_brute, jobs)


if __name__ == "__main__":
    main()
