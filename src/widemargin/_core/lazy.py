"""Dask collections: answers come block by block, where the blocks are.

Whoever hands a Dask array or data frame to a method that answers row by row gets a lazy
collection back, cut as the first one was; nothing is computed and nothing travels here.
The model is one node of the graph that all blocks depend on: it is sent to a worker
once, and where the worker is lost it is sent again. Blocks may be of unknown size, or
empty. What goes wrong in one of them says in which.

Dask is not imported before somebody hands in what it made.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator

# Methods whose answers have one row per sample, and need no other sample to be made.
ROWWISE = (
    *("predict", "decision_function", "predict_proba", "predict_log_proba"),
    *("margins", "confidence", "accepts", "kneighbors", "certified_radius"),
    *("p_values", "predict_set"),
    *("pairwise_distances", "transform", "tangents", "__call__"),
)

# What scikit-learn keeps of those that watch a fit.
WATCHING = ("_skl_callbacks", "_callback_fit_ctx", "_parent_callback_ctx")


def is_lazy(value: Any) -> bool:
    """Whether this is a collection of Dask."""
    kind = type(value)
    ours = kind.__module__.partition(".")[0] in ("dask", "dask_expr")
    return ours and hasattr(kind, "__dask_graph__")


def is_frame(X: Any) -> bool:
    """Whether a collection is a data frame or a column of one, rather than an array."""
    return hasattr(X, "map_partitions")


def as_graph_node(value: Any, name: str = "model") -> Any:
    """Return a node of a graph that holds `value`, as it is."""
    from dask import delayed

    return delayed(value, name=f"widemargin-{name}-{uuid4().hex}", traverse=False)


def with_state(kind: type, state: dict[str, Any]) -> Any:
    """Return an object with this state, whatever its pickles leave out or make."""
    made: Any = object.__new__(kind)
    vars(made).update(state)
    return made


def without_callbacks(estimator: Any) -> Any:
    """Return the same estimator as it can be sent: no callbacks, and no parts."""
    left = (*WATCHING, "_parts")
    kept = {k: v for k, v in vars(estimator).items() if k not in left}
    twin = with_state(type(estimator), kept)
    if "n_jobs" in vars(twin):
        # The workers are the threads.
        twin.n_jobs = None
    return twin


class Part:
    """What a worker holds, which knows its size: Dask moves what it thinks is small.

    `term` is what it adds to a sum, where that was made with it.
    """

    def __init__(self, value: Any, term: Any = None) -> None:
        self.value, self.term = value, term
        self.size = size_of((value, term), set())

    def __sizeof__(self) -> int:
        return self.size

    def __reduce__(self) -> Any:
        # A file of a model leaves out what can be made again; to move it is faster.
        if isinstance(self.value, BaseEstimator):
            return _moved, (type(self.value), vars(self.value))
        return Part, (self.value, self.term)


def _moved(kind: type, state: dict[str, Any]) -> Part:
    return Part(with_state(kind, state))


def size_of(value: Any, seen: set[int]) -> int:
    """Return how many bytes the arrays inside something have, each counted once."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    inside: Any = ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, tuple | list):
        inside = value
    elif isinstance(value, partial):
        inside = (value.func, *value.args, *value.keywords.values())
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        inside = vars(value).values()
    return 64 + sum(size_of(one, seen) for one in inside)


def check_blocks(X: Any, name: str = "X") -> Any:
    """Return samples whose blocks hold whole rows."""
    if is_frame(X):
        if getattr(X, "ndim", 2) != 2:
            raise ValueError(f"{name} must be a Dask data frame; got one column of it.")
        return X
    if getattr(X, "ndim", 0) != 2:
        raise ValueError(
            f"{name} must be a Dask array of shape (n_samples, n_features) or a Dask "
            f"data frame; got {type(X).__name__} of {getattr(X, 'ndim', 0)} axes."
        )
    if np.isnan(X.shape[1]):
        raise ValueError(
            f"{name} does not know its number of features; call "
            f"{name}.compute_chunk_sizes() first."
        )
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def n_blocks(X: Any) -> int:
    """Return into how many blocks of rows a collection is cut."""
    return X.npartitions if is_frame(X) else X.numblocks[0]


def cut_alike(rows: Any, X: Any, name: str) -> Any:
    """Return one entry per sample as an array whose blocks are those of `X`."""
    import dask.array as da

    if is_frame(rows):
        rows = rows.iloc[:, 0] if getattr(rows, "ndim", 1) == 2 else rows
        with warnings.catch_warnings():
            # Of strings, which become the objects that pandas has.
            warnings.simplefilter("ignore")
            rows = rows.to_dask_array()
    if is_lazy(rows) and rows.ndim == 2 and rows.shape[1] == 1:
        rows = rows[:, 0]
    known = None if is_frame(X) else X.chunks[0]
    sizes_known = known is not None and not np.isnan(known).any()
    if not is_lazy(rows):
        if not sizes_known:
            raise ValueError(
                f"{name} is in one place, and X is a Dask collection whose blocks are "
                f"of unknown sizes: pass {name} as a Dask array cut as X is, or call "
                "X.compute_chunk_sizes() first."
            )
        return da.from_array(_of_length(np.asarray(rows), X, name), chunks=(known,))
    if rows.ndim != 1:
        raise ValueError(
            f"{name} must have one entry per sample; got {rows.ndim} axes."
        )
    if sizes_known and not np.isnan(rows.shape[0]):
        rows = _of_length(rows, X, name)
        return rows if rows.chunks[0] == known else rows.rechunk((known,))
    if rows.numblocks[0] != n_blocks(X):
        raise ValueError(
            f"{name} is cut into {rows.numblocks[0]} blocks and X into {n_blocks(X)}, "
            "whose sizes are not known: cut both alike, or call compute_chunk_sizes() "
            "on both first."
        )
    return rows


def _of_length(rows: Any, X: Any, name: str) -> Any:
    if rows.ndim != 1 or rows.shape[0] != X.shape[0]:
        raise ValueError(
            f"{name} must have one entry per sample: X has {X.shape[0]} samples and "
            f"{name} has shape {tuple(rows.shape)}."
        )
    return rows


def first_rows(X: Any) -> Any:
    """Return a row that looks like those of a collection, computing nothing."""
    if is_frame(X):
        return X._meta_nonempty.iloc[:1]
    dtype = X.dtype if X.dtype.kind in "biuf" else np.float64
    return np.zeros((1, X.shape[1]), dtype)


def rowwise(
    owner: Any, name: str, args: tuple, options: dict[str, Any], labelled: bool = True
) -> Any:
    """Return the lazy answers of the method `name` of an estimator.

    Those about a data frame are frames too, unless they are not to be `labelled`.
    """
    options = dict(options)
    X = args[0] if args else options.pop("X", None)
    what = f"{type(owner).__name__}.{name}"
    parted = vars(owner).get("_parts") is not None
    if parted and X is None:
        raise ValueError(
            f"X of {what} must be given: the training samples are with the workers."
        )
    if parted and not any(map(is_lazy, (X, *args, *options.values()))):
        return _about_arrays(owner, name, X, args[1:], options)
    if not is_lazy(X):
        raise ValueError(f"X of {what} must be a Dask collection where y is one.")
    if name not in ROWWISE:
        raise ValueError(
            f"X is a Dask collection, which {what} does not take; pass X.compute()."
        )
    X, rows, rest = check_blocks(X), [], args[1:]
    if name == "margins":
        if not rest and "y" not in options:
            raise TypeError(f"y of {what} must be given: the labels asked about.")
        y = rest[0] if rest else options.pop("y")
        rows, rest = [cut_alike(y, X, "y")], rest[1:]
    ask, alone = partial(_asked, name, rest, options, get_config()), owner
    if parted:
        question = owner._question(name, *rest, **options)
        alone = owner._with_found(question, [owner._example(question)])
    model = _asked_about(owner, (name, *rest), X, **options)
    labels = [owner.classes_[:1] for _ in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = ask(alone, first_rows(X), *labels)
    if isinstance(example, tuple):
        # One array of them all: what is whole stays so in doubles.
        widths = np.cumsum([0, *(part.shape[1] for part in example)])
        out = over_blocks(partial(_asked_for_all, ask), X, rows, _join(example), model)
        parts = zip(example, pairwise(widths.tolist()), strict=True)
        return tuple(out[:, slice(*at)].astype(part.dtype) for part, at in parts)
    if not (labelled and is_frame(X)) or example.ndim > 2:
        return over_blocks(ask, X, rows, example, model)
    return over_partitions(ask, X, rows, example, model, _titles(owner, name))


def _about_arrays(owner: Any, name: str, X: Any, args: tuple, options: dict) -> Any:
    """Return at once what a model whose parts are elsewhere says of samples here."""
    import dask
    import dask.array as da

    X = owner._check_predict(X)
    if hasattr(owner, "feature_names_in_"):
        # The parts know them too.
        import dask.dataframe as dd
        import pandas as pd

        X = pd.DataFrame(X, columns=owner.feature_names_in_)
        whole = dd.from_pandas(X, npartitions=1)
    else:
        whole = da.from_array(X, chunks=-1)
    answer = rowwise(owner, name, (whole, *args), options, labelled=False)
    computed = dask.compute(*(answer if isinstance(answer, tuple) else (answer,)))
    return computed if isinstance(answer, tuple) else computed[0]


def _asked_about(owner: Any, asked: tuple, X: Any, **options: Any) -> Any:
    """Return the model; or for each block the one that has heard all parts about it.

    An estimator whose references are in parts, `_parts`, has three methods beside:
    `_question` says what is asked of every part, `_found` is what a part answers, and
    `_with_found` makes of all the answers a model for the rows that they are about.
    """
    from dask import delayed

    if vars(owner).get("_parts") is None:
        return as_graph_node(without_callbacks(owner))
    question = owner._question(*asked, **options)
    ask, merge = delayed(_asked_part, traverse=False), delayed(_merged)
    light = as_graph_node(owner._with_found(question, None))
    return [
        merge(
            light,
            question,
            [ask(part, block, number, question) for part in owner._parts.parts],
        )
        for number, block in enumerate(blocks_of(X))
    ]


def _asked_part(part: Any, X: Any, number: int, question: tuple) -> Any:
    if X.shape[0] == 0:
        return None
    with naming_block(number):
        return part.value._found(X, question)


def _merged(light: Any, question: tuple, found: list) -> Any:
    return light if found[0] is None else light._with_found(question, found)


def blocks_of(X: Any) -> list:
    """Return the blocks of a collection, one after the other, as delayed values."""
    return list(X.to_delayed() if is_frame(X) else X.to_delayed().ravel())


def _asked(
    name: str, args: tuple, options: dict, config: dict, model: Any, X: Any, *rows: Any
) -> Any:
    """Ask a model about some rows; what a worker runs. Answers are NumPy's."""
    with config_context(**config):
        answer = getattr(model, name)(X, *rows, *args, **options)
    if isinstance(answer, tuple):
        return tuple(_host(part) for part in answer)
    return _host(answer)


def _host(answer: Any) -> NDArray:
    """Return an answer of a model as NumPy's, a tensor's block like any other."""
    detached = answer.detach().cpu() if hasattr(answer, "detach") else answer
    return np.asarray(detached)


def _asked_for_all(ask: Callable, *args: Any) -> NDArray:
    """Ask for several arrays, joined to one."""
    return _join(ask(*args))


def _join(parts: tuple) -> NDArray:
    return np.concatenate([part.astype(np.float64) for part in parts], axis=1)


def _of_block(
    ask: Callable, empty: NDArray, X: Any, number: Any, *rows: Any, model: Any
) -> NDArray:
    """Ask about one block of which only the number is known; of none, for none."""
    X = X[0] if isinstance(X, list) else X
    if X.shape[0] == 0:
        return empty
    with naming_block(int(number[0])):
        return ask(model, X, *rows)


@contextmanager
def naming_block(number: int) -> Iterator[None]:
    """Say in which block it was that something went wrong."""
    try:
        yield
    except Exception as error:
        words = f"X, partition {number}: {error}"
        try:
            again = type(error)(words)
        except Exception:
            again = RuntimeError(words)
        raise again from error


def over_blocks(ask: Callable, X: Any, rows: list, example: NDArray, model: Any) -> Any:
    """Return the array of ``ask(model, block, *rows)``, one block after the other.

    `example` is an answer about one sample. There may be one model per block.
    """
    import dask.array as da

    one = partial(_of_block, ask, example[:0])
    if isinstance(model, list) or is_frame(X):
        # A frame goes as it is: as an array it would lose its names.
        sizes = [np.nan] * n_blocks(X) if is_frame(X) else X.chunks[0]
        shape, options = example.shape[1:], {"dtype": example.dtype}
        pairs = zip(_delayed(one, X, rows, model), sizes, strict=True)
        return da.concatenate(
            [da.from_delayed(block, (n, *shape), **options) for block, n in pairs],
            allow_unknown_chunksizes=True,
        )
    axes = "abcd"[: example.ndim]
    arrays = [X, "aj", da.arange(X.numblocks[0], chunks=1), "a"]
    for array in rows:
        arrays += [array, "a"]
    return da.blockwise(
        one, axes, *arrays,
        model=model, dtype=example.dtype, meta=example[:0], align_arrays=False,
        new_axes=dict(zip(axes[1:], example.shape[1:], strict=True)),
        name=f"widemargin-{uuid4().hex}",
    )  # fmt: skip


def over_partitions(
    ask: Callable, X: Any, rows: list, example: NDArray, model: Any, titles: list
) -> Any:
    """Return the same for a data frame: a column, or a frame, with its index."""
    import dask.dataframe as dd

    one = partial(_of_partition, partial(_of_block, ask, example[:0]), titles)
    parts = _delayed(one, X, rows, model)
    meta = _labelled(example[:0], X._meta.index[:0], titles)
    return dd.from_delayed(parts, meta=meta, divisions=X.divisions, verify_meta=False)


def _delayed(function: Callable, X: Any, rows: list, model: Any) -> list:
    """Return ``function(block, [number], *rows, model=model)``, delayed, of all."""
    from dask import delayed

    block, others = delayed(function), [array.to_delayed().ravel() for array in rows]
    models = model if isinstance(model, list) else [model] * n_blocks(X)
    return [
        block(part, [i], *(other[i] for other in others), model=models[i])
        for i, part in enumerate(blocks_of(X))
    ]


def _of_partition(
    ask: Callable, titles: list, X: Any, number: Any, *rows: Any, model: Any
) -> Any:
    """Ask about a partition; the answer has the index of its rows."""
    return _labelled(ask(X, number, *rows, model=model), X.index, titles)


def _labelled(answer: NDArray, index: Any, titles: list) -> Any:
    import pandas as pd

    if answer.ndim == 1:
        return pd.Series(answer, index=index, name=titles[0])
    columns = titles[1:] if len(titles) == 1 + answer.shape[1] else None
    return pd.DataFrame(answer, index=index, columns=columns)


def _titles(owner: Any, name: str) -> list:
    """Name of a column of answers, and of each where there is one per class."""
    if name == "transform" and hasattr(owner, "get_feature_names_out"):
        return [name, *owner.get_feature_names_out()]
    return [name, *getattr(owner, "classes_", [])]


def pairs(function: Callable, args: tuple, options: dict[str, Any]) -> Any:
    """Return the lazy array of a function of all pairs of rows of X and Y."""
    import dask.array as da

    options = dict(options)
    X, Y = [*args, None, None][:2]
    X, Y = options.pop("X", X), options.pop("Y", Y)
    ends = [X, X if Y is None else Y]
    for i, name in enumerate("XY"):
        own: Any = options.get(f"{name}_tangents")
        if is_lazy(ends[i]) and (is_lazy(own) or np.ndim(own) > 2):
            raise ValueError(
                f"{name}_tangents must be a generator, or tangents that all samples "
                f"share, where {name} is a Dask collection."
            )
        if not is_lazy(ends[i]):
            ends[i] = da.from_array(np.asarray(ends[i]), chunks=-1)
        ends[i] = check_blocks(ends[i], name)
        ends[i] = ends[i].to_dask_array() if is_frame(ends[i]) else ends[i]
    x, y = ends
    dtype = np.result_type(x.dtype, y.dtype)
    dtype = dtype if dtype == np.float32 else np.dtype(np.float64)
    return da.blockwise(
        partial(_of_pair, function, options, dtype, get_config()),
        "ab", x, "aj", y, "bk",
        dtype=dtype, meta=np.empty((0, 0), dtype), align_arrays=False,
        name=f"widemargin-pairs-{uuid4().hex}",
    )  # fmt: skip


def _of_pair(
    function: Callable, options: dict, dtype: Any, config: dict, X: Any, Y: Any
) -> NDArray:
    """Ask a function about all pairs of rows of two blocks; what a worker runs."""
    X, Y = X[0], Y[0]
    if not X.shape[0] or not Y.shape[0]:
        return np.empty((X.shape[0], Y.shape[0]), dtype)
    with config_context(**config):
        found = _host(function(X, Y, **options))
    if not np.can_cast(found.dtype, dtype):
        raise ValueError(f"X and Y: {dtype} cannot hold what was found; pass float64.")
    return found.astype(dtype, copy=False)


def accuracy(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Share of right answers, added up block by block."""
    import dask

    if not is_lazy(X):
        raise ValueError("X must be a Dask collection where y is one.")
    X = check_blocks(X)
    rows = [cut_alike(y, X, "y")]
    if sample_weight is not None:
        rows.append(cut_alike(sample_weight, X, "sample_weight"))
    asked = _asked_about(model, ("predict",), X)
    counts = over_blocks(_right, X, rows, np.zeros((1, 2)), asked)
    right, total = dask.compute(counts.sum(axis=0))[0]
    return float(right / total)


def _right(model: Any, X: Any, y: Any, weights: Any = None) -> NDArray:
    total = float(len(y) if weights is None else np.sum(weights))
    share = model.score(X, y, weights) if total > 0 else 0.0
    return np.array([[share * total, total]])
