"""Bundles of images: time, memory, and the ratio to a loop over scipy and LAPACK.

MNIST training set (60 000 images, 28 × 28), float32, Simard's seven tangents.
With --sigma: 1-NN error of the two-sided tangent distance for a range of `sigma`, on
parts of training sets only, which is where the rule of sigma="auto" comes from.

Run: python benchmarks/tangents.py [--images 60000] [--loop 500] [--sigma]
"""

import argparse
import tracemalloc

import numpy as np
from common import alternate, machine, print_table, seconds, train_test
from scipy.ndimage import gaussian_filter
from sklearn import get_config
from sklearn.datasets import load_digits

from widemargin.datasets import load_mnist, load_usps
from widemargin.tangents import ImageTangents

BAR_SECONDS = 20


def loop(X, sigma):
    """Frames the obvious way: filter one image at a time, then a QR of its tangents."""
    coordinate = (np.arange(28) - 13.5) / 14
    x, y = coordinate[np.newaxis], coordinate[:, np.newaxis]
    frames = []
    for image in X.reshape(-1, 28, 28):
        g_x = gaussian_filter(image, sigma, order=(0, 1), mode="constant")
        g_y = gaussian_filter(image, sigma, order=(1, 0), mode="constant")
        tangents = [
            g_x,
            g_y,
            x * g_x + y * g_y,
            y * g_x - x * g_y,
            x * g_x - y * g_y,
            y * g_x + x * g_y,
            g_x**2 + g_y**2,
        ]
        frames.append(np.linalg.qr(np.reshape(tangents, (7, -1)).T)[0].T)
    return np.array(frames)


def extra_memory(generator, X, n_jobs):
    """Peak MiB that making the bundle holds beyond the bundle itself."""
    tracemalloc.start()
    bundle = generator.bundle(X, n_jobs=n_jobs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - bundle.frames.nbytes) / 2**20


def bundles(n_images, n_loop):
    X = train_test(load_mnist)[:2][0][:n_images]
    generator = ImageTangents(shape=(28, 28))
    ours, theirs = generator.bundle(X[:n_loop]).frames, loop(X[:n_loop], 0.2 * 28**0.5)
    # Both span the same spaces, up to how the two scale their filters.
    shared = np.linalg.norm(ours @ theirs.transpose(0, 2, 1), axis=(1, 2)) ** 2 / 7
    print(f"share of the loop's space in the bundle's: {shared.mean():.5f}")
    one, two, naive = alternate(
        [
            lambda: generator.bundle(X, n_jobs=1),
            lambda: generator.bundle(X, n_jobs=2),
            lambda: loop(X[:n_loop], 0.2 * 28**0.5),
        ],
        repeats=3,
    )
    naive *= len(X) / n_loop
    rows = [
        ("bundle, n_jobs=1", f"{one:.1f}", f"{naive / one:.0f}×"),
        ("bundle, n_jobs=2", f"{two:.1f}", f"{naive / two:.0f}×"),
        (f"loop of ndimage and qr, from {n_loop}", f"{naive:.0f}", "1×"),
        ("bar", BAR_SECONDS, ""),
    ]
    print_table(
        f"{len(X)} images of 28 × 28 to orthonormal frames, seven tangents",
        ("what", "seconds", "faster than the loop"),
        rows,
    )
    budget = get_config()["working_memory"]
    print_table(
        "Peak memory beyond the bundle (tracemalloc)",
        ("n_jobs", "MiB", "working_memory, MiB"),
        [(n, f"{extra_memory(generator, X, n):.0f}", budget) for n in (1, 2)],
    )


def validation_errors(X, y, shape, sigmas, n_train, n_valid, n_splits):
    """Error in % of the nearest neighbour, on disjoint parts of one training set."""
    from widemargin.metrics import tangent_distances

    order = np.random.default_rng(0).permutation(len(X))
    errors = []
    for sigma in sigmas:
        wrong = []
        for split in range(n_splits):
            rows = np.roll(order, -split * (n_train + n_valid))
            train, valid = rows[:n_train], rows[n_train : n_train + n_valid]
            generator = ImageTangents(shape, sigma=sigma)
            D = tangent_distances(X[valid], X[train], tangents=generator, n_jobs=2)
            wrong.append(y[train][D.argmin(axis=1)] != y[valid])
        errors.append(100 * np.mean(wrong))
    return errors


def choose_sigma():
    digits, digit_labels = load_digits(return_X_y=True)
    sets = (
        ("digits, 8 × 8", digits / 16, digit_labels, 8, (300, 1400, 4)),
        ("USPS training set, 16 × 16", *train_test(load_usps)[:2], 16, (4000, 2000, 2)),
        (
            "MNIST training set, 28 × 28",
            *train_test(load_mnist)[:2],
            28,
            (3000, 2000, 3),
        ),
    )
    factors = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
    rows = []
    for name, X, y, side, sizes in sets:
        sigmas = [factor * side**0.5 for factor in factors]
        errors = validation_errors(X, y, (side, side), sigmas, *sizes)
        rows.append((name, *(f"{error:.2f}" for error in errors)))
    print_table(
        "1-NN error in %, two-sided, sigma = factor × sqrt(side); training data only",
        ("factor", *factors),
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--loop", type=int, default=500, help="images of the slow loop")
    parser.add_argument("--sigma", action="store_true", help="compare sigmas instead")
    arguments = parser.parse_args()
    print(machine())
    if arguments.sigma:
        print(f"{seconds(choose_sigma):.0f} s")
    else:
        bundles(arguments.images, arguments.loop)
