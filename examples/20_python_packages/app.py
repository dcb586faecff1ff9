"""Answers with the scores of a small model, which is made when the sandbox starts. A real function would load model.onnx from its
folder: onnxruntime.InferenceSession("/var/task/model.onnx")."""
import numpy
import onnxruntime

from make_model import matrix_model

WEIGHTS = numpy.arange(12, dtype=numpy.float32).reshape(4, 3) / 10
SESSION = onnxruntime.InferenceSession(matrix_model(WEIGHTS), providers=["CPUExecutionProvider"])


def handler(event, context):
    x = numpy.asarray(event["x"], dtype=numpy.float32).reshape(-1, 4)
    (scores,) = SESSION.run(None, {"x": x})
    return {"scores": scores.tolist(), "best": scores.argmax(axis=1).tolist(), "onnxruntime": onnxruntime.__version__}
