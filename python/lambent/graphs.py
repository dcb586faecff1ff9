"""KernelGraph: a graph of kernels that runs without a deployment: its requests bring it along where the worker does not have it.
Made by Client.graph()."""
from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .errors import LambentError
from .http_objects import HttpObjects, error_from
from .tensor import DATATYPES, Tensor, tensor_of

if TYPE_CHECKING:
    from .kernels import Graph

NOT_FOUND = "Graph.NotFound"  # the type of the error of a request whose graph the worker does not have
_MOST_AT_ONCE = 4 << 20  # bytes of inputs, or of outputs, that go with the request itself


class _Buffer:
    def __init__(self, buffer: Mapping[str, Any]) -> None:
        self.name, self.role, self.datatype, self.shape = buffer["name"], buffer["role"], buffer["datatype"], tuple(buffer["shape"])
        self.size_bytes = DATATYPES[self.datatype][0]
        for extent in self.shape:
            self.size_bytes *= extent


class GraphPackage:
    """The zip of a graph, what it is called by, and what it takes and gives."""

    def __init__(self, graph: Graph | bytes | str | os.PathLike[str]) -> None:
        if isinstance(graph, (bytes, bytearray, memoryview)):
            self.content = bytes(graph)
        else:
            from .kernels.archive import pack

            self.content = pack(graph)
        self.digest = hashlib.sha256(self.content).hexdigest()
        with zipfile.ZipFile(io.BytesIO(self.content)) as archive:
            buffers = [_Buffer(each) for each in json.loads(archive.read("graph.json"))["buffers"]]
        self.inputs = [each for each in buffers if each.role in ("input", "in_out")]
        self.outputs = [each for each in buffers if each.role in ("output", "in_out")]

    def fits_a_request(self) -> bool:
        return all(sum(each.size_bytes for each in side) <= _MOST_AT_ONCE for side in (self.inputs, self.outputs))

    def bytes_of(self, inputs: Mapping[str, Any]) -> bytes:
        """Those of all inputs in the graph's order. TypeError names the one that does not fit."""
        unknown = sorted(set(inputs) - {each.name for each in self.inputs})
        if unknown:
            raise TypeError("the graph has no input %r; it has %s" % (unknown[0], ", ".join(each.name for each in self.inputs)))
        content = []
        for buffer in self.inputs:
            if buffer.name not in inputs:
                raise TypeError("input %r is missing" % buffer.name)
            try:
                tensor = tensor_of(inputs[buffer.name])
            except TypeError as error:
                raise TypeError("input %r: %s" % (buffer.name, error)) from None
            fits = tensor.datatype in ("BYTES", buffer.datatype) and len(tensor) == buffer.size_bytes
            if not fits:
                raise TypeError("input %r is %s %s, not %r" % (buffer.name, buffer.datatype, list(buffer.shape), tensor))
            content.append(bytes(tensor))
        return b"".join(content)

    def tensors_of(self, content: bytes) -> dict[str, Tensor]:
        """The outputs in the bytes of all."""
        tensors, begin, view = {}, 0, memoryview(content)
        for buffer in self.outputs:
            tensors[buffer.name] = Tensor(buffer.datatype, buffer.shape, view[begin:begin + buffer.size_bytes])
            begin += buffer.size_bytes
        return tensors


def _multipart(parts: Mapping[str, bytes]) -> tuple[str, bytes]:
    """A content type, and the body."""
    boundary = uuid.uuid4().hex
    body = b"".join(b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (boundary.encode(), name.encode(), content)
                    for name, content in parts.items())
    return "multipart/form-data; boundary=" + boundary, body + b"--%s--\r\n" % boundary.encode()


def send(http: HttpObjects, package: GraphPackage, payload: bytes, raw: bool, headers: Mapping[str, str]) -> bytes:
    """The answer to one request. The package goes along where the worker asks for it."""
    path = "/v1/graphs/%s/invocations" % package.digest
    kind = "application/octet-stream" if raw else "application/json"
    status, answered, body = http.request("POST", path, payload, {**headers, "Content-Type": kind})
    if status == 404 and answered.get("x-lambent-error-type") == NOT_FOUND:
        kind, form = _multipart({"package": package.content, "raw" if raw else "request": payload})
        status, answered, body = http.request("POST", path, form, {**headers, "Content-Type": kind})
    if status >= 300:
        raise error_from(status, answered, body)
    return body


def kept(http: HttpObjects) -> list[dict[str, Any]]:
    graphs: list[dict[str, Any]] = json.loads(http.good("GET", "/v1/graphs")[2])["graphs"]
    return graphs


def forget(http: HttpObjects, package: GraphPackage) -> bool:
    """False: the worker did not have it."""
    try:
        http.good("DELETE", "/v1/graphs/" + package.digest)
    except LambentError as error:
        if error.code != "NOT_FOUND":
            raise
        return False
    return True


def names_of(outputs: str | Iterable[str]) -> list[str]:
    return [outputs] if isinstance(outputs, str) else list(outputs)
