"""All of MNIST: exact two-sided neighbours, their densities, shifts and distortions.

60 000 training and 10 000 test images of 28 × 28. Smoothing and sigma were chosen with
--choose: a sixth of the writers of the training set is held out. No writer of the test
set is in the training set, so that other ways to split would answer another question.

Run: python benchmarks/mnist.py [--test 10000] [--brute 200] [--no-shifts] [--choose]
"""

import argparse
import resource
import time
from functools import partial

import numpy as np
from common import data_folder, machine, percent, print_table, seconds, train_test
from papers import some_groups

from widemargin.datasets import load_mnist, mnist_writers
from widemargin.metrics import image_distortion_distances
from widemargin.neighbors import TangentKNeighborsClassifier
from widemargin.tangents import GaussianSmoother, ImageTangents, image_shifts

SHAPE = (28, 28)
SMOOTHING, SIGMA = 0.7, 0.5
BETAS = (0.5, 1, 2, 4, 8, 16)


def smoothed(X, sigma):
    return GaussianSmoother(SHAPE, sigma).fit_transform(X)


def neighbours(jobs, sigma, algorithm="exact"):
    return TangentKNeighborsClassifier(
        10,
        tangents=ImageTangents(SHAPE, sigma=sigma),
        algorithm=algorithm,
        n_jobs=jobs,
    )


class Density:
    """Kernel density of the ten nearest, over all versions of an image together."""

    def __init__(self, y):
        self.y, self.beta = y, None

    def posterior(self, found, beta):
        """Shares of the classes, from (distances, indices) of every version."""
        distances, indices = (np.hstack(part) for part in zip(*found, strict=True))
        squares = distances**2
        bumps = np.exp(-beta * (squares - squares.min(axis=1, keepdims=True)))
        density = np.zeros((len(indices), 10))
        for column, near in zip(bumps.T, indices.T, strict=True):
            density[np.arange(len(near)), self.y[near]] += column
        return density / density.sum(axis=1, keepdims=True)

    def fit(self, found, truth):
        """Choose beta of the least Brier score on the neighbours of left-out images."""
        typical = np.median(np.min([d[:, 0] for d, _ in found], axis=0) ** 2)
        betas = [relative / typical for relative in BETAS]
        right = np.eye(10)[truth]
        scores = [
            np.mean(np.sum((self.posterior(found, beta) - right) ** 2, axis=1))
            for beta in betas
        ]
        self.beta, self.score = betas[int(np.argmin(scores))], min(scores)
        return self

    def error(self, found, truth):
        """Share of wrong answers, in per cent."""
        return percent(self.posterior(found, self.beta).argmax(axis=1) != truth)


def of_other_writers(knn, X, writer, who, k=10, k_asked=60):
    """Distances and indices of the k nearest training images by other hands."""
    distances, indices = knn.kneighbors(X, k_asked)
    distances[writer[indices] == who[:, None]] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return tuple(np.take_along_axis(a, order, axis=1) for a in (distances, indices))


def vote(y, indices):
    votes = np.zeros((len(indices), 10))
    for place in range(indices.shape[1]):
        # The nearest decides between equals.
        votes[np.arange(len(indices)), y[indices[:, place]]] += 1 - 1e-3 * place
    return votes.argmax(axis=1)


def measure(options):
    """Errors, seconds and memory of the whole set."""
    jobs = options.jobs
    X, y, X_test, y_test = train_test(load_mnist)
    X_test, y_test = X_test[: options.test], y_test[: options.test]
    X, X_test = (smoothed(part, SMOOTHING) for part in (X, X_test))
    knn, start = neighbours(jobs, SIGMA), time.perf_counter()
    knn.fit(X, y)
    fitted = time.perf_counter()
    found = [knn.kneighbors(X_test)]
    took = time.perf_counter() - fitted
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows = [
        ("frames and projections", f"{fitted - start:.0f} s", ""),
        ("10 neighbours of every test image", f"{took:.0f} s", "printed"),
        ("peak memory of the process", f"{peak:.2f} GB", "≤ 3 GB"),
        *((f"{k}-NN", f"{vote_error(y, found, k, y_test):.2f} %", "") for k in (1, 3)),
    ]
    by = mnist_writers(data_home=data_folder(), download_if_missing=False)
    mine = [of_other_writers(knn, X[: options.left_out], by, by[: options.left_out])]
    truth = y[: options.left_out]
    error = Density(y).fit(mine, truth).error(found, y_test)
    rows.append(("density of the 10 nearest", f"{error:.2f} %", "≤ 1.1 %"))
    for what, value, _ in rows:
        print(f"  {what}: {value}", flush=True)
    if not options.no_shifts:
        for shift in image_shifts(SHAPE, diagonal=False):
            moved = shift(X[: options.left_out])
            mine.append(of_other_writers(knn, moved, by, by[: options.left_out]))
            found.append(knn.kneighbors(shift(X_test)))
        error = Density(y).fit(mine, truth).error(found, y_test)
        rows.append(("the same, 4 shifts of the test image", f"{error:.2f} %", ""))
    few, found = X_test[: options.brute], found[0][1][: options.brute]
    exact = seconds(partial(knn.kneighbors, few))
    # One set of frames at a time: two would not keep to the memory.
    del knn
    rows += brute_force(neighbours(jobs, SIGMA, "brute").fit(X, y), few, exact, found)
    rows += distorted(X, y, X_test, y_test, jobs)
    title = f"MNIST two-sided, 60000 × {len(X_test)}, exact search, {jobs} threads"
    print_table(title, ("what", "value", "bar"), rows)


def vote_error(y, found, k, truth):
    return percent(vote(y, found[0][1][:, :k]) != truth)


def brute_force(knn, few, exact, found):
    """Rows: how much faster the exact search was on a few images, and whether equal."""
    start = time.perf_counter()
    same = knn.kneighbors(few)[1] == found
    brute = time.perf_counter() - start
    what = f"exact against brute, {len(few)} images"
    return [
        (what, f"{brute / exact:.2f}×", "≥ 4×"),
        ("same neighbours", f"{percent(same):.2f} %", "100 %"),
    ]


def distorted(X, y, X_test, y_test, jobs):
    """Rows: image distortion distances to the 50 nearest in one-sided distance."""
    knn = TangentKNeighborsClassifier(
        3,
        metric=partial(image_distortion_distances, shape=SHAPE),
        tangents=ImageTangents(SHAPE, sigma=SIGMA),
        algorithm="rerank",
        n_candidates=50,
        n_jobs=jobs,
    )
    knn.fit(X, y)
    start = time.perf_counter()
    found = [knn.kneighbors(X_test)]
    took = time.perf_counter() - start
    return [
        (f"distortion {k}-NN, one-sided top 50, {took:.0f} s", f"{error:.2f} %", "")
        for k in (1, 3)
        for error in [vote_error(y, found, k, y_test)]
    ]


def choose(options):
    """Brier score of the density on held-out writers, for smoothing and sigma."""
    X, y = train_test(load_mnist)[:2]
    by = mnist_writers(data_home=data_folder(), download_if_missing=False)
    held = some_groups(by, 1 / 6)
    asked = np.random.default_rng(0).permutation(np.flatnonzero(held))
    asked = asked[: options.left_out]
    rows = []
    for smoothing in (0.0, 0.5, 0.7, 0.9):
        Z = smoothed(X, smoothing)
        for sigma in (0.5, 0.8, 1.06):
            knn = neighbours(options.jobs, sigma).fit(Z[~held], y[~held])
            found = [knn.kneighbors(Z[asked])]
            density = Density(y[~held]).fit(found, y[asked])
            errors = (
                *(vote_error(y[~held], found, k, y[asked]) for k in (1, 3)),
                density.error(found, y[asked]),
            )
            told = (f"{error:.2f}" for error in errors)
            rows.append((smoothing, sigma, *told, f"{density.score:.5f}"))
            print(*rows[-1], flush=True)
    print_table(
        f"MNIST, {len(asked)} training images of held-out writers, errors in %",
        ("smoothing", "sigma", "1-NN", "3-NN", "density", "Brier score"),
        rows,
    )
    best = min(rows, key=lambda row: float(row[-1]))
    print(f"\nleast Brier score: smoothing {best[0]}, sigma {best[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", type=int, default=10_000, help="test images")
    parser.add_argument("--brute", type=int, default=200, help="images for brute force")
    parser.add_argument("--left-out", type=int, default=5000, help="to choose by")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-shifts", action="store_true")
    parser.add_argument("--choose", action="store_true", help="smoothing and sigma")
    options = parser.parse_args()
    print(machine(), flush=True)
    (choose if options.choose else measure)(options)


if __name__ == "__main__":
    main()
