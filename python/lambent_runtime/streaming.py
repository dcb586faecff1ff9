"""Answers that are streamed: what a generator yields leaves piece by piece."""
import contextvars
import json

from .handler import ends_process, words_of

PRELUDE_TYPE = "application/vnd.awslambda.http-integration-response"
END_OF_PRELUDE = b"\0" * 8
# That of the invocation of this thread; None where nothing waits for that.
DEADLINE = contextvars.ContextVar("lambent_deadline", default=None)
CANCEL_AFTER = 0.1  # seconds after it: who waits is told by the worker first


def stream(api, request_id, answer, fail):
    """Sends what `answer`, a generator, yields; (status, message) of the Runtime API, if it was asked.

    `fail` is given what it raises: with `reports` to report it, else for the body of a report.
    """
    pieces = _Pieces(answer)
    try:
        begin = pieces.next()
        content_type, first = _begin(begin)
    except BaseException as error:
        pieces.close()
        if ends_process(error):
            raise
        return fail(error, reports=True)
    wanted = api.start_stream(request_id, content_type)
    try:
        if first:
            wanted = wanted and api.send_piece(first)
        while wanted:
            piece = pieces.next()
            if piece is None:
                break
            data = _bytes(piece)
            if data:
                wanted = api.send_piece(data)
    except BaseException as error:
        pieces.close()
        if ends_process(error):
            raise
        return api.end_stream(type(error).__name__, fail(error, reports=False))
    pieces.close()
    return api.end_stream() if wanted else api.drop_stream()


def _begin(piece):
    """(content type, first bytes)"""
    if isinstance(piece, dict) and "statusCode" in piece:
        return PRELUDE_TYPE, json.dumps(piece, allow_nan=False).encode() + END_OF_PRELUDE
    if isinstance(piece, str):
        return "text/plain; charset=utf-8", _bytes(piece)
    return "application/octet-stream", b"" if piece is None else _bytes(piece)


def _bytes(piece):
    if isinstance(piece, str):
        return piece.encode()
    if isinstance(piece, (bytes, bytearray, memoryview)):
        return bytes(piece)
    raise TypeError("a handler that streams yields bytes or str, not %s; the first thing that it yields may be "
                    "a dict with statusCode" % type(piece).__name__)


class _Loop:
    loop = None  # the same for all asynchronous handlers: their clients may stay with it
    lock = None  # where threads share the loop, which has one of its own
    run = None  # what that thread does with it


def share_loop(run):
    """wait() may be called by any thread; `run(loop)` runs the loop in one of its own, until the process ends."""
    import threading

    _Loop.lock, _Loop.run = threading.Lock(), staticmethod(run)


def wait(awaitable):
    """What it comes to. Where threads share the loop it is cancelled some time after DEADLINE."""
    import asyncio

    if _Loop.lock is None:
        if _Loop.loop is None:
            _Loop.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(_Loop.loop)
        return _Loop.loop.run_until_complete(awaitable)
    with _Loop.lock:
        if _Loop.loop is None:
            import threading

            _Loop.loop = asyncio.new_event_loop()
            threading.Thread(target=_Loop.run, args=(_Loop.loop,), name="lambent-loop", daemon=True).start()
    return asyncio.run_coroutine_threadsafe(_in_time(awaitable, DEADLINE.get()), _Loop.loop).result()


async def _in_time(awaitable, deadline):
    import asyncio

    if deadline is None or deadline.ms is None:
        return await awaitable
    task = asyncio.ensure_future(awaitable)
    loop = asyncio.get_running_loop()
    while True:
        moves = deadline.moves  # before its time, which another thread may ask for
        if (await asyncio.wait((task,), timeout=max(0, deadline.left() + CANCEL_AFTER)))[0] or not moves:
            break
        try:
            await _beside(loop, deadline.look)
        except RuntimeError:
            break  # no thread can be started
    return await asyncio.wait_for(task, 0)


async def _beside(loop, work):
    """Waits for `work`, in a thread of its own: those of the loop's executor may all be the handler's."""
    import threading

    done = loop.create_future()

    def run():
        try:
            work()
        finally:
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))

    threading.Thread(target=run, name="lambent-deadline", daemon=True).start()
    await done


class _Pieces:
    """What a generator of either kind yields, one after the other; None after the last."""

    def __init__(self, generator):
        self._generator = generator
        self._is_async = hasattr(generator, "ag_frame")

    def next(self):
        while True:
            try:
                piece = wait(self._generator.__anext__()) if self._is_async else next(self._generator)
            except (StopIteration, StopAsyncIteration):
                return None
            if piece is not None:
                return piece

    def close(self):
        """What it does at its end, such as letting go of what it holds; of no consequence for the answer."""
        try:
            if self._is_async:
                wait(self._generator.aclose())
            else:
                self._generator.close()
        except Exception as error:
            import sys

            sys.stderr.write("lambent_runtime: the handler failed at its end: %s: %s\n" % (type(error).__name__, words_of(error)))
