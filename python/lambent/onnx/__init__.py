"""Makes kernel functions of models: an ONNX file becomes a graph of CUDA kernels.

    python3 -m lambent.onnx resnet.onnx package
    lambent deploy package

`lambent deploy resnet.onnx --engine kernels` does both. Needs the packages of lambent[onnx]: onnx and
Apache TVM, which writes the kernels; neither a GPU nor a CUDA toolkit.
"""
from typing import Any, Sequence

from .errors import ModelError, NotCovered

PRECISIONS = ("", "fp16")

__all__ = ["ModelError", "NotCovered", "import_model"]


def import_model(path: str, folder: str, *, name: str = "model", batch: int = 1,
                 shapes: Sequence[str] = (), precision: str = "", **settings: Any) -> str:
    """Writes the package of a kernel function for the model in `path`; says in words what it is.

    `shapes` are of inputs whose dimensions the file leaves open, such as "x=1,3,224,224"; an open
    first dimension is `batch` unless said. `precision` "fp16" keeps weights of 32-bit floating point in
    16 bits; inputs and outputs stay as they are. `settings` as kernels.Graph.save() takes them. ModelError
    if the file is no model, NotCovered if something in it has no kernels, with the place.
    """
    from . import emit, fold, lower, model
    if batch < 1:
        raise ModelError("a batch has 1 element at least, not %d" % batch)
    if precision not in PRECISIONS:
        raise ModelError("there is no precision '%s'; there is fp16, and without one that of the file" % precision)
    loaded = model.load(path, model.parse_shapes(shapes), batch)
    if precision == "fp16":
        fold.fold_norms(loaded)
        fold.split_clips(loaded)
        model.check_half(loaded)
    program = lower.lower(loaded, precision)
    emit.save(program, loaded, name, folder, **settings)
    return "%d nodes of ONNX as %d launches of %d kernels" % (
        len(loaded.graph.node), len(program.launches), len(program.kernels))
