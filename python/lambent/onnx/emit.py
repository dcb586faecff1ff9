"""Writes a lowered model as a package of a kernel function, which `lambent deploy` takes."""
import os
import tempfile
from typing import Any, Dict, List, Tuple, Union

import numpy
import onnx

from .. import kernels
from ..kernels import Argument, Buffer, Graph, Literal, raw, read, read_write, write
from .errors import NotCovered
from .lower import Launch, Program, Tensor
from .model import inputs_of

# A package has at most 160 files; so has each constant of this size a file of its own, up to that
# many, and the smaller ones have one together.
ALONE_BYTES = 64 * 1024
ALONE = 120
ALIGNMENT = 256
SOURCE = "model.cu"

DATATYPES = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "int8": "INT8", "int16": "INT16",
             "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32",
             "uint64": "UINT64", "bool": "BOOL"}
_ACCESS = {"read": read, "write": write, "read_write": read_write}

# An output that no kernel makes, such as one that is an input reshaped, is copied.
_COPY = """
extern "C" __global__ void lambent_copy(const unsigned char* __restrict__ from,
                                        unsigned char* __restrict__ to, unsigned long long count) {
  const unsigned long long i = blockIdx.x * 256ULL + threadIdx.x;
  if (i < count) to[i] = from[i];
}
LAMBENT_KERNEL(lambent_copy);
"""


def save(program: Program, model: onnx.ModelProto, name: str, folder: str, **settings: Any) -> None:
    """Writes graph.json, the source of the kernels, the constants and lambent.toml into `folder`.

    `settings` are those of kernels.Graph.save(). NotCovered if the graph breaks a limit.
    """
    with tempfile.TemporaryDirectory(prefix="lambent-model-") as scratch:
        source = os.path.join(scratch, SOURCE)
        with open(source, "w", encoding="utf-8") as file:
            file.write(program.source + _COPY)
        try:
            graph = _Writer(program, model, name, source).graph
            graph.save(folder, **settings)
        except kernels.GraphError as error:
            raise NotCovered("its kernel graph: %s" % error) from None


class _Writer:
    def __init__(self, program: Program, model: onnx.ModelProto, name: str, source: str) -> None:
        self.graph = Graph(name)
        self._program = program
        self._places: Dict[Tensor, Tuple[Buffer, int]] = {}  # the buffer, and the first byte in it
        self._bundle = self.graph.source(source)
        names = [each.name for each in inputs_of(model)]
        if len(program.inputs) != len(names) or len(program.outputs) != len(model.graph.output):
            raise NotCovered("the compiler gives the model other inputs or outputs")
        for tensor, word in zip(program.inputs, names):
            self._places[tensor] = (self._buffer("input", word, tensor), 0)
        copies = self._outputs([each.name for each in model.graph.output])
        self._constants()
        for launch in program.launches:
            self._launch(launch)
        for tensor, buffer in copies:
            self._copy(tensor, buffer)

    def _buffer(self, role: str, name: str, tensor: Tensor) -> Buffer:
        facts = self._program.tensors[tensor.number]
        if facts.dtype not in DATATYPES:
            raise NotCovered("'%s' is of the datatype %s, which requests cannot have" % (name, facts.dtype))
        buffer: Buffer = getattr(self.graph, role)(name, DATATYPES[facts.dtype], facts.shape)
        return buffer

    def _outputs(self, names: List[str]) -> List[Tuple[Tensor, Buffer]]:
        """Those that kernels do not make, or that are there under two names, have to be copied."""
        made = {each for launch in self._program.launches
                for each, access in zip(launch.arguments, launch.accesses) if access != "read"}
        copies = []
        for tensor, shape, name in zip(self._program.outputs, self._program.output_shapes, names):
            facts = self._program.tensors[tensor.number]
            buffer = self.graph.output(name, DATATYPES[facts.dtype], shape)
            if tensor in made and tensor not in self._places:
                self._places[tensor] = (buffer, 0)
            else:
                copies.append((tensor, buffer))
        return copies

    def _constants(self) -> None:
        used = {each for launch in self._program.launches for each in launch.arguments
                if isinstance(each, Tensor)} | set(self._program.outputs)
        constants = [(number, facts) for number, facts in enumerate(self._program.tensors)
                     if facts.value is not None and Tensor(number) in used]
        alone = sorted((each for each in constants if each[1].value.nbytes >= ALONE_BYTES),
                       key=lambda each: -each[1].value.nbytes)[:ALONE]
        numbers = {number for number, _ in alone}
        together = bytearray()
        begins = {}
        for number, facts in constants:
            content = numpy.ascontiguousarray(facts.value).tobytes()
            if number in numbers:
                buffer = self.graph.constant("constant %d" % number, "BYTES", (len(content),), data=content)
                self._places[Tensor(number)] = (buffer, 0)
                continue
            together.extend(bytes(-len(together) % ALIGNMENT))
            begins[number] = len(together)
            together.extend(content)
        if begins:
            buffer = self.graph.constant("constants", "BYTES", (len(together),), data=bytes(together))
            for number, begin in begins.items():
                self._places[Tensor(number)] = (buffer, begin)

    def _argument(self, tensor: Tensor, access: str) -> Argument:
        if tensor not in self._places:
            self._places[tensor] = (self._buffer("temporary", "tensor %d" % tensor.number, tensor), 0)
        buffer, begin = self._places[tensor]
        return _ACCESS[access](buffer, begin)

    def _launch(self, launch: Launch) -> None:
        arguments: List[Union[Argument, Literal]] = []
        for argument, access in zip(launch.arguments, launch.accesses):
            if isinstance(argument, Tensor):
                arguments.append(self._argument(argument, access))
            else:
                arguments.append(_literal(*argument))
        self._bundle.kernel(launch.kernel)(launch.grid, launch.block, arguments, launch.shared_bytes)

    def _copy(self, tensor: Tensor, buffer: Buffer) -> None:
        self._bundle.kernel("lambent_copy")(
            (buffer.size_bytes + 255) // 256, 256,
            [self._argument(tensor, "read"), write(buffer), kernels.uint64(buffer.size_bytes)])


def _literal(dtype: str, number: int) -> Literal:
    return raw(numpy.array(number, dtype=dtype).tobytes())
