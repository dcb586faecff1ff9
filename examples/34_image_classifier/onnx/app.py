"""Classifies a picture by onnxruntime: {"image": base64 of a PNG or JPEG}."""
import base64
import io

import numpy
import onnxruntime
from PIL import Image

LABELS = ["circle", "cross", "square", "triangle"]
SESSION = onnxruntime.InferenceSession("/var/task/classifier.onnx", providers=["CPUExecutionProvider"])


def handler(event, context):
    picture = Image.open(io.BytesIO(base64.b64decode(event["image"]))).convert("L").resize((32, 32))
    pixels = numpy.asarray(picture, dtype=numpy.float32)[None, None] / 255
    (probabilities,) = SESSION.run(None, {"image": pixels})
    return {"label": LABELS[int(probabilities[0].argmax())],
            "probabilities": {label: round(float(each), 4) for label, each in zip(LABELS, probabilities[0])}}
