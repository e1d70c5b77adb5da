"""Learning from batches: the vector and its bound travel on, the samples do not.

Between batches only ``v``, the running sums and the private length of past patterns
are kept. All perceptron rules are such that the upper bound ``||a|| / sum(m)`` stays
true for everything shown so far.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from widemargin._compute.progress import Advance, silent
from widemargin.linear.base import HyperplaneClassifier
from widemargin.linear.patterns import Patterns, reflect, squared_row_norms
from widemargin.linear.solution import random_state_array
from widemargin.linear.walks import Walk, start_walk


def forget_patterns(walk: Walk, patterns: Patterns) -> Walk:
    """Forget which patterns were added, keep what they added up to."""
    sums = walk.sums.copy()
    sums[5] += np.sum(patterns.diag * walk.m**2)
    return Walk(np.empty(0), walk.v, sums)


def signed_rows(
    codes: np.ndarray, problem: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Find the samples that a two-class problem is about, and their signs.

    All samples come in their own order; those of a pair come class by class, because
    two short lists end to end take half the time of one mask over everything.
    """
    positive, negative = problem
    plus, minus = codes == positive, codes == negative
    n_plus, n_minus = np.count_nonzero(plus), np.count_nonzero(minus)
    if negative < 0 or n_plus + n_minus == len(codes):
        return np.arange(len(codes)), np.where(plus, 1.0, -1.0)
    signs = np.ones(n_plus + n_minus)
    signs[n_plus:] = -1.0
    return np.concatenate((plus.nonzero()[0], minus.nonzero()[0])), signs


class OnlineClassifier(HyperplaneClassifier):
    """Base of the classifiers that can learn from batches; not for direct use.

    An estimator says how to sweep over a batch: ``_sweep`` updates the walk in place
    and returns (status, sweeps).
    """

    rho: float | None
    random_state: Any
    n_features_in_: int
    _online: list[Walk | None] | None

    def _first_walk(self, patterns: Patterns) -> Walk:
        return start_walk(patterns)

    @abstractmethod
    def _sweep(
        self,
        patterns: Patterns,
        walk: Walk,
        f: np.ndarray,
        max_sweeps: int,
        seed: np.ndarray,
        tick: Advance = silent,
    ) -> tuple[int, int]:
        """Sweep over a batch, tell `tick` the sweeps; return (status, sweeps)."""

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Any:
        first = getattr(self, "_online", None) is None
        if first and classes is None:
            raise ValueError("classes must be given in the first call to partial_fit.")
        if classes is not None:
            classes = unique_labels(classes)
            if not first and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"classes={classes.tolist()} differ from those of the first call, "
                    f"{self.classes_.tolist()}."
                )
        X, y, weight, _ = self._check_training_data(X, y, sample_weight, reset=first)
        check_classification_targets(y)
        if first:
            self.classes_ = classes
            if len(classes) < 2:
                raise ValueError(
                    f"classes must name at least 2 classes; got {classes.tolist()}."
                )
            longest = float(np.sqrt(squared_row_norms(X).max())) or 1.0
            self._go_online([None] * len(self._problems()), self.rho or longest)
            self.n_iter_ = 0
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(f"y contains {unknown.tolist()}, not among classes.")
        codes = np.searchsorted(self.classes_, y)
        seed = int(self._generator.randint(2**31 - 1))
        for p, problem in enumerate(self._problems()):
            self._sweep_batch(X, codes, weight, p, problem, seed)
        self.n_iter_ += 1
        self._publish_walks()
        return self

    def _go_online(self, walks: list, rho: float) -> None:
        """Set where the next batch begins: nowhere yet, or at the end of a fit."""
        self._online = walks
        self._online_rho = float(rho)
        self._generator = check_random_state(self.random_state)

    def _sweep_batch(self, X, codes, weight, p, problem, seed) -> None:
        rows, signs = signed_rows(codes, problem)
        if len(rows) == 0:
            return
        part = X if len(rows) == len(codes) else X[rows]
        f = np.ones(len(rows)) if weight is None else weight[rows]
        patterns = reflect(
            part, signs, rho=self._online_rho, diag=self._private_squares(f)
        )
        walks = self._online or []
        before = walks[p]
        if before is None:
            walk = self._first_walk(patterns)
        else:
            walk = before._replace(m=np.zeros(len(rows)))
        self._sweep(patterns, walk, f, 1, random_state_array(seed + p))
        walks[p] = forget_patterns(walk, patterns)

    def _private_squares(self, weight: np.ndarray) -> np.ndarray | None:
        """Squared private coordinates of a soft margin; none by default."""
        return None

    def _publish_walks(self) -> None:
        planes, bounds, updates = [], [], []
        for walk in self._online or []:
            if walk is None:
                planes.append((np.zeros(self.n_features_in_), 0.0))
                bounds.append(np.inf)
                updates.append(0)
                continue
            planes.append((walk.v, self._online_rho**2 * float(walk.sums[0])))
            bounds.append(float(walk.upper_bound))
            updates.append(walk.n_updates)
        self._set_hyperplanes(planes)
        single = len(planes) == 1
        self.margin_upper_bound_ = bounds[0] if single else np.array(bounds)
        self.n_updates_ = updates[0] if single else np.array(updates)
