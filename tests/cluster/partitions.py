"""What maximum margins of a cluster say about themselves, in exact rational arithmetic.

The same problem is fitted here and over partitions of every kind. What each fit says is
compared with the rationals; what is proven here is compared with what is proven there:
no margin is above the bound of another fit, and no bound below its margin.
"""

import warnings
from types import SimpleNamespace
from typing import NamedTuple

import dask
import dask.array as da
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from tests.linear.exact import false_claims

from widemargin import MaxMarginClassifier
from widemargin.hyperplanes.base import signed_rows, two_class_problems
from widemargin.hyperplanes.certificate import no_plane, relative_gap

PARTITIONS = ("as they come", "sorted", "uneven", "a class each", "empty", "one")
KINDS = (
    "overlap", "overlap", "separable", "far", "duplicates", "integers", "offset",
    "scale", "one mean", "single",
)  # fmt: skip


class Problem(NamedTuple):
    name: str
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    options: dict


def problems(n_problems, seed=0):
    """Random problems of two to four classes, hard and soft, weighted or not."""
    for i in range(n_problems):
        rng = np.random.default_rng([seed, i])
        kind = KINDS[i % len(KINDS)]
        k, d = int(rng.choice([2, 2, 3, 4])), int(rng.integers(1, 6))
        n = int(rng.choice([12, 40, 130, 260]))
        y = np.concatenate([np.arange(k), rng.choice(k, n - k, p=shares(k, rng))])
        centres = rng.normal(size=(k, d)) * rng.uniform(0.3, 2)
        X = centres[y] + rng.normal(size=(n, d))
        if kind in ("separable", "far"):
            X = 10 * np.eye(k)[y] + rng.uniform(-1, 1, (n, k))
            X += 10.0 ** rng.uniform(2, 10) * (kind == "far")
        elif kind == "duplicates":
            X = X[rng.integers(0, n, n) // 3]
        elif kind == "integers":
            X = np.round(2 * X)
        elif kind == "offset":
            X += 10.0 ** rng.uniform(2, 7)
        elif kind == "scale":
            X *= 10.0 ** rng.choice([-50, -20, -3, 3, 20, 50])
        elif kind == "one mean":
            half = rng.normal(size=(n, d))
            X, y = np.concatenate([half, half]), np.concatenate([y, (y + 1) % k])
        elif kind == "single":
            X = X.astype(np.float32)
        options = {
            "C": float(rng.choice([1e-8, 1e-3, 0.1, 1.0, 30.0, 1e4, 1e12])),
            "multiclass": str(rng.choice(["ovo", "ovr"])),
            "tol": float(rng.choice([0.2, 1e-3, 1e-6])),
        }
        if rng.random() < 0.05:
            options["max_iter"] = int(rng.integers(1, 4))
        if kind in ("separable", "far") or rng.random() < 0.1:
            options["C"] = np.inf
        weights = None
        if rng.random() < 0.5:
            weights = rng.choice([0.0, 0.3, 1.0, 7.0], len(y), p=[0.1, 0.3, 0.5, 0.1])
            weights[:k] = 1.0
        if rng.random() < 0.3:
            options["class_weight"] = "balanced"
        elif rng.random() < 0.3:
            options["class_weight"] = {0: 5.0, 1: 0.2}
        yield Problem(kind, X, y, weights, options)


def shares(k, rng):
    """Return how often classes come, some of them rarely."""
    p = rng.choice([0.1, 1.0, 1.0], k)
    return p / p.sum()


def cut(y, kind, rng):
    """Return an order of the samples, and the sizes of blocks."""
    n, order = len(y), np.arange(len(y))
    if kind == "one":
        return order, (n,)
    if kind in ("sorted", "a class each"):
        order = np.argsort(y, kind="stable")
    if kind == "a class each":
        return order, tuple(np.bincount(y).tolist())
    if kind == "uneven":
        cuts = np.array([1, 2, max(3, n - 4)])
    else:
        cuts = np.sort(rng.integers(1, n, 5))
    if kind == "empty":
        cuts = np.sort(np.concatenate([[0], cuts, cuts, [n]]))
    return order, tuple(np.diff(np.concatenate([[0], cuts, [n]])).tolist())


def fitted(model, X, y, weights):
    """Return the model, or why there is none; and whether it said that a gap is open"""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, sample_weight=weights)
        except ValueError as error:
            return str(error), False
    kinds = {one.category for one in said}
    assert kinds <= {ConvergenceWarning}, [str(one.message) for one in said]
    return model, bool(kinds)


def factors_of(problem, y, weights):
    """Return what multiplies C, of every sample."""
    weights = np.ones(len(y)) if weights is None else weights
    given, classes = problem.options.get("class_weight"), np.unique(y)
    if isinstance(given, dict):
        return weights * np.array([given.get(label, 1.0) for label in y.tolist()])
    if given == "balanced":
        there = weights > 0
        factors = compute_class_weight(
            "balanced", classes=classes, y=y[there], sample_weight=weights[there]
        )
        return weights * factors[y]
    return weights


def facets(model, X, y, weights):
    """Yield (what the model says of one pair, its samples, labels, weights)."""
    rows = np.flatnonzero(weights)
    pairs = two_class_problems(len(model.classes_), model.multiclass)
    codes = np.searchsorted(model.classes_, y[rows])
    for p, pair in enumerate(pairs):
        at, signs = signed_rows(codes, pair)
        chosen = rows[at]
        here = np.isin(model.support_, chosen)
        assert not model.dual_coef_[p][~here].any()
        place = np.argsort(chosen)
        support = place[np.searchsorted(chosen[place], model.support_[here])]
        said = SimpleNamespace(
            classes_=[-1, 1], C=model.C, support_=support,
            penalize_intercept=model.penalize_intercept,
            dual_coef_=[model.dual_coef_[p][here]],
            **{
                name: getattr(model, name)[p : p + 1]
                for name in ("coef_", "intercept_", "weight_norm_")
            },
            **{
                name: float(np.ravel(getattr(model, name))[p])
                for name in (
                    "intercept_scaling_", "margin_", "margin_upper_bound_",
                    "directional_margin_", "directional_margin_upper_bound_", "gap_",
                )
            },
        )  # fmt: skip
        yield said, X[chosen], signs, weights[chosen]


def false_of_fit(model, X, y, weights, open_gap):
    """Return what a fit says that is not true, in rationals."""
    found = []
    for said, points, signs, factors in facets(model, X, y, weights):
        found += false_claims(said, points, signs, weights=factors)
        none = 0.0
        if np.isfinite(model.C):
            with np.errstate(over="ignore"):
                none = no_plane(np.sqrt(0.5 / (model.C * factors)), signs)
        gap = relative_gap(said.margin_, said.margin_upper_bound_, none)
        if not np.isclose(gap, said.gap_, rtol=1e-4, atol=1e-10):
            found.append(f"gap {said.gap_:.3g} and not {gap:.3g}")
        if said.gap_ > model.tol and not open_gap:
            found.append("no warning of an open gap")
    return found


def examine(problem, kinds=PARTITIONS, seed=0):
    """Yield (partition, verdict, details): "true", "open", "refused" or "false".

    Open are gaps that the same fit closes here.
    """
    given = problem.X, problem.y, problem.weights
    exact = problem.options | {"tol": 1e-9, "max_iter": 10_000}
    here, here_open = fitted(MaxMarginClassifier(**exact), *given)
    local_open = fitted(MaxMarginClassifier(**problem.options), *given)[1]
    # A cluster needs more sweeps than one machine, or fewer.
    local_open |= "max_iter" in problem.options
    if not isinstance(here, str):
        factors = factors_of(problem, problem.y, problem.weights)
        wrong = false_of_fit(here, problem.X, problem.y, factors, here_open)
        if wrong:
            yield "local", "false", ", ".join(wrong)
    for number, kind in enumerate(kinds):
        rng = np.random.default_rng([seed, number])
        order, sizes = cut(problem.y, kind, rng)
        X, y = problem.X[order], problem.y[order]
        weights = None if problem.weights is None else problem.weights[order]
        lazy = da.from_array(X, chunks=(sizes, X.shape[1]))
        with dask.config.set(scheduler="synchronous"):
            there, there_open = fitted(
                MaxMarginClassifier(**problem.options), lazy, y, weights
            )
        if isinstance(here, str) or isinstance(there, str):
            same = isinstance(here, str) and isinstance(there, str)
            same = same and here.partition(":")[2] == there.partition(":")[2]
            yield kind, "refused" if same else "false", f"{here} | {there}"
            continue
        wrong = false_of_fit(there, X, y, factors_of(problem, y, weights), there_open)
        if np.any(there.margin_upper_bound_ < here.margin_):
            wrong.append("an upper bound below the truth")
        if np.any(there.margin_ > here.margin_upper_bound_):
            wrong.append("a margin above the truth")
        open_gap = there_open and not local_open
        verdict = "false" if wrong else "open" if open_gap else "true"
        yield kind, verdict, ", ".join(wrong) or f"{np.max(there.gap_):.2g}"
