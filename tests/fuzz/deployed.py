"""What becomes of a model after its fit: files, graphs, headers, watches, filled gaps.

Models of few samples, among them degenerate ones, at settings of any kind. Their files
answer bit by bit, their exports as Python does where it is sure, a watch counts what
came, and an imputer leaves what is there.
"""

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from tests.contract.registry import NAMES, make
from tests.fuzz import classifiers, values
from tests.fuzz.judge import REFUSED, RIGHT, Outcome, call, parameters_of, wrong
from tests.fuzz.values import pick, rarely, show

import widemargin
from widemargin.margins import error_bounds
from widemargin.margins.monitoring import least_error

Rng = np.random.Generator
Case = tuple[list[Outcome], Callable[[], str]]


def samples(rng: Rng, n: int, d: int) -> np.ndarray:
    """Spread, on a lattice, one-hot, copied, with a constant feature; size 1 or so."""
    kind = rng.integers(6)
    X = rng.normal(size=(n, d))
    if kind == 0:
        X = rng.integers(-2, 3, size=(n, d)).astype(float)
    elif kind == 1:
        X = np.eye(d)[rng.integers(d, size=n)]
    elif kind == 2:
        X = X[rng.integers(n, size=n)]
    elif kind == 3:
        X[:, rng.integers(d)] = pick(rng, 0.0, 1.0, -3.0)
    X = X * pick(rng, 1.0, 1.0, 0.1, 30.0)
    return X.astype(np.float32) if rarely(rng, 0.3) else X


def drawn_model(rng: Rng, d: int) -> Any:
    """A classifier, as it is or behind, inside and around others."""
    name = NAMES[rng.integers(len(NAMES))]
    chosen = classifiers.settings(rng, name, d)
    for key, value in classifiers.QUICK.get(name, {}).items():
        if rarely(rng, 0.5):
            chosen[key] = value
    model = getattr(widemargin, name)(**chosen)
    if rarely(rng, 0.2):
        model = make_pipeline(pick(rng, StandardScaler(), MaxAbsScaler()), model)
    if rarely(rng, 0.2):
        model = pick(
            rng,
            widemargin.RejectingClassifier(model, coverage=0.7, random_state=0),
            widemargin.RejectingClassifier(
                model, coverage=0.5, delta=None, reject_label="none", random_state=0
            ),
            widemargin.ConformalClassifier(model, alpha=0.5, cv=0.5, random_state=0),
        )
    return model


def _around(rng: Rng, X: np.ndarray) -> np.ndarray:
    a, b = X[rng.integers(len(X), size=(2, 4))]
    box = rng.uniform(X.min(axis=0), X.max(axis=0), size=(4, X.shape[1]))
    Q = np.concatenate([a, (a + b) / 2, box, 0 * a[:1], 50 * a[:2], 1e6 * b[:2]])
    return Q.astype(np.float32)


def deployed_case(rng: Rng) -> Case:
    """Fit, then save and export: the same answers."""
    n, d = int(pick(rng, 4, 6, 8, 12, 20)), int(pick(rng, 1, 2, 4, 4, 6))
    X, y = samples(rng, n, d), values.labels(rng, n, odd=0.0)
    model = drawn_model(rng, d)
    Q = _around(rng, X)
    name = type(model).__name__
    names = {*model.get_params(deep=True), "X", "y", "sample", "samples", "model"}
    names |= {part.rpartition("__")[2] for part in names}
    names |= {type(part).__name__ for part in model.get_params(deep=True).values()}
    names |= {name, *classifiers.QUESTIONS}
    later: list[str] = []

    def describe() -> str:
        return "\n".join([f"X = {show(X)}", f"y = {show(y)}",
                          f"model = {' '.join(repr(model).split())}.fit(X, y)",
                          f"Q = {show(Q)}", *later])  # fmt: skip

    fitted = call(f"{name}.fit", model.fit, X, y, _names=names)
    if fitted.sort != RIGHT:
        return [fitted], describe
    outcomes = [fitted]
    if rarely(rng, 0.5) and find_spec("skops"):
        outcomes += _saved(model, name, Q, names, later)
    if find_spec("onnxruntime") and find_spec("onnx"):
        outcomes += _exported(rng, model, name, Q, names, later)
    return outcomes, describe


def _saved(model: Any, name: str, Q: Any, names: set, later: list) -> list[Outcome]:
    later.append("widemargin.save(model, path); other = widemargin.load(path)")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        said = call(f"{name}.save", widemargin.save, model, path, _names=names)
        if said.sort != RIGHT:
            return [said]
        own = (classifiers._negate, classifiers._stretch, classifiers._product)
        read = call(f"{name}.load", widemargin.load, path, functions=own, _names=names)
    if read.sort != RIGHT:
        return [said, wrong(name, "what was saved is not read", said=read.detail)]
    outcomes = [said, read]
    for question in classifiers.QUESTIONS:
        method = getattr(model, question, None)
        if not callable(method):
            continue
        one = call(f"{name}.{question}", method, Q, _names=names)
        two = call(f"{name}.{question}", getattr(read.result, question), Q,
                   _names=names)  # fmt: skip
        outcomes.append(one)
        if one.sort != two.sort:
            outcomes.append(wrong(name, f"{question} of what was read", one=one.sort,
                                  two=two.sort))  # fmt: skip
        elif one.sort == RIGHT:
            parts = zip(*(r if isinstance(r, tuple) else (r,)
                          for r in (one.result, two.result)), strict=True)  # fmt: skip
            if not all(np.array_equal(a, b) for a, b in parts):
                outcomes.append(wrong(name, f"{question} of what was read",
                                      one=one.result, two=two.result))  # fmt: skip
    return outcomes


def _exported(
    rng: Rng, model: Any, name: str, Q: Any, names: set, later: list
) -> list[Outcome]:
    from widemargin.export import NotExportable, check_export, to_c, to_onnx

    def written(write: Callable, **options: Any) -> Any:
        try:
            return write(model, **options)
        except NotExportable:
            return None

    outcomes = []
    ways = [(to_onnx, "float32"), (to_onnx, "float64")]
    # A compiler takes a tenth of a second.
    ways += [(to_c, "float32"), (to_c, "int8")] if rarely(rng, 0.1) else []
    for write, dtype in ways:
        title = f"{name}.{write.__name__} {dtype}"
        said = call(title, written, write, dtype=dtype, _names=names)
        if said.sort == RIGHT and said.result is None:
            outcomes.append(Outcome(REFUSED, title, "NotExportable"))
            continue
        outcomes.append(said)
        if said.sort != RIGHT:
            continue
        # Hidden from the limit of memory, which sanitisers do not keep to.
        from tests.fuzz.large import all_memory

        with all_memory():
            checked = call(title, check_export, model, said.result, Q, _names=names)
        outcomes.append(checked)
        found = checked.result
        if checked.sort == RIGHT and not found.agrees:
            # A relative margin between models that nearly coincide is rounding; so it
            # is in float64 where every call is close.
            rounds = dtype == "float32" or found.n_close == found.n_samples
            if rounds and not (found.n_wrong or found.n_overbold):
                continue
            later.append(f"check_export(model, {write.__name__}(model, "
                         f"dtype={dtype!r}), Q)")  # fmt: skip
            outcomes.append(wrong(title, "exported", said=str(checked.result),
                                  n_wrong=checked.result.n_wrong))  # fmt: skip
    return outcomes


_INNER: dict[int, Any] = {}


def _inner(number: int) -> Any:
    """A fitted classifier to watch, made once."""
    if number not in _INNER:
        rng = np.random.default_rng(number)
        X, codes = rng.normal(size=(40, 3)), np.arange(40) % 3
        X[:, 0] += 2 * codes
        y = np.array(["a", "b", "c"])[codes] if number % 2 else codes * 5 - 5
        glvq = make("GLVQClassifier")
        models = [
            glvq,
            widemargin.RejectingClassifier(glvq, coverage=0.6, random_state=0),
            widemargin.RejectingClassifier(
                glvq, coverage=0.6, reject_label="none" if number % 2 else -7,
                random_state=0,
            ),
            make("ConformalClassifier"),
            make("TangentKNeighborsClassifier"),
            make("MaxMarginClassifier"),
            make_pipeline(StandardScaler(), make("LVQClassifier")),
            widemargin.RejectingClassifier(
                make("TangentKNeighborsClassifier", tangents="none"), max_error=0.5,
                outlier_fraction=0.2, delta=None, random_state=0,
            ),
        ]  # fmt: skip
        _INNER[number] = models[number // 2].fit(X, y)
    return _INNER[number]


def monitor_case(rng: Rng) -> Case:
    """A watch counts what came; its bounds are those of the mistakes in a row."""
    number = int(rng.integers(16))
    inner = _inner(number)
    classes = inner.classes_
    chosen: dict[str, Any] = {"estimator": inner, "max_error": 0.2, "random_state": 0}
    for key in ("max_error", "delta", "max_waiting", "outlier_score", "estimator"):
        if rarely(rng, 0.1):
            chosen[key] = pick(rng, values.junk(rng, key), 5, 0.5, None)
    later = [f"inner = tests.fuzz.deployed._inner({number})"]
    outcomes: list[Outcome] = []

    def describe() -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in chosen.items())
        return "\n".join([f"monitor = PromiseMonitor({given})", *later])

    names = {*parameters_of(widemargin.PromiseMonitor), "numbers", "X", "y", "delta"}

    def ask(method: str, *args: Any) -> Any:
        later.append(f"monitor.{method}({', '.join(map(show, args))})")
        said = call(
            f"PromiseMonitor.{method}", getattr(model, method), *args, _names=names
        )
        outcomes.append(said)
        return said.result if said.sort == RIGHT else None

    model = widemargin.PromiseMonitor(**chosen)
    # What a scaler of scikit-learn says of odd samples is its own.
    scaled = hasattr(inner, "steps")
    reference = pick(rng, None, rng.normal(size=(int(rng.integers(1, 9)), 3)),
                     None if scaled else values.matrix(rng, 4, 3))  # fmt: skip
    if ask("fit", reference) is None:
        return outcomes, describe
    mistakes: list[bool] = []
    waiting: dict[int, Any] = {}
    for _ in range(int(rng.integers(1, 5))):
        X = pick(rng, rng.normal(size=(int(rng.integers(1, 30)), 3)), X_far(rng),
                 X_far(rng) if scaled else values.matrix(rng, 3, 3))  # fmt: skip
        watched = ask("watch", X)
        if watched is None:
            continue
        waiting |= dict(zip(watched.numbers.tolist(), watched.answers, strict=True))
        known = sorted(waiting)[-int(model.max_waiting) :]
        waiting = {k: waiting[k] for k in known}
        asked = rng.permutation(known)[: int(rng.integers(0, len(known) + 1))]
        if rarely(rng, 0.2):
            asked = pick(rng, values.junk(rng, "numbers"), asked[:1].repeat(2), asked)
        size = np.size(asked)
        truth = classes[rng.integers(len(classes), size=size)]
        if rarely(rng, 0.2):
            truth = values.labels(rng, max(size, 1))
        if ask("label", asked, truth) is None:
            continue
        reject = getattr(inner, "reject_label_", None)
        for k, label in zip(np.asarray(asked).tolist(), np.asarray(truth), strict=True):
            answer = waiting.pop(k)
            if reject is None or answer != reject:
                mistakes.append(bool(answer != label))
    n = len(mistakes)
    said = model.n_labelled_, model.n_wrong_
    if said != (n, sum(mistakes)):
        true = n, sum(mistakes)
        outcomes.append(wrong("PromiseMonitor", "counts", said=said, true=true))
    elif n:
        bounds = error_bounds(np.array(mistakes), delta=model.delta)
        last = least_error(np.array([sum(mistakes), n - sum(mistakes)]),
                           np.array([n, n]), model.delta / 2)  # fmt: skip
        lower, upper = model.error_bounds_
        # Of a batch with many labels some are looked at, the last one always.
        if not (last[0] - 1e-6 <= lower <= bounds.lower[-1] + 1e-6) or not (
            bounds.upper[-1] - 1e-6 <= upper <= 1 - last[1] + 1e-6
        ):
            true = bounds.lower[-1], bounds.upper[-1]
            outcomes.append(wrong("PromiseMonitor", "bounds", said=model.error_bounds_,
                                  true=true))  # fmt: skip
    return outcomes, describe


def X_far(rng: Rng) -> np.ndarray:
    return rng.normal(size=(20, 3)) * pick(rng, 10.0, 1e6) + 100


def imputer_case(rng: Rng) -> Case:
    """Gaps are filled by numbers, and what is there stays, bit by bit."""
    n, d = int(rng.integers(1, 15)), int(pick(rng, 1, 2, 3, 5))
    owner = widemargin.MixtureImputer
    chosen = {key: values.parameter(rng, owner, key) for key in parameters_of(owner)
              if rarely(rng, 0.15)}  # fmt: skip
    outcomes: list[Outcome] = []

    def holed(rows: int) -> Any:
        X = values.matrix(rng, rows, d, odd=0.05)
        if isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 2:
            X = np.array(X)
            X[rng.random(X.shape) < pick(rng, 0.0, 0.2, 0.6)] = np.nan
            if rarely(rng, 0.1) and X.size:
                X[:, rng.integers(X.shape[1])] = np.nan
        return X

    X, Q = holed(n), holed(4)
    y = values.labels(rng, n) if rarely(rng, 0.6) else None

    def describe() -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in chosen.items())
        return "\n".join([f"X = {show(X)}", f"y = {show(y)}", f"Q = {show(Q)}",
                          f"MixtureImputer({given}).fit(X, y).transform(Q)"]
                         )  # fmt: skip

    names = {*parameters_of(owner), "X", "y", "sample_weight"}
    model = owner(**chosen)
    title = "MixtureImputer"
    fitted = call(f"{title}.fit", model.fit, X, y, _names=names)
    outcomes.append(fitted)
    if fitted.sort != RIGHT:
        return outcomes, describe
    for Z in (X, Q):
        said = call(f"{title}.transform", model.transform, Z, _names=names)
        outcomes.append(said)
        if said.sort != RIGHT:
            continue
        filled = np.asarray(said.result)
        if not np.isfinite(filled).all():
            outcomes.append(wrong(title, "not finite", result=filled))
        if isinstance(Z, np.ndarray) and Z.dtype in (np.float64, np.float32):
            there = ~np.isnan(np.asarray(Z))
            if filled.shape != Z.shape or not np.array_equal(
                filled[there], np.asarray(Z)[there]
            ):
                outcomes.append(wrong(title, "what is there changed", result=filled))
    return outcomes, describe


def comparison_case(rng: Rng) -> Case:
    """A comparison of two quick models prints, names the best, and has its rows."""
    n, d = int(rng.integers(2, 20)), int(pick(rng, 1, 2, 4))
    X, y = values.matrix(rng, n, d), values.labels(rng, n)
    given: dict[str, Any] = {"models": {"a": make("LVQClassifier"),
                                        "b": make("RejectingClassifier")}}  # fmt: skip
    for key in ("cv", "max_samples", "random_state", "models", "tangents"):
        if rarely(rng, 0.15) and key != "tangents":
            given[key] = pick(rng, values.junk(rng, key), 2, 3)

    def describe() -> str:
        passed = ", ".join(f"{k}={v!r}" for k, v in given.items())
        return f"X = {show(X)}\ny = {show(y)}\nwidemargin.compare(X, y, {passed})"

    names = {*parameters_of(widemargin.compare), "X", "y"}
    said = call("compare", widemargin.compare, X, y, _names=names, **given)
    outcomes = [said]
    if said.sort == RIGHT:
        outcomes.append(call("Comparison.table", said.result.table, _names=names))
        outcomes.append(call("Comparison.str", str, said.result, _names=names))
        if not said.result.best:
            outcomes.append(wrong("compare", "no best"))
    return outcomes, describe


# Public names beside the classifiers that these cases call.
DEPLOYED = {"MixtureImputer", "PromiseMonitor", "compare", "load", "save"}
# What is drawn, and how often of a hundred.
CASES = ((deployed_case, 50), (monitor_case, 25), (imputer_case, 20),
         (comparison_case, 5))  # fmt: skip


def case(rng: Rng) -> Case:
    """One of them."""
    kinds, shares = zip(*CASES, strict=True)
    at = np.searchsorted(np.cumsum(shares), rng.integers(100), side="right")
    return kinds[at](rng)
