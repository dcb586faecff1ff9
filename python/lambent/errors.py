"""LambentError and one class for each code of api/error_codes.inc. Raised by everything in this package that speaks to
a worker."""
from __future__ import annotations

import json

# By their numbers, which are gRPC's up to 16.
CODES = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
         "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
         "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
         "STORAGE_FULL"]
RETRYABLE = {"RESOURCE_EXHAUSTED", "ABORTED", "UNAVAILABLE", "STORAGE_FULL"}


class LambentError(Exception):
    code = "UNKNOWN"
    retry_after: float | None = None  # seconds after which the worker takes the same request again; None: it does not say

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return "%s: %s" % (self.code, self.message)

    @property
    def retryable(self) -> bool:
        return self.code in RETRYABLE


class FunctionError(LambentError):
    """The function itself failed: `type` and `payload` are what it said."""

    def __init__(self, kind: str, payload: bytes) -> None:
        super().__init__("%s: %s" % (kind, _words_of(payload)))
        self.type, self.payload = kind, payload

    def __str__(self) -> str:  # no code of the worker's: it did its part
        return self.message

    def __reduce__(self) -> tuple[type[FunctionError], tuple[str, bytes]]:  # so that it passes between processes
        return (type(self), (self.type, self.payload))


def _words_of(payload: bytes) -> str:
    """The message in what a function failed with; all of it, if it has none."""
    try:
        said = json.loads(payload)
    except ValueError:
        said = None
    message = said.get("errorMessage") if isinstance(said, dict) else None
    return message if isinstance(message, str) else payload[:2000].decode("utf-8", "replace")


_CLASSES: dict[str, type[LambentError]] = {}
for _code in CODES[1:]:
    _name = "".join(word.capitalize() for word in _code.split("_"))
    _CLASSES[_code] = globals()[_name] = type(_name, (LambentError,), {"code": _code, "__module__": __name__})


def error_of(code: str, message: str) -> LambentError:
    return _CLASSES.get(code, LambentError)(message)
