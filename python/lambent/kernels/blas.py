"""Launches of the linear algebra that comes with Lambent (kernels/blas.cu): GEMM, GEMV, AXPY.

Matrices are row-major buffers of two dimensions, vectors of one (or of two, the last being 1).
Numbers are FP32 or FP64; with `complex_numbers`, pairs of FP32, in buffers whose shape has a 2 at its
end. All buffers of a call have the same datatype. On a real GPU the executor runs cuBLAS
in place of these kernels, with the same results but for the order of sums (docs/guides/kernels.md).
"""
from typing import Dict, List, Tuple, Union

from .errors import GraphError
from .graph import Argument, Buffer, Graph, Kernel, read, read_write, write
from .literals import Literal, complex64, float32, float64, int32

Scalar = Union[int, float, complex]

_SIZES = {"s": 4, "d": 8, "c": 8}


def _kernels() -> Dict[str, List[int]]:
    kernels = {}
    for letter, size in _SIZES.items():
        kernels[letter + "gemm"] = [8, 8, 8] + [4] * 8 + [size, size]
        kernels[letter + "gemv"] = [8, 8, 8] + [4] * 4 + [size, size]
        kernels[letter + "axpy"] = [4, size, 8, 8]
    return kernels


def gemm(graph: Graph, a: Buffer, b: Buffer, c: Buffer, *, alpha: Scalar = 1, beta: Scalar = 0,
         transpose_a: bool = False, transpose_b: bool = False, conjugate_a: bool = False,
         conjugate_b: bool = False, complex_numbers: bool = False) -> None:
    """c = alpha * a * b + beta * c, for a of (m, k), b of (k, n) and c of (m, n) after transposition.

    A conjugated operand is transposed too. With beta 0, what c held before is not read. GraphError
    if shapes or datatypes do not fit.
    """
    letter = _letter(complex_numbers, a, b, c)
    how_a, how_b = _how(transpose_a, conjugate_a), _how(transpose_b, conjugate_b)
    rows_a, columns_a = _matrix(a, complex_numbers)
    rows_b, columns_b = _matrix(b, complex_numbers)
    m, k = (columns_a, rows_a) if how_a else (rows_a, columns_a)
    k_of_b, n = (columns_b, rows_b) if how_b else (rows_b, columns_b)
    if k != k_of_b or _matrix(c, complex_numbers) != (m, n):
        raise GraphError("gemm: %d x %d times %d x %d is no %d x %d"
                         % ((m, k, k_of_b, n) + _matrix(c, complex_numbers)))
    _whole("gemm", m, n, k)
    numbers = [int32(number) for number in (m, n, k, columns_a, columns_b, n, how_a, how_b)]
    _kernel(graph, letter + "gemm")(
        grid=((n + 63) // 64, (m + 63) // 64), block=(16, 16),
        arguments=[read(a), read(b), _result(c, beta, a, b), *numbers, _scalar(letter, alpha),
                   _scalar(letter, beta)])


def gemv(graph: Graph, a: Buffer, x: Buffer, y: Buffer, *, alpha: Scalar = 1, beta: Scalar = 0,
         transpose_a: bool = False, conjugate_a: bool = False, complex_numbers: bool = False) -> None:
    """y = alpha * a * x + beta * y, for a of (m, n), x of n and y of m elements after transposition."""
    letter = _letter(complex_numbers, a, x, y)
    rows, columns = _matrix(a, complex_numbers)
    how = _how(transpose_a, conjugate_a)
    length_x, length_y = (rows, columns) if how else (columns, rows)
    if (_vector(x, complex_numbers), _vector(y, complex_numbers)) != (length_x, length_y):
        raise GraphError("gemv: %d x %d times a vector of %d is no vector of %d"
                         % (length_y, length_x, _vector(x, complex_numbers),
                            _vector(y, complex_numbers)))
    _whole("gemv", rows, columns)
    blocks = (columns + 255) // 256 if how else (rows + 31) // 32
    _kernel(graph, letter + "gemv")(
        grid=min(blocks, 65535), block=256,
        arguments=[read(a), read(x), _result(y, beta, a, x), int32(rows), int32(columns), int32(columns),
                   int32(how), _scalar(letter, alpha), _scalar(letter, beta)])


def axpy(graph: Graph, x: Buffer, y: Buffer, *, alpha: Scalar = 1,
         complex_numbers: bool = False) -> None:
    """y = alpha * x + y, for buffers of as many elements."""
    letter = _letter(complex_numbers, x, y)
    count = x.size_bytes // _SIZES[letter]
    if x.size_bytes != y.size_bytes:
        raise GraphError("axpy: %r and %r have different lengths" % (x, y))
    _whole("axpy", count)
    _kernel(graph, letter + "axpy")(
        grid=min((count + 255) // 256, 65535), block=256,
        arguments=[int32(count), _scalar(letter, alpha), read(x), read_write(y)])


def _kernel(graph: Graph, name: str) -> Kernel:
    return graph.builtin("blas", _kernels()).kernel(name)


def _letter(complex_numbers: bool, *buffers: Buffer) -> str:
    datatypes = {buffer.datatype for buffer in buffers}
    letter = {"FP32": "s", "FP64": "d"}.get(buffers[0].datatype)
    if len(datatypes) != 1 or letter is None or (complex_numbers and letter != "s"):
        raise GraphError("blas: %s; all must be FP32%s" % (
            ", ".join(map(repr, buffers)), "" if complex_numbers else " or all FP64"))
    return "c" if complex_numbers else letter


def _shape(buffer: Buffer, complex_numbers: bool) -> Tuple[int, ...]:
    if not complex_numbers:
        return buffer.shape
    if not buffer.shape or buffer.shape[-1] != 2:
        raise GraphError("blas: %r holds no complex numbers: its shape does not end in 2" % buffer)
    return buffer.shape[:-1]


def _matrix(buffer: Buffer, complex_numbers: bool) -> Tuple[int, int]:
    shape = _shape(buffer, complex_numbers)
    if len(shape) != 2:
        raise GraphError("blas: %r is no matrix" % buffer)
    return shape[0], shape[1]


def _vector(buffer: Buffer, complex_numbers: bool) -> int:
    shape = _shape(buffer, complex_numbers)
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        return shape[0]
    raise GraphError("blas: %r is no vector" % buffer)


def _how(transpose: bool, conjugate: bool) -> int:
    return 2 if conjugate else int(transpose)


def _whole(what: str, *numbers: int) -> None:
    if max(numbers) >= 2**31:
        raise GraphError("%s: a dimension has more than 2147483647 elements" % what)


def _scalar(letter: str, value: Scalar) -> Literal:
    if letter == "c":
        return complex64(complex(value))
    if isinstance(value, complex):
        raise GraphError("blas: %r is complex, the matrices are real" % value)
    return float32(value) if letter == "s" else float64(value)


def _result(buffer: Buffer, beta: Scalar, *operands: Buffer) -> Argument:
    # Its blocks write what others have not read yet.
    if buffer in operands:
        raise GraphError("blas: %r is the result and an operand of the same product" % buffer)
    return write(buffer) if beta == 0 else read_write(buffer)
