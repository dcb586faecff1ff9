"""HttpObjects: objects over HTTP, for `lambent.client` (under /v1) and `lambent.objects` (under a handler's Runtime API).
Not thread-safe."""
from __future__ import annotations

import http.client
import json
import os
import re
import socket
import time
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from .errors import LambentError, error_of
from .tensor import Tensor

if TYPE_CHECKING:
    import ssl

    from .contexts import Credentials

MOST_BYTES = 64 << 20  # of one request or answer
_VARIABLES = ("LAMBENT_CA", "LAMBENT_CLIENT_CERTIFICATE", "LAMBENT_CLIENT_KEY")
_NOT_BEGUN = ("RESOURCE_EXHAUSTED", "UNAVAILABLE")  # with a time to come again: the worker has run nothing of the request
_QUIET = 30.0  # seconds after which a kept connection is not used again: the worker ends it after 75


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None = None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def endpoint_parts(endpoint: str) -> tuple[str, str, int]:
    """(scheme, host or path, port) of http://HOST:PORT, https://HOST:PORT or unix:PATH. The scheme is http and the port its usual one unless
    said, as the command takes them; InvalidArgument says what is wrong."""
    if endpoint.startswith("unix:"):
        path = endpoint[5:].removeprefix("//")
        if path:
            return "unix", path, 0
        reason = "the path is missing"
    else:
        scheme = "https" if endpoint.startswith("https://") else "http"
        found = re.fullmatch(r"(?:https?://)?(\[[^\]/]+\]|[^:/\[\]\s]+)(?::([0-9]{1,5}))?/?", endpoint)
        port = int(found[2] or (443 if scheme == "https" else 80)) if found else 0
        if found and 0 < port < 65536:
            return scheme, found[1].strip("[]"), port
        reason = "the port is not from 1 to 65535" if found else "the host is missing, or what follows it is no port"
    raise error_of("INVALID_ARGUMENT", "%r is not an endpoint such as http://127.0.0.1:8980, https://node.example:8980 or "
                   "unix:/run/lambent.sock: %s" % (endpoint, reason))


def connect(endpoint: str, credentials: Credentials | None = None) -> http.client.HTTPConnection:
    scheme, host, port = endpoint_parts(endpoint)
    if scheme == "unix":
        return UnixConnection(host)
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, context=_tls_context(credentials))
    return http.client.HTTPConnection(host, port)


def _tls_context(credentials: Credentials | None) -> ssl.SSLContext:
    """Verifies the worker against these authorities, or those of this machine, and shows this certificate. Without any: LAMBENT_CA and
    LAMBENT_CLIENT_CERTIFICATE."""
    import ssl  # here, because it is slow to load and handlers do not need it

    ca, certificate, key = credentials or (os.environ.get(name) or None for name in _VARIABLES)
    context = ssl.create_default_context(cafile=ca)
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


def error_from(status: int, headers: Mapping[str, str], body: bytes) -> LambentError:
    try:
        told = json.loads(body)["error"]
        error = error_of(told["code"], told["message"])
    except (ValueError, KeyError, TypeError):
        message = headers.get("x-amzn-errortype", "") + " " + body[:2000].decode("utf-8", "replace")
        message = "HTTP %d %s" % (status, message.strip())
        # Of an answer under Lambda's paths the worker says which of our codes it stands for.
        error = error_of(headers["x-lambent-code"], message) if "x-lambent-code" in headers else LambentError(message)
    # A proxy may say so too, of a request that the worker had begun.
    if status in (429, 503) and error.code in _NOT_BEGUN:
        error.retry_after = retry_after_of(headers)
    return error


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Seconds; `retry-after-ms` is the finer one."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", headers.get(name, "")):
            return float(headers[name]) * unit
    return None


class HttpObjects:
    """`headers`: what goes with every request, such as who sends it."""

    def __init__(self, endpoint: str, prefix: str, headers: Mapping[str, str] | None = None,
                 credentials: Credentials | None = None) -> None:
        self._endpoint, self._prefix, self._used, self._credentials = endpoint, prefix, 0.0, credentials
        self._connection: http.client.HTTPConnection | None = None
        self._headers = dict(headers or {})

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(self, method: str, path: str, body: Any = None,
                headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """(status, headers with lower-case names, body). What a kept connection's other end closed is sent once more
        where that can do no harm."""
        if time.monotonic() - self._used > _QUIET:
            self.close()
        while True:
            kept = self._connection is not None
            try:
                connection = self._connection or connect(self._endpoint, self._credentials)
                self._connection, self._used = connection, time.monotonic()
                connection.request(method, path, body, {**self._headers, **(headers or {})})
                response = connection.getresponse()
                return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                self.close()
                if kept and method in ("GET", "HEAD"):
                    continue
                raise error_of("UNAVAILABLE", "%s: %s" % (self._endpoint, error)) from error
            except (OSError, http.client.HTTPException) as error:
                self.close()
                raise error_of("UNAVAILABLE", "%s: %s" % (self._endpoint, error)) from error

    def stream(self, method: str, path: str, body: Any = None,
               headers: Mapping[str, str] | None = None) -> Generator[bytes, None, None]:
        """The bytes of a good answer as they come, over a connection of its own, which ends with the iterator. LambentError where
        the answer is none."""
        connection = connect(self._endpoint, self._credentials)
        try:
            connection.request(method, path, body, {**self._headers, **(headers or {})})
            response = connection.getresponse()
            if response.status >= 300:
                raise error_from(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
            while True:
                piece = response.read1(1 << 16)
                if not piece:
                    return
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise error_of("UNAVAILABLE", "%s: %s" % (self._endpoint, error)) from error
        finally:
            connection.close()

    def good(self, method: str, path: str, body: Any = None,
             headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        status, headers, body = self.request(method, path, body, headers)
        if status >= 300:
            raise error_from(status, headers, body)
        return status, headers, body

    def put(self, tensor: Tensor, ttl: float | None = None, name: str | None = None) -> str:
        if len(tensor) > MOST_BYTES:
            raise error_of("OUT_OF_RANGE", "over HTTP an object has at most 64 MiB, this one has %d bytes" % len(tensor))
        headers = {"Content-Type": "application/octet-stream", "X-Lambent-Datatype": tensor.datatype,
                   "X-Lambent-Shape": "[%s]" % ",".join(map(str, tensor.shape))}
        if ttl is not None:
            headers["X-Lambent-Ttl"] = "%.3f" % ttl
        if name is None:
            _, _, body = self.good("POST", self._prefix, tensor.data, headers)
        else:
            _, _, body = self.good("PUT", "%s/%s" % (self._prefix, name), tensor.data, headers)
        stored: str = json.loads(body)["object"]
        return stored

    def get(self, name: str, wait: float = 0.0) -> Tensor:
        path = "%s/%s" % (self._prefix, name)
        try:
            headers: dict[str, str]
            body: bytes | bytearray
            _, headers, body = self.good("GET", "%s?wait=%.3f" % (path, wait))
        except LambentError as error:
            if error.code != "OUT_OF_RANGE":
                raise
            # Or its producer failed so: then this says it again.
            headers, body = self._get_in_parts(path, error)
        return Tensor(headers["x-lambent-datatype"], json.loads(headers["x-lambent-shape"]), body)

    def _get_in_parts(self, path: str, reason: LambentError) -> tuple[dict[str, str], bytes | bytearray]:
        _, headers, _ = self.good("HEAD", path)
        if headers.get("x-lambent-state") != "exists":
            raise reason
        size = int(headers["x-lambent-bytes"])
        whole = bytearray(size)
        for begin in range(0, size, MOST_BYTES):
            end = min(begin + MOST_BYTES, size)
            _, _, part = self.good("GET", path, None, {"Range": "bytes=%d-%d" % (begin, end - 1)})
            whole[begin:end] = part
        return headers, whole

    def remove(self, name: str) -> None:
        self.good("DELETE", "%s/%s" % (self._prefix, name))
