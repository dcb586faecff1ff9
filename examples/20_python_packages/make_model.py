"""An ONNX model of one matrix product as bytes, without the package onnx: the file is a protocol buffer of few fields."""


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """A number, or bytes or text with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


FLOAT = 1


def value_info(name, shape):
    dimensions = b"".join(field(1, field(2, size) if isinstance(size, str) else field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, dimensions)))


def matrix_model(weights):
    """scores = x @ weights, for a float32 matrix of numpy."""
    rows, columns = weights.shape
    constant = field(1, rows) + field(1, columns) + field(2, FLOAT) + field(8, "weights") + field(9, weights.tobytes())
    node = field(1, "x") + field(1, "weights") + field(2, "scores") + field(4, "MatMul")
    graph = (field(1, node) + field(2, "classify") + field(5, constant) + field(11, value_info("x", ["n", rows]))
             + field(12, value_info("scores", ["n", columns])))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))
