"""Makes kernel functions of models: an ONNX file becomes a graph of CUDA kernels.

    python3 -m lambent.onnx resnet.onnx package
    lambent deploy package

`lambent deploy resnet.onnx --engine kernels` does both. Needs the packages of lambent[onnx]: onnx and
Apache TVM, which writes the kernels; neither a GPU nor a CUDA toolkit.
"""
from typing import Sequence

from .errors import ModelError, NotCovered

__all__ = ["ModelError", "NotCovered", "import_model"]


def import_model(path: str, folder: str, *, name: str = "model", batch: int = 1,
                 shapes: Sequence[str] = (), **settings) -> str:
    """Writes the package of a kernel function for the model in `path`; says in words what it is.

    `shapes` are of inputs whose dimensions the file leaves open, such as "x=1,3,224,224"; an open
    first dimension is `batch` unless said. `settings` as kernels.Graph.save() takes them. ModelError
    if the file is no model, NotCovered if something in it has no kernels, with the place.
    """
    from . import emit, lower, model
    if batch < 1:
        raise ModelError("a batch has 1 element at least, not %d" % batch)
    loaded = model.load(path, model.parse_shapes(shapes), batch)
    program = lower.lower(loaded)
    emit.save(program, loaded, name, folder, **settings)
    return "%d nodes of ONNX as %d launches of %d kernels" % (
        len(loaded.graph.node), len(program.launches), len(program.kernels))
