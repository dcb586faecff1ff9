"""Module: a torch.nn.Module that is a component, where torch is installed; else Component under that name."""
from typing import Any

from .module import Component

try:
    import torch
except ImportError:
    torch = None

if torch is None:

    class Module(Component):
        """A component. torch is not installed: a plain class."""
else:

    class Module(torch.nn.Module):  # type: ignore[no-redef]
        """A model: change the base class from torch.nn.Module to this one. After setup() it is moved to the device that the
        process sees, if it sees one, and set to eval(); forward runs without gradients."""

        batches = False
        reg: Any = classmethod(Component.reg.__func__)  # type: ignore[attr-defined]

        def setup(self) -> None:
            pass

        def after_setup(self) -> None:
            if torch.cuda.is_available():
                self.to("cuda")
            self.eval()

        def lambent_run(self, *inputs: Any) -> Any:
            with torch.inference_mode():
                return self(*inputs)
