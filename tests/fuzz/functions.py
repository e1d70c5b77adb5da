"""Random calls of every public function and of every component that is no classifier.

A public name is called by existing: its arguments are drawn by their names. A line in
`DRAWS` gives a function arguments that belong together, one in `ORACLES` an answer to
compare with.
"""

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from tests.contract.registry import NAMES, make
from tests.fuzz import deployed, oracles, values
from tests.fuzz.classifiers import Case, _stretch, classifier_case
from tests.fuzz.judge import RIGHT, Outcome, call, finite, parameters_of, wrong
from tests.fuzz.values import pick, rarely, show

from widemargin import margins, tangents

Rng = np.random.Generator
# Cases at a time, and seconds of one call.
CHUNK, SECONDS = 100, 20

PACKAGES = ("metrics", "margins", "tangents", "inspection", "datasets")
# Results that hold what another call found; their constructors take it as it is.
RECORDS = {"Alignment", "RepairedSpectrum", "ErrorRejectCurve", "MarginBound",
           "NearestRightWrong", "PerceptronBounds", "MarginLoss",
           "TangentGenerator", "ClassModelRates", "ErrorBounds", "GroupThresholds",
           "Rates"}  # fmt: skip


def public() -> dict[str, Any]:
    """Every function and class of the packages that hold no estimators."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(f"widemargin.{package}")
        for name in module.__all__:
            if callable(getattr(module, name)) and name not in RECORDS:
                found[f"{package}.{name}"] = getattr(module, name)
    return found


PUBLIC = public()
# Pictures cost a hundred times what numbers cost, files a thousand times.
COMMON = [n for n in PUBLIC if not n.startswith(("inspection", "datasets"))]
SELDOM = [n for n in PUBLIC if n not in COMMON]


def frames(rng: Rng, n: int, d: int) -> Any:
    """Tangents of n samples: separate, shared, of any rank, or none."""
    n_tangents = int(rng.integers(0, 4))
    raw = values.numbers(
        rng, (n, n_tangents, d) if rarely(rng, 0.7) else (n_tangents, d)
    )
    if rarely(rng, 0.1) and n_tangents > 1:
        raw[..., 0, :] = raw[..., 1, :]
    if rarely(rng, 0.05):
        return values.poisoned(rng, raw)
    if rarely(rng, 0.05):
        return values.bent(rng, raw)
    return raw.astype(np.float32) if rarely(rng, 0.3) else raw


def generator(rng: Rng, d: int) -> Any:
    return pick(
        rng,
        tangents.ImageTangents((2, d // 2 or 1)),
        tangents.ImageTangents((1, d), ("x_shift", "thickness")),
        tangents.SignalTangents(("shift", "scale")),
        tangents.SignalTangents(("offset", "slope")),
        tangents.TransformTangents([_stretch]),
        tangents.TangentUnion([tangents.SignalTangents(("shift",)),
                               tangents.TransformTangents({"a": _stretch})]),
        tangents.LearnedTangents(1),
    )  # fmt: skip


def argument(rng: Rng, owner: Any, name: str, n: int, d: int) -> Any:
    """A value for an argument, by its name alone."""
    if name in ("x", "y", "bundle") and getattr(owner, "__name__", "") in METRIC:
        held = values.matrix(rng, n, d, odd=0.05)
        try:
            return tangents.Bundle.from_tangents(held, values.numbers(rng, (1, d)))
        except (TypeError, ValueError):
            return held
    if name in ("X", "Y", "x", "y_aligned", "x_aligned", "prototypes", "points"):
        return values.matrix(rng, n, d)
    if name in (
        "y",
        "y_true",
        "y_pred",
        "labels",
        "prototype_labels",
        "reference_labels",
    ):
        return values.labels(rng, n, n_classes=2)
    if name in ("d_plus", "d_minus", "weights", "sample_weight", "confidence"):
        return values.vector(rng, n, low=0.0)
    if name == "margins":
        return values.vector(rng, n)
    if name == "K":
        K = values.numbers(rng, (n, n))
        return values.dressed(rng, pick(rng, K @ K.T, K + K.T, K))
    if name == "distances":
        return abs(values.numbers(rng, (n, n)))
    if name in ("tangents", "X_tangents", "Y_tangents"):
        return pick(rng, None, frames(rng, n, d), generator(rng, d))
    if name == "functions":
        return pick(rng, [_stretch], {"s": _stretch}, [_stretch, "no"], _stretch, [])
    if name == "generators":
        return pick(
            rng, [generator(rng, d)], [generator(rng, d), ("b", generator(rng, d))], []
        )
    if name == "estimator":
        return _fitted(rng, n, d)
    if name == "end":
        return pick(rng, "query", "reference", "z", None)
    if name == "loss":
        return pick(rng, "hinge", None, margins.Hinge(), margins.Hinge, 3)
    if name in ("kernel", "metric", "method", "sides", "formula", "variant"):
        return values.parameter(rng, owner, name, odd=0.1)
    if name == "coef":
        return values.vector(rng, d)
    if name == "intercept":
        return float(rng.normal())
    if name in ("data_home", "download_if_missing"):
        return {"data_home": "/nonexistent/fuzz", "download_if_missing": False}[name]
    return values.parameter(rng, owner, name)


METRIC = ("TangentMetric", "distances", "squared_distances", "warn_of_blanks")
_MODELS: dict[tuple, Any] = {}


def _fitted(rng: Rng, n: int, d: int) -> Any:
    name = pick(
        rng, "GLVQClassifier", "TangentKNeighborsClassifier", "MaxMarginClassifier"
    )
    if (name, d) not in _MODELS:
        draw = np.random.default_rng(0)
        X = draw.normal(size=(12, d))
        _MODELS[name, d] = make(name).fit(X, np.arange(12) % 2)
    if rarely(rng, 0.05):
        return pick(rng, None, make(name), "model", 3)
    return _MODELS[name, d]


def drawn(rng: Rng, function: Any, n: int, d: int) -> dict[str, Any]:
    """Keyword arguments: all that are needed, and some that are not."""
    given = {}
    for name, p in parameters_of(function).items():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if name in DRAWN_TOGETHER or p.default is p.empty or rarely(rng, 0.3):
            given[name] = argument(rng, function, name, n, d)
    if "shape" in given and rarely(rng, 0.7):
        given["shape"] = pick(rng, (1, d), (d, 1))
    return given


DRAWN_TOGETHER = {"data_home", "download_if_missing"}


def _square(rng: Rng, n: int, d: int) -> dict[str, Any]:
    sides = pick(rng, "both", "both", "query", "reference", "mean", "midpoint")
    m = int(rng.integers(1, 6))
    given = {"X": values.matrix(rng, n, d, odd=0.1), "sides": sides}
    if rarely(rng, 0.8):
        given["Y"] = values.matrix(rng, m, d, odd=0.1)
    if rarely(rng, 0.4):
        given["tangents"] = generator(rng, d)
    elif rarely(rng, 0.8):
        given["X_tangents"] = frames(rng, n, d)
        if "Y" in given:
            given["Y_tangents"] = frames(rng, m, d)
    if rarely(rng, 0.5):
        given["spring"] = values.parameter(rng, None, "spring", odd=0.1)
    return given


def _paired(rng: Rng, n: int, d: int) -> dict[str, Any]:
    given = _square(rng, n, d)
    given["Y"] = values.matrix(rng, n, d, odd=0.1)
    if "Y_tangents" in given:
        given["Y_tangents"] = frames(rng, n, d)
    return given


def _plane(rng: Rng, n: int, d: int) -> dict[str, Any]:
    y = pick(rng, values.labels(rng, n), np.where(np.arange(n) % 2, 1, -1))
    return {"X": values.matrix(rng, n, d), "coef": values.vector(rng, d),
            "intercept": pick(rng, 0.0, 1.5, np.nan, "a", [1.0]), "y": y}  # fmt: skip


def _rejection(rng: Rng, n: int, d: int) -> dict[str, Any]:
    given = {name: values.labels(rng, n, 0.1, 2) for name in ("y_true", "y_pred")}
    if rarely(rng, 0.7):
        given = dict.fromkeys(given, None)
        given["y_true"], given["y_pred"] = rng.integers(0, 2, size=(2, n))
    return given | {"confidence": values.vector(rng, n)}


def _threshold(rng: Rng, n: int, d: int) -> dict[str, Any]:
    name = pick(rng, "max_error", "coverage")
    held = {
        name: values.parameter(rng, None, name),
        "delta": values.parameter(rng, None, "delta"),
    }
    return _rejection(rng, n, d) | held


def _grouped(rng: Rng, n: int, d: int) -> dict[str, Any]:
    return _threshold(rng, n, d) | {"groups": values.labels(rng, n, n_classes=3)}


def _mistakes(rng: Rng, n: int, d: int) -> dict[str, Any]:
    return {"wrong": rng.random(n) < 0.3}


def _sets(rng: Rng, n: int, d: int) -> dict[str, Any]:
    y = rng.integers(0, 3, n)
    return {"y_true": y, "sets": rng.random((n, 2)) < 0.5, "classes": [0, 1]}


DRAWS: dict[str, Callable] = {
    "metrics.tangent_distances": _square,
    "metrics.tangent_alignment": _paired,
    "metrics.tangent_kernel": _square,
    "margins.directional_margin": _plane,
    "margins.geometric_margin": _plane,
    "margins.error_reject_curve": _rejection,
    "margins.reject_threshold": _threshold,
    "margins.reject_thresholds": _grouped,
    "margins.common_threshold": _grouped,
    "margins.error_bounds": _mistakes,
    "margins.class_model_rates": _sets,
}


def plain(*arrays: Any) -> bool:
    """Whether all are finite arrays of floats of ordinary size."""
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
            return False
        array = np.asarray(array, np.longdouble)
        held = np.abs(array[array != 0])
        if not np.isfinite(array).all() or (held.size and not (
            held.max() < 1e6 and held.min() > 1e-6
        )):  # fmt: skip
            return False
    return True


def _nearly_parallel(u: Any, v: Any, least: float) -> bool:
    """Whether two frames together have a direction that is next to nothing."""
    values = np.linalg.svd(np.concatenate([u, v]), compute_uv=False)
    return bool(((values > 1e-13) & (values < least)).any())


def _tangent_oracle(given: dict, result: Any) -> str:
    from tests.metrics.oracle import all_pairs

    X, Y = given["X"], given.get("Y")
    Y = X if Y is None else Y
    X, Y = (np.asarray(Z) if isinstance(Z, np.ndarray) else Z for Z in (X, Y))
    U, V = given.get("X_tangents"), given.get("Y_tangents")
    V = U if given.get("Y") is None and V is None else V
    sides = given.get("sides", "both")
    if "tangents" in given or sides == "midpoint" or U is None or V is None:
        return ""
    if not plain(X, Y, U, V) or given.get("squared", True) is not True:
        return ""
    for end, T, Z in (("query", U, X), ("reference", V, Y)):
        if T.ndim not in (2, 3) or (T.ndim == 3 and len(T) != len(Z)):
            seen = sides in ("both", "mean", end)
            return "tangents of other samples were taken" if seen else ""
    U, V = (np.broadcast_to(T, (len(Z), *T.shape[-2:])) for T, Z in ((U, X), (V, Y)))
    # In their own dtype, which decides what counts as dependent.
    F, G = (tangents.orthonormalize(T).astype(float) for T in (U, V))
    expected = all_pairs(X, F, Y, G, sides, float(given.get("spring", 1e-5)))
    largest = max(float(np.abs(Z).max(initial=0)) for Z in (X, Y))
    size = largest**2 * X.shape[1]
    single = np.float32 in (X.dtype, Y.dtype)
    off = (
        np.abs(result - expected) > 1e-2 * expected + (1e-4 if single else 1e-9) * size
    )
    if sides == "both" and given.get("spring", 1e-5) < 1e-9:
        # Nearly parallel frames, as of one span in two dtypes, are cut elsewhere; those
        # of float32 are known up to its rounding here.
        least = 1e-2 if np.float32 in (U.dtype, V.dtype) else 1e-5
        off &= [[not _nearly_parallel(u, v, least) for v in G] for u in F]
    return "tangent distances differ from least squares" if off.any() else ""


def _kernel_oracle(given: dict, result: Any) -> str:
    if (
        given.get("kernel", "rbf") == "rbf"
        and ((result < 0) | (result > 1 + 1e-6)).any()
    ):
        return "rbf kernel outside [0, 1]"
    return ""


def _relative_oracle(given: dict, result: Any) -> str:
    p, m = (np.asarray(given[k], oracles.WIDE) for k in ("d_plus", "d_minus"))
    sign = (m > p).astype(int) - (m < p)
    if (np.abs(result) > 1).any() or (np.sign(result) != sign).any():
        return "relative margin has the wrong sign or size"
    return ""


def _plane_oracle(given: dict, result: Any) -> str:
    if not plain(given["X"], given["coef"]):
        return ""
    X, w = (np.asarray(given[k], oracles.WIDE) for k in ("X", "coef"))
    w = w.ravel()
    b = float(np.asarray(given["intercept"]).ravel()[0])
    y = np.asarray(given["y"])
    if len(np.unique(y)) < 2:
        return ""
    sign = np.where(y == y.max(), 1, -1)
    want = sign * (X @ w + b)
    size = np.abs(X) @ np.abs(w) + abs(b)
    clear = np.abs(want) > 1e-5 * size
    if (np.sign(result) != np.sign(want))[clear].any():
        return "margin of a plane has the wrong sign"
    return ""


def _orthonormal_oracle(given: dict, result: Any) -> str:
    G = np.einsum("nif,njf->nij", *(np.asarray(result, float),) * 2)
    ones = np.einsum("nii->ni", G)
    off = G - np.einsum("ni,ij->nij", ones, np.eye(G.shape[1]))
    tol = 1e-3 if result.dtype == np.float32 else 1e-7
    if (
        np.abs(off).max(initial=0) > tol
        or (np.minimum(abs(ones), abs(ones - 1)) > tol).any()
    ):
        return "frames are not orthonormal"
    return ""


def _spectrum_oracle(given: dict, result: Any) -> str:
    if not plain(np.asarray(given["K"])) or given.get("method", "clip") == "none":
        return ""
    K, raw = np.asarray(result.K, float), np.asarray(given["K"])
    # What the rounding of the values may have made counts as zero.
    noise = 20 * len(K) ** 1.5 * np.finfo(raw.dtype).eps if raw.dtype.kind == "f" else 0
    if K.size and np.linalg.eigvalsh(K).min() < -max(1e-5, noise) * np.abs(raw).max():
        return "the repaired spectrum has a negative eigenvalue"
    return ""


def _curve_oracle(given: dict, result: Any) -> str:
    rates = np.concatenate([result.rejection_rate, result.error_rate])
    inside = (rates >= 0) & (rates <= 1) | np.isnan(rates)
    return "" if inside.all() else "rates outside [0, 1]"


def _weights_oracle(given: dict, result: Any) -> str:
    return "" if (np.asarray(result) >= 0).all() else "negative weights"


def _not_negative(given: dict, result: Any) -> str:
    return "" if (np.asarray(result) >= 0).all() else "negative distances"


ORACLES: dict[str, Callable[[dict, Any], str]] = {
    "metrics.tangent_distances": lambda g, r: (
        _not_negative(g, r) or _tangent_oracle(g, r)
    ),
    "metrics.image_distortion_distances": _not_negative,
    "metrics.pseudo_2d_distortion_distances": _not_negative,
    "metrics.tangent_kernel": _kernel_oracle,
    "metrics.repair_spectrum": _spectrum_oracle,
    "margins.relative_margin": _relative_oracle,
    "margins.directional_margin": _plane_oracle,
    "margins.geometric_margin": _plane_oracle,
    "margins.error_reject_curve": _curve_oracle,
    "margins.margin_reweight": _weights_oracle,
    "tangents.orthonormalize": _orthonormal_oracle,
}
# Infinity is what they document: no such model, no such bound, nothing answered.
INFINITE = {"margins.geometric_margin", "margins.directional_margin",
            "margins.relative_margin", "margins.hypothesis_margin",
            "margins.reject_threshold", "margins.reject_thresholds",
            "margins.common_threshold", "margins.class_model_rates",
            "margins.nearest_right_wrong", "margins.sample_margin"}  # fmt: skip


def function_case(rng: Rng, name: str) -> Case:
    """Call a public function, or make a component and ask it everything."""
    function = PUBLIC[name]
    n, d = int(rng.integers(1, 8)), int(pick(rng, 1, 2, 4, 4, 6))
    try:
        given = DRAWS.get(name, lambda *a: drawn(a[0], function, n, d))(rng, n, d)
    except NotFittedError:
        given = {}
    later: list[str] = []

    def describe() -> str:
        lines = [f"{key} = {show(value)}" for key, value in given.items()]
        passed = ", ".join(f"{key}={key}" for key in given)
        return "\n".join([*lines, f"widemargin.{name}({passed})", *later])

    names = {*parameters_of(function), name.rpartition(".")[2]}
    # A generator speaks for itself.
    names |= {held for held in tangents.__all__ if held[0].isupper()}
    outcomes: list[Outcome] = []
    if name.startswith("inspection."):
        _display(rng, name, function, n, d, outcomes, later)
        return outcomes, describe
    if isinstance(given.get("name"), str) and given["name"]:
        # What the caller wants its parameter to be called in messages.
        names = {*names, str(given["name"])}
    outcome = call(name, function, _names=names, **given)
    if name.startswith("datasets.") and "FileNotFoundError" in outcome.kind:
        return [Outcome("refused", name)], describe
    outcomes.append(outcome)
    if outcome.sort != RIGHT:
        return outcomes, describe
    if inspect.isclass(function):
        _component(rng, name, outcome.result, n, d, names, outcomes, later)
        return outcomes, describe
    result = outcome.result
    if not isinstance(result, tuple) and hasattr(result, "dtype"):
        held = np.asarray(result, float)
        if np.isnan(held).any() or (name not in INFINITE and not finite(held)):
            outcomes.append(wrong(name, "answer not finite", result=np.asarray(result)))
            return outcomes, describe
    if name in ORACLES:
        try:
            said = ORACLES[name](given, result)
        except Exception as error:
            said = f"oracle failed: {type(error).__name__} {error}"
        if said:
            outcomes.append(
                wrong(name, said, result=np.asarray(getattr(result, "K", result)))
            )
    return outcomes, describe


def _component(
    rng: Rng,
    name: str,
    held: Any,
    n: int,
    d: int,
    names: set,
    outcomes: list,
    later: list,
) -> None:
    """Ask everything of a loss, a generator of tangents, a smoother, a bundle."""
    asked = {"X": values.matrix(rng, n, d), "margin": values.vector(rng, n),
             "margins": values.vector(rng, n)}  # fmt: skip
    later += [f"{key} = {show(value)}" for key, value in asked.items()]
    more = {*names, *asked, "y", "vectors", "coefficients"}
    if isinstance(held, margins.MarginLoss):
        mu = values.vector(rng, n)
        later.append(f"mu = {show(mu)}")
        value = call(f"{name}.value", held.value, mu, _names=more)
        slope = call(f"{name}.derivative", held.derivative, mu, _names=more)
        outcomes += [value, slope]
        if value.sort == slope.sort == RIGHT and plain(mu) and mu.dtype == float:
            h = 1e-6 * (1 + np.abs(mu))
            at = [held.value(mu + step) for step in (-h, 0 * h, h)]
            # From the left or from the right: at a kink both are slopes.
            rough = np.array([at[1] - at[0], at[2] - at[1]]) / h
            size = np.abs(slope.result) + np.abs(rough).max(axis=0)
            size += np.abs(value.result) + 1e-9
            beta = abs(getattr(held, "beta", 1.0))
            off = np.abs(rough - slope.result).min(axis=0) > 1e-2 * size * (1 + beta)
            if off.any() and 1e-3 < beta < 1e3:
                outcomes.append(wrong(name, "derivative is not the slope", mu=mu,
                                      slope=slope.result, rough=rough))  # fmt: skip
        return
    if callable(getattr(held, "fit", None)):
        given = {"X": asked["X"]}
        if rarely(rng, 0.5):
            given["y"] = values.labels(rng, n)
            later.append(f"y = {show(given['y'])}")
        fitted = call(f"{name}.fit", held.fit, _names=more, **given)
        outcomes.append(fitted)
        if fitted.sort != RIGHT:
            return
        held = fitted.result
    elif callable(held):
        result = call(name, held, asked["X"], _names=more)
        outcomes.append(result)
        return
    for method in dir(type(held)):
        if method.startswith(("_", "set_", "get_", "fit", "index", "count")):
            continue
        thing = call(f"{name}.{method}", getattr, held, method, _names=more)
        outcomes.append(thing)
        # A parameter may hold a function: that one is not ours.
        if thing.sort != RIGHT or not callable(getattr(type(held), method, None)):
            continue
        wanted = parameters_of(thing.result)
        given = {
            key: asked["X"] if key == "X" else argument(rng, thing.result, key, n, d)
            for key, p in wanted.items()
            if (p.default is p.empty or rarely(rng, 0.2)) and p.kind in (0, 1, 3)
        }
        later.append(
            f"{method}: " + ", ".join(f"{k}={show(v)}" for k, v in given.items())
        )
        done = call(f"{name}.{method}", thing.result, _names={*more, *wanted}, **given)
        outcomes.append(done)
        if (
            done.sort == RIGHT
            and hasattr(done.result, "dtype")
            and not finite(done.result)
        ):
            outcomes.append(wrong(f"{name}.{method}", f"{method} not finite",
                                  result=done.result))  # fmt: skip


def _display(
    rng: Rng, name: str, display: Any, n: int, d: int, outcomes: list, later: list
) -> None:
    """Make a display by one of its ways and draw it."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg", force=True)
    import matplotlib.pyplot as plt

    ways = [w for w in dir(display) if w.startswith("from_")]
    way = getattr(display, pick(rng, *ways))
    given = drawn(rng, way, n, d)
    later.append(
        f"{way.__name__}: " + ", ".join(f"{k}={show(v)}" for k, v in given.items())
    )
    names = {*parameters_of(way), *parameters_of(display)}
    outcomes.append(call(f"{name}.{way.__name__}", way, _names=names, **given))
    plt.close("all")


def case(seed: int, number: int, only: str = "") -> Case:
    """The case of this number: the same on every machine that has the same kinds.

    `only` is a pattern that the names must hold to be drawn.
    """
    rng = np.random.default_rng([seed, number])
    if re.search(only, "deployed") and (only or rarely(rng, 0.1)):
        return deployed.case(rng)
    names = [name for name in NAMES if re.search(only, name)]
    others = [name for name in COMMON if re.search(only, name)]
    if names and (rarely(rng, 0.7) or not others):
        return classifier_case(rng, names[rng.integers(len(names))])
    if rarely(rng, 0.002) and not only:
        others = SELDOM
    return function_case(rng, others[rng.integers(len(others))])
