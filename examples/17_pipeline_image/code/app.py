"""Finds the bright parts of an image, in a picture twice its size: blur -> (enlarge, brightness) -> threshold.

Event: {"pixels": rows of numbers 0 to 1} or {"size": n, "noise": 0 to 1}; "check": true to compare with the CPU.
"""
import array

import lambent_cuda as cuda
from lambent.pipeline import KernelModule, Pipeline, device

from reference import noisy_disk, threshold_on_cpu


class Filter(KernelModule):
    """A component of one kernel, which has its class's name."""

    bundle = "bundles/image_filters"

    def setup(self):
        self.launch = self.kernel(type(self).__name__.lower())

    def run_over(self, count, *arguments):
        self.launch(grid=(count + 127) // 128, block=128, args=arguments)


class Blur(Filter):
    def forward(self, image):
        height, width = image.shape
        blurred = self.device.tensor("float32", image.shape)
        self.run_over(image.count, image, blurred, cuda.uint32(height), cuda.uint32(width))
        return blurred


class Enlarge(Filter):
    def forward(self, image):
        height, width = image.shape
        enlarged = self.device.tensor("float32", (2 * height, 2 * width))
        self.run_over(enlarged.count, image, enlarged, cuda.uint32(height), cuda.uint32(width))
        return enlarged


class Brightness(Filter):
    """A number, not a tensor: what JSON can say goes from lane to lane as well."""

    def setup(self):
        self.launch = self.kernel("row_sums")

    def forward(self, image):
        height, width = image.shape
        sums = self.device.tensor("float32", (height,))
        self.run_over(height, image, sums, cuda.uint32(height), cuda.uint32(width))
        return sum(sums.array()) / image.count


class Threshold(Filter):
    def forward(self, image, level):
        mask = self.device.tensor("uint8", image.shape)
        self.run_over(image.count, image, mask, cuda.float32(level), cuda.uint32(image.count))
        return mask


def is_noisy(image):
    """Whether neighbours differ by a twentieth or more, on average."""
    pixels, width = image.array(), image.shape[1]
    differences = [abs(pixels[i] - pixels[i - 1]) for i in range(len(pixels)) if i % width]
    return bool(differences) and sum(differences) / len(differences) >= 0.05


class App(Pipeline):
    slo_scale = 2
    batch = 4

    def define_dag(self, image):
        smooth = self.register("blur", Blur, image, when=is_noisy)
        large = self.register("enlarge", Enlarge, smooth)
        level = self.register("brightness", Brightness, smooth)
        return self.register("threshold", Threshold, large, level)

    def decode(self, event):
        rows = pixels_of(event)
        flat = array.array("f", [pixel for row in rows for pixel in row])
        return {"image": device().tensor("float32", (len(rows), len(rows[0])), flat)}

    def encode(self, outputs, event):
        rows = outputs["threshold"].tolist()
        answer = {"height": len(rows), "width": len(rows[0]), "bright": sum(map(sum, rows))}
        if len(rows) <= 64:
            answer["picture"] = ["".join(".#"[pixel] for pixel in row) for row in rows]
        if event.get("check"):
            # One that lies on the edge may fall to either side: sums are rounded in another order.
            expected = threshold_on_cpu(pixels_of(event))
            answer["correct"] = all(pixel == value or value is None
                                    for row, values in zip(rows, expected) for pixel, value in zip(row, values))
        return answer


def pixels_of(event):
    rows = event["pixels"] if "pixels" in event else noisy_disk(int(event.get("size", 16)), float(event.get("noise", 0)))
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("'pixels' is a list of rows of the same length, at least 1")
    return rows
