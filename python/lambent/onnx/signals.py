"""Nodes of signals and pictures in terms of others: spectra by their sums, columns and deformed windows by convolutions and samples."""
import math
from typing import Dict, List, Optional, Sequence, Tuple

import numpy
import onnx
from onnx import TensorProto

from .model import FLOATS, attribute_of
from .scope import Nodes, Scope, Writer

# Of the factors of a spectrum, and of the pictures that deformed windows take: in elements.
FACTORS = 2**23
SAMPLES = 2**28


def _factors(length: int, points: int, parts: int, is_inverse: bool, is_one_sided: bool) -> Tuple[numpy.ndarray, int, int]:
    """The matrix from `points` numbers, each of so many parts (real, and imaginary), to a spectrum or back, for a transform of `length`;
    how many numbers come out, and of how many parts. Points that are missing count as zero, and those beyond the length not at all."""
    half = length // 2 + 1
    is_real = is_inverse and is_one_sided
    made = half if is_one_sided and not is_inverse else length
    known = min(points, half if is_real else length)
    angles = 2 * numpy.pi * (numpy.arange(known).reshape(-1, 1) * numpy.arange(made) % length) / length
    even, odd = numpy.cos(angles), numpy.sin(angles) * (1 if is_inverse else -1)
    if is_inverse:
        # Of the other side of a spectrum there is as much.
        weights = numpy.full(known, 2.0 if is_real else 1.0)
        weights[0] = 1
        if is_real and length % 2 == 0 and known == half:
            weights[-1] = 1
        even, odd = (each * weights.reshape(-1, 1) / length for each in (even, odd))
    parts_made = 1 if is_real else 2
    matrix = numpy.zeros((points, parts, made, parts_made))
    matrix[:known, 0, :, 0] = even
    if not is_real:
        matrix[:known, 0, :, 1] = odd
    if parts == 2:
        matrix[:known, 1, :, 0] = -odd
        if not is_real:
            matrix[:known, 1, :, 1] = even
    return matrix.reshape(points * parts, made * parts_made), made, parts_made


def _transformed(write: Writer, value: str, dtype: int, rows: int, factors: numpy.ndarray) -> str:
    """In 64 bits: the error of a plain sum grows faster than that of a fast transform."""
    value = write.shaped(value, [rows, factors.shape[0]])
    made = write("MatMul", write.cast(value, TensorProto.DOUBLE), write.scope.value(factors, TensorProto.DOUBLE))
    return write.cast(made, dtype)


def _is_small(length: int, points: int, parts: int) -> bool:
    return 0 < length and points * parts * length * 2 <= FACTORS


def dft(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    shape, dtype = scope.shape(node.input[0]), scope.dtype(node.input[0])
    rank, axis = len(shape), attribute_of(node, "axis", 1)
    if scope.opset >= 20:
        name = scope.input(node, 2)
        known = scope.constant(name) if name else numpy.array(-2)
        if known is None:
            return None
        axis = int(known.reshape(()))
    axis %= rank
    is_inverse, is_one_sided = (bool(attribute_of(node, each, 0)) for each in ("inverse", "onesided"))
    points, parts = shape[axis], shape[-1]
    length = 2 * (points - 1) if is_inverse and is_one_sided else points
    if name := scope.input(node, 1):
        given = scope.constant(name)
        if given is None:
            return None
        length = int(given.reshape(()))
    if axis == rank - 1 or parts not in (1, 2) or not _is_small(length, points, parts):
        return None
    write, value = Writer(scope, node), node.input[0]
    others = [each for each in range(rank - 1) if each != axis]
    order = [*others, axis, rank - 1]
    if order != list(range(rank)):
        value = write("Transpose", value, perm=order)
    factors, made, parts_made = _factors(length, points, parts, is_inverse, is_one_sided)
    value = _transformed(write, value, dtype, math.prod(shape[each] for each in others), factors)
    value = write.shaped(value, [*(shape[each] for each in others), made, parts_made])
    write("Transpose", value, into=node.output[0], perm=[order.index(each) for each in range(rank)])
    return write.nodes


def stft(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    batch, points, parts = scope.shape(node.input[0])
    dtype, window = scope.dtype(node.input[0]), scope.input(node, 2)
    step = scope.constant(node.input[1])
    given = scope.constant(scope.input(node, 3)) if scope.input(node, 3) else None
    if step is None or (scope.input(node, 3) and given is None) or (given is None and not window):
        return None
    hop = int(step.reshape(()))
    length = int(given.reshape(())) if given is not None else scope.shape(window)[0]
    if hop < 1 or length > points or parts not in (1, 2) or not _is_small(length, length, parts):
        return None
    if window and scope.shape(window) != (length,):
        return None
    frames = (points - length) // hop + 1
    write = Writer(scope, node)
    index = numpy.arange(frames).reshape(-1, 1) * hop + numpy.arange(length)
    if index.size > FACTORS:
        return None
    value = write("Gather", node.input[0], scope.value(index), axis=1)
    if window:
        value = write("Mul", value, write.shaped(window, [length, 1]))
    factors, made, parts_made = _factors(length, length, parts, False, bool(attribute_of(node, "onesided", 1)))
    value = _transformed(write, value, dtype, batch * frames, factors)
    write.shaped(value, [batch, frames, made, parts_made], into=node.output[0])
    return write.nodes


def col2im(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """The transposed convolution with a window in which each column has one place."""
    sizes = [scope.constant(node.input[place]) for place in (1, 2)]
    if any(each is None for each in sizes):
        return None
    image, block = ([int(extent) for extent in each] for each in sizes if each is not None)
    rank, dtype = len(image), scope.dtype(node.input[0])
    count = math.prod(block)
    batch, rows, _ = scope.shape(node.input[0])
    dilations, strides = (list(attribute_of(node, each, None) or [1] * rank) for each in ("dilations", "strides"))
    pads = list(attribute_of(node, "pads", None) or [0] * 2 * rank)
    reach = [(block[at] - 1) * dilations[at] + 1 for at in range(rank)]
    whole = [image[at] + pads[at] + pads[at + rank] for at in range(rank)]
    blocks = [(whole[at] - reach[at]) // strides[at] + 1 for at in range(rank)]
    if rank > 3 or rows % count or dtype not in FLOATS:
        return None
    write = Writer(scope, node)
    value = write.shaped(node.input[0], [batch * (rows // count), count, *blocks])
    window = scope.value(numpy.eye(count).reshape(count, 1, *block), dtype)
    more = [whole[at] - (blocks[at] - 1) * strides[at] - reach[at] for at in range(rank)]
    value = write("ConvTranspose", value, window, strides=strides, dilations=dilations, pads=pads, output_padding=more)
    write.shaped(value, [batch, rows // count, *image], into=node.output[0])
    return write.nodes


def deform_conv(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """Samples between the points of each channel, and their sums with the weights."""
    shape, weights = scope.shape(node.input[0]), scope.shape(node.input[1])
    if len(shape) != 4 or scope.opset < 16 or min(shape[2:]) < 2:
        return None
    (batch, channels, high, wide), dtype = shape, scope.dtype(node.input[0])
    groups, shared = attribute_of(node, "group", 1), attribute_of(node, "offset_group", 1)
    window = list(attribute_of(node, "kernel_shape", None) or weights[2:])
    dilations, strides = (list(attribute_of(node, each, None) or [1, 1]) for each in ("dilations", "strides"))
    pads = list(attribute_of(node, "pads", None) or [0] * 4)
    made = list(scope.shape(node.input[2])[2:])
    count = math.prod(window)
    if batch * channels * count * math.prod(made) > SAMPLES:
        return None
    write = Writer(scope, node)
    offsets = write.shaped(node.input[2], [batch * shared, count, 2, math.prod(made)])
    places = []
    for at, extent in ((1, wide), (0, high)):  # x before y
        places.append(_sampled_places(write, offsets, at, extent, pads[at], strides, dilations, window, made, dtype))
    grid = write.shaped(write("Concat", *places, axis=-1), [batch * shared, count, math.prod(made), 2])
    value = write.shaped(node.input[0], [batch * shared, channels // shared, high, wide])
    value = write("GridSample", value, grid, align_corners=1, padding_mode="zeros", **_named(scope))
    if mask := scope.input(node, 4):
        value = write("Mul", value, write.shaped(mask, [batch * shared, 1, count, math.prod(made)]))
    value = write.shaped(value, [batch, groups, channels // groups * count, math.prod(made)])
    matrix = write.shaped(node.input[1], [1, groups, weights[0] // groups, weights[1] * count])
    bias = scope.input(node, 3)
    value = write.shaped(write("MatMul", matrix, value), [batch, weights[0], *made], into="" if bias else node.output[0])
    if bias:
        write("Add", value, write.shaped(bias, [weights[0], 1, 1]), into=node.output[0])
    return write.nodes


def _named(scope: Scope) -> Dict[str, str]:
    return {"mode": "linear" if scope.opset >= 20 else "bilinear"}


def _sampled_places(write: Writer, offsets: str, at: int, extent: int, pad: int, strides: Sequence[int], dilations: Sequence[int],
                    window: Sequence[int], made: Sequence[int], dtype: int) -> str:
    """Along one dimension, where -1 is the first point and 1 the last."""
    scope = write.scope
    inside = numpy.indices(window)[at].reshape(-1, 1) * dilations[at]
    plain = numpy.indices(made)[at].reshape(1, -1) * strides[at] - pad + inside
    offset = write("Gather", offsets, scope.value(at), axis=2)
    place = write("Add", offset, scope.value(plain, dtype))
    place = write("Sub", write("Mul", place, scope.value(2 / (extent - 1), dtype)), scope.value(1, dtype))
    return write("Unsqueeze", place, scope.value([-1]))


def compress(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """With a condition that the file has."""
    condition = scope.constant(node.input[1])
    if condition is None:
        return None
    axis = attribute_of(node, "axis", None)
    index = numpy.flatnonzero(condition)
    write, value = Writer(scope, node), node.input[0]
    shape = scope.shape(value)
    extent = math.prod(shape) if axis is None else shape[axis]
    if not 0 < index.size or index[-1] >= extent:
        return None
    if axis is None:
        value = write.shaped(value, [-1])
    write("Gather", value, scope.value(index), into=node.output[0], axis=axis or 0)
    return write.nodes


def upsample(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """Each element as often as a whole scale says."""
    given = scope.constant(scope.input(node, 1)) if scope.input(node, 1) else numpy.array(attribute_of(node, "scales", []))
    shape = scope.shape(node.input[0])
    if attribute_of(node, "mode", "nearest") != "nearest" or given is None or given.size != len(shape):
        return None
    scales = [int(each) for each in given]
    if any(each < 1 or each != whole for each, whole in zip(scales, given)):
        return None
    write = Writer(scope, node)
    apart: List[int] = []
    repeats: List[int] = []
    for extent, scale in zip(shape, scales):
        apart += [extent, 1]
        repeats += [1, scale]
    value = write("Tile", write.shaped(node.input[0], apart), scope.value(repeats))
    write.shaped(value, [extent * scale for extent, scale in zip(shape, scales)], into=node.output[0])
    return write.nodes
