"""build.py [--small [--seed N]] MODEL FOLDER: neural networks as kernel functions, in two forms.

Of true shape, which is the default, they are for the modelled device and compute nothing. A request of
ResNet-50 or BERT-large takes 4 or 92 ms in all, as the paper on kernels as a service measured on a V100.
The others take what the model of `./dev bench paper-streambox` says, which is fitted to the first. The
launches share that time by their operations. Weights are a number that fills them, so that the package
stays small. ResNet-50 keeps its 3 x 3 filters transformed for Winograd's method, as the paper's compiler
does: 129 MB of constants.

With --small they compute. They have every layer and every head, a sixteenth as wide, over pictures of
64 x 64 (ssd300: 150 x 150, one map less) or texts of 16 or 32 tokens out of 1,000. Weights are drawn from
the seed, launches have no modelled durations, and reference.py beside this file says what they must
answer. The small ssd300 takes red spots for cars and blue ones for people.
"""
import argparse
import array
import math
import os
import random
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from lambent import kernels
from lambent.kernels import Buffer, int32, read, read_write, uint64, write

Fill = Callable[[str, Tuple[int, ...]], Any]  # the numbers of a constant, by its name and shape
Stages = Tuple[Tuple[int, int], ...]  # how many layers, of how many channels


class Weight:
    """A constant of a network that has weights: where it begins in the one that holds them all."""

    def __init__(self, begin: int) -> None:
        self.begin = begin


class Model:
    """A graph whose launches get their durations, and their weights, when all of them are known."""

    def __init__(self, name: str, weights: Optional[Fill] = None) -> None:
        self.graph = kernels.Graph(name)
        here = os.path.dirname(os.path.abspath(__file__))
        self.source = self.graph.source(os.path.join(here, "layers.cu"))
        self.weights = weights
        self._numbers = array.array("f")  # of all weights: each constant would be a file, and a package has few
        self._launches: List[Tuple[str, int, int, List[Any]]] = []
        self._names = 0

    def constant(self, name: str, *shape: int) -> Union[Buffer, Weight]:
        if self.weights is not None:
            return self.append(self.weights(name, shape))
        return self.graph.constant(name, "FP32", shape, fill=0.01)

    def append(self, numbers: Any) -> Weight:
        self._numbers.extend(numbers)
        return Weight(len(self._numbers) - len(numbers))

    def temporary(self, *shape: int) -> Buffer:
        self._names += 1
        return self.graph.temporary("t%d" % self._names, "FP32", shape)

    def launch(self, kernel: str, operations: int, elements: int, *arguments: Any) -> None:
        self._launches.append((kernel, operations, elements, list(arguments)))

    def finish(self, duration_ms: float) -> kernels.Graph:
        """Appends the launches. Without weights they take this long together, with them what computing takes."""
        total_ns = int(duration_ms * 1e6) if self.weights is None else 0
        operations = sum(launch[1] for launch in self._launches)
        durations = [total_ns * launch[1] // operations for launch in self._launches]
        durations[durations.index(max(durations))] += total_ns - sum(durations)
        together = None
        if self.weights is not None:
            together = self.graph.constant("weights", "FP32", (len(self._numbers),), data=self._numbers)
        for (kernel, _, elements, arguments), duration in zip(self._launches, durations):
            self.source.kernel(kernel)(max(1, min(65535, (elements + 127) // 128)), 128,
                                       [uint64(duration)] + [read(together, each.begin) if isinstance(each, Weight)
                                                             else each for each in arguments])
        return self.graph


NOTHING = uint64(0)  # a null pointer


def for_winograd(filters: Any) -> Any:
    """3 x 3 filters, one after the other, as the kernel `winograd` takes them: 4 x 4 numbers each."""
    rows = ((1, 0, 0), (.5, .5, .5), (.5, -.5, .5), (0, 0, 1))
    out = array.array("f")
    for at in range(0, len(filters), 9):
        f = filters[at:at + 9]
        half = [[r[0] * f[j] + r[1] * f[3 + j] + r[2] * f[6 + j] for j in range(3)] for r in rows]
        out.extend([h[0] * r[0] + h[1] * r[1] + h[2] * r[2] for h in half for r in rows])
    return out


class Images(Model):
    """Layers over square images, as (channels, size, size)."""

    def transformed(self, name: str, channels: int, before: int) -> Union[Buffer, Weight]:
        """The 3 x 3 filters of a layer for Winograd's method; weights give them as they are."""
        if self.weights is None:
            return self.constant(name + ".transformed", channels, before, 4, 4)
        return self.append(for_winograd(self.weights(name + ".filters", (channels, before, 3, 3))))

    def convolution(self, name: str, image: Buffer, channels: int, kernel: int, stride: int = 1,
                    relu: bool = True, shortcut: Optional[Buffer] = None) -> Buffer:
        before, size = image.shape[0], image.shape[1]
        after = (size + 2 * (kernel // 2) - kernel) // stride + 1
        out = self.temporary(channels, after, after)
        operations = 2 * out.size_bytes // 4 * before * kernel * kernel
        bias = self.constant(name + ".bias", channels)
        if kernel == 3 and stride == 1 and shortcut is None:
            filters = self.transformed(name, channels, before)
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

    def layer(self, name: str, image: Buffer, channels: int, kernel: int, stride: int = 1,
              padding: Optional[int] = None, relu: bool = True, shortcut: Optional[Buffer] = None,
              before: Optional[int] = None, out: Optional[Any] = None) -> Buffer:
        """A convolution of the first `before` channels (unless said: of all). `out` may be a write()
        into a buffer of someone else's, which is then what is returned."""
        before, size = before or image.shape[0], image.shape[1]
        padding = kernel // 2 if padding is None else padding
        after = (size + 2 * padding - kernel) // stride + 1
        out = write(self.temporary(channels, after, after)) if out is None else out
        elements = channels * after * after
        self.launch("padded_convolution", 2 * elements * before * kernel * kernel, elements, read(image),
                    self.constant(name + ".filters", channels, before, kernel, kernel),
                    self.constant(name + ".bias", channels),
                    NOTHING if shortcut is None else read(shortcut), out, int32(before), int32(size),
                    int32(channels), int32(kernel), int32(stride), int32(padding), int32(int(relu)))
        return out.buffer

    def pool(self, image: Buffer, kernel: int, stride: int, padding: int = 0, mean: bool = False,
             out: Optional[Any] = None) -> Buffer:
        channels, size = image.shape[0], image.shape[1]
        after = (size + 2 * padding - kernel) // stride + 1
        out = write(self.temporary(channels, after, after)) if out is None else out
        elements = channels * after * after
        self.launch("window_pool", elements * kernel * kernel, elements, read(image), out,
                    int32(channels), int32(size), int32(kernel), int32(stride), int32(padding),
                    int32(int(mean)))
        return out.buffer

    def dense(self, name: str, values: Buffer, width: int, relu: bool = False,
              out: Optional[Buffer] = None) -> Buffer:
        """A layer over all elements of `values`, as a convolution of images of one pixel."""
        inner = values.size_bytes // 4
        out = out or self.temporary(width, 1, 1)
        self.launch("padded_convolution", 2 * width * inner, width, read(values),
                    self.constant(name + ".weights", width, inner), self.constant(name + ".bias", width),
                    NOTHING, write(out), int32(inner), int32(1), int32(width), int32(1), int32(1),
                    int32(0), int32(int(relu)))
        return out

    def classes(self, name: str, values: Buffer, count: int) -> None:
        out = self.graph.output("probabilities", "FP32", (1, count))
        self.dense(name, values, count, out=out)
        self.launch("softmax", 5 * count, 1, read_write(out), int32(1), int32(count))

    def vgg(self, image: Buffer, stages: Stages, ceiling: bool = False) -> List[Buffer]:
        """Groups of 3 x 3 layers with a pool between two of them; what each group gives."""
        given = []
        for stage, (count, channels) in enumerate(stages):
            if stage > 0:
                image = self.pool(image, 2, 2, image.shape[1] % 2 if ceiling else 0)
            for at in range(count):
                image = self.layer("stage%d.%d" % (stage + 1, at), image, channels, 3)
            given.append(image)
        return given


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


VGG_STAGES: Stages = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))


def vgg16(size: int = 224, stages: Stages = VGG_STAGES, width: int = 4096, classes: int = 1000,
          weights: Optional[Fill] = None) -> kernels.Graph:
    """One image of 3 x size x size to the probabilities of its classes (Simonyan and Zisserman, 2014)."""
    model = Images("vgg16", weights)
    image = model.vgg(model.graph.input("image", "FP32", (3, size, size)), stages)[-1]
    values = model.dense("dense1", model.pool(image, 2, 2), width, relu=True)
    model.classes("classes", model.dense("dense2", values, width, relu=True), classes)
    return model.finish(duration_ms=11.9)


def alexnet(size: int = 224, channels: Tuple[int, ...] = (64, 192, 384, 256, 256), width: int = 4096,
            classes: int = 1000, weights: Optional[Fill] = None) -> kernels.Graph:
    """The same of Krizhevsky, 2014."""
    model = Images("alexnet", weights)
    image = model.layer("1", model.graph.input("image", "FP32", (3, size, size)), channels[0], 11, 4, 2)
    image = model.layer("2", model.pool(image, 3, 2), channels[1], 5)
    image = model.layer("3", model.pool(image, 3, 2), channels[2], 3)
    image = model.layer("5", model.layer("4", image, channels[3], 3), channels[4], 3)
    values = model.dense("dense1", model.pool(image, 3, 2), width, relu=True)
    model.classes("classes", model.dense("dense2", values, width, relu=True), classes)
    return model.finish(duration_ms=3.4)


def densenet121(size: int = 224, growth: int = 32, blocks: Tuple[int, ...] = (6, 12, 24, 16),
                classes: int = 1000, weights: Optional[Fill] = None) -> kernels.Graph:
    """The same of Huang et al., 2017. A block's layers write their channels beside those before them."""
    model = Images("densenet121", weights)

    def activated(name: str, image: Buffer, channels: int) -> Buffer:
        out = model.temporary(channels, image.shape[1], image.shape[1])
        model.launch("scale_shift", 2 * out.size_bytes // 4, out.size_bytes // 4, read(image),
                     model.constant(name + ".scale", channels), model.constant(name + ".shift", channels),
                     write(out), int32(channels), int32(image.shape[1]))
        return out

    stem = model.layer("stem", model.graph.input("image", "FP32", (3, size, size)), 2 * growth, 7, 2)
    source, pooling = stem, (3, 2, 1, False)
    for stage, count in enumerate(blocks):
        kernel, stride, padding, mean = pooling
        channels, side = source.shape[0], (source.shape[1] + 2 * padding - kernel) // stride + 1
        block = model.temporary(channels + count * growth, side, side)
        model.pool(source, kernel, stride, padding, mean, out=write(block))
        for at in range(count):
            name = "block%d.%d" % (stage + 1, at)
            narrow = model.layer(name + ".1", activated(name + ".norm1", block, channels), 4 * growth, 1,
                                 relu=False)
            model.layer(name + ".2", activated(name + ".norm2", narrow, 4 * growth), growth, 3, relu=False,
                        out=write(block, channels * side * side))
            channels += growth
        source = activated("block%d.norm" % (stage + 1), block, channels)
        if stage + 1 < len(blocks):
            source = model.layer("block%d.out" % (stage + 1), source, channels // 2, 1, relu=False)
        pooling = (2, 2, 0, True)
    mean = model.temporary(channels)
    model.launch("mean_pool", source.size_bytes // 4, channels, read(source), write(mean),
                 int32(channels), int32(source.shape[1]))
    model.classes("classes", mean, classes)
    return model.finish(duration_ms=7.2)


SSD_EXTRA = ((256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0))
SSD_BOXES = (4, 6, 6, 6, 4, 4)


def ssd300(size: int = 300, stages: Stages = VGG_STAGES, width: int = 1024,
           extra: Tuple[Tuple[int, int, int, int], ...] = SSD_EXTRA, boxes: Tuple[int, ...] = SSD_BOXES,
           classes: int = 21, weights: Optional[Fill] = None) -> kernels.Graph:
    """One image of 3 x size x size to scores and boxes (Liu et al., 2016; its sixth layer without gaps).

    For each map of the output, one after the other, classes + 4 numbers for each box and place: first
    the scores, background first, then where the box lies, all as (boxes, classes + 4, side, side).
    """
    model = Images("ssd300", weights)
    given = model.vgg(model.graph.input("image", "FP32", (3, size, size)), stages, ceiling=True)
    image = model.layer("6", model.pool(given[-1], 3, 1, 1), width, 3)
    maps = [given[-2], model.layer("7", image, width, 1)]
    for at, (narrow, channels, stride, padding) in enumerate(extra):
        image = model.layer("extra%d.1" % at, maps[-1], narrow, 1)
        maps.append(model.layer("extra%d.2" % at, image, channels, 3, stride, padding))
    sides = [each.shape[1] for each in maps]
    per_map = [count * (classes + 4) * side * side for count, side in zip(boxes, sides)]
    out = model.graph.output("boxes", "FP32", (sum(per_map),))
    for at, (each, count) in enumerate(zip(maps, boxes)):
        model.layer("boxes%d" % at, each, count * (classes + 4), 3, relu=False,
                    out=write(out, sum(per_map[:at])))
    return model.finish(duration_ms=13.2)


def vdsr(size: int = 224, channels: int = 64, layers: int = 20,
         weights: Optional[Fill] = None) -> kernels.Graph:
    """A sharper image of one of 3 x size x size (Kim et al., 2016)."""
    model = Images("vdsr", weights)
    first = image = model.graph.input("image", "FP32", (3, size, size))
    for at in range(layers - 1):
        image = model.layer(str(at), image, channels, 3)
    out = model.graph.output("image_out", "FP32", (3, size, size))
    model.layer("last", image, 3, 3, relu=False, shortcut=first, out=write(out))
    return model.finish(duration_ms=12.7)


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

    def attention(self, name: str, text: Buffer, heads: int, other: Optional[Buffer] = None) -> Buffer:
        """Of a text to itself or to another one of the same length."""
        length, hidden = text.shape
        other = other or text
        queries, keys, values = (self.linear(name + part, of, hidden) for part, of in (
            (".queries", text), (".keys", other), (".values", other)))
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


def translate(length: int = 32, layers: int = 6, hidden: int = 512, heads: int = 8,
              vocabulary: int = 37000, weights: Optional[Fill] = None) -> kernels.Graph:
    """Tokens to tokens (Vaswani et al., 2017, base), all at once: no mask, no word after the other."""
    model = Text("translate", weights)
    words = model.constant("words", vocabulary, hidden)
    text = model.temporary(length, hidden)
    model.launch("embed_words", length * hidden, length * hidden, model.graph.input("tokens", "INT32", (length,)),
                 words, model.constant("positions", length, hidden), write(text), int32(length),
                 int32(hidden), int32(vocabulary))

    def rest(name: str, text: Buffer) -> Buffer:
        wide = model.linear(name + ".wide", text, 4 * hidden, gelu=True)
        return model.add_norm(name + ".out", model.linear(name + ".narrow", wide, hidden), text)

    for layer in range(layers):
        name = "read%d" % layer
        text = rest(name, model.add_norm(name + ".attended", model.attention(name, text, heads), text))
    source = text
    for layer in range(layers):
        name = "write%d" % layer
        text = model.add_norm(name + ".attended", model.attention(name, text, heads), text)
        name += ".source"
        text = rest(name, model.add_norm(name + ".attended", model.attention(name, text, heads, source), text))
    scores = model.temporary(length, vocabulary)
    model.launch("dense", 2 * length * hidden * vocabulary, length * vocabulary, read(text), words,
                 model.constant("bias", vocabulary), write(scores), int32(length), int32(hidden),
                 int32(vocabulary), int32(0))
    out = model.graph.output("translated", "INT32", (length,))
    model.launch("largest_column", length * vocabulary, length, read(scores), write(out), int32(length),
                 int32(vocabulary))
    return model.finish(duration_ms=5.3)


def bert(length: int = 128, layers: int = 24, hidden: int = 1024, heads: int = 16,
         vocabulary: int = 30522, positions: int = 512, weights: Optional[Fill] = None,
         name: str = "bert", duration_ms: float = 92) -> kernels.Graph:
    """Tokens and their segments to the scores of each being an answer's first and last: BERT-large."""
    model = Text(name, weights)
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
    return model.finish(duration_ms)


def post_kind(length: int = 32, layers: int = 12, hidden: int = 768, heads: int = 12,
              vocabulary: int = 37000, positions: int = 512,
              weights: Optional[Fill] = None) -> kernels.Graph:
    """BERT-base over a text that `translate` wrote."""
    return bert(length, layers, hidden, heads, vocabulary, positions, weights, "post_kind", 6.8)


MODELS: Dict[str, Callable[..., kernels.Graph]] = {
    "resnet50": resnet50, "bert": bert, "vgg16": vgg16, "alexnet": alexnet, "densenet121": densenet121,
    "ssd300": ssd300, "vdsr": vdsr, "translate": translate, "post_kind": post_kind,
}

SMALL_STAGES: Stages = ((2, 4), (2, 8), (3, 16), (3, 32), (3, 32))
# Where a small network is other than a large one.
SMALL: Dict[str, Dict[str, Any]] = {
    "resnet50": dict(size=64, width=4, classes=10),
    "bert": dict(length=16, hidden=64, vocabulary=1000, positions=16),
    "vgg16": dict(size=64, stages=SMALL_STAGES, width=256, classes=10),
    "alexnet": dict(size=64, channels=(4, 12, 24, 16, 16), width=256, classes=10),
    "densenet121": dict(size=64, growth=2, classes=10),
    "ssd300": dict(size=150, stages=SMALL_STAGES, width=64, boxes=(4, 6, 6, 6, 4),
                   extra=((16, 32, 2, 1), (8, 16, 2, 1), (8, 16, 1, 0))),
    "vdsr": dict(size=64, channels=4),
    "translate": dict(hidden=32, vocabulary=1000),
    "post_kind": dict(hidden=48, vocabulary=1000, positions=32),
}
TEXTS = ("bert", "translate", "post_kind")
# Blocks of ResNet have no norms here that hold down what they add, means of DenseNet hardly differ, and
# words that look at all others alike become alike.
GAINS = {("resnet50", "3.filters"): 0.25, ("resnet50", "shortcut.filters"): 0.7,
         ("densenet121", "classes.weights"): 8, ("text", "out.weights"): 0.3,
         ("text", "narrow.weights"): 0.3, ("text", "queries.weights"): 3}


def seeded(model: str, seed: int) -> Fill:
    """Weights of such a spread that what a layer makes is about as large as what it takes: variances of
    2 / n before a cut below zero (He et al., 2015), of 1 / n between norms; n: how many it adds up."""
    kind = "text" if model in TEXTS else model

    def weights(name: str, shape: Tuple[int, ...]) -> Any:
        some, count = random.Random("%d %s %s" % (seed, model, name)), math.prod(shape)
        around = 1.0 if name.endswith(".scale") else 0.0
        if len(shape) == 1:
            spread = 0.1
        elif name in ("words", "positions", "kinds"):
            spread = 1.0 if name == "words" else 0.2
        else:
            spread = math.sqrt((3 if kind == "text" else 6) * shape[0] / count)
        spread *= GAINS.get((kind, ".".join(name.split(".")[-2:])), 1)
        numbers = array.array("f", [around + spread * (2 * some.random() - 1) for _ in range(count)])
        return detector(name, shape, numbers) if model == "ssd300" else numbers

    return weights


def detector(name: str, shape: Tuple[int, ...], numbers: Any) -> Any:
    """The weights of ssd300, so that it finds something: what is red is a car, class 7 of Pascal VOC, what
    is blue a person, class 15.

    The first two channels carry how red and how blue a place is through the groups of layers to the first
    map, whose first box looks at them. All others, and where the boxes lie, are as the seed has them.
    """
    layer, kind = name.rsplit(".", 1)
    if layer.startswith("boxes") and kind == "bias":
        for box in range(0, len(numbers), 25):
            numbers[box] += 6  # most places show nothing
    elif layer.startswith("boxes"):
        numbers = array.array("f", [number / 4 for number in numbers])

    def look(row: int, taps: Dict[int, float], bias: float) -> None:
        """This channel is a sum of those channels where it lies, and nothing else."""
        if kind == "bias":
            numbers[row] = bias
            return
        count = shape[1] * 9
        numbers[row * count:(row + 1) * count] = array.array("f", [0.0]) * count
        for source, weight in taps.items():
            numbers[row * count + source * 9 + 4] = weight

    for channel, label, others in ((0, 7, (1, 2)), (1, 15, (0, 1))):
        if layer == "stage1.0":
            look(channel, {2 * channel: 1, **{other: -1 for other in others}}, 0)
        elif layer.startswith("stage"):
            look(channel, {channel: 1}, 0)
        elif layer == "boxes0":
            look(label, {channel: 20}, -11)
    return numbers


def small(model: str, seed: int = 0) -> kernels.Graph:
    """A network that computes, with weights from a seed."""
    return MODELS[model](weights=seeded(model, seed), **SMALL[model])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=tuple(MODELS))
    parser.add_argument("folder")
    parser.add_argument("--small", action="store_true",
                        help="a small network that computes, in place of the true shape with modelled times")
    parser.add_argument("--seed", type=int, help="of its weights; 0 unless said")
    parser.add_argument("--launch-mode", choices=("compute", "model"),
                        help="of the true shape; model unless said, as its weights are one number")
    options = parser.parse_args()
    if options.seed is not None and not options.small:
        parser.error("--seed is for --small: networks of true shape have no weights")
    if options.launch_mode == "model" and options.small:
        parser.error("--small computes: its launches have no modelled durations")
    graph = small(options.model, options.seed or 0) if options.small else MODELS[options.model]()
    constants = sum(b.size_bytes for b in graph.buffers.values() if b.role == "constant")
    graph.save(options.folder, timeout_s=60,
               launch_mode=options.launch_mode or ("compute" if options.small else "model"),
               description="%d launches, %d MB of constants"
               % (len(graph.steps), math.ceil(constants / 1e6)))
