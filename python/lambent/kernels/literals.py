"""Datatypes by their names in the Open Inference Protocol, and numbers passed to kernels by value."""
import base64
import math
import struct
import sys
from typing import Any, Callable, Iterable, List, Optional, Union

from .errors import GraphError, did_you_mean

# Bytes of one element, and its letter in module struct (none: no numbers, only bytes).
DATATYPES = {"BYTES": (1, ""), "BOOL": (1, "?"), "UINT8": (1, "B"), "UINT16": (2, "H"),
             "UINT32": (4, "I"), "UINT64": (8, "Q"), "INT8": (1, "b"), "INT16": (2, "h"),
             "INT32": (4, "i"), "INT64": (8, "q"), "FP16": (2, "e"), "BF16": (2, ""),
             "FP32": (4, "f"), "FP64": (8, "d")}

Number = Union[int, float, bool]


def size_of(datatype: str) -> int:
    """Bytes of one element. GraphError for a name that is not known."""
    if datatype not in DATATYPES:
        raise GraphError("there is no datatype %r%s" % (datatype, did_you_mean(datatype, DATATYPES)))
    return DATATYPES[datatype][0]


def pack(datatype: str, values: Iterable[Number]) -> bytes:
    """The numbers, one after the other, little-endian. GraphError for one that does not fit."""
    size_of(datatype)
    letter = DATATYPES[datatype][1]
    if not letter:
        raise GraphError("%s has no numbers of Python; give bytes" % datatype)
    numbers = list(values)
    for number in numbers:
        whole = letter not in "efd?"
        if not isinstance(number, (int, float)) or (whole and isinstance(number, (float, bool))):
            raise GraphError("%r is no value of %s" % (number, datatype))
        if letter == "?" and number not in (0, 1):
            raise GraphError("%r is no value of BOOL" % (number,))
    try:
        return struct.pack("<%d%s" % (len(numbers), letter), *numbers)
    except (struct.error, OverflowError):
        for number in numbers:
            try:
                struct.pack("<" + letter, number)
            except (struct.error, OverflowError):
                raise GraphError("%r is out of range of %s" % (number, datatype)) from None
        raise


def holds(view: memoryview, datatype: str) -> bool:
    """Whether an array's elements are of this datatype, or are bytes, which may be anything.

    Complex numbers are pairs of their parts.
    """
    if datatype == "BYTES" or view.format in ("B", "c"):
        return True
    letter = view.format.lstrip("@=<>!")
    order = view.format[:-len(letter)] or "@"
    if letter in ("Zf", "Zd"):
        letter = letter[1]
    elif letter in ("l", "L"):  # 4 bytes, or 8
        letter = {("l", 4): "i", ("l", 8): "q", ("L", 4): "I", ("L", 8): "Q"}[letter, view.itemsize]
    little = order == "<" or (order in "@=" and sys.byteorder == "little") or view.itemsize == 1
    return little and letter == DATATYPES[datatype][1]


def element_json(datatype: str, data: bytes) -> Any:
    """One element as graph.json has it."""
    letter = DATATYPES[datatype][1]
    if not letter or datatype == "FP16":
        return {"base64": base64.b64encode(data).decode()}
    number = struct.unpack("<" + letter, data)[0]
    if isinstance(number, float) and not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if isinstance(number, float) and number == 0 and math.copysign(1, number) < 0:
        return {"base64": base64.b64encode(data).decode()}
    return number


class Literal:
    """A parameter of a kernel by value: its datatype and its bytes."""

    def __init__(self, datatype: str, data: bytes) -> None:
        if not data or len(data) % size_of(datatype):
            raise GraphError("%d bytes are no %s" % (len(data), datatype))
        self.datatype, self.data = datatype, data

    def json(self) -> Any:
        """As graph.json has it."""
        size = size_of(self.datatype)
        if self.datatype == "BYTES":
            literal: Any = {"base64": base64.b64encode(self.data).decode()}
        else:
            elements: List[Any] = [element_json(self.datatype, self.data[at:at + size])
                                   for at in range(0, len(self.data), size)]
            literal = elements[0] if len(elements) == 1 else elements
        return {"literal": literal, "datatype": self.datatype}

    def __repr__(self) -> str:
        return "Literal(%s, %s)" % (self.datatype, self.data.hex())


def _maker(datatype: str, word: str) -> Callable[..., Literal]:
    def make(*values: Number) -> Literal:
        return Literal(datatype, pack(datatype, values))
    make.__name__ = word
    make.__doc__ = ("One %s, or several for a parameter that holds several, such as a vector type.\n\n"
                    "    GraphError if a number does not fit." % datatype)
    return make


bool8, uint8, int8 = _maker("BOOL", "bool8"), _maker("UINT8", "uint8"), _maker("INT8", "int8")
uint16, int16 = _maker("UINT16", "uint16"), _maker("INT16", "int16")
uint32, int32 = _maker("UINT32", "uint32"), _maker("INT32", "int32")
uint64, int64 = _maker("UINT64", "uint64"), _maker("INT64", "int64")
float32, float64 = _maker("FP32", "float32"), _maker("FP64", "float64")


def complex64(value: complex, imaginary: Optional[float] = None) -> Literal:
    """A float2 or a pair of floats: real part, imaginary part."""
    number = complex(value) if imaginary is None else complex(value, imaginary)
    return float32(number.real, number.imag)


def raw(data: bytes) -> Literal:
    """A structure as its bytes, padding and all."""
    return Literal("BYTES", bytes(data))
