r"""The perceptrons of Tsampouka and Shawe-Taylor against their own bounds.

The paper proves how many updates each variant can make, from when on every update
helps, and how far the geometric margin can exceed the directional one. It prints no
experiment; here is what the algorithms do beside what the theorems allow:

* updates made against (2.11), (2.29), (2.45), (2.48) and (2.58), margin reached;
* the cosine between the weight vector and the best direction after each update, with
  the onset t_c of (2.18) and (2.35);
* :math:`\gamma / \gamma_d` against :math:`R / \rho` of (2.67) as rho grows;
* both bisections, the dynamic margin and the dual on the same sets.

Each function returns plain data; `main` prints the tables and saves the figures.
"""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from papers import save_figure
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from widemargin._compute.patterns import FREE_LENGTH, STANDARD, Rule, Trace
from widemargin.datasets import load_sonar
from widemargin.hyperplanes.patterns import Patterns, random_state_array, reflect
from widemargin.hyperplanes.walks import Budget, run_sweeps, start_walk
from widemargin.linear import (
    FixedMarginPerceptron,
    MarginPerceptron,
    MaxMarginClassifier,
)
from widemargin.margins import perceptrons as bounds


class Problem(NamedTuple):
    """A separable two-class set; `margin` is its geometric margin where known."""

    name: str
    X: NDArray
    signs: NDArray
    margin: float | None = None


class VariantRow(NamedTuple):
    """One variant on one set: updates against its bound, margin against the best."""

    problem: str
    variant: str
    equation: str
    updates: int
    bound: float
    margin_share: float


def known_margin_set(n: int, d: int, gamma: float) -> Problem:
    """Draw samples whose largest geometric margin is exactly `gamma`.

    Two pairs of samples face each other across the plane ``x_1 = 0`` at distance
    `gamma`, so that no tilt can help; all others lie further out. The plane is then
    moved away from the origin, where a height rho would cost nothing.

    >>> problem = known_margin_set(50, 3, 0.25)
    >>> model = MaxMarginClassifier(C=np.inf, tol=1e-9).fit(problem.X, problem.signs)
    >>> round(model.margin_, 9)
    0.25
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    X[:, 0] = signs * (gamma + np.abs(X[:, 0]))
    spots = rng.normal(size=(2, d - 1))
    X[:4, 1:] = spots[[0, 0, 1, 1]]
    X[:4, 0] = signs[:4] * gamma
    return Problem(f"synthetic, d = {d}", X + 1.0, signs, gamma)


def crossing_set(d: int, gamma: float) -> Problem:
    """Make a set of supports only, one pair along each axis of each class.

    Every pattern is at distance `gamma` from the plane ``x_1 = 0`` through the origin,
    so that ``a.u`` grows as slowly as it can and runs last as long as they may.

    >>> crossing_set(3, 0.5).X.shape
    (8, 3)
    """
    axes = np.vstack([np.eye(d)[1:], -np.eye(d)[1:]])
    X = np.vstack([axes + gamma * np.eye(d)[0], axes - gamma * np.eye(d)[0]])
    signs = np.repeat([1.0, -1.0], 2 * (d - 1))
    return Problem(f"crossing, d = {d}", X, signs, gamma)


def digit_pair(first: int, second: int) -> Problem:
    """Two digits of scikit-learn's set, grey values scaled to at most one."""
    X, y = load_digits(return_X_y=True)
    chosen = (y == first) | (y == second)
    signs = np.where(y[chosen] == second, 1.0, -1.0)
    return Problem(f"digits {first} / {second}", X[chosen] / 16.0, signs)


def sonar(data_home: Path | None = None) -> Problem | None:
    """Sonar echoes as :func:`widemargin.datasets.load_sonar` finds them, else None."""
    try:
        X, y = load_sonar(
            data_home=data_home, download_if_missing=False, return_X_y=True
        )
    except FileNotFoundError:
        return None
    return Problem("sonar", X, np.where(y == 1, 1.0, -1.0))


def best_direction(problem: Problem, rho: float) -> tuple[float, NDArray]:
    """Largest directional margin at height rho, and its unit vector [w, w0]."""
    model = MaxMarginClassifier(
        C=np.inf, intercept_scaling=rho, penalize_intercept=True, tol=1e-9
    )
    model.fit(problem.X, problem.signs)
    a = np.append(model.coef_[0], model.intercept_[0] / rho)
    return float(model.directional_margin_), a / np.linalg.norm(a)


def variant_table(problem: Problem, rho: float) -> list[VariantRow]:
    """Run every variant at height rho and set its updates beside its bound.

    Variants of fixed margin are asked for half the best directional margin.
    """
    gamma_d, _ = best_direction(problem, rho)
    beta = gamma_d / 2
    norms = np.sqrt(np.einsum("ij,ij->i", problem.X, problem.X) + rho**2)
    R, r = float(norms.max()), float(norms.min())
    run: dict[str, Any] = {
        "intercept_scaling": rho, "max_iter": 100_000, "n_iter_no_change": None,
        "random_state": 0,
    }  # fmt: skip
    optimal = bounds.fixed_length_optimal_rate(R, gamma_d, beta)
    low, high = bounds.projected_factor_range(r, beta)
    variants = [
        ("plain, b = R^2", "2.11", MarginPerceptron(**run),
         bounds.standard_updates(R, gamma_d, b=R**2)),
        ("plain, b = R^2 / 10", "2.11",
         MarginPerceptron(margin_threshold=R**2 / 10, **run),
         bounds.standard_updates(R, gamma_d, b=R**2 / 10)),
        ("relaxation, b_u = 2 b", "2.29", MarginPerceptron("relaxation", **run),
         bounds.relaxation_updates(R, r, gamma_d, b=1.0, b_u=2.0)),
        ("free length, f = 1", "2.45", FixedMarginPerceptron(beta, **run),
         bounds.free_length_updates_simple(R, gamma_d, beta)),
        ("free length, f = 1", "2.48", FixedMarginPerceptron(beta, **run),
         bounds.free_length_updates(R, gamma_d, beta)),
        ("free length, f of 2.32", "2.48",
         FixedMarginPerceptron(beta, update_factor="projected", **run),
         bounds.free_length_updates(
             R, gamma_d, beta, f_min=low, f_max=high)),
        ("fixed length, best rate", "2.58",
         FixedMarginPerceptron(beta, normalize=True, learning_rate=optimal, **run),
         bounds.fixed_length_optimal_updates(R, gamma_d, beta)),
    ]  # fmt: skip
    rows = []
    for name, equation, model, bound in variants:
        model.fit(problem.X, problem.signs)
        reached = model.directional_margin_ / gamma_d
        rows.append(
            VariantRow(
                problem.name, name, equation, int(model.n_updates_), bound, reached
            )
        )
    return rows


def cosines(patterns: Patterns, u: NDArray, rule: Rule, n_updates: int) -> NDArray:
    """``u_t.u`` after each update of one run of a rule."""
    trace = Trace(np.zeros(n_updates, dtype=np.int64), np.zeros(n_updates))
    walk = start_walk(patterns)
    budget = Budget(10**6, updates=n_updates)
    run_sweeps(patterns, walk, rule, budget, random_state_array(0), trace=trace)
    made = min(walk.n_updates, n_updates)
    height = np.full((len(patterns.signs), 1), patterns.rho)
    Y = patterns.signs[:, None] * np.hstack([patterns.X, height])
    vectors = np.cumsum(trace[1][:made, None] * Y[trace[0][:made]], axis=0)
    return vectors @ u / np.linalg.norm(vectors, axis=1)


def stepwise_convergence(
    problem: Problem, rho: float
) -> dict[str, tuple[NDArray, float]]:
    """Cosines after each update and the onset t_c, for V1 and V3 with f = 1."""
    gamma_d, u = best_direction(problem, rho)
    patterns = reflect(problem.X, problem.signs, rho=rho)
    R = float(np.sqrt(patterns.squares.max()))
    b, share, n_updates = 10 * R**2, 0.9, 20_000
    beta = share * gamma_d
    return {
        "standard margin, b = 10 R²": (
            cosines(patterns, u, Rule(STANDARD, b=b), n_updates),
            bounds.standard_onset(R, gamma_d, b=b),
        ),
        f"fixed margin, β = {share:g} γ": (
            cosines(patterns, u, Rule(FREE_LENGTH, beta=beta), n_updates),
            bounds.free_length_onset(R, gamma_d, beta),
        ),
    }


def last_unhelpful(values: NDArray) -> int:
    """Give the number of the last update that did not turn towards the best direction.

    >>> last_unhelpful(np.array([0.1, 0.3, 0.2, 0.4]))
    3
    """
    falls = np.flatnonzero(np.diff(values) < -1e-12)
    return int(falls[-1]) + 2 if len(falls) else 1


def margin_ratio(
    problem: Problem, heights: NDArray
) -> tuple[NDArray, NDArray, NDArray]:
    """``gamma / gamma_d`` for each rho, with R / rho and its sharper form."""
    exact = MaxMarginClassifier(C=np.inf, tol=1e-9).fit(problem.X, problem.signs)
    gamma = float(exact.margin_)
    ratio = np.array([gamma / best_direction(problem, rho)[0] for rho in heights])
    longest = float(np.linalg.norm(problem.X, axis=1).max())
    reach = np.hypot(longest, heights)
    bound = np.array(
        [bounds.margin_ratio_bound(*pair) for pair in zip(reach, heights, strict=True)]
    )
    sharper = np.hypot(1.0, (longest - gamma) / heights)
    return ratio, bound, sharper


def search_table(
    problem: Problem, *, max_iter: int = 5000
) -> list[tuple[str, float, float, int, int]]:
    """List (method, margin, upper bound, sweeps, updates) for each method."""
    rows = []
    for method in (
        "bisection", "bisection2", "paper-bisection", "paper-bisection2", "dynamic",
        "dual",
    ):  # fmt: skip
        model = MaxMarginClassifier(
            method, C=np.inf, tol=0.05, max_iter=max_iter, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(problem.X, problem.signs)
        rows.append(
            (
                method, float(model.margin_), float(model.margin_upper_bound_),
                int(model.n_iter_), int(model.n_updates_),
            )
        )  # fmt: skip
    return rows


def _draw_steps(path: Path, steps: dict[str, tuple[NDArray, float]]) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, 2, sharey=True, figsize=(9, 3.8), layout="constrained"
    )
    for axes, (name, (values, onset)) in zip(panels, steps.items(), strict=True):
        t = np.arange(1, len(values) + 1)
        axes.loglog(t, np.maximum(1 - values, 1e-7), lw=1, color="C0")
        axes.axvline(onset, color="C3", ls="--", lw=1)
        axes.annotate(
            "$t_c$", (onset, 0.97), xycoords=("data", "axes fraction"),
            xytext=(-4, 0), textcoords="offset points", va="top", ha="right",
            color="C3",
        )  # fmt: skip
        right = 2 * max(onset, len(values))
        axes.set(title=name, xlabel="update t", xlim=(0.8, right))
        axes.grid(alpha=0.2)
    panels[0].set_ylabel("1 − cos(a, best direction)")
    save_figure(figure, path)


def _draw_ratios(path: Path, ratios: dict[str, Any], heights: NDArray) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.6, 4.0), layout="constrained")
    for i, (name, (ratio, bound, sharper)) in enumerate(ratios.items()):
        axes.loglog(heights, ratio, color=f"C{i}", marker="o", ms=3, label=name)
        axes.loglog(heights, bound, color=f"C{i}", ls="--", lw=1)
        axes.loglog(heights, sharper, color=f"C{i}", ls=":", lw=1)
    axes.plot([], [], "k--", lw=1, label="R/ρ (2.67)")
    axes.plot([], [], "k:", lw=1, label="sharper form")
    axes.set(xlabel="height ρ", ylabel="geometric / directional margin")
    axes.grid(alpha=0.2)
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def _print_variants(problems: list[Problem]) -> None:
    print("Updates against the bounds, rho = longest sample, beta = gamma_d / 2\n")
    print(f"{'set':<18}{'variant':<25}{'eq.':<6}{'updates':>9}{'bound':>12}"
          f"{'margin/best':>13}")  # fmt: skip
    for problem in problems:
        rho = float(np.linalg.norm(problem.X, axis=1).max())
        for name, variant, equation, updates, bound, share in variant_table(
            problem, rho
        ):
            print(f"{name:<18}{variant:<25}{equation:<6}{updates:>9}{bound:>12.4g}"
                  f"{share:>13.3f}")  # fmt: skip


def _print_searches(problems: list[Problem], budget: int) -> None:
    print("\nWays to the maximum margin (certified; geometric, with recentring)\n")
    print(f"{'set':<18}{'method':<17}{'margin':>11}{'at most':>11}{'gap':>9}"
          f"{'sweeps':>9}{'updates':>10}")  # fmt: skip
    for problem in problems:
        for method, margin, upper, sweeps, updates in search_table(
            problem, max_iter=budget
        ):
            print(f"{problem.name:<18}{method:<17}{margin:>11.5f}{upper:>11.5f}"
                  f"{1 - margin / upper:>9.3f}{sweeps:>9}{updates:>10}")  # fmt: skip


def _print_steps(steps: dict[str, dict[str, tuple[NDArray, float]]]) -> None:
    print("\nStepwise convergence: after t_c updates every one must help\n")
    print(f"{'set':<18}{'variant':<29}{'updates':>9}{'t_c':>10}{'last unhelpful':>16}")
    for name, runs in steps.items():
        for variant, (values, onset) in runs.items():
            print(f"{name:<18}{variant:<29}{len(values):>9}{onset:>10.1f}"
                  f"{last_unhelpful(values):>16}")  # fmt: skip


def _print_ratios(ratios: dict[str, Any], heights: NDArray) -> None:
    print("\ngamma / gamma_d as rho grows (bound R / rho in brackets)\n")
    shown = slice(None, None, 3)
    print(f"{'rho':<18}" + "".join(f"{rho:>18.3g}" for rho in heights[shown]))
    for name, (ratio, bound, _) in ratios.items():
        pairs = zip(ratio[shown], bound[shown], strict=True)
        cells = "".join(f"{f'{q:.3f} ({b:.3f})':>18}" for q, b in pairs)
        print(f"{name:<18}{cells}")


def main(quick: bool = False, out: Path | str | None = None) -> list[Path]:
    """Print the tables; save the figures if a folder is given."""
    problems = [known_margin_set(200, 5, 0.3), known_margin_set(200, 20, 0.3)]
    problems += [digit_pair(3, 8)] if quick else [digit_pair(3, 8), digit_pair(1, 7)]
    _print_variants(problems)
    raw = sonar()
    _print_searches(
        problems if raw is None else [*problems, raw], 300 if quick else 3000
    )
    if raw is None:
        print("sonar: data not found, set WIDEMARGIN_DATA")
    sets = {0.01: crossing_set(30, 0.9), 3.0: problems[1], 4.0: problems[2]}
    steps = {p.name: stepwise_convergence(p, rho) for rho, p in sets.items()}
    _print_steps(steps)
    heights = np.geomspace(0.1, 100.0, 7 if quick else 13)
    ratios = {p.name: margin_ratio(p, heights) for p in (problems[0], problems[2])}
    _print_ratios(ratios, heights)
    if out is None:
        return []
    names = ("perceptrons_stepwise.png", "perceptrons_margin_ratio.png")
    paths = [Path(out) / name for name in names]
    _draw_steps(paths[0], steps[problems[1].name])
    _draw_ratios(paths[1], ratios, heights)
    return paths
