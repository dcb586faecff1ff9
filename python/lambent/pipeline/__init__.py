"""Functions that are cut into pipelines over slices of GPUs. Standard library only; torch and numpy are used where they are there.

    from lambent.pipeline import Module, Pipeline

    class Deblur(Module):                       # a torch.nn.Module where torch is installed
        def setup(self):                        # once in the process that runs it: load the weights
            self.model = torch.jit.load("deblur.pt")

        def forward(self, image):               # as often as there are requests
            return self.model(image)

    class App(Pipeline):
        slo_ms = 200

        def define_dag(self, image):
            sharp = self.register("deblur", Deblur, image, when=is_blurred)
            return self.register("classify", Classify, sharp)

        def decode(self, event):                # the function's inputs, by name
            return {"image": torch.tensor(event["pixels"], device="cuda")}

        def encode(self, outputs):              # JSON, from the outputs by their component's name
            return {"label": int(outputs["classify"].argmax())}

    python3 -m lambent.pipeline build app.App -o pipeline.json      # what the worker reads
    python3 -m lambent.pipeline profile app.App --event event.json  # times and memory on this slice
    python3 -m lambent.pipeline run app.App --event event.json --processes "deblur;classify"

docs/guides/pipelines.md says more. `Module` is made when it is first asked for: only then is torch imported.
"""
from typing import Any

from .dag import PipelineError
from .module import Component, KernelModule
from .module import shared_device as device
from .app import Pipeline

__all__ = ["Component", "KernelModule", "Module", "Pipeline", "PipelineError", "device"]


def __getattr__(name: str) -> Any:
    if name == "Module":
        from .torch_module import Module

        globals()["Module"] = Module
        return Module
    raise AttributeError("module 'lambent.pipeline' has no attribute %r" % name)
