"""The rows of MNIST in benchmarks/records.md with all distances, on one GPU.

The same parts as `records.py`, by the library's dispatch: distortion distances of every
query to every reference, no candidates; the density is that of the nearest 64 images,
copies included. Of more than `ALL` references with their copies, only the copies of the
100 nearest images are met. TVQ is fitted on the device. What the training set chooses
is chosen on images of held-out writers, or with few labels by leaving one out.

Run: python benchmarks/records_gpu.py [--rows few vectors metric product] [--data DIR]
     [--out DIR] [--device cuda] [--images N] [--labels 300 1000 5000]
     [--seeds 0 1 2 3 4]
"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from traceback import print_exc

import numpy as np
import sklearn
import torch
from common import data_folder
from papers import (
    Split,
    load_split,
    measured,
    over_draws,
    records,
    some_groups,
)
from scipy.special import log_softmax

from widemargin._compute.device.distortion import (
    distortion_distances,
    gradient_images,
    pseudo_2d_distances,
)
from widemargin._core.decisions import brier_scores
from widemargin.datasets import load_mnist, mnist_writers
from widemargin.meta.product import product_weights
from widemargin.prototypes import TVQClassifier
from widemargin.tangents import Deskew, DirectionFeatures, image_affines

SHAPE, NEAREST, ASKED, ALL = (28, 28), 64, 5000, 50_000
WINDOW, PATCH = 3, 2
SIZES = {"deskewed": 0.0, "a little": 0.2, "resized": records.RESIZE}
SHARPNESS = np.geomspace(0.5, 256, 19)
COPIES = image_affines(SHAPE)
BARS = {
    "MNIST, 300 labels": (2.0, 1.6),
    "MNIST, 1000 labels": (1.15, 0.9),
    "MNIST, 5000 labels": (0.7, 0.55),
    "MNIST, at most 250 vectors": (0.65, 0.5),
    "MNIST, one metric": (0.47, 0.4),
    "MNIST, product": (0.42, 0.35),
}


class Job:
    """The data, the device, and the rows so far."""

    def __init__(self, options):
        self.device, self.seeds, self.rows = options.device, options.seeds, []
        self.file = options.out / records.FILE
        split = load_split(load_mnist)
        if options.images is not None:
            # A trial does not look at the test set.
            X, y = split[:2]
            n = options.images
            split = Split(X[:n], y[:n], X[n : 2 * n], y[n : 2 * n])
        self.X, self.y, self.X_test, self.y_test = split
        self.writers = mnist_writers()[: len(self.y)]
        held = some_groups(self.writers, 1 / 6)
        asked = np.random.default_rng(0).permutation(np.flatnonzero(held))
        self.rest, self.asked = np.flatnonzero(~held), asked[:ASKED]
        self.kinds = {}

    def upright(self, kind):
        """Training and test images, set upright and resized as the kind says."""
        if kind not in self.kinds:
            step = Deskew(SHAPE, resize=SIZES[kind]).fit(self.X)
            parts = (in_threads(step.transform, X) for X in (self.X, self.X_test))
            self.kinds[kind] = tuple(parts)
        return self.kinds[kind]

    def put(self, X):
        """Return an array as a tensor on the device, floats as float32."""
        X = np.ascontiguousarray(X)
        X = X.astype(np.float32) if X.dtype.kind == "f" else X.astype(np.int64)
        return torch.as_tensor(X, device=self.device)

    def keep(self, name, result, chosen, start):
        """Print a row and write all of them."""
        took = time.perf_counter() - start
        row = records.Row(name, *BARS[name], *result, chosen, None, took)
        self.rows.append(row)
        print(f"{name}: {result} %, {chosen}; {took:.0f} s", flush=True)
        records.save(self.rows, self.file)

    def nearest(self, queries, references, groups=None, metrics=("λ = 0.033",)):
        """Distances (n, 64) and positions of the nearest images, copies included.

        `groups`, of queries and references, leaves out those of a query's own. Of many
        references, the copies of those that are nearest by the distortion model are
        met in every one of some metrics, and also by all versions of a query: a dict
        of (metric, whether these were asked).
        """
        Y = [gradients(v, WINDOW + PATCH) for v in versions(self.put(references))]
        n, times = len(references), len(Y)
        some = n * times <= ALL
        first = torch.cat(Y) if some else Y[0]
        Y = torch.stack(Y)
        size = max(1, min(512, 2**27 // len(first)))
        found = {}
        for start in range(0, len(queries), size):
            q = self.put(queries[start : start + size])
            q = [q] if some else versions(q)
            q = torch.stack([gradients(v, PATCH) for v in q], 1)
            d = METRICS["λ = 0.033"](q[:, 0].contiguous(), first)
            if groups is not None:
                mine, other = self.put(groups[0][start : start + size]), groups[1]
                same = mine[:, None] == self.put(other)
                d[same.repeat(1, len(first) // n)] = torch.inf
            if some:
                near = d.topk(min(NEAREST, len(first)), largest=False)
                found.setdefault("all", []).append((near.values, near.indices % n))
                continue
            places = d.topk(min(100, n), largest=False).indices
            for i, at in enumerate(places):
                copies = Y[:, at].flatten(0, 1)
                never = d[i, at].isinf().repeat(times)
                for metric in metrics:
                    # A version of the query in each row.
                    met = METRICS[metric](q[i], copies)
                    met[:, never] = torch.inf
                    for asked, every in ((False, met[0]), (True, met.flatten())):
                        near = every.topk(min(NEAREST, len(every)), largest=False)
                        found.setdefault((metric, asked), []).append(
                            (near.values[None], at[near.indices % len(at)][None])
                        )
        return {
            key: [
                torch.cat(part).cpu().double().numpy()
                for part in zip(*kept, strict=True)
            ]
            for key, kept in found.items()
        }

    def tvq(self, Z, y):
        """Fit TVQ of 250 vectors to features of a tensor."""
        model = TVQClassifier(1, 24, theta=records.THETA, max_iter=150, random_state=0)
        return model.fit(Z, self.put(y))

    def features(self, X, *others):
        """Direction features of some images, and of others by what these are like."""
        model = DirectionFeatures(SHAPE).fit(X)
        return [self.put(in_threads(model.transform, part)) for part in (X, *others)]


def distortion(penalty):
    """Return the distortion model with one cost of a move."""

    def distances(x, y):
        return distortion_distances(x, y, patch=PATCH, window=WINDOW, penalty=penalty)

    return distances


def pseudo_2d(patch):
    """Return P2DHMDM of window 2, for images that are padded for the others."""

    def distances(x, y):
        more = PATCH - patch
        inner = slice(more, -more or None)
        return pseudo_2d_distances(
            x[..., inner, inner], y[..., inner, inner], patch=patch, window=WINDOW - 1
        )

    return distances


METRICS = {
    "λ = 0.02": distortion(0.02),
    "λ = 0.033": distortion(records.PENALTY),
    "λ = 0.06": distortion(0.06),
    "P2DHMDM, patch 1": pseudo_2d(1),
    "P2DHMDM, patch 2": pseudo_2d(2),
}


def gradients(X, pad):
    """Normalised gradient images (n, 2, 28 + 2 pad, 28 + 2 pad) of a tensor."""
    return gradient_images(X, pad, SHAPE, 0.0, 0.1**2)


def versions(X):
    """Images and their copies."""
    return [X, *(f(X) for f in COPIES)]


def in_threads(function, X):
    """Apply a function of rows to parts of them at once."""
    with ThreadPoolExecutor() as pool:
        return np.concatenate(
            list(pool.map(function, np.array_split(X, min(64, len(X)))))
        )


def answers(model, Z):
    """Posteriors by the CPU, as an array of NumPy."""
    return np.asarray(model.predict_proba(Z.cpu().numpy()), float)


def posterior(near, y, gamma):
    """Shares of ten classes; one without a neighbour has a bump at the farthest."""
    distances, positions = near[0], near[1].astype(int)
    finite = np.isfinite(distances)
    bumps = np.exp(-gamma * (distances - distances[:, :1]), where=finite,
                   out=np.zeros_like(distances))  # fmt: skip
    P = np.stack([(bumps * (y[positions] == c)).sum(axis=1) for c in range(10)], axis=1)
    P = np.maximum(P, np.where(finite, bumps, 1).min(axis=1)[:, None])
    return P / P.sum(axis=1, keepdims=True)


def sharpness(near, y, truth):
    """Least Brier score, its gamma and its posteriors."""
    gammas = SHARPNESS / np.median(near[0][:, 0])
    found = [posterior(near, y, gamma) for gamma in gammas]
    scores = [brier_scores(P, truth).mean() for P in found]
    at = int(np.argmin(scores))
    return scores[at], gammas[at], found[at]


def multiply(held, truth, test):
    """Weights and Brier score of two members where held out; what the product says."""
    held, test = (np.log(np.maximum(np.stack(pair), 1e-4)) for pair in (held, test))
    weights, score = product_weights(held, truth, np.full(len(truth), 1 / len(truth)))
    product = log_softmax(np.tensordot(weights, test, 1), axis=1)
    return weights, score, product.argmax(axis=1)


def say(told, score, P, truth):
    error = 100 * np.mean(P.argmax(axis=1) != truth)
    print(f"  {told}: Brier {score:.5f}, {error:.2f} %", flush=True)


def few_row(job, n_labels):
    X, X_test = job.upright("resized")
    start, errors = time.perf_counter(), {"density": [], "TVQ": [], "product": []}
    for seed in job.seeds:
        rows = records.balanced(job.y, n_labels, seed)
        x, y, single = X[rows], job.y[rows], np.arange(len(rows))
        asked = np.random.default_rng(seed).permutation(len(rows))[:2000]
        near = job.nearest(x[asked], x, (single[asked], single))["all"]
        score, gamma, _ = sharpness(near, y, y[asked])
        near = posterior(job.nearest(X_test, x)["all"], y, gamma)
        everyone = np.concatenate([x, *(f(x) for f in COPIES)])
        Z, Z_test = job.features(everyone, X_test)
        tvq = answers(job.tvq(Z, np.tile(y, 1 + len(COPIES))), Z_test)
        # So few labels do not tell the weights: both count alike.
        product = np.maximum(near, 1e-4) * np.maximum(tvq, 1e-4)
        for kind, P in zip(errors.values(), (near, tvq, product), strict=True):
            kind.append(100 * np.mean(P.argmax(axis=1) != job.y_test))
        took = time.perf_counter() - start
        each = ", ".join(f"{name} {kind[-1]:.2f}" for name, kind in errors.items())
        told = f"  {n_labels} labels, draw {seed}: {each}, Brier where one is left out"
        print(f"{told} {score:.5f}; {took:.0f} s", flush=True)
    alone = "; ".join(
        f"{name} {np.round(kind, 2).tolist()}" for name, kind in errors.items()
    )
    name = f"MNIST, {n_labels} labels"
    job.keep(name, over_draws(errors["product"]), f"product: {alone}", start)


def vectors_row(job):
    start, found, truth = time.perf_counter(), {}, job.y[job.asked]
    for kind in ("deskewed", "resized"):
        X, X_test = job.upright(kind)
        Z, Z_test = job.features(X, X_test)
        model = job.tvq(Z[job.put(job.rest)], job.y[job.rest])
        P = answers(model, Z[job.put(job.asked)])
        score = brier_scores(P, truth).mean()
        told = f"TVQ 24×1, {kind}"
        say(told, score, P, truth)
        found[told] = score, P, Z, Z_test
    told = min(found, key=lambda one: found[one][0])
    _, held, Z, Z_test = found[told]
    test = answers(job.tvq(Z, job.y), Z_test)
    job.tvq_answers = held, test
    wrong = test.argmax(axis=1) != job.y_test
    job.keep("MNIST, at most 250 vectors", measured(wrong), told, start)


def metric_row(job):
    start, found, truth = time.perf_counter(), {}, job.y[job.asked]
    groups = job.writers[job.asked], job.writers
    for kind in ("deskewed", "a little"):
        X = job.upright(kind)[0]
        near = job.nearest(X[job.asked], X, groups, METRICS)
        for (metric, asked), one in near.items():
            score, gamma, P = sharpness(one, job.y, truth)
            told = f"{metric}, {kind}{', copies asked' * asked}"
            say(told, score, P, truth)
            found[told] = score, gamma, P, kind, metric, asked
    told = min(found, key=lambda told: found[told][0])
    _, gamma, held, kind, metric, asked = found[told]
    X, X_test = job.upright(kind)
    near = job.nearest(X_test, X, metrics=(metric,))[metric, asked]
    test = posterior(near, job.y, gamma)
    job.metric_answers = held, test
    wrong = test.argmax(axis=1) != job.y_test
    job.keep("MNIST, one metric", measured(wrong), told, start)


def product_row(job):
    start = time.perf_counter()
    held, test = zip(job.metric_answers, job.tvq_answers, strict=True)
    weights, score, labels = multiply(held, job.y[job.asked], test)
    chosen = f"weights {weights[0]:.2f} and {weights[1]:.2f}, Brier {score:.5f}"
    job.keep("MNIST, product", measured(labels != job.y_test), chosen, start)


SECTIONS = {
    "few": few_row,
    "vectors": vectors_row,
    "metric": metric_row,
    "product": product_row,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--data", help="folder of the data; default WIDEMARGIN_DATA")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, help="trial on training images")
    parser.add_argument("--labels", nargs="+", type=int, default=[300, 1000, 5000])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    options = parser.parse_args()
    os.environ["WIDEMARGIN_DATA"] = options.data or str(data_folder())
    start = time.perf_counter()
    job = Job(options)
    print(f"images: {time.perf_counter() - start:.0f} s", flush=True)
    with sklearn.config_context(array_api_dispatch=True):
        for row in options.rows:
            each = [(n,) for n in options.labels] if row == "few" else [()]
            for settings in each:
                try:
                    SECTIONS[row](job, *settings)
                except Exception:  # the other rows are worth having
                    print(f"{row} failed:", flush=True)
                    print_exc()
    print(f"in all {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
