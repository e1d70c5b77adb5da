"""MNIST turned by any angle: 12 000 training and 50 000 test images, on one GPU.

The 70 000 images of MNIST are shuffled by seed 0; the first 12 000 train, the next
50 000 test. Each is turned by a uniform angle of the same seed, bicubic between pixels
(`torch.nn.functional.grid_sample`) and clipped to 0..1. Two members are multiplied:

* a density in the image distortion model (window 2, patch 1, λ 0.033) of the 64 nearest
  training images, each at the best of 24 turns of the query;
* kernel ridge regression on direction features (12 directions, power 0.3), with an
  exponential kernel, of the training images and their quarter turns.

Sharpness and weights are chosen on 2000 training images, each left out with its turns.
The test set is looked at once.

Run: python benchmarks/mnist_rot.py [--device cuda] [--train 12000] [--test 50000]
"""

import argparse
import os
import time

import numpy as np
import torch
from common import data_folder, machine, train_test
from papers import measured
from records_gpu import in_threads, multiply, posterior, say, sharpness
from scipy.special import softmax
from torch.nn import functional as F

from widemargin._compute.device.distortion import (
    distortion_distances,
    gradient_images,
)
from widemargin._core.decisions import brier_scores
from widemargin.datasets import load_mnist
from widemargin.tangents import DirectionFeatures

SHAPE, TURNS, NEAREST, LEFT_OUT = (28, 28), 24, 64, 2000
WINDOW, PATCH, LAMBDA = 2, 1, 0.033
PENALTY = 0.05


def turn(X, angles):
    """Images (n, 784) turned by angles in radians, bicubic between pixels."""
    angles = torch.as_tensor(angles, device=X.device, dtype=X.dtype).expand(len(X))
    c, s = angles.cos(), angles.sin()
    nothing = torch.zeros_like(c)
    rows = torch.stack([c, -s, nothing], 1), torch.stack([s, c, nothing], 1)
    images = X.reshape(-1, 1, *SHAPE)
    grid = F.affine_grid(torch.stack(rows, 1), images.shape, align_corners=False)
    moved = F.grid_sample(images, grid, mode="bicubic", align_corners=False)
    return moved.clamp(0, 1).flatten(1)


def gradients(X, pad):
    return gradient_images(X.contiguous(), pad, SHAPE, 0.0, 0.1**2)


def nearest(queries, references, own=None):
    """Distances and places (n, 64) of the nearest, at the best turn of the query."""
    Y = gradients(references, WINDOW + PATCH)
    found = []
    for start in range(0, len(queries), 128):
        x, best = queries[start : start + 128], None
        for angle in np.arange(TURNS) * (2 * np.pi / TURNS):
            d = distortion_distances(
                gradients(turn(x, angle), PATCH), Y, patch=PATCH, window=WINDOW,
                penalty=LAMBDA,
            )  # fmt: skip
            best = d if best is None else torch.minimum(best, d)
        if own is not None:
            at = torch.arange(len(x), device=x.device)
            best[at, own[start : start + len(x)]] = torch.inf
        near = best.topk(min(NEAREST, best.shape[1]), largest=False)
        found.append((near.values, near.indices))
    return [torch.cat(part).cpu().double().numpy() for part in zip(*found, strict=True)]


class Ridge:
    """Kernel ridge regression on features of images and of their quarter turns."""

    def __init__(self, X, y, device):
        quarters = [np.rot90(X.reshape(-1, *SHAPE), k, (1, 2)) for k in range(4)]
        X = np.concatenate(
            [np.ascontiguousarray(q).reshape(len(X), -1) for q in quarters]
        )
        self.features = DirectionFeatures(SHAPE, directions=12, power=0.3).fit(X)
        self.Z, self.device = self.put(X, device), device
        self.unit = float(torch.cdist(self.Z[:2000], self.Z[:2000]).median())
        n = len(y)
        targets = F.one_hot(torch.as_tensor(y, device=device), 10).double() - 0.1
        targets = targets.repeat(4, 1)
        G = torch.cat([self.kernel(part) for part in self.Z.split(4000)]).double()
        G.diagonal().add_(PENALTY)
        factor = torch.linalg.cholesky(G)
        self.A = torch.cholesky_solve(targets, factor)
        inverse = torch.cholesky_inverse(factor)
        rows = (
            torch.arange(4, device=device) * n + torch.arange(n, device=device)[:, None]
        )
        blocks = inverse[rows[:, :, None], rows[:, None, :]]
        left = targets[rows] - torch.linalg.solve(blocks, self.A[rows])
        self.left_out = left[:, 0].cpu().numpy()

    def put(self, X, device):
        """Return the features of images on the device."""
        return torch.as_tensor(in_threads(self.features.transform, X), device=device)

    def kernel(self, Z):
        """Return the kernel of features with all training images."""
        return torch.exp(-torch.cdist(Z, self.Z) / self.unit)

    def scores(self, X):
        """Return scores (n, 10) of images."""
        Z = self.put(X, self.device)
        found = [self.kernel(part).double() @ self.A for part in Z.split(2000)]
        return torch.cat(found).cpu().numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--train", type=int, default=12_000)
    parser.add_argument("--test", type=int, default=50_000)
    args = parser.parse_args()
    os.environ["WIDEMARGIN_DATA"] = str(data_folder())
    print(machine(), flush=True)
    start = time.perf_counter()
    A, a, B, b = train_test(load_mnist)
    X, y = np.concatenate([A, B]).astype(np.float32), np.concatenate([a, b]).astype(int)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))[: args.train + args.test]
    angles = rng.uniform(0, 2 * np.pi, len(order)).astype(np.float32)
    X = turn(torch.as_tensor(X[order], device=args.device), angles)
    y, n = y[order], args.train
    rows = rng.permutation(n)[:LEFT_OUT]

    def told(what):
        print(f"{what}: {time.perf_counter() - start:.0f} s", flush=True)

    on_cpu = X.cpu().numpy()
    ridge = Ridge(on_cpu[:n], y[:n], args.device)
    told("ridge")
    left, scores = ridge.left_out[rows], ridge.scores(on_cpu[n:])
    told("its answers")
    factors = (4, 8, 12, 16, 24, 32, 48)
    s = min(factors, key=lambda s: brier_scores(softmax(s * left, 1), y[rows]).mean())
    own = torch.as_tensor(rows, device=args.device)
    score, gamma, held = sharpness(nearest(X[own], X[:n], own), y[:n], y[rows])
    told("left-out distances")
    say("density, left out", score, held, y[rows])
    of_ridge = softmax(s * left, 1)
    say("ridge, left out", brier_scores(of_ridge, y[rows]).mean(), of_ridge, y[rows])
    P = posterior(nearest(X[n:], X[:n]), y[:n], gamma)
    told("distances")
    pairs = (held, of_ridge), (P, softmax(s * scores, 1))
    weights, score, answers = multiply(pairs[0], y[rows], pairs[1])
    print(f"weights {np.round(weights, 2)}, left-out Brier score {score:.5f}")
    for name, found in (
        ("density", P.argmax(axis=1)),
        ("ridge", scores.argmax(axis=1)),
        ("product", answers),
    ):
        print(f"{name}: {measured(found != y[n:])} % wrong", flush=True)
    told("in all")


if __name__ == "__main__":
    main()
