"""What a hyperplane classifier says about itself, in exact rational arithmetic.

Every number that is stored is a rational; so are samples and kernel values, or they are
known to eighty digits. Squares are compared, so that no root is needed. A problem is
(name, X, y, parameters); what is said about it is false only if it contradicts the
rationals.
"""

from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog


class Problem(NamedTuple):
    name: str
    X: object
    y: np.ndarray
    options: dict


def rationals(matrix):
    dense = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
    return [[Fraction(float(v)) for v in row] for row in np.atleast_2d(dense)]


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), Fraction(0))


def at_most(value, numerator, square):
    """Whether value <= numerator / sqrt(square), exactly."""
    value = Fraction(float(value))
    if square == 0:
        return value <= 0
    if (value > 0) != (numerator > 0):
        return value <= 0 <= numerator
    left, right = value * value * square, numerator * numerator
    return left <= right if value > 0 else left >= right


def kernel_value(model, a, b):
    """k(a, b) of rationals; a function is U @ V.T."""
    gamma = Fraction(float(model._kernel_state["gamma"]))
    if model.kernel == "rbf":
        t = gamma * sum(((x - y) ** 2 for x, y in zip(a, b, strict=True)), Fraction(0))
        context = Context(prec=80)
        ratio = context.divide(Decimal(-t.numerator), Decimal(t.denominator))
        return Fraction(context.exp(ratio))
    if model.kernel == "polynomial":
        inner = gamma * dot(a, b) + Fraction(float(model.coef0))
        return inner ** int(model.degree)
    assert callable(model.kernel)
    return dot(a, b)


def false_claims(model, X, y, *, weights=None):
    """Claims of a fitted two-class `model` that are not true; [] if all are."""
    rows = rationals(X)
    signs = [1 if label == model.classes_[1] else -1 for label in y]
    prices = None
    C = getattr(model, "C", np.inf)
    if np.isfinite(C):
        weights = np.ones(len(rows)) if weights is None else weights
        prices = [Fraction(float(C)) * Fraction(float(v)) for v in weights]
    kernel = getattr(model, "kernel", "linear")
    support = [int(k) for k in model.support_]
    dual = [Fraction(float(v)) for v in model.dual_coef_[0]]
    intercept = Fraction(float(model.intercept_[0]))
    norm = Fraction(float(model.weight_norm_[0]))
    if kernel != "linear":
        norm = norm or Fraction(1)
    if kernel == "linear":
        w = [Fraction(float(v)) for v in model.coef_[0]]
        values = [dot(w, row) + intercept for row in rows]
        square = dot(w, w)
    else:
        gram = (
            rows
            if kernel == "precomputed"
            else [[kernel_value(model, a, b) for b in rows] for a in rows]
        )
        values = [
            dot(dual, [gram[k][j] for j in support]) / norm + intercept
            for k in range(len(rows))
        ]
        chosen = [[gram[i][j] for j in support] for i in support]
        square = dot(dual, [dot(dual, row) for row in chosen]) / norm**2
    directional_only = not hasattr(model, "directional_margin_upper_bound_")
    free = not getattr(model, "penalize_intercept", True)
    rho = Fraction(float(model.intercept_scaling_))
    raised = square + (intercept / rho) ** 2
    claims = []
    lowest = min(s * v for s, v in zip(signs, values, strict=True))
    if prices is None:
        if not at_most(model.margin_, lowest, square):
            claims.append("margin")
        if not free and not at_most(model.directional_margin_, lowest, raised):
            claims.append("directional margin")
    else:
        slack = [
            max(Fraction(0), 1 - s * v * norm)
            for s, v in zip(signs, values, strict=True)
        ]
        size = (square if free else raised) * norm**2
        size += 2 * sum(
            (c * x * x for c, x in zip(prices, slack, strict=True)), Fraction(0)
        )
        if model.weight_norm_[0] == 0:
            # No plane: slack alone, at the best bias, which has no length to be kept.
            pull = 0 if free else 1 / rho**2
            both = [
                2 * sum((c for c, s in zip(prices, signs, strict=True) if s == t), 0)
                for t in (1, -1)
            ]
            size = 4 * both[0] * both[1] + sum(both) * pull
            size /= sum(both) + pull
        if not at_most(model.margin_, Fraction(1), size):
            claims.append("soft margin")
    # The combination that is named, and what it bounds.
    alpha = [max(Fraction(0), v * signs[k]) for v, k in zip(dual, support, strict=True)]
    sides = [signs[k] for k in support]

    def bound_of(geometric):
        if geometric:
            pairs = list(zip(alpha, sides, strict=True))
            total = {
                s: sum((a for a, t in pairs if t == s), Fraction(0)) for s in (1, -1)
            }
            if not (total[1] and total[-1]):
                return None
            c = [t * a / (2 * total[t]) for a, t in zip(alpha, sides, strict=True)]
        else:
            mass = sum(alpha, Fraction(0))
            if not mass:
                return None
            c = [t * a / mass for a, t in zip(alpha, sides, strict=True)]
        if kernel == "linear":
            total = [dot(c, [rows[k][j] for k in support]) for j in range(len(rows[0]))]
            length = dot(total, total)
        else:
            length = dot(c, [dot(c, row) for row in chosen])
        if not geometric:
            length += (rho * sum(c)) ** 2
        if prices is not None:
            length += sum(
                (v * v / (2 * prices[k]) for v, k in zip(c, support, strict=True)),
                Fraction(0),
            )
        return length

    def check_bound(value, geometric, name):
        length = bound_of(geometric)
        if length is not None and Fraction(float(value)) ** 2 < length:
            claims.append(name)
        if length is None and np.isfinite(value):
            claims.append(name)

    if directional_only:
        check_bound(model.margin_upper_bound_, False, "upper bound")
    else:
        geometric = free or prices is None
        check_bound(model.margin_upper_bound_, geometric, "upper bound")
        if not free:
            upper = model.directional_margin_upper_bound_
            check_bound(upper, False, "directional upper bound")
        if not (model.gap_ >= 0 or model.margin_ == -np.inf):
            claims.append("gap")
    numbers = [model.margin_, model.margin_upper_bound_, *model.intercept_]
    if np.isnan(numbers).any():
        claims.append("NaN")
    return claims


def is_separable(X, y):
    """Whether a plane separates two classes, exactly; None if only floats would know.

    A linear programme proposes a plane or a combination; rationals confirm it.
    """
    points = rationals(X)
    scale = max((abs(v) for row in points for v in row), default=Fraction(1)) or 1
    points = [[v / scale for v in row] for row in points]
    signs = np.where(np.asarray(y) == np.unique(y)[1], 1, -1)
    Y = np.array([[float(v) for v in row] + [1.0] for row in points]) * signs[:, None]
    found = linprog(np.zeros(Y.shape[1]), A_ub=-Y, b_ub=-np.ones(len(Y)),
                    bounds=[(None, None)] * Y.shape[1], method="highs")  # fmt: skip
    if found.status == 0:
        plane = [Fraction(float(v)) for v in found.x]
        scores = [
            int(s) * (dot(plane[:-1], row) + plane[-1])
            for s, row in zip(signs, points, strict=True)
        ]
        if min(scores) > 0:
            return True
    return False if found.status == 2 else None


KINDS = (
    "separable", "barely", "duplicates", "collinear", "inseparable", "touching",
    "offset", "income", "constant", "one-hot", "integers",
)  # fmt: skip


def draw(kind, rng):
    """Small two-class samples of a kind."""
    n, d = int(rng.integers(4, 14)), int(rng.integers(1, 5))
    y = np.arange(n) % 2
    signs = np.where(y == 1, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    u = rng.normal(size=d)
    u /= np.linalg.norm(u)
    apart = X - (X @ u)[:, None] * u
    if kind == "separable":
        X = apart + (signs * rng.uniform(0.1, 2, n))[:, None] * u
    elif kind == "barely":
        gap = 10.0 ** rng.uniform(-12, -3)
        X = apart + (signs * gap * rng.uniform(1, 2, n))[:, None] * u
    elif kind == "duplicates":
        X = (apart + signs[:, None] * u)[2 * rng.integers(0, n // 2, n) + y]
    elif kind == "collinear":
        X = np.outer(signs * rng.integers(1, 5, n), np.arange(1, d + 1.0))
    elif kind == "touching":
        X = np.round(2 * X)
        X[1] = X[0]
    elif kind == "offset":
        X = apart + signs[:, None] * u + 10.0 ** rng.uniform(3, 12)
    elif kind == "income":
        X = np.column_stack([rng.uniform(0, 1e6, n), y + 0.0])
    elif kind == "constant":
        X = np.column_stack([np.full(n, 3.0), apart + signs[:, None] * u])
    elif kind == "one-hot":
        X = np.eye(4)[rng.integers(0, 4, n)]
    elif kind == "integers":
        X = rng.integers(-3, 4, size=(n, d)) + 0.0
    return X, y


def problems(n_problems, seed=0):
    """Random and degenerate problems, over scales, types, methods, kernels."""
    rng = np.random.default_rng(seed)
    scales = (0, 0, 0, 0, 3, -55, 55, -40, 40, 10, -10)
    plans = [
        {"C": np.inf}, {"C": np.inf, "tol": 1e-9}, {"C": 1.0}, {"C": 1e6},
        {"C": np.inf, "penalize_intercept": True},
        {"C": 0.1, "penalize_intercept": True},
        {"C": np.inf, "method": "dynamic", "tol": 0.2},
        {"C": np.inf, "method": "bisection", "tol": 0.2},
        {"C": 1.0, "method": "paper-bisection2", "tol": 0.2},
        {"C": np.inf, "kernel": "precomputed"}, {"C": 2.0, "kernel": "precomputed"},
        {"C": np.inf, "kernel": "polynomial"}, {"C": 1.0, "kernel": "polynomial"},
        {"perceptron": "plain"}, {"perceptron": "relaxation"}, {"perceptron": "fixed"},
    ]  # fmt: skip
    every = list(product(range(len(KINDS)), range(len(plans))))
    for i in range(n_problems):
        kind, plan = every[i % len(every)]
        options = dict(plans[plan])
        X, y = draw(KINDS[kind], rng)
        exponent = int(rng.choice(scales))
        if options.get("kernel") == "polynomial":
            # Integers, so that floats hold the kernel exactly.
            X = np.clip(np.round(X), -1000, 1000)
            options |= {"degree": 2, "gamma": 1.0, "coef0": 1.0}
            exponent = 0
        if options.get("kernel") == "precomputed":
            X = np.clip(np.round(4 * X), -2000, 2000)
            X, exponent = X @ X.T, 0
        if exponent:
            X = X / (np.abs(X).max() or 1.0) * 10.0**exponent
        form = int(rng.integers(0, 4))
        if form == 1 and abs(exponent) < 30 and "kernel" not in options:
            X = X.astype(np.float32)
        elif form == 2 and "kernel" not in options:
            X = sp.csr_array(X)
        if rng.random() < 0.2 and "kernel" not in options:
            options["weighted"] = True
        yield Problem(f"{KINDS[kind]} e{exponent}", X, y, options)


def not_shared(problem):
    """Whether no sample is in both classes: then a radial kernel separates them."""
    sides = [{tuple(row) for row in problem.X[problem.y == c] + 0.0} for c in (0, 1)]
    return sides[0].isdisjoint(sides[1])


def far_kernels(n_problems, seed=0):
    """Kernels of samples whose origin is somewhere else, near and far."""
    rng = np.random.default_rng(seed)
    plans = [
        {"kernel": "rbf", "gamma": "scale"}, {"kernel": "rbf", "gamma": 5.0},
        {"kernel": "polynomial", "degree": 1, "gamma": 1.0, "coef0": 0.0},
        {"kernel": "polynomial", "degree": 3, "gamma": 0.5, "coef0": 1.0},
        {"kernel": np.dot},
    ]  # fmt: skip
    offsets = (0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10)
    every = list(product(range(len(plans)), offsets, (np.inf, 10.0), (1e-3, 1e-9)))
    for i in range(n_problems):
        plan, offset, C, tol = every[i % len(every)]
        kind = ("separable", "duplicates", "inseparable", "touching")[i % 7 % 4]
        X, y = draw(kind, rng)
        X = X + offset if rng.random() < 0.5 else np.c_[X, np.full(len(X), offset)]
        yield Problem(f"{kind} {offset}", X, y, plans[plan] | {"C": C, "tol": tol})


def examine(problem):
    """Fit and check: ("true", "refused" or "false", details)."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from widemargin.linear import (
        FixedMarginPerceptron,
        MarginPerceptron,
        MaxMarginClassifier,
    )

    options = dict(problem.options)
    weights = None
    if options.pop("weighted", False):
        weights = np.linspace(0.5, 2.0, len(problem.y))
    perceptron = options.pop("perceptron", None)
    if perceptron == "fixed":
        model = FixedMarginPerceptron(random_state=0, max_iter=30)
    elif perceptron:
        model = MarginPerceptron(perceptron, random_state=0, max_iter=30)
    else:
        model = MaxMarginClassifier(random_state=0, **({"max_iter": 300} | options))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(problem.X, problem.y, sample_weight=weights)
    except ValueError as error:
        said = str(error)
        if "proven" in said:
            if problem.options.get("kernel", "linear") == "linear":
                separable = is_separable(problem.X, problem.y)
            else:
                separable = (
                    is_separable(problem.X, problem.y)
                    if (problem.options["kernel"] in ("precomputed", np.dot))
                    else problem.options["kernel"] == "rbf" and not_shared(problem)
                )
            return ("false" if separable else "proven"), said
        if "not decided" in said:
            return "undecided", said
        return "false", said
    wrong = false_claims(model, problem.X, problem.y, weights=weights)
    return ("false", ", ".join(wrong)) if wrong else ("true", "")
