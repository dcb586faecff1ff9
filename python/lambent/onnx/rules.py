"""Nodes in terms of others, each by a rule: RULES has them by operator. Each gives the nodes that take a node's place, and nothing where
there are none, because it may stay or has no kernels."""
import functools
import itertools
import math
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import numpy
import onnx
from onnx import TensorProto, helper

from .model import FLOATS, attribute_of
from .recurrent import recurrent
from .scope import Nodes, Scope, Writer
from .signals import col2im, compress, deform_conv, dft, stft, upsample

# Of a constant that is computed, and of what is compared or added up pair by pair: in elements.
CONSTANT = 2**22
PAIRS = 2**28
COMPARED = 2048  # along one axis

_Rule = Callable[[Scope, onnx.NodeProto], Optional[Nodes]]


def _split_at(shape: Sequence[int], axis: int) -> Tuple[int, int, int]:
    """How many elements there are before an axis, along it, and behind it."""
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])


def _constant(scope: Scope, node: onnx.NodeProto, value: Any, dtype: int) -> Nodes:
    """A node whose output is known."""
    return [helper.make_node("Identity", [scope.value(value, dtype)], [node.output[0]], name=node.name)]


def _shape(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """The compiler keeps a shape as no tensor, so that it cannot be an output."""
    if node.output[0] not in scope.outputs:
        return None
    shape = scope.shape(node.input[0])[attribute_of(node, "start", 0):attribute_of(node, "end", None)]
    if not shape:  # of a scalar
        return None
    return _constant(scope, node, list(shape), TensorProto.INT64)


def _lp_normalization(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    write = Writer(scope, node)
    value, axis = node.input[0], attribute_of(node, "axis", -1)
    kind = {1: "ReduceL1", 2: "ReduceL2"}[attribute_of(node, "p", 2)]
    norm = write.reduced(kind, value, axis % len(scope.shape(value)), keepdims=1)
    dtype = scope.dtype(value)
    is_zero = write("Equal", norm, scope.value(0, dtype))
    write("Div", value, write("Where", is_zero, scope.value(1, dtype), norm), into=node.output[0])
    return write.nodes


def _one_hot(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    depth = scope.constant(scope.input(node, 1))
    if depth is None:
        return None
    write, count = Writer(scope, node), int(depth.reshape(()))
    shape = scope.shape(node.input[0])
    axis = attribute_of(node, "axis", -1) % (len(shape) + 1)
    index = write.cast(node.input[0], TensorProto.INT64)
    below = write("Less", index, scope.value(0))
    index = write("Where", below, write("Add", index, scope.value(count)), index)
    index = write.shaped(index, [*shape[:axis], 1, *shape[axis:]])
    places = scope.value(numpy.arange(count).reshape([count] + [1] * (len(shape) - axis)))
    off, on = (write("Gather", node.input[2], scope.value(place), axis=0) for place in (0, 1))
    write("Where", write("Equal", index, places), on, off, into=node.output[0])
    return write.nodes


def _cumulative(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    axis = scope.constant(scope.input(node, 1))
    shape, dtype = scope.shape(node.input[0]), scope.dtype(node.input[0])
    if axis is None or not shape:
        return None
    before, count, behind = _split_at(shape, int(axis.reshape(())))
    if before * count * count * behind > PAIRS or count > COMPARED:
        return None
    write = Writer(scope, node)
    first, last = numpy.arange(count).reshape(1, count, 1, 1), numpy.arange(count).reshape(1, 1, count, 1)
    if attribute_of(node, "reverse", 0):
        first, last = -first, -last
    counts = scope.value(first < last if attribute_of(node, "exclusive", 0) else first <= last, TensorProto.BOOL)
    kind, nothing = ("ReduceSum", 0) if node.op_type == "CumSum" else ("ReduceProd", 1)
    value = write.shaped(node.input[0], [before, count, 1, behind])
    parts = write("Where", counts, value, scope.value(nothing, dtype))
    write.shaped(write.reduced(kind, parts, 1), shape, into=node.output[0])
    return write.nodes


def _top_k(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """Each element is compared with each other one: how many come before it is its place."""
    wanted = scope.constant(scope.input(node, 1))
    shape, dtype = scope.shape(node.input[0]), scope.dtype(node.input[0])
    if wanted is None or not shape:
        return None
    axis = attribute_of(node, "axis", -1) % len(shape)
    before, count, behind = _split_at(shape, axis)
    most = int(wanted.reshape(()))
    if before * count * count * behind > PAIRS or count > COMPARED or not 0 < most <= count:
        return None
    write = Writer(scope, node)
    others = write.shaped(node.input[0], [before, count, 1, behind])
    own = write.shaped(node.input[0], [before, 1, count, behind])
    is_before = write("Greater" if attribute_of(node, "largest", 1) else "Less", others, own)
    earlier = numpy.arange(count).reshape(1, count, 1, 1) < numpy.arange(count).reshape(1, 1, count, 1)
    same = write("And", write("Equal", others, own), scope.value(earlier, TensorProto.BOOL))
    places = write.reduced("ReduceSum", write.cast(write("Or", is_before, same), TensorProto.INT32), 1)
    places = write.shaped(places, [before, count, 1, behind])
    is_here = write("Equal", places, scope.value(numpy.arange(most).reshape(1, 1, most, 1), TensorProto.INT32))
    found = [*shape[:axis], most, *shape[axis + 1:]]
    outputs = [*node.output, ""]
    if outputs[0]:
        values = write("Where", is_here, others, scope.value(0, dtype))
        write.shaped(write.reduced("ReduceSum", values, 1), found, into=outputs[0])
    if outputs[1]:
        indices = scope.value(numpy.arange(count).reshape(1, count, 1, 1))
        indices = write("Where", is_here, indices, scope.value(0))
        write.shaped(write.reduced("ReduceSum", indices, 1), found, into=outputs[1])
    return write.nodes


def _in_float(write: Writer, value: str, zero: str, dtype: int, channels: int = 0, rank: int = 0) -> str:
    """A quantised tensor minus its zero point; of weights there may be one for each of so many channels."""
    scope = write.scope
    made = write.cast(value, dtype)
    if not zero:
        return made
    point = write.cast(zero, dtype)
    size = math.prod(scope.shape(zero))
    return write("Sub", made, write.shaped(point, [channels] + [1] * (rank - 1) if size > 1 and channels else []))


def _convolved(scope: Scope, write: Writer, node: onnx.NodeProto, places: Sequence[int], more: int = 0) -> Tuple[str, int]:
    """The sums of products of a quantised convolution, which are exact, also with up to `more` added to each."""
    x, x_zero, weight, w_zero = (scope.input(node, place) for place in places)
    shape = scope.shape(weight)
    is_short = math.prod(shape[1:]) * 255 * 255 + more < 2**24
    dtype = TensorProto.FLOAT if is_short else TensorProto.DOUBLE
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    sums = write("Conv", _in_float(write, x, x_zero, dtype), _in_float(write, weight, w_zero, dtype, shape[0], len(shape)), **attributes)
    return sums, dtype


def _conv_integer(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    write = Writer(scope, node)
    sums, _ = _convolved(scope, write, node, (0, 2, 1, 3))
    write.cast(sums, TensorProto.INT32, into=node.output[0])
    return write.nodes


def _scalar(write: Writer, value: str) -> str:
    made = write.cast(value, TensorProto.FLOAT)
    return write.shaped(made, []) if math.prod(write.scope.shape(value)) == 1 else made


def _quantised(scope: Scope, write: Writer, node: onnx.NodeProto, value: str, scale: str, zero: str) -> None:
    point = write.shaped(zero, []) if math.prod(scope.shape(zero)) == 1 else zero
    write("QuantizeLinear", value, _scalar(write, scale), point, into=node.output[0])


def _q_linear_conv(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    write = Writer(scope, node)
    bias = scope.input(node, 8)
    most = 0
    if bias:  # of 32 bits
        known = scope.constant(bias)
        most = 2**31 if known is None else int(numpy.abs(known.astype(numpy.int64)).max(initial=0))
    sums, dtype = _convolved(scope, write, node, (0, 2, 3, 5), most)
    rank, channels = len(scope.shape(node.input[3])), scope.shape(node.input[3])[0]
    if bias:
        sums = write("Add", sums, write.shaped(write.cast(bias, dtype), [channels] + [1] * (rank - 2)))
    scale = _scalar(write, node.input[4])
    if math.prod(scope.shape(node.input[4])) > 1:
        scale = write.shaped(scale, [channels] + [1] * (rank - 2))
    factor = write("Mul", _scalar(write, node.input[1]), scale)
    _quantised(scope, write, node, write("Mul", write.cast(sums, TensorProto.FLOAT), factor), node.input[6], node.input[7])
    return write.nodes


def _q_linear_mat_mul(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    if any(math.prod(scope.shape(node.input[place])) != 1 for place in (1, 2, 4, 5, 6, 7)):
        return None
    write = Writer(scope, node)
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    sums = write("MatMulInteger", a, b, write.shaped(a_zero, []), write.shaped(b_zero, []))
    factor = write("Mul", _scalar(write, a_scale), _scalar(write, b_scale))
    _quantised(scope, write, node, write("Mul", write.cast(sums, TensorProto.FLOAT), factor), y_scale, y_zero)
    return write.nodes


def _reverse_sequence(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    lengths = scope.constant(scope.input(node, 1))
    if lengths is None:
        return None
    write, shape = Writer(scope, node), scope.shape(node.input[0])
    time, batch = attribute_of(node, "time_axis", 0), attribute_of(node, "batch_axis", 1)
    steps, rows = shape[time], shape[batch]
    index = numpy.tile(numpy.arange(steps).reshape(-1, 1), (1, rows))
    for row, length in enumerate(lengths):
        index[:length, row] = index[:length, row][::-1]
    index = index * rows + numpy.arange(rows)
    if time > batch:
        index = index.T % rows * steps + index.T // rows
    flat = write.shaped(node.input[0], [steps * rows, *shape[2:]])
    write.shaped(write("Gather", flat, scope.value(index.ravel()), axis=0), shape, into=node.output[0])
    return write.nodes


_SUMS = {"none": ("ReduceSum", 0), "add": ("ReduceSum", 0), "mul": ("ReduceProd", 1), "max": ("ReduceMax", None), "min": ("ReduceMin", None)}


def _least(dtype: int, is_max: bool) -> Any:
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if dtype in FLOATS:
        return -numpy.inf if is_max else numpy.inf
    return numpy.iinfo(kind).min if is_max else numpy.iinfo(kind).max


def _scattered(scope: Scope, write: Writer, node: onnx.NodeProto, data: str, hits: str, updates: str, axis: int, reduction: str) -> str:
    """`data` with those of `updates` along `axis` that each element is hit by."""
    dtype = scope.dtype(node.input[0])
    kind, nothing = _SUMS[reduction]
    if nothing is None:
        nothing = _least(dtype, kind == "ReduceMax")
    news = write.reduced(kind, write("Where", hits, updates, scope.value(nothing, dtype)), axis)
    if reduction != "none":
        return write({"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}[reduction], data, news)
    count = write.reduced("ReduceSum", write.cast(hits, TensorProto.INT32), axis)
    return write("Where", write("Greater", count, scope.value(0, TensorProto.INT32)), news, data)


def _from_end(write: Writer, index: str, extent: Any) -> str:
    scope = write.scope
    index = write.cast(index, TensorProto.INT64)
    return write("Where", write("Less", index, scope.value(0)), write("Add", index, scope.value(extent)), index)


def _scatter_elements(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    data, indices = scope.shape(node.input[0]), scope.shape(node.input[1])
    axis = attribute_of(node, "axis", 0) % len(data)
    reduction = attribute_of(node, "reduction", "none")
    same = data[:axis] == indices[:axis] and data[axis + 1:] == indices[axis + 1:]
    before, count, behind = _split_at(data, axis)
    if not same or before * count * behind * indices[axis] > PAIRS or scope.dtype(node.input[0]) == TensorProto.BOOL:
        return None
    write = Writer(scope, node)
    index = write.shaped(_from_end(write, node.input[1], count), [before, indices[axis], 1, behind])
    hits = write("Equal", index, scope.value(numpy.arange(count).reshape(1, 1, count, 1)))
    updates = write.shaped(node.input[2], [before, indices[axis], 1, behind])
    old = write.shaped(node.input[0], [before, count, behind])
    write.shaped(_scattered(scope, write, node, old, hits, updates, 1, reduction), data, into=node.output[0])
    return write.nodes


def _scatter_nd(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    data, indices = scope.shape(node.input[0]), scope.shape(node.input[1])
    if not indices or scope.dtype(node.input[0]) == TensorProto.BOOL:
        return None
    depth, rows = indices[-1], math.prod(indices[:-1])
    count, behind = math.prod(data[:depth]), math.prod(data[depth:])
    if count * rows * behind > PAIRS:
        return None
    write = Writer(scope, node)
    index = _from_end(write, node.input[1], list(data[:depth]))
    strides = [math.prod(data[place + 1:depth]) for place in range(depth)]
    index = write.reduced("ReduceSum", write("Mul", index, scope.value(strides)), len(indices) - 1)
    hits = write("Equal", write.shaped(index, [rows, 1, 1]), scope.value(numpy.arange(count).reshape(1, count, 1)))
    updates = write.shaped(node.input[2], [rows, 1, behind])
    old = write.shaped(node.input[0], [count, behind])
    reduction = attribute_of(node, "reduction", "none")
    write.shaped(_scattered(scope, write, node, old, hits, updates, 0, reduction), data, into=node.output[0])
    return write.nodes


def _tensor_scatter(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    data, update = scope.shape(node.input[0]), scope.shape(node.input[1])
    axis = attribute_of(node, "axis", -2) % len(data)
    batch, between = data[0], math.prod(data[1:axis])
    count, steps, behind = data[axis], update[axis], math.prod(data[axis + 1:])
    if not axis or batch * between * count * steps * behind > PAIRS:
        return None
    write = Writer(scope, node)
    index = scope.value(numpy.arange(steps).reshape(1, steps))
    if begin := scope.input(node, 2):
        index = write("Add", write.shaped(write.cast(begin, TensorProto.INT64), [batch, 1]), index)
    index = write.shaped(index, [-1, 1, steps, 1, 1])
    if attribute_of(node, "mode", "linear") == "circular":
        index = write("Mod", index, scope.value(count))
    hits = write("Equal", index, scope.value(numpy.arange(count).reshape(1, 1, 1, count, 1)))
    updates = write.shaped(node.input[1], [batch, between, steps, 1, behind])
    old = write.shaped(node.input[0], [batch, between, count, behind])
    write.shaped(_scattered(scope, write, node, old, hits, updates, 2, "none"), data, into=node.output[0])
    return write.nodes


def _max_unpool(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    shape = scope.shape(node.input[0])
    given = scope.constant(scope.input(node, 2))
    if scope.input(node, 2) and given is None:
        return None
    kernel = attribute_of(node, "kernel_shape", [])
    strides = attribute_of(node, "strides", None) or [1] * len(kernel)
    pads = attribute_of(node, "pads", None) or [0] * 2 * len(kernel)
    natural = [*shape[:2], *((extent - 1) * stride - pads[at] - pads[at + len(kernel)] + size for at, (extent, stride, size) in
                             enumerate(zip(shape[2:], strides, kernel)))]
    whole = natural if given is None else [int(each) for each in given]
    planes, inside, outside = math.prod(shape[:2]), math.prod(shape[2:]), math.prod(whole[2:])
    if planes * inside * outside > PAIRS:
        return None
    write = Writer(scope, node)
    # Indices count through the planes of the natural size.
    begins = numpy.arange(planes).reshape(planes, 1) * math.prod(natural[2:])
    index = write("Sub", write.shaped(node.input[1], [planes, inside]), scope.value(begins))
    if given is not None and whole != natural:
        index = _in_larger(write, index, natural[2:], whole[2:])
    hits = write("Equal", write.shaped(index, [planes, inside, 1]), scope.value(numpy.arange(outside).reshape(1, 1, outside)))
    values = write("Where", hits, write.shaped(node.input[0], [planes, inside, 1]), scope.value(0, scope.dtype(node.input[0])))
    write.shaped(write.reduced("ReduceSum", values, 1), whole, into=node.output[0])
    return write.nodes


def _in_larger(write: Writer, index: str, natural: Sequence[int], whole: Sequence[int]) -> str:
    """A place in a plane of one size as that in a plane of another."""
    scope, made, stride, other = write.scope, "", 1, 1
    for extent, wanted in zip(reversed(natural), reversed(whole)):
        part = write("Mod", write("Div", index, scope.value(stride)), scope.value(extent))
        part = write("Mul", part, scope.value(other))
        made = write("Add", made, part) if made else part
        stride, other = stride * extent, other * wanted
    return made


def _det(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """Of small matrices, by their products."""
    shape = scope.shape(node.input[0])
    size, count = shape[-1], math.prod(shape[:-2])
    if size > 3:
        return None
    write = Writer(scope, node)
    flat = write.shaped(node.input[0], [count, size * size])
    sums = ""
    for order in itertools.permutations(range(size)):
        turns = sum(a > b for a, b in itertools.combinations(order, 2))
        parts = [write("Gather", flat, scope.value(row * size + column), axis=1) for row, column in enumerate(order)]
        product = functools.reduce(lambda a, b: write("Mul", a, b), parts)
        if turns % 2:
            product = write("Neg", product)
        sums = write("Add", sums, product) if sums else product
    write.shaped(sums, shape[:-2], into=node.output[0])
    return write.nodes


def _is_inf(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    up, down = attribute_of(node, "detect_positive", 1), attribute_of(node, "detect_negative", 1)
    if up and down:
        return None
    write = Writer(scope, node)
    zero = scope.value(0, scope.dtype(node.input[0]))
    side = write("Greater" if up else "Less", node.input[0], zero)
    if not up and not down:
        write("And", side, scope.value(False, TensorProto.BOOL), into=node.output[0])
    else:
        write("And", write("IsInf", node.input[0]), side, into=node.output[0])
    return write.nodes


def _eye_like(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    shape = scope.shape(node.input[0])
    dtype = attribute_of(node, "dtype", scope.dtype(node.input[0]))
    if math.prod(shape) > CONSTANT:
        return None
    return _constant(scope, node, numpy.eye(shape[0], shape[1], k=attribute_of(node, "k", 0)), dtype)


def _pow(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    base, power = scope.dtype(node.input[0]), scope.dtype(node.input[1])
    if base == power:
        return None
    if base in (TensorProto.INT64, TensorProto.UINT64) and power not in FLOATS:
        return None  # a double has 53 bits
    write = Writer(scope, node)
    if base in FLOATS:
        write("Pow", node.input[0], write.cast(node.input[1], base), into=node.output[0])
        return write.nodes
    made = write("Pow", *(write.cast(each, TensorProto.DOUBLE) for each in node.input))
    if power not in FLOATS:  # as whole numbers
        made = write("Round", made)
    write.cast(made, base, into=node.output[0])
    return write.nodes


def _mod(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """Of floating-point numbers: the remainder of C, and that of Python by it."""
    dtype, is_plain = scope.dtype(node.input[0]), attribute_of(node, "fmod", 0)
    if dtype not in FLOATS or (is_plain and dtype != TensorProto.FLOAT16):
        return None
    write, inner = Writer(scope, node), TensorProto.FLOAT if dtype == TensorProto.FLOAT16 else dtype
    x, y = (write.cast(each, inner) for each in node.input)
    made = write("Mod", x, y, fmod=1)
    if not is_plain:
        zero = scope.value(0, inner)
        is_other = write("Xor", write("Less", made, zero), write("Less", y, zero))
        is_other = write("And", is_other, write("Not", write("Equal", made, zero)))
        made = write("Where", is_other, write("Add", made, y), made)
    write.cast(made, dtype, into=node.output[0])
    return write.nodes


def _elu(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    if scope.dtype(node.input[0]) != TensorProto.FLOAT16:
        return None
    write = Writer(scope, node)
    made = write("Elu", write.cast(node.input[0], TensorProto.FLOAT), alpha=attribute_of(node, "alpha", 1.0))
    write.cast(made, TensorProto.FLOAT16, into=node.output[0])
    return write.nodes


def _space_to_depth(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    if attribute_of(node, "mode", "DCR") != "CRD":
        return None
    write, size = Writer(scope, node), attribute_of(node, "blocksize", 1)
    n, c, h, w = scope.shape(node.input[0])
    parts = write.shaped(node.input[0], [n, c, h // size, size, w // size, size])
    parts = write("Transpose", parts, perm=[0, 1, 3, 5, 2, 4])
    write.shaped(parts, [n, c * size * size, h // size, w // size], into=node.output[0])
    return write.nodes


def _conv_transpose(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """An output_shape is pads."""
    wanted = attribute_of(node, "output_shape", None)
    if not wanted:
        return None
    shape, weight = scope.shape(node.input[0])[2:], scope.shape(node.input[1])[2:]
    rank = len(shape)
    wanted = list(wanted)[-rank:]
    strides, dilations = (attribute_of(node, each, None) or [1] * rank for each in ("strides", "dilations"))
    more = list(attribute_of(node, "output_padding", None) or [0] * rank)
    begins, ends = [], []
    for at in range(rank):
        total = strides[at] * (shape[at] - 1) + more[at] + (weight[at] - 1) * dilations[at] + 1 - wanted[at]
        if total < 0:
            more[at] -= total
            total = 0
        half = total // 2
        is_upper = attribute_of(node, "auto_pad", "NOTSET") == "SAME_UPPER"
        begins.append(half if is_upper else total - half)
        ends.append(total - half if is_upper else half)
    made = onnx.NodeProto.FromString(node.SerializeToString())
    kept = [each for each in node.attribute if each.name not in ("output_shape", "pads", "auto_pad", "output_padding")]
    del made.attribute[:]
    made.attribute.extend(kept)
    made.attribute.append(helper.make_attribute("pads", begins + ends))
    made.attribute.append(helper.make_attribute("output_padding", more))
    return [made]


RULES: Dict[str, _Rule] = {
    "Col2Im": col2im, "Compress": compress, "ConvInteger": _conv_integer, "ConvTranspose": _conv_transpose, "CumProd": _cumulative,
    "CumSum": _cumulative, "DFT": dft, "DeformConv": deform_conv, "Det": _det, "Elu": _elu, "EyeLike": _eye_like, "GRU": recurrent,
    "IsInf": _is_inf, "LSTM": recurrent, "LpNormalization": _lp_normalization, "MaxUnpool": _max_unpool, "Mod": _mod, "OneHot": _one_hot,
    "Pow": _pow, "QLinearConv": _q_linear_conv, "QLinearMatMul": _q_linear_mat_mul, "RNN": recurrent, "ReverseSequence": _reverse_sequence,
    "STFT": stft, "Scatter": _scatter_elements, "ScatterElements": _scatter_elements, "ScatterND": _scatter_nd, "Shape": _shape,
    "SpaceToDepth": _space_to_depth, "TensorScatter": _tensor_scatter, "TopK": _top_k, "Upsample": upsample}
