"""Models of the shapes that people deploy, with weights from a seed, as files in the format of ONNX: a ResNet, a MobileNetV2, an
encoder as BERT's, a U-Net, a decoder as GPT's, detectors as YOLO and SSD, and a network for super-resolution. `scale` makes all of them
narrower; 1 is the true width."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8


class Net:
    """A graph under construction: each operator's method gives the name of what it makes."""

    def __init__(self, seed=1):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs = [], [], []

    def input(self, name, shape, element=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def weight(self, *shape, spread=None, around=0.0):
        fan = int(np.prod(shape[1:])) or 1
        values = around + self.random.standard_normal(shape) * (spread if spread is not None else (2 / fan) ** 0.5)
        return self.constant(values.astype(np.float32))

    def constant(self, values):
        self.weights.append(numpy_helper.from_array(np.asarray(values), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def __call__(self, operator, *given, outputs=1, **attributes):
        made = [f"t{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(given), made, name=f"{operator}_{len(self.nodes)}", **attributes))
        return made[0] if outputs == 1 else made

    def conv(self, x, channels_in, channels, kernel, stride=1, groups=1, bias=False):
        given = [x, self.weight(channels, channels_in // groups, kernel, kernel)] + ([self.weight(channels, spread=0.1)] if bias else [])
        return self("Conv", *given, strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups, kernel_shape=[kernel] * 2)

    def norm(self, x, channels):
        return self("BatchNormalization", x, self.weight(channels, spread=0.1, around=1), self.weight(channels, spread=0.1),
                    self.weight(channels, spread=0.1), self.constant(self.random.uniform(0.5, 1.5, channels).astype(np.float32)))

    def linear(self, x, wide, wide_out):
        return self("Add", self("MatMul", x, self.weight(wide, wide_out, spread=wide**-0.5)), self.weight(wide_out, spread=0.1))

    def layer_norm(self, x, wide):
        return self("LayerNormalization", x, self.weight(wide, spread=0.1, around=1), self.weight(wide, spread=0.1), axis=-1)

    def gelu(self, x):
        half = self("Mul", x, self.constant(np.float32(0.5)))
        erf = self("Erf", self("Div", x, self.constant(np.float32(2**0.5))))
        return self("Mul", half, self("Add", erf, self.constant(np.float32(1))))

    def attention(self, x, wide, heads, length, mask=None):
        def split(y, order):
            y = self("Reshape", y, self.constant(np.array([-1, length, heads, wide // heads])))
            return self("Transpose", y, perm=order)
        query, key = split(self.linear(x, wide, wide), [0, 2, 1, 3]), split(self.linear(x, wide, wide), [0, 2, 3, 1])
        value = split(self.linear(x, wide, wide), [0, 2, 1, 3])
        scores = self("Div", self("MatMul", query, key), self.constant(np.float32((wide // heads) ** 0.5)))
        if mask is not None:
            scores = self("Add", scores, mask)
        mixed = self("Transpose", self("MatMul", self("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        return self.linear(self("Reshape", mixed, self.constant(np.array([-1, length, wide]))), wide, wide)

    def model(self, **outputs):
        """outputs: the client's name of each output, and the tensor."""
        for name, tensor in outputs.items():
            self.nodes.append(helper.make_node("Identity", [tensor], [name]))
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "graph", self.inputs, made, self.weights)
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION))


def resnet(layers=18, size=224, scale=1.0, classes=1000):
    """ResNet-18 or ResNet-50."""
    blocks, bottleneck = {18: ([2, 2, 2, 2], False), 50: ([3, 4, 6, 3], True)}[layers]
    net, wide = Net(), int(64 * scale)
    x = net("Relu", net.norm(net.conv(net.input("x", ["n", 3, size, size]), 3, wide, 7, 2), wide))
    x, channels = net("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), wide
    for stage, count in enumerate(blocks):
        inner = wide * 2**stage
        outer = inner * 4 if bottleneck else inner
        for block in range(count):
            stride = 2 if stage and not block else 1
            short = x if channels == outer and stride == 1 else net.norm(net.conv(x, channels, outer, 1, stride), outer)
            if bottleneck:
                y = net("Relu", net.norm(net.conv(x, channels, inner, 1), inner))
                y = net("Relu", net.norm(net.conv(y, inner, inner, 3, stride), inner))
                y = net.norm(net.conv(y, inner, outer, 1), outer)
            else:
                y = net("Relu", net.norm(net.conv(x, channels, inner, 3, stride), inner))
                y = net.norm(net.conv(y, inner, inner, 3), inner)
            x, channels = net("Relu", net("Add", y, short)), outer
    x = net("Flatten", net("GlobalAveragePool", x))
    return net.model(scores=net("Gemm", x, net.weight(classes, channels), net.weight(classes, spread=0.1), transB=1))


def mobilenet(size=224, scale=1.0, classes=1000):
    """MobileNetV2."""
    net = Net(2)

    def wide(channels):
        return max(int(channels * scale) // 4 * 4, 4)

    def clip(x):
        return net("Clip", x, net.constant(np.float32(0)), net.constant(np.float32(6)))

    channels = wide(32)
    x = clip(net.norm(net.conv(net.input("x", ["n", 3, size, size]), 3, channels, 3, 2), channels))
    for expand, out, count, first in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                      (6, 320, 1, 1)]:
        for block in range(count):
            stride, inner = first if not block else 1, channels * expand
            y = x if expand == 1 else clip(net.norm(net.conv(x, channels, inner, 1), inner))
            y = clip(net.norm(net.conv(y, inner, inner, 3, stride, groups=inner), inner))
            y = net.norm(net.conv(y, inner, wide(out), 1), wide(out))
            x = net("Add", x, y) if stride == 1 and channels == wide(out) else y
            channels = wide(out)
    x = clip(net.norm(net.conv(x, channels, wide(1280), 1), wide(1280)))
    x = net("Flatten", net("ReduceMean", x, axes=[2, 3], keepdims=1))
    return net.model(scores=net("Gemm", x, net.weight(classes, wide(1280)), net.weight(classes, spread=0.1), transB=1))


def bert(layers=12, length=128, scale=1.0, words=30522):
    """BERT-base: an encoder over tokens."""
    net, wide = Net(3), int(768 * scale) // 12 * 12
    tokens = net.input("tokens", ["n", length], TensorProto.INT64)
    x = net("Gather", net.weight(words, wide, spread=1), tokens)
    x = net.layer_norm(net("Add", x, net.weight(1, length, wide, spread=1)), wide)
    for _ in range(layers):
        x = net.layer_norm(net("Add", x, net.attention(x, wide, 12, length)), wide)
        inner = net.linear(net.gelu(net.linear(x, wide, 4 * wide)), 4 * wide, wide)
        x = net.layer_norm(net("Add", x, inner), wide)
    first = net("Gather", x, net.constant(np.array(0)), axis=1)
    return net.model(hidden=x, pooled=net("Tanh", net.linear(first, wide, wide)))


def unet(size=256, scale=1.0, classes=2, depth=4):
    """A U-Net: a class for each pixel."""
    net, wide = Net(4), int(64 * scale)

    def twice(x, channels_in, channels):
        for each in (channels_in, channels):
            x = net("Relu", net.norm(net.conv(x, each, channels, 3, bias=True), channels))
        return x

    x, channels, skipped = net.input("x", ["n", 3, size, size]), 3, []
    for level in range(depth):
        x = twice(x, channels, wide * 2**level)
        channels = wide * 2**level
        skipped.append((x, channels))
        x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x, channels = twice(x, channels, channels * 2), channels * 2
    for level, (skip, its) in enumerate(reversed(skipped)):
        if level % 2:
            x = net("ConvTranspose", x, net.weight(channels, its, 2, 2), strides=[2, 2])
        else:
            x = net("Resize", x, "", net.constant(np.array([1, 1, 2, 2], dtype=np.float32)), mode="nearest",
                    coordinate_transformation_mode="asymmetric", nearest_mode="floor")
            x = net.conv(x, channels, its, 3)
        x, channels = twice(net("Concat", skip, x, axis=1), its * 2, its), its
    return net.model(mask=net("Sigmoid", net.conv(x, channels, classes, 1, bias=True)))


def gpt(layers=12, length=64, scale=1.0, words=50257):
    """A decoder as GPT-2's: the scores of the next word at each place."""
    net, wide = Net(5), int(768 * scale) // 12 * 12
    tokens = net.input("tokens", ["n", length], TensorProto.INT64)
    embedding = net.weight(words, wide, spread=0.5)
    x = net("Add", net("Gather", embedding, tokens), net.weight(1, length, wide, spread=0.5))
    mask = net.constant(np.triu(np.full((1, 1, length, length), -1e9, dtype=np.float32), 1))
    for _ in range(layers):
        x = net("Add", x, net.attention(net.layer_norm(x, wide), wide, 12, length, mask))
        x = net("Add", x, net.linear(net.gelu(net.linear(net.layer_norm(x, wide), wide, 4 * wide)), 4 * wide, wide))
    return net.model(scores=net("MatMul", net.layer_norm(x, wide), net("Transpose", embedding, perm=[1, 0])))


def yolo(size=640, scale=1.0, classes=80):
    """A detector as YOLOv8n: blocks that split and join, a pyramid up and down, and for each place of three maps its box (a distance to
    each side, as the mean of a distribution over 16 bins) and the scores of its classes. Overlapping boxes are the client's to remove."""
    net, bins = Net(6), 16

    def wide(channels):
        return max(int(channels * scale) // 8 * 8, 8)

    def silu(x):
        return net("Mul", x, net("Sigmoid", x))

    def block(x, channels_in, channels, kernel=3, stride=1):
        return silu(net.norm(net.conv(x, channels_in, channels, kernel, stride), channels))

    def split(x, channels_in, channels, count, shortcut=True):
        half = channels // 2
        parts = list(net("Split", block(x, channels_in, channels, 1), net.constant(np.array([half, half])), outputs=2, axis=1))
        for _ in range(count):
            y = block(block(parts[-1], half, half), half, half)
            parts.append(net("Add", parts[-1], y) if shortcut else y)
        return block(net("Concat", *parts, axis=1), half * len(parts), channels, 1)

    def twice_as_large(x):
        return net("Resize", x, "", net.constant(np.array([1, 1, 2, 2], dtype=np.float32)), mode="nearest",
                   coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    w1, w2, w3, w4, w5 = (wide(each) for each in (16, 32, 64, 128, 256))
    x = block(block(net.input("image", ["n", 3, size, size]), 3, w1, 3, 2), w1, w2, 3, 2)
    third = split(block(split(x, w2, w2, 1), w2, w3, 3, 2), w3, w3, 2)
    fourth = split(block(third, w3, w4, 3, 2), w4, w4, 2)
    x = block(split(block(fourth, w4, w5, 3, 2), w5, w5, 1), w5, w5 // 2, 1)
    pooled = [x]
    for _ in range(3):
        pooled.append(net("MaxPool", pooled[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    fifth = block(net("Concat", *pooled, axis=1), w5 * 2, w5, 1)
    up4 = split(net("Concat", twice_as_large(fifth), fourth, axis=1), w5 + w4, w4, 1, False)
    out3 = split(net("Concat", twice_as_large(up4), third, axis=1), w4 + w3, w3, 1, False)
    out4 = split(net("Concat", block(out3, w3, w3, 3, 2), up4, axis=1), w3 + w4, w4, 1, False)
    out5 = split(net("Concat", block(out4, w4, w4, 3, 2), fifth, axis=1), w4 + w5, w5, 1, False)

    maps, places, strides = [], [], []
    for x, channels, stride in ((out3, w3, 8), (out4, w4, 16), (out5, w5, 32)):
        side = size // stride
        heads = []
        for inner, count in ((max(16, w3 // 4, bins * 4), bins * 4), (max(w3, min(classes, 100)), classes)):
            y = net.conv(block(block(x, channels, inner), inner, inner), inner, count, 1, bias=True)
            heads.append(net("Reshape", y, net.constant(np.array([-1, count, side * side]))))
        maps.append(heads)
        rows, columns = np.mgrid[0:side, 0:side] + 0.5
        places.append(np.stack([columns.ravel(), rows.ravel()]))
        strides.append(np.full(side * side, stride))
    boxes, scores = (net("Concat", *each, axis=2) for each in zip(*maps))
    count = sum(each.size for each in strides)
    boxes = net("Softmax", net("Reshape", boxes, net.constant(np.array([-1, 4, bins, count]))), axis=2)
    weighted = net("Mul", boxes, net.constant(np.arange(bins, dtype=np.float32).reshape(1, 1, bins, 1)))
    sides = net("ReduceSum", weighted, net.constant(np.array([2])), keepdims=0)
    near, far = net("Split", sides, net.constant(np.array([2, 2])), outputs=2, axis=1)
    centers = net.constant(np.concatenate(places, axis=1)[None].astype(np.float32))
    corners = net("Concat", net("Sub", centers, near), net("Add", centers, far), axis=1)
    return net.model(boxes=net("Mul", corners, net.constant(np.concatenate(strides)[None, None].astype(np.float32))),
                     scores=net("Sigmoid", scores))


def ssd(size=300, scale=1.0, classes=21):
    """A detector as SSD300: VGG-16's trunk, six maps, and for each box of each place its scores, background first, and its place. The order
    is (map, box, score or place, row, column)."""
    net = Net(7)

    def wide(channels):
        return max(int(channels * scale), 4)

    def conv(x, channels_in, channels, kernel, stride=1, pad=None):
        pad = kernel // 2 if pad is None else pad
        y = net("Conv", x, net.weight(channels, channels_in, kernel, kernel), net.weight(channels, spread=0.1), strides=[stride] * 2,
                pads=[pad] * 4, kernel_shape=[kernel] * 2)
        return net("Relu", y), channels

    x, channels, side = net.input("image", ["n", 3, size, size]), 3, size
    given = []
    for stage, (count, channels_out) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))):
        if stage:
            odd = side % 2
            x, side = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, odd, odd]), (side + 1) // 2
        for _ in range(count):
            x, channels = conv(x, channels, wide(channels_out), 3)
        given.append((x, channels, side))
    x = net("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    x, channels = conv(*conv(x, channels, wide(1024), 3), wide(1024), 1)
    maps = [given[3], (x, channels, side)]
    for narrow, channels_out, stride, pad in ((256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0)):
        x, channels = conv(*conv(x, channels, wide(narrow), 1), wide(channels_out), 3, stride, pad)
        side = (side + 2 * pad - 3) // stride + 1
        maps.append((x, channels, side))
    out = []
    for (x, channels, side), boxes in zip(maps, (4, 6, 6, 6, 4, 4)):
        y = net.conv(x, channels, boxes * (classes + 4), 3, bias=True)
        out.append(net("Reshape", y, net.constant(np.array([-1, boxes * (classes + 4) * side * side]))))
    return net.model(boxes=net("Concat", *out, axis=1))


def super_resolution(size=224, scale=1.0, times=3):
    """ESPCN, which the model zoo of ONNX has: the brightness of a picture, `times` finer."""
    net, (a, b, c) = Net(8), (max(int(each * scale), 4) for each in (64, 64, 32))
    x = net("Relu", net.conv(net.input("picture", ["n", 1, size, size]), 1, a, 5, bias=True))
    x = net("Relu", net.conv(x, a, b, 3, bias=True))
    x = net("Relu", net.conv(x, b, c, 3, bias=True))
    return net.model(finer=net("DepthToSpace", net.conv(x, c, times * times, 3, bias=True), blocksize=times, mode="CRD"))


# At their true shapes.
WHOLE = {"resnet50": lambda: resnet(50), "mobilenet": mobilenet, "bert": bert, "unet": unet, "gpt": gpt, "yolo": yolo, "ssd": ssd,
         "super_resolution": super_resolution}
# As kernels: a request and an answer have at most 6 MiB, and scores of 50,257 words for each of 64 places have twice as much.
WHOLE_AS_KERNELS = {**WHOLE, "gpt": lambda: gpt(length=16)}
# Small enough to be tried each time.
SMALL = {"resnet": lambda: resnet(18, 32, 0.125, 10), "mobilenet": lambda: mobilenet(32, 0.25, 10),
         "bert": lambda: bert(2, 16, 0.0625, 64), "unet": lambda: unet(32, 0.0625, 2, 3), "gpt": lambda: gpt(2, 8, 0.0625, 64),
         "resnet50": lambda: resnet(50, 32, 0.125, 10), "yolo": lambda: yolo(64, 0.5, 4), "ssd": lambda: ssd(300, 0.0625, 3),
         "super_resolution": lambda: super_resolution(16, 0.25)}
