"""Our classifiers as operators of skl2onnx, so that its pipelines can hold them.

Every converter is the same: the program of the fitted estimator, built into the graph
that skl2onnx is making. Outputs are those of :func:`~widemargin.export.to_onnx`.
"""

from typing import Any

import numpy as np

from widemargin.export.describe import (
    CLASSIFIERS,
    TRANSFORMERS,
    describe,
    prepared_by,
)
from widemargin.export.onnx_graph import OPSET, Graph, build, label_tensor, prepare
from widemargin.export.program import NotExportable, exact_labels


def register() -> None:
    """Register a converter for each type that can be described."""
    from skl2onnx import update_registered_converter

    for kind in _ours(CLASSIFIERS):
        update_registered_converter(
            kind,
            f"Widemargin{kind.__name__}",
            _no_shapes,
            _convert_classifier,
            parser=_parse_classifier,
        )
    for kind in _ours(TRANSFORMERS):
        update_registered_converter(
            kind, f"Widemargin{kind.__name__}", _same_shape, _convert_transformer
        )


def _ours(kinds: dict[type, Any]) -> list[type]:
    return [kind for kind in kinds if kind.__module__.startswith("widemargin.")]


def _no_shapes(operator: Any) -> None:
    """Do nothing: outputs were declared with their shapes."""


def _same_shape(operator: Any) -> None:
    kind = type(operator.inputs[0].type)
    operator.outputs[0].type = kind([None, operator.raw_operator.n_features_in_])


def _parse_classifier(
    scope: Any, model: Any, inputs: list, custom_parsers: Any = None
) -> list:
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )

    program = describe(model)
    operator = scope.declare_local_operator(f"Widemargin{type(model).__name__}", model)
    operator.inputs = inputs
    real = DoubleTensorType if _is_double(inputs[0]) else FloatTensorType
    kind = label_tensor(exact_labels(program.classes, program.reject_label)).dtype.kind
    labels = {"O": StringTensorType, "i": Int64TensorType, "b": BooleanTensorType}
    outputs = {
        "label": labels.get(kind, DoubleTensorType)([None]),
        "margin": real([None, len(program.classes)]),
        "confidence": real([None]),
    }
    if program.threshold is not None:
        outputs["accepted"] = BooleanTensorType([None])
    for name, shape in outputs.items():
        operator.outputs.append(scope.declare_local_variable(name, shape))
    return operator.outputs


def _is_double(variable: Any) -> bool:
    return "Double" in type(variable.type).__name__


def _graph(scope: Any, operator: Any, container: Any) -> tuple[Graph, str]:
    if container.target_opset_any_domain("") < OPSET:
        raise NotExportable(
            f"{type(operator.raw_operator).__name__} needs target_opset={OPSET} or "
            "later."
        )
    if len(operator.inputs) != 1:
        raise NotExportable(
            f"{type(operator.raw_operator).__name__} takes one input with all "
            "features; declare one instead of one per column."
        )
    real = np.float64 if _is_double(operator.inputs[0]) else np.float32
    prefix = scope.get_unique_variable_name("widemargin")
    return Graph(real, f"{prefix}_"), operator.inputs[0].full_name


def _add(graph: Graph, container: Any, renamed: dict[str, str]) -> None:
    """Hand over what was built; `renamed` are the outputs of the operator."""
    from onnx import TensorProto, helper

    for tensor in graph.initializers:
        text = tensor.data_type == TensorProto.STRING
        container.add_initializer(
            tensor.name,
            tensor.data_type,
            list(tensor.dims),
            list(tensor.string_data) if text else tensor,
        )
    for name, variable in renamed.items():
        graph.nodes.append(helper.make_node("Identity", [name], [variable]))
    for node in graph.nodes:
        attributes = {
            one.name: helper.get_attribute_value(one) for one in node.attribute
        }
        container.add_node(
            node.op_type,
            list(node.input),
            list(node.output),
            op_domain="",
            op_version=OPSET,
            name=node.name,
            **attributes,
        )


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    graph, x = _graph(scope, operator, container)
    outputs = build(graph, x, describe(operator.raw_operator))
    variables = {variable.raw_name: variable for variable in operator.outputs}
    names = ("label", "margin", "confidence", "accepted")
    _add(
        graph,
        container,
        {outputs[n]: variables[n].full_name for n in names if n in variables},
    )


def _convert_transformer(scope: Any, operator: Any, container: Any) -> None:
    graph, x = _graph(scope, operator, container)
    transformer = operator.raw_operator
    for step in prepared_by(transformer):
        x = prepare(graph, x, step, int(transformer.n_features_in_))
    _add(graph, container, {x: operator.outputs[0].full_name})
