"""Tangent distances against the bare products they are made of, and against lstsq.

USPS test × train (2007 × 7291, 16 × 16), float32, Simard's seven tangents.

Run: python benchmarks/tangent_distances.py [--queries 2007] [--repeats 5]
"""

import argparse
import tracemalloc

import numpy as np
from common import alternate, machine, print_table, seconds, train_test
from sklearn import config_context
from threadpoolctl import threadpool_limits

from widemargin.datasets import load_usps
from widemargin.metrics import tangent_distances
from widemargin.tangents import Bundle, ImageTangents

SLAB = 256
BAR = 1.25


def load(queries):
    train, _, test, _ = train_test(load_usps)
    generator = ImageTangents(shape=(16, 16))
    return generator.bundle(test[:queries]), generator.bundle(train)


def stacked(bundle, with_frames):
    """Rows of [point; frame] as one matrix: what a bare product multiplies."""
    if not with_frames:
        return bundle.points
    rows = np.concatenate([bundle.points[:, None], bundle.frames], axis=1)
    return np.ascontiguousarray(rows.reshape(-1, bundle.n_features))


def bare_product(A, B):
    """All the inner products, in slabs, thrown away."""
    for start in range(0, len(A), SLAB):
        A[start : start + SLAB] @ B.T


def against_products(test, train, repeats):
    rows = []
    for sides, with_x_frames in (("reference", False), ("both", True)):
        A, B = stacked(test, with_x_frames), stacked(train, True)
        for threads in (1, 2):
            with threadpool_limits(limits=threads, user_api="blas"):
                tangent_distances(test[:64], train[:600], sides=sides)
                bare, ours = alternate(
                    [
                        lambda: bare_product(A, B),  # noqa: B023
                        lambda: tangent_distances(
                            test,
                            train,
                            sides=sides,  # noqa: B023
                            n_jobs=threads,  # noqa: B023
                        ),
                    ],
                    repeats,
                )
            ratio = ours / bare
            pairs = len(test) * len(train) / ours / 1e6
            rows.append(
                (
                    f'sides="{sides}"',
                    threads,
                    f"{bare:.2f}",
                    f"{ours:.2f}",
                    f"{ratio:.2f}×",
                    f"≤ {BAR}×",
                    f"{pairs:.2f}",
                )
            )
    print_table(
        f"Against `A @ B.T` in slabs of {SLAB} rows, float32, same inner products",
        ("distance", "threads", "product s", "ours s", "ratio", "bar", "Mpairs/s"),
        rows,
    )


def against_lstsq(test, train, sample=400):
    """Per-pair least squares on sampled pairs, scaled to all of them."""
    rng = np.random.default_rng(0)
    i, j = rng.integers(len(test), size=sample), rng.integers(len(train), size=sample)

    def per_pair():
        for a, b in zip(i, j, strict=True):
            directions = np.concatenate([test.frames[a], train.frames[b]]).T
            np.linalg.lstsq(directions, test.points[a] - train.points[b], rcond=None)

    with threadpool_limits(limits=1, user_api="blas"):
        per_pair()
        slow = seconds(per_pair) / sample
        few = test[:256]
        fast = seconds(lambda: tangent_distances(few, train)) / len(few) / len(train)
    print_table(
        "Against numpy.linalg.lstsq for every pair, one thread",
        ("system", "µs per pair", "ratio", "bar"),
        [
            (f"lstsq ({sample} sampled pairs)", f"{slow * 1e6:.1f}", "1×", ""),
            ("two-sided", f"{fast * 1e6:.3f}", f"{slow / fast:.0f}×", "≥ 500×"),
        ],
    )


def memory(test, train):
    """Peak of what one call allocates, less its output (numpy's own accounting)."""
    rows = []
    for budget in (8, 64, 1024):
        with config_context(working_memory=budget):
            tracemalloc.start()
            result = tangent_distances(test, train, n_jobs=2)
            extra = (tracemalloc.get_traced_memory()[1] - result.nbytes) / 2**20
            tracemalloc.stop()
        del result
        rows.append((f"{budget} MiB", f"{extra:.1f} MiB", f"≤ {1.1 * budget:.0f} MiB"))
    print_table(
        "Peak extra memory beyond the output, two-sided, two threads",
        ("working_memory", "extra", "bar"),
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=2007)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(machine())
    test, train = load(options.queries)
    print(f"{len(test)} × {len(train)} pairs, {Bundle.__name__}s of 7 tangents")
    tangent_distances(test[:40], train[:40])
    memory(test, train)
    against_products(test, train, options.repeats)
    against_lstsq(test, train)


if __name__ == "__main__":
    main()
