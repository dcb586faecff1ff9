"""Several invocations at once in one process: each has a thread, and a connection to the Runtime API.

A thread that gets an invocation lets another one ask for the next, so that one always asks and there are as many as were ever
at work at once. How many may be at work is the worker's to know: one that was cancelled has left its place there, and nothing
here says so. Coroutines of all of them run in one loop, in a thread of its own, and are cancelled at their deadline. A thread
cannot be: it goes on beside another one that takes its place.
"""
import os
import sys
import threading

from .api import ApiError, Refused, RuntimeApi
from .deadline import Deadline
from .logs import REQUEST_ID
from .streaming import CANCEL_AFTER, DEADLINE, share_loop

REPLACE_AFTER = CANCEL_AFTER + 0.4  # seconds after its deadline that an invocation still has its place


class Several:
    def __init__(self, address, handler, most, serve_one):
        """`serve_one(api, handler, taken)` serves one invocation; it calls `taken` with its headers when it has come."""
        self._address, self._handler, self._most, self._serve_one = address, handler, most, serve_one
        self._change = threading.Condition()
        self._waiting = 0  # threads that ask for an invocation
        self._taken = 0  # invocations that came
        self._working = {}  # place of an invocation -> its deadline
        self._asked = set()  # places whose deadline moves, and is being asked for
        self._late = set()  # places that invocations had whose time was up, with threads that still work for them

    def serve(self, api):
        """Does not return: the process ends from one of its threads. `api` is the first one's."""
        share_loop(_to_the_end(lambda loop: loop.run_forever()))
        self._waiting = 1
        threading.Thread(target=_to_the_end(self._watch), name="lambent-deadlines", daemon=True).start()
        _to_the_end(self._run)(api)
        # Another thread has taken the place of this one, which is the process's.
        threading.Event().wait()

    def _start(self):
        self._waiting += 1
        run = _to_the_end(self._run)
        threading.Thread(target=run, args=(RuntimeApi(self._address),), name="lambent-invocation", daemon=True).start()

    def _run(self, api):
        place = None

        def take(headers):
            nonlocal place
            place = object()  # the same invocation may come again while its first try goes on
            REQUEST_ID.set(headers["lambda-runtime-aws-request-id"])
            deadline = Deadline(headers)
            DEADLINE.set(deadline)
            with self._change:
                self._waiting -= 1
                self._taken += 1
                self._working[place] = deadline
                self._leave_with_too_many(len(self._working) + len(self._late) - self._most)
                if self._waiting == 0:
                    self._start()
                self._change.notify()

        while True:
            with self._change:
                taken_before = self._taken
            try:
                self._serve_one(api, self._handler, take)
            except Refused:
                # A newer call has this one's place. While its thread asks, that is enough; if it has got an invocation since,
                # this one asks again.
                with self._change:
                    if self._waiting == 1:
                        if self._taken == taken_before:
                            raise
                        continue
                    self._waiting -= 1
                    return
            with self._change:
                if place in self._late:
                    self._late.remove(place)
                    return  # another one has taken its place
                del self._working[place]
                if self._waiting > 0 and self._waiting + len(self._working) >= self._most:
                    return
                self._waiting += 1

    def _watch(self):
        while True:
            with self._change:
                watched = [each for each in self._working.items() if each[0] not in self._asked]
                for place, deadline in watched:
                    moves = deadline.moves  # before its time, which another thread may ask for
                    if deadline.left() + REPLACE_AFTER > 0:
                        continue
                    if moves:
                        self._ask(place, deadline)
                    else:
                        del self._working[place]
                        self._late.add(place)
                        self._leave_with_too_many(len(self._late))
                left = min((deadline.left() for place, deadline in self._working.items() if place not in self._asked),
                           default=float("inf"))
                # The clock may be set; an hour is soon enough for that.
                self._change.wait(min(max(0.001, left + REPLACE_AFTER), 3600))

    def _ask(self, place, deadline):
        """Asks for a deadline that moves, in a thread of its own: others may be over meanwhile."""

        def ask():
            deadline.look()
            with self._change:
                self._asked.discard(place)
                self._change.notify()

        self._asked.add(place)
        threading.Thread(target=_to_the_end(ask), name="lambent-deadline", daemon=True).start()

    def _leave_with_too_many(self, count):
        if count >= self._most:
            _leave("lambent_runtime: %d invocations go on that were cancelled, or whose time was up; this process ends\n" % count, 1)


def _to_the_end(work):
    """`work`, in any thread; what it raises ends the process, as nothing would take the thread's place."""

    def run(*arguments):
        try:
            work(*arguments)
        except (ApiError, OSError) as error:
            _leave("lambent_runtime: %s\n" % error, 24)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            _leave("" if error.code is None or isinstance(error.code, int) else "%s\n" % error.code, code)
        except BaseException:
            import traceback

            _leave(traceback.format_exc(), 1)

    return run


def _leave(words, code):
    """Ends the process from any thread."""
    for step in (lambda: sys.stderr.write(words), sys.stdout.flush, sys.stderr.flush):
        try:
            step()
        except (OSError, ValueError):
            pass
    os._exit(code)
