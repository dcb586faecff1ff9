"""What a component of a pipeline is: Component, and KernelModule, whose forward launches kernels of bundles."""
import os
import re
import sys
from typing import Any, Callable, Optional


class Component:
    """The plain one, without torch. setup() loads what forward() needs, once; forward(*inputs) gets the values of one request
    and returns one: a tensor (torch, numpy, lambent_cuda.Tensor), bytes, what JSON can say, or dicts, lists and tuples of these."""

    # Whether forward can be given several requests at once: their tensors one after the other along the first dimension.
    # What it returns must have as many rows as it was given, and is split again.
    batches = False

    def setup(self) -> None:
        pass

    def forward(self, *inputs: Any) -> Any:
        raise NotImplementedError("%s has no forward" % type(self).__name__)

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)

    @classmethod
    def reg(cls, pipeline: Any, *inputs: Any, name: Optional[str] = None, when: Optional[Callable[..., Any]] = None,
            **arguments: Any) -> Any:
        """Deblur.reg(self, image): as self.register("deblur", Deblur, image)."""
        return pipeline.register(name or snake_case(cls.__name__), cls, *inputs, when=when, **arguments)


class KernelModule(Component):
    """A component of CUDA kernels: inputs on the device are lambent_cuda.Tensor, and so is what forward returns.

        class Blur(KernelModule):
            bundle = "bundles/image"            # a folder of the package, made by lambent-bundle

            def setup(self) -> None:
                self.blur = self.kernel("blur")

            def forward(self, image: Any) -> Any:
                blurred = self.device.tensor("float32", image.shape)
                self.blur(grid=..., block=256, args=[image, blurred, cuda.uint32(image.count)])
                return blurred
    """

    bundle: Optional[str] = None

    @property
    def device(self) -> Any:
        """The device of this process: lambent_cuda.Device."""
        return shared_device()

    def kernel(self, name: str, bundle: Optional[str] = None) -> Any:
        """A kernel of the component's bundle, or of another folder of the package."""
        return self.load(bundle).kernel(name)

    def load(self, bundle: Optional[str] = None) -> Any:
        folder = bundle or self.bundle
        if folder is None:
            raise ValueError("%s: no bundle is given" % type(self).__name__)
        loaded = self.__dict__.setdefault("_bundles", {})
        if folder not in loaded:
            loaded[folder] = self.device.load(os.path.join(task_root(), folder))
        return loaded[folder]


def snake_case(name: str) -> str:
    """"SuperResolution" -> "super_resolution"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def task_root() -> str:
    """Where the package lies."""
    return os.environ.get("LAMBDA_TASK_ROOT", ".")


_device: Any = None


def device_is_made() -> bool:
    """Whether shared_device() was called in this process."""
    return _device is not None


def shared_device() -> Any:
    """The lambent_cuda.Device of the process, one for all its components and for decode(): lambent.pipeline.device()."""
    global _device
    if _device is None:
        import lambent_cuda

        _device = lambent_cuda.Device()  # type: ignore[no-untyped-call]
    return _device


def join_device() -> None:
    """For a thread beside the one that loaded the components: what it asks of the device does not wait for what is at work there."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_available():
        torch.cuda.set_stream(torch.cuda.Stream())
        torch.cuda.current_stream().synchronize()  # and has the context from then on


def complete_own_work() -> None:
    """Waits for what this thread has begun on a stream of its own: another thread goes on with it."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_available():
        if torch.cuda.current_stream() != torch.cuda.default_stream():
            torch.cuda.current_stream().synchronize()
