"""The life of a handler process: load the handler, then serve invocations until the API goes away."""
import json
import os
import sys

from .api import ApiError, RuntimeApi
from .context import Context
from .handler import InitError, ends_process, load, trace_of, words_of
from .logs import Served, take_over


MOST_SENT_BYTES = 32 << 20  # of an answer; the worker refuses less


def serve(address, handler_name):
    """Serves until the connection ends; the exit code."""
    if hasattr(sys.stdout, "reconfigure"):
        # A log line is seen when it is printed, not when the process ends.
        sys.stdout.reconfigure(line_buffering=True)
    take_over()
    _tell_other_version(os.environ.get("AWS_EXECUTION_ENV", ""))
    try:
        api = RuntimeApi(address)
        try:
            handler = _handler(handler_name, os.environ.get("LAMBDA_TASK_ROOT", os.getcwd()))
        except InitError as error:
            _report(error.error_type, str(error), error.trace)
            api.fail(None, error.error_type, _error_body(error.error_type, str(error), error.trace))
            return 1
        if _in_flight(handler) > 1:
            return _serve_overlapped(address, api, handler)
        if _at_once() > 1:
            from .several import Several

            return Several(address, handler, _at_once(), _serve_one).serve(api)
        while True:
            _serve_one(api, handler)
    except (ApiError, OSError) as error:
        sys.stderr.write("lambent_runtime: %s\n" % error)
        return 24


def _tell_other_version(environment):
    """The runtime that a function names chooses no Python; who relies on another one reads so in the function's log."""
    asked, this = environment.rpartition("python")[2], "%d.%d" % sys.version_info[:2]
    if "python" in environment and "." in asked and asked != this:
        sys.stderr.write("lambent_runtime: the runtime is python%s, and this is Python %s, the worker's; "
                         "[python] version = \"%s\" in lambent.toml chooses one\n" % (asked, this, asked))


def _handler(name, folder):
    """The function that `name` names; of a pipeline's class, one that serves this process's stage process of it."""
    if os.environ.get("LAMBENT_STAGE"):
        from lambent.pipeline import stage

        try:
            name = stage.load(os.environ["LAMBENT_STAGE"])[1]
        except (OSError, stage.StageError) as error:
            raise InitError("Runtime.BadStage", str(error)) from None
    found = load(name, folder)
    if not (isinstance(found, type) and hasattr(found, "define_dag")):
        return found
    from lambent.pipeline import stage

    try:
        return stage.handler_of(found)
    except Exception as error:
        component = getattr(error, "lambent_component", None)
        message = "component '%s': %s" % (component, words_of(error)) if component else words_of(error)
        raise InitError(type(error).__name__, message, trace_of(error)) from None


def _in_flight(handler):
    """How many jobs it may have at a time; `in_hand` in a lambent.pipeline of the version before, which the package may carry."""
    return getattr(handler, "in_flight", getattr(handler, "in_hand", 1))


def _at_once():
    """How many invocations it may have at a time, by the function's configuration."""
    most = os.environ.get("AWS_LAMBDA_MAX_CONCURRENCY", "")
    return int(most) if most.isdigit() else 1


def _serve_overlapped(address, api, handler):
    """For a stage process of a pipeline that may have several jobs in flight: each is begun while others are at work."""
    from lambent.pipeline.overlap import Overlap

    answers = RuntimeApi(address)  # on a connection of their own: the other one waits for the next job

    def take():
        headers, body = api.next()
        return headers["lambda-runtime-aws-request-id"], lambda: _begin(handler, headers, body)

    def answer(request_id, outcome):
        if isinstance(outcome, Exception):
            return _fail(answers, request_id, type(outcome).__name__, words_of(outcome), trace_of(outcome))
        _respond(answers, request_id, outcome)

    Overlap(handler.stage, take, answer, _in_flight(handler)).serve()


def _begin(handler, headers, body):
    try:
        event = decode(headers.get("content-type", ""), body)
    except (ValueError, RecursionError) as error:
        return handler.begin_unparsed(bytes(body), error, Context(headers))
    return handler.begin(event, Context(headers))


def _serve_one(api, handler, taken=None):
    """Of several at once `taken` is called with its headers; else the process knows it as the only one."""
    headers, body = api.next()
    request_id = headers["lambda-runtime-aws-request-id"]
    asks = taken is None  # of several a thread looks first whether it still has a place
    if taken is not None:
        taken(headers)
    else:
        Served.request_id = request_id
        if "lambda-runtime-trace-id" in headers:
            os.environ["_X_AMZN_TRACE_ID"] = headers["lambda-runtime-trace-id"]
    try:
        answer = _answer(handler, headers, body)
        if hasattr(type(answer), "cr_frame"):
            from .streaming import wait

            answer = wait(answer)
    except Unparsed as error:
        return _fail(api, request_id, "Runtime.UnmarshalError", str(error), [], asks=asks)
    except BaseException as error:
        if ends_process(error):
            raise
        return _fail(api, request_id, type(error).__name__, words_of(error), trace_of(error),
                     _exception_of(error), asks)
    # Types are asked: an answer may have a __getattr__ of its own, such as that of a dict whose keys are attributes.
    if hasattr(type(answer), "gi_frame") or hasattr(type(answer), "ag_frame"):
        return _stream(api, request_id, answer)
    _respond(api, request_id, answer, asks)


def _stream(api, request_id, answer):
    from .streaming import stream

    def fail(error, reports):
        error_type, trace = type(error).__name__, trace_of(error)
        message, exception = words_of(error), _exception_of(error)
        if reports:
            return _fail(api, request_id, error_type, message, trace, exception)
        _report(error_type, message, trace)
        return _error_body(error_type, message, trace, exception)

    refusal = stream(api, request_id, answer, fail)
    if refusal is not None and refusal[0] >= 300:
        sys.stderr.write("lambent_runtime: the stream of %s was ended with %d: %s\n" %
                         (request_id, refusal[0], refusal[1][:500].decode("utf-8", "replace")))


def _respond(api, request_id, answer, asks=False):
    try:
        content_type, payload = encode(answer)
    except Exception as error:  # of the answer's own methods, too
        message = "Unable to marshal response: %s%s" % (words_of(error), _hint_at(error))
        return _fail(api, request_id, "Runtime.MarshalError", message, [], asks=asks)
    if len(payload) > MOST_SENT_BYTES:
        # The Runtime API would not read as far as to know whose it is.
        message = "Exceeded maximum allowed payload size: the answer has %d bytes" % len(payload)
        return _fail(api, request_id, "Function.ResponseSizeTooLarge", message, [], asks=asks)
    reply = api.respond(request_id, content_type, payload, asks)
    if reply is None:
        return
    status, text = reply
    if status >= 300:
        sys.stderr.write("lambent_runtime: response of %s refused with %d: %s\n" %
                         (request_id, status, text[:500].decode("utf-8", "replace")))


class Unparsed(Exception):
    """The handler was not called."""


def _answer(handler, headers, body):
    try:
        event = decode(headers.get("content-type", ""), body)
    except (ValueError, RecursionError) as error:
        if not hasattr(handler, "unparsed"):
            raise Unparsed("the event is not JSON (%s); a text is JSON in quotes, and bytes are sent with another Content-Type, such as "
                           "text/plain" % words_of(error)) from None
        return handler.unparsed(bytes(body), error, Context(headers))
    return handler(event, Context(headers))


def decode(content_type, body):
    """The event: JSON unless the content type says that it is something else."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("", "application/json") or kind.endswith("+json"):
        return json.loads(body) if body else None
    return bytes(body)


def encode(answer):
    """(content type, bytes) of what a handler returned: bytes go out as they are."""
    if isinstance(answer, (bytes, bytearray, memoryview)):
        return "application/octet-stream", bytes(answer)
    return "application/json", _JSON.encode(answer).encode()


def _plain(value):
    """What JSON lacks: decimals, which Lambda's Python runtime sends too, as DynamoDB's client makes them; numpy's numbers and arrays."""
    decimal = sys.modules.get("decimal")
    if decimal is not None and isinstance(value, decimal.Decimal):
        return float(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (getattr(numpy, "generic", ()), getattr(numpy, "ndarray", ()))):
        plain = value.tolist()
        if not isinstance(plain, complex) and plain is not value:
            return plain
    raise TypeError("Object of type %s is not JSON serializable%s" % (type(value).__name__, _way_to_json(value)))


# By what a class has: what makes JSON's types of its objects. The first one holds: polars has to_dicts() and to_dict(), pandas the latter.
_WAYS = (("model_dump", "its model_dump(mode='json')"), ("__dataclass_fields__", "dataclasses.asdict() of it"), ("to_dicts", "its to_dicts()"),
         ("to_frame", "its to_list()"), ("to_dict", "its to_dict('records')"), ("isoformat", "its isoformat()"), ("__fspath__", "str() of it"),
         ("urn", "str() of it"), ("__members__", "its value"), ("tolist", "its tolist()"), ("tobytes", "its bytes"), ("__iter__", "list() of it"))


def _way_to_json(value):
    kind = type(value)
    for name, way in _WAYS:
        if hasattr(kind, name):
            return "; answer with " + way
    return ""


def _hint_at(error):
    """json says of a NaN that it is out of range."""
    return ": JSON has no NaN and no infinity; None is one way to say it" if "Out of range float" in words_of(error) else ""


# json.dumps() makes an encoder for each call.
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain)


def _fail(api, request_id, error_type, message, trace, exception=None, asks=False):
    _report(error_type, message, trace)
    if "shared memory" in message:
        from .shared_memory import tidy_after

        tidy_after(message)
    api.fail(request_id, error_type, _error_body(error_type, message, trace, exception), asks)


def _exception_of(error):
    """What lambent.app_calls attached to it. Its own __getattr__ may answer, or fail, in its place."""
    try:
        attached = error.lambent_exception
    except Exception:
        return None
    return attached if type(attached) is str else None


def _error_body(error_type, message, trace, exception=None):
    """`exception`: itself, as lambent.app_calls sends it; none of others."""
    if "cuda" in message.lower() or "nvidia" in message.lower():
        from .cuda_errors import explained

        message = explained(message)
    elif "name" in message.lower() or "Network" in message:
        try:
            from .network_errors import explained as network_explained

            message = network_explained(message)
        except OSError:  # the file cannot be read now
            pass
    body = {"errorMessage": message, "errorType": error_type, "stackTrace": trace}
    if exception is not None:
        body["lambentException"] = exception
    return json.dumps(body).encode()


def _report(error_type, message, trace):
    sys.stderr.write("[ERROR] %s: %s\n%s" % (error_type, message, "".join(t + "\n" for t in trace)))
    sys.stderr.flush()
