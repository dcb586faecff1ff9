"""The networks of build.py by their definitions, in plain Python: what their kernels must answer.

Each has the name and the sizes that it has there. It takes its weights as build.py does, by name and
shape, and its inputs as flat lists of numbers; it returns its output as such a list. Filters are plain
here, channels are put beside each other by making new lists, and sums have 64 bits. For a small network:
`reference.resnet50(build.seeded("resnet50", 0), image, **build.SMALL["resnet50"])`.
"""
import math
import operator
from typing import Any, Callable, List, Optional, Sequence, Tuple

Fill = Callable[[str, Tuple[int, ...]], Any]
Stages = Tuple[Tuple[int, int], ...]
Row = List[float]
Picture = List[List[Row]]  # channels of rows


def product(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(map(operator.mul, left, right))


def softmax(scores: Sequence[float]) -> Row:
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def parts(numbers: Any, length: int) -> List[Row]:
    numbers = list(numbers)
    return [numbers[at:at + length] for at in range(0, len(numbers), length)]


def flat(picture: Picture) -> Row:
    return [value for plane in picture for row in plane for value in row]


def picture_of(numbers: Any, size: int) -> Picture:
    rows = parts(numbers, size)
    return [rows[at:at + size] for at in range(0, len(rows), size)]


class Images:
    """Layers over square pictures."""

    def __init__(self, weights: Fill) -> None:
        self.weights = weights

    def layer(self, name: str, picture: Picture, channels: int, kernel: int, stride: int = 1,
              padding: Optional[int] = None, relu: bool = True,
              shortcut: Optional[Picture] = None) -> Picture:
        """A convolution, with as much padding as keeps the size at stride 1 unless it is said."""
        size, padding = len(picture[0]), kernel // 2 if padding is None else padding
        taps = len(picture) * kernel * kernel
        filters = parts(self.weights(name + ".filters", (channels, len(picture), kernel, kernel)), taps)
        bias = self.weights(name + ".bias", (channels,))
        around = [0.0] * padding
        empty = [[0.0] * (size + 2 * padding)] * padding
        padded = [empty + [around + row + around for row in plane] + empty for plane in picture]
        places = range(0, size + 2 * padding - kernel + 1, stride)
        out: Picture = [[[0.0] * len(places) for _ in places] for _ in range(channels)]
        for i, y in enumerate(places):
            rows = [row for plane in padded for row in plane[y:y + kernel]]
            for j, x in enumerate(places):
                window: Row = []
                for row in rows:
                    window += row[x:x + kernel]
                for channel, taps_of in enumerate(filters):
                    value = bias[channel] + product(window, taps_of)
                    if shortcut is not None:
                        value += shortcut[channel][i][j]
                    out[channel][i][j] = max(value, 0.0) if relu else value
        return out

    @staticmethod
    def pool(picture: Picture, kernel: int, stride: int, padding: int = 0, mean: bool = False) -> Picture:
        """The largest or the mean of each window; what is outside of the picture is not in it."""
        size = len(picture[0])
        places = range(-padding, size + padding - kernel + 1, stride)

        def value(plane: List[Row], y: int, x: int) -> float:
            window = [v for row in plane[max(0, y):y + kernel] for v in row[max(0, x):x + kernel]]
            return sum(window) / len(window) if mean else max(window)

        return [[[value(plane, y, x) for x in places] for y in places] for plane in picture]

    @staticmethod
    def means(picture: Picture) -> Row:
        return [sum(map(sum, plane)) / len(plane)**2 for plane in picture]

    def scaled(self, name: str, picture: Picture) -> Picture:
        scale, shift = (self.weights(name + end, (len(picture),)) for end in (".scale", ".shift"))
        return [[[max(value * scale[c] + shift[c], 0.0) for value in row] for row in plane]
                for c, plane in enumerate(picture)]

    def dense(self, name: str, values: Row, width: int, relu: bool = False) -> Row:
        rows = parts(self.weights(name + ".weights", (width, len(values))), len(values))
        out = [bias + product(values, row) for bias, row in zip(self.weights(name + ".bias", (width,)), rows)]
        return [max(value, 0.0) for value in out] if relu else out

    def classified(self, values: Row, width: int, classes: int) -> Row:
        for name in ("dense1", "dense2"):
            values = self.dense(name, values, width, relu=True)
        return softmax(self.dense("classes", values, classes))

    def groups(self, picture: Picture, stages: Stages, ceiling: bool = False) -> List[Picture]:
        """VGG's groups of layers with a pool between two of them; what each of them makes."""
        made = []
        for stage, (count, channels) in enumerate(stages):
            if stage > 0:
                picture = self.pool(picture, 2, 2, len(picture[0]) % 2 if ceiling else 0)
            for at in range(count):
                picture = self.layer("stage%d.%d" % (stage + 1, at), picture, channels, 3)
            made.append(picture)
        return made

    def bottleneck(self, name: str, picture: Picture, width: int, stride: int) -> Picture:
        shortcut = picture
        if stride != 1 or len(picture) != 4 * width:
            shortcut = self.layer(name + ".shortcut", picture, 4 * width, 1, stride, relu=False)
        narrow = self.layer(name + ".1", picture, width, 1)
        spread = self.layer(name + ".2", narrow, width, 3, stride)
        return self.layer(name + ".3", spread, 4 * width, 1, shortcut=shortcut)


def resnet50(weights: Fill, image: Any, size: int = 224, width: int = 64,
             blocks: Tuple[int, ...] = (3, 4, 6, 3), classes: int = 1000) -> Row:
    net = Images(weights)
    picture = net.pool(net.layer("stem", picture_of(image, size), width, 7, 2), 3, 2, 1)
    for stage, count in enumerate(blocks):
        for block in range(count):
            picture = net.bottleneck("stage%d.%d" % (stage + 1, block), picture, width << stage,
                                     2 if stage > 0 and block == 0 else 1)
    return softmax(net.dense("classes", net.means(picture), classes))


VGG_STAGES: Stages = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))


def vgg16(weights: Fill, image: Any, size: int = 224, stages: Stages = VGG_STAGES, width: int = 4096,
          classes: int = 1000) -> Row:
    net = Images(weights)
    picture = net.pool(net.groups(picture_of(image, size), stages)[-1], 2, 2)
    return net.classified(flat(picture), width, classes)


def alexnet(weights: Fill, image: Any, size: int = 224,
            channels: Tuple[int, ...] = (64, 192, 384, 256, 256), width: int = 4096,
            classes: int = 1000) -> Row:
    net = Images(weights)
    picture = net.pool(net.layer("1", picture_of(image, size), channels[0], 11, 4, 2), 3, 2)
    picture = net.pool(net.layer("2", picture, channels[1], 5), 3, 2)
    for name, count in (("3", channels[2]), ("4", channels[3]), ("5", channels[4])):
        picture = net.layer(name, picture, count, 3)
    return net.classified(flat(net.pool(picture, 3, 2)), width, classes)


def densenet121(weights: Fill, image: Any, size: int = 224, growth: int = 32,
                blocks: Tuple[int, ...] = (6, 12, 24, 16), classes: int = 1000) -> Row:
    net = Images(weights)
    picture = net.pool(net.layer("stem", picture_of(image, size), 2 * growth, 7, 2), 3, 2, 1)
    for stage, count in enumerate(blocks):
        for at in range(count):
            name = "block%d.%d" % (stage + 1, at)
            narrow = net.layer(name + ".1", net.scaled(name + ".norm1", picture), 4 * growth, 1, relu=False)
            picture = picture + net.layer(name + ".2", net.scaled(name + ".norm2", narrow), growth, 3,
                                          relu=False)
        picture = net.scaled("block%d.norm" % (stage + 1), picture)
        if stage + 1 < len(blocks):
            halved = net.layer("block%d.out" % (stage + 1), picture, len(picture) // 2, 1, relu=False)
            picture = net.pool(halved, 2, 2, mean=True)
    return softmax(net.dense("classes", net.means(picture), classes))


SSD_EXTRA = ((256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0))


def ssd300(weights: Fill, image: Any, size: int = 300, stages: Stages = VGG_STAGES, width: int = 1024,
           extra: Tuple[Tuple[int, int, int, int], ...] = SSD_EXTRA,
           boxes: Tuple[int, ...] = (4, 6, 6, 6, 4, 4), classes: int = 21) -> Row:
    net = Images(weights)
    made = net.groups(picture_of(image, size), stages, ceiling=True)
    last = net.layer("7", net.layer("6", net.pool(made[-1], 3, 1, 1), width, 3), width, 1)
    maps = [made[-2], last]
    for at, (narrow, channels, stride, padding) in enumerate(extra):
        last = net.layer("extra%d.1" % at, last, narrow, 1)
        last = net.layer("extra%d.2" % at, last, channels, 3, stride, padding)
        maps.append(last)
    out: Row = []
    for at, (each, count) in enumerate(zip(maps, boxes)):
        out += flat(net.layer("boxes%d" % at, each, count * (classes + 4), 3, relu=False))
    return out


def vdsr(weights: Fill, image: Any, size: int = 224, channels: int = 64, layers: int = 20) -> Row:
    net = Images(weights)
    first = picture = picture_of(image, size)
    for at in range(layers - 1):
        picture = net.layer(str(at), picture, channels, 3)
    return flat(net.layer("last", picture, 3, 3, relu=False, shortcut=first))


class Text:
    """Layers over the rows of a text, one for each token."""

    def __init__(self, weights: Fill, hidden: int, heads: int) -> None:
        self.weights, self.hidden, self.heads = weights, hidden, heads

    def table(self, name: str, length: int) -> List[Row]:
        return parts(self.weights(name, (length, self.hidden)), self.hidden)

    def linear(self, name: str, text: List[Row], width: int, gelu: bool = False) -> List[Row]:
        rows = parts(self.weights(name + ".weights", (width, len(text[0]))), len(text[0]))
        bias = self.weights(name + ".bias", (width,))
        out = [[b + product(values, row) for b, row in zip(bias, rows)] for values in text]
        if gelu:
            out = [[v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in values] for values in out]
        return out

    def add_norm(self, name: str, text: List[Row], shortcut: Optional[List[Row]] = None) -> List[Row]:
        scale, shift = (self.weights(name + end, (self.hidden,)) for end in (".scale", ".shift"))
        out = []
        for at, values in enumerate(text):
            if shortcut is not None:
                values = [a + b for a, b in zip(values, shortcut[at])]
            mean = sum(values) / len(values)
            spread = math.sqrt(sum((v - mean)**2 for v in values) / len(values) + 1e-5)
            out.append([(v - mean) / spread * a + b for v, a, b in zip(values, scale, shift)])
        return out

    def attention(self, name: str, text: List[Row], other: Optional[List[Row]] = None) -> List[Row]:
        """Of a text to itself or to another one."""
        queries, keys, values = (self.linear(name + part, of, self.hidden) for part, of in (
            (".queries", text), (".keys", other or text), (".values", other or text)))
        depth = self.hidden // self.heads
        mixed: List[Row] = [[] for _ in text]
        for head in range(self.heads):
            part = slice(head * depth, (head + 1) * depth)
            columns = list(zip(*(value[part] for value in values)))
            for at, query in enumerate(queries):
                scores = softmax([product(query[part], key[part]) / math.sqrt(depth) for key in keys])
                mixed[at] += [product(scores, column) for column in columns]
        return self.linear(name + ".out", mixed, self.hidden)

    def attended(self, name: str, text: List[Row], other: Optional[List[Row]] = None) -> List[Row]:
        return self.add_norm(name + ".attended", self.attention(name, text, other), text)

    def rest(self, name: str, text: List[Row]) -> List[Row]:
        """What follows attention in a layer."""
        wide = self.linear(name + ".wide", text, 4 * self.hidden, gelu=True)
        return self.add_norm(name + ".out", self.linear(name + ".narrow", wide, self.hidden), text)


def bert(weights: Fill, tokens: Sequence[int], segments: Sequence[int], length: int = 128,
         layers: int = 24, hidden: int = 1024, heads: int = 16, vocabulary: int = 30522,
         positions: int = 512) -> Row:
    net = Text(weights, hidden, heads)
    words, kinds = net.table("words", vocabulary), net.table("kinds", 2)
    places = net.table("positions", positions)
    text = [[a + b + c for a, b, c in zip(words[token], place, kinds[segment])]
            for token, place, segment in zip(tokens, places[:length], segments)]
    text = net.add_norm("embedding", text)
    for layer in range(layers):
        name = "layer%d" % layer
        text = net.rest(name, net.attended(name, text))
    return [number for row in net.linear("answer", text, 2) for number in row]


def post_kind(weights: Fill, tokens: Sequence[int], segments: Sequence[int], length: int = 32,
              layers: int = 12, hidden: int = 768, heads: int = 12, vocabulary: int = 37000,
              positions: int = 512) -> Row:
    return bert(weights, tokens, segments, length, layers, hidden, heads, vocabulary, positions)


def translate(weights: Fill, tokens: Sequence[int], length: int = 32, layers: int = 6, hidden: int = 512,
              heads: int = 8, vocabulary: int = 37000) -> List[int]:
    rows = translation_scores(weights, tokens, length, layers, hidden, heads, vocabulary)
    return [max(range(vocabulary), key=row.__getitem__) for row in rows]


def translation_scores(weights: Fill, tokens: Sequence[int], length: int = 32, layers: int = 6,
                       hidden: int = 512, heads: int = 8, vocabulary: int = 37000) -> List[Row]:
    """Of each word at each place."""
    net = Text(weights, hidden, heads)
    words, bias = net.table("words", vocabulary), weights("bias", (vocabulary,))
    text = [[a + b for a, b in zip(words[token], place)]
            for token, place in zip(tokens, net.table("positions", length))]
    for layer in range(layers):
        name = "read%d" % layer
        text = net.rest(name, net.attended(name, text))
    source = text
    for layer in range(layers):
        name = "write%d" % layer
        text = net.attended(name, text)
        name += ".source"
        text = net.rest(name, net.attended(name, text, source))
    return [[b + product(values, word) for b, word in zip(bias, words)] for values in text]
