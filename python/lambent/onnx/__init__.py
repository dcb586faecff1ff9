"""Makes kernel functions of models: an ONNX file becomes a graph of CUDA kernels.

    python3 -m lambent.onnx resnet.onnx package
    lambent deploy package

`lambent deploy resnet.onnx --engine kernels` does both. Needs the packages of lambent[onnx]: onnx and
Apache TVM, which writes the kernels; neither a GPU nor a CUDA toolkit.
"""
from typing import Any, List, Optional, Sequence, Tuple

from .errors import ModelError, NotCovered

PRECISIONS = ("", "fp16")

__all__ = ["ModelError", "NotCovered", "import_model"]


def variants_up_to(most: int) -> List[int]:
    """The batch sizes that kernels are made for: powers of two, and the largest."""
    sizes = [1]
    while sizes[-1] * 2 < most:
        sizes.append(sizes[-1] * 2)
    return sizes + [most] if most > 1 else sizes


def import_model(path: str, folder: str, *, name: str = "model", batch: int = 1,
                 shapes: Sequence[str] = (), precision: str = "", most: int = 1,
                 batches: Optional[Tuple[float, float]] = None, **settings: Any) -> str:
    """Writes the package of a kernel function for the model in `path`; says in words what it is.

    `shapes` are of inputs whose dimensions the file leaves open, such as "x=1,3,224,224"; an open
    first dimension is `batch` unless said. `precision` "fp16" keeps weights of 32-bit floating point in
    16 bits; inputs and outputs stay as they are. With `most` above 1 requests have from 1 to so many
    elements of the first dimension, which all inputs and outputs have to leave open: kernels are made
    for several batch sizes, over one copy of the weights. `batches` as emit.save() takes them. `settings` as
    kernels.Graph.save() takes them. ModelError if the file is no model, NotCovered if something in it
    has no kernels, with the place.
    """
    from . import emit, fold, lower, model
    if min(batch, most) < 1:
        raise ModelError("a batch has 1 element at least, not %d" % min(batch, most))
    if precision not in PRECISIONS:
        raise ModelError("there is no precision '%s'; there is fp16, and without one that of the file" % precision)
    programs: List[Any] = []
    for size in variants_up_to(most) if most > 1 else [batch]:
        given = model.parse_shapes(shapes)
        if most > 1:
            given = {word: (size,) + shape[1:] for word, shape in given.items()}
        loaded = model.load(path, given, size, most > 1)
        if precision == "fp16":
            fold.fold_norms(loaded)
            fold.split_clips(loaded)
            model.check_half(loaded)
        programs.append(lower.lower(loaded, precision))
        if most > 1:
            model.check_batches(loaded, programs[-1].output_shapes, size)
            model.check_run(programs[-1].sizes(), size)
    emit.save(programs, loaded, name, folder, batches=batches, **settings)
    words = "" if most == 1 else ", for batches of %s" % ", ".join(map(str, variants_up_to(most)))
    return "%d nodes of ONNX as %d launches of %d kernels%s" % (
        len(loaded.graph.node), sum(len(each.launches) for each in programs),
        sum(len(each.kernels) for each in programs), words)
