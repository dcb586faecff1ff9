"""The work that every server of bench peers does, as plain Python: one copy for all of them.

An event is {"work": "echo" | "cpu" | "model", ...}; answer(event) is what goes back.
  echo   the event itself
  cpu    10 ms of this thread's CPU time
  model  scores of the rows in event["x"], by onnxruntime with one thread and model.onnx beside this file
"""
import pathlib
import time

CPU_SECONDS = 0.010
_sessions = {}


def session():
    if not _sessions:
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        _sessions["m"] = onnxruntime.InferenceSession(str(pathlib.Path(__file__).resolve().parent / "model.onnx"), options)
    return _sessions["m"]


def scores(x):
    """float32 of (n, 64) to float32 of (n, 16)."""
    return session().run(None, {"x": x})[0]


def answer(event):
    if event["work"] == "cpu":
        end = time.thread_time() + CPU_SECONDS
        while time.thread_time() < end:
            pass
        return {"work": "cpu"}
    if event["work"] == "model":
        import numpy
        return {"scores": scores(numpy.array(event["x"], dtype=numpy.float32)).tolist()}
    return event
