"""The six networks of the FluidFaaS paper's applications as small PyTorch modules, with the shapes of their kinds: residual blocks for super
resolution and deblurring, a dilated residual backbone for segmentation, a residual classifier, an encoder and decoder for depth, a U of two
levels for background removal. Weights come from a seed; the pictures have 3 channels and 96 x 96 points.
"""
import torch
from torch import nn
from torch.nn import functional

POINTS = 96
SEED = 20260


def convolution(inputs, outputs, stride=1, dilation=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, dilation, dilation, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride=1, dilation=1):
        super().__init__()
        self.body = nn.Sequential(convolution(inputs, outputs, stride, dilation),
                                  nn.Conv2d(outputs, outputs, 3, 1, dilation, dilation, bias=False), nn.BatchNorm2d(outputs))
        self.around = nn.Identity() if inputs == outputs and stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, value):
        return functional.relu(self.body(value) + self.around(value))


def residuals(*widths, stride=2, dilation=1):
    return nn.Sequential(*(Residual(before, after, stride if before != after else 1, dilation) for before, after in zip(widths, widths[1:])))


class SuperResolution(nn.Module):
    """(B, 3, n, n) to the same size: twice as fine, then pooled, as the next network takes n."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(convolution(3, 32), *(Residual(32, 32) for _ in range(4)), nn.Conv2d(32, 12, 3, 1, 1), nn.PixelShuffle(2))

    def forward(self, picture):
        return functional.avg_pool2d(torch.sigmoid(self.body(picture)), 2)


class Deblur(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(convolution(3, 24), residuals(24, 48, 48), residuals(48, 48, 48), nn.Upsample(scale_factor=2), nn.Conv2d(48, 3, 3, 1, 1))

    def forward(self, picture):
        return torch.sigmoid(self.body(picture) + picture)


class Segmentation(nn.Module):
    """To 21 classes a point, as pictures of 3 channels for the network after it."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(convolution(3, 32, 2), residuals(32, 64, 64), residuals(64, 64, 64, dilation=2), nn.Conv2d(64, 21, 1))
        self.mix = nn.Conv2d(21, 3, 1)

    def forward(self, picture):
        classes = functional.interpolate(self.body(picture), size=picture.shape[-2:], mode="bilinear")
        return picture * torch.sigmoid(self.mix(classes.softmax(1)))


class Classification(nn.Module):
    """(B, 3, n, n) to (B, 1000)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(convolution(3, 32, 2), residuals(32, 64, 64, 128, 128, 256), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 1000))

    def forward(self, picture):
        return self.body(picture)


class Depth(nn.Module):
    """(B, 3, n, n) to (B, 1, n, n)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(convolution(3, 48, 2), residuals(48, 96, 96, 192), nn.Upsample(scale_factor=4), convolution(192, 48),
                                  nn.Upsample(scale_factor=2), nn.Conv2d(48, 1, 3, 1, 1))

    def forward(self, picture):
        return functional.softplus(self.body(picture))


class Background(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = residuals(3, 32, 32), residuals(32, 64, 64)
        self.join, self.mask = convolution(96, 32), nn.Conv2d(32, 1, 1)

    def forward(self, picture):
        first = self.first(picture)
        inner = functional.interpolate(self.second(first), size=first.shape[-2:])
        mask = functional.interpolate(self.mask(self.join(torch.cat([first, inner], 1))), size=picture.shape[-2:])
        return picture * torch.sigmoid(mask)


NETWORKS = {"super_resolution": SuperResolution, "deblur": Deblur, "segmentation": Segmentation, "classification": Classification, "depth": Depth,
            "background": Background}
# Table 4 of the paper; its fourth application has a branch, of which the longer way is taken here.
APPLICATIONS = {"image_classification": ["super_resolution", "segmentation", "classification"],
                "depth_recognition": ["deblur", "super_resolution", "depth"],
                "background_elimination": ["super_resolution", "deblur", "background"],
                "expanded_classification": ["deblur", "super_resolution", "background", "segmentation", "classification"]}


def make(name):
    """The network, with weights of its own that are the same in every process; one thread, as a stage process has one processor."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED + sorted(NETWORKS).index(name))
    return NETWORKS[name]().eval()


def picture(number):
    """(1, 3, POINTS, POINTS), smooth, the same for the same number and unlike others."""
    coarse = torch.rand((1, 3, 4, 4), generator=torch.Generator().manual_seed(number))
    return functional.interpolate(coarse, size=(POINTS, POINTS), mode="bilinear")


def answer_of(tensor):
    """What a client is told of the last network's output, (1, ...): enough to tell one picture's from another's."""
    flat = tensor.double().flatten()
    return {"shape": list(tensor.shape), "mean": float(flat.mean()), "spread": float(flat.std()), "points": flat[::max(1, len(flat) // 8)][:8].tolist()}
