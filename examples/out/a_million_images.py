"""
A million images on Dask
========================

The same estimators take Dask collections. The workers make digits moved by random
transformations, which never come to the client. A model is fitted to their partitions
and a threshold chosen on some of them. All are then answered, or rejected.

The gallery makes a few thousand. For a million, here or on a cluster::

    python a_million_images.py --images 1000000
    python a_million_images.py --images 1000000 --scheduler tcp://scheduler:8786
"""

import argparse
import time

import dask
import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster
from matplotlib import pyplot as plt
from scipy.ndimage import affine_transform
from sklearn.datasets import load_digits

from widemargin import RejectingClassifier, TVQClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=2000)
parser.add_argument("--scheduler", help="address of a cluster; else one is made here")
asked, _ = parser.parse_known_args()
SIZE = min(20_000, asked.images // 4)

# %%
# Images that are made on the workers
# -----------------------------------


def moved_digits(seed):
    """Make one block: digits turned, scaled and shifted at random."""
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    rows = rng.integers(len(X), size=SIZE)
    images = np.empty((SIZE, 8, 8), np.float32)
    for image, row in zip(images, rows, strict=True):
        turn, size = rng.normal(0, 0.15), np.exp(rng.normal(0, 0.08))
        A = size * np.array(
            [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
        )
        offset = 3.5 - A @ np.full(2, 3.5) + rng.normal(0, 0.4, 2)
        affine_transform(X[row].reshape(8, 8) / 16, A, offset, output=image, order=1)
    return images.reshape(SIZE, 64), y[rows]


def lazy_digits(seeds):
    """Return the blocks of some seeds as lazy arrays."""
    blocks = [dask.delayed(moved_digits, nout=2)(seed) for seed in seeds]
    X = [da.from_delayed(x, (SIZE, 64), np.float32) for x, _ in blocks]
    y = [da.from_delayed(labels, (SIZE,), np.int64) for _, labels in blocks]
    return da.concatenate(X), da.concatenate(y)


# %%
# A cluster
# ---------


def connected():
    """Return a client of the cluster asked for, or of two processes here."""
    if asked.scheduler:
        return Client(asked.scheduler)
    # A handful of images is not worth processes of its own.
    few = asked.images < 20_000
    return Client(LocalCluster(2, processes=not few, dashboard_address=":0"))


# %%
# Fit, choose a threshold, predict
# --------------------------------
# The threshold keeps at most 2 % errors among the answers, with probability 95 %. It is
# chosen on a block that the model has not seen.


def main():
    """Fit, choose a threshold, answer or refuse, and draw what that costs."""
    client, n_blocks = connected(), asked.images // SIZE
    train, test = range(n_blocks // 2), range(n_blocks // 2, n_blocks)

    start = time.perf_counter()
    X, y = dask.persist(*lazy_digits(train))
    model = TVQClassifier(2, 8, max_iter=30, random_state=0).fit(X, y)
    # The workers need not keep them any longer.
    del X, y
    seconds = time.perf_counter() - start
    print(f"fitted to {len(train) * SIZE} images in {seconds:.0f} s")

    # At most 2 % of errors, with probability 95 %, by a block not learned from.
    X_held, y_held = dask.compute(*lazy_digits([10**6]))
    careful = RejectingClassifier(model, cv="prefit", max_error=0.02)
    careful.fit(X_held, y_held)

    start = time.perf_counter()
    X_new, y_new = lazy_digits(test)
    right, sure = model.predict(X_new) == y_new, model.confidence(X_new)
    answered = careful.accepts(X_new)
    edges = np.linspace(0, 1, 201)
    n_right, n_wrong, share, errors = dask.compute(
        da.histogram(sure, edges, weights=right.astype(int))[0],
        da.histogram(sure, edges, weights=(~right).astype(int))[0],
        answered.mean(),
        (~right & answered).sum() / answered.sum(),
    )
    seconds = time.perf_counter() - start
    print(f"answered {len(test) * SIZE} more in {seconds:.0f} s, {share:.1%} of them")
    print(f"errors: {n_wrong.sum() / (n_right + n_wrong).sum():.2%} of all, "
          f"{errors:.2%} of the answers given")  # fmt: skip
    client.shutdown() if not asked.scheduler else client.close()

    # Those at least as sure as each edge, and the errors among them.
    left, wrong = (np.cumsum(n[::-1])[::-1] for n in (n_right + n_wrong, n_wrong))
    _, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    kept = left > 0
    axes.plot(100 * (1 - left / left[0])[kept], 100 * (wrong[kept] / left[kept]))
    axes.axhline(2, ls=":", color="#9aa5b1")
    axes.plot(100 * (1 - share), 100 * errors, "o", color="#d64545")
    axes.set(xlabel="rejected, %", ylabel="errors among the answers, %", xlim=(0, 50))
    axes.set_title(f"{len(test) * SIZE} images, answered where they are")
    plt.show()


# Processes that are started here read this file again.
if __name__ == "__main__":
    main()
