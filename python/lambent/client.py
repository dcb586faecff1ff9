"""Client: functions and objects of a worker, from Python. Standard library only; one thread at a time.

    client = Client()
    square = client.function("square")
    x = client.put(array)
    y = square.remote(x=x)           # runs when x is there; y is a reference, at once
    z = square.remote(x=y)           # runs when y is there
    print(z.json())                  # waits
"""
from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Generator, Iterable
from typing import Any
from urllib.parse import quote

from .contexts import resolve
from . import graphs
from .errors import FunctionError, LambentError, error_of
from .http_objects import HttpObjects, error_from
from .local_objects import LocalObjects
from .tensor import Tensor, tensor_of
from .volumes import Volumes

_MOST_WAIT = 600.0  # seconds of one request; longer waits are several


def _identity(token: Any, tenant: Any) -> dict[str, str]:
    """The headers that say who sends a request. No error shows the token."""
    headers = {}
    if token:
        token = token.strip()
        if not re.fullmatch("[!-~]+", token):
            raise error_of("INVALID_ARGUMENT", "the token is no single word: it begins with lambent_")
        headers["Authorization"] = "Bearer " + token
    if tenant:
        headers["X-Lambent-Tenant"] = tenant
    return headers


class ObjectRef:
    """An object that exists, or will: hand it to functions, or get() it."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self.id = client, name

    def __repr__(self) -> str:
        return "ObjectRef(%s)" % self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectRef) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def get(self, timeout: float = 3600.0) -> Tensor:
        """A Tensor; waits for it. Raises what its producer failed with."""
        return self._client.get(self, timeout)

    def json(self, timeout: float = 3600.0) -> Any:
        """The answer of a handler."""
        return json.loads(bytes(self.get(timeout)))

    def remove(self) -> None:
        self._client.remove(self)


class Function:
    """A deployed function; a handler or a kernel function alike."""

    def __init__(self, client: Client, name: str, ttl: float | None = None, keep: str = "host") -> None:
        if keep not in ("host", "device"):
            raise ValueError("keep is 'host' or 'device', not %r" % (keep,))
        self._client, self.name, self.ttl, self.keep = client, name, ttl, keep
        self._kind: str | None = None

    @property
    def kind(self) -> str:
        if self._kind is None:
            self._kind = self._client.kind_of(self.name)
        return self._kind

    def remote(self, *event: Any, outputs: Any = (), **inputs: Any) -> Any:
        """Runs it as soon as the references among its inputs are there; references to what it makes.

        A handler gets one event: the argument, or the keywords as an object. References in it, however deep, become
        {"object": id}; arrays and bytes are put first. Its answer is the one object.

        A kernel function gets its inputs by keyword. `outputs` names those buffers that become objects, in order; one
        reference for one (which may be named without a list), a list for more. Inputs that are no references become
        objects that end with the call: no other call knows them.
        """
        if len(event) > 1 or (event and inputs):
            raise TypeError("one event, or inputs by keyword")
        if self.kind == "kernel":
            return self._run_kernels(inputs, outputs)
        if outputs:
            raise TypeError("a handler has one output: its answer")
        needs: list[ObjectRef] = []
        payload = json.dumps(self._client.encode(event[0] if event else inputs, needs))
        return self._client.submit(self.name, payload, needs, ttl=self.ttl)[0]

    def __call__(self, *event: Any, outputs: Any = (), **inputs: Any) -> Any:
        """Runs it and waits: the answer of a handler; of a kernel function the tensors of these outputs, one or a list.
        No object is left of them."""
        made = self.remote(*event, outputs=outputs, **inputs)
        several = made if isinstance(made, list) else [made]
        try:
            if self.kind != "kernel":
                return made.json()
            tensors = [each.get() for each in several]
            return tensors if isinstance(made, list) else tensors[0]
        finally:
            self._client.release(several)

    def _run_kernels(self, inputs: Any, outputs: Any) -> Any:
        if isinstance(outputs, str):
            outputs = (outputs,)
        if not outputs:
            raise TypeError("a kernel function needs the names of its outputs, such as outputs=['y']")
        references, own = {}, []
        try:
            for name, value in inputs.items():
                if not isinstance(value, ObjectRef):
                    try:
                        value = self._client.put(value)
                    except TypeError as error:
                        raise TypeError("input %r: %s" % (name, error)) from None
                    own.append(value)
                references[name] = value
            kept = {"object": True, **({"keep": self.keep} if self.keep != "host" else {})}
            request = {"inputs": [{"name": name, "parameters": {"object": reference.id}}
                                  for name, reference in references.items()],
                       "outputs": [{"name": name, "parameters": kept} for name in outputs]}
            made = self._submit(json.dumps(request), list(references.values()), len(outputs))
        finally:
            # They stay until the invocation that needs them has ended.
            self._client.release(own)
        return made[0] if len(made) == 1 else made

    def _submit(self, payload: str, needs: list[ObjectRef], outputs: int) -> list[ObjectRef]:
        return self._client.submit(self.name, payload, needs, outputs, self.ttl)


class KernelGraph(Function):
    """A graph of kernels without a deployment, called as a kernel function is. A request names it by the digest of its package; where the
    worker does not have that, or no longer, the request is sent once more and brings it."""

    def __init__(self, client: Client, package: graphs.GraphPackage, ttl: float | None = None, keep: str = "host") -> None:
        super().__init__(client, "graph@" + package.digest[:12], ttl, keep)
        self._package = package
        self._kind = "kernel"

    @property
    def digest(self) -> str:
        """The SHA-256 of its package."""
        return self._package.digest

    def __call__(self, *event: Any, outputs: Any = (), **inputs: Any) -> Any:
        """Runs it and waits: the tensors of these outputs, one or a list. Inputs and outputs of at most 4 MiB go with the request itself,
        others as objects, of which none is left."""
        by_object = any(isinstance(each, ObjectRef) for each in inputs.values())
        if event or not outputs or by_object or not self._package.fits_a_request():
            return super().__call__(*event, outputs=outputs, **inputs)
        names = graphs.names_of(outputs)
        answer = graphs.send(self._client._http, self._package, self._package.bytes_of(inputs), True, {})
        tensors = self._package.tensors_of(answer)
        unknown = [each for each in names if each not in tensors]
        if unknown:
            raise TypeError("the graph has no output %r; it has %s" % (unknown[0], ", ".join(tensors)))
        return tensors[names[0]] if isinstance(outputs, str) or len(names) == 1 else [tensors[each] for each in names]

    def forget(self) -> bool:
        """The worker keeps it no longer; False: it did not."""
        return graphs.forget(self._client._http, self._package)

    def _submit(self, payload: str, needs: list[ObjectRef], outputs: int) -> list[ObjectRef]:
        headers = self._client.submission_headers(needs, outputs, self.ttl)
        body = graphs.send(self._client._http, self._package, payload.encode(), False, headers)
        return [ObjectRef(self._client, name) for name in json.loads(body)["objects"]]


class Client:
    """`endpoint`: http://HOST:PORT, https://HOST:PORT (ports 80 and 443 unless said; with LAMBENT_CA and LAMBENT_CLIENT_CERTIFICATE, as for the
    lambent command) or unix:PATH. `context`: a worker that `lambent config` has named, with its token, tenant and
    certificates. Without either: LAMBENT_CONTEXT, LAMBENT_ENDPOINT, the current context, the worker's usual port here. Where the
    worker's object socket can be reached, objects come and go without a copy (`local=False`: never).

    `token`: who this is, as `lambent tokens create` printed it; else LAMBENT_TOKEN, else the context's. A worker that wants one raises
    Unauthenticated without it, and PermissionDenied if its scopes do not allow a call. `tenant`: for which tenant an
    admin's token acts. With either, objects go over HTTP, because the object socket is the default tenant's."""

    def __init__(self, endpoint: str | None = None, local: bool = True, token: Any = None, tenant: Any = None,
                 context: str | None = None) -> None:
        chosen = resolve(endpoint, context)
        self.endpoint: str = chosen.endpoint or ""
        identity = _identity(token or chosen.token, tenant or chosen.tenant)
        self._http = HttpObjects(self.endpoint, "/v1/objects", identity, chosen.credentials)
        self.volumes = Volumes(self.endpoint, self._http, identity, chosen.credentials)  # files that functions see by [[mounts]]
        self._objects: HttpObjects | LocalObjects = self._http
        if local and not identity:
            try:
                path = self.version().get("object_socket", "")
            except BaseException:
                self.close()  # there is no client that could
                raise
            try:
                self._objects = LocalObjects(path)
            except OSError:
                pass  # the worker is elsewhere, or does not let us

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()
        if self._objects is not self._http:
            self._objects.close()

    @property
    def local(self) -> bool:
        """Whether objects are shared with the worker, rather than copied."""
        return self._objects is not self._http

    def whoami(self) -> dict[str, Any]:
        """As whom the worker knows this client: its tenant, its scopes and its token's id."""
        answer: dict[str, Any] = json.loads(self._http.good("GET", "/v1/whoami")[2])
        return answer

    def version(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._http.good("GET", "/v1/version")[2])
        return answer

    def kind_of(self, function: str) -> str:
        status, headers, body = self._http.request("GET", "/2015-03-31/functions/" + quote(function, safe=""))
        if status == 404:
            raise error_of("NOT_FOUND", "function '%s' does not exist" % function)
        if status >= 300:
            raise error_from(status, headers, body)
        kind: str = json.loads(body).get("Tags", {}).get("lambent:kind", "handler")
        return kind

    def function(self, name: str, ttl: float | None = None, keep: str = "host") -> Function:
        """A Function. `ttl`: how many seconds what its calls make lives, or longer while an invocation needs it; unless
        said, an hour. `keep`: with "device", objects that a kernel function makes stay on its GPU until they are wanted
        elsewhere or their memory is needed; they are lost if its executor fails before."""
        return Function(self, name, ttl, keep)

    def graph(self, graph: Any, ttl: float | None = None, keep: str = "host") -> KernelGraph:
        """A KernelGraph of a `lambent.kernels.Graph`, of a folder that its save() wrote, or of the bytes of a package: what it describes runs
        without a deployment. To bring it a token needs the scope deploy beside invoke."""
        return KernelGraph(self, graphs.GraphPackage(graph), ttl, keep)

    def graphs(self) -> list[dict[str, Any]]:
        """The graphs that the worker keeps for this tenant."""
        return graphs.kept(self._http)

    # Objects.
    def put(self, data: Any, datatype: str | None = None, shape: Iterable[int] | None = None, ttl: float | None = None) -> ObjectRef:
        """Stores bytes or an array; a reference to it."""
        return ObjectRef(self, self._objects.put(tensor_of(data, datatype, shape), ttl))

    def get(self, reference: ObjectRef | str, timeout: float = 3600.0) -> Tensor:
        """A Tensor; waits until it exists."""
        name = reference.id if isinstance(reference, ObjectRef) else reference
        deadline = time.monotonic() + timeout
        while True:
            began = time.monotonic()
            left = max(0.0, deadline - began)
            try:
                return self._objects.get(name, min(left, _MOST_WAIT))
            except LambentError as error:
                # It is still being made; or, if that was said early, its producer ran into a deadline.
                waited = time.monotonic() - began
                if error.code != "DEADLINE_EXCEEDED" or left <= _MOST_WAIT or waited < 0.9 * _MOST_WAIT:
                    raise

    def release(self, references: Iterable[ObjectRef]) -> None:
        """Removes those that exist or have failed, as a courtesy: the others expire."""
        for each in references:
            try:
                self.remove(each)
            except LambentError:
                pass

    def let_go(self, references: Iterable[ObjectRef]) -> None:
        """What release() was called in the version before."""
        warnings.warn("Client.let_go is called release now", DeprecationWarning, stacklevel=2)
        self.release(references)

    def remove(self, reference: ObjectRef | str) -> None:
        self._http.remove(reference.id if isinstance(reference, ObjectRef) else reference)

    # Functions.
    def submit(self, function: str, payload: bytes | str, needs: Iterable[ObjectRef | str] = (), outputs: int = 1,
               ttl: float | None = None) -> list[ObjectRef]:
        """Runs a function once all that it needs exists: references to what it will make."""
        headers = {"Content-Type": "application/json", **self.submission_headers(needs, outputs, ttl)}
        _, _, body = self._http.good("POST", "/v1/functions/%s/invocations" % quote(function, safe=":"), payload, headers)
        return [ObjectRef(self, name) for name in json.loads(body)["objects"]]

    @staticmethod
    def submission_headers(needs: Iterable[ObjectRef | str], outputs: int, ttl: float | None) -> dict[str, str]:
        """What a request whose results become objects says beside its payload."""
        headers = {"X-Lambent-Outputs": str(outputs)}
        if ttl is not None:
            headers["X-Lambent-Ttl"] = "%.3f" % ttl
        names = dict.fromkeys(each.id if isinstance(each, ObjectRef) else each for each in needs)
        if names:
            headers["X-Lambent-Needs"] = ", ".join(names)
        return headers

    def invoke(self, function: str, payload: bytes | str = b"{}", needs: Any = (), key: str | None = None) -> bytes:
        """Runs a function and waits: the bytes of its answer. FunctionError if it failed. `key`: the idempotency key of a request that is
        sent again."""
        headers = {"Content-Type": "application/json", **({"amz-sdk-invocation-id": key} if key else {})}
        if needs:
            headers["X-Lambent-Needs"] = ", ".join(each.id if isinstance(each, ObjectRef) else each for each in needs)
        status, headers, body = self._http.request("POST", "/2015-03-31/functions/%s/invocations" % quote(function, safe=":"),
                                                   payload, headers)
        if status >= 300:
            raise error_from(status, headers, body)
        if "x-amz-function-error" in headers:
            raise FunctionError(headers.get("x-lambent-error-type", "Unhandled"), body)
        return body

    def stream(self, function: str, payload: bytes | str = b"{}", needs: Any = ()) -> Generator[bytes, None, None]:
        """Runs a function whose answer streams: the bytes of Lambda's event stream as they come. Closing the iterator ends the
        connection. The worker knows no idempotency keys of streams."""
        headers = {"Content-Type": "application/json"}
        if needs:
            headers["X-Lambent-Needs"] = ", ".join(each.id if isinstance(each, ObjectRef) else each for each in needs)
        return self._http.stream("POST", "/2021-11-15/functions/%s/response-streaming-invocations" % quote(function, safe=":"),
                                 payload, headers)

    # Versions. A call names one after the function: client.function("square:prod").
    def publish(self, function: str, description: str | None = None) -> str:
        """Keeps a function as it is now as a version; its number, as text."""
        body = {} if description is None else {"description": description}
        answer: str = self._ask("POST", function, "versions", body)["version"]
        return answer

    def versions(self, function: str) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._ask("GET", function, "versions")["versions"]
        return answer

    def set_alias(self, function: str, alias: str, version: str | int, second: str | int | None = None,
                  second_share: float = 0.0, description: str = "") -> dict[str, Any]:
        """Gives a name to a version, or the name to another one. `second` gets `second_share` (above 0, below 1) of the
        invocations."""
        body: dict[str, Any] = {"version": str(version), "description": description}
        if second is not None:
            body.update(second=str(second), second_share=second_share)
        answer: dict[str, Any] = self._ask("PUT", function, "aliases/" + quote(alias, safe=""), body)
        return answer

    def aliases(self, function: str) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._ask("GET", function, "aliases")["aliases"]
        return answer

    def remove_alias(self, function: str, alias: str) -> None:
        self._ask("DELETE", function, "aliases/" + quote(alias, safe=""))

    def revisions(self, function: str) -> list[dict[str, Any]]:
        """What it was, the newest first."""
        answer: list[dict[str, Any]] = self._ask("GET", function, "revisions")["revisions"]
        return answer

    def roll_back(self, function: str, revision: int | None = None) -> int:
        """Deploys an earlier revision again, unless said the one before the present one; the number of the new one."""
        what = "rollback" + ("" if revision is None else "?revision=%d" % revision)
        answer: int = self._ask("POST", function, what)["revision"]
        return answer

    def _ask(self, method: str, function: str, what: str, body: Any = None) -> Any:
        path = "/v1/functions/%s/%s" % (quote(function, safe=""), what)
        payload = None if body is None else json.dumps(body).encode()
        return json.loads(self._http.good(method, path, payload, {"Content-Type": "application/json"})[2])

    def encode(self, value: Any, needs: Any) -> Any:
        """`value` as JSON has it, with references for objects; `needs` takes them."""
        if isinstance(value, dict):
            return {key: self.encode(each, needs) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.encode(each, needs) for each in value]
        if isinstance(value, (bytes, bytearray, memoryview)) or hasattr(value, "__array_interface__") and bool(
                getattr(value, "shape", None)):
            value = self.put(value)
        if isinstance(value, ObjectRef):
            needs.append(value)
            return {"object": value.id}
        return value
