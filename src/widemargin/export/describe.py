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
from math import isnan
from numbers import Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import feature_selection
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from widemargin import linear, meta, neighbors, prototypes, svm
from widemargin._core.confidence import margin_unit_of
from widemargin.export.program import (
    Affine,
    Clip,
    Convolve,
    Embed,
    Expansion,
    Fill,
    InputTangents,
    Join,
    Nearest,
    Pick,
    Planes,
    Program,
    Project,
    References,
    Scatter,
    Smooth,
    Stencil,
    Step,
    Unit,
    Votes,
    refuse,
)
from widemargin.neighbors.index import FunctionMetric
from widemargin.svm.pairwise import ROUNDINGS, pairwise_coefficients
from widemargin.tangents import (
    Bundle,
    ConvolutionFeatures,
    GaussianSmoother,
    ImageTangents,
    MultiplicativeScatterCorrection,
    SavitzkyGolay,
    StandardNormalVariate,
    TangentGenerator,
    TangentUnion,
)
from widemargin.tangents.preparing import filter_matrix

CLASSIFIERS: dict[type, Callable[[Any], Program]] = {}
TRANSFORMERS: dict[type, Callable[[Any], list[Step]]] = {}
# A float64 tangent whose rest is below this share of its length depends on others.
RTOL = float(np.finfo(np.float64).eps ** (2 / 3))


def _into(table: dict, types: tuple[type, ...]) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        table.update(dict.fromkeys(types, function))
        return function

    return register


def describes(*types: type) -> Callable[[Callable], Callable]:
    """Register the description of classifiers."""
    return _into(CLASSIFIERS, types)


def prepares(*types: type) -> Callable[[Callable], Callable]:
    """Register the description of transformers."""
    return _into(TRANSFORMERS, types)


def describe(model: Any) -> Program:
    """Return the program of a fitted classifier, or refuse.

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
            raise refuse(
                model,
                f"it is a subclass of {parent.__name__} that may decide differently",
            )
        known = ", ".join(sorted(t.__name__ for t in CLASSIFIERS))
        raise refuse(model, f"only these can leave Python: {known}")
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError) as error:
        raise refuse(model, "it is not fitted; call fit first") from error
    program = function(model)
    if len(program.classes) < 2:
        raise refuse(model, "it knows one class only and has nothing to decide")
    return program


def _program(model: Any, decision: Any, steps: tuple[Step, ...] = ()) -> Program:
    return Program(
        type(model).__name__,
        int(model.n_features_in_),
        decision,
        np.asarray(model.classes_),
        margin_unit_of(model),
        steps,
    )


def _about_mean(
    points: NDArray, scale: Any = 1.0, *, always: bool = False
) -> tuple[NDArray, tuple[Step, ...]]:
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
        raise refuse(model, f"class {label!r} has no prototype")
    return codes


def _scale(model: Any) -> Any:
    return 1.0 if model.scale_ is None else 1 / model.scale_.astype(float)


@describes(prototypes.LVQClassifier, prototypes.GLVQClassifier)
def _nearest_prototype(model: Any) -> Program:
    points, steps = _about_mean(model.prototypes_, _scale(model))
    return _program(model, Nearest(References(points), _codes(model)), steps)


@describes(prototypes.GMLVQClassifier)
def _relevance(model: Any) -> Program:
    if model.omega_.ndim == 3:
        raise refuse(model, f"metric={model.metric!r} has several maps; use 'full'")
    if model.omega_.ndim == 1:
        points, steps = _about_mean(model.prototypes_, model.omega_)
    else:
        points, steps = _about_mean(model.prototypes_, 1.0, always=True)
        points, steps = points @ model.omega_.T, (*steps, Project(model.omega_))
    return _program(model, Nearest(References(points), _codes(model)), steps)


@describes(prototypes.KernelLVQClassifier)
def _kernel_prototypes(model: Any) -> Program:
    kernel = model._kernel["kernel"]
    if kernel != "rbf":
        raise refuse(model, f"kernel={kernel!r} cannot; use 'rbf'")
    points, scale = model.support_vectors_, model.scale_
    steps: list[Step] = []
    if scale is not None:
        centre, scale = points.mean(axis=0, dtype=float), scale.astype(float)
        steps.append(_affine(len(centre), centre, 1 / scale, 0.0))
        # Divided in the precision in which the model holds them, as there.
        points = points / model.scale_ - centre / scale
    gamma = float(model._kernel["gamma"])
    embed = Embed(points, gamma, np.asarray(model._coordinates, float))
    # Prototypes have coordinates only.
    P = np.pad(model.prototypes_, ((0, 0), (0, 1)))
    decision = Nearest(References(P), _codes(model))
    return _program(model, decision, (*steps, embed))


@describes(prototypes.MarginLVQClassifier)
def _class_rule(model: Any) -> Program:
    rules = {
        "nearest": ("nearest", 1),
        "k_nearest": ("kth", model.n_neighbors_),
        "parzen": ("parzen", model.bandwidth_),
    }
    rule, number = rules[model.decision_]
    points, steps = _about_mean(model.prototypes_, _scale(model))
    return _program(
        model,
        Nearest(References(points), _codes(model), rule=rule, number=number),
        steps,
    )


@describes(prototypes.HSSClassifier, prototypes.TVQClassifier)
def _tangent_models(model: Any) -> Program:
    if model.input_tangents_ is None:
        points, steps = _about_mean(model.prototypes_)
        references = References(points, model.tangents_)
        return _program(model, Nearest(references, _codes(model)), steps)
    references = References(
        model.prototypes_,
        model.tangents_,
        input_tangents(model, model.input_tangents_, model.n_features_in_),
        sides="both",
        spring=float(model.metric_.spring),
    )
    return _program(model, Nearest(references, _codes(model)))


@describes(prototypes.TDNeuronClassifier)
def _neurons(model: Any) -> Program:
    points, steps = _about_mean(model.prototypes_)
    decision = Nearest(
        References(points, model.tangents_),
        _codes(model),
        slopes=model.slopes_,
        thresholds=model.thresholds_,
    )
    return _program(model, decision, steps)


@describes(
    linear.MarginPerceptron, linear.FixedMarginPerceptron, linear.MaxMarginClassifier
)
def _hyperplanes(model: Any) -> Program:
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
    steps: list[Step] = []
    if getattr(model, "center_", None) is not None:
        centre = np.atleast_2d(model.center_).mean(axis=0, dtype=float)
        intercept = intercept + coef.astype(float) @ centre
        reach = reach + np.linalg.norm(centre)
        steps.append(_affine(len(centre), centre, 1.0, 0.0))
    # Clearness is weighed in units of the data the model was fitted to.
    unit = float(model._unit)
    reach = norms[:, None] * np.column_stack([np.ones(len(coef)), reach])
    decision = Planes(coef, intercept, model._scheme, unit, borders, reach)
    return _program(model, decision, tuple(steps))


def _kernel_planes(model: Any) -> Program:
    state = model._kernel_state
    if model._scheme == "ovr" and len(model.classes_) > 2:
        raise refuse(
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
) -> Program:
    """Duels (coefficients of points, offsets) of a kernel of plain distances."""
    coef, intercept = duels
    centre = getattr(model, "_centre", None)
    steps: tuple[Step, ...] = ()
    if kernel == "linear":
        if centre is not None:
            steps = (_affine(len(centre), centre, 1.0, 0.0),)
        return _program(model, Planes(coef.T @ points, intercept, scheme), steps)
    if kernel != "rbf":
        raise refuse(model, f"kernel={kernel!r} cannot; use 'linear' or 'rbf'")
    points, steps = _about_mean(points if centre is None else points + centre)
    references = References(points)
    decision = Expansion(references, "rbf", float(gamma), coef, intercept, scheme)
    return _program(model, decision, steps)


@describes(linear.SignalClassifier)
def _signals(model: Any) -> Program:
    return _feature_ridge(model, prepared_by(model.features_))


@describes(linear.SpectrumClassifier)
def _spectra(model: Any) -> Program:
    views = (tuple(prepared_by(one)) for one in model.preprocessing_)
    return _feature_ridge(model, [Join(tuple(views))])


def _feature_ridge(model: Any, steps: Iterable[Step]) -> Program:
    # Positive for the first class, where two share a row.
    sign, K = (-1 if len(model.coef_) == 1 else 1), len(model.classes_)
    borders = None if len(model.coef_) == 1 else np.ones((K, K))
    planes = sign * model.coef_, sign * model.intercept_, "ovr", 1.0, borders
    centred = _affine(len(model.center_), model.center_, 1.0, 0.0)
    return _program(model, Planes(*planes), (*steps, centred))


@describes(svm.VirtualSVC)
def _virtual(model: Any) -> Program:
    _metric(model, SimpleNamespace(unit=model._unit))
    svc, scheme = model.svc_, model._multiclass
    duels = pairwise_coefficients(svc)
    points = svc.support_vectors_
    return _expansion(model, svc.kernel, points, svc.gamma, duels, scheme)


@describes(svm.InvariantHyperplaneSVC)
def _invariant(model: Any) -> Program:
    coef, intercept = pairwise_coefficients(model.svc_)
    coef, gamma = model.whitening_ @ (model.svc_.support_vectors_.T @ coef), 1.0
    points, kernel = np.eye(len(coef)), "linear"
    if model._landmarks is not None:
        points, coef = model._landmarks, model._root.T @ coef
        kernel, gamma, *_ = model._kernel
    duels = coef, intercept
    return _expansion(model, kernel, points, gamma, duels, model._multiclass)


def _metric(model: Any, metric: Any) -> Any:
    if getattr(metric, "unit", 1.0) != 1:
        raise refuse(
            model, "squares of its samples overflow or vanish; scale the data first"
        )
    return metric


@describes(neighbors.TangentKNeighborsClassifier)
def _neighbors(model: Any) -> Program:
    metric = _metric(model, model._metric)
    if isinstance(metric, FunctionMetric):
        raise refuse(model, "its metric is a function of Python")
    if callable(model._weights):
        raise refuse(model, "its weights are a function of Python")
    index = model._index_at(model.bundle_.points)
    if getattr(index, "algorithm", None) == "rerank":
        raise refuse(
            model, "algorithm='rerank' is approximate; fit with 'exact' or 'brute'"
        )
    references, steps = bend(model, model.bundle_, metric)
    codes = np.asarray(model._codes, np.int64)
    if model.margin_unit == "relative":
        return _program(model, Nearest(references, codes), steps)
    decision = Votes(
        references,
        codes,
        int(model._n_neighbors),
        model._weights == "distance",
        np.asarray(model._votes, float),
    )
    return _program(model, decision, steps)


@describes(svm.TangentSVC)
def _machine(model: Any) -> Program:
    kernel = model._kernel
    if callable(kernel.function):
        raise refuse(model, "its kernel is a function of Python")
    metric = _metric(model, kernel.metric)
    references, steps = bend(model, model.support_bundle_, metric, mirrored=True)
    decision = Expansion(
        references,
        kernel.function,
        float(kernel.gamma),
        model.coef_,
        model.intercept_,
        model._multiclass,
        ROUNDINGS * float(np.finfo(model.support_bundle_.points.dtype).eps),
    )
    return _program(model, decision, steps)


@describes(meta.RejectingClassifier)
def _rejecting(model: Any) -> Program:
    if model._confidence_func is not None:
        raise refuse(model, "its confidence_func is a function of Python")
    program = describe(model.estimator_)
    if model.outlier_threshold_ is not None:
        raise refuse(
            model, "it refuses by distance too; fit with outlier_fraction=None"
        )
    if model.estimators_:
        raise refuse(model, "it asks a model for each fold; let cv be a fraction")
    if model.class_thresholds_ is not None:
        raise refuse(model, "it has a threshold for each class; fit with per=None")
    if np.isposinf(model.threshold_):
        raise refuse(
            model,
            "it refuses every sample; allow a larger max_error, or give more data",
        )
    return program._replace(
        # Minus infinity, nothing is refused, has no literal everywhere.
        threshold=max(float(model.threshold_), -float(np.finfo(np.float32).max)),
        reject_label=model.reject_label_,
    )


@describes(meta.MarginReweightingClassifier)
def _reweighted(model: Any) -> Program:
    inside = margin_unit_of(model.estimator_)
    if model._measure is not None or inside not in ("relative", "vote_fraction"):
        raise refuse(
            model, "its margins are measured anew; export its estimator_, which answers"
        )
    return describe(model.estimator_)


@describes(FrozenEstimator)
def _frozen(model: Any) -> Program:
    return describe(model.estimator)


@describes(GridSearchCV, RandomizedSearchCV)
def _searched(model: Any) -> Program:
    if not hasattr(model, "best_estimator_"):
        raise refuse(model, "it was told not to refit its best estimator")
    return describe(model.best_estimator_)


@describes(Pipeline)
def _pipeline(model: Any) -> Program:
    *before, (_, last) = model.steps
    program = describe(last)
    real = [one for _, one in before if one is not None and one != "passthrough"]
    width = getattr(real[0], "n_features_in_", None) if real else program.n_features
    if width is None:
        # So is a FeatureUnion whose first part was dropped.
        raise refuse(
            real[0], "it does not know its features; leave out parts that are 'drop'"
        )
    return program.after(*_chain(real), n_features=int(width))


def prepared_by(transformer: Any) -> list[Step]:
    """Return the steps of a fitted transformer, or refuse."""
    if transformer is None or isinstance(transformer, str):
        return []
    function = TRANSFORMERS.get(type(transformer))
    if function is None:
        known = ", ".join(sorted(t.__name__ for t in TRANSFORMERS))
        raise refuse(
            transformer,
            f"of the steps before a classifier only {known} are known; where skl2onnx "
            "converts it, register_converters lets it convert the whole",
        )
    check_is_fitted(transformer)
    return function(transformer)


def _chain(transformers: Iterable[Any]) -> list[Step]:
    """Return the steps of transformers one after another.

    What is filled in before a scaler is filled in scaled, lest float32 round it first.
    """
    steps: list[Step] = []
    for step in (s for one in transformers for s in prepared_by(one)):
        if isinstance(step, Affine) and steps and isinstance(steps[-1], Fill):
            scaled = (steps[-1].values - step.centre) * step.scale + step.shift
            steps[-1:] = [step, Fill(scaled)]
        else:
            steps.append(step)
    return steps


@prepares(Pipeline)
def _inner_pipeline(pipeline: Any) -> list[Step]:
    return _chain(transformer for _, transformer in pipeline.steps)


@prepares(FrozenEstimator)
def _frozen_step(frozen: Any) -> list[Step]:
    return prepared_by(frozen.estimator)


@prepares(FunctionTransformer)
def _function(transformer: Any) -> list[Step]:
    if transformer.func is not None:
        raise refuse(transformer, "its func is a function of Python")
    return []


@prepares(SimpleImputer)
def _imputer(imputer: Any) -> list[Step]:
    if imputer.add_indicator:
        raise refuse(
            imputer, "add_indicator=True adds features; fit with add_indicator=False"
        )
    if not (isinstance(imputer.missing_values, Real) and isnan(imputer.missing_values)):
        raise refuse(
            imputer,
            f"missing_values={imputer.missing_values!r} are numbers elsewhere; fit "
            "with NaN for what is missing",
        )
    try:
        values = np.asarray(imputer.statistics_).astype(float)
    except ValueError as error:
        raise refuse(imputer, "it fills in text; give numeric features") from error
    empty = np.isnan(values)
    # What nobody had is dropped.
    dropped = [Pick(np.flatnonzero(~empty))] if empty.any() else []
    return [*dropped, Fill(values[~empty])]


@prepares(
    *(
        kind
        for kind in vars(feature_selection).values()
        if hasattr(kind, "get_params") and hasattr(kind, "get_support")
    )
)
def _selector(selector: Any) -> list[Step]:
    return [Pick(selector.get_support(indices=True))]


@prepares(PCA, IncrementalPCA, TruncatedSVD)
def _components(model: Any) -> list[Step]:
    matrix = np.asarray(model.components_, float)
    if getattr(model, "whiten", False):
        scale = np.sqrt(model.explained_variance_)
        matrix = matrix / np.maximum(scale, np.finfo(scale.dtype).eps)[:, None]
    centre = getattr(model, "mean_", 0.0)
    return [_affine(matrix.shape[1], centre, 1.0, 0.0), Project(matrix)]


@prepares(ColumnTransformer)
def _by_columns(transformer: Any) -> list[Step]:
    columns = transformer._transformer_to_input_indices
    parts = [
        (Pick(np.asarray(columns[name], np.int64)), *prepared_by(one))
        for name, one, _ in transformer.transformers_
        if len(columns[name]) and not (isinstance(one, str) and one == "drop")
    ]
    return [Join(tuple(parts))]


@prepares(FeatureUnion)
def _side_by_side(union: Any) -> list[Step]:
    if union.transformer_weights:
        raise refuse(union, "its transformer_weights are not carried; scale instead")
    parts = [
        tuple(prepared_by(one)) for _, one in union.transformer_list if one != "drop"
    ]
    return [Join(tuple(parts))]


def _affine(n: int, centre: Any, scale: Any, shift: Any) -> Affine:
    return Affine(
        *(
            np.array(np.broadcast_to(value, n), dtype=float)
            for value in (centre, scale, shift)
        )
    )


@prepares(StandardScaler)
def _standard(scaler: Any) -> list[Step]:
    centre = scaler.mean_ if scaler.with_mean else 0.0
    scale = 1 / scaler.scale_ if scaler.scale_ is not None else 1.0
    return [_affine(scaler.n_features_in_, centre, scale, 0.0)]


@prepares(RobustScaler)
def _robust(scaler: Any) -> list[Step]:
    centre = scaler.center_ if scaler.with_centering else 0.0
    scale = 1 / scaler.scale_ if scaler.with_scaling else 1.0
    return [_affine(scaler.n_features_in_, centre, scale, 0.0)]


@prepares(MaxAbsScaler)
def _max_abs(scaler: Any) -> list[Step]:
    steps: list[Step] = [_affine(scaler.n_features_in_, 0.0, 1 / scaler.scale_, 0.0)]
    return [*steps, Clip(-1.0, 1.0)] if getattr(scaler, "clip", False) else steps


@prepares(MinMaxScaler)
def _min_max(scaler: Any) -> list[Step]:
    low, high = scaler.feature_range
    steps: list[Step] = [
        _affine(scaler.n_features_in_, scaler.data_min_, scaler.scale_, low)
    ]
    return [*steps, Clip(float(low), float(high))] if scaler.clip else steps


@prepares(Normalizer)
def _normalizer(scaler: Any) -> list[Step]:
    return [Unit(scaler.norm)]


@prepares(GaussianSmoother)
def _smoother(smoother: Any) -> list[Step]:
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
    return [Smooth(down, across, channels, float(smoother.background))]


@prepares(ConvolutionFeatures)
def _convolved(features: Any) -> list[Step]:
    channels, width = len(features.mean_), features.n_features_in_
    centre, scale = (
        np.tile(values, width // channels)
        for values in (features.mean_, 1 / features.scale_)
    )
    banks = Convolve(channels, tuple(features.banks_))
    return [_affine(width, centre, scale, 0.0), banks]


@prepares(StandardNormalVariate)
def _normal_variate(transformer: Any) -> list[Step]:
    return [Scatter()]


@prepares(MultiplicativeScatterCorrection)
def _corrected(transformer: Any) -> list[Step]:
    return [Scatter(transformer.reference_)]


@prepares(SavitzkyGolay)
def _savitzky_golay(transformer: Any) -> list[Step]:
    # What it gives of unit vectors: row i are the weights of output i.
    n, w = transformer.n_features_in_, int(transformer.window)
    matrix = transformer.transform(np.eye(n)).T
    half = w // 2
    left, right = matrix[:half, :w], matrix[n - half :, n - w :]
    return [Stencil(matrix[half, :w], left, right)]


def input_tangents(model: Any, generator: Any, n_features: int) -> InputTangents:
    """Describe what bends the inputs of a model, or refuse."""
    found = [_described(model, part, n_features) for part in _parts(generator)]
    squares = [part for part in found if part.squares is not None]
    if len(squares) > 1:
        raise refuse(model, "more than one of its tangents is quadratic in the input")
    maps = np.concatenate([part.maps for part in found])
    offset = np.concatenate([part.offset for part in found])
    last = squares[0] if squares else InputTangents(maps, offset)
    return InputTangents(maps, offset, last.squares, last.square_offset, RTOL)


def _parts(generator: Any) -> list[Any]:
    if not isinstance(generator, TangentUnion):
        return [generator]
    return [one for part in generator.generators_ for one in _parts(part)]


def _described(model: Any, generator: Any, n_features: int) -> InputTangents:
    if not isinstance(generator, TangentGenerator):
        if hasattr(generator, "tangents"):
            raise refuse(
                model, f"nothing is known of tangents by {type(generator).__name__}"
            )
        rows = np.atleast_2d(np.asarray(generator, float))
        return InputTangents(np.zeros((len(rows), *[n_features] * 2)), rows)
    if generator.is_affine:
        return InputTangents(*_probed(generator, n_features))
    if type(generator) is not ImageTangents:
        raise refuse(
            model, f"tangents by {type(generator).__name__} are not affine in the input"
        )
    others = [name for name in generator._names() if name != "thickness"]
    maps, offset = np.empty((0, *[n_features] * 2)), np.empty((0, n_features))
    if others:
        maps, offset = _probed(_with(generator, others), n_features)
    gradient = _probed(_with(generator, ["x_shift", "y_shift"]), n_features)
    return InputTangents(maps, offset, *gradient)


def _with(generator: ImageTangents, names: list[str]) -> ImageTangents:
    return ImageTangents(
        generator.shape, tuple(names), generator.sigma, generator.background
    )


def _probed(generator: Any, n_features: int) -> tuple[NDArray, NDArray]:
    """(l, d, d) matrices and (l, d) offsets of an affine generator."""
    offset = generator.tangents(np.zeros((1, n_features)))[0]
    # By unit vector, tangent, feature.
    images = generator.tangents(np.eye(n_features)) - offset
    return np.ascontiguousarray(images.transpose(1, 2, 0)), offset


def bend(
    model: Any, bundle: Bundle, metric: Any, *, mirrored: bool = False
) -> tuple[References, tuple[Step, ...]]:
    """Return the references of a bundle, and the step that a shared frame becomes.

    `mirrored` distances with tangents at one end are also taken at the other.
    """
    sides, spring = metric.sides, metric.spring
    if sides == "midpoint":
        raise refuse(model, "sides='midpoint' needs the tangents of every pair")
    points, d = bundle.points, bundle.points.shape[1]
    if not bundle.n_tangents:
        return References(points), ()
    if bundle.is_shared:
        # One frame for all is a linear map; at both ends the springs are in series.
        k = spring / 2 if sides == "both" else spring
        V = np.asarray(bundle.frames[0], float)
        fold = np.eye(d) - (1 - np.sqrt(1 - 1 / (1 + k))) * V.T @ V
        # Points about zero stay as they are: ties of whole numbers stay ties.
        points, steps = _about_mean(points)
        return References(points @ fold.T), (*steps, Project(fold))
    tangents = None
    if sides != "reference" or mirrored:
        tangents = input_tangents(model, metric.tangents, d)
    return References(points, bundle.frames, tangents, sides, float(spring)), ()
