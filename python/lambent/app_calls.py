"""How calls of an app travel: pickles in JSON, as objects where they are large. Both ends are here: `call` for callers,
`handler_of` for the sandbox."""
import base64
import importlib
import json
import pickle
import sys
import traceback

from . import objects
from .errors import FunctionError, LambentError, error_of

_KEY = "lambent.call"
_MOST_INLINE = 4 << 20  # bytes of a pickle; an invocation's payload has at most 6 MiB
_MOST_EXCEPTION = 48 << 10
_MODULE = "_lambent_app"  # in the package: tells which module the app is


class RemoteTraceback(Exception):
    """The cause of an exception that a function raised: where it was raised, in the sandbox."""

    def __init__(self, text):
        super().__init__(text)
        self.text = text

    def __str__(self):
        return "\n" + self.text


class RemoteError(FunctionError):
    """A function failed with an exception that does not exist here, or that cannot be sent."""


# ---- The caller's end


def _packed(client, value, needs):
    pickled = pickle.dumps(value, 5)
    if len(pickled) <= _MOST_INLINE:
        return {"pickle": base64.b64encode(pickled).decode()}
    reference = client.put(pickled)
    needs.append(reference)
    return {"object": reference.id}


def _unpacked(client, packed):
    if "object" in packed:
        reference = packed["object"]
        tensor = client.get(reference)
        pickled = bytes(tensor)
        client.remove(reference)
    else:
        pickled = base64.b64decode(packed["pickle"])
    return pickle.loads(pickled)


def _payload(client, method, args, kwargs, needs):
    return json.dumps({_KEY: {"method": method, **_packed(client, (args, kwargs), needs)}}).encode()


def _missing(error, name):
    if error.code != "NOT_FOUND":
        return error
    return error_of("NOT_FOUND", f"there is no function {name!r} on the worker: deploy its app first, by 'python3 -m lambent "
                                 "deploy FILE' or app.deploy()")


def call(client, name, method, args, kwargs):
    needs = []
    payload = _payload(client, method, args, kwargs, needs)
    try:
        answer = client.invoke(name, payload, needs)
    except FunctionError as error:
        raise_remote(error)
    except LambentError as error:
        raise _missing(error, name) from None
    finally:
        client.release(needs)
    return _value(client, answer)


def _value(client, answer):
    document = json.loads(answer)
    if not isinstance(document, dict) or _KEY not in document:
        raise error_of("DATA_LOSS", "the function answered as no function of an app does; is it deployed from this app?")
    return _unpacked(client, document[_KEY])


def raise_remote(error):
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
            original = pickle.loads(base64.b64decode(body["lambentException"]))
        except Exception:
            original = None  # a class that only the sandbox has
        if isinstance(original, BaseException):
            raise original from remote
    raise RemoteError(body["errorType"], error.payload) from remote


# ---- The sandbox's end


def make_instance(kind):
    """An object of an @app.cls class, entered."""
    made = kind()
    for name in dir(kind):
        method = getattr(kind, name, None)
        if getattr(method, "lambent_enter", False):
            getattr(made, name)()
    return made


def handler_of(module_name, name):
    """The handler of an app's function or class: for calls of an app, and for JSON of any other client."""
    module = importlib.import_module(module_name)
    # What was pickled where the app was the main program finds its classes.
    main = sys.modules.get("__main__")
    if main is not None and not hasattr(main, "app"):
        for key, value in vars(module).items():
            if not key.startswith("__") and not hasattr(main, key):
                setattr(main, key, value)
    found = getattr(module, name)
    kind = getattr(found, "lambent_class", None)
    instance = make_instance(kind) if kind is not None else None

    def target(method):
        if instance is None:
            return found.local
        if not method or method.startswith("_") or not callable(getattr(instance, method, None)):
            raise AttributeError("%s has no public method %r" % (name, method))
        return getattr(instance, method)

    def handler(event, context):
        try:
            if isinstance(event, dict) and _KEY in event:
                asked = event[_KEY]
                args, kwargs = _received(asked)
                return {_KEY: _sent(target(asked.get("method", ""))(*args, **kwargs))}
            return _plainly(target, event, instance is not None)
        except Exception as error:
            _attach(error)
            raise

    return handler


def _plainly(target, event, has_methods):
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


def _received(packed):
    if "object" in packed:
        return pickle.loads(bytes(objects.get(packed["object"], wait=60)))
    return pickle.loads(base64.b64decode(packed["pickle"]))


def _sent(value):
    pickled = pickle.dumps(value, 5)
    if len(pickled) <= _MOST_INLINE:
        return {"pickle": base64.b64encode(pickled).decode()}
    return objects.put(pickled)


def _attach(error):
    """The exception itself, for the caller, where it can be sent."""
    try:
        pickled = pickle.dumps(error, 5)
        pickle.loads(pickled)
        if len(pickled) <= _MOST_EXCEPTION:
            error.lambent_exception = base64.b64encode(pickled).decode()
    except Exception:
        traceback.print_exc()
