"""Tensor: what an object holds: a datatype of the Open Inference Protocol, a shape, and bytes that are not copied.
Made by `lambent.client` and `lambent.objects`; numpy is used if it is there."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# In the order of the wire (src/core/domain/tensor_type.h); the letters are numpy's.
DATATYPES = {
    "BYTES": (1, "u1"), "BOOL": (1, "?"), "UINT8": (1, "u1"), "UINT16": (2, "u2"), "UINT32": (4, "u4"),
    "UINT64": (8, "u8"), "INT8": (1, "i1"), "INT16": (2, "i2"), "INT32": (4, "i4"), "INT64": (8, "i8"),
    "FP16": (2, "f2"), "BF16": (2, None), "FP32": (4, "f4"), "FP64": (8, "f8"),
}
_NUMPY_NAMES = {"bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
                "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
                "float16": "FP16", "float32": "FP32", "float64": "FP64"}
# Of other buffers, by the letter of their format; bytes and structures are BYTES.
_LETTERS = {"?": "BOOL", "b": "INT8", "h": "INT16", "H": "UINT16", "i": "INT32", "I": "UINT32", "q": "INT64",
            "Q": "UINT64", "e": "FP16", "f": "FP32", "d": "FP64"}


class Tensor:
    """`data` is a memoryview of bytes; it stays valid as long as something refers to it."""

    def __init__(self, datatype: str, shape: Iterable[int], data: Any) -> None:
        self.datatype, self.shape, self.data = datatype, tuple(shape), memoryview(data).cast("B")

    def __len__(self) -> int:
        return len(self.data)

    def __bytes__(self) -> bytes:
        return bytes(self.data)

    def __repr__(self) -> str:
        return "Tensor(%s %s, %d bytes)" % (self.datatype, list(self.shape), len(self.data))

    def numpy(self) -> Any:
        """An array over the same bytes; read-only if they are."""
        import numpy

        letters = DATATYPES[self.datatype][1]
        if letters is None:
            raise TypeError("numpy has no type for %s; use .data" % self.datatype)
        return numpy.frombuffer(self.data, dtype="<" + letters if len(letters) == 2 else letters).reshape(self.shape)


def _datatype_of(view: memoryview) -> str | None:
    """What a buffer's elements are; None for plain bytes, and for what is no number."""
    letter = view.format.lstrip("@=<>!")
    if letter in ("l", "L"):  # 4 bytes, or 8
        letter = {("l", 4): "i", ("l", 8): "q", ("L", 4): "I", ("L", 8): "Q"}[letter, view.itemsize]
    name = _LETTERS.get(letter)
    if name and view.format[0] in ">!" and view.itemsize > 1:
        raise TypeError("no datatype for a buffer of format '%s'" % view.format)
    return name


def tensor_of(data: Any, datatype: str | None = None, shape: Iterable[int] | None = None) -> Tensor:
    """A Tensor over bytes, a numpy array, or anything else with a buffer or the array interface. What has elements
    of its own, such as array.array, keeps their type and shape."""
    if isinstance(data, Tensor):
        return data
    if not isinstance(data, (bytes, bytearray, memoryview)) and hasattr(data, "__array_interface__"):
        import numpy

        array = numpy.ascontiguousarray(data)
        name = _NUMPY_NAMES.get(array.dtype.name)
        if name is None or array.dtype.byteorder == ">":
            raise TypeError("no datatype for a numpy array of %s" % array.dtype)
        # ascontiguousarray makes one dimension of none.
        return Tensor(datatype or name, data.shape if shape is None else shape, array.reshape(-1).view("u1"))
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError("%s has no type of elements: give bytes, an array (array.array, numpy) or what has a buffer"
                        % type(data).__name__) from None
    elements = _datatype_of(view) if datatype is None else None
    if elements is not None:
        datatype, shape = elements, view.shape if shape is None else shape
    if not view.c_contiguous or not view.nbytes:  # neither can be cast
        view = memoryview(bytes(view))
    view = view.cast("B")
    if datatype is None:
        return Tensor("BYTES", (len(view),), view)
    if datatype not in DATATYPES:
        raise ValueError("%r is no datatype; one of %s" % (datatype, ", ".join(DATATYPES)))
    if shape is None:
        size = DATATYPES[datatype][0]
        if len(view) % size:
            raise ValueError("%d bytes are no whole number of %s" % (len(view), datatype))
        shape = (len(view) // size,)
    return Tensor(datatype, shape, view)
