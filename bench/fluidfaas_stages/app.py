"""One application of the paper as a pipeline of PyTorch networks; application.json beside it names them."""
import json
import os

import networks
from lambent.pipeline import Module, Pipeline

with open(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "application.json"), encoding="utf-8") as file:
    PARTS = json.load(file)


class Network(Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def setup(self):
        self.model = networks.make(self.network)

    def forward(self, value):
        return self.model(value)


class App(Pipeline):
    def define_dag(self, value):
        for name in PARTS:
            value = self.register(name, Network, value, network=name)
        return value

    def decode(self, event):
        return {"value": networks.picture(event["number"])}

    def encode(self, outputs):
        return networks.answer_of(next(iter(outputs.values())))
