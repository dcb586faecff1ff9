"""Reads an ONNX file: checks it within limits, and gives every dimension a number."""
import collections
import os
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import onnx
from onnx import TensorProto

from .errors import ModelError, NotCovered

# Of one model; a file within these takes bounded time and memory (src/core/domain/limits.h has those
# of the graph that it becomes).
FILE_BYTES = 2**31 - 1
NODES = 4096
ELEMENTS = 2**31 - 1
DIMENSIONS = 16
DEPTH_OF_NAMES = 256

# Of the inputs of one run, and of its outputs (src/core/domain/tensor_limits.h).
RUN_BYTES = 64 * 2**20

# Datatypes of tensors, by their names in the Open Inference Protocol.
DATATYPES = {TensorProto.FLOAT: "FP32", TensorProto.DOUBLE: "FP64", TensorProto.FLOAT16: "FP16",
             TensorProto.INT8: "INT8", TensorProto.INT16: "INT16", TensorProto.INT32: "INT32",
             TensorProto.INT64: "INT64", TensorProto.UINT8: "UINT8", TensorProto.UINT16: "UINT16",
             TensorProto.UINT32: "UINT32", TensorProto.UINT64: "UINT64", TensorProto.BOOL: "BOOL"}

FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16}

# Whose weights are kept in 16 bits, if that is asked for, and the largest number of those.
PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
HALF_MOST = 65504.0

_PLACE = "lambent.place"

Shapes = Dict[str, Tuple[int, ...]]


def load(path: str, shapes: Shapes, batch: int, has_batches: bool = False) -> onnx.ModelProto:
    """The model in `path`, with external data beside it, checked, all inputs of known shape.

    `shapes` has the shapes of inputs whose dimensions the file leaves open; where it does not name an
    input, its first dimension, if it is open, is `batch`; with `has_batches` it has to be open, or
    NotCovered is raised. ModelError, with the place, for a file that is no model, breaks a limit, or
    has an input whose shape is not known.
    """
    size = os.path.getsize(path)
    if not 0 < size <= FILE_BYTES:
        raise ModelError("%s has %d bytes; a model has 1 to %d" % (path, size, FILE_BYTES))
    from .rewrite import rewrite  # which needs this module
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except Exception as error:  # whatever the parser makes of foreign bytes
        raise ModelError("%s is no model of ONNX: %s" % (path, first_line(error))) from None
    outputs = [info.name for info in model.graph.output]
    twice = [name for name, count in collections.Counter(outputs).items() if count > 1]
    if twice or not outputs:
        raise ModelError("the model has no outputs" if not outputs else "output '%s' is there twice" % twice[0])
    if len(model.graph.node) > NODES:
        raise ModelError("the model has %d nodes; at most %d are taken" % (len(model.graph.node), NODES))
    for node in model.graph.node:
        del node.metadata_props[:]  # places are stamped there
    for info in inputs_of(model) if has_batches else []:
        dimensions = info.type.tensor_type.shape.dim
        if not dimensions or dimensions[0].HasField("dim_value"):
            raise NotCovered("input '%s': batches need a first dimension that is open" % info.name)
    _fix_inputs(model, shapes, batch)
    rewrite(model)
    _check_nodes(model)
    return model


def check_batches(model: onnx.ModelProto, shapes: Sequence[Tuple[int, ...]], batch: int) -> None:
    """NotCovered if an output, made of `batch` elements, is of another first dimension."""
    for info, shape in zip(model.graph.output, shapes):
        if shape[:1] != (batch,):
            raise NotCovered("output '%s': its shape for a batch of %d is %s; batches need outputs of as many elements"
                             % (info.name, batch, list(shape)))


def check_run(sizes: Dict[str, int], batch: int) -> None:
    """NotCovered where `sizes`, the bytes of all inputs and of all outputs of `batch` elements, are more than a run can have."""
    for what, size in sizes.items():
        if size > RUN_BYTES:
            most = RUN_BYTES * batch // size
            advice = "; at most %d elements fit" % most if most else "; not even one element fits"
            raise NotCovered("the %s of a batch of %d have %.1f MiB, and those of a run at most %d%s"
                             % (what, batch, size / 2**20, RUN_BYTES // 2**20, advice))


def check_half(model: onnx.ModelProto) -> None:
    """NotCovered, with the place, for weights of products that 16 bits cannot hold."""
    values = {each.name: each for each in model.graph.initializer}
    for index, node in enumerate(model.graph.node):
        for name in node.input if node.op_type in PRODUCTS else []:
            if name not in values or values[name].data_type not in FLOATS:
                continue
            largest = float(abs(onnx.numpy_helper.to_array(values[name])).max(initial=0))
            if not largest <= HALF_MOST:
                raise NotCovered("%s: its weight '%s' has %g, and FP16 holds at most %g" % (place_of(model, index), name, largest, HALF_MOST))


def inputs_of(model: onnx.ModelProto) -> List[onnx.ValueInfoProto]:
    """What each request brings: the inputs that have no value in the file."""
    weights = {each.name for each in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in weights]


def place_of(model: onnx.ModelProto, index: int) -> str:
    """Where a node stands, in words: its number, its operator, its name and what it makes."""
    node = model.graph.node[index]
    if stamped := place_in(node):
        return stamped
    name = " '%s'" % node.name if node.name else ""
    made = ", ".join("'%s'" % each for each in node.output if each)
    return "node %d, %s%s, which makes %s" % (index, node.op_type, name, made or "nothing")


def stamp(node: onnx.NodeProto, place: str) -> None:
    """Where it stands in the file, or what it was made of."""
    del node.metadata_props[:]
    node.metadata_props.add(key=_PLACE, value=place)


def place_in(node: onnx.NodeProto) -> str:
    """What was stamped on it; mostly nothing."""
    return next((each.value for each in node.metadata_props if each.key == _PLACE), "")


def first_line(error: BaseException) -> str:
    """What an error says, short enough for a message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:400]


def parse_shapes(words: Sequence[str]) -> Shapes:
    """Of words such as "x=1,3,224,224". ModelError for others."""
    shapes = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        try:
            shape = tuple(int(each) for each in text.split(",")) if text else ()
        except ValueError:
            shape = (0,)
        if not equals or not name or any(extent < 1 for extent in shape):
            raise ModelError("'%s' is no shape of an input; one is written as x=1,3,224,224" % word)
        shapes[name] = shape
    return shapes


def attribute_of(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Its value; of texts as text."""
    for attribute in node.attribute:
        if attribute.name == name:
            value = onnx.helper.get_attribute_value(attribute)
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return default


def _unfaithful_resize(node: onnx.NodeProto, values: Dict[str, onnx.TensorProto]) -> str:
    mode, where = attribute_of(node, "mode", "nearest"), attribute_of(node, "coordinate_transformation_mode", "half_pixel")
    if mode not in ("nearest", "linear") or where == "tf_crop_and_resize" or attribute_of(node, "antialias", 0):
        return "the mode '%s', '%s'%s" % (mode, where, ", antialias" if attribute_of(node, "antialias", 0) else "")
    if mode == "nearest" and where == "asymmetric" and attribute_of(node, "nearest_mode", "") == "floor":
        return ""
    scales = values.get(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if scales is None:  # sizes, whose ratio the compiler takes
        return "" if mode == "linear" and len(node.input) > 3 else "the mode 'nearest' to sizes, but of 'asymmetric' with 'floor'"
    is_whole = all(each >= 1 and each == int(each) for each in onnx.numpy_helper.to_array(scales).ravel()[:DIMENSIONS])
    return "" if is_whole else "scales that are no whole numbers"


def _unfaithful(node: onnx.NodeProto, values: Dict[str, onnx.TensorProto], floats: Set[str]) -> str:
    """What of a node the compiler takes, but computes in another way than ONNX says; mostly nothing."""
    kind, outputs = node.op_type, [each for each in node.output if each]
    if kind == "BatchNormalization" and (attribute_of(node, "training_mode", 0) or len(outputs) > 1):
        return "training"
    if kind == "LayerNormalization" and len(outputs) > 1:
        return "more outputs than the first"
    if kind == "IsInf" and not (attribute_of(node, "detect_positive", 1) and attribute_of(node, "detect_negative", 1)):
        return "infinities of one sign"
    if kind == "Dropout" and len(node.input) > 2 and node.input[2]:
        mode = values.get(node.input[2])
        return "training" if mode is None or onnx.numpy_helper.to_array(mode).any() else ""
    if kind == "SpaceToDepth" and attribute_of(node, "mode", "DCR") != "DCR":
        return "another mode than 'DCR'"
    if kind == "Mod" and not attribute_of(node, "fmod", 0) and node.input[0] in floats:
        return "the remainder of Python ('fmod' is 0) of floating-point numbers"
    if kind == "ConvTranspose" and attribute_of(node, "output_shape", None):
        return "an output_shape"
    if kind in ("Resize", "Upsample"):
        return _unfaithful_resize(node, values)
    if kind == "RoiAlign" and attribute_of(node, "mode", "avg") != "avg":
        return "the mode 'max'"
    return ""


def _check_nodes(model: onnx.ModelProto) -> None:
    values = {each.name: each for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            values[node.output[0]] = node.attribute[0].t
    known = list(model.graph.input) + list(model.graph.value_info)
    floats = {each.name for each in known if each.type.tensor_type.elem_type in FLOATS}
    outputs = {each.name for each in model.graph.output}
    for index, node in enumerate(model.graph.node):
        if node.domain not in ("", "ai.onnx"):
            raise NotCovered("%s: operators of the domain '%s' have no kernels"
                             % (place_of(model, index), node.domain))
        if node.op_type == "Shape" and node.output[0] in outputs:  # the compiler keeps it as no tensor
            raise NotCovered("%s: a shape that is an output has no kernels" % place_of(model, index))
        if words := _unfaithful(node, values, floats):
            raise NotCovered("%s: %s has no kernels" % (place_of(model, index), words))
        for attribute in node.attribute:
            if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
                raise NotCovered("%s: graphs within the graph ('%s') have no kernels"
                                 % (place_of(model, index), attribute.name))


def _fix_inputs(model: onnx.ModelProto, shapes: Shapes, batch: int) -> None:
    known = [each.name for each in inputs_of(model)]
    for name in shapes:
        if name not in known:
            raise ModelError("there is no input '%s'; the model has %s" % (name, ", ".join(known)))
    if not known:
        raise NotCovered("the model has no inputs")
    for info in model.graph.output:
        if not info.type.HasField("tensor_type"):
            raise NotCovered("output '%s': it is no tensor" % info.name)
    for info in inputs_of(model):
        _fix_input(info, shapes.get(info.name), batch)


def _fix_input(info: onnx.ValueInfoProto, shape: Optional[Tuple[int, ...]], batch: int) -> None:
    tensor = info.type.tensor_type
    place = "input '%s'" % info.name
    if not info.type.HasField("tensor_type") or tensor.elem_type not in DATATYPES:
        raise NotCovered("%s: it is no tensor of numbers" % place)
    if shape is not None:
        said = [each.dim_value if each.HasField("dim_value") else 0 for each in tensor.shape.dim]
        fits = not tensor.HasField("shape") or (
            len(said) == len(shape) and all(a in (0, b) for a, b in zip(said, shape)))
        if not fits:
            raise ModelError("%s: the shape %s is given, the model says %s"
                             % (place, list(shape), [each or "any" for each in said]))
        del tensor.shape.dim[:]
        tensor.shape.SetInParent()
        for extent in shape:
            tensor.shape.dim.add().dim_value = extent
    elif not tensor.HasField("shape"):
        raise ModelError("%s: its shape is not known; give it, such as --shape %s=1,16"
                         % (place, info.name))
    if len(tensor.shape.dim) > DIMENSIONS:
        raise ModelError("%s: more than %d dimensions" % (place, DIMENSIONS))
    elements = 1
    for number, dimension in enumerate(tensor.shape.dim):
        if not dimension.HasField("dim_value"):
            if number > 0:
                raise ModelError("%s: its dimension %d is open ('%s'), and kernels are made for fixed shapes; give "
                                 "one, such as --shape %s=1,16" % (place, number, dimension.dim_param, info.name))
            dimension.dim_value = batch
        elements *= dimension.dim_value
        if dimension.dim_value < 1 or elements > ELEMENTS:
            raise ModelError("%s: dimension %d is %d" % (place, number, dimension.dim_value))
