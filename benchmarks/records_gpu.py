"""The rows of MNIST in benchmarks/records.md with all distances, on one GPU.

The same parts as `records.py`, by the library's dispatch: distortion distances of every
query to every reference and its copies, no candidates; the density is that of the
nearest 64 of them. TVQ is fitted on the device. What the training set chooses is chosen
as there, on 2000 images of held-out writers.

Run: python benchmarks/records_gpu.py [--rows few vectors metric product] [--data DIR]
     [--out DIR] [--device cuda] [--images N]
"""

import argparse
import json
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import sklearn
import torch
from common import data_folder

from widemargin._core.decisions import brier_scores
from widemargin.datasets import load_mnist, mnist_writers
from widemargin.meta.product import product_weights
from widemargin.metrics import image_distortion_distances
from widemargin.prototypes import TVQClassifier
from widemargin.reproduce import load_split
from widemargin.reproduce.protocol import measured, over_draws, some_groups
from widemargin.tangents import Deskew, DirectionFeatures, image_affines

SHAPE, NEAREST, ASKED, THETA = (28, 28), 64, 2000, 0.5
METRIC = partial(image_distortion_distances, shape=SHAPE, window=3, patch=2,
                 gradients="normalised", penalty=0.033)  # fmt: skip
SHARPNESS = np.geomspace(0.5, 256, 19)
SECTIONS = ("few", "vectors", "metric", "product")


class Job:
    """The data on the device, and the rows so far."""

    def __init__(self, options):
        self.device, self.out, self.rows = options.device, options.out, []
        split = load_split(load_mnist, options.images)
        self.X, self.y, self.X_test, self.y_test = split
        self.writers = mnist_writers()[: len(self.y)]
        held = some_groups(self.writers, 1 / 6)
        asked = np.random.default_rng(0).permutation(np.flatnonzero(held))
        self.held, self.asked = held, asked[:ASKED]
        self.upright = {"as it is": (self.X, self.X_test)}
        deskew = Deskew(SHAPE).fit(self.X)
        both = deskew.transform(self.X), deskew.transform(self.X_test)
        self.upright["deskewed"] = both

    def put(self, X):
        """Return an array as a float32 tensor on the device."""
        return torch.as_tensor(np.ascontiguousarray(X, np.float32), device=self.device)

    def keep(self, name, result, chosen, start):
        """Print a row and write all of them."""
        took = time.perf_counter() - start
        self.rows.append({
            "name": name, "error": result.error, "chosen": chosen, "seconds": took,
            "standard_error": result.standard_error,
        })  # fmt: skip
        print(f"{name}: {result} %, {chosen}; {took:.0f} s", flush=True)
        file = self.out / "records_gpu.json"
        file.write_text(json.dumps(self.rows, indent=1))

    def nearest(self, queries, references, writers=None, own=None):
        """Distances and positions (n, 64) of the nearest images, copies included."""
        copies = [references, *(f(references) for f in image_affines(SHAPE))]
        Y = self.put(np.concatenate(copies))
        origin = torch.arange(len(references), device=self.device).repeat(len(copies))
        if own is not None:
            whose = torch.as_tensor(own, device=self.device)[origin]
        size = max(1, min(512, 2**28 // len(Y)))
        found = []
        for i in range(0, len(queries), size):
            d = METRIC(self.put(queries[i : i + size]), Y)
            if own is not None:
                mine = torch.as_tensor(writers[i : i + size], device=self.device)
                d[mine[:, None] == whose] = torch.inf
            near = d.topk(min(NEAREST, len(Y)), largest=False)
            found.append((near.values.cpu().numpy().astype(float),
                          origin[near.indices].cpu().numpy()))  # fmt: skip
        return tuple(np.concatenate(part) for part in zip(*found, strict=True))


def posterior(near, y, gamma):
    """Shares of ten classes; one without a neighbour has a bump at the farthest."""
    distances, positions = near
    finite = np.isfinite(distances)
    bumps = np.exp(-gamma * (distances - distances[:, :1]), where=finite,
                   out=np.zeros_like(distances))  # fmt: skip
    P = np.zeros((len(bumps), 10))
    for c in range(10):
        P[:, c] = (bumps * (y[positions] == c)).sum(axis=1)
    farthest = np.where(finite, bumps, 1).min(axis=1)
    P = np.maximum(P, farthest[:, None])
    return P / P.sum(axis=1, keepdims=True)


def sharpness(near, y, truth):
    """Gamma and Brier score of the least Brier score."""
    typical = np.median(near[0][:, 0])
    gammas = SHARPNESS / typical
    scores = [brier_scores(posterior(near, y, g), truth).mean() for g in gammas]
    return gammas[int(np.argmin(scores))], min(scores)


def metric_row(job):
    start, found = time.perf_counter(), {}
    for told, (X, _) in job.upright.items():
        near = job.nearest(X[job.asked], X, job.writers[job.asked], job.writers)
        gamma, score = sharpness(near, job.y, job.y[job.asked])
        P = posterior(near, job.y, gamma)
        error = 100 * np.mean(P.argmax(axis=1) != job.y[job.asked])
        found[told] = score, gamma, P
        print(
            f"  distortion 3, 2, {told}: Brier {score:.5f}, {error:.2f} %", flush=True
        )
    job.told = min(found, key=lambda told: found[told][0])
    _, gamma, job.held_near = found[job.told]
    X, X_test = job.upright[job.told]
    job.test_near = posterior(job.nearest(X_test, X), job.y, gamma)
    wrong = job.test_near.argmax(axis=1) != job.y_test
    chosen = f"distortion, window 3, patch 2, {job.told}"
    job.keep("MNIST, one metric", measured(wrong), chosen, start)


def few_rows(job):
    # Chosen on 300 labels and 700 images of other writers, all of the training set:
    # 3.9 % wrong as they are, 2.4 % deskewed.
    X, X_test = job.upright["deskewed"]
    for n_labels in (300, 1000, 5000):
        start, errors = time.perf_counter(), []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            each = [np.flatnonzero(job.y == c) for c in range(10)]
            rows = [rng.choice(own, min(len(own), n_labels // 10), replace=False)
                    for own in each]  # fmt: skip
            rows = np.concatenate(rows)
            y, single = job.y[rows], np.arange(len(rows))
            asked = rng.permutation(len(rows))[:2000]
            near = job.nearest(X[rows][asked], X[rows], single[asked], single)
            gamma, _ = sharpness(near, y, y[asked])
            P = posterior(job.nearest(X_test, X[rows]), y, gamma)
            errors.append(100 * np.mean(P.argmax(axis=1) != job.y_test))
        told = f"5 draws: {', '.join(f'{error:.2f}' for error in errors)}"
        job.keep(f"MNIST, {n_labels} labels", over_draws(errors), told, start)


def vectors_row(job):
    start, found = time.perf_counter(), {}
    rest = np.flatnonzero(~job.held)
    for kind, (X, X_test) in job.upright.items():
        features = DirectionFeatures(SHAPE).fit(X)
        Z, Z_test = (job.put(features.transform(part)) for part in (X, X_test))
        for m in (20, 24):
            model = TVQClassifier(1, m, theta=THETA, max_iter=150, random_state=0)
            model.fit(Z[rest], job.put(job.y[rest]).long())
            P = np.asarray(model.predict_proba(Z[job.asked]).cpu())
            score = brier_scores(P, job.y[job.asked]).mean()
            error = 100 * np.mean(P.argmax(axis=1) != job.y[job.asked])
            told = f"TVQ {m}×1, {kind}"
            print(f"  {told}: Brier {score:.5f}, {error:.2f} %", flush=True)
            found[told] = score, m, P, (Z, Z_test)
    told = min(found, key=lambda one: found[one][0])
    _, m, job.held_tvq, (Z, Z_test) = found[told]
    model = TVQClassifier(1, m, theta=THETA, max_iter=150, random_state=0)
    model.fit(Z, job.put(job.y).long())
    job.test_tvq = np.asarray(model.predict_proba(Z_test).cpu())
    wrong = job.test_tvq.argmax(axis=1) != job.y_test
    job.keep("MNIST, at most 250 vectors", measured(wrong), told, start)


def product_row(job):
    start = time.perf_counter()
    held, test = (np.log(np.maximum(pair, 1e-4)) for pair in (
        (job.held_near, job.held_tvq), (job.test_near, job.test_tvq)))  # fmt: skip
    share = np.full(len(job.asked), 1 / len(job.asked))
    weights, score = product_weights(held, job.y[job.asked], share)
    wrong = np.tensordot(weights, test, 1).argmax(axis=1) != job.y_test
    chosen = f"weights {weights[0]:.2f} and {weights[1]:.2f}, Brier {score:.5f}"
    job.keep("MNIST, product", measured(wrong), chosen, start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--data", help="folder of the data; default WIDEMARGIN_DATA")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, help="only the first of each part")
    options = parser.parse_args()
    os.environ["WIDEMARGIN_DATA"] = options.data or str(data_folder())
    start = time.perf_counter()
    job = Job(options)
    print(f"images, deskewed: {time.perf_counter() - start:.0f} s", flush=True)
    steps = dict(zip(SECTIONS, (few_rows, vectors_row, metric_row, product_row),
                     strict=True))  # fmt: skip
    with sklearn.config_context(array_api_dispatch=True):
        for row in options.rows:
            try:
                steps[row](job)
            except Exception as error:  # the other rows are worth having
                print(f"{row}: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
