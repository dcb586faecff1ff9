"""onnxruntime-gpu: a network of three layers, run again and again by its CUDA provider. Prints a digest of the answers.

The model is written here, by hand, so that nothing but onnxruntime and numpy is needed.
"""
import hashlib
import sys
import time

try:
    import numpy
    import onnxruntime
except ImportError as error:
    print(f"{error.name} is not installed", file=sys.stderr)
    sys.exit(77)

SECONDS, WIDTH, BATCH = 4.0, 512, 64
FLOAT = 1  # TensorProto.FLOAT


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A field of a protobuf message: an integer, or bytes (texts and messages)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, values):
    dimensions = b"".join(field(1, size) for size in values.shape)
    return dimensions + field(2, FLOAT) + field(8, name) + field(9, values.astype("<f4").tobytes())


def value_of(name, shape):
    dimensions = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, dimensions)))


def node(operator, inputs, output):
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, operator)


def model():
    """Three products with a ReLU after each, in ONNX's own form (opset 13)."""
    chance = numpy.random.default_rng(7)
    nodes, weights, last = b"", b"", "x"
    for layer in range(3):
        weights += field(5, tensor(f"w{layer}", chance.standard_normal((WIDTH, WIDTH), dtype=numpy.float32) / 16))
        nodes += field(1, node("MatMul", [last, f"w{layer}"], f"m{layer}")) + field(1, node("Relu", [f"m{layer}"], f"r{layer}"))
        last = f"r{layer}"
    graph = nodes + field(2, "layers") + weights + field(11, value_of("x", (BATCH, WIDTH))) + field(12, value_of(last, (BATCH, WIDTH)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def main():
    provider = "CUDAExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        print("onnxruntime has no CUDA provider: onnxruntime-gpu is not installed", file=sys.stderr)
        sys.exit(77)
    session = onnxruntime.InferenceSession(model(), providers=[provider])
    if session.get_providers()[0] != provider:
        sys.exit("onnxruntime fell back to the host")
    x = numpy.random.default_rng(8).standard_normal((BATCH, WIDTH), dtype=numpy.float32)
    digests, runs = set(), 0
    start = time.monotonic()
    while not digests or time.monotonic() < start + SECONDS:
        digests.add(hashlib.sha256(session.run(None, {"x": x})[0].tobytes()).hexdigest())
        runs += 1
    if len(digests) != 1:
        sys.exit(f"the same input came out in {len(digests)} ways")
    print(digests.pop())
    print("rate %.2f runs a second" % (runs / (time.monotonic() - start)), file=sys.stderr)


if __name__ == "__main__":
    main()
