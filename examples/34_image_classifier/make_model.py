"""Makes an image classifier and pictures to try it with. It needs numpy only:

    python3 examples/34_image_classifier/make_model.py FOLDER

FOLDER gets `onnx` and `torch`, two functions ready to deploy that have the same weights, and `pictures`. The network looks at 32 x 32
grey pixels: 24 filters of 5 x 5, their average over 3 x 3 places, and a layer that was fitted to 3,000 drawn shapes. A real one would
be trained for longer and come as a file; all that follows is the same."""
import pathlib
import shutil
import struct
import sys
import zlib

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "20_python_packages"))
from make_model import FLOAT, field, value_info  # noqa: E402

SIZE = 32
LABELS = ["circle", "cross", "square", "triangle"]


def draw(label, random):
    """A shape somewhere in the picture, with noise: SIZE x SIZE numbers from 0 to 1."""
    half = random.uniform(6, 11)
    x0, y0 = random.uniform(half + 1, SIZE - half - 1, 2)
    y, x = numpy.mgrid[0:SIZE, 0:SIZE]
    x, y = (x - x0) / half, (y - y0) / half
    inside = {"circle": numpy.hypot(x, y) < 1,
              "cross": (numpy.minimum(abs(x), abs(y)) < 0.3) & (numpy.maximum(abs(x), abs(y)) < 1),
              "square": numpy.maximum(abs(x), abs(y)) < 0.85,
              "triangle": (abs(y) < 1) & (abs(x) < (y + 1) / 2)}[label]
    return numpy.clip(inside * random.uniform(0.6, 1.0) + random.normal(0, 0.08, inside.shape), 0, 1).astype(numpy.float32)


def drawings(count, random):
    labels = random.integers(len(LABELS), size=count)
    return numpy.stack([draw(LABELS[label], random) for label in labels]), labels


def features(images, filters):
    """What the network has before its last layer, as PyTorch and onnxruntime compute it."""
    windows = numpy.lib.stride_tricks.sliding_window_view(images, filters.shape[-2:], axis=(1, 2))
    seen = numpy.maximum(numpy.einsum("nyxij,fij->nfyx", windows, filters, optimize=True), 0)
    n, f, side, _ = seen.shape
    side = side // 7 * 7
    return seen[:, :, :side, :side].reshape(n, f, side // 7, 7, side // 7, 7).mean(axis=(3, 5)).reshape(n, -1)


def fitted(seed=1):
    """{name: array} of a network that tells the shapes apart."""
    random = numpy.random.default_rng(seed)
    filters = random.normal(0, 0.3, (24, 5, 5)).astype(numpy.float32)
    filters -= filters.mean(axis=(1, 2), keepdims=True)
    images, labels = drawings(3000, random)
    seen = features(images, filters)
    mean, spread = seen.mean(axis=0), seen.std(axis=0) + 1e-6
    wanted = 12 * (numpy.eye(len(LABELS))[labels] - 0.25)  # sharp enough for probabilities
    normal = numpy.hstack([(seen - mean) / spread, numpy.ones((len(seen), 1))])
    solved = numpy.linalg.solve(normal.T @ normal + 10 * numpy.eye(normal.shape[1]), normal.T @ wanted)
    weights = solved[:-1] / spread[:, None]
    return {"filters": filters[:, None], "weights": weights.T.astype(numpy.float32),
            "bias": (solved[-1] - mean @ weights).astype(numpy.float32)}


def onnx_model(network):
    """The same as an ONNX file: Conv, Relu, AveragePool, Flatten, Gemm, Softmax."""
    def constant(name, array):
        return b"".join(field(1, size) for size in array.shape) + field(2, FLOAT) + field(8, name) + field(9, array.tobytes())

    def node(kind, inputs, output, **attributes):
        made = b"".join(field(1, each) for each in inputs) + field(2, output) + field(4, kind)
        for name, value in attributes.items():
            is_list = isinstance(value, list)
            numbers = b"".join(field(8, each) for each in value) if is_list else field(3, value)
            made += field(5, field(1, name) + numbers + field(20, 7 if is_list else 2))
        return made

    nodes = [node("Conv", ["image", "filters"], "seen"), node("Relu", ["seen"], "positive"),
             node("AveragePool", ["positive"], "pooled", kernel_shape=[7, 7], strides=[7, 7]), node("Flatten", ["pooled"], "flat"),
             node("Gemm", ["flat", "weights", "bias"], "scores", transB=1), node("Softmax", ["scores"], "probabilities")]
    graph = (b"".join(field(1, each) for each in nodes) + field(2, "shapes") + b"".join(field(5, constant(*each)) for each in network.items())
             + field(11, value_info("image", ["n", 1, SIZE, SIZE])) + field(12, value_info("probabilities", ["n", len(LABELS)])))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def png(image):
    rows = b"".join(b"\0" + row.tobytes() for row in (image * 255).astype(numpy.uint8))

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def main(folder):
    network = fitted()
    for kind in ("onnx", "torch"):
        shutil.copytree(HERE / kind, folder / kind, dirs_exist_ok=True)
    (folder / "onnx/classifier.onnx").write_bytes(onnx_model(network))
    numpy.savez(folder / "torch/classifier.npz", **network)
    random = numpy.random.default_rng(2)
    (folder / "pictures").mkdir(exist_ok=True)
    for label in LABELS:
        (folder / "pictures" / (label + ".png")).write_bytes(png(draw(label, random)))
    images, labels = drawings(1000, random)
    scores = features(images, network["filters"][:, 0]) @ network["weights"].T + network["bias"]
    print("of 1,000 pictures that it has not seen, it knows %.1f %%" % (100 * (scores.argmax(axis=1) == labels).mean()))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
