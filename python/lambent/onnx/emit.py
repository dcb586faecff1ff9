"""Writes a lowered model as a package of a kernel function, which `lambent deploy` takes."""
import contextlib
import hashlib
import os
import tempfile
from typing import Any, ContextManager, Dict, List, Optional, Sequence, Tuple, Union

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
SOURCE = "model%s.cu"

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


def save(programs: Sequence[Program], model: onnx.ModelProto, name: str, folder: str, *,
         batches: Optional[Tuple[float, float]] = None, **settings: Any) -> None:
    """Writes graph.json, the sources of the kernels, the constants and lambent.toml into `folder`.

    With several programs each is a variant: the same model for another batch size, ascending. They
    share their constants. With `batches`, requests are put together: how long one waits for others,
    and the SLO, in milliseconds. `settings` are those of kernels.Graph.save(). NotCovered if the
    graph breaks a limit.
    """
    with tempfile.TemporaryDirectory(prefix="lambent-model-") as scratch:
        try:
            graph = _Writer(programs, model, name, scratch).graph
            if batches is not None:
                graph.batches(*batches)
            graph.save(folder, **settings)
        except kernels.GraphError as error:
            raise NotCovered("its kernel graph: %s" % error) from None


class _Writer:
    def __init__(self, programs: Sequence[Program], model: onnx.ModelProto, name: str, scratch: str) -> None:
        self.graph = Graph(name)
        self._inputs = [each.name for each in inputs_of(model)]
        self._outputs = [each.name for each in model.graph.output]
        self._sizes = [_batch_of(each) for each in programs] if len(programs) > 1 else [0]
        for program in programs:
            if len(program.inputs) != len(self._inputs) or len(program.outputs) != len(self._outputs):
                raise NotCovered("the compiler gives the model other inputs or outputs")
        largest = programs[-1]
        for tensor, word in zip(largest.inputs, self._inputs):
            facts = largest.tensors[tensor.number]
            self.graph.input(word, _datatype(word, facts.dtype), facts.shape)
        for tensor, shape, word in zip(largest.outputs, largest.output_shapes, self._outputs):
            self.graph.output(word, _datatype(word, largest.tensors[tensor.number].dtype), shape)
        self._contents: Dict[bytes, Tuple[Buffer, int]] = {}  # of constants, by digest: the buffer, and the first byte in it
        self._constants(programs)
        for program, size in zip(programs, self._sizes):
            source = os.path.join(scratch, SOURCE % ("_%d" % size if size else ""))
            with open(source, "w", encoding="utf-8") as file:
                file.write(program.source + _COPY)
            _Variant(self, program, size, source)

    def constants_of(self, program: Program) -> Dict[Tensor, Tuple[Buffer, int]]:
        return {tensor: self._contents[_digest(content)] for tensor, content in _used_constants(program)}

    def input_buffers(self) -> List[Buffer]:
        return [self.graph.buffers[each] for each in self._inputs]

    def output_buffers(self) -> List[Buffer]:
        return [self.graph.buffers[each] for each in self._outputs]

    def _constants(self, programs: Sequence[Program]) -> None:
        """Each content once, whichever programs use it."""
        contents: Dict[bytes, Tuple[str, bytes]] = {}
        for program in programs:
            for tensor, content in _used_constants(program):
                contents.setdefault(_digest(content), ("constant %d" % len(contents), content))
        alone = sorted((digest for digest, (_, content) in contents.items() if len(content) >= ALONE_BYTES),
                       key=lambda digest: -len(contents[digest][1]))[:ALONE]
        separate = set(alone)
        together = bytearray()
        begins = {}
        for digest, (word, content) in contents.items():
            if digest in separate:
                self._contents[digest] = (self.graph.constant(word, "BYTES", (len(content),), data=content), 0)
                continue
            together.extend(bytes(-len(together) % ALIGNMENT))
            begins[digest] = len(together)
            together.extend(content)
        if begins:
            buffer = self.graph.constant("constants", "BYTES", (len(together),), data=bytes(together))
            for digest, begin in begins.items():
                self._contents[digest] = (buffer, begin)


class _Variant:
    """The launches of one program, as a variant of the graph if it has a size."""

    def __init__(self, writer: _Writer, program: Program, size: int, source: str) -> None:
        self._graph, self._program, self._size = writer.graph, program, size
        self._bundle = writer.graph.source(source)
        # The buffer, and the first byte in it.
        self._places: Dict[Tensor, Tuple[Buffer, int]] = {
            tensor: (buffer, 0) for tensor, buffer in zip(program.inputs, writer.input_buffers())}
        copies = self._copies(writer.output_buffers())
        self._places.update(writer.constants_of(program))
        block: ContextManager[Any] = writer.graph.variant(size) if size else contextlib.nullcontext()
        with block:
            for launch in program.launches:
                self._launch(launch)
            for tensor, buffer in copies:
                self._copy(tensor, buffer)

    def _copies(self, outputs: List[Buffer]) -> List[Tuple[Tensor, Buffer]]:
        """Those that kernels do not make, or that are there under two names, have to be copied."""
        made = {each for launch in self._program.launches
                for each, access in zip(launch.arguments, launch.accesses) if access != "read"}
        copies = []
        for tensor, buffer in zip(self._program.outputs, outputs):
            if tensor in made and tensor not in self._places:
                self._places[tensor] = (buffer, 0)
            else:
                copies.append((tensor, buffer))
        return copies

    def _argument(self, tensor: Tensor, access: str) -> Argument:
        if tensor not in self._places:
            facts = self._program.tensors[tensor.number]
            word = "tensor %d" % tensor.number + (" of %d" % self._size if self._size else "")
            self._places[tensor] = (self._graph.temporary(word, _datatype(word, facts.dtype), facts.shape), 0)
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
        """Of the variant's own elements: a buffer is as large as the largest variant needs."""
        size = buffer.size_bytes // buffer.shape[0] * self._size if self._size else buffer.size_bytes
        self._bundle.kernel("lambent_copy")(
            (size + 255) // 256, 256, [self._argument(tensor, "read"), write(buffer), kernels.uint64(size)])


def _batch_of(program: Program) -> int:
    return program.tensors[program.inputs[0].number].shape[0]


def _datatype(word: str, dtype: str) -> str:
    if dtype not in DATATYPES:
        raise NotCovered("'%s' is of the datatype %s, which requests cannot have" % (word, dtype))
    return DATATYPES[dtype]


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _used_constants(program: Program) -> List[Tuple[Tensor, bytes]]:
    used = {each for launch in program.launches for each in launch.arguments
            if isinstance(each, Tensor)} | set(program.outputs)
    return [(Tensor(number), numpy.ascontiguousarray(facts.value).tobytes())
            for number, facts in enumerate(program.tensors)
            if facts.value is not None and Tensor(number) in used]


def _literal(dtype: str, number: int) -> Literal:
    return raw(numpy.array(number, dtype=dtype).tobytes())
