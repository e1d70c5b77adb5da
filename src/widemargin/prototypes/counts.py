"""How many prototypes: as many as are asked for, or what "auto" takes of the samples.

With "auto" a class of n samples may begin with n / 10 prototypes, at most 20.
`largest_count` tries the sizes 1, 2, 5 and that one by short trainings, and takes the
smallest that is not clearly worse on samples left out (`widemargin._core.select`). The
largest may grow: `rows_to_add` are samples with a negative margin. Prototypes that are
nearest to no sample, `unused`, go in the end. Shapes: X (n, d), codes and weights (n,),
labels (n_prototypes,).
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from widemargin._core.arrays import largest_of, numpy_dtype, to_numpy
from widemargin._core.checks import check_count, is_auto
from widemargin._core.duplicates import duplicate_groups
from widemargin._core.samples import Samples
from widemargin._core.select import smallest
from widemargin._core.split import folds_of_classes, hold_out_of_classes
from widemargin.prototypes import optimizer
from widemargin.prototypes.initialization import spread_rows
from widemargin.prototypes.optimizer import State, is_sound, stepping

# The rule of prototypes_per_class="auto": one prototype for so many samples of a class
# to begin with, but no more than MOST.
PER_PROTOTYPE, MOST = 10, 20


def prototype_counts(
    prototypes_per_class: Any,
    classes: np.ndarray,
    codes: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    size: int = 1,
    most: int | None = None,
) -> np.ndarray:
    """Return the number of prototypes wanted for each class; "auto" looks at `codes`.

    With "auto" a class of n samples starts from n / 10, at least 1 and at most 20, n
    in proportion to `weights`; prototypes that count for `size` points each are fewer,
    `most` points in all.
    """
    name = "prototypes_per_class"
    if is_auto(prototypes_per_class):
        sizes: Any = np.zeros(len(classes))
        if codes is not None and weights is not None:
            shares = weights * (len(codes) / weights.sum())
            # Rounded, so that the order of a sum decides nothing.
            sizes = np.bincount(codes, shares, minlength=len(classes)).round(6)
        high = max(1, (MOST if most is None else most) // size)
        wanted = np.ceil(sizes / (PER_PROTOTYPE * size))
        return np.clip(wanted, 1, high).astype(np.intp)
    if not isinstance(prototypes_per_class, Mapping):
        count = check_count(
            name, prototypes_per_class, "'auto', a dict of them by label, or "
        )
        return np.full(len(classes), count, dtype=np.intp)
    known = set(classes.tolist())
    missing = known - set(prototypes_per_class)
    unknown = set(prototypes_per_class) - known
    if missing or unknown:
        raise ValueError(
            f"{name} must have one entry per class; missing "
            f"{sorted(missing, key=str)[:5]}, unknown {sorted(unknown, key=str)[:5]}."
        )
    counts = [
        check_count(f"{name}[{label!r}]", prototypes_per_class[label])
        for label in classes.tolist()
    ]
    return np.asarray(counts, dtype=np.intp)


def check_counts(prototypes_per_class: Any) -> None:
    """Refuse what is no count of prototypes; the classes are not known yet."""
    if not isinstance(prototypes_per_class, Mapping):
        prototype_counts(prototypes_per_class, np.arange(1))


# Prototypes per class that "auto" tries before it lets them grow.
COUNTS = (1, 2, 5)
# Folds that it is chosen by, how many samples of each are asked, and how many per class
# train a trial. Settled on quarters held out of training sets and on drawn samples, see
# benchmarks/prototypes.md. One fold of many samples is not
# enough: of 30 000 rows of one Gaussian per class GMLVQ took 145 prototypes for 5.
FOLDS, ASKED, PER_CLASS = 3, 2000, 400
# Samples, in all, of models that are trained together.
TOGETHER = 2000


def largest_count(learner: Any, samples: Samples, most: int) -> int | None:
    """Return how many prototypes "auto" allows a class; None if they may grow.

    `smallest` judges short trainings by samples that they have not seen, of counts up
    to `most`. A trial has up to 400 samples per class, in the proportions of all,
    whatever their number.
    """
    codes, groups = samples.codes, None
    if not learner._exact_weights:
        pairwise = get_tags(learner).input_tags.pairwise
        own = samples.with_own_columns() if pairwise else samples
        groups = duplicate_groups(own.X, codes)
    folds, trials = folds_of_classes(codes, FOLDS, groups=groups), []
    if not folds or len(np.unique(codes)) < 2:
        return None
    model = learner._trial_model()
    for rows in folds:
        random = np.random.RandomState(0)
        asked = random.permutation(rows)[:ASKED]
        others = np.delete(np.arange(len(samples)), rows)
        part = min(1.0, PER_CLASS * len(learner.classes_) / len(others))
        spare = hold_out_of_classes(codes[others], 1 - part, random, needed=False)
        fit = samples.take(others[~spare])
        data = model._prepare(fit, np.random.RandomState(0), map, False)
        trials.append((data, samples.take(asked)))
    return smallest(
        [*(size for size in COUNTS if size == 1 or size < most), None],
        lambda size: mistakes(model._trial(size), trials),
        np.concatenate([asked.weights for _, asked in trials]),
    )


def mistakes(model: Any, trials: Sequence[tuple[Any, Samples]]) -> np.ndarray:
    """Train on each of the data and return which of the samples asked are wrong."""
    data = [one for one, _ in trials]
    starts = [model._start(one, np.random.RandomState(0)) for one in data]
    wrong = []
    with stepping():
        states = briefly_trained(model, data, starts)
        for state, (one, asked) in zip(states, trials, strict=True):
            model._set_fitted(model._postprocess(state, one))
            wrong.append(model._nearest_codes(asked.X) != asked.codes)
    return np.concatenate(wrong)


def briefly_trained(
    model: Any, data: Sequence[Any], starts: Sequence[State]
) -> list[State]:
    """Return states after some fifty steps, five epochs of most samples.

    With fewer, few samples of many features seem to need more prototypes; with
    more, trials tell no more. They are one epoch: nothing revives or grows.
    """
    size = model._size_of_batch(len(data[0].X))
    rounds = max(5, -(-50 // -(-len(data[0].X) // size)))
    model._rounds = min(model._rounds, rounds)
    if model._apart and sum(len(one.X) for one in data) <= TOGETHER:
        states = trained_together(model, data, starts, size)
    else:
        rng = np.random.RandomState
        steps = (model._step(one, rng(0), 1) for one in data)
        states = [step(one, 0).state for step, one in zip(steps, starts, strict=True)]
    pairs = zip(states, starts, strict=True)
    return [after if is_sound(model, after) else start for after, start in pairs]


def trained_together(
    model: Any, data: Sequence[Any], starts: Sequence[State], size: int
) -> list[State]:
    """Train models of few samples at once: a step takes as long for one as for all.

    Features that nothing moves in hold them farther apart than anything within, in
    main memory wherever the samples are.
    """
    joint, n_classes, numbers = copy(model), len(model.classes_), range(len(data))
    sizes = [len(one.X) for one in data]
    centre = to_numpy(data[0].X).mean(axis=0)
    X = np.concatenate([to_numpy(one.X) for one in data]) - centre
    far = 4 * largest_of(X) * np.sqrt(X.shape[1])
    place = (far * np.eye(len(data))).astype(X.dtype)
    X = np.hstack([X, np.repeat(place, sizes, axis=0)])
    offsets = [to_numpy(one.offsets) for one in data if one.offsets is not None]
    codes = np.concatenate([n_classes * k + data[k].samples.codes for k in numbers])
    weights = np.concatenate([one.samples.weights for one in data])
    joint.classes_, joint.scale_ = np.arange(n_classes * len(data)), None
    joint.batch_size = size * len(data)
    samples = Samples(X, codes, weights, joint.classes_, np.arange(len(X)))
    mapped = replace(
        data[0], samples=samples, X=X, spread=None,
        offsets=np.concatenate(offsets) if offsets else None,
    )  # fmt: skip
    placed = [model._transform_prototypes(one["prototypes"]) - centre for one in starts]
    own = np.repeat(place, [len(p) for p in placed], axis=0)
    P = np.hstack([np.concatenate(placed), own])
    state = {
        "prototypes": P,
        "codes": np.concatenate([n_classes * k + starts[k]["codes"] for k in numbers]),
        "spread": np.append(starts[0]["spread"], np.zeros(len(data), X.dtype)),
        **optimizer.start("prototypes", P),
    }
    state = joint._step(mapped, np.random.RandomState(0), 1)(state, 0).state
    owner, P = state["codes"] // n_classes, state["prototypes"][:, : -len(data)]
    return [
        {
            **starts[k],
            "prototypes": model._inverse_transform(P[owner == k] + centre),
            "codes": state["codes"][owner == k] % n_classes,
        }
        for k in numbers
    ]


def rows_to_add(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    nearest: np.ndarray,
    labels: np.ndarray,
    most: np.ndarray,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Rows to become new prototypes: where margins are negative, spread out.

    A class gets one for every three of its samples that fall to another class, at
    most half as many again as it has, and never more than ``most[c]`` in all.
    """
    wrong = labels[nearest] != codes
    counts = np.bincount(labels, minlength=len(most))
    rows = []
    for c in np.unique(codes[wrong]):
        own = np.flatnonzero(wrong & (codes == c))
        wanted = min(len(own) // 3, -(-counts[c] // 2), most[c] - counts[c])
        if wanted > 0:
            w = (weights[own] / weights[own].max()).astype(numpy_dtype(X))
            rows.append(own[spread_rows(X[own], w, int(wanted), rng)])
    return np.concatenate(rows) if rows else np.empty(0, np.intp)


def unused(nearest: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Which prototypes are the nearest of no sample; a class keeps at least one."""
    lost = np.bincount(nearest, minlength=len(labels)) == 0
    for c in range(n_classes):
        own = np.flatnonzero(labels == c)
        if len(own) and lost[own].all():
            lost[own[0]] = False
    return lost
