"""SendingEnd and ReceivingEnd: values through a stage channel, by liblambent_stage.so (src/gpu/stage_channel/c_api.h). Device memory goes
from device to host memory to the next device there, without this interpreter's lock and without a copy in Python."""
import ctypes
import json
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from .values import NO_STREAM, Failed, ValueRefused, put_together, room_for, take_apart

DONE, TIMED_OUT, PEER_GONE, ENDED, TOO_LARGE, MALFORMED, DEVICE, SYSTEM, INVALID, FAILED = range(10)
NAMES = ("Done", "TimedOut", "PeerGone", "Ended", "TooLarge", "Malformed", "Device", "System", "Invalid", "Failed")
_TENSOR, _JSON, _ERROR = 1, 2, 3
MOST_ENTRIES = 1024
_ALIGNMENT = 256
# A text in a channel; more is no value of a request.
_MOST_TEXT_BYTES = 64 << 20


class ChannelError(Exception):
    """What went wrong in a channel; `status` is one of this module's numbers."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def error_type(self) -> str:
        return "Channel." + NAMES[self.status]


class _Value(ctypes.Structure):
    _fields_ = [("request", c_uint32), ("kind", c_uint32), ("datatype", c_uint32), ("container", c_uint32),
                ("dimension_count", c_uint32), ("on_device", c_uint32), ("dimensions", c_uint64 * 8),
                ("address", c_uint64), ("bytes", c_uint64)]


_FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "create": (c_int, [c_char_p, c_uint32, c_uint64, c_uint32, c_char_p, c_uint64]),
    "end_channel": (c_int, [c_char_p, c_char_p, c_uint64]),
    "open": (c_void_p, [c_char_p, c_int, c_char_p, c_uint64]),
    "close": (None, [c_void_p]),
    "error": (c_char_p, [c_void_p]),
    "note": (c_char_p, [c_void_p]),
    "slot_bytes": (c_uint64, [c_void_p]),
    "send": (c_int, [c_void_p, c_uint64, c_uint32, POINTER(_Value), c_uint32, c_uint64, c_int64]),
    "receive": (c_int, [c_void_p, POINTER(c_uint64), POINTER(c_uint32), POINTER(POINTER(_Value)), POINTER(c_uint32),
                        c_int64]),
    "take": (c_int, [c_void_p, c_uint32, c_uint64, c_int, c_uint64, c_int64]),
    "release": (c_int, [c_void_p]),
}
_loaded: Optional[ctypes.CDLL] = None


def _library() -> Any:
    """liblambent_stage.so beside this file; where this is the source tree, from the build that LAMBENT_PREFIX names."""
    global _loaded
    if _loaded is None:
        beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "liblambent_stage.so")
        prefix = os.environ.get("LAMBENT_PREFIX", "")
        built = os.path.join(prefix, "share/lambent/python/lambent/pipeline/liblambent_stage.so")
        path = built if prefix and not os.path.exists(beside) else beside
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise ChannelError(SYSTEM, "cannot load the library of channels: %s" % error) from None
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, "lambent_stage_" + name)
            function.restype, function.argtypes = result, arguments
        _loaded = library
    return _loaded


def create(path: str, slots: int = 4, slot_bytes: int = 256 << 20, mode: int = 0o600) -> None:
    """Makes a channel's file. A slot holds the value of one job; its bytes are a limit and cost nothing until they are used."""
    error = ctypes.create_string_buffer(512)
    status = _library().lambent_stage_create(os.fsencode(path), slots, slot_bytes, mode, error, 512)
    if status != DONE:
        raise ChannelError(status, error.value.decode("utf-8", "replace"))


def end(path: str) -> None:
    """Ends a channel from outside: who waits in it finds out."""
    error = ctypes.create_string_buffer(512)
    status = _library().lambent_stage_end_channel(os.fsencode(path), error, 512)
    if status != DONE:
        raise ChannelError(status, error.value.decode("utf-8", "replace"))


def _milliseconds(timeout_ms: Optional[float]) -> int:
    return -1 if timeout_ms is None else max(0, int(timeout_ms))


class _End:
    _is_sender = 0

    def __init__(self, path: str) -> None:
        self._functions = _library()
        error = ctypes.create_string_buffer(512)
        self._end = self._functions.lambent_stage_open(os.fsencode(path), self._is_sender, error, 512)
        if not self._end:
            raise ChannelError(SYSTEM, error.value.decode("utf-8", "replace"))
        self.path = path
        self.slot_bytes = self._functions.lambent_stage_slot_bytes(self._end)

    def close(self) -> None:
        end_, self._end = self._end, None
        if end_:
            self._functions.lambent_stage_close(end_)

    def _raise(self, status: int) -> NoReturn:
        text = self._functions.lambent_stage_error(self._end).decode("utf-8", "replace")
        raise ChannelError(status, "%s: %s" % (self.path, text))

    @property
    def note(self) -> str:
        """Why copies are slower than they could be; empty if they are not."""
        return str(self._functions.lambent_stage_note(self._end), "utf-8", "replace")


class SendingEnd(_End):
    _is_sender = 1

    def send(self, job: int, values: List[Any], timeout_ms: Optional[float] = None, complete: bool = False) -> List[Any]:
        """Sends the values of a job, one for each request; a Failed is one. A value that cannot be handed on, or for which the
        slot has no room left, goes as a Failed; the list of what went is returned. Waits for a slot; ChannelError if none comes
        free in time or no process is left to free one. `complete`: no work that makes the values is under way on the device any more,
        so that their copies need not wait for what is; those of tensors that had to be made contiguous here follow that."""
        sent: List[Any] = []
        entries: List[_Value] = []
        kept: List[Tuple[Any, Any]] = []
        used, stream = 0, 0
        for request, value in enumerate(values):
            reserve = _ALIGNMENT * 4 * (len(values) - request - 1)  # for the errors of those that follow
            own, failure = self._entries(request, value, kept)
            after = _end_of(own, used)
            entries_left = MOST_ENTRIES - len(entries) - (len(values) - request - 1)
            if failure is None and (after > self.slot_bytes - reserve or len(own) > entries_left):
                failure = Failed("Channel.TooLarge", "a value of %d bytes does not fit in a slot of %d bytes" %
                                 (sum(entry.bytes for entry in own), self.slot_bytes))
                own, _ = self._entries(request, failure, kept)
                after = _end_of(own, used)
            used = after
            entries.extend(own)
            sent.append(value if failure is None else failure)
        on_device = [leaf for _, leaf in kept if leaf is not None and leaf.on_device]
        for leaf in on_device:
            if leaf.stream:
                stream = leaf.stream
        if complete and not any(leaf.is_copy for leaf in on_device):
            stream = NO_STREAM
        array = (_Value * max(1, len(entries)))(*entries)
        status = self._functions.lambent_stage_send(self._end, job, len(values), array, len(entries), stream,
                                                    _milliseconds(timeout_ms))
        if status != DONE:
            self._raise(status)
        return sent

    def _entries(self, request: int, value: Any, kept: List[Tuple[Any, Any]]) -> Tuple[List[_Value], Optional[Failed]]:
        failure = None
        try:
            if isinstance(value, Failed):
                return [_text_entry(request, _ERROR, _short(value), kept)], None
            text, leaves = take_apart(value)
        except Exception as error:  # a value's own code may run here
            failure = Failed(type(error).__name__, str(error))
            return [_text_entry(request, _ERROR, _short(failure), kept)], failure
        entries = [] if text is None else [_text_entry(request, _JSON, text, kept)]
        for leaf in leaves:
            entry = _Value(request, _TENSOR, leaf.datatype, leaf.container, len(leaf.shape), leaf.on_device)
            for i, size in enumerate(leaf.shape):
                entry.dimensions[i] = size
            entry.address, entry.bytes = leaf.address or 0, leaf.nbytes
            kept.append((None, leaf))
            entries.append(entry)
        return entries, failure


def _end_of(entries: List[_Value], used: int) -> int:
    for entry in entries:
        used = -(-used // _ALIGNMENT) * _ALIGNMENT + entry.bytes
    return used


def _short(failure: Failed) -> bytes:
    """A Failed in at most 900 bytes, so that there is always room for it."""
    for limit in (600, 100, 0):
        text = json.dumps({"errorType": failure.error_type[:100], "errorMessage": failure.message[:limit]}).encode()
        if len(text) <= 900:
            return text
    return b'{"errorType": "Error", "errorMessage": ""}'


def _text_entry(request: int, kind: int, text: bytes, kept: List[Tuple[Any, Any]]) -> _Value:
    kept.append((text, None))
    entry = _Value(request, kind)
    entry.address = ctypes.cast(c_char_p(text), c_void_p).value
    entry.bytes = len(text)
    return entry


class ReceivingEnd(_End):
    def wait(self, timeout_ms: Optional[float] = None) -> Tuple[int, int]:
        """(job, number of requests) of the next value; the same again until it is taken or dropped."""
        job, requests, count = c_uint64(), c_uint32(), c_uint32()
        values = POINTER(_Value)()
        status = self._functions.lambent_stage_receive(self._end, byref(job), byref(requests), byref(values), byref(count),
                                                       _milliseconds(timeout_ms))
        if status != DONE:
            self._raise(status)
        self._arrived = [values[i] for i in range(count.value)]
        return job.value, requests.value

    def take(self, requests: int, timeout_ms: Optional[float] = None) -> List[Any]:
        """The values that wait() found: one for each request, a Failed where that is what was sent. The slot is free then,
        whatever happens."""
        try:
            owned: List[List[Tuple[int, _Value]]] = [[] for _ in range(requests)]
            for index, value in enumerate(self._arrived):
                owned[value.request].append((index, value))
            return [self._value(entries, timeout_ms) for entries in owned]
        finally:
            self.drop()

    def drop(self) -> None:
        self._arrived = []
        self._functions.lambent_stage_release(self._end)

    def _value(self, entries: List[Tuple[int, _Value]], timeout_ms: Optional[float]) -> Any:
        if not entries:
            return Failed("Channel.Malformed", "nothing was sent for this request")
        texts: List[Tuple[int, bytes]] = []
        tensors: List[Any] = []
        for index, entry in entries:
            if entry.kind == _TENSOR:
                tensors.append(self._tensor(index, entry, timeout_ms))
            else:
                texts.append((entry.kind, self._text(index, entry, timeout_ms)))
        try:
            if not texts and len(tensors) == 1:
                return tensors[0]
            if len(texts) != 1:
                raise ValueRefused("a value of %d texts and %d tensors" % (len(texts), len(tensors)))
            kind, text = texts[0]
            if kind == _JSON:
                return put_together(text, tensors)
            error = json.loads(text)
            return Failed(str(error["errorType"]), str(error["errorMessage"]))
        except (ValueError, LookupError, TypeError) as error:
            return Failed("Channel.Malformed", str(error))

    def _tensor(self, index: int, entry: _Value, timeout_ms: Optional[float]) -> Any:
        shape = tuple(entry.dimensions[:entry.dimension_count])
        leaf, finish = room_for(entry.container, entry.datatype, shape, entry.bytes)
        self._copy(index, leaf.address, leaf.on_device, leaf.stream, timeout_ms)
        return finish()

    def _text(self, index: int, entry: _Value, timeout_ms: Optional[float]) -> bytes:
        if entry.bytes > _MOST_TEXT_BYTES:
            raise ChannelError(MALFORMED, "%s: a text of %d bytes" % (self.path, entry.bytes))
        data = ctypes.create_string_buffer(max(1, entry.bytes))
        self._copy(index, ctypes.addressof(data), False, 0, timeout_ms)
        return ctypes.string_at(data, entry.bytes)

    def _copy(self, index: int, address: Optional[int], on_device: bool, stream: int, timeout_ms: Optional[float]) -> None:
        status = self._functions.lambent_stage_take(self._end, index, address, on_device, stream, _milliseconds(timeout_ms))
        if status != DONE:
            self._raise(status)
