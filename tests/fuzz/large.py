"""Cases of real sizes: 200 to 20 000 samples, 10 to 2000 features, 2 to 100 classes.

A case has a kind, one after the other, so that all occur in any run as long as the
list. What a kind compares with, is in its docstring.
"""

import inspect
import pickle
import re
import resource
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from tests.contract.registry import NAMES, make, parameters
from tests.fuzz import classifiers, oracles, problems
from tests.fuzz.judge import REFUSED, RIGHT, Outcome, call, wrong
from tests.fuzz.problems import PARTITIONS, World, around, cuts

import widemargin

# Cases at a time, and seconds of one call.
CHUNK, SECONDS = 1, 60
WIDE = np.longdouble
# Rows and cells (rows times features) of a fit that takes some seconds.
LIGHT = {"DensityClassifier", "GLVQClassifier", "LVQClassifier", "MarginLVQClassifier",
         "TangentDensityClassifier", "TangentKNeighborsClassifier"}  # fmt: skip
ROWS = {"light": (20_000, 2_000_000), "heavy": (4_000, 400_000)}
# Learners whose time or memory is the square of the number of features or classes.
NARROW = {"GMLVQClassifier": 150, "InvariantHyperplaneSVC": 300, "TVQClassifier": 500,
          "HSSClassifier": 500, "TDNeuronClassifier": 200}  # fmt: skip
FEW = {"InvariantHyperplaneSVC": 20, "JitteredSVC": 30, "VirtualSVC": 30,
       "TDNeuronClassifier": 30, "DDAGClassifier": 30}  # fmt: skip
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "DensityClassifier": ({"gamma": 0.01},),
    "GLVQClassifier": ({"prototypes_per_class": 3}, {"loss": "rslvq"},
                       {"scale": "none"}),
    "GMLVQClassifier": ({"metric": "diagonal"}, {"metric": "local", "n_components": 3},
                        {"metric": "class"}, {"n_components": 2}),
    "HSSClassifier": ({"prototypes_per_class": 2, "n_tangents": 3},),
    "KernelLVQClassifier": ({"kernel": "linear"}, {"max_support": 50}),
    "LVQClassifier": ({"algorithm": "lvq1"}, {"algorithm": ("olvq1", "lvq3")},
                      {"prototypes_per_class": 4}),
    "MarginLVQClassifier": ({"decision": "k_nearest", "prototypes_per_class": 3},
                            {"decision": "parzen", "prototypes_per_class": 2},
                            {"update": "batch"}),
    "MarginPerceptron": ({"update": "relaxation"}, {"multiclass": "ovr"}),
    "MaxMarginClassifier": ({"multiclass": "ovr"}, {"multiclass": "ddag"}, {"C": 0.01},
                            {"kernel": "rbf"}, {"penalize_intercept": True}),
    "TangentDensityClassifier": ({"gamma": 0.01, "tangents": "none"},
                                 {"tangents": "none"}),
    "TangentKNeighborsClassifier": ({"n_neighbors": 5}, {"algorithm": "rerank"},
                                    {"n_neighbors": 9, "weights": "distance"}),
    "TangentSVC": ({"C": 1.0}, {"n_landmarks": 50}, {"kernel": "nd"},
                   {"multiclass": "ddag"}),
    "TVQClassifier": ({"prototypes_per_class": 2, "n_tangents": 2},),
}  # fmt: skip


class Case:
    """A world, samples of it, an estimator, and what became of them."""

    def __init__(
        self,
        rng: np.random.Generator,
        names: Any = NAMES,
        kinds: Any = problems.KINDS,
        n_classes: int | None = None,
        defaults: bool | None = None,
        share: float = 1.0,
    ):
        self.rng, self.outcomes, self.lines = rng, [], []
        names = sorted(names)
        self.name = names[rng.integers(len(names))]
        kind = kinds[rng.integers(len(kinds))]
        rows, cells = ROWS["light" if self.name in LIGHT else "heavy"]
        d = int(np.exp(rng.uniform(np.log(10), np.log(2000))))
        if kind == "wide":
            d = int(rng.integers(800, 2001))
        d = min(d, NARROW.get(self.name, d), int(share * cells / 200))
        most = np.log(min(rows, share * cells / d))
        n = int(np.exp(rng.uniform(np.log(200), most, size=2).max()))
        n = 267 if kind == "wide" else n
        c = int(rng.choice([2, 2, 3, 5, 10, 30, 100]))
        # Ten samples of a class, each of which a duplicated world has four times.
        copies = 4 if kind == "duplicated" else 1
        c = n_classes or max(2, min(c, FEW.get(self.name, c), n // (10 * copies)))
        self.world = World(kind, d, c, int(rng.integers(10**6)))
        self.X, self.y = self.world.train(n)
        self.say(f"world = {self.world!r}", f"X, y = world.train({n})")
        usual = bool(rng.random() < 0.4) if defaults is None else defaults
        self.model = self.make(self.name, usual)

    def make(self, name: str, defaults: bool) -> Any:
        """An estimator of this name, its settings among those in use."""
        options = ({}, *VARIANTS.get(name, ()))
        chosen = {} if defaults else options[self.rng.integers(len(options))]
        if not defaults:
            model = make(name, **chosen)
        else:
            there = parameters(name)
            given = {"random_state": 0} if "random_state" in there else {}
            empty = inspect.Parameter.empty
            needs = [key for key, p in there.items() if p.default is empty]
            asked = make(name).get_params(deep=False)
            model = getattr(widemargin, name)(
                **given, **{key: asked[key] for key in needs}
            )
        self.say(f"model = widemargin.{' '.join(repr(model).split())}")
        return model

    def say(self, *lines: str) -> None:
        self.lines += lines

    def fresh(self, n: int, draw: int = 1) -> tuple[Any, np.ndarray]:
        return self.world.fresh(n, draw)

    def dense(self) -> None:
        """Go on with arrays where a sparse matrix is no point of it."""
        if sparse.issparse(self.X):
            self.X = self.X.toarray()
            self.say("X = X.toarray()")

    def call(self, title: str, function: Callable, *args: Any, **options: Any) -> Any:
        """Result of a call, None where it was refused or went wrong."""
        names = {"X", "y", "Q", self.name, *parameters(self.name)}
        inner = getattr(self.model, "estimator", None)
        if hasattr(inner, "get_params"):
            names |= {*inner.get_params(deep=False)}
        said = call(f"{self.name}.{title}", function, *args, _names=names, **options)
        self.outcomes.append(said)
        return said.result if said.sort == RIGHT else None

    def fit(self, model: Any = None, X: Any = None, y: Any = None) -> Any:
        """The fitted model, None where it was refused."""
        model = self.model if model is None else model
        X, y = (self.X if X is None else X), (self.y if y is None else y)
        return self.call("fit", model.fit, X, y)

    def wrong(self, what: str, **values: Any) -> None:
        self.outcomes.append(wrong(self.name, what, **values))

    def same(self, what: str, one: Any, other: Any, model: Any, Q: Any) -> None:
        """Labels are equal where the model is sure; rounding decides close calls."""
        one, other = np.asarray(one), np.asarray(other)
        sure = np.asarray(model.confidence(Q))
        close = sure <= 1e-5 * np.abs(sure).max()
        if getattr(model, "margin_unit", "") in ("relative", "vote_fraction"):
            close |= sure <= 1e-5
        bad = (one != other) & ~close
        if bad.any():
            self.wrong(what, n_bad=int(bad.sum()), n=len(bad), at=np.flatnonzero(bad),
                       one=one[bad][:5], other=other[bad][:5], sure=sure[bad][:5]
                       )  # fmt: skip


def numbers(values: Any) -> np.ndarray:
    """Any array as numbers of NumPy."""
    if hasattr(values, "compute"):
        values = values.compute()
    return np.asarray(values.detach() if hasattr(values, "detach") else values)


def dense(X: Any) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def near(one: Any, other: Any, rtol: float = 1e-6) -> bool:
    """Whether numbers agree to a share of the largest of them."""
    one, other = numbers(one).astype(float), numbers(other).astype(float)
    if one.shape != other.shape:
        return False
    size = np.abs(one[np.isfinite(one)]).max(initial=0)
    return bool(np.allclose(one, other, rtol=rtol, atol=rtol * size, equal_nan=True))


def answers(rng: Any) -> Case:
    """What the contract says; nearest by brute force; a row alone, a batch turned."""
    case = Case(rng)
    model = case.fit()
    if model is None:
        return case
    Q, _ = case.fresh(200)
    case.say("model.fit(X, y); Q, q = world.fresh(200)")
    names = {*parameters(case.name), "X", "y", case.name}
    said = classifiers.ask(model, case.name, Q, names, case.outcomes)
    if "predict" not in said:
        return case
    case.outcomes += classifiers.check(model, case.name, Q, said, rng)
    if not sparse.issparse(Q) and not sparse.issparse(case.X) and len(case.X) <= 4000:
        few = {key: value[:8] for key, value in said.items()
               if not isinstance(value, tuple)}  # fmt: skip
        case.outcomes += oracles.model(
            model, case.name, case.X, case.y, Q[:8], few, rng
        )
    predicted = said["predict"]
    rows = rng.integers(200, size=12)
    alone = [model.predict(Q[[i]])[0] for i in rows]
    if hasattr(model, "confidence"):
        case.same("one row alone", alone, predicted[rows], model, Q[rows])
        turned = rng.permutation(200)
        case.same("rows in another order", model.predict(Q[turned]), predicted[turned],
                  model, Q[turned])  # fmt: skip
    return case


def again(rng: Any) -> Case:
    """The same fit twice, in rows of another memory order: the same answers."""
    case = Case(rng, share=0.5)
    case.dense()
    Q = dense(case.fresh(300)[0])
    one = case.fit()
    if one is None:
        return case
    labels, shares = one.predict(Q), one.decision_function(Q)
    there = pickle.loads(pickle.dumps(one))
    other = case.fit(X=np.asfortranarray(case.X))
    if other is None:
        case.wrong("columns in memory are refused")
        return case
    case.same("fitted again", other.predict(Q), labels, there, Q)
    if not near(other.decision_function(Q), shares, 1e-4):
        case.wrong("decision of the second fit", one=shares[:3],
                   other=other.decision_function(Q)[:3])  # fmt: skip
    return case


def neighbours(rng: Any) -> Case:
    """Distances and neighbours by brute force, with and without tangents."""
    from widemargin.metrics import tangent_distances
    from widemargin.tangents import SignalTangents

    case = Case(rng, ["TangentKNeighborsClassifier"])
    case.dense()
    d = case.X.shape[1]
    kinds = ("none", "none", "shared", "signals")
    kind = kinds[rng.integers(4)]
    if kind != "none" and len(case.X) > 3000:
        case.X, case.y = case.X[:3000], case.y[:3000]
        case.say("X, y = X[:3000], y[:3000]")
    tangents = {
        "none": "none",
        "shared": np.eye(2, d) + 0.1,
        "signals": SignalTangents(),
    }[kind]
    dtype = (np.float64, np.float32)[rng.integers(2)]
    k = int(rng.choice([1, 3, 10]))
    sides = ("both", "query", "reference", "mean")[rng.integers(4)]
    settings = {"tangents": tangents, "sides": sides, "n_neighbors": k}
    case.model = widemargin.TangentKNeighborsClassifier(**settings)
    case.say(f"model = TangentKNeighborsClassifier(**{settings}).fit(X, y) # {dtype}")
    X, Q = case.X.astype(dtype), dense(case.fresh(20)[0]).astype(dtype)
    Q = np.concatenate([Q, X[:4], (X[4:8] + X[8:12]) / 2, 50 * X[:2]])
    model = case.fit(X=X)
    if model is None:
        return case
    found = case.call("kneighbors", model.kneighbors, Q, k)
    if found is None:
        return case
    if kind == "none":
        D = np.array([oracles.squares(row[None], X)[0] for row in Q])
    else:
        # Without chunks, in double precision.
        D = tangent_distances(Q.astype(float), X.astype(float), tangents=tangents,
                              sides=sides)  # fmt: skip
    D = np.sqrt(np.maximum(D, 0)).astype(float)
    distances, at = found
    rows = np.arange(len(Q))[:, None]
    best = np.sort(D, axis=1)[:, :k]
    # Squares of numbers of the size of the samples round.
    squares = (X.astype(float) ** 2).sum(axis=1).max()
    size = np.sqrt(squares + (Q.astype(float) ** 2).sum(axis=1, keepdims=True))
    error = 64 * np.sqrt(np.finfo(dtype).eps) * size + 1e-6 * best
    if (np.abs(distances - D[rows, at]) > error).any():
        case.wrong("distance of a neighbour", said=distances, true=D[rows, at])
    if (D[rows, at] > best + error).any():
        case.wrong("not the nearest", said=D[rows, at], best=best)
    if kind == "none" and dtype is np.float64 and case.world.kind != "offset":
        exact = 1e-9 * (best + size)
        if (D[rows, at] > best + exact).any():
            case.wrong("not the nearest of float64", said=D[rows, at], best=best)
    return case


def distances(rng: Any) -> Case:
    """Tangent distances by least squares, pair by pair."""
    from widemargin.metrics import tangent_distances

    case = Case(rng, ["TangentKNeighborsClassifier"], share=0.3)
    case.dense()
    X, d = case.X, case.X.shape[1]
    n_tangents = int(rng.integers(1, 7))
    drawn = np.random.default_rng(0)
    U, V = (drawn.normal(size=(n, n_tangents, d)) * X.std() for n in (30, len(X[:500])))
    sides = ("query", "reference", "both")[rng.integers(3)]
    case.say(
        f"tangent_distances(X[:30], X[:500], X_tangents=U, Y_tangents=V, "
        f"sides={sides!r}, spring=0) with {n_tangents} tangents of rng(0) * X.std()"
    )
    tangents = {"query": {"X_tangents": U}, "reference": {"Y_tangents": V},
                "both": {"X_tangents": U, "Y_tangents": V}}[sides]  # fmt: skip
    D = case.call("tangent_distances", tangent_distances, X[:30], X[:500], sides=sides,
                  spring=0.0, **tangents)  # fmt: skip
    if D is None:
        return case
    size = (X**2).sum(axis=1).max()
    pairs = np.column_stack([rng.integers(m, size=20) for m in (len(U), len(V))])
    for i, j in pairs:
        T = np.concatenate([*([U[i]] if sides != "reference" else []),
                            *([V[j]] if sides != "query" else [])])  # fmt: skip
        Z = X[i] - X[j]
        basis = np.linalg.qr(T.T)[0]
        left = Z - basis @ (basis.T @ Z)
        if abs(left @ left - D[i, j]) > 1e-8 * (size + Z @ Z):
            case.wrong("tangent distance", i=i, j=j, said=D[i, j], true=left @ left)
            break
    return case


def planes_of(model: Any, y: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Problems of a hyperplane classifier: number, rows, and signs of these."""
    c = len(model.classes_)
    codes = np.searchsorted(model.classes_, y)
    if c == 2:
        return [(0, np.arange(len(y)), np.where(codes == 1, 1.0, -1.0))]
    if model.multiclass == "ovr":
        every = np.arange(len(y))
        return [(k, every, np.where(codes == k, 1.0, -1.0)) for k in range(c)]
    pairs = [(i, j) for i in range(c) for j in range(i + 1, c)]
    out = []
    for number, (i, j) in enumerate(pairs):
        rows = np.flatnonzero((codes == i) | (codes == j))
        out.append((number, rows, np.where(codes[rows] == j, 1.0, -1.0)))
    return out


def reached(model: Any, number: int, X: np.ndarray, signs: Any, C: Any) -> float:
    """Margin of a stored plane in extended precision, of soft ones that with slack."""
    w, b = model.coef_[number].astype(WIDE), WIDE(model.intercept_[number])
    t = signs * (X.astype(WIDE) @ w + b)
    if not np.isfinite(C).all():
        return float(t.min() / np.sqrt(w @ w))
    norm = WIDE(np.atleast_1d(model.weight_norm_)[number])
    slack = np.maximum(0, 1 - norm * t)
    return float(1 / np.sqrt(norm**2 * (w @ w) + 2 * (C * slack**2).sum()))


def certificates(rng: Any) -> Case:
    """What one fit has reached is below the bound of every other, whatever its way."""
    hard = rng.random() < 0.3
    kinds = ("plain", "imbalanced", "duplicated", "wide", "noisy", "mixed units",
             "offset", "lattice")  # fmt: skip
    case = Case(rng, ["MaxMarginClassifier"], kinds, share=0.5)
    case.dense()
    if len(case.world.law["shares"]) > 10:
        few = np.isin(case.y, np.unique(case.y)[:6])
        case.X, case.y = case.X[few], case.y[few]
        case.say("few = np.isin(y, np.unique(y)[:6]); X, y = X[few], y[few]")
    C = np.inf if hard else float(10.0 ** rng.uniform(-3, 3))
    weights = None
    if not hard and rng.random() < 0.4:
        weights = rng.integers(1, 4, size=len(case.y)).astype(float)
        case.say("weights are integers from 1 to 3")
    scheme = ("ovo", "ovr")[rng.integers(2)]
    order = rng.permutation(len(case.y))
    ways = [{"tol": 1e-3}, {"tol": 1e-5}, {"tol": 1e-3, "order": True}]
    if len(case.y) * case.X.shape[1] <= 50_000 and rng.random() < 0.3:
        ways.append({"tol": 0.1, "method": "bisection"})
    if have("dask"):
        ways.append({"tol": 1e-3, "blocks": PARTITIONS[rng.integers(len(PARTITIONS))]})
    done = []
    for way in ways:
        options = {key: way[key] for key in ("tol", "method") if key in way}
        model = widemargin.MaxMarginClassifier(
            C=C, multiclass=scheme, random_state=0, max_iter=2000, **options
        )
        X, y, w = case.X, case.y, weights
        data: Any = X
        if "blocks" in way:
            turned, sizes = cuts(rng, y, way["blocks"])
            X, y, w = X[turned], y[turned], None if w is None else w[turned]
            data = lazily(X, sizes)
            case.say(f"a fit over blocks: {way['blocks']}, sizes {sizes}")
        elif way.get("order"):
            X, y, w = X[order], y[order], None if w is None else w[order]
            data = X
        given = {} if w is None else {"sample_weight": w}
        case.say(f"model = {model!r} {way}")
        said = case.call("fit", model.fit, data, y, **given)
        if said is not None:
            way["told"] = case.outcomes[-1].told
            done.append((way, model, X, y, w))
    best: dict[int, tuple] = {}
    least: dict[int, tuple] = {}
    for way, model, X, y, w in done:
        margins = np.atleast_1d(model.margin_)
        uppers = np.atleast_1d(model.margin_upper_bound_)
        for number, rows, signs in planes_of(model, y):
            prices = C if w is None else C * w[rows]
            true = reached(model, number, X[rows], signs, prices)
            if margins[number] > true * (1 + 1e-9) + 1e-300 and np.isfinite(true):
                case.wrong("margin above what the plane reaches", way=str(way),
                           number=number, said=margins[number], true=true)  # fmt: skip
            if margins[number] > uppers[number] * (1 + 1e-12):
                case.wrong("margin above its bound", way=str(way), said=margins[number],
                           upper=uppers[number])  # fmt: skip
            if number not in best or true > best[number][0]:
                best[number] = (true, way)
            if number not in least or uppers[number] < least[number][0]:
                least[number] = (uppers[number], way)
        gap = np.atleast_1d(model.gap_)
        if (gap > model.tol).any() and not way["told"]:
            case.wrong("gap above tol, not told", way=str(way), gap=gap.max())
    for number, (true, way) in best.items():
        upper, of = least[number]
        if true > upper * (1 + 1e-9):
            case.wrong("bound below a margin that is reached", reached_by=str(way),
                       bound_of=str(of), true=true, upper=upper)  # fmt: skip
            break
    return case


def radii(rng: Any) -> Case:
    """Attacks on certified radii: the straight way to all prototypes of others."""
    names = [n for n in NAMES if hasattr(getattr(widemargin, n), "certified_radius")]
    # Those of kernels and dissimilarities are in a space of their own.
    names = [n for n in names if not re.match("Kernel|Relational", n)]
    case = Case(rng, names, share=0.5)
    case.dense()
    model = case.fit()
    if model is None:
        return case
    Q = dense(case.fresh(40)[0])
    try:
        method = model.certified_radius
    except AttributeError:
        return case
    radius = case.call("certified_radius", method, Q)
    if radius is None:
        return case
    answers, points = model.predict(Q), numbers(getattr(model, "prototypes_", case.X))
    ways = [*points[rng.integers(len(points), size=30)], *Q[:10],
            *rng.normal(size=(5, Q.shape[1])) * Q.std(axis=0)]  # fmt: skip
    for target in ways:
        away = target - Q
        length = np.linalg.norm(away, axis=1, keepdims=True)
        step = away / np.where(length == 0, 1, length)
        moved = Q + 0.999 * radius[:, None] * step
        changed = (model.predict(moved) != answers) & (radius > 1e-6 * np.abs(Q).max())
        if changed.any():
            case.wrong("answer changes within certified_radius", radius=radius[changed],
                       Q=Q[changed][:1])  # fmt: skip
            break
    return case


def lazily(X: Any, sizes: tuple[int, ...]) -> Any:
    """Rows in blocks of these sizes, columns whole."""
    import dask.array as da

    return da.from_array(X, chunks=(sizes, X.shape[1]))


def have(*modules: str) -> bool:
    """Whether they can be imported."""
    from importlib.util import find_spec

    return all(find_spec(module) for module in modules)


LAZY = [n for n in NAMES if "fit" in getattr(widemargin, n).lazy_methods]
TENSOR = [n for n in NAMES if "fit" in getattr(widemargin, n).device_methods]


def held_out(model: Any, case: Case, Q: Any, q: np.ndarray) -> float:
    return float(np.mean(numbers(model.predict(Q)) == q))


def log_ratios(model: Any, Q: Any) -> np.ndarray:
    """Logarithms of densities by the largest of them, or of the two classes' ratio."""
    D = model.temperature_ * numbers(model.decision_function(Q))
    return D if D.ndim == 1 else D - D.max(axis=1, keepdims=True)


def clusters(rng: Any) -> Case:
    """A fit over odd blocks is right as often as the local one, on fresh samples."""
    case = Case(rng, LAZY, share=0.3)
    case.dense()
    if not have("dask"):
        return case
    import dask
    from sklearn.base import clone

    if case.name == "MarginLVQClassifier":
        case.model.set_params(update="batch")
    if case.name == "MaxMarginClassifier":
        # Planes of a collection are linear.
        case.model.set_params(penalize_intercept=False, kernel="linear")
    kind = PARTITIONS[rng.integers(len(PARTITIONS))]
    order, sizes = cuts(rng, case.y, kind)
    case.say(f"rows are {kind}, blocks of {sizes}")
    X, y = case.X[order], case.y[order]
    Q, q = case.fresh(1000)
    Q = dense(Q)
    with dask.config.set(scheduler="synchronous"):
        here, there = case.fit(clone(case.model), X, y), clone(case.model)
        there = case.fit(there, lazily(X, sizes), y)
        if here is None or there is None:
            if (here is None) != (there is None):
                case.wrong("refused in one place only", here=here is None)
            return case
        one, other = (held_out(m, case, Q, q) for m in (here, there))
        if other < one - 0.06:
            case.wrong("fit over blocks is worse", local=one, blocks=other)
        asked = lazily(Q, (300, 0, 1, 699))
        labels = case.call("predict", there.predict, asked)
        if labels is None:
            return case
        case.same("lazy answers", labels.compute(), there.predict(Q), there, Q)
        if case.name == "TangentKNeighborsClassifier":
            labels = here.predict(Q)
            case.same("neighbours in blocks", there.predict(Q), labels, here, Q)
        elif "Density" in case.name and here.gamma_ == there.gamma_:
            # Each has a temperature of the samples that it has left out.
            one, other = (log_ratios(m, Q) for m in (here, there))
            if not near(one, other):
                case.wrong("densities in blocks", one=one[:3], other=other[:3])
        if hasattr(there, "predict_proba"):
            case.call("predict_proba", there.predict_proba, Q)
            gap = mistaken(there, Q, q)
            if gap > 0.09 and gap > mistaken(here, Q, q) + 0.04:
                case.wrong("less calibrated than the local fit", blocks=gap,
                           local=mistaken(here, Q, q))  # fmt: skip
    return case


def tensors(rng: Any) -> Case:
    """Tensors, taken for those of a device too: the answers of NumPy's arrays."""
    case = Case(rng, TENSOR, share=0.2)
    case.dense()
    if not have("torch"):
        return case
    import sklearn
    import torch
    from sklearn.base import clone

    from widemargin._core import arrays

    torch.set_num_threads(1)
    dtype = (np.float64, np.float32)[rng.integers(2)]
    there_ = bool(rng.integers(2))
    case.say(f"tensors of {np.dtype(dtype)}, as on a device: {there_}")
    X = case.X.astype(dtype)
    Q, q = case.fresh(600)
    Q = dense(Q).astype(dtype)
    before = arrays.EVERY_TENSOR_IS_ON_A_DEVICE
    try:
        arrays.EVERY_TENSOR_IS_ON_A_DEVICE = there_
        with sklearn.config_context(array_api_dispatch=True):
            here = case.fit(clone(case.model), X)
            if here is None:
                return case
            labels = case.call("predict", here.predict, torch.tensor(Q))
            if labels is not None:
                case.same("tensors asked", labels, here.predict(Q), here, Q)
            scores = case.call("decision_function", here.decision_function,
                               torch.tensor(Q))  # fmt: skip
            rtol = 1e-6 if dtype is np.float64 else 2e-3
            if scores is not None and not near(scores, here.decision_function(Q), rtol):
                case.wrong("scores of tensors", tensors=numbers(scores)[:3],
                           arrays=here.decision_function(Q)[:3])  # fmt: skip
            there = case.fit(clone(case.model), torch.tensor(X))
            if there is None:
                return case
            one, other = held_out(here, case, Q, q), held_out(there, case, Q, q)
            if other < one - 0.06:
                case.wrong("fit of tensors is worse", local=one, tensors=other)
            if hasattr(there, "predict_proba"):
                gap = mistaken(there, Q, q)
                if gap > 0.09 and gap > mistaken(here, Q, q) + 0.04:
                    case.wrong("less calibrated than the fit of arrays", tensors=gap,
                               arrays=mistaken(here, Q, q))  # fmt: skip
    finally:
        arrays.EVERY_TENSOR_IS_ON_A_DEVICE = before
    return case


def containers(rng: Any) -> Case:
    """Sparse matrices, frames and views are the arrays that they hold."""
    from sklearn.base import clone

    case = Case(rng, share=0.3)
    X, Q = dense(case.X), dense(case.fresh(150)[0])
    kinds = ["sparse", "pandas", "polars", "read-only", "strided", "float32"]
    kind = kinds[rng.integers(len(kinds))]
    case.say(f"as {kind}, against arrays")
    if kind in ("pandas", "polars") and not have(kind):
        return case
    names = [f"f{j}" for j in range(X.shape[1])]

    def held(array: np.ndarray) -> Any:
        if kind == "sparse":
            return sparse.csr_array(array)
        if kind == "pandas":
            import pandas

            return pandas.DataFrame(array, columns=names)
        if kind == "polars":
            import polars

            return polars.DataFrame(array, schema=names)
        if kind == "read-only":
            copy = array.copy()
            copy.flags.writeable = False
            return copy
        if kind == "strided":
            return np.repeat(array, 2, axis=0)[::2]
        return array.astype(np.float32)

    here = case.fit(clone(case.model), X)
    if here is None:
        return case
    there = clone(case.model)
    said = call(f"{case.name}.fit", there.fit, held(X), case.y,
                _names={"X", "sparse", *parameters(case.name)})  # fmt: skip
    case.outcomes.append(said)
    if said.sort != RIGHT:
        if kind != "sparse" and said.sort == REFUSED:
            case.wrong(f"refused as {kind}", kind=said.kind)
        return case
    if kind == "float32":
        q = case.fresh(150)[1]
        one, other = (held_out(m, case, Z, q) for m, Z in ((here, Q), (there, held(Q))))
        # Samples that are far from the origin lose digits, and may lose answers.
        if other < one - 0.1 and case.world.kind not in ("offset", "mixed units"):
            case.wrong("worse in float32", double=one, single=other)
        return case
    labels = case.call("predict", there.predict, held(Q))
    if labels is None:
        case.wrong(f"no answers about {kind}")
        return case
    # Another summation may take another way; what it learns is as right.
    bad = np.mean(labels != here.predict(Q))
    if bad > (0.05 if kind == "sparse" else 0):
        case.wrong(f"other answers as {kind}", share=bad)
    return case


def saved(rng: Any) -> Case:
    """What is written and read again answers bit by bit as before."""
    import joblib

    case = Case(rng, share=0.3)
    piped = rng.random() < 0.3
    if piped:
        case.model = make_pipeline(MaxAbsScaler(), case.model)
        case.say("model = make_pipeline(MaxAbsScaler(), model)")
    model = case.fit()
    if model is None:
        return case
    Q = case.fresh(150)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        joblib.dump(model, path)
        others = [joblib.load(path), pickle.loads(pickle.dumps(model))]
        if have("skops"):
            said = call(f"{case.name}.save", widemargin.save, model, path,
                        _names={"model", *parameters(case.name)})  # fmt: skip
            case.outcomes.append(said)
            if said.sort == RIGHT:
                others.append(case.call("load", widemargin.load, path))
    for i, other in enumerate(o for o in others if o is not None):
        for method in ("predict", "decision_function", "predict_proba", "confidence"):
            if callable(getattr(model, method, None)):
                one, two = getattr(model, method)(Q), getattr(other, method)(Q)
                if not np.array_equal(one, two):
                    case.wrong(f"{method} of what was read, way {i}", one=one[:3],
                               other=two[:3])  # fmt: skip
    return case


@contextmanager
def all_memory():
    """Lift the limit: sanitisers map terabytes that they never write to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def exported(rng: Any) -> Case:
    """Graphs and headers answer near, between and far as Python does."""
    from widemargin.export import NotExportable, check_export, to_c, to_onnx

    case = Case(rng, share=0.2)
    case.dense()
    way = rng.integers(3)
    if way == 1:
        case.model = make_pipeline(StandardScaler(), case.model)
        case.say("model = make_pipeline(StandardScaler(), model)")
    elif way == 2 and case.name != "RejectingClassifier":
        case.model = widemargin.RejectingClassifier(
            case.model, coverage=0.8, random_state=0
        )
        case.say("model = RejectingClassifier(model, coverage=0.8, random_state=0)")
    model = case.fit()
    if model is None:
        return case
    P = around(case.X, np.random.default_rng(0), 150).astype(np.float32)
    case.say("P = problems.around(X, np.random.default_rng(0), 150).astype('f4')")
    ways = [("onnx", to_onnx, "float32"), ("onnx", to_onnx, "float64")]
    ways += [("c", to_c, "float32"), ("c", to_c, "int8")]
    for kind, write, dtype in ways:
        if kind == "onnx" and not have("onnx", "onnxruntime"):
            continue
        try:
            text = write(model, dtype=dtype)
        except NotExportable:
            case.outcomes.append(Outcome(REFUSED, f"{case.name}.{kind}"))
            continue
        if isinstance(text, str) and len(text) > 3_000_000:
            continue
        with all_memory():
            agreed = case.call(f"check {kind} {dtype}", check_export, model, text, P)
        # Planes of features far from zero have fewer digits in float32, see `to_c`.
        far = case.world.kind == "offset" and way != 1 and dtype == "float32"
        if far and agreed is not None and not agreed.n_wrong:
            continue
        if agreed is not None and not agreed.agrees:
            case.wrong(f"exported to {kind} in {dtype}", said=str(agreed),
                       n_wrong=agreed.n_wrong)  # fmt: skip
    return case


def mistaken(model: Any, Q: Any, q: np.ndarray) -> float:
    """Mean probability of the answer less the share that is right, without its sign."""
    shares = numbers(model.predict_proba(Q))
    right = np.asarray(model.classes_)[shares.argmax(axis=1)] == q
    return float(abs(shares.max(axis=1).mean() - right.mean()))


# One that rejects has the probabilities of what it wraps.
PROBABLE = [n for n in NAMES if hasattr(getattr(widemargin, n), "predict_proba")
            and n != "RejectingClassifier"]  # fmt: skip


def calibrated(rng: Any) -> Case:
    """Probabilities of the answer, at the defaults, are shares of fresh samples."""
    kinds = ("imbalanced", "duplicated", "wide", "one-hot", "mixed units", "plain",
             "curved", "noisy")  # fmt: skip
    case = Case(rng, PROBABLE, kinds, defaults=True, share=0.5)
    model = case.fit()
    if model is None or not hasattr(model, "predict_proba"):
        return case
    Q, q = case.fresh(3000)
    gap = case.call("predict_proba", mistaken, model, Q, q)
    n = len(case.y) // (4 if case.world.kind == "duplicated" else 1)
    allowed = (0.05 if n >= 200 else 0.08) + 2.5 * 0.5 / np.sqrt(3000)
    if n < 100:
        # So few tell a share by chance.
        allowed += 2.5 * 0.5 / np.sqrt(n)
    if gap is not None and gap > allowed:
        shares = model.predict_proba(Q).max(axis=1).mean()
        case.wrong("probability of the answer", said=shares,
                   right=held_out(model, case, Q, q), allowed=allowed)  # fmt: skip
    return case


def guarantees(rng: Any) -> Case:
    """Of many draws, at most a share of delta breaks the guarantee."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    kinds = ("plain", "imbalanced", "noisy", "curved", "lattice")
    case = Case(rng, ["RejectingClassifier"], kinds, share=0.02)
    inner = [widemargin.LVQClassifier(1, max_iter=3, random_state=0), GaussianNB(),
             widemargin.TangentKNeighborsClassifier(5, tangents="none"),
             LogisticRegression(max_iter=50)][rng.integers(4)]  # fmt: skip
    n, delta, n_draws = int(rng.integers(300, 800)), 0.1, 24
    guarantee = [{"max_error": 0.1}, {"max_error": 0.02}, {"coverage": 0.7},
               {"max_error": 0.1, "outlier_fraction": 0.05}]  # fmt: skip
    guarantee = guarantee[rng.integers(4)]
    if "outlier_fraction" in guarantee and not hasattr(inner, "kneighbors"):
        guarantee = {"max_error": 0.1}
    Q, q = case.fresh(4000, 10**6)
    broken = 0
    for draw in range(n_draws):
        X, y = case.fresh(n, draw + 2)
        model = widemargin.RejectingClassifier(
            inner, delta=delta, random_state=draw, **guarantee
        )
        if draw == 0:
            case.say(f"model = {model!r}", "Q, q = world.fresh(4000, 10**6)")
            case.say(f"{n_draws} times X, y = world.fresh({n}, draw + 2)")
        if case.fit(model, X, y) is None:
            return case
        accepted = model.accepts(Q)
        if "coverage" in guarantee:
            short = guarantee["coverage"] - accepted.mean()
            broken += short > 2 * np.sqrt(0.25 / len(q))
        elif accepted.any():
            error = np.mean(model.predict(Q[accepted]) != q[accepted])
            target = guarantee["max_error"]
            noise = np.sqrt(target * (1 - target) / accepted.sum())
            broken += error > target + 2 * noise
    if broken / n_draws > delta + 3 * np.sqrt(delta * (1 - delta) / n_draws):
        case.wrong("guarantee broken too often", broken=broken, of=n_draws)
    return case


def pipelines(rng: Any) -> Case:
    """A pipeline is its steps one after the other; a search finds the same model."""
    from sklearn.base import clone
    from sklearn.decomposition import PCA
    from sklearn.model_selection import GridSearchCV

    case = Case(rng, share=0.15)
    case.dense()
    # A randomised one has another map in fit_transform than in transform.
    steps = [StandardScaler(), PCA(min(8, case.X.shape[1]), svd_solver="full")]
    Q = dense(case.fresh(150)[0])
    piped = case.fit(make_pipeline(*steps, clone(case.model)))
    if piped is None:
        return case
    before = make_pipeline(*map(clone, steps)).fit(case.X)
    alone = case.fit(clone(case.model), before.transform(case.X))
    if alone is None:
        return case
    Z = before.transform(Q)
    case.same("pipeline", piped.predict(Q), alone.predict(Z), alone, Z)
    if case.world.n_classes <= 5 and len(case.y) <= 1000:
        search = GridSearchCV(make_pipeline(*steps, clone(case.model)),
                              {"pca__n_components": [5, 7]}, cv=2)  # fmt: skip
        found = case.fit(search)
        if found is not None:
            case.call("predict of a search", found.predict, Q)
    return case


def streams(rng: Any) -> Case:
    """Batches one after the other learn as well as, nearly, all at once."""
    from sklearn.base import clone

    names = [n for n in NAMES if hasattr(getattr(widemargin, n), "partial_fit")]
    case = Case(rng, names, ("plain", "imbalanced", "duplicated", "lattice"), share=0.4)
    Q, q = case.fresh(1000)
    if not hasattr(case.model, "partial_fit"):
        return case
    whole = case.fit(clone(case.model))
    if whole is None:
        return case
    model, classes = clone(case.model), np.unique(case.y)
    size = max(2 * len(classes), len(case.y) // 5)
    case.say(f"partial_fit in batches of {size}, twice")
    for _ in range(2):
        for start in range(0, len(case.y), size):
            rows = slice(start, start + size)
            options = {"classes": classes} if start == 0 else {}
            if case.call("partial_fit", model.partial_fit, case.X[rows], case.y[rows],
                         **options) is None:  # fmt: skip
                return case
    one, other = held_out(whole, case, Q, q), held_out(model, case, Q, q)
    if other < one - 0.25 or not np.isfinite(numbers(model.decision_function(Q))).all():
        case.wrong("a stream learns little", fit=one, stream=other)
    return case


# Each once per round; what breaks most often, twice.
KINDS = (calibrated, certificates, neighbours, answers, clusters, exported, tensors,
         containers, saved, radii, guarantees, calibrated, distances, pipelines,
         streams, again, answers, clusters)  # fmt: skip


def case(seed: int, number: int, only: str = "") -> classifiers.Case:
    """The case of this number; `only` is a pattern of kinds."""
    import sklearn

    kinds = [kind for kind in KINDS if re.search(only, kind.__name__)]
    kind = kinds[number % len(kinds)]
    rng = np.random.default_rng([seed, number, 28])
    with sklearn.config_context(working_memory=64):
        done = kind(rng)
    lines = [f"# {kind.__name__}: {kind.__doc__}",
             "from tests.fuzz.problems import World", *done.lines]  # fmt: skip
    return done.outcomes, lambda: "\n".join(lines)
