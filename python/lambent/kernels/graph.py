"""Graph: what a kernel function's author describes: buffers, launches, repetitions."""
import contextlib
import json
import os
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from . import package
from .errors import GraphError, did_you_mean
from .literals import Literal, Number, element_json, holds, pack, size_of

# What devices take, and what Lambent takes (src/core/domain/limits.h).
BLOCK_THREADS = 1024
GRID = (2**31 - 1, 65535, 65535)
BLOCK = (1024, 1024, 64)
SHARED_BYTES = 227 * 1024
STEPS = 4096
DEPTH = 4
ARGUMENTS = 256
BUFFERS = 4096
NAME_LENGTH = 256
DIMENSIONS = 16
BATCH = 65536
VARIANTS = 32

Extent = Union[int, Sequence[int]]


class Buffer:
    """Memory of a graph: a tensor of `datatype` and `shape`, `size_bytes` long; made by Graph."""

    def __init__(self, graph: "Graph", name: str, role: str, datatype: str,
                 shape: Tuple[int, ...]) -> None:
        self.graph, self.name, self.role, self.datatype, self.shape = graph, name, role, datatype, shape
        self.size_bytes = size_of(datatype)
        for extent in shape:
            self.size_bytes *= extent
        self.file: Optional[str] = None
        self.data: Optional[bytes] = None
        self.fill: Optional[bytes] = None
        self.used = False
        self.written = role in ("input", "in_out", "constant")  # or there from the start

    @property
    def package_file(self) -> str:
        """Where in the package the content of a constant lies."""
        number = list(self.graph.buffers).index(self.name)
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in self.name)
        return "constants/%d_%s.bin" % (number, plain[:64])

    def default_access(self) -> str:
        """What a launch does to it if nothing is said."""
        return {"input": "read", "constant": "read", "output": "write"}.get(self.role, "read_write")

    def __repr__(self) -> str:
        return "Buffer(%s %s %s %s)" % (self.role, self.name, self.datatype, list(self.shape))


class Argument:
    """A buffer as a launch uses it; made by read(), write() and read_write()."""

    def __init__(self, buffer: Buffer, access: str, offset_elements: int = 0) -> None:
        if not isinstance(buffer, Buffer):
            raise GraphError("%r is no buffer" % (buffer,))
        self.buffer, self.access = buffer, access
        self.offset_bytes = offset_elements * size_of(buffer.datatype)
        if not 0 <= self.offset_bytes < buffer.size_bytes:
            raise GraphError("element %d is not in '%s' of shape %s"
                             % (offset_elements, buffer.name, list(buffer.shape)))
        if access != "read" and buffer.role in ("input", "constant"):
            raise GraphError("'%s' is of role %s, which is never written" % (buffer.name, buffer.role))


def read(buffer: Buffer, offset_elements: int = 0) -> Argument:
    """The kernel only reads the buffer; its pointer begins at this element."""
    return Argument(buffer, "read", offset_elements)


def write(buffer: Buffer, offset_elements: int = 0) -> Argument:
    """The kernel only writes the buffer."""
    return Argument(buffer, "write", offset_elements)


def read_write(buffer: Buffer, offset_elements: int = 0) -> Argument:
    """The kernel reads the present content and writes."""
    return Argument(buffer, "read_write", offset_elements)


class Kernel:
    """A kernel of a bundle; calling it appends a launch to the graph."""

    def __init__(self, bundle: "Bundle", name: str, parameter_sizes: Optional[List[int]]) -> None:
        self.bundle, self.name, self.parameter_sizes = bundle, name, parameter_sizes

    def __call__(self, grid: Extent, block: Extent,
                 arguments: Iterable[Union[Buffer, Argument, Literal]],
                 shared_bytes: int = 0) -> None:
        """Launches it with `grid` blocks of `block` threads, each one to three numbers.

        `arguments` are the kernel's parameters: buffers (with the access that their role suggests),
        read(), write(), read_write(), and literals such as int32(5). GraphError if they do not fit.
        """
        self.bundle.graph._launch(self, grid, block, list(arguments), shared_bytes)


class Bundle:
    """Compiled kernels, or a source that is compiled at deploy."""

    def __init__(self, graph: "Graph", name: str, path: Optional[str],
                 kernels: Optional[Dict[str, List[int]]]) -> None:
        self.graph, self.name, self.path, self._kernels = graph, name, path, kernels

    def kernel(self, name: str) -> Kernel:
        """The kernel of this name. GraphError if the bundle is compiled and has none."""
        if self._kernels is None:
            return Kernel(self, name, None)
        if name not in self._kernels:
            raise GraphError("%s has no kernel '%s'%s"
                             % (self.name, name, did_you_mean(name, self._kernels)))
        return Kernel(self, name, self._kernels[name])


def _extent(extent: Extent, most: Sequence[int], what: str) -> List[int]:
    numbers = [extent] if isinstance(extent, int) else list(extent)
    if not 1 <= len(numbers) <= 3:
        raise GraphError("%s: one to three numbers are expected, not %r" % (what, extent))
    for number, limit in zip(numbers, most):
        if not isinstance(number, int) or not 1 <= number <= limit:
            raise GraphError("%s: %r is not in 1 to %d" % (what, number, limit))
    return numbers


class Graph:
    """A kernel function under construction. `name` is the function's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.buffers: Dict[str, Buffer] = {}
        self.steps: List[Dict[str, Any]] = []
        self.bundles: Dict[str, Bundle] = {}
        self.batching: Optional[Dict[str, int]] = None
        self._open: List[List[Dict[str, Any]]] = [self.steps]
        self._step_count = 0

    # --- Buffers ---

    def input(self, name: str, datatype: str, shape: Sequence[int]) -> Buffer:
        """A tensor that comes with each request; never written. `datatype` is such as "FP32"."""
        return self._buffer(name, "input", datatype, shape)

    def output(self, name: str, datatype: str, shape: Sequence[int]) -> Buffer:
        """A tensor that goes into the answer or becomes an object; undefined at the start."""
        return self._buffer(name, "output", datatype, shape)

    def in_out(self, name: str, datatype: str, shape: Sequence[int]) -> Buffer:
        """A tensor that comes with each request, in a copy of its own, and goes out again."""
        return self._buffer(name, "in_out", datatype, shape)

    def temporary(self, name: str, datatype: str, shape: Sequence[int]) -> Buffer:
        """Memory of one request; undefined at the start, shared with others where that is safe."""
        return self._buffer(name, "temporary", datatype, shape)

    def constant(self, name: str, datatype: str, shape: Sequence[int], *,
                 data: Any = None, file: Optional[str] = None,
                 fill: Optional[Number] = None) -> Buffer:
        """A tensor that is the same for every request, cached on the device; never written.

        Its content is one of: `data`, bytes, an array (array.array, numpy) of that datatype or a
        list of numbers; `file`, a file of the raw, little-endian content, which save() copies;
        `fill`, one number that all elements are. GraphError if its size or type is not the tensor's.
        """
        if sum(content is not None for content in (data, file, fill)) != 1:
            raise GraphError("constant '%s': one of data, file and fill is expected" % name)
        buffer = Buffer(self, name, "constant", datatype, self._shape(name, datatype, shape))
        if fill is not None:
            buffer.fill = pack(datatype, [fill])
        elif file is not None:
            self._check_size(buffer, os.path.getsize(file), file)
            buffer.file = file
        else:
            buffer.data = self._bytes(name, datatype, data)
            self._check_size(buffer, len(buffer.data), "data")
        return self._add(buffer)

    # --- Kernels ---

    def bundle(self, path: str) -> Bundle:
        """A bundle that `lambent-bundle build` made: its folder, which goes into the package."""
        try:
            with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            kernels = {kernel["name"]: list(kernel["parameters"]) for kernel in manifest["kernels"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise GraphError("%s is no kernel bundle: %s" % (path, error)) from None
        name = os.path.basename(os.path.normpath(path))
        return self._add_bundle(Bundle(self, "bundles/" + name, path, kernels))

    def source(self, path: str) -> Bundle:
        """A .cu file of kernels, or a library of kernels in PTX; it goes into the package and is compiled by `lambent deploy`.

        Kernels of a .ptx file are named as their entries are: by `extern "C"` names, or by mangled ones.
        """
        if not path.endswith(package.SOURCE_ENDINGS) or not os.path.isfile(path):
            raise GraphError("%s is no .cu or .ptx file" % path)
        name = os.path.splitext(os.path.basename(path))[0]
        return self._add_bundle(Bundle(self, "bundles/" + name, path, None))

    def builtin(self, name: str, kernels: Optional[Dict[str, List[int]]] = None) -> Bundle:
        """A bundle that comes with Lambent, such as "blas"; see lambent.kernels.blas."""
        return self._add_bundle(Bundle(self, "lambent:" + name, None, kernels))

    @contextlib.contextmanager
    def _block(self, step: Dict[str, Any], empty: str) -> Iterator[None]:
        """What follows in the block goes into `step`; GraphError(empty) if that is nothing."""
        step["steps"] = []
        self._append(step)
        self._open.append(step["steps"])
        try:
            yield
        finally:
            self._open.pop()
        if not step["steps"]:
            raise GraphError(empty)

    @contextlib.contextmanager
    def repeat(self, times: int, until: Optional[Buffer] = None) -> Iterator[None]:
        """The launches in the block run `times` times, each round after the one before.

        With `until`, at most: it is zero before the first round, and the round after which its
        first 32 bits are something else is the last. GraphError if nothing in the block writes it.
        """
        if not isinstance(times, int) or not 1 <= times <= 10**9:
            raise GraphError("repeat: %r is not in 1 to 1000000000" % (times,))
        if len(self._open) > DEPTH:
            raise GraphError("more than %d repeats lie in each other" % DEPTH)
        step: Dict[str, Any] = {"repeat": times}
        if until is not None:
            self._own(until)
            if until.role in ("input", "constant"):
                raise GraphError("'%s' is of role %s; a flag is written" % (until.name, until.role))
            if until.size_bytes < 4:
                raise GraphError("'%s' has %d bytes; a flag has at least 4"
                                 % (until.name, until.size_bytes))
            until.written = until.used = True
            step["until"] = until.name
        with self._block(step, "nothing is repeated: no launch stands in this block"):
            yield
        if until is not None and not _writes(step["steps"], until.name):
            raise GraphError("no launch in this block writes the flag '%s'" % until.name)

    @contextlib.contextmanager
    def variant(self, batch: int) -> Iterator[None]:
        """The launches in the block are for requests of at most `batch` elements of the first dimension.

        A request runs the smallest variant that holds it. All launches of such a graph stand in
        variants, the smallest first; inputs and outputs have the first dimension of the largest.
        Kernels of a smaller one use the first `batch` elements, and what lies behind those that a
        request brings is undefined.
        """
        if not isinstance(batch, int) or not 1 <= batch <= BATCH:
            raise GraphError("variant: %r is not in 1 to %d" % (batch, BATCH))
        if len(self._open) > 1:
            raise GraphError("a variant is no part of another step")
        if len(self.steps) == VARIANTS:
            raise GraphError("more than %d variants" % VARIANTS)
        if self.steps and self.steps[-1].get("batch", BATCH) >= batch:
            raise GraphError("variant %d: variants stand in the order of their sizes, without other steps" % batch)
        for buffer in self.buffers.values():
            buffer.written = buffer.role in ("input", "in_out", "constant")
        with self._block({"batch": batch}, "variant %d: no launch stands in this block" % batch):
            yield
        for buffer in self.buffers.values():
            if buffer.role == "output" and not buffer.written:
                raise GraphError("variant %d: no launch writes the output '%s'" % (batch, buffer.name))

    def batches(self, wait_ms: float = 0, slo_ms: float = 0) -> None:
        """Requests by the Open Inference Protocol, and calls of workflows, are put together, up to the
        largest variant.

        One waits at most `wait_ms` for others while the function is idle. Batches grow while a run
        takes at most half of `slo_ms`; 0: they are as large as they may be.
        """
        for word, number in (("wait_ms", wait_ms), ("slo_ms", slo_ms)):
            if not 0 <= number <= 3_600_000:
                raise GraphError("batches: %s %r is not in 0 to 3600000" % (word, number))
        self.batching = {"wait_us": round(wait_ms * 1000), "slo_us": round(slo_ms * 1000)}

    # --- The result ---

    def json(self) -> Dict[str, Any]:
        """graph.json as a dictionary. GraphError for buffers that are not used or not written."""
        if not self.steps:
            raise GraphError("a graph needs a launch at least")
        buffers = []
        for buffer in self.buffers.values():
            if buffer.role == "output" and not buffer.written:
                raise GraphError("no launch writes the output '%s'" % buffer.name)
            if not buffer.used:
                raise GraphError("no launch uses '%s'" % buffer.name)
            entry: Dict[str, Any] = {"name": buffer.name, "role": buffer.role,
                                     "datatype": buffer.datatype, "shape": list(buffer.shape)}
            if buffer.fill is not None:
                entry["fill"] = element_json(buffer.datatype, buffer.fill)
            elif buffer.role == "constant":
                entry["file"] = buffer.package_file
            buffers.append(entry)
        root: Dict[str, Any] = {"buffers": buffers, "steps": self.steps}
        sizes = [step.get("batch", 0) for step in self.steps]
        if any(sizes):
            if not all(sizes):
                raise GraphError("some launches stand in variants, and others do not")
            for buffer in self.buffers.values():
                if buffer.role in ("input", "output", "in_out") and buffer.shape[:1] != (sizes[-1],):
                    raise GraphError("'%s' of shape %s: its first dimension is that of the largest variant, %d"
                                     % (buffer.name, list(buffer.shape), sizes[-1]))
        if self.batching is not None:
            if not any(sizes):
                raise GraphError("batches are for graphs with variants")
            root["batches"] = self.batching
        return root

    def save(self, folder: str, **settings: Any) -> None:
        """Writes a package for `lambent deploy`: graph.json, lambent.toml, constants and sources.

        `settings` go into lambent.toml: description, timeout_s, weight, max_concurrency, tags (a
        dictionary), and those of its table [gpu]: domain, share, memory, launch_mode ("compute" or
        "model", which only the emulated driver knows).
        """
        package.save(self, folder, **settings)

    # --- Within ---

    def _shape(self, name: str, datatype: str, shape: Sequence[int]) -> Tuple[int, ...]:
        if not isinstance(name, str) or not 1 <= len(name.encode()) <= NAME_LENGTH or "\0" in name:
            raise GraphError("%r is no name" % (name,))
        if name in self.buffers:
            raise GraphError("there is a buffer '%s' already" % name)
        size_of(datatype)
        extents = tuple(shape)
        if len(extents) > DIMENSIONS:
            raise GraphError("'%s' has more than %d dimensions" % (name, DIMENSIONS))
        for extent in extents:
            if not isinstance(extent, int) or extent < 1:
                raise GraphError("'%s': a shape has whole numbers from 1 up, not %r" % (name, extent))
        return extents

    def _buffer(self, name: str, role: str, datatype: str, shape: Sequence[int]) -> Buffer:
        return self._add(Buffer(self, name, role, datatype, self._shape(name, datatype, shape)))

    def _add(self, buffer: Buffer) -> Buffer:
        if len(self.buffers) == BUFFERS:
            raise GraphError("a graph has at most %d buffers" % BUFFERS)
        self.buffers[buffer.name] = buffer
        return buffer

    @staticmethod
    def _check_size(buffer: Buffer, size_bytes: int, what: str) -> None:
        if size_bytes != buffer.size_bytes:
            raise GraphError("%s has %d bytes, '%s' of %s %s has %d"
                             % (what, size_bytes, buffer.name, buffer.datatype,
                                list(buffer.shape), buffer.size_bytes))

    @staticmethod
    def _bytes(name: str, datatype: str, data: Any) -> bytes:
        try:
            view = memoryview(data)
        except TypeError:
            return pack(datatype, data)
        if not holds(view, datatype):
            raise GraphError("constant '%s': data of format '%s' is given, '%s' is %s"
                             % (name, view.format, name, datatype))
        return view.tobytes()

    def _add_bundle(self, bundle: Bundle) -> Bundle:
        known = self.bundles.setdefault(bundle.name, bundle)
        if known.path != bundle.path:
            raise GraphError("%s and %s would both be %s" % (known.path, bundle.path, bundle.name))
        return known

    def _own(self, buffer: Buffer) -> None:
        if not isinstance(buffer, Buffer) or buffer.graph is not self:
            raise GraphError("%r is no buffer of this graph" % (buffer,))

    def _append(self, step: Dict[str, Any]) -> None:
        if self._step_count == STEPS:
            raise GraphError("a graph has at most %d steps" % STEPS)
        self._step_count += 1
        self._open[-1].append(step)

    def _launch(self, kernel: Kernel, grid: Extent, block: Extent, arguments: List[Any],
                shared_bytes: int) -> None:
        what = "kernel '%s'" % kernel.name
        grid_numbers = _extent(grid, GRID, what + ", grid")
        block_numbers = _extent(block, BLOCK, what + ", block")
        threads = 1
        for number in block_numbers:
            threads *= number
        if threads > BLOCK_THREADS:
            raise GraphError("%s: a block of %d threads; at most %d are possible"
                             % (what, threads, BLOCK_THREADS))
        if not isinstance(shared_bytes, int) or not 0 <= shared_bytes <= SHARED_BYTES:
            raise GraphError("%s: shared_bytes %r is not in 0 to %d" % (what, shared_bytes, SHARED_BYTES))
        sizes = kernel.parameter_sizes
        most = ARGUMENTS if sizes is None else len(sizes)
        if len(arguments) > most or (sizes is not None and len(arguments) < most):
            raise GraphError("%s: %d arguments are given; it takes %s%d"
                             % (what, len(arguments), "at most " if sizes is None else "", most))
        uses = []
        entries = []
        for index, argument in enumerate(arguments):
            place = "%s, argument %d" % (what, index)
            if isinstance(argument, Buffer):
                argument = Argument(argument, argument.default_access())
            size = argument.data if isinstance(argument, Literal) else b"pointer."
            if isinstance(argument, Literal):
                entries.append(argument.json())
            elif isinstance(argument, Argument):
                self._own(argument.buffer)
                if argument.access == "read" and not argument.buffer.written:
                    raise GraphError("%s: '%s' is read, but no launch before has written it"
                                     % (place, argument.buffer.name))
                uses.append(argument)
                entry: Dict[str, object] = {"buffer": argument.buffer.name, "access": argument.access}
                if argument.offset_bytes:
                    entry["offset_bytes"] = argument.offset_bytes
                entries.append(entry)
            else:
                raise GraphError("%s: %r is neither a buffer nor a literal; say which type it has, "
                                 "such as int32(5)" % (place, argument))
            if sizes is not None and len(size) != sizes[index]:
                raise GraphError("%s: %d bytes are given, the kernel's parameter has %d"
                                 % (place, len(size), sizes[index]))
        for use in uses:
            use.buffer.used = True
            use.buffer.written |= use.access != "read"
        step: Dict[str, object] = {"kernel": kernel.name, "bundle": kernel.bundle.name, "grid": grid_numbers,
                "block": block_numbers}
        if shared_bytes:
            step["shared_bytes"] = shared_bytes
        self._append(dict(step, arguments=entries))


def _writes(steps: List[Dict[str, Any]], name: str) -> bool:
    for step in steps:
        if "steps" in step and _writes(step["steps"], name):
            return True
        for argument in step.get("arguments", []):
            if argument.get("buffer") == name and argument["access"] != "read":
                return True
    return False
