"""The work behind Triton, by nvidia-pytriton: an event as one BYTES tensor, a model's rows as FP32. Usage: triton_app.py PORT PROCESSES FOLDER"""
import json
import pathlib
import sys

import numpy
import work
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


@batch
def events(event):
    return {"answer": numpy.array([[json.dumps(work.answer(json.loads(row[0]))).encode()] for row in event], dtype=object)}


@batch
def model(x):
    return {"scores": work.scores(x)}


if __name__ == "__main__":
    port, processes = int(sys.argv[1]), int(sys.argv[2])
    config = TritonConfig(http_address="127.0.0.1", http_port=port, allow_grpc=False, allow_metrics=False, log_verbose=0)
    with Triton(config=config, workspace=pathlib.Path(sys.argv[3]) / "triton") as triton:
        triton.bind("event", [events] * processes, inputs=[Tensor(name="event", dtype=bytes, shape=(1,))],
                    outputs=[Tensor(name="answer", dtype=bytes, shape=(1,))], config=ModelConfig(max_batch_size=8))
        triton.bind("m", [model] * processes, inputs=[Tensor(name="x", dtype=numpy.float32, shape=(64,))],
                    outputs=[Tensor(name="scores", dtype=numpy.float32, shape=(16,))], config=ModelConfig(max_batch_size=32))
        triton.serve()
