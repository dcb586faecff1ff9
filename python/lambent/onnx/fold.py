"""What is changed of a model before its weights are rounded to 16 bits: batch normalisations go into the convolutions before them, with
32 bits; and a Clip becomes comparisons and choices, for which the compiler knows what 16 bits do."""
from typing import Dict, List

import numpy
import onnx
from onnx import helper, numpy_helper


def fold_norms(model: onnx.ModelProto) -> None:
    """Changes the model: a Conv with constant weights whose output goes into one BatchNormalization, and nowhere else, has that in its
    weights and its bias."""
    graph = model.graph
    values = {each.name: each for each in graph.initializer}
    users: Dict[str, List[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    outputs = {each.name for each in graph.output}
    folded = []
    for conv in graph.node:
        next_ones = users.get(conv.output[0], []) if conv.op_type == "Conv" and conv.output[0] not in outputs else []
        if len(next_ones) != 1 or next_ones[0].op_type != "BatchNormalization" or next_ones[0].input[0] != conv.output[0]:
            continue
        norm = next_ones[0]
        if all(name in values for name in list(conv.input[1:]) + list(norm.input[1:])):
            _fold(graph, conv, norm, {name: numpy_helper.to_array(values[name]) for name in list(conv.input[1:]) + list(norm.input[1:])})
            folded.append(norm)
    for norm in folded:
        graph.node.remove(norm)


def split_clips(model: onnx.ModelProto) -> None:
    """Those whose bounds are inputs, as they are since the eleventh version of ONNX's operators."""
    nodes = []
    for node in model.graph.node:
        places = [("Less", 1), ("Greater", 2)] if node.op_type == "Clip" else []
        bounds = [(kind, node.input[place]) for kind, place in places if len(node.input) > place and node.input[place]]
        value = node.input[0] if node.input else ""
        for number, (kind, bound) in enumerate(bounds):
            beyond = "%s %s" % (node.output[0], kind)
            made = node.output[0] if number == len(bounds) - 1 else node.output[0] + " above"
            nodes.append(helper.make_node(kind, [value, bound], [beyond], name=node.name))
            nodes.append(helper.make_node("Where", [beyond, bound, value], [made], name=node.name))
            value = made
        if not bounds:
            nodes.append(node)
    copies = [onnx.NodeProto.FromString(each.SerializeToString()) for each in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _fold(graph: onnx.GraphProto, conv: onnx.NodeProto, norm: onnx.NodeProto, arrays: Dict[str, numpy.ndarray]) -> None:
    scale, shift, mean, variance = (arrays[name] for name in norm.input[1:5])
    epsilon = next((each.f for each in norm.attribute if each.name == "epsilon"), 1e-5)
    weight = arrays[conv.input[1]]
    bias = arrays[conv.input[2]] if len(conv.input) > 2 else numpy.zeros(len(weight), weight.dtype)
    factor = scale / numpy.sqrt(variance + numpy.float32(epsilon))
    names = [norm.output[0] + " " + what for what in ("weight", "bias")]
    new = [weight * factor.reshape([-1] + [1] * (weight.ndim - 1)), (bias - mean) * factor + shift]
    graph.initializer.extend(numpy_helper.from_array(each.astype(weight.dtype), name) for each, name in zip(new, names))
    whole = helper.make_node("Conv", [conv.input[0], *names], [norm.output[0]], name=conv.name)
    whole.attribute.extend(conv.attribute)
    conv.CopyFrom(whole)
