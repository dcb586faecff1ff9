"""Objects from inside a handler: `get` what the event refers to, `put` what others are to read.

    from lambent import objects

    def handler(event, context):
        x = objects.get(event["x"]).numpy()
        return {"y": objects.put(x * 2)}

They travel over the handler's Runtime API, and are those of the function's tenant. One thread at a time."""
from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .errors import LambentError
from .http_objects import HttpObjects
from .tensor import Tensor, tensor_of

_objects: HttpObjects | None = None


def _reach() -> HttpObjects:
    global _objects
    if _objects is None:
        address = os.environ.get("AWS_LAMBDA_RUNTIME_API")
        if not address:
            raise LambentError("lambent.objects is for handlers; use lambent.client outside of functions",
                               "FAILED_PRECONDITION")
        _objects = HttpObjects(address, "/lambent/2026-11/objects")
    return _objects


def name_of(reference: str | dict[str, str]) -> str:
    """The id in a reference: an id, or {"object": id} as `lambent.client` writes it into events."""
    name = reference.get("object") if isinstance(reference, dict) else reference
    if not isinstance(name, str):
        raise TypeError("%r refers to no object" % (reference,))
    return name


def get(reference: str | dict[str, str], wait: float = 0.0) -> Tensor:
    """A Tensor. `wait`: how many seconds to wait for one that is still being made."""
    return _reach().get(name_of(reference), wait)


def put(data: Any, datatype: str | None = None, shape: Iterable[int] | None = None, ttl: float | None = None,
        name: str | None = None) -> dict[str, str]:
    """Stores bytes or an array; a reference, which may be part of an answer: {"object": id}.

    A handler that was asked for several outputs makes them by their names: context.aws_request_id + ".1"."""
    return {"object": _reach().put(tensor_of(data, datatype, shape), ttl, name)}
