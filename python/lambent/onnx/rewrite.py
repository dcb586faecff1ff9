"""Nodes that the compiler does not know, or computes in another way than ONNX says, in terms of those that it knows: by ONNX's own
definition where an operator is a function of others, else by a rule here."""
import math
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from .model import attribute_of, place_in, place_of, stamp
from .rules import RULES
from .scope import Nodes, Scope

# Of constants that are computed here: in elements.
FOLDED = 2**22
ROUNDS = 12  # of folding
DEPTH = 4    # of functions of functions

# Written out as ONNX defines them. Of those with a condition only where the compiler does not get through, or gets it wrong.
FUNCTIONS: Dict[str, Callable[[onnx.NodeProto], bool]] = {
    **dict.fromkeys(("Attention", "BlackmanWindow", "CastLike", "CausalConvWithState", "Celu", "CenterCropPad", "HammingWindow",
                     "HannWindow", "NegativeLogLikelihoodLoss", "RotaryEmbedding", "SoftmaxCrossEntropyLoss", "SwiGLU",
                     "Swish"), lambda node: True),
    "LayerNormalization": lambda node: len([each for each in node.output if each]) > 1,
    "RMSNormalization": lambda node: attribute_of(node, "axis", -1) != -1,
}


def rewrite(model: onnx.ModelProto) -> None:
    """Changes the model, all of whose inputs have known shapes. What errors say of its nodes stays as it was."""
    if not any(_wants(node) for node in model.graph.node):
        return
    for index, node in enumerate(model.graph.node):
        stamp(node, place_of(model, index))
    scope = Scope(model)
    nodes: Nodes = []
    for node in model.graph.node:
        made = _replacement(scope, node) if _wants(node) else None
        nodes.extend([node] if made is None else made)
    replace_nodes(model.graph, nodes)
    model.graph.initializer.extend(scope.made)


def replace_nodes(graph: onnx.GraphProto, nodes: Nodes) -> None:
    copies = [onnx.NodeProto.FromString(each.SerializeToString()) for each in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _wants(node: onnx.NodeProto) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    return node.op_type in RULES or (node.op_type in FUNCTIONS and FUNCTIONS[node.op_type](node))


def _replacement(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    place = place_in(node)
    rule = RULES.get(node.op_type)
    try:
        made = rule(scope, node) if rule else _by_definition(scope, node)
    except Exception:  # of attributes and shapes that the operator does not allow: who checks it says so
        return None
    for each in made or []:
        stamp(each, place)
    return made


# --- By ONNX's definition ---

def _by_definition(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """The body of the function that the operator is, for these inputs: what follows from shapes in it is computed here."""
    body: Optional[onnx.ModelProto] = _body_of(scope, node)
    for _ in range(DEPTH):
        body = folded(body) if body is not None else None
        if body is None or not any(_wants(each) for each in body.graph.node):
            break
        before = [each.op_type for each in body.graph.node]
        rewrite(body)
        if before == [each.op_type for each in body.graph.node]:
            break
    return None if body is None else _moved(scope, node, body)


def _body_of(scope: Scope, node: onnx.NodeProto) -> onnx.ModelProto:
    """The operator's definition as a model of its own, whose inputs and outputs are the node's."""
    schema: Any = onnx.defs.get_schema(node.op_type, scope.opset, "")
    types = [_type_of(scope, name) for name in node.input]
    if schema.has_function:
        text = schema.get_function_with_opset_version(_newest(schema.function_opset_versions, scope.opset))
    else:
        version = _newest(schema.context_dependent_function_opset_versions, scope.opset)
        text = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(),
                                                                        [each.SerializeToString() for each in types])
    function = onnx.FunctionProto.FromString(text)
    names = dict(zip(function.input, node.input))
    names.update({name: "" for name in function.input[len(node.input):]})
    names.update(zip(function.output, node.output))
    names.update({name: scope.name() for name in function.output if not names.get(name)})
    attributes = {each.name: each for each in node.attribute}
    for name, facts in schema.attributes.items():
        if facts.default_value.name:
            attributes.setdefault(name, facts.default_value)
    model = onnx.ModelProto(ir_version=scope.model.ir_version)
    model.opset_import.extend(scope.model.opset_import)
    graph = model.graph
    graph.name = node.op_type
    graph.node.extend(_instance(each, names, attributes, scope) for each in function.node)
    for name, kind in dict(zip(node.input, types)).items():
        value = scope.constant(name)
        if value is not None and value.size <= 1024:
            graph.initializer.append(numpy_helper.from_array(value, name))
        elif name:
            graph.input.append(onnx.ValueInfoProto(name=name, type=kind))
    for name in node.output:
        if name:
            graph.output.append(onnx.ValueInfoProto(name=name, type=onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor())))
    return model


def _newest(versions: Sequence[int], opset: int) -> int:
    return max([each for each in versions if each <= opset], default=opset)


def _type_of(scope: Scope, name: str) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(*scope.kind(name)) if name else onnx.TypeProto()


def _instance(node: onnx.NodeProto, names: Dict[str, str], attributes: Dict[str, onnx.AttributeProto], scope: Scope) -> onnx.NodeProto:
    """A node of a function's body, for these arguments."""
    made: onnx.NodeProto = onnx.NodeProto.FromString(node.SerializeToString())
    for values in (made.input, made.output):
        values[:] = [names.setdefault(name, scope.name()) if name else "" for name in values]
    del made.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            made.attribute.append(attribute)
        elif attribute.ref_attr_name in attributes:
            made.attribute.append(attributes[attribute.ref_attr_name])
            made.attribute[-1].name = attribute.name
    return made


def folded(model: onnx.ModelProto) -> Optional[onnx.ModelProto]:
    """With what depends only on constants and known shapes as constants. Nothing if it does not end in plain nodes."""
    for _ in range(ROUNDS):
        try:
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except Exception:
            return None
        folds = [_fold_once(model), _drop_empty(model)]
        if not any(folds):
            return model
    return model


def _drop_empty(model: onnx.ModelProto) -> bool:
    """Parts without elements, which are split off and put on again."""
    graph = model.graph
    kinds = _shapes_of(graph)
    sizes = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    changed = False
    for node in graph.node:
        if node.op_type == "Concat":
            kept = [name for name in node.input if 0 not in kinds.get(name, [])]
            changed |= len(kept) != len(node.input)
            node.input[:] = kept
        if node.op_type in ("Concat", "Split"):
            filled = [name for name in node.output if 0 not in kinds.get(name, [])]
            is_one = len(node.input) == 1 if node.op_type == "Concat" else len(filled) == 1
            if is_one:
                node.CopyFrom(helper.make_node("Identity", [node.input[0]], filled, name=node.name))
                changed = True
            elif len(filled) != len(node.output) and len(node.input) > 1 and node.input[1] in sizes:
                parts = sizes[node.input[1]]
                name = node.output[0] + " parts"
                graph.initializer.append(numpy_helper.from_array(parts[parts > 0], name))
                node.input[1] = name
                node.output[:] = filled
                changed = True
    return changed


def _shapes_of(graph: onnx.GraphProto) -> Dict[str, List[int]]:
    shapes = {}
    for info in [*graph.input, *graph.value_info, *graph.output]:
        tensor = info.type.tensor_type
        if tensor.HasField("shape") and all(each.HasField("dim_value") for each in tensor.shape.dim):
            shapes[info.name] = [each.dim_value for each in tensor.shape.dim]
    shapes.update({each.name: list(each.dims) for each in graph.initializer})
    return shapes


def _fold_once(model: onnx.ModelProto) -> bool:
    graph = model.graph
    shapes = _shapes_of(graph)
    values = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    kept: Nodes = []
    begun = len(values)
    for node in graph.node:
        made = _constants_of(model, node, values, shapes)
        if made is None:
            kept.append(node)
            continue
        for name, value in zip(node.output, made):
            values[name] = value
            shapes[name] = list(value.shape)
    if len(values) == begun:
        return False
    known = {each.name for each in graph.initializer}
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items() if name not in known)
    replace_nodes(graph, kept)
    return True


def _constants_of(model: onnx.ModelProto, node: onnx.NodeProto, values: Dict[str, numpy.ndarray],
                  shapes: Dict[str, List[int]]) -> Optional[List[numpy.ndarray]]:
    if node.op_type in ("Shape", "Size") and node.input[0] in shapes:
        shape = shapes[node.input[0]]
        if node.op_type == "Size":
            return [numpy.array(math.prod(shape), numpy.int64)]
        begin, end = attribute_of(node, "start", 0), attribute_of(node, "end", None)
        return [numpy.array(shape[begin:end], numpy.int64)]
    if node.op_type.startswith("Random") or any(name and name not in values for name in node.input):
        return None
    from onnx.reference import ReferenceEvaluator
    single = helper.make_graph([node], "constant", [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.input) if name],
                               [onnx.ValueInfoProto(name=name) for name in node.output if name])
    holder = helper.make_model(single, opset_imports=model.opset_import)
    try:
        made = ReferenceEvaluator(holder).run(None, {name: values[name] for name in node.input if name})
    except Exception:
        return None
    arrays = [numpy.asarray(each) for each in made]
    fits = len(arrays) == len([name for name in node.output if name]) == len(node.output)
    return arrays if fits and all(each.size <= FOLDED and each.dtype != object for each in arrays) else None


def _moved(scope: Scope, node: onnx.NodeProto, body: onnx.ModelProto) -> Nodes:
    """The nodes of a model of its own in the graph, under names that are not there yet."""
    own = set(node.input) | set(node.output)
    names: Dict[str, str] = {}

    def renamed(name: str) -> str:
        return name if not name or name in own else names.setdefault(name, scope.name())

    nodes = []
    used = {name for each in body.graph.node for name in each.input} | set(node.output)
    for each in body.graph.initializer:
        if each.name not in used or each.name in node.input:
            continue
        if each.name in own:  # an output that is constant
            value = scope.value(numpy_helper.to_array(each), each.data_type)
            nodes.append(helper.make_node("Identity", [value], [each.name], name=node.name))
            continue
        made = TensorProto.FromString(each.SerializeToString())
        made.name = renamed(each.name)
        scope.made.append(made)
    for each in body.graph.node:
        copy = onnx.NodeProto.FromString(each.SerializeToString())
        copy.input[:] = [renamed(name) for name in each.input]
        copy.output[:] = [renamed(name) for name in each.output]
        copy.name = node.name
        nodes.append(copy)
    return nodes
