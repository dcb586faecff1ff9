"""Overlap: a stage process that has several jobs in flight: the input of the next comes in while one is computed, and the result of the one before
goes out (docs/decisions/0041-edges-that-overlap.md). Used by lambent_runtime and by stage_process.py."""
import queue
import threading
from typing import Any, Callable, Optional

from .module import join_device

_END = object()


class Overlap:
    """Three threads, each of which does its part of one job after the other, in the order in which they come: a reader (`take`, begin()),
    the one that calls serve() and has loaded the components (work()), and a writer (finish(), `answer`). At most `in_flight` jobs are
    taken and not answered.

    `take()`: (ticket, function that begins the job) of the next, or None if there are no more.
    `answer(ticket, outcome)`: what the stage process answers, or the exception that there is instead."""

    def __init__(self, stage: Any, take: Callable[[], Any], answer: Callable[[Any, Any], None], in_flight: int) -> None:
        self._stage, self._take, self._answer = stage, take, answer
        self._room = threading.Semaphore(max(1, in_flight))
        self._begun: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._worked: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._error: Optional[BaseException] = None

    def serve(self) -> None:
        """Until there are no more jobs, and all are answered; raises what take() or answer() did."""
        threading.Thread(target=self._read, daemon=True).start()
        writer = threading.Thread(target=self._write, daemon=True)
        writer.start()
        while True:
            ticket, job = self._begun.get()
            if ticket is _END:
                break
            self._worked.put((ticket, _attempt(self._stage.work, job)))
            job = None  # nothing of it is held while there is no other
        if self._error is None:
            self._worked.put((_END, None))
            writer.join()
        if self._error is not None:
            raise self._error

    def _read(self) -> None:
        try:
            join_device()
            while True:
                self._room.acquire()
                taken = self._take()
                if taken is None:
                    break
                ticket, begin = taken
                self._begun.put((ticket, _attempt(lambda _: begin(), None)))
                taken = begin = None
        except BaseException as error:
            self._error = error
        self._begun.put((_END, None))

    def _write(self) -> None:
        try:
            join_device()
            while True:
                ticket, job = self._worked.get()
                if ticket is _END:
                    return
                outcome = _attempt(self._stage.finish, job)
                self._answer(ticket, outcome)
                # Before there is another: memory is planned for so many. After the answer: who frees may wait for the device.
                job = outcome = None
                self._room.release()
        except BaseException as error:
            # The reader may wait for ever for what this would have answered.
            self._error = error
            self._begun.put((_END, None))


def _attempt(part: Callable[[Any], Any], job: Any) -> Any:
    """What this part of a job comes to; the exception of it, or of a part before."""
    if isinstance(job, Exception):
        return job
    try:
        return part(job)
    except Exception as error:
        return error
