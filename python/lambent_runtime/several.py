"""Several invocations at once in one process: each has a thread, and a connection to the Runtime API.

A thread that gets an invocation lets another one ask for the next, so that there are as many as were ever at work at once.
Coroutines of all of them run in one loop, in a thread of its own, and are cancelled at their deadline. A thread cannot be:
it goes on beside another one that takes its place.
"""
import os
import sys
import threading
import time

from .api import ApiError, RuntimeApi
from .logs import REQUEST_ID
from .streaming import CANCEL_AFTER, DEADLINE, share_loop

REPLACE_AFTER = CANCEL_AFTER + 0.4  # seconds after its deadline that an invocation still has its place


class Several:
    def __init__(self, address, handler, most, serve_one):
        """`serve_one(api, handler, taken)` serves one invocation; it calls `taken` with its headers when it has come."""
        self._address, self._handler, self._most, self._serve_one = address, handler, most, serve_one
        self._change = threading.Condition()
        self._waiting = 0  # threads that ask for an invocation
        self._working = {}  # invocation -> when it loses its place, of time.time()
        self._late = set()  # invocations whose time was up, with threads that still work for them

    def serve(self, api):
        """Until the process ends; `api` is the first thread's."""
        share_loop()
        self._waiting = 1
        threading.Thread(target=self._watch, name="lambent-deadlines", daemon=True).start()
        self._run(api)

    def _start(self):
        self._waiting += 1
        threading.Thread(target=self._run, args=(RuntimeApi(self._address),), name="lambent-invocation", daemon=True).start()

    def _run(self, api):
        taken = None

        def take(headers):
            nonlocal taken
            taken = headers["lambda-runtime-aws-request-id"]
            REQUEST_ID.set(taken)
            deadline = headers.get("lambda-runtime-deadline-ms", "")
            DEADLINE.set(int(deadline) / 1000 if deadline.isdigit() else None)
            with self._change:
                self._waiting -= 1
                self._working[taken] = int(deadline) / 1000 + REPLACE_AFTER if deadline.isdigit() else float("inf")
                if self._waiting == 0 and len(self._working) < self._most:
                    self._start()
                self._change.notify()

        try:
            while True:
                self._serve_one(api, self._handler, take)
                with self._change:
                    if taken in self._late:
                        self._late.remove(taken)
                        return  # another one has taken its place
                    del self._working[taken]
                    if self._waiting + len(self._working) >= self._most:
                        return
                    self._waiting += 1
        except (ApiError, OSError) as error:
            _leave("lambent_runtime: %s\n" % error, 24)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            _leave("" if error.code is None or isinstance(error.code, int) else "%s\n" % error.code, code)
        except BaseException:
            import traceback

            _leave(traceback.format_exc(), 1)

    def _watch(self):
        while True:
            with self._change:
                now = time.time()
                for late in [each for each, end in self._working.items() if end <= now]:
                    del self._working[late]
                    self._late.add(late)
                    if len(self._late) >= self._most:
                        _leave("lambent_runtime: %d invocations go on after their time was up; this process ends\n" % len(self._late), 1)
                    if self._waiting == 0:
                        self._start()
                next_end = min(self._working.values(), default=float("inf"))
                # The clock may be set; an hour is soon enough for that.
                self._change.wait(min(max(0.001, next_end - now), 3600))


def _leave(words, code):
    """Ends the process from any thread."""
    sys.stderr.write(words)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)
