"""Random fits of every classifier, and questions to those that came out whole."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer
from tests.contract.registry import (
    MAY_BE_INFINITE,
    QUICK,
    each_number,
    make,
    parameters,
)
from tests.fuzz import oracles, values
from tests.fuzz.judge import REFUSED, RIGHT, Outcome, call, finite, parameters_of, wrong
from tests.fuzz.values import pick, rarely, show

import widemargin
from widemargin import margins, tangents
from widemargin.margins import MARGIN_UNITS

Case = tuple[list[Outcome], Callable[[], str]]

# Answers of one model to one set of samples; each is asked where the model has it.
QUESTIONS = ("predict", "decision_function", "confidence", "predict_proba",
             "certified_radius", "kneighbors", "transform", "outputs", "duels",
             "accepts", "confidences", "pairwise_distances")  # fmt: skip
# Everything else that a model can be asked, by the arguments it takes.
KNOWN = {*QUESTIONS, "fit", "partial_fit", "margins", "score", "fit_transform",
         "bounds",
         "margin_bound", "get_params", "set_params", "get_metadata_routing",
         "get_feature_names_out", "set_output", "set_callbacks"}  # fmt: skip
LOSSES = tuple(margins.losses.BY_NAME.values())


def component(rng: np.random.Generator, owner: Any, name: str, d: int) -> Any:
    """A value for a parameter of an estimator, objects included."""
    if rarely(rng, 0.25):
        return values.junk(rng, name)
    if name == "estimator":
        return pick(rng, make("GLVQClassifier"), make("LVQClassifier"),
                    LogisticRegression(), KNeighborsClassifier(1),
                    make("TangentKNeighborsClassifier"))  # fmt: skip
    if name == "estimators":
        return pick(rng, [("a", make("GLVQClassifier"))], [("a", LogisticRegression()),
                    ("b", make("LVQClassifier"))], [("a", KNeighborsClassifier(1)),
                    ("b", make("GLVQClassifier"))], [])  # fmt: skip
    if name == "tangents":
        return pick(rng, None, tangents.LearnedTangents(1),
                    tangents.SignalTangents(("shift",)),
                    tangents.ImageTangents((2, d // 2 or 1)),
                    tangents.TransformTangents([_stretch]), np.eye(d)[:1],
                    tangents.LearnedTangents(1, local=True))  # fmt: skip
    if name == "candidate_transform":
        return pick(rng, None, FunctionTransformer(), LogisticRegression())
    if name == "loss":
        return pick(rng, None, "hinge", *(loss() for loss in LOSSES))
    if name in ("transformations", "shifts"):
        return pick(
            rng, None, [_negate], (np.negative,), [], tangents.image_shifts((2, 2))
        )
    if name == "init" and rarely(rng, 0.3):
        return values.matrix(rng, 2, d)
    if name == "init_labels" and rarely(rng, 0.5):
        return [0, 1]
    if name == "class_weight" and rarely(rng, 0.3):
        return {0: 1.0, 1: 2.0}
    if name == "kernel" and rarely(rng, 0.1):
        return _product
    return values.parameter(rng, owner, name, odd=0)


def _stretch(X: np.ndarray, p: float) -> np.ndarray:
    return X * (1 + p)


def _negate(X: np.ndarray) -> np.ndarray:
    return -X


def _product(X: np.ndarray, Y: np.ndarray | None = None, **_: Any) -> np.ndarray:
    """A kernel of samples, or of distances where that is what is asked."""
    return 1 / (1 + X) if Y is None else X @ Y.T


def settings(rng: np.random.Generator, name: str, d: int) -> dict[str, Any]:
    """Quick settings, and a few parameters that are anything."""
    owner, there = getattr(widemargin, name), parameters(name)
    chosen = {k: v for k, v in QUICK.get(name, {}).items() if k in there}
    if "estimator" in there and there["estimator"].default is inspect.Parameter.empty:
        chosen["estimator"] = make("GLVQClassifier")
    if "estimators" in there:
        chosen["estimators"] = make(name).estimators
    if "random_state" in there:
        chosen["random_state"] = 0
    known = list(there)
    for _ in range(pick(rng, 0, 0, 1, 1, 1, 2, 3)):
        at = known[rng.integers(len(known))]
        chosen[at] = component(rng, owner, at, d)
        if at in ("coverage", "max_error"):
            other = "max_error" if at == "coverage" else "coverage"
            chosen.pop(other, None)
    return chosen


def queries(rng: np.random.Generator, X: Any, d: int) -> Any:
    """Samples to ask about: of the model's own world, or of any."""
    seen = np.asarray(X) if isinstance(X, np.ndarray) else None
    n = int(rng.integers(1, 8))
    if seen is None or seen.dtype.kind != "f" or seen.ndim != 2 or rarely(rng, 0.3):
        return values.matrix(rng, n, d)
    rows = seen[rng.integers(len(seen), size=n)]
    with np.errstate(all="ignore"):
        near = rows + rng.normal(size=rows.shape) * (seen.std() or 1.0)
        near = pick(rng, rows, near, near, near * pick(rng, 1e3, 1e8, 1e-8))
    return near.astype(pick(rng, seen.dtype, seen.dtype, np.float64, np.float32))


def sane(X: Any) -> bool:
    """Whether the samples are plain numbers of ordinary size."""
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f" or X.ndim != 2:
        return False
    size = float(np.abs(np.asarray(X)).max(initial=0))
    return bool(np.isfinite(size)) and (size == 0 or 1e-6 < size < 1e9)


def classifier_case(rng: np.random.Generator, name: str) -> Case:
    """Draw a fit, judge it, and if a model came of it, ask it everything."""
    n, d = (
        int(pick(rng, 1, 2, 3, 5, 8, 8, 12, 12, 20)),
        int(pick(rng, 1, 2, 3, 4, 4, 6)),
    )
    chosen = settings(rng, name, d)
    X, y = values.matrix(rng, n, d), values.labels(rng, n)
    told = {"sample_weight": values.vector(rng, n, low=0.0)} if rarely(rng, 0.2) else {}
    owner = getattr(widemargin, name)
    if told and "sample_weight" not in parameters_of(owner.fit):
        told = {}
    asked: dict[str, Any] = {}

    def describe() -> str:
        lines = [f"X = {show(X)}", f"y = {show(y)}"]
        lines += [f"{key} = {show(value)}" for key, value in told.items()]
        given = ", ".join(f"{key}={value!r}" for key, value in chosen.items())
        passed = "".join(f", {key}={key}" for key in told)
        lines.append(f"model = widemargin.{name}({given}).fit(X, y{passed})")
        lines += [f"{key} = {show(value)}" for key, value in asked.items()]
        return "\n".join(lines)

    names = {*parameters(name), "X", "y", "sample_weight", "classes", name}
    for value in chosen.values():
        if hasattr(value, "get_params") and not isinstance(value, type):
            names |= {*value.get_params(deep=False), type(value).__name__}
    model = owner(**chosen)
    before = [
        np.array(a, copy=True) if isinstance(a, np.ndarray) else None for a in (X, y)
    ]
    outcome = call(f"{name}.fit", model.fit, X, y, _names=names, **told)
    outcomes = [outcome]
    for what, old in zip((X, y), before, strict=True):
        if old is not None and not _same(what, old):
            outcomes.append(wrong(f"{name}.fit", "input changed in place"))
    if outcome.sort != RIGHT:
        if outcome.sort == REFUSED and rarely(rng, 0.3):
            left = [key for key in vars(model) if key.endswith("_")]
            if left:
                outcomes.append(wrong(f"{name}.fit", f"refused, left behind {left}"))
        return outcomes, describe
    if outcome.result is not model:
        outcomes.append(wrong(f"{name}.fit", "result is not the model"))
    for path, held in each_number(model, name, set()):
        attribute = path.rpartition(".")[2]
        if attribute not in MAY_BE_INFINITE and not np.isfinite(held).all():
            outcomes.append(wrong(f"{name}.fit", f"not finite: {path}", held=held))
            return outcomes, describe

    Q = asked["Q"] = queries(rng, X, d)
    answers = ask(model, name, Q, names, outcomes)
    if "predict" in answers and len(outcomes):
        try:
            outcomes += check(model, name, Q, answers, rng)
            if sane(X) and sane(Q) and not told:
                outcomes += oracles.model(model, name, X, y, Q, answers, rng)
        except Exception as error:
            outcomes.append(
                wrong(name, f"oracle failed: {type(error).__name__} {error}")
            )
    others(model, name, X, y, names, outcomes, rng)
    if "predict" in answers:
        outcomes += stays(model, name, Q, answers, X, y, rng)
    return outcomes, describe


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind in "fc":
        return np.array_equal(a, b, equal_nan=True)
    return bool(np.all(a == b)) if a.dtype.kind != "O" else True


def ask(model: Any, name: str, Q: Any, names: set, outcomes: list) -> dict[str, Any]:
    """Ask all questions about Q; what was answered comes back."""
    answers = {}
    for question in QUESTIONS:
        method = getattr(model, question, None)
        if not callable(method):
            continue
        outcome = call(f"{name}.{question}", method, Q, _names=names)
        outcomes.append(outcome)
        if outcome.sort == RIGHT:
            answers[question] = outcome.result
            held = (
                outcome.result
                if isinstance(outcome.result, tuple)
                else [outcome.result]
            )
            if not all(finite(part) for part in held):
                outcomes.append(wrong(f"{name}.{question}", f"not finite: {question}",
                                      result=np.asarray(held[0])))  # fmt: skip
    return answers


def check(model: Any, name: str, Q: Any, answers: dict, rng: Any) -> list[Outcome]:
    """What the contract says about answers, whatever the samples."""
    out: list[Outcome] = []
    predicted, decision = answers["predict"], answers.get("decision_function")
    n = len(predicted)
    if decision is not None:
        scores = decision
        if decision.ndim == 1:
            scores = np.column_stack([np.zeros(n), decision])
        best = model.classes_[scores.argmax(axis=1)]
        spoken = np.ones(n, bool)
        if hasattr(model, "reject_label_"):
            spoken = ~np.isin(predicted, [model.reject_label_])
        if not np.array_equal(predicted[spoken], best[spoken]):
            out.append(wrong(name, "predict is not the argmax", predicted=predicted,
                             scores=scores))  # fmt: skip
    else:
        best = predicted
    sure = answers.get("confidence")
    if sure is not None:
        if sure.shape != (n,) or not (sure >= 0).all():
            out.append(wrong(name, "confidence below 0", confidence=sure))
        margin = call(f"{name}.margins", model.margins, Q, best, _names=("y",))
        out.append(margin)
        if margin.sort == RIGHT and not np.array_equal(margin.result, sure):
            out.append(wrong(name, "confidence is not the margin of the answer",
                             confidence=sure, margins=margin.result))  # fmt: skip
        label = model.classes_[rng.integers(len(model.classes_))]
        margin = call(f"{name}.margins", model.margins, Q,
                      np.repeat(np.asarray([label]), n), _names=("y",))  # fmt: skip
        out.append(margin)
        if margin.sort == RIGHT:
            right, held = best == label, margin.result
            if not finite(held):
                out.append(wrong(name, "margins not finite", margins=held))
            elif ((held > 0) & ~right).any() or ((held < 0) & right).any():
                out.append(wrong(name, "sign of margins", margins=held, label=label,
                                 answers=best))  # fmt: skip
            unit = getattr(model, "margin_unit", None)
            if unit not in MARGIN_UNITS:
                out.append(wrong(name, f"margin_unit {unit!r}"))
            elif unit in ("relative", "vote_fraction") and (np.abs(held) > 1).any():
                out.append(wrong(name, "margin outside [-1, 1]", margins=held))
    shares = answers.get("predict_proba")
    if shares is not None and not (
        np.allclose(shares.sum(axis=1), 1, rtol=0, atol=1e-5)
        and (shares >= 0).all()
        and (shares <= 1 + 1e-6).all()
    ):
        out.append(wrong(name, "probabilities do not sum to 1", probabilities=shares))
    return out


def others(
    model: Any, name: str, X: Any, y: Any, names: set, outcomes: list, rng: Any
) -> None:
    """Methods that take labels or nothing, and any that nobody has listed."""
    if rarely(rng, 0.5):
        outcomes.append(call(f"{name}.score", model.score, X, y, _names=names))
    if rarely(rng, 0.3):
        outcomes.append(
            call(
                f"{name}.margins", model.margins, X, values.labels(rng, 5), _names=names
            )
        )
    for method in ("margin_bound", "bounds"):
        held = getattr(model, method, None)
        if callable(held) and rarely(rng, 0.3):
            wanted = dict(parameters_of(held))
            if any(p.kind is p.VAR_KEYWORD for p in wanted.values()):
                wanted |= parameters_of(margins.lvq_margin_bound)
            given = {}
            for key, p in wanted.items():
                if p.kind is p.VAR_KEYWORD or key == "margins":
                    continue
                if key in ("X", "y"):
                    given[key] = {"X": X, "y": y}[key]
                elif p.default is p.empty or rarely(rng, 0.3):
                    given[key] = values.parameter(rng, held, key)
            outcomes.append(
                call(f"{name}.{method}", held, _names={*names, *wanted}, **given)
            )
    if hasattr(model, "partial_fit") and rarely(rng, 0.3):
        outcomes.append(
            call(f"{name}.partial_fit", model.partial_fit, X, y, _names=names)
        )
    # A parameter may hold a function: that one is not ours.
    for method in sorted(set(dir(type(model))) - set(model._get_param_names())):
        if method.startswith(("_", "set_")) or method in KNOWN or rarely(rng, 0.7):
            continue
        held = call(f"{name}.{method}", getattr, model, method, None, _names=names)
        outcomes.append(held)
        if held.sort == RIGHT and callable(held.result):
            wanted = parameters_of(held.result)
            given = {
                key: {"X": X, "y": y}.get(key, values.junk(rng, key))
                for key, p in wanted.items()
                if p.default is p.empty and p.kind in (1, 3)
            }
            outcomes.append(
                call(f"{name}.{method}", held.result, _names={*names, *wanted}, **given)
            )


def stays(
    model: Any, name: str, Q: Any, answers: dict, X: Any, y: Any, rng: Any
) -> list[Outcome]:
    """What may not change: by a row alone, by a failed fit, by a parameter set."""
    out: list[Outcome] = []
    # partial_fit may have gone on learning.
    first = call(f"{name}.predict", model.predict, Q)
    if first.sort != RIGHT:
        return [wrong(name, "predict fails the second time")]
    answers = first.result
    kind = rng.integers(4)
    if kind == 0 and isinstance(Q, np.ndarray):
        i = int(rng.integers(len(Q)))
        alone = call(f"{name}.predict", model.predict, Q[i : i + 1])
        out.append(alone)
        # Products of one row and of many round differently; only that may decide.
        sure = model.confidence(Q) if hasattr(model, "confidence") else np.ones(len(Q))
        near = getattr(model, "threshold_", 0.0)
        decided = sure[i] > 1e-5 * sure.max() and not np.isclose(sure[i], near)
        if getattr(model, "margin_unit", "") == "relative" and Q.dtype.kind == "f":
            decided &= sure[i] > 8 * np.finfo(Q.dtype).eps
        if alone.sort == RIGHT and alone.result[0] != answers[i] and decided:
            out.append(wrong(name, "one row alone", i=i, answers=answers,
                             alone=alone.result, sure=sure))  # fmt: skip
        return out
    known = [
        p for p in model.get_params(deep=False) if p not in ("estimator", "n_jobs")
    ]
    if kind == 1 and known:
        at = known[rng.integers(len(known))]
        model.set_params(**{at: values.junk(rng, at)})
        what = f"{at} set after fit"
    elif kind == 2:
        bad = np.full((3, 2), np.nan)
        names = {*parameters(name), "X", "Input", "y"}
        failed = call(f"{name}.fit", model.fit, bad, [0, 1, 1], _names=names)
        if failed.sort == RIGHT:
            return [wrong(name, "fit on NaN")]
        out.append(failed)
        what = "a failed fit"
    else:
        return out
    again = call(f"{name}.predict", model.predict, Q, _names=("X",))
    out.append(again)
    if again.sort == RIGHT and not np.array_equal(again.result, answers):
        out.append(wrong(name, f"answers changed by {what}", before=answers,
                         after=again.result))  # fmt: skip
    elif again.sort == REFUSED:
        out.append(wrong(name, f"no answers after {what}"))
    return out
