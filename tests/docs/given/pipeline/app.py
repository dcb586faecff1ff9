"""A pipeline with the components of docs/guides/pipelines.md, on numbers instead of images: small enough to be run by a test."""
from lambent.pipeline import Component, Pipeline


class Deblur(Component):
    def forward(self, pixels):
        return [round(pixel, 1) for pixel in pixels]


class SuperResolution(Component):
    def forward(self, pixels):
        return [pixel for pixel in pixels for _ in range(2)]


class Classify(Component):
    def forward(self, pixels):
        return int(sum(pixels) > len(pixels) / 2)


class App(Pipeline):
    slo_ms = 200

    def define_dag(self, image):
        sharp = self.register("deblur", Deblur, image, when=lambda pixels: len(pixels) > 1)
        large = SuperResolution.reg(self, sharp)
        return self.register("classify", Classify, large)

    def decode(self, event):
        return {"image": event["pixels"]}

    def encode(self, outputs):
        return {"label": outputs["classify"]}
