"""From a checked ONNX model to kernels and their launches, by Apache TVM: it infers shapes, folds
constants and batch normalisations, fuses, and writes the CUDA source of each kernel for the model's
own shapes. Needs no GPU and no CUDA toolkit."""
import contextlib
import io
import math
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Set, Tuple, Union

import numpy
import onnx
import tvm
import tvm.s_tir  # noqa: F401  (registers the pipeline "s_tir")
import tvm_ffi
from tvm import relax, tirx
from tvm.relax.frontend.onnx import onnx_frontend
from tvm.s_tir import dlight
from tvm.tirx.build import codegen_build, split_host_device_mods

from .errors import ModelError, NotCovered
from .model import ELEMENTS, first_line, place_of
from .schedules import Careful, rules

# What the kernels are scheduled for. They also run on later architectures and on the emulated GPU;
# their bundle is compiled for the one that is there.
TARGET = {"kind": "cuda", "arch": "sm_80", "max_shared_memory_per_block": 49152,
          "max_threads_per_block": 1024, "thread_warp_size": 32}


@dataclass(frozen=True)
class Tensor:
    """Memory of the program: a number in Program.tensors."""
    number: int


@dataclass
class TensorFacts:
    dtype: str
    shape: Tuple[int, ...]
    value: Any = None  # of a constant: an array of numpy


@dataclass
class Launch:
    kernel: str
    grid: Tuple[int, int, int]
    block: Tuple[int, int, int]
    shared_bytes: int
    arguments: List[Union[Tensor, Tuple[str, int]]]  # tensors, and numbers with their dtype
    accesses: List[str]                              # "read", "write" or "read_write", for each


@dataclass
class Program:
    """A model as kernels: what `emit` makes a package of."""
    source: str = ""
    kernels: List[str] = field(default_factory=list)
    tensors: List[TensorFacts] = field(default_factory=list)
    inputs: List[Tensor] = field(default_factory=list)
    outputs: List[Tensor] = field(default_factory=list)
    output_shapes: List[Tuple[int, ...]] = field(default_factory=list)
    launches: List[Launch] = field(default_factory=list)

    def sizes(self) -> Dict[str, int]:
        """In bytes, of what a request brings and of what it gets."""
        return {word: sum(self._size(each) for each in tensors) for word, tensors in (("inputs", self.inputs), ("outputs", self.outputs))}

    def _size(self, tensor: Tensor) -> int:
        facts = self.tensors[tensor.number]
        return math.prod(facts.shape) * numpy.dtype(facts.dtype).itemsize


def operators() -> List[str]:
    """The operators of ONNX that there is a way to kernels for; whether a node has one also depends
    on its attributes."""
    return sorted(onnx_frontend._get_convert_map())


def lower(model: onnx.ModelProto, precision: str = "") -> Program:
    """NotCovered, with the place, if something in the model has no kernels.

    `precision` "fp16": weights of 32-bit floating point are kept in 16 bits, products and convolutions
    multiply those and add up in 32, and what lies between them is 16 bits where that is accurate.
    Inputs and outputs are those of the model.
    """
    known = set(operators())
    missing = [index for index, node in enumerate(model.graph.node) if node.op_type not in known]
    if missing:
        words = list(dict.fromkeys(place_of(model, index) for index in missing))
        more = "" if len(words) <= 5 else "; and %d more" % (len(words) - 5)
        raise NotCovered("operators without kernels: %s%s" % ("; ".join(words[:5]), more))
    target = tvm.target.Target(TARGET)
    module = _imported(model)
    try:
        with target:
            module = _optimised(_halved(module) if precision == "fp16" else module)
        return _Reader(module, target).program
    except ModelError:
        raise
    except Exception as error:
        raise NotCovered("the compiler does not get through: %s" % first_line(error)) from None


def _imported(model: onnx.ModelProto) -> tvm.IRModule:
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            return onnx_frontend.from_onnx(model, keep_params_in_input=False)
    except Exception as error:
        raise NotCovered("%s: %s" % (_place_of_failure(model, said.getvalue()), first_line(error))) from None


def _place_of_failure(model: onnx.ModelProto, said: str) -> str:
    found = re.search(r"Error converting operator (\w+)", said)
    operator = found.group(1) if found else ""
    places = [index for index, node in enumerate(model.graph.node) if node.op_type == operator]
    if len({place_of(model, index) for index in places}) == 1:
        return place_of(model, places[0])
    return "one of the nodes %s, %s" % (", ".join(map(str, places[:8])), operator) if places else "the graph"


@relax.expr_functor.mutator
class _BoundedIndices(relax.PyExprMutator):
    """Indices come with requests: one that is out of bounds reads the nearest element, not the memory
    behind."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") == "relax.take" and str(call.attrs.mode) == "fast":
            axis = call.attrs.axis
            return relax.op.take(call.args[0], call.args[1], axis=None if axis is None else int(axis), mode="clip")
        return call


def _bounded(module: tvm.IRModule) -> tvm.IRModule:
    main = _BoundedIndices(module).visit_expr(module["main"])
    result = tvm.IRModule(dict(module.functions.items()))
    result.update_func(module.get_global_var("main"), main)
    return result


def _halved(module: tvm.IRModule) -> tvm.IRModule:
    """Casts of constants are folded later, so that only what they give is kept."""
    return relax.transform.ToMixedPrecision(out_dtype="float32")(module)


def _optimised(module: tvm.IRModule) -> tvm.IRModule:
    """Fused functions, each of which becomes a kernel or a few; not scheduled yet."""
    return tvm.ir.transform.Sequential([
        relax.transform.FoldConstant(),
        relax.transform.FoldBatchnormToConv2D(),
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.LegalizeOps(),
        relax.transform.RewriteDataflowReshape(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
        relax.transform.AttachGlobalSymbol(),
    ])(_bounded(module))


def _scheduled(module: tvm.IRModule, target: tvm.target.Target) -> Tuple[Dict[str, Any], Dict[str, Any], str]:
    """With blocks and threads, by the first rule that fits a function and leads to kernels."""
    last = Careful(dlight.gpu.Fallback())
    with target:
        scheduled = dlight.ApplyDefaultSchedule(*rules(), last)(module)
        try:
            return _split(scheduled, target)
        except Exception:  # of one of them, which the simplest rule may do
            simple = dlight.ApplyDefaultSchedule(last)(module)
    for name, function in scheduled.functions.items():
        try:
            _split(tvm.IRModule({name: function}), target)
        except Exception:
            scheduled.update_func(name, simple[name.name_hint])
    return _split(scheduled, target)


class _Reader:
    """Reads the optimised module into a Program."""

    def __init__(self, module: tvm.IRModule, target: tvm.target.Target) -> None:
        self.program = Program()
        self._values: Dict[Any, Any] = {}  # of variables of Relax: Tensor, or a list of them
        self._constants: Dict[Any, Tensor] = {}
        functions = {name: function for name, function in module.functions.items()
                     if isinstance(function, tirx.PrimFunc)}
        self._host, self._device, generated = _scheduled(tvm.IRModule(functions), target)
        main = module["main"]
        for parameter in main.params:
            tensor = self._new(parameter.ty, "an input")
            self.program.inputs.append(tensor)
            self._values[parameter] = tensor
        for block in main.body.blocks:
            for binding in block.bindings:
                self._values[binding.var] = self._value(binding.value)
        result = self._value(main.body.body)
        self.program.outputs = result if isinstance(result, list) else [result]
        kind = main.ret_ty
        kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
        self.program.output_shapes = [_static_shape(each, "an output") for each in kinds]
        self.program.kernels = sorted({launch.kernel for launch in self.program.launches})
        self.program.source = _source(generated, self.program.kernels)

    # --- Relax ---

    def _new(self, kind: Any, what: str) -> Tensor:
        self.program.tensors.append(TensorFacts(str(kind.dtype), _static_shape(kind, what)))
        return Tensor(len(self.program.tensors) - 1)

    def _constant(self, value: numpy.ndarray) -> Tensor:
        if value.size == 0:
            raise NotCovered("a constant is empty: its shape is %s" % (list(value.shape),))
        self.program.tensors.append(TensorFacts(str(value.dtype), tuple(value.shape), value))
        return Tensor(len(self.program.tensors) - 1)

    def _value(self, value: Any) -> Any:
        if value in self._values:
            return self._values[value]
        if isinstance(value, tvm.ir.GenericConst):
            known = self._constants.get(value)
            if known is None:
                known = self._constants[value] = self._constant(value.value.numpy())
            return known
        if isinstance(value, relax.Tuple):
            return [self._value(each) for each in value.fields]
        if isinstance(value, relax.TupleGetItem):
            return self._value(value.tuple_value)[value.index]
        if isinstance(value, relax.Call):
            return self._call(value)
        raise NotCovered("%s has no kernels" % first_line(ValueError(str(value))))

    def _call(self, call: relax.Call) -> Any:
        name = getattr(call.op, "name", None) or getattr(call.op, "name_hint", str(call.op))
        if name == "relax.call_tir":
            return self._call_kernels(call)
        if name == "relax.reshape":  # the same memory
            return self._value(call.args[0])
        raise NotCovered("'%s' is no kernel" % name)

    def _call_kernels(self, call: relax.Call) -> Any:
        function = call.args[0]
        given = [self._value(each) for each in call.args[1].fields]
        kind = call.ty_args[0] if hasattr(call, "ty_args") else call.sinfo_args[0]
        kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
        made = [self._new(each, "what %s makes" % function.name_hint) for each in kinds]
        self._launches(function, given, made)
        return made if isinstance(kind, relax.TupleType) else made[0]

    # --- Kernels ---

    def _launches(self, function: Any, given: List[Tensor], made: List[Tensor]) -> None:
        steps = _HostSteps(function.name_hint, self._host[function.name_hint])
        where = dict(zip(steps.parameters, given + made))
        for variable in steps.scratch:
            made = made + [self._new(variable.ty, "a scratch of %s" % function.name_hint)]
            where[variable] = made[-1]
        written: Set[Tensor] = set()
        for call in steps.launches:
            kernel = str(call.args[0].value)
            device = self._device[kernel]
            count = len(device.params)
            arguments: List[Union[Tensor, Tuple[str, int]]] = []
            accesses = []
            for argument in call.args[1:1 + count]:
                if isinstance(argument, tirx.IntImm):
                    arguments.append((str(argument.dtype), int(argument)))
                    accesses.append("read")
                    continue
                tensor = where[steps.origin_of(argument)]
                arguments.append(tensor)
                # What it makes may take several kernels, each of which goes on from the one before.
                accesses.append("read" if tensor not in made else "read_write" if tensor in written else "write")
            written.update(each for each in arguments if each in made)
            grid, block, shared = _extents_of_launch(device, call.args[1 + count:])
            self.program.launches.append(Launch(kernel, grid, block, shared, arguments, accesses))


def _static_shape(kind: Any, what: str) -> Tuple[int, ...]:
    shape = getattr(kind, "shape", None)
    extents = getattr(shape, "values", shape)
    if extents is None or not all(isinstance(each, (int, tirx.IntImm)) for each in extents):
        raise NotCovered("%s has a shape that is not known before the run" % what)
    numbers = tuple(int(each) for each in extents)
    if any(extent < 1 for extent in numbers):
        raise NotCovered("%s is empty: its shape is %s" % (what, list(numbers)))
    if math.prod(numbers) > ELEMENTS:
        raise NotCovered("%s is too large: its shape is %s" % (what, list(numbers)))
    return numbers


class _HostSteps:
    """What the host does to run one function: launches over its parameters and its scratch."""

    def __init__(self, name: str, host: tirx.PrimFunc) -> None:
        self.parameters: List[Any] = []
        self.scratch: List[Any] = []
        self.launches: List[Any] = []
        self._same: Dict[Any, Any] = {}
        self._name = name
        tvm_ffi.structural_walk(host.body, self._visit, order="pre")

    def origin_of(self, data: Any) -> Any:
        """The parameter or scratch that a pointer (x.data) points to."""
        variable = _data_of(data)
        while variable in self._same:
            variable = self._same[variable]
        return variable

    def _visit(self, node: Any) -> None:
        kind = type(node).__name__
        if kind == "DeclBuffer":
            older = _data_of(node.data)
            if older is None:
                self.parameters.append(node.buffer)
            else:
                self._same[node.buffer] = older
        elif kind == "AllocBuffer":
            self.scratch.append(node.buffer)
        elif kind in ("For", "While"):
            raise NotCovered("%s has a loop around its kernels" % self._name)
        elif kind == "Call" and getattr(node.op, "name", "") == "tirx.call_ffi_kernel":
            self.launches.append(node)


def _data_of(data: Any) -> Any:
    """x of x.data; None of what else a pointer can be."""
    is_data = type(data).__name__ == "Call" and getattr(data.op, "name", "") == "tirx.buffer_data"
    return data.args[0] if is_data else None


def _extents_of_launch(device: tirx.PrimFunc, numbers: Any) -> Tuple[Tuple[int, int, int], Tuple[int, int, int], int]:
    extents = {"blockIdx": [1, 1, 1], "threadIdx": [1, 1, 1]}
    shared = 0
    for tag, number in zip(device.attrs["tirx.kernel_launch_params"], numbers):
        word, _, axis = str(tag).partition(".")
        if word in extents:
            extents[word]["xyz".index(axis)] = int(number)
        else:
            shared = int(number)
    (x, y, z), (a, b, c) = extents["blockIdx"], extents["threadIdx"]
    return (x, y, z), (a, b, c), shared


def _split(module: tvm.IRModule, target: tvm.target.Target) -> Tuple[Dict[str, Any], Dict[str, Any], str]:
    """Host functions and kernels, by name, and the source of the kernels."""
    pipeline, _, finalize_device = tirx.get_tir_pipeline("s_tir")
    bound = tirx.transform.BindTarget(target.with_host(tvm.target.Target("llvm")))(module)
    host, devices = split_host_device_mods(pipeline(bound))
    kernels: Dict[str, Any] = {}
    sources = []
    for its_target, device in devices.items():
        kernels.update({name.name_hint: function for name, function in device.functions.items()})
        built = codegen_build(finalize_device()(device), its_target)
        sources.append(built.inspect_source())
    return {name.name_hint: function for name, function in host.functions.items()}, kernels, "\n".join(sources)


# The words that the generated kernels use beside CUDA's own.
_WORDS = """#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <cstdint>
#include <type_traits>
#endif
%s#include <lambent/kernel.h>

typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
#ifndef CUDART_INF_F
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000LL)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_NAN __longlong_as_double(0xfff8000000000000LL)
#endif

"""
# CUDA has these under other names, and would not know which of its others is meant; the host's header has them.
_HALF = """#include <cuda_fp16.h>
#if defined(__CUDACC__)
static __device__ __forceinline__ __half max(__half a, __half b) { return __hgt(a, b) ? a : b; }
static __device__ __forceinline__ __half min(__half a, __half b) { return __hlt(a, b) ? a : b; }
#endif
"""
_FIRST_KERNEL = re.compile(r'extern "C" __global__')
_SHARED = re.compile(r"__shared__ alignas\((\d+)\)")


def _source(generated: str, kernels: List[str]) -> str:
    """The kernels without what TVM writes around them, as a source that Lambent compiles for the GPU and for the CPU."""
    found = _FIRST_KERNEL.search(generated)
    body = generated[found.start():] if found else ""
    body = re.sub(r'extern "C" __global__ void[^;{]*;\n', "", body)  # declarations ahead
    body = _SHARED.sub(r"alignas(\1) __shared__", body)
    registered = "".join("LAMBENT_KERNEL(%s);\n" % each for each in kernels)
    half = _HALF if "half" in body else ""
    half += "#include <cuda_bf16.h>\n" if "bfloat16" in body else ""
    return _WORDS % half + body + "\n" + registered
