"""Several invocations at once in one process of the Python runtime, against a Runtime API made for the test: python3 -m unittest."""
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECONDS = 20  # that anything may take


class SharedRuntimeApi:
    """Gives invocations to whichever connection asks; as the worker's it knows how many are at work and how many calls may wait."""

    def __init__(self):
        self.events = queue.Queue()
        self.answers = {}  # id -> (what, body)
        self.moving = {}  # id -> seconds that it has yet (None: that is not answered), and whether that may still change
        self.change = threading.Condition()
        self.asking = 0
        self.most_asking = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def give(self, number, event, lasts=SECONDS, moves=False):
        """`moves`: its device memory is on its way, and what `moving` says of it counts."""
        deadline = int((time.time() + lasts) * 1000)
        self.events.put((number, deadline, moves, json.dumps(event).encode()))

    def refuse(self):
        """Answers one call that waits, or the next one, as where another takes its place."""
        self.events.put(None)

    def answer(self, number):
        """(response or error, its value)"""
        with self.change:
            if not self.change.wait_for(lambda: number in self.answers, SECONDS):
                raise AssertionError("no answer to %s; answers: %s" % (number, self.answers))
            what, body = self.answers[number]
            return what, json.loads(body)

    def wait_until_asked(self, times):
        with self.change:
            if not self.change.wait_for(lambda: self.asking >= times, SECONDS):
                raise AssertionError("%d calls for an invocation wait" % self.asking)

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            self._answer_all(connection)
        except OSError:
            pass  # the process ended

    def _answer_all(self, connection):
        with connection, connection.makefile("rb") as stream:
            while True:
                line = stream.readline().decode()
                if not line:
                    return
                method, path, _ = line.split(" ")
                length = 0
                while header := stream.readline().decode().rstrip("\r\n"):
                    name, _, value = header.partition(": ")
                    if name.lower() == "content-length":
                        length = int(value)
                body = stream.read(length)
                if method == "POST":
                    number, what = path.split("/")[-2:]
                    with self.change:
                        self.answers.setdefault(number, (what, body))
                        self.change.notify_all()
                    connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
                    continue
                if path.endswith("/deadline"):
                    lasts, moves = self.moving[path.split("/")[-2]]
                    if lasts is None:
                        stream.readline()  # until the client leaves
                        return
                    said = json.dumps({"deadlineMs": int((time.time() + lasts) * 1000), "moves": moves}).encode()
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))
                    continue
                with self.change:
                    self.asking += 1
                    self.most_asking = max(self.most_asking, self.asking)
                    self.change.notify_all()
                given = self.events.get()
                with self.change:
                    self.asking -= 1
                if given is None:
                    connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                    continue
                number, deadline, moves, event = given
                head = ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nLambda-Runtime-Aws-Request-Id: %s\r\n"
                        "Lambda-Runtime-Deadline-Ms: %d\r\n%sContent-Length: %d\r\n\r\n" %
                        (number, deadline, "Lambent-Runtime-Deadline: moves\r\n" if moves else "", len(event)))
                connection.sendall(head.encode() + event)


class SeveralTest(unittest.TestCase):
    def start(self, source, most=4):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "app.py"), "w", encoding="utf-8") as file:
            file.write(source)
        self.api = SharedRuntimeApi()
        self.addCleanup(self.api.listener.close)
        environment = dict(os.environ, AWS_LAMBDA_RUNTIME_API=self.api.address, PYTHONPATH=PYTHON, LAMBDA_TASK_ROOT=folder.name,
                           AWS_LAMBDA_MAX_CONCURRENCY=str(most))
        self.process = subprocess.Popen([sys.executable, "-m", "lambent_runtime", "app.handler"], cwd=folder.name, env=environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        return self.api

    def ended(self):
        """(exit code, what it printed)"""
        output, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, output.decode()

    MEET = """
import threading, time
together = threading.Barrier(4)
def handler(event, context):
    if event == "sleep":
        time.sleep(1.5)
    elif event == "meet":
        together.wait(10)
    return [event, threading.current_thread() is threading.main_thread()]
"""

    def test_the_first_thread_leaves_its_place_once_when_it_is_late(self):
        api = self.start(self.MEET)
        api.give("late", "sleep", lasts=0.1)
        what, answer = api.answer("late")
        self.assertEqual((what, answer), ("response", ["sleep", True]), "the main thread's")
        for turn in range(3):
            for number in range(4):
                api.give("%d-%d" % (turn, number), "meet")
            for number in range(4):
                self.assertEqual(api.answer("%d-%d" % (turn, number)), ("response", ["meet", False]))
        self.assertLessEqual(api.most_asking, 4)

    def test_a_coroutine_that_exits_ends_the_process(self):
        api = self.start("""
import asyncio, sys
async def handler(event, context):
    await asyncio.sleep(0)
    if event == "exit":
        sys.exit("it is to end")
    await asyncio.sleep(60)
""")
        api.give("waits", "wait")
        api.give("exits", "exit")
        code, output = self.ended()
        self.assertEqual(code, 1, output)
        self.assertIn("it is to end", output)

    def test_coroutines_meet_and_each_knows_its_invocation(self):
        api = self.start("""
import asyncio
from lambent_runtime.logs import REQUEST_ID
met = []
async def handler(event, context):
    mine = asyncio.get_running_loop().create_future()
    met.append(mine)
    if len(met) == 4:
        for each in met:
            each.set_result(None)
    await mine
    return [event, REQUEST_ID.get()]
""")
        for number in range(4):
            api.give("id-%d" % number, number)
        for number in range(4):
            self.assertEqual(api.answer("id-%d" % number), ("response", [number, "id-%d" % number]))

    def test_a_coroutine_is_cancelled_after_its_deadline_and_one_that_cancels_itself_fails(self):
        api = self.start("""
import asyncio
async def handler(event, context):
    if event == "cancel":
        asyncio.current_task().cancel()
    await asyncio.sleep(60)
""")
        api.give("late", "wait", lasts=0.2)
        api.give("cancels", "cancel")
        self.assertEqual(api.answer("late")[1]["errorType"], "TimeoutError")
        self.assertEqual(api.answer("cancels")[1]["errorType"], "CancelledError")

    def test_a_deadline_that_moves_with_the_memory_of_the_invocation_is_asked_for(self):
        api = self.start("""
import asyncio, pathlib, time
async def handler(event, context):
    if event == "coroutine":
        await asyncio.sleep(1.2)
    return [event, context.get_remaining_time_in_millis() > 3000]
""")
        api.moving = {"in-time": (0.3, True), "too-late": (0.3, True), "blocks": (5, False)}
        api.give("in-time", "coroutine", lasts=0.3, moves=True)
        time.sleep(0.8)
        api.moving["in-time"] = (5, False)  # its memory has come
        self.assertEqual(api.answer("in-time"), ("response", ["coroutine", True]))
        api.give("too-late", "coroutine", lasts=0.3, moves=True)
        time.sleep(0.5)
        api.moving["too-late"] = (0.2, False)
        self.assertEqual(api.answer("too-late")[1]["errorType"], "TimeoutError")
        api.give("blocks", "at once", lasts=0.1, moves=True)
        self.assertEqual(api.answer("blocks"), ("response", ["at once", True]))

    def test_a_coroutine_is_cancelled_also_where_the_executor_of_its_loop_is_full(self):
        api = self.start("""
import asyncio, concurrent.futures, time
async def handler(event, context):
    loop = asyncio.get_running_loop()
    if event == "hang":
        loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
        await loop.run_in_executor(None, time.sleep, 60)
    await asyncio.sleep(60)
""")
        api.moving = {"moves": (0.1, False)}
        api.give("hangs", "hang", lasts=0.2)
        self.assertEqual(api.answer("hangs")[1]["errorType"], "TimeoutError")
        api.give("sleeps", "sleep", lasts=0.2)
        self.assertEqual(api.answer("sleeps")[1]["errorType"], "TimeoutError")
        api.give("moves", "sleep", lasts=0.1, moves=True)
        self.assertEqual(api.answer("moves")[1]["errorType"], "TimeoutError")
        self.assertIsNone(self.process.poll())

    def test_a_runtime_api_that_does_not_tell_a_deadline_keeps_no_other_waiting(self):
        api = self.start("""
import asyncio, time
async def handler(event, context):
    if event == "ask":
        return context.get_remaining_time_in_millis() > 0
    await asyncio.sleep(60)
""")
        api.moving = {number: (None, True) for number in ("one", "two", "asks")}
        begun = time.monotonic()
        for number in ("one", "two"):
            api.give(number, "sleep", lasts=0.1, moves=True)
        time.sleep(0.3)
        api.give("asks", "ask", moves=True)
        api.give("other", "sleep", lasts=0.2)
        self.assertEqual(api.answer("asks"), ("response", True))
        self.assertEqual(api.answer("other")[1]["errorType"], "TimeoutError")
        for number in ("one", "two"):
            self.assertEqual(api.answer(number)[1]["errorType"], "TimeoutError")
        self.assertGreater(time.monotonic() - begun, 2, "it was asked more than once")

    def test_places_are_counted_while_a_deadline_is_not_told(self):
        api = self.start("import time\ndef handler(event, context):\n    time.sleep(60)\n", most=2)
        api.moving = {"moves": (None, True)}
        api.give("moves", "sleep", lasts=0.1, moves=True)
        time.sleep(0.7)  # it is being asked for
        api.give("late", "sleep", lasts=0.1)
        api.give("late too", "sleep", lasts=0.1)
        code, output = self.ended()
        self.assertEqual(code, 1, output)
        self.assertIn("2 invocations go on", output)

    def test_the_place_of_one_whose_memory_is_on_its_way_is_not_given_away(self):
        api = self.start("""
import time
def handler(event, context):
    time.sleep(1.2)
""", most=2)
        api.moving = {number: (5, True) for number in ("one", "two")}
        for number in api.moving:
            api.give(number, "sleep", lasts=0.1, moves=True)
        for number in api.moving:
            self.assertEqual(api.answer(number), ("response", None), "without a place left its process ends")

    def test_the_same_invocation_again_while_its_first_try_goes_on_has_a_place_of_its_own(self):
        api = self.start("""
import threading, time
together = threading.Barrier(4)
tries = 0
def handler(event, context):
    global tries
    tries += 1
    if event == "sleep" and tries == 1:
        time.sleep(60)
    elif event == "meet":
        together.wait(10)
    return event
""")
        api.give("again", "sleep", lasts=0.1)
        time.sleep(0.8)  # its place is another's now
        api.give("again", "sleep")
        self.assertEqual(api.answer("again"), ("response", "sleep"))
        for number in range(4):
            api.give("id-%d" % number, "meet")
        for number in range(4):
            self.assertEqual(api.answer("id-%d" % number), ("response", "meet"))

    def test_one_that_was_cancelled_keeps_no_place(self):
        # Two may be at work, and the worker has given the first one up: it gives two more.
        api = self.start("""
import threading, time
together = threading.Barrier(2)
def handler(event, context):
    if event == "sleep":
        time.sleep(60)
    together.wait(10)
    return event
""", most=2)
        api.give("cancelled", "sleep", lasts=60)
        api.give("one", "meet")
        api.give("two", "meet")
        self.assertEqual(api.answer("one"), ("response", "meet"))
        self.assertEqual(api.answer("two"), ("response", "meet"))
        # As many of them as may be at work are too many.
        api.give("cancelled too", "sleep", lasts=60)
        api.give("three", "sleep", lasts=60)
        api.give("four", "sleep", lasts=60)
        code, output = self.ended()
        self.assertEqual(code, 1, output)
        self.assertIn("2 invocations go on", output)

    def test_a_call_that_is_refused_ends_its_thread_and_the_last_one_the_process(self):
        api = self.start("def handler(event, context):\n    return event\n")
        api.give("one", 1)
        api.answer("one")
        api.wait_until_asked(2)
        api.refuse()
        for number in range(3):
            api.give("id-%d" % number, number)
            self.assertEqual(api.answer("id-%d" % number), ("response", number))
        for _ in range(8):  # a call that others overtook is made again
            api.refuse()
        code, output = self.ended()
        self.assertEqual(code, 24, output)
        self.assertIn("answered 403", output)

    def test_a_call_that_is_refused_when_the_newer_one_has_got_its_invocation_is_made_again(self):
        api = self.start('''
import threading
together = threading.Barrier(2)
def handler(event, context):
    if event == "meet":
        print("began", flush=True)
        together.wait(10)
    return event
''')
        api.give("one", 1)
        api.answer("one")
        api.wait_until_asked(2)
        api.give("two", "meet")
        self.assertIn(b"began", self.process.stdout.readline())
        # The other call waited before that, and learns only now that it had lost its place.
        api.refuse()
        api.give("three", "meet")
        self.assertEqual(api.answer("two"), ("response", "meet"))
        self.assertEqual(api.answer("three"), ("response", "meet"))

    def test_without_another_thread_the_process_ends_and_says_so(self):
        api = self.start("""
import threading
start = threading.Thread.start
def refuse(thread):
    if thread.name == "lambent-invocation":
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = refuse
def handler(event, context):
    return event
""")
        api.give("one", 1)
        code, output = self.ended()
        self.assertEqual(code, 1, output)
        self.assertIn("can't start new thread", output)


if __name__ == "__main__":
    unittest.main()
