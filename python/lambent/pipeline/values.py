"""What components hand each other: tensors, bytes, what JSON can say, and dicts, lists and tuples of these; taken apart into the
entries that a channel carries (src/gpu/stage_channel), and put together again. Nothing is pickled."""
import ctypes
import json
import sys
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from .module import shared_device

# By the numbers of src/gpu/stage_channel/datatypes.h.
DATATYPES = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16",
             "float32", "float64", "complex64", "complex128")
NUMBERS = {name: number for number, name in enumerate(DATATYPES, 1)}

# What the sender held a tensor in; the receiver makes the same, where it can.
TORCH_DEVICE, TORCH_HOST, CUDA, NUMPY, BYTES = 1, 2, 3, 4, 5

MOST_DIMENSIONS = 8

# For who asks which work on the device a copy has to follow: none (src/gpu/stage_channel/c_api.h).
NO_STREAM = (1 << 64) - 1


class ValueRefused(TypeError):
    """A value that cannot be handed to another process."""


class Failed:
    """The value of a request that failed: who needs it fails with the same error."""

    def __init__(self, error_type: Any, message: Any) -> None:
        # As UTF-8 can say it: a lone surrogate in the text of one request's error must not spoil the answer of all.
        self.error_type, self.message = _sayable(error_type), _sayable(message)

    def to_json(self) -> Dict[str, str]:
        return {"errorType": self.error_type, "errorMessage": self.message}

    def __repr__(self) -> str:
        return "Failed(%s: %s)" % (self.error_type, self.message)


def _sayable(text: Any) -> str:
    return str(text).encode("utf-8", "replace").decode()


def failed_by(error: BaseException, where: str = "") -> Failed:
    """The Failed of an exception, whose __str__ may fail too."""
    try:
        words = str(error)
    except Exception as failure:
        words = "(the __str__ of %s raised %s)" % (type(error).__name__, type(failure).__name__)
    return Failed(type(error).__name__, where + words)


class Leaf:
    """Where the bytes of a tensor are: contiguous, at `address` of the host or of the device. `owner` keeps them there. `is_copy`: work
    on `stream` that was begun for this leaf has yet to put them there."""

    def __init__(self, owner: Any, container: int, datatype: int, shape: Iterable[int], nbytes: int, address: Optional[int],
                 on_device: bool, stream: int = 0, is_copy: bool = False) -> None:
        self.owner, self.container, self.datatype = owner, container, datatype
        self.shape, self.nbytes, self.address = tuple(shape), nbytes, address
        self.on_device, self.stream, self.is_copy = on_device, stream, is_copy
        if len(self.shape) > MOST_DIMENSIONS:
            raise ValueRefused("a tensor of %d dimensions; at most %d can be handed on" %
                               (len(self.shape), MOST_DIMENSIONS))


def leaf_of(value: Any) -> Optional[Leaf]:
    """A Leaf, or None if the value is no tensor."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
        return Leaf(data, BYTES, NUMBERS["uint8"], (len(data),), len(data), address, False)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_leaf(torch, value)
    cuda = sys.modules.get("lambent_cuda")
    if cuda is not None and isinstance(value, cuda.Tensor):
        value.device.join()  # this thread copies it
        return Leaf(value, CUDA, NUMBERS[value.datatype], value.shape, value.nbytes, value.pointer.value, True)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _numpy_leaf(numpy, value)
    return None


def _torch_leaf(torch: Any, value: Any) -> Leaf:
    name = str(value.dtype).replace("torch.", "")
    if name not in NUMBERS:
        raise ValueRefused("a tensor of %s cannot be handed on" % value.dtype)
    if value.device.type not in ("cuda", "cpu"):
        raise ValueRefused("a tensor on %s cannot be handed on" % value.device)
    if str(value.layout) != "torch.strided" or getattr(value, "is_nested", False):
        layout = "torch.nested" if str(value.layout) == "torch.strided" else value.layout
        raise ValueRefused("a tensor of the layout %s cannot be handed on: hand on to_dense(), or its parts" % layout)
    held = value.detach().resolve_conj().resolve_neg().contiguous()  # bytes as they are meant
    on_device = held.device.type == "cuda"
    stream = torch.cuda.current_stream(held.device).cuda_stream if on_device else 0
    return Leaf(held, TORCH_DEVICE if on_device else TORCH_HOST, NUMBERS[name], held.shape,
                held.numel() * held.element_size(), held.data_ptr(), on_device, stream, held.data_ptr() != value.data_ptr())


def _numpy_leaf(numpy: Any, value: Any) -> Leaf:
    array = numpy.asarray(value)
    shape = array.shape
    array = numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    if array.dtype.name not in NUMBERS:
        raise ValueRefused("a numpy array of %s cannot be handed on" % array.dtype)
    return Leaf(array, NUMPY, NUMBERS[array.dtype.name], shape, array.nbytes, array.ctypes.data, False)


def room_for(container: int, datatype: int, shape: Tuple[int, ...], nbytes: int) -> Tuple[Leaf, Callable[[], Any]]:
    """(Leaf to copy the bytes of such a tensor to, function that makes the value once they are there)."""
    name = DATATYPES[datatype - 1]
    if container in (TORCH_DEVICE, TORCH_HOST):
        import torch

        on_device = container == TORCH_DEVICE and torch.cuda.is_available()
        tensor = torch.empty(shape, dtype=getattr(torch, name), device="cuda" if on_device else "cpu")
        stream = torch.cuda.current_stream().cuda_stream if on_device else 0
        return Leaf(tensor, container, datatype, shape, nbytes, tensor.data_ptr(), on_device, stream), lambda: tensor
    if container == CUDA:
        # Nothing under way on the device can know of memory that was allocated just now.
        buffer = shared_device().tensor(name, shape)
        return Leaf(buffer, container, datatype, shape, nbytes, buffer.pointer.value, True, NO_STREAM), lambda: buffer
    if container == NUMPY:
        import numpy

        array = numpy.empty(shape, dtype=name)
        return Leaf(array, container, datatype, shape, nbytes, array.ctypes.data, False), lambda: array
    # Bytes, and whatever a container that is unknown here held.
    data = ctypes.create_string_buffer(max(1, nbytes))
    return (Leaf(data, BYTES, datatype, shape, nbytes, ctypes.addressof(data), False),
            lambda: ctypes.string_at(ctypes.addressof(data), nbytes))


def take_apart(value: Any) -> Tuple[Optional[bytes], List[Leaf]]:
    """(None, [Leaf]) of a tensor; (text, [Leaf, ...]) of anything else: JSON in which tensors are {"$tensor": n}."""
    leaf = leaf_of(value)
    if leaf is not None:
        return None, [leaf]
    leaves: List[Leaf] = []
    try:
        text = json.dumps(_skeleton(value, leaves, 0), ensure_ascii=False, allow_nan=True).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueRefused("a value of type %s cannot be handed on: %s" % (type(value).__name__, error)) from None
    return text, leaves


def _skeleton(value: Any, leaves: List[Leaf], depth: int) -> Any:
    if depth > 100:
        raise ValueError("it is nested too deeply")
    if value is None or type(value) in (bool, int, float, str):
        return value
    leaf = leaf_of(value)
    if leaf is not None:
        leaves.append(leaf)
        return {"$tensor": len(leaves) - 1}
    if isinstance(value, (int, float, str)):  # not before: some of numpy's scalars are these
        return value
    if isinstance(value, tuple):
        return {"$tuple": [_skeleton(part, leaves, depth + 1) for part in value]}
    if isinstance(value, list):
        return [_skeleton(part, leaves, depth + 1) for part in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _skeleton(part, leaves, depth + 1) for key, part in value.items()}
        return {"$dict": [[_skeleton(key, leaves, depth + 1), _skeleton(part, leaves, depth + 1)]
                          for key, part in value.items()]}
    raise TypeError("it holds a %s, which is neither a tensor nor JSON" % type(value).__name__)


def put_together(text: bytes, tensors: List[Any]) -> Any:
    """The value whose skeleton this is."""
    try:
        return _value(json.loads(text), tensors)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueRefused("the text of a value makes no sense: %s" % error) from None


def _value(skeleton: Any, tensors: List[Any]) -> Any:
    if isinstance(skeleton, list):
        return [_value(part, tensors) for part in skeleton]
    if not isinstance(skeleton, dict):
        return skeleton
    if "$tensor" in skeleton:
        position = skeleton["$tensor"]
        if not isinstance(position, int) or not 0 <= position < len(tensors):
            raise LookupError("there is no tensor %r" % (position,))
        return tensors[position]
    if "$tuple" in skeleton:
        return tuple(_value(part, tensors) for part in skeleton["$tuple"])
    if "$dict" in skeleton:
        return {_value(key, tensors): _value(part, tensors) for key, part in skeleton["$dict"]}
    return {key: _value(part, tensors) for key, part in skeleton.items()}


def size_of(value: Any) -> Tuple[int, int]:
    """(bytes of its tensors, those of them that lie on the device)."""
    _, leaves = take_apart(value)
    return sum(leaf.nbytes for leaf in leaves), sum(leaf.nbytes for leaf in leaves if leaf.on_device)


def as_json(value: Any) -> Any:
    """The value with its tensors as nested lists."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes are no JSON: write encode()")
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [as_json(part) for part in value]
    if isinstance(value, dict):
        return {key: as_json(part) for key, part in value.items()}
    return value


def rows_of(value: Any) -> Optional[int]:
    """The first dimension of a tensor that has one; None of anything else."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return None
    leaf = leaf_of(value)
    return leaf.shape[0] if leaf is not None and leaf.shape else None


def joined(tensors: List[Any]) -> Any:
    """Tensors of several requests as one, along the first dimension; ValueError or TypeError if they do not fit together."""
    kinds = {type(tensor) for tensor in tensors}
    if len(kinds) != 1:
        raise TypeError("tensors of different kinds")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensors[0], torch.Tensor):
        return torch.cat(tensors)
    cuda = sys.modules.get("lambent_cuda")
    if cuda is not None and isinstance(tensors[0], cuda.Tensor):
        return cuda.concatenate(tensors)
    return sys.modules["numpy"].concatenate(tensors)


def parted(value: Any, rows: List[int]) -> List[Any]:
    """What a batch returned, for each request: `rows` says how many rows are whose."""
    if rows_of(value) != sum(rows):
        raise ValueError("a batch of %d rows came back as %r" % (sum(rows), rows_of(value)))
    cuda = sys.modules.get("lambent_cuda")
    parts, begin = [], 0
    for count in rows:
        end = begin + count
        is_ours = cuda is not None and isinstance(value, cuda.Tensor)
        parts.append(value.rows(begin, end) if is_ours else value[begin:end])
        begin = end
    return parts
