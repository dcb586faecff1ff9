"""Answers of an app's functions that stream: a generator's items travel as frames of four bytes with the length, big-endian, and a
pickle. Both ends are here, and the reader of Lambda's event streams between them. Standard library only."""
from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import struct
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from . import app_pickles
from .errors import FunctionError, error_of

MOST_ITEM = 64 << 20  # bytes of one item's pickle
_MOST_FRAME = 17 << 20  # of an event stream; the worker's have at most 16 MiB, and headers
_LENGTH = struct.Struct(">I")
_PRELUDE = struct.Struct(">III")


def is_stream(value: Any) -> bool:
    """Whether a function's answer comes piece by piece."""
    return inspect.isgenerator(value) or inspect.isasyncgen(value)


# ---- The sandbox's end


def _frame(item: Any) -> bytes:
    pickled = pickle.dumps(item, 5)
    if len(pickled) > MOST_ITEM:
        raise ValueError("an item that is streamed has at most 64 MiB, this one has %d bytes" % len(pickled))
    return _LENGTH.pack(len(pickled)) + pickled


def _line(item: Any) -> str:
    """For clients that call no app: JSON, one line an item."""
    return json.dumps(item, ensure_ascii=False, allow_nan=False) + "\n"


def sent(items: Any, plainly: bool, attach: Callable[[Exception], None]) -> Any:
    """What the handler yields of a generator's items. `attach` is given what the generator raises."""
    make = _line if plainly else _frame
    return _sent_later(items, make, attach) if inspect.isasyncgen(items) else _sent(items, make, attach)


def _sent(items: Any, make: Callable[[Any], bytes | str], attach: Callable[[Exception], None]) -> Iterator[bytes | str]:
    try:
        for item in items:
            yield make(item)
    except Exception as error:
        attach(error)
        raise
    finally:
        items.close()


async def _sent_later(items: Any, make: Callable[[Any], bytes | str], attach: Callable[[Exception], None]) -> AsyncIterator[bytes | str]:
    try:
        async for item in items:
            yield make(item)
    except Exception as error:
        attach(error)
        raise
    finally:
        await items.aclose()


_loop = None  # of coroutines, one for all: their clients may stay with it


def awaited(value: Any) -> Any:
    """The answer of a coroutine function; any other value is itself."""
    global _loop
    if not inspect.isawaitable(value):
        return value
    runtime = sys.modules.get("lambent_runtime.streaming")
    if runtime is not None:
        return runtime.wait(value)
    if _loop is None:
        _loop = asyncio.new_event_loop()

    async def wait() -> Any:
        return await value

    return _loop.run_until_complete(wait())


# ---- The caller's end


class EventReader:
    """Cuts an event stream into (event type, payload)."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        self._rest += data
        while len(self._rest) >= _PRELUDE.size:
            total, headers, checksum = _PRELUDE.unpack_from(self._rest)
            if zlib.crc32(self._rest[:8]) != checksum or not 16 + headers <= total <= _MOST_FRAME:
                raise error_of("DATA_LOSS", "the stream of the answer is damaged")
            if len(self._rest) < total:
                return
            frame, self._rest = bytes(self._rest[:total]), self._rest[total:]
            if zlib.crc32(frame[:-4]) != _LENGTH.unpack_from(frame, total - 4)[0]:
                raise error_of("DATA_LOSS", "the stream of the answer is damaged")
            yield self._type_in(frame[12:12 + headers]), frame[12 + headers:-4]

    @staticmethod
    def _type_in(headers: bytes) -> str:
        at = 0
        while at < len(headers):
            end = at + 1 + headers[at]
            name = headers[at + 1:end]
            if len(headers) < end + 3 or headers[end] != 7:  # all of ours are texts
                break
            size = int.from_bytes(headers[end + 1:end + 3], "big")
            value = headers[end + 3:end + 3 + size]
            if name == b":event-type":
                return value.decode("utf-8", "replace")
            at = end + 3 + size
        return ""


class ItemReader:
    """Cuts the bytes of an answer into items."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        self._rest += data
        while len(self._rest) >= _LENGTH.size:
            size, = _LENGTH.unpack_from(self._rest)
            if size > MOST_ITEM:
                raise error_of("DATA_LOSS", "the function streamed what is no item of an app")
            if len(self._rest) < _LENGTH.size + size:
                return
            pickled, self._rest = bytes(self._rest[_LENGTH.size:_LENGTH.size + size]), self._rest[_LENGTH.size + size:]
            yield app_pickles.loads(pickled)

    def end(self) -> None:
        if self._rest:
            raise error_of("DATA_LOSS", "the answer broke off within an item")


def received(chunks: Iterable[bytes], raise_remote: Callable[[FunctionError], None]) -> Iterator[Any]:
    """The items of a streamed answer, of which `chunks` are the bytes of its event stream. `raise_remote` is given what the function
    failed with, as a FunctionError."""
    events, items = EventReader(), ItemReader()
    for chunk in chunks:
        for kind, payload in events.feed(chunk):
            if kind == "PayloadChunk":
                yield from items.feed(payload)
            elif kind == "InvokeComplete":
                end = json.loads(payload)
                if "ErrorCode" in end:
                    details = end.get("ErrorDetails") or ""
                    outcome = end.get("LambentOutcome") or {}
                    raise_remote(FunctionError(outcome.get("x-lambent-error-type", end["ErrorCode"]), details.encode()))
                items.end()
                return
    raise error_of("UNAVAILABLE", "the answer broke off: the worker went away")
