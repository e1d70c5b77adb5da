"""Worlds of real size: laws of (x, y) that samples are drawn from, again and again.

A world is its four numbers, so that a defect can be made again from a line of text.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

KINDS = ("plain", "imbalanced", "duplicated", "wide", "one-hot", "mixed units",
         "curved", "noisy", "offset", "lattice")  # fmt: skip
# Values that a feature of a one-hot table takes.
VALUES = 8


@dataclass(frozen=True)
class World:
    """A law of samples with classes that overlap, more or less."""

    kind: str
    n_features: int
    n_classes: int
    seed: int

    @cached_property
    def law(self) -> dict[str, Any]:
        """What is drawn once: centres, shares, units."""
        rng = np.random.default_rng([self.seed, KINDS.index(self.kind)])
        c, d = self.n_classes, self.n_features
        shares = np.full(c, 1 / c)
        if self.kind == "imbalanced":
            shares = 0.5 ** np.minimum(np.arange(c), 6)
        held: dict[str, Any] = {"shares": shares / shares.sum()}
        if self.kind == "one-hot":
            tables = rng.dirichlet(np.full(VALUES, 0.7), size=(c, self.n_groups))
            return held | {"cumulative": tables.cumsum(axis=2)}
        n_bumps = 3 if self.kind == "curved" else 1
        # A few directions tell the classes apart, all features are noisy.
        width = min(d, int(rng.integers(3, 12)))
        plane = np.linalg.qr(rng.normal(size=(d, width)))[0]
        apart = float(rng.choice([1.5, 2.5, 4.0])) * c ** (1 / width)
        held["centres"] = apart * rng.normal(size=(c, n_bumps, width)) @ plane.T
        held["unit"] = 10.0 ** rng.uniform(-4, 4, d)
        held["shift"] = held["unit"] * rng.normal(size=d) * 10
        return held

    @property
    def n_groups(self) -> int:
        return max(2, self.n_features // VALUES)

    def _one_hot(self, codes: np.ndarray, rng: Any) -> sparse.csr_array:
        steps = self.law["cumulative"][codes]
        at = (rng.random(steps.shape[:2])[..., None] > steps[..., :-1]).sum(axis=2)
        n, groups = at.shape
        columns = (at + VALUES * np.arange(groups)).ravel()
        pointer = np.arange(0, n * groups + 1, groups)
        shape = (n, groups * VALUES)
        return sparse.csr_array((np.ones(n * groups), columns, pointer), shape=shape)

    def fresh(self, n: int, draw: int = 1) -> tuple[Any, np.ndarray]:
        """Independent samples of the law: draw 1, 2, … are independent too."""
        rng = np.random.default_rng([self.seed, draw, n])
        codes = rng.choice(self.n_classes, size=n, p=self.law["shares"])
        # Every class is seen where there is room.
        if n >= self.n_classes and draw == 0:
            codes[: self.n_classes] = np.arange(self.n_classes)
        labels = np.array([f"c{k:03d}" for k in range(self.n_classes)])
        if self.kind == "one-hot":
            return self._one_hot(codes, rng), labels[codes]
        centres = self.law["centres"]
        bump = rng.integers(centres.shape[1], size=n)
        X = centres[codes, bump] + rng.normal(size=(n, self.n_features))
        if self.kind == "mixed units":
            X = X * self.law["unit"] + self.law["shift"]
        elif self.kind == "offset":
            X += 1e4
        elif self.kind == "lattice":
            X = np.round(X)
        elif self.kind == "noisy":
            wrong = rng.random(n) < 0.15
            codes = np.where(wrong, rng.integers(self.n_classes, size=n), codes)
        return X, labels[codes]

    def train(self, n: int) -> tuple[Any, np.ndarray]:
        """Samples to learn from; of a duplicated world each is there four times."""
        if self.kind != "duplicated":
            return self.fresh(n, 0)
        X, y = self.fresh(max(n // 4, self.n_classes), 0)
        order = np.random.default_rng(self.seed).permutation(4 * len(y))
        return np.tile(X, (4, 1))[order], np.tile(y, 4)[order]


def around(X: np.ndarray, rng: Any, n: int) -> np.ndarray:
    """Training rows, points halfway between two, of their box, and far away."""
    a, b = X[rng.integers(len(X), size=(2, n))]
    box = rng.uniform(X.min(axis=0), X.max(axis=0), size=(n, X.shape[1]))
    return np.concatenate([a, (a + b) / 2, box, 50 * a, 1e6 * b])


def cuts(rng: Any, y: np.ndarray, kind: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """Order of the rows and sizes of their blocks, of a kind of `PARTITIONS`."""
    n, order = len(y), np.arange(len(y))
    if kind in ("sorted", "one class per block"):
        order = np.argsort(y, kind="stable")
    if kind == "one class per block":
        return order, tuple(np.unique(y, return_counts=True)[1].tolist())
    if kind == "uneven":
        ends = np.sort(rng.integers(1, n, size=4))
        return order, tuple(np.diff([0, 1, *ends, n - 1, n]).clip(0).tolist())
    size = -(-n // int(rng.integers(2, 9)))
    sizes = [min(size, n - start) for start in range(0, n, size)]
    if kind == "empty":
        sizes = [0, *sizes[:1], 0, *sizes[1:], 0]
    return order, tuple(sizes)


PARTITIONS = ("even", "sorted", "uneven", "empty", "one class per block")
