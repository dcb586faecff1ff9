"""build.py MODEL FOLDER: ResNet-50 or BERT-large as a kernel function, with their true shapes.

For the modelled device: a request takes as long in all as the paper on kernels as a service measured
on a V100, 4 and 92 ms, split over the launches by their operations. Weights are a number that fills
them, so that the package stays small; to compute something, give files instead. ResNet-50 keeps its
3 x 3 filters transformed for Winograd's method, as the paper's compiler does: 129 MB of constants.
"""
import argparse
import math
import os
from typing import Any, Callable, List, Optional, Tuple

from lambent import kernels
from lambent.kernels import Buffer, int32, read, read_write, uint64, write

Fill = Callable[[str, Tuple[int, ...]], Any]


class Model:
    """A graph whose launches get their durations when all of them are known."""

    def __init__(self, name: str, weights: Optional[Fill] = None) -> None:
        self.graph = kernels.Graph(name)
        here = os.path.dirname(os.path.abspath(__file__))
        self.source = self.graph.source(os.path.join(here, "layers.cu"))
        self.weights = weights
        self._launches: List[Tuple[str, int, int, List[Any]]] = []
        self._names = 0

    def constant(self, name: str, *shape: int) -> Buffer:
        if self.weights is not None:
            return self.graph.constant(name, "FP32", shape, data=self.weights(name, shape))
        return self.graph.constant(name, "FP32", shape, fill=0.01)

    def temporary(self, *shape: int) -> Buffer:
        self._names += 1
        return self.graph.temporary("t%d" % self._names, "FP32", shape)

    def launch(self, kernel: str, operations: int, elements: int, *arguments: Any) -> None:
        self._launches.append((kernel, operations, elements, list(arguments)))

    def finish(self, duration_ms: float) -> kernels.Graph:
        """Appends the launches; together they take this long."""
        total_ns = int(duration_ms * 1e6)
        operations = sum(launch[1] for launch in self._launches)
        durations = [total_ns * launch[1] // operations for launch in self._launches]
        durations[durations.index(max(durations))] += total_ns - sum(durations)
        for (kernel, _, elements, arguments), duration in zip(self._launches, durations):
            self.source.kernel(kernel)(max(1, min(65535, (elements + 127) // 128)), 128,
                                       [uint64(duration)] + arguments)
        return self.graph


NOTHING = uint64(0)  # a null pointer


class Images(Model):
    """Layers over square images, as (channels, size, size)."""

    def convolution(self, name: str, image: Buffer, channels: int, kernel: int, stride: int = 1,
                    relu: bool = True, shortcut: Optional[Buffer] = None) -> Buffer:
        before, size = image.shape[0], image.shape[1]
        after = (size + 2 * (kernel // 2) - kernel) // stride + 1
        out = self.temporary(channels, after, after)
        operations = 2 * out.size_bytes // 4 * before * kernel * kernel
        bias = self.constant(name + ".bias", channels)
        if kernel == 3 and stride == 1 and shortcut is None:
            filters = self.constant(name + ".transformed", channels, before, 4, 4)
            self.launch("winograd", operations, channels * ((size + 1) // 2) ** 2, read(image), filters,
                        bias, write(out), int32(before), int32(size), int32(channels), int32(int(relu)))
            return out
        filters = self.constant(name + ".filters", channels, before, kernel, kernel)
        self.launch("convolution", operations, out.size_bytes // 4, read(image), filters, bias,
                    NOTHING if shortcut is None else read(shortcut), write(out), int32(before),
                    int32(size), int32(channels), int32(kernel), int32(stride), int32(int(relu)))
        return out

    def bottleneck(self, name: str, image: Buffer, width: int, stride: int) -> Buffer:
        shortcut = image
        if stride != 1 or image.shape[0] != 4 * width:
            shortcut = self.convolution(name + ".shortcut", image, 4 * width, 1, stride, relu=False)
        narrow = self.convolution(name + ".1", image, width, 1)
        spread = self.convolution(name + ".2", narrow, width, 3, stride)
        return self.convolution(name + ".3", spread, 4 * width, 1, shortcut=shortcut)


def resnet50(size: int = 224, width: int = 64, blocks: Tuple[int, ...] = (3, 4, 6, 3),
             classes: int = 1000, weights: Optional[Fill] = None) -> kernels.Graph:
    """One image of 3 x size x size to the probabilities of its classes; version 1.5."""
    model = Images("resnet50", weights)
    image = model.convolution("stem", model.graph.input("image", "FP32", (3, size, size)), width, 7, 2)
    pooled = model.temporary(width, (image.shape[1] - 1) // 2 + 1, (image.shape[1] - 1) // 2 + 1)
    model.launch("max_pool", 9 * pooled.size_bytes // 4, pooled.size_bytes // 4, read(image),
                 write(pooled), int32(width), int32(image.shape[1]))
    image = pooled
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            image = model.bottleneck("stage%d.%d" % (stage + 1, block), image, width << stage, stride)
    channels = image.shape[0]
    mean = model.temporary(channels)
    model.launch("mean_pool", image.size_bytes // 4, channels, read(image), write(mean),
                 int32(channels), int32(image.shape[1]))
    out = model.graph.output("probabilities", "FP32", (1, classes))
    model.launch("dense", 2 * channels * classes, classes, read(mean),
                 model.constant("classes.weights", classes, channels),
                 model.constant("classes.bias", classes), write(out), int32(1), int32(channels),
                 int32(classes), int32(0))
    model.launch("softmax", 5 * classes, 1, read_write(out), int32(1), int32(classes))
    return model.finish(duration_ms=4)


class Text(Model):
    """Layers over the tokens of a text, as (length, hidden)."""

    def linear(self, name: str, text: Buffer, width: int, gelu: bool = False,
               out: Optional[Buffer] = None) -> Buffer:
        length, hidden = text.shape
        out = out or self.temporary(length, width)
        self.launch("dense", 2 * length * hidden * width, length * width, read(text),
                    self.constant(name + ".weights", width, hidden),
                    self.constant(name + ".bias", width), write(out), int32(length), int32(hidden),
                    int32(width), int32(int(gelu)))
        return out

    def add_norm(self, name: str, text: Buffer, shortcut: Optional[Buffer]) -> Buffer:
        length, hidden = text.shape
        out = self.temporary(length, hidden)
        self.launch("add_norm", 8 * length * hidden, length, read(text),
                    NOTHING if shortcut is None else read(shortcut),
                    self.constant(name + ".scale", hidden), self.constant(name + ".shift", hidden),
                    write(out), int32(length), int32(hidden))
        return out

    def attention(self, name: str, text: Buffer, heads: int) -> Buffer:
        length, hidden = text.shape
        queries, keys, values = (self.linear(name + part, text, hidden)
                                 for part in (".queries", ".keys", ".values"))
        scores = self.temporary(heads, length, length)
        mixed = self.temporary(length, hidden)
        sizes = [int32(length), int32(heads), int32(hidden // heads)]
        self.launch("attention_scores", 2 * length * length * hidden, heads * length * length,
                    read(queries), read(keys), write(scores), *sizes)
        self.launch("softmax", 5 * heads * length * length, heads * length, read_write(scores),
                    int32(heads * length), int32(length))
        self.launch("attention_mix", 2 * length * length * hidden, length * hidden, read(scores),
                    read(values), write(mixed), *sizes)
        return self.linear(name + ".out", mixed, hidden)


def bert(length: int = 128, layers: int = 24, hidden: int = 1024, heads: int = 16,
         vocabulary: int = 30522, positions: int = 512,
         weights: Optional[Fill] = None) -> kernels.Graph:
    """Tokens and their segments to the scores of each being an answer's first and last: BERT-large."""
    model = Text("bert", weights)
    tokens = model.graph.input("tokens", "INT32", (length,))
    segments = model.graph.input("segments", "INT32", (length,))
    text = model.temporary(length, hidden)
    model.launch("embed", 2 * length * hidden, length * hidden, tokens, segments,
                 model.constant("words", vocabulary, hidden),
                 model.constant("positions", positions, hidden), model.constant("kinds", 2, hidden),
                 write(text), int32(length), int32(hidden), int32(vocabulary))
    text = model.add_norm("embedding", text, None)
    for layer in range(layers):
        name = "layer%d" % layer
        text = model.add_norm(name + ".attended", model.attention(name, text, heads), text)
        wide = model.linear(name + ".wide", text, 4 * hidden, gelu=True)
        text = model.add_norm(name + ".out", model.linear(name + ".narrow", wide, hidden), text)
    out = model.graph.output("answer", "FP32", (length, 2))
    model.linear("answer", text, 2, out=out)
    return model.finish(duration_ms=92)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("resnet50", "bert"))
    parser.add_argument("folder")
    parser.add_argument("--launch-mode", choices=("compute", "model"), default="model")
    options = parser.parse_args()
    graph = resnet50() if options.model == "resnet50" else bert()
    constants = sum(b.size_bytes for b in graph.buffers.values() if b.role == "constant")
    graph.save(options.folder, timeout_s=60, launch_mode=options.launch_mode,
               description="%d launches, %d MB of constants"
               % (len(graph.steps), math.ceil(constants / 1e6)))
