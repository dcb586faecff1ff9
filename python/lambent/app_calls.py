"""How calls of an app travel: pickles in JSON, as objects where they are large. Both ends are here: `call` for callers,
`handler_of` for the sandbox."""
from __future__ import annotations

import base64
import functools
import importlib
import itertools
import json
import pickle
import random
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NoReturn, TypeVar

from . import app_pickles, app_streams, objects
from .errors import FunctionError, LambentError, error_of

_T = TypeVar("_T")
_KEY = "lambent.call"
_MOST_INLINE = 4 << 20  # bytes of a pickle; an invocation's payload has at most 6 MiB
_MOST_EXCEPTION = 48 << 10
_FIRST_BACKOFF, _MOST_BACKOFF = 0.05, 10.0  # seconds: each refusal of a call doubles it, and the worker may ask for longer
_MODULE = "_lambent_app"  # in the package: tells which module the app is


class RemoteTraceback(Exception):
    """The cause of an exception that a function raised: where it was raised, in the sandbox."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return "\n" + self.text


class RemoteError(FunctionError):
    """A function failed with an exception that does not exist here, or that cannot be sent."""


# ---- The caller's end


def _packed(client: Any, value: Any, needs: list[Any], retried: Any) -> dict[str, Any]:
    pickled = pickle.dumps(value, 5)
    if len(pickled) <= _MOST_INLINE:
        return {"pickle": base64.b64encode(pickled).decode()}
    reference = retried(lambda key: client.put(pickled))
    needs.append(reference)
    return {"object": reference.id}


def _unpacked(client: Any, packed: Any, retried: Any) -> Any:
    if "object" in packed:
        reference = packed["object"]
        try:
            tensor = retried(lambda key: client.get(reference))
        except LambentError as error:
            error.retry_after = None  # the function has run: the call is not to be sent again
            raise
        pickled = bytes(tensor)
        client.release([reference])  # a courtesy: the answer is here
    else:
        pickled = base64.b64decode(packed["pickle"])
    return app_pickles.loads(pickled)


def _payload(client: Any, method: str, args: Any, kwargs: Any, needs: list[Any], retried: Any, **more: Any) -> bytes:
    return json.dumps({_KEY: {"method": method, **more, **_packed(client, (args, kwargs), needs, retried)}}).encode()


def _missing(error: LambentError, name: str) -> LambentError:
    if error.code != "NOT_FOUND":
        return error
    return error_of("NOT_FOUND", f"there is no function {name!r} on the worker: deploy its app first, by 'lambent deploy FILE' "
                                 "or app.deploy()")


def _retried(begin: Callable[[str | None], _T], retry_for: float, given_up: threading.Event | None = None) -> _T:
    """begin(), and again where the worker refused it and said when it may come again, for `retry_for` seconds. Nothing has run then. From the
    second time on it gets a key, which says that it is the same request: an invocation that is not streamed has a place by it. Once
    `given_up` is set the refusal is raised."""
    given_up = given_up or threading.Event()
    until, key, backoff = time.monotonic() + retry_for, None, _FIRST_BACKOFF
    while True:
        try:
            return begin(key)
        except LambentError as error:
            left, told = until - time.monotonic(), error.retry_after
            if told is None or told > left:
                raise
            wait = max(told, min(backoff, left)) * random.uniform(1, 1.25)  # many who were refused at once do not come at once
            if given_up.wait(wait):
                raise
        backoff = min(2 * backoff, _MOST_BACKOFF)
        key = key or str(uuid.uuid4())


def call(client: Any, name: str, method: str, args: Any, kwargs: Any, retry_for: float = 0, given_up: threading.Event | None = None) -> Any:
    """What the function answers. What is refused for now is sent again for `retry_for` seconds, or until `given_up` is set."""
    retried = functools.partial(_retried, retry_for=retry_for, given_up=given_up)
    needs: list[Any] = []
    payload = _payload(client, method, args, kwargs, needs, retried)
    try:
        answer = retried(lambda key: client.invoke(name, payload, needs, key))
    except FunctionError as error:
        raise_remote(error)
    except LambentError as error:
        raise _missing(error, name) from None
    finally:
        client.release(needs)
    return _value(client, answer, retried)


def call_json(client: Any, name: str, event: Any, retry_for: float = 0, given_up: threading.Event | None = None) -> Any:
    """What a workflow answers, whose values are JSON. The rest is as for call()."""
    payload = json.dumps(event, allow_nan=False).encode()
    try:
        answer = _retried(lambda key: client.invoke(name, payload, [], key), retry_for, given_up)
    except FunctionError as error:
        raise_remote(error)
    except LambentError as error:
        raise _missing(error, name) from None
    return json.loads(answer)


def stream(client: Any, name: str, method: str, args: Any, kwargs: Any, retry_for: float = 0,
           given_up: threading.Event | None = None) -> Iterator[Any]:
    """The items of a generator, as they come. Raises what it raises. Closing this ends the call. The rest is as for call()."""
    retried = functools.partial(_retried, retry_for=retry_for, given_up=given_up)
    needs: list[Any] = []
    payload = _payload(client, method, args, kwargs, needs, retried, stream=True)
    chunks: Any = iter(())

    def begin(_: str | None) -> list[bytes]:
        nonlocal chunks
        # Without the key: it keeps no place of a stream, and would tie all tries to one node of a cluster.
        chunks = client.stream(name, payload, needs)
        return [next(chunks, b"")]  # it was taken, or this raises

    try:
        yield from app_streams.received(itertools.chain(retried(begin), chunks), raise_remote)
    except FunctionError:
        raise
    except LambentError as error:
        raise _missing(error, name) from None
    finally:
        if hasattr(chunks, "close"):
            chunks.close()
        client.release(needs)


def _value(client: Any, answer: Any, retried: Any) -> Any:
    document = json.loads(answer)
    if not isinstance(document, dict) or _KEY not in document:
        raise error_of("DATA_LOSS", "the function answered as no function of an app does; is it deployed from this app?")
    return _unpacked(client, document[_KEY], retried)


def raise_remote(error: Any) -> NoReturn:
    """Raises what a function failed with: the exception itself, where it came along and exists here."""
    try:
        body = json.loads(error.payload)
    except ValueError:
        raise error from None
    trace = body.get("stackTrace", []) if isinstance(body, dict) else None
    if not isinstance(trace, list) or "errorType" not in body:
        raise error from None
    remote = RemoteTraceback("Remote traceback (most recent call last):\n%s\n%s: %s" % (
        "\n".join(map(str, trace)), body["errorType"], body.get("errorMessage", "")))
    if "lambentException" in body:
        try:
            original = app_pickles.loads(base64.b64decode(body["lambentException"]))
        except Exception:
            original = None  # a class that only the sandbox has
        if isinstance(original, BaseException):
            raise original from remote
    raise RemoteError(body["errorType"], error.payload) from remote


# ---- The sandbox's end


def make_instance(kind: Any) -> Any:
    """An object of an @app.cls class, entered."""
    made = kind()
    for name in dir(kind):
        method = getattr(kind, name, None)
        if getattr(method, "lambent_enter", False):
            getattr(made, name)()
    return made


_importing = threading.local()  # whether this thread imports an app for its sandbox


def check_may_deploy() -> None:
    if getattr(_importing, "module", ""):
        raise error_of("FAILED_PRECONDITION", "%s.py deploys when it is imported, which its sandboxes do as well: put app.run() and "
                       "app.deploy() under 'if __name__ == \"__main__\":'" % _importing.module)


def imported(module_name: str) -> ModuleType:
    """The app's module, for its sandbox: it may not deploy there."""
    _importing.module = module_name
    try:
        return importlib.import_module(module_name)
    finally:
        _importing.module = ""


def handler_of(module_name: str, name: str) -> Callable[[Any, Any], Any]:
    """The handler of an app's function or class: for calls of an app, and for JSON of any other client."""
    module = imported(module_name)
    # What was pickled where the app was the main program finds its classes.
    main = sys.modules.get("__main__")
    if main is not None and not hasattr(main, "app"):
        for key, value in vars(module).items():
            if not key.startswith("__") and not hasattr(main, key):
                setattr(main, key, value)
    found = getattr(module, name)
    kind = getattr(found, "lambent_class", None)
    instance = make_instance(kind) if kind is not None else None

    def target(method: str) -> Any:
        if instance is None:
            return found.local
        if not method or method.startswith("_") or not callable(getattr(instance, method, None)):
            raise AttributeError("%s has no public method %r" % (name, method))
        return getattr(instance, method)

    def handler(event: Any, context: Any) -> Any:
        try:
            if isinstance(event, dict) and _KEY in event:
                asked = event[_KEY]
                args, kwargs = _received(asked)
                answer = app_streams.awaited(target(asked.get("method", ""))(*args, **kwargs))
                if asked.get("stream"):
                    return _streamed(name, answer, False)
                if app_streams.is_stream(answer):
                    answer.close() if hasattr(answer, "close") else None
                    raise TypeError("%s is a generator: call it by remote_gen()" % name)
                return {_KEY: _sent(answer)}
            answer = app_streams.awaited(_plainly(target, event, instance is not None))
            return _streamed(name, answer, True) if app_streams.is_stream(answer) else answer
        except Exception as error:
            _attach(error)
            raise

    return handler


def _streamed(name: str, answer: Any, plainly: bool) -> Any:
    if not app_streams.is_stream(answer):
        raise TypeError("%s is no generator, and answers with %s: call it by remote()" % (name, type(answer).__name__))
    return app_streams.sent(answer, plainly, _attach)


def _plainly(target: Callable[[str], Any], event: Any, has_methods: bool) -> Any:
    """JSON of another client: an object has the keywords, a list the arguments. Of a class the method is under "method"."""
    method = ""
    if has_methods:
        if not isinstance(event, dict) or not isinstance(event.get("method"), str):
            raise TypeError('a class is called by {"method": NAME, ...}')
        event = dict(event)
        method = event.pop("method")
    if isinstance(event, dict):
        return target(method)(**event)
    if isinstance(event, list):
        return target(method)(*event)
    return target(method)() if event is None else target(method)(event)


def _received(packed: Any) -> Any:
    if "object" in packed:
        return pickle.loads(bytes(objects.get(packed["object"], wait=60)))
    return pickle.loads(base64.b64decode(packed["pickle"]))


def _sent(value: Any) -> Any:
    pickled = pickle.dumps(value, 5)
    if len(pickled) <= _MOST_INLINE:
        return {"pickle": base64.b64encode(pickled).decode()}
    return objects.put(pickled)


def _rebuilt(kind: Any, args: Any, state: Any) -> Any:
    made = kind.__new__(kind)
    made.args = args
    made.__dict__.update(state)
    return made


class _AsItIs:
    """Sends an exception without its __init__, which may want other arguments than those that it passed on."""

    def __init__(self, error: Any) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        return _rebuilt, (type(self.error), self.error.args, self.error.__dict__)


def _pickled(error: Any) -> bytes:
    """Raises where the exception cannot be sent in either way."""
    try:
        pickled = pickle.dumps(error, 5)
        pickle.loads(pickled)
    except Exception:
        pickled = pickle.dumps(_AsItIs(error), 5)
        pickle.loads(pickled)
    return pickled


def _attach(error: Any) -> None:
    """The exception itself, for the caller, where it can be sent."""
    try:
        pickled = _pickled(error)
        if len(pickled) <= _MOST_EXCEPTION:
            error.lambent_exception = base64.b64encode(pickled).decode()
    except Exception:
        traceback.print_exc()
