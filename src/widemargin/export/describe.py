"""Fitted estimators as programs: one function for each kind.

Only exact types are described: a subclass may decide otherwise than its parent, and a
description that is nearly right would be a wrong model. What cannot be carried is
refused with the name of the estimator and the reason.

Tangents that bend the inputs become maps, affine or quadratic in a sample. An affine
generator is known by what it gives to zero and to the unit vectors, so that any
generator that is affine can be carried, ours or not. Of the others only the thickness
of :class:`~widemargin.tangents.ImageTangents` can: it is the sum of the squares of two
affine tangents.
"""

from collections.abc import Callable, Iterable
from functools import partial
from math import isnan
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import decomposition, feature_selection, model_selection, preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from widemargin import fewshot, linear, meta, neighbors, prototypes, svm, tangents
from widemargin._compute.rounding import epsilon
from widemargin._core.confidence import margin_unit_of
from widemargin.export import program as ir
from widemargin.hyperplanes.pairwise import ROUNDINGS, pairwise_coefficients
from widemargin.linear.feature_ridge import shares_of_planes
from widemargin.neighbors.index import FunctionMetric
from widemargin.tangents.preparing import filter_matrix

CLASSIFIERS: dict[type, Callable[[Any], ir.Program]] = {}
TRANSFORMERS: dict[type, Callable[[Any], list[ir.Step]]] = {}
# A float64 tangent whose rest is below this share of its length depends on others.
RTOL = epsilon() ** (2 / 3)


def _describes(table: dict, *types: type) -> Callable[[Callable], Callable]:
    """Register what describes estimators of these types."""

    def register(function: Callable) -> Callable:
        table.update(dict.fromkeys(types, function))
        return function

    return register


# Why the other classifiers of the package have no program.
WITHOUT_PROGRAM: dict[type, str] = {
    **dict.fromkeys(
        (neighbors.DensityClassifier, neighbors.TangentDensityClassifier),
        "its scores are sums over all samples that it remembers",
    ),
    prototypes.RelationalLVQClassifier: "it takes dissimilarities to training samples",
    fewshot.FewShotImageClassifier: "it joins the answers of several classifiers",
    meta.ProductClassifier: "it joins the answers of several classifiers",
    meta.ConformalClassifier: "it answers with sets of classes",
    svm.DDAGClassifier: "it asks a classifier for each pair of classes",
    svm.JitteredSVC: "it moves every sample to where each support vector is nearest",
}
describes = partial(_describes, CLASSIFIERS)
prepares = partial(_describes, TRANSFORMERS)


def describe(model: Any) -> ir.Program:
    """Return the program of a fitted classifier, or refuse.

    The program gives the answers of ``predict``, up to rounding. ``predict`` does not
    evaluate it: it measures again what rounding leaves open, bounds most distances and
    measures few, and works where its samples are, all of which a program cannot say.

    Parameters
    ----------
    model : fitted classifier
        One of widemargin, or a pipeline that ends in one.

    Returns
    -------
    Program
        What :func:`to_onnx` and :func:`to_c` write.
    """
    function = CLASSIFIERS.get(type(model))
    if function is None:
        parent = next((t for t in type(model).__mro__ if t in CLASSIFIERS), None)
        if parent is not None:
            raise ir.refuse(
                model,
                f"it is a subclass of {parent.__name__} that may decide differently",
            )
        if type(model) in WITHOUT_PROGRAM:
            raise ir.refuse(model, WITHOUT_PROGRAM[type(model)])
        known = ", ".join(sorted(t.__name__ for t in CLASSIFIERS))
        raise ir.refuse(model, f"only these can leave Python: {known}")
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError) as error:
        raise ir.refuse(model, "it is not fitted; call fit first") from error
    program = function(model)
    if len(program.classes) < 2:
        raise ir.refuse(model, "it knows one class only and has nothing to decide")
    return program


def _program(model: Any, decision: Any, steps: tuple[ir.Step, ...] = ()) -> ir.Program:
    return ir.Program(
        type(model).__name__,
        int(model.n_features_in_),
        decision,
        np.asarray(model.classes_),
        margin_unit_of(model),
        steps,
    )


def _about_mean(
    points: NDArray, scale: Any = 1.0, *, always: bool = False
) -> tuple[NDArray, tuple[ir.Step, ...]]:
    """Return points about their mean in units, and the step that does so to samples.

    Float32 then keeps the digits that matter. Points about zero may stay as they are.
    """
    centre = points.mean(axis=0, dtype=float)
    offsets = points - centre
    near = np.abs(centre).max() <= 4 * np.abs(offsets).max()
    if near and np.ndim(scale) == 0 and not always:
        return points, ()
    return offsets * scale, (_affine(len(centre), centre, scale, 0.0),)


def _codes(model: Any) -> NDArray:
    codes = np.searchsorted(model.classes_, model.prototype_labels_)
    bare = np.setdiff1d(np.arange(len(model.classes_)), codes)
    if len(bare):
        label = model.classes_[bare[0]]
        raise ir.refuse(model, f"class {label!r} has no prototype")
    return codes


def _scale(model: Any) -> Any:
    return 1.0 if model.scale_ is None else 1 / model.scale_.astype(float)


@describes(
    prototypes.LVQClassifier, prototypes.GLVQClassifier, prototypes.MarginLVQClassifier,
    prototypes.HSSClassifier, prototypes.TVQClassifier, prototypes.TDNeuronClassifier,
)  # fmt: skip
def _prototypes(model: Any) -> ir.Program:
    frames = getattr(model, "tangents_", None)
    bends = getattr(model, "input_tangents_", None)
    if bends is None:
        points, steps = _about_mean(model.prototypes_, _scale(model))
        references = ir.References(points, frames)
    else:
        spring, steps = float(model.metric_.spring), ()
        bends = input_tangents(model, bends, model.n_features_in_)
        references = ir.References(model.prototypes_, frames, bends, "both", spring)
    rule = getattr(model, "decision_", "nearest")
    size = {"k_nearest": "n_neighbors_", "parzen": "bandwidth_"}.get(rule)
    number = 1 if size is None else getattr(model, size)
    units = getattr(model, "slopes_", None), getattr(model, "thresholds_", None)
    decision = ir.Nearest(references, _codes(model), rule, number, *units)
    return _program(model, decision, steps)


@describes(prototypes.GMLVQClassifier)
def _relevance(model: Any) -> ir.Program:
    if model.omega_.ndim == 3:
        raise ir.refuse(model, f"metric={model.metric!r} has several maps; use 'full'")
    if model.omega_.ndim == 1:
        points, steps = _about_mean(model.prototypes_, model.omega_)
    else:
        points, steps = _about_mean(model.prototypes_, 1.0, always=True)
        points, steps = points @ model.omega_.T, (*steps, ir.Project(model.omega_))
    return _program(model, ir.Nearest(ir.References(points), _codes(model)), steps)


@describes(prototypes.KernelLVQClassifier)
def _kernel_prototypes(model: Any) -> ir.Program:
    kernel = model._kernel["kernel"]
    if kernel != "rbf":
        raise ir.refuse(model, f"kernel={kernel!r} cannot; use 'rbf'")
    points, scale = model.support_vectors_, model.scale_
    steps: list[ir.Step] = []
    if scale is not None:
        centre, scale = points.mean(axis=0, dtype=float), scale.astype(float)
        steps.append(_affine(len(centre), centre, 1 / scale, 0.0))
        # Divided in the precision in which the model holds them, as there.
        points = points / model.scale_ - centre / scale
    gamma = float(model._kernel["gamma"])
    embed = ir.Embed(points, gamma, np.asarray(model._coordinates, float))
    # Prototypes have coordinates only.
    P = np.pad(model.prototypes_, ((0, 0), (0, 1)))
    decision = ir.Nearest(ir.References(P), _codes(model))
    return _program(model, decision, (*steps, embed))


@describes(
    linear.MarginPerceptron, linear.FixedMarginPerceptron, linear.MaxMarginClassifier
)
def _hyperplanes(model: Any) -> ir.Program:
    if not hasattr(model, "coef_"):
        return _kernel_planes(model)
    # Hyperplanes here are positive for the second class, duels for the first.
    coef, intercept = -model.coef_, -np.ravel(model.intercept_)
    borders, norms, reach = None, np.ones(len(coef)), np.abs(intercept)
    if model._scheme == "ovr":
        norms = model.weight_norm_ / (model.weight_norm_.max() or 1.0)
        coef, intercept = -norms[:, None] * coef, -norms * intercept
        borders = model._borders / (model.weight_norm_.max() or 1.0)
        np.fill_diagonal(borders, 1.0)
    steps: list[ir.Step] = []
    if getattr(model, "center_", None) is not None:
        centre = np.atleast_2d(model.center_).mean(axis=0, dtype=float)
        intercept = intercept + coef.astype(float) @ centre
        reach = reach + np.linalg.norm(centre)
        steps.append(_affine(len(centre), centre, 1.0, 0.0))
    # Clearness is weighed in units of the data the model was fitted to.
    unit = float(model._unit)
    reach = norms[:, None] * np.column_stack([np.ones(len(coef)), reach])
    decision = ir.Planes(coef, intercept, model._scheme, unit, borders, reach)
    return _program(model, decision, tuple(steps))


def _kernel_planes(model: Any) -> ir.Program:
    state = model._kernel_state
    if model._scheme == "ovr" and len(model.classes_) > 2:
        raise ir.refuse(
            model, "with a kernel multiclass='ovr' cannot; use 'ovo' or 'ddag'"
        )
    units = np.where(model.weight_norm_ > 0, model.weight_norm_, np.inf)
    return _expansion(
        model,
        state["kernel"],
        getattr(model, "support_vectors_", None),
        state.get("gamma", 1.0),
        # As above, positive for the first class.
        (-(model.dual_coef_ / units[:, None]).T, -np.ravel(model.intercept_)),
        model._scheme,
    )


def _expansion(
    model: Any, kernel: Any, points: Any, gamma: float, duels: tuple, scheme: str
) -> ir.Program:
    """Duels (coefficients of points, offsets) of a kernel of plain distances."""
    coef, intercept = duels
    centre = getattr(model, "_centre", None)
    steps: tuple[ir.Step, ...] = ()
    if kernel == "linear":
        if centre is not None:
            steps = (_affine(len(centre), centre, 1.0, 0.0),)
        return _program(model, ir.Planes(coef.T @ points, intercept, scheme), steps)
    if kernel != "rbf":
        raise ir.refuse(model, f"kernel={kernel!r} cannot; use 'linear' or 'rbf'")
    points, steps = _about_mean(points if centre is None else points + centre)
    references = ir.References(points)
    decision = ir.Expansion(references, "rbf", float(gamma), coef, intercept, scheme)
    return _program(model, decision, steps)


@describes(linear.SignalClassifier)
def _signals(model: Any) -> ir.Program:
    return _feature_ridge(model, prepared_by(model.features_))


@describes(linear.SpectrumClassifier)
def _spectra(model: Any) -> ir.Program:
    views = (tuple(prepared_by(one)) for one in model.preprocessing_)
    return _feature_ridge(model, [ir.Join(tuple(views))])


def _feature_ridge(model: Any, steps: Iterable[ir.Step]) -> ir.Program:
    # Positive for the first class, where two share a row.
    K, width = len(model.classes_), len(model.center_)
    sign, borders = (-1, None) if K == 2 else (1, np.ones((K, K)))
    coef = sign * model.coef_.reshape(-1, width)
    intercept = sign * np.ravel(model.intercept_)
    planes = ir.Planes(coef, intercept, "ovr", 1.0, borders)
    if model.coef_.ndim == 3 and len(model.coef_) > 1:
        planes = planes._replace(shares=shares_of_planes(len(model.coef_)))
    centred = _affine(width, model.center_, 1.0, 0.0)
    return _program(model, planes, (*steps, centred))


@describes(svm.VirtualSVC)
def _virtual(model: Any) -> ir.Program:
    svc, scheme = model.svc_, model._multiclass
    duels = pairwise_coefficients(svc)
    points = svc.support_vectors_
    return _expansion(model, svc.kernel, points, svc.gamma, duels, scheme)


@describes(svm.InvariantHyperplaneSVC)
def _invariant(model: Any) -> ir.Program:
    coef, intercept = pairwise_coefficients(model.svc_)
    coef, gamma = model.whitening_ @ (model.svc_.support_vectors_.T @ coef), 1.0
    points, kernel = np.eye(len(coef)), "linear"
    if model._landmarks is not None:
        points, coef = model._landmarks, model._root.T @ coef
        kernel, gamma, *_ = model._kernel
    duels = coef, intercept
    return _expansion(model, kernel, points, gamma, duels, model._multiclass)


@describes(neighbors.TangentKNeighborsClassifier)
def _neighbors(model: Any) -> ir.Program:
    metric = model._metric
    if isinstance(metric, FunctionMetric):
        raise ir.refuse(model, "its metric is a function of Python")
    if callable(model._weights):
        raise ir.refuse(model, "its weights are a function of Python")
    index = model._index_at(model.bundle_.points)
    if getattr(index, "algorithm", None) == "rerank":
        raise ir.refuse(
            model, "algorithm='rerank' is approximate; fit with 'exact' or 'brute'"
        )
    references, steps = bend(model, model.bundle_, metric)
    codes = np.asarray(model._codes, np.int64)
    if model.margin_unit == "relative":
        return _program(model, ir.Nearest(references, codes), steps)
    decision = ir.Votes(
        references,
        codes,
        int(model._n_neighbors),
        model._weights == "distance",
        np.asarray(model._votes, float),
    )
    return _program(model, decision, steps)


@describes(svm.TangentSVC)
def _machine(model: Any) -> ir.Program:
    kernel = model._kernel
    if callable(kernel.function):
        raise ir.refuse(model, "its kernel is a function of Python")
    metric = kernel.metric
    references, steps = bend(model, model.support_bundle_, metric, mirrored=True)
    decision = ir.Expansion(
        references,
        kernel.function,
        float(kernel.gamma),
        model.coef_,
        model.intercept_,
        model._multiclass,
        ROUNDINGS * epsilon(model.support_bundle_.points.dtype),
    )
    return _program(model, decision, steps)


@describes(meta.RejectingClassifier)
def _rejecting(model: Any) -> ir.Program:
    if model._confidence_func is not None:
        raise ir.refuse(model, "its confidence_func is a function of Python")
    program = describe(model.estimator_)
    if model.outlier_threshold_ is not None:
        raise ir.refuse(
            model, "it refuses by distance too; fit with outlier_fraction=None"
        )
    if model.estimators_:
        raise ir.refuse(model, "it asks a model for each fold; let cv be a fraction")
    if model.class_thresholds_ is not None:
        raise ir.refuse(model, "it has a threshold for each class; fit with per=None")
    if np.isposinf(model.threshold_):
        raise ir.refuse(
            model,
            "it refuses every sample; allow a larger max_error, or give more data",
        )
    return program._replace(
        # Minus infinity, nothing is refused, has no literal everywhere.
        threshold=max(float(model.threshold_), -1e38),
        reject_label=model.reject_label_,
    )


@describes(meta.MarginReweightingClassifier)
def _reweighted(model: Any) -> ir.Program:
    inside = margin_unit_of(model.estimator_)
    if model._measure is not None or inside not in ("relative", "vote_fraction"):
        raise ir.refuse(
            model, "its margins are measured anew; export its estimator_, which answers"
        )
    return describe(model.estimator_)


@describes(FrozenEstimator)
def _frozen(model: Any) -> ir.Program:
    return describe(model.estimator)


@describes(model_selection.GridSearchCV, model_selection.RandomizedSearchCV)
def _searched(model: Any) -> ir.Program:
    if not hasattr(model, "best_estimator_"):
        raise ir.refuse(model, "it was told not to refit its best estimator")
    return describe(model.best_estimator_)


@describes(Pipeline)
def _pipeline(model: Any) -> ir.Program:
    *before, (_, last) = model.steps
    program = describe(last)
    real = [one for _, one in before if one is not None and one != "passthrough"]
    width = getattr(real[0], "n_features_in_", None) if real else program.n_features
    if width is None:
        # So is a FeatureUnion whose first part was dropped.
        raise ir.refuse(
            real[0], "it does not know its features; leave out parts that are 'drop'"
        )
    return program.after(*_chain(real), n_features=int(width))


def prepared_by(transformer: Any) -> list[ir.Step]:
    """Return the steps of a fitted transformer, or refuse."""
    if transformer is None or isinstance(transformer, str):
        return []
    function = TRANSFORMERS.get(type(transformer))
    if isinstance(transformer, meta.MixtureImputer):
        raise ir.refuse(
            transformer,
            "put a SimpleImputer in its place; the command: fit --impute median",
        )
    if function is None:
        known = ", ".join(sorted(t.__name__ for t in TRANSFORMERS))
        raise ir.refuse(
            transformer,
            f"of the steps before a classifier only {known} are known; where skl2onnx "
            "converts it, register_converters lets it convert the whole",
        )
    check_is_fitted(transformer)
    return function(transformer)


def _chain(transformers: Iterable[Any]) -> list[ir.Step]:
    """Return the steps of transformers one after another.

    What is filled in before a scaler is filled in scaled, lest float32 round it first.
    """
    steps: list[ir.Step] = []
    for step in (s for one in transformers for s in prepared_by(one)):
        if isinstance(step, ir.Affine) and steps and isinstance(steps[-1], ir.Fill):
            scaled = (steps[-1].values - step.centre) * step.scale + step.shift
            steps[-1:] = [step, ir.Fill(scaled)]
        else:
            steps.append(step)
    return steps


@prepares(Pipeline)
def _inner_pipeline(pipeline: Any) -> list[ir.Step]:
    return _chain(transformer for _, transformer in pipeline.steps)


@prepares(FrozenEstimator)
def _frozen_step(frozen: Any) -> list[ir.Step]:
    return prepared_by(frozen.estimator)


@prepares(preprocessing.FunctionTransformer)
def _function(transformer: Any) -> list[ir.Step]:
    if transformer.func is not None:
        raise ir.refuse(transformer, "its func is a function of Python")
    return []


@prepares(SimpleImputer)
def _imputer(imputer: Any) -> list[ir.Step]:
    if imputer.add_indicator:
        raise ir.refuse(
            imputer, "add_indicator=True adds features; fit with add_indicator=False"
        )
    if not (isinstance(imputer.missing_values, Real) and isnan(imputer.missing_values)):
        raise ir.refuse(
            imputer,
            f"missing_values={imputer.missing_values!r} are numbers elsewhere; fit "
            "with NaN for what is missing",
        )
    try:
        values = np.asarray(imputer.statistics_).astype(float)
    except ValueError as error:
        raise ir.refuse(imputer, "it fills in text; give numeric features") from error
    empty = np.isnan(values)
    # What nobody had is dropped.
    dropped = [ir.Pick(np.flatnonzero(~empty))] if empty.any() else []
    return [*dropped, ir.Fill(values[~empty])]


@prepares(
    *(
        kind
        for kind in vars(feature_selection).values()
        if hasattr(kind, "get_params") and hasattr(kind, "get_support")
    )
)
def _selector(selector: Any) -> list[ir.Step]:
    return [ir.Pick(selector.get_support(indices=True))]


@prepares(decomposition.PCA, decomposition.IncrementalPCA, decomposition.TruncatedSVD)
def _components(model: Any) -> list[ir.Step]:
    matrix = np.asarray(model.components_, float)
    if getattr(model, "whiten", False):
        scale = np.sqrt(model.explained_variance_)
        matrix = matrix / np.maximum(scale, epsilon(scale.dtype))[:, None]
    centre = getattr(model, "mean_", 0.0)
    return [_affine(matrix.shape[1], centre, 1.0, 0.0), ir.Project(matrix)]


@prepares(ColumnTransformer)
def _by_columns(transformer: Any) -> list[ir.Step]:
    columns = transformer._transformer_to_input_indices
    parts = [
        (ir.Pick(np.asarray(columns[name], np.int64)), *prepared_by(one))
        for name, one, _ in transformer.transformers_
        if len(columns[name]) and not (isinstance(one, str) and one == "drop")
    ]
    return [ir.Join(tuple(parts))]


@prepares(FeatureUnion)
def _side_by_side(union: Any) -> list[ir.Step]:
    if union.transformer_weights:
        raise ir.refuse(union, "its transformer_weights are not carried; scale instead")
    parts = [
        tuple(prepared_by(one)) for _, one in union.transformer_list if one != "drop"
    ]
    return [ir.Join(tuple(parts))]


def _affine(n: int, centre: Any, scale: Any, shift: Any) -> ir.Affine:
    return ir.Affine(
        *(
            np.array(np.broadcast_to(value, n), dtype=float)
            for value in (centre, scale, shift)
        )
    )


@prepares(preprocessing.StandardScaler)
def _standard(scaler: Any) -> list[ir.Step]:
    centre = scaler.mean_ if scaler.with_mean else 0.0
    scale = 1 / scaler.scale_ if scaler.scale_ is not None else 1.0
    return [_affine(scaler.n_features_in_, centre, scale, 0.0)]


@prepares(preprocessing.RobustScaler)
def _robust(scaler: Any) -> list[ir.Step]:
    centre = scaler.center_ if scaler.with_centering else 0.0
    scale = 1 / scaler.scale_ if scaler.with_scaling else 1.0
    return [_affine(scaler.n_features_in_, centre, scale, 0.0)]


@prepares(preprocessing.MaxAbsScaler)
def _max_abs(scaler: Any) -> list[ir.Step]:
    steps: list[ir.Step] = [_affine(scaler.n_features_in_, 0.0, 1 / scaler.scale_, 0.0)]
    return [*steps, ir.Clip(-1.0, 1.0)] if getattr(scaler, "clip", False) else steps


@prepares(preprocessing.MinMaxScaler)
def _min_max(scaler: Any) -> list[ir.Step]:
    low, high = scaler.feature_range
    steps: list[ir.Step] = [
        _affine(scaler.n_features_in_, scaler.data_min_, scaler.scale_, low)
    ]
    return [*steps, ir.Clip(float(low), float(high))] if scaler.clip else steps


@prepares(preprocessing.Normalizer)
def _normalizer(scaler: Any) -> list[ir.Step]:
    return [ir.Unit(scaler.norm)]


@prepares(tangents.GaussianSmoother)
def _smoother(smoother: Any) -> list[ir.Step]:
    shape = smoother.shape
    height, width, channels = (
        (1, smoother.n_features_in_, 1)
        if shape is None
        else (1, int(shape[0]), 1)
        if len(shape) == 1
        else (*map(int, shape), 1)[:3]
    )
    down, across = (
        # A signal is an image of one row, with nothing above or below it.
        filter_matrix(side, float(smoother.sigma) if side > 1 else 0.0, 0, float)
        for side in (height, width)
    )
    return [ir.Smooth(down, across, channels, float(smoother.background))]


@prepares(tangents.ConvolutionFeatures)
def _convolved(features: Any) -> list[ir.Step]:
    channels, width = len(features.mean_), features.n_features_in_
    centre, scale = (
        np.tile(values, width // channels)
        for values in (features.mean_, 1 / features.scale_)
    )
    banks = ir.Convolve(channels, tuple(features.banks_))
    return [_affine(width, centre, scale, 0.0), banks]


@prepares(tangents.StandardNormalVariate)
def _normal_variate(transformer: Any) -> list[ir.Step]:
    return [ir.Scatter()]


@prepares(tangents.MultiplicativeScatterCorrection)
def _corrected(transformer: Any) -> list[ir.Step]:
    return [ir.Scatter(transformer.reference_)]


@prepares(tangents.SavitzkyGolay)
def _savitzky_golay(transformer: Any) -> list[ir.Step]:
    # What it gives of unit vectors: row i are the weights of output i.
    n, w = transformer.n_features_in_, int(transformer.window)
    matrix = transformer.transform(np.eye(n)).T
    half = w // 2
    left, right = matrix[:half, :w], matrix[n - half :, n - w :]
    return [ir.Stencil(matrix[half, :w], left, right)]


def input_tangents(model: Any, generator: Any, n_features: int) -> ir.InputTangents:
    """Describe what bends the inputs of a model, or refuse."""
    found = [_described(model, part, n_features) for part in _parts(generator)]
    squares = [part for part in found if part.squares is not None]
    if len(squares) > 1:
        raise ir.refuse(
            model, "more than one of its tangents is quadratic in the input"
        )
    maps = np.concatenate([part.maps for part in found])
    offset = np.concatenate([part.offset for part in found])
    last = squares[0] if squares else ir.InputTangents(maps, offset)
    return ir.InputTangents(maps, offset, last.squares, last.square_offset, RTOL)


def _parts(generator: Any) -> list[Any]:
    if not isinstance(generator, tangents.TangentUnion):
        return [generator]
    return [one for part in generator.generators_ for one in _parts(part)]


def _described(model: Any, generator: Any, n_features: int) -> ir.InputTangents:
    if not isinstance(generator, tangents.TangentGenerator):
        if hasattr(generator, "tangents"):
            raise ir.refuse(
                model, f"nothing is known of tangents by {type(generator).__name__}"
            )
        rows = np.atleast_2d(np.asarray(generator, float))
        return ir.InputTangents(np.zeros((len(rows), *[n_features] * 2)), rows)
    if generator.is_affine:
        return ir.InputTangents(*_probed(generator, n_features))
    if type(generator) is not tangents.ImageTangents:
        raise ir.refuse(
            model, f"tangents by {type(generator).__name__} are not affine in the input"
        )
    others = [name for name in generator._names() if name != "thickness"]
    maps, offset = np.empty((0, *[n_features] * 2)), np.empty((0, n_features))
    if others:
        maps, offset = _probed(_with(generator, others), n_features)
    gradient = _probed(_with(generator, ["x_shift", "y_shift"]), n_features)
    return ir.InputTangents(maps, offset, *gradient)


def _with(
    generator: tangents.ImageTangents, names: list[str]
) -> tangents.ImageTangents:
    return tangents.ImageTangents(
        generator.shape, tuple(names), generator.sigma, generator.background
    )


def _probed(generator: Any, n_features: int) -> tuple[NDArray, NDArray]:
    """(l, d, d) matrices and (l, d) offsets of an affine generator."""
    offset = generator.tangents(np.zeros((1, n_features)))[0]
    # By unit vector, tangent, feature.
    images = generator.tangents(np.eye(n_features)) - offset
    return np.ascontiguousarray(images.transpose(1, 2, 0)), offset


def bend(
    model: Any, bundle: tangents.Bundle, metric: Any, *, mirrored: bool = False
) -> tuple[ir.References, tuple[ir.Step, ...]]:
    """Return the references of a bundle, and the step that a shared frame becomes.

    `mirrored` distances with tangents at one end are also taken at the other.
    """
    sides, spring = metric.sides, metric.spring
    if sides == "midpoint":
        raise ir.refuse(model, "sides='midpoint' needs the tangents of every pair")
    points, d = bundle.points, bundle.points.shape[1]
    if not bundle.n_tangents:
        return ir.References(points), ()
    if bundle.is_shared:
        # One frame for all is a linear map; at both ends the springs are in series.
        k = spring / 2 if sides == "both" else spring
        V = np.asarray(bundle.frames[0], float)
        fold = np.eye(d) - (1 - np.sqrt(1 - 1 / (1 + k))) * V.T @ V
        # Points about zero stay as they are: ties of whole numbers stay ties.
        points, steps = _about_mean(points)
        return ir.References(points @ fold.T), (*steps, ir.Project(fold))
    bends = None
    if sides != "reference" or mirrored:
        bends = input_tangents(model, metric.tangents, d)
    return ir.References(points, bundle.frames, bends, sides, float(spring)), ()
