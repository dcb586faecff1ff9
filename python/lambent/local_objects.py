"""LocalObjects: objects through the worker's object socket: sealed memory goes over as a descriptor, so that a get
copies nothing and a put copies once. Linux; the wire is src/core/protocol/object_message.h. Not thread-safe."""
from __future__ import annotations

import array
import errno
import fcntl
import mmap
import os
import re
import socket
from typing import Any

from .errors import CODES, error_of
from .tensor import DATATYPES, Tensor

_ADD_SEALS = 1033
_SEALS = 2 | 4 | 8  # F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE
_NAMES = list(DATATYPES)
_NAME = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[.][0-9]{1,10}", re.IGNORECASE)


def _number(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        size = self.number()
        self._at += size
        return self._data[self._at - size:self._at].decode("utf-8", "replace")


def _encode_name(name: str) -> bytes:
    maker, _, number = name.partition(".")
    if not _NAME.fullmatch(name):
        raise error_of("INVALID_ARGUMENT", "'%s' is no object's id: that is an invocation's, a dot and a number" % name)
    value = int(maker.replace("-", ""), 16)
    return _number(value >> 64) + _number(value & 0xFFFFFFFFFFFFFFFF) + _number(int(number))


def _decode_name(reader: _Reader) -> str:
    high, low, number = reader.number(), reader.number(), reader.number()
    digits = "%016x%016x" % (high, low)
    return "%s-%s-%s-%s-%s.%d" % (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:], number)


def _encode_type(tensor: Tensor) -> bytes:
    return (_number(_NAMES.index(tensor.datatype)) + _number(len(tensor.shape)) +
            b"".join(_number(extent) for extent in tensor.shape))


def sealed_memory(data: Any) -> int:
    """A descriptor of sealed memory with a copy of `data`."""
    fd = os.memfd_create("lambent-object", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(data).cast("B")
        while len(view):
            view = view[os.write(fd, view):]
        fcntl.fcntl(fd, _ADD_SEALS, _SEALS)
        return fd
    except BaseException:
        os.close(fd)
        raise


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


class LocalObjects:
    def __init__(self, path: str) -> None:
        self._path, self._ticket = path, 0
        self._socket: socket.socket | None = _connect(path)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def put(self, tensor: Tensor, ttl: float | None = None, name: str | None = None) -> str:
        fd = sealed_memory(tensor.data)
        try:
            message = (b"\x01" + _encode_name(name) if name else b"\x00") + _encode_type(tensor)
            reader, _ = self._exchange(0, message + _number(0 if ttl is None else max(1, int(ttl * 1000))), [fd])
        finally:
            os.close(fd)
        return _decode_name(reader)

    def get(self, name: str, wait: float = 0.0) -> Tensor:
        reader, fds = self._exchange(1, _encode_name(name) + _number(int(wait * 1000)), [])
        try:
            _decode_name(reader)
            datatype = _NAMES[reader.number()]
            shape = [reader.number() for _ in range(reader.number())]
            size = os.fstat(fds[0]).st_size
            # The mapping lives as long as a view of it does. Not MAP_SHARED: older kernels refuse that for memory
            # that is sealed against writing. What is only read is shared all the same.
            data = mmap.mmap(fds[0], size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) if size else b""
        finally:
            for fd in fds:
                os.close(fd)
        return Tensor(datatype, shape, data)

    def _exchange(self, kind: int, message: bytes, fds: list[int]) -> tuple[_Reader, list[int]]:
        self._ticket += 1
        packet = _number(kind) + _number(self._ticket) + message
        try:
            connection = self._send(packet, fds)
            while True:
                data, received, _, _ = socket.recv_fds(connection, 4096, 4)
                if not data:
                    raise ConnectionResetError(errno.ECONNRESET, "the worker closed the object socket")
                reader = _Reader(data)
                reader.number()
                if reader.number() == self._ticket:
                    break
                # The answer to a call that was interrupted.
                for fd in received:
                    os.close(fd)
        except OSError as error:
            self.close()  # the next call connects again
            raise error_of("UNAVAILABLE", "the object socket: %s" % error) from error
        if reader.number():
            for fd in received:
                os.close(fd)
            code = reader.number()
            raise error_of(CODES[code], reader.text())
        return reader, received

    def _send(self, packet: bytes, fds: list[int]) -> socket.socket:
        """The connection on which the answer comes: another one if the worker has been started again, which has then not seen it."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        if self._socket is not None:
            try:
                self._socket.sendmsg([packet], rights)
                return self._socket
            except (BrokenPipeError, ConnectionResetError):
                self.close()
        self._socket = _connect(self._path)
        self._socket.sendmsg([packet], rights)
        return self._socket
