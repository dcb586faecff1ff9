"""What is in a picture, and where: a residual backbone, then two heads beside each other, a segmentation and a classification.

Event: {"pixels": 3 planes of rows of numbers 0 to 1} or {"picture": a number, from which one is drawn}. The weights come from a seed; a real
pipeline loads them in setup, from a volume.
"""
import torch
from lambent.pipeline import Module, Pipeline
from torch import nn
from torch.nn import functional

CLASSES = 8
POINTS = 64  # of a drawn picture, each way


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.second, self.second_norm = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, value):
        inner = functional.relu(self.first_norm(self.first(value)))
        return functional.relu(self.second_norm(self.second(inner)) + self.around(value))


class Backbone(Module):
    """(1, 3, n, n) to (1, 64, n / 8, n / 8)."""

    def setup(self):
        torch.manual_seed(1)
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Residual(16, 16), Residual(16, 32, 2),
                                  Residual(32, 64, 2))

    def forward(self, picture):
        return self.body(picture)


class Segment(Module):
    """The class of each point of the picture."""

    def setup(self):
        torch.manual_seed(2)
        self.head = nn.Conv2d(64, CLASSES, 1)

    def forward(self, features):
        return functional.interpolate(self.head(features), scale_factor=8, mode="bilinear").argmax(1)


class Classify(Module):
    """The chance of each class."""

    def setup(self):
        torch.manual_seed(3)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, features):
        return self.head(features.mean((2, 3))).softmax(1)


class App(Pipeline):
    slo_scale = 3

    def define_dag(self, picture):
        features = self.register("backbone", Backbone, picture)
        return self.register("segment", Segment, features), self.register("classify", Classify, features)

    def decode(self, event):
        return {"picture": picture_of(event)}

    def encode(self, outputs):
        points = outputs["segment"].flatten().bincount(minlength=CLASSES)
        return {"points": points.tolist(), "chances": [round(chance, 4) for chance in outputs["classify"][0].tolist()]}


def picture_of(event):
    """(1, 3, height, width), of which both are multiples of 8."""
    if "pixels" in event:
        picture = torch.tensor([event["pixels"]], dtype=torch.float32)
        if picture.dim() != 4 or picture.shape[1] != 3 or 0 in picture.shape or picture.shape[2] % 8 or picture.shape[3] % 8:
            raise ValueError("'pixels' has 3 planes, whose height and width are multiples of 8")
        return picture
    coarse = torch.rand((1, 3, 4, 4), generator=torch.Generator().manual_seed(int(event.get("picture", 0))))
    return functional.interpolate(coarse, size=(POINTS, POINTS), mode="bilinear")
