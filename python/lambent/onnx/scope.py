"""What rules that write nodes in other words know of a graph, and how they write."""
import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

Nodes = List[onnx.NodeProto]


class Scope:
    """What is known of the values of a graph: their types and shapes, and those that are constants."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.made: List[TensorProto] = []
        self.steps = 0  # of recurrent layers, written out until now
        self.opset = max([each.version for each in model.opset_import if each.domain in ("", "ai.onnx")], default=1)
        self.model = model
        self._constants = {each.name: each for each in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                self._constants[node.output[0]] = node.attribute[0].t
        self._kinds = kinds_of(model)
        self.outputs = {each.name for each in model.graph.output}
        graph = model.graph
        self._names = {name for node in graph.node for name in [*node.input, *node.output]}
        self._names |= {each.name for each in [*graph.input, *graph.output, *graph.initializer]}
        self._count = 0

    def kind(self, name: str) -> Tuple[int, Tuple[int, ...]]:
        """The datatype and the shape. Unknown if the file does not say them."""
        if name in self._constants:
            return self._constants[name].data_type, tuple(self._constants[name].dims)
        if name not in self._kinds:
            raise Unknown(name)
        return self._kinds[name]

    def shape(self, name: str) -> Tuple[int, ...]:
        return self.kind(name)[1]

    def dtype(self, name: str) -> int:
        return self.kind(name)[0]

    def constant(self, name: str) -> Optional[numpy.ndarray]:
        return numpy_helper.to_array(self._constants[name]) if name in self._constants else None

    @staticmethod
    def input(node: onnx.NodeProto, index: int) -> str:
        return node.input[index] if len(node.input) > index else ""

    def name(self) -> str:
        """One that the graph does not have yet."""
        while True:
            self._count += 1
            if (made := "lambent.%d" % self._count) not in self._names:
                return made

    def value(self, array: Any, dtype: int = TensorProto.INT64) -> str:
        name = self.name()
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        self.made.append(numpy_helper.from_array(numpy.asarray(array).astype(kind), name))
        return name


class Unknown(Exception):
    """A value whose shape the file does not say."""


class Writer:
    """Nodes, one after the other; each call makes one and names what it makes."""

    def __init__(self, scope: Scope, node: onnx.NodeProto) -> None:
        self.scope, self.node, self.nodes = scope, node, []  # type: Scope, onnx.NodeProto, Nodes

    def __call__(self, kind: str, *inputs: str, into: str = "", **attributes: Any) -> str:
        made = into or self.scope.name()
        self.nodes.append(helper.make_node(kind, list(inputs), [made], name=self.node.name, **attributes))
        return made

    def shaped(self, value: str, shape: Sequence[int], into: str = "") -> str:
        return self("Reshape", value, self.scope.value(list(shape)), into=into)

    def cast(self, value: str, dtype: int, into: str = "") -> str:
        return self("Cast", value, into=into, to=dtype)

    def reduced(self, kind: str, value: str, axis: int, keepdims: int = 0) -> str:
        takes_input = self.scope.opset >= (13 if kind == "ReduceSum" else 18)
        if takes_input:
            return self(kind, value, self.scope.value([axis]), keepdims=keepdims)
        return self(kind, value, axes=[axis], keepdims=keepdims)


def kinds_of(model: onnx.ModelProto) -> Dict[str, Tuple[int, Tuple[int, ...]]]:
    """By shape inference, without the weights."""
    small = onnx.ModelProto(ir_version=model.ir_version)
    small.opset_import.extend(model.opset_import)
    graph = small.graph
    graph.name = "kinds"
    graph.node.extend(model.graph.node)
    graph.output.extend(model.graph.output)
    weights = {each.name for each in model.graph.initializer}
    graph.input.extend(each for each in model.graph.input if each.name not in weights)
    for each in model.graph.initializer:
        if math.prod(each.dims) <= 1024:
            graph.initializer.append(each)
        else:
            graph.input.append(helper.make_tensor_value_info(each.name, each.data_type, list(each.dims)))
    try:
        inferred = onnx.shape_inference.infer_shapes(small, data_prop=True).graph
    except Exception:
        inferred = graph
    kinds = {}
    for info in [*inferred.input, *inferred.value_info, *inferred.output]:
        tensor = info.type.tensor_type
        if tensor.HasField("shape") and all(each.HasField("dim_value") for each in tensor.shape.dim):
            kinds[info.name] = (tensor.elem_type, tuple(each.dim_value for each in tensor.shape.dim))
    return kinds
