"""Apps without a worker: settings, packages, and calls between a caller and a handler in one process."""
import asyncio
import http.server
import io
import json
import os
import pathlib
import pickle
import random
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import zipfile
import zlib
from unittest import mock

PYTHON = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PYTHON))

import lambent  # noqa: E402
from lambent import __main__ as command  # noqa: E402
from lambent import _command, app_calls, app_code, app_streams, app_watch  # noqa: E402
from lambent.client import Client  # noqa: E402
from lambent.errors import FunctionError, LambentError, error_of  # noqa: E402
from lambent.thread_clients import ThreadClients  # noqa: E402

app = lambent.App("test")


class Odd(Exception):
    def __init__(self, number):
        super().__init__("odd: %d" % number)
        self.number = number

    def __reduce__(self):
        return Odd, (self.number,)


class TooFar(Exception):
    def __init__(self, place, *, limit):
        super().__init__("%s is beyond %d" % (place, limit))
        self.place = place


@app.function()
def go(place):
    raise TooFar(place or (lambda: 0), limit=10)


@app.function(memory="1G", gpu="2GiB", timeout=7, environment={"A": "1"}, secrets={"TOKEN": "db"})
def twice(x, by=2):
    if x == 3:
        raise Odd(x)
    return (x * by, {x})


@app.cls()
class Counter:
    @lambent.enter
    def load(self):
        self.count = 10

    def add(self, n):
        self.count += n
        return self.count

    def _secret(self):
        return 1


@app.function()
def numbers(n, fail_at=None):
    for i in range(n):
        if i == fail_at:
            raise Odd(i)
        yield {i}


@app.function()
async def numbers_later(n):
    for i in range(n):
        yield i


@app.function()
async def thrice(x):
    return x * 3


def event_frame(kind, payload):
    """As the worker writes them."""
    headers = b"".join(bytes([len(name)]) + name + b"\x07" + len(value).to_bytes(2, "big") + value
                       for name, value in ((b":message-type", b"event"), (b":event-type", kind.encode())))
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


class Handled:
    """A client whose functions are handlers in this process."""

    def __init__(self):
        self.handlers, self.stored, self.sent = {}, {}, 0
        self.keys, self.refusals = [], []  # of requests; when the next ones may come again

    def refuse(self, key):
        self.keys.append(key)
        if self.refusals:
            error = error_of("RESOURCE_EXHAUSTED", "too much waits")
            error.retry_after = self.refusals.pop(0)
            raise error

    def invoke(self, name, payload, needs=(), key=None):
        self.refuse(key)
        self.sent = len(payload)
        if name not in self.handlers:
            raise app_calls.error_of("NOT_FOUND", "no such function")
        try:
            return json.dumps(self.handlers[name](json.loads(payload), None)).encode()
        except Exception as error:
            body = {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": ["  File x"]}
            if hasattr(error, "lambent_exception"):
                body["lambentException"] = error.lambent_exception
            raise FunctionError(type(error).__name__, json.dumps(body).encode()) from None

    def stream(self, name, payload, needs=()):
        """The answer's event stream, cut anywhere."""
        self.refuse(None)
        if name not in self.handlers:
            raise app_calls.error_of("NOT_FOUND", "no such function")
        whole, end = b"", {}
        try:
            answer = self.handlers[name](json.loads(payload), None)
            pieces = asyncio.run(collect(answer)) if hasattr(answer, "ag_frame") else answer
            for piece in pieces:
                whole += event_frame("PayloadChunk", piece)
        except Exception as error:
            details = json.dumps({"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": ["  File x"],
                                  "lambentException": getattr(error, "lambent_exception", "")})
            end = {"ErrorCode": "Unhandled", "ErrorDetails": details}
        whole += event_frame("InvokeComplete", json.dumps(end).encode())
        yield from (whole[at:at + 7] for at in range(0, len(whole), 7))

    def release(self, references):
        pass


async def collect(items):
    return [each async for each in items]


def stream(name, *args, method="", **kwargs):
    client = Handled()
    client.handlers[name] = app_calls.handler_of(__name__, name)
    return app_calls.stream(client, name, method, args, kwargs)


def call(name, *args, method="", **kwargs):
    client = Handled()
    client.handlers[name] = app_calls.handler_of(__name__, name)
    return app_calls.call(client, name, method, args, kwargs)


class CallsTest(unittest.TestCase):
    def test_arguments_and_answers_keep_their_types(self):
        self.assertEqual(call("twice", 4), (8, {4}))
        self.assertEqual(call("twice", 4, by=0.5), (2.0, {4}))

    def test_an_exception_is_raised_as_it_was_with_the_remote_traceback(self):
        with self.assertRaises(Odd) as caught:
            call("twice", 3)
        self.assertEqual(caught.exception.number, 3)
        self.assertIn("Odd: odd: 3", str(caught.exception.__cause__))
        self.assertIsInstance(caught.exception.__cause__, app_calls.RemoteTraceback)

    def test_one_that_cannot_be_sent_is_a_remote_error(self):
        with self.assertRaises(app_calls.RemoteError) as caught:
            app_calls.raise_remote(FunctionError("Strange", b'{"errorMessage": "m", "errorType": "Strange", "stackTrace": []}'))
        self.assertEqual(caught.exception.type, "Strange")
        with self.assertRaises(FunctionError):
            app_calls.raise_remote(FunctionError("Runtime.ExitError", b"no JSON"))

    def test_a_remote_error_has_the_message_and_passes_between_processes(self):
        for payload, text in ((b'{"errorMessage": "exit status 9", "errorType": "Runtime.ExitError"}', "Runtime.ExitError: exit status 9"),
                              (b"no JSON", "Runtime.ExitError: no JSON"), (b'{"errorMessage": 3}', 'Runtime.ExitError: {"errorMessage": 3}')):
            with self.assertRaises(FunctionError) as caught:
                app_calls.raise_remote(FunctionError("Runtime.ExitError", payload))
            self.assertEqual(str(caught.exception), text)
        error = app_calls.RemoteError("Strange", b"{}")
        self.assertIs(type(pickle.loads(pickle.dumps(error))), app_calls.RemoteError)

    def test_an_exception_comes_back_whatever_its_init_takes(self):
        with self.assertRaisesRegex(TooFar, "^[(]11, 2[)] is beyond 10$") as caught:
            call("go", (11, 2))
        self.assertEqual(caught.exception.place, (11, 2))
        with self.assertRaises(app_calls.RemoteError) as caught:
            call("go", None)  # a lambda cannot be sent
        self.assertEqual(caught.exception.type, "TooFar")

    def test_classes_of_a_program_are_found_under_its_files_name(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "shopping.py").write_text(
                "import pickle, sys\nfrom lambent import app_pickles\nprint('begun')\nclass P:\n    class Q: pass\n"
                "for kind in (P, P.Q):\n    pickled = pickle.dumps(kind(), 5).replace(b'__main__', b'shopping')\n"
                "    print(type(app_pickles.loads(pickled)) is kind)\nprint('shopping' in sys.modules)\n")
            done = subprocess.run([sys.executable, "shopping.py"], cwd=folder, env={**os.environ, "PYTHONPATH": str(PYTHON)}, capture_output=True,
                                  text=True, timeout=60)
        self.assertEqual(done.stdout.split(), ["begun", "True", "True", "False"], done.stderr)

    def test_a_good_answer_is_not_lost_where_its_object_cannot_be_removed(self):
        client = mock.create_autospec(Client, instance=True)
        client.get.return_value = pickle.dumps(("large", 1))
        client.remove.side_effect = error_of("UNAVAILABLE", "the worker is restarted")
        client.release.side_effect = lambda names: Client.release(client, names)
        self.assertEqual(app_calls._value(client, json.dumps({app_calls._KEY: {"object": "id.0"}}), lambda begin: begin(None)), ("large", 1))
        client.remove.assert_called_once_with("id.0")

    def test_large_arguments_and_answers_that_are_refused_for_now_are_sent_and_asked_for_again(self):
        def refusal():
            error = error_of("RESOURCE_EXHAUSTED", "too many requests")
            error.retry_after = 0.01
            return error

        answer = json.dumps({app_calls._KEY: {"object": "id.0"}}).encode()
        client = mock.create_autospec(Client, instance=True)
        client.put.side_effect = [refusal(), mock.Mock(id="arguments")]
        client.invoke.return_value = answer
        client.get.side_effect = [refusal(), refusal(), pickle.dumps("large")]
        self.assertEqual(app_calls.call(client, "f", "", (b"1" * (app_calls._MOST_INLINE + 1),), {}, 5), "large")
        self.assertEqual((client.put.call_count, client.invoke.call_count, client.get.call_count), (2, 1, 3))
        client.get.side_effect = [refusal()]
        with self.assertRaisesRegex(LambentError, "too many requests") as caught:
            app_calls.call(client, "f", "", (), {}, 0)
        self.assertIsNone(caught.exception.retry_after, "the function has run")

    def test_a_class_has_one_object_that_was_entered(self):
        handler = app_calls.handler_of(__name__, "Counter")
        client = Handled()
        client.handlers["c"] = handler
        self.assertEqual(app_calls.call(client, "c", "add", (5,), {}), 15)
        self.assertEqual(app_calls.call(client, "c", "add", (5,), {}), 20)
        for method in ("_secret", "", "nothing"):
            with self.assertRaises(AttributeError):
                app_calls.call(client, "c", method, (), {})
        self.assertEqual(Counter().add.local(1), 11)
        with self.assertRaises(AttributeError):
            Counter()._secret

    def test_plain_json_has_keywords_or_arguments(self):
        handler = app_calls.handler_of(__name__, "plain_json")
        self.assertEqual(handler({"a": 1, "b": 2}, None), [1, 2])
        self.assertEqual(handler([3, 4], None), [3, 4])
        self.assertEqual(handler("x", None), ["x", 1])
        counter = app_calls.handler_of(__name__, "Counter")
        self.assertEqual(counter({"method": "add", "n": 1}, None), 11)
        with self.assertRaises(TypeError):
            counter([1], None)

    def test_what_is_refused_for_now_is_sent_again_as_the_same_request(self):
        for begin, has_key in ((lambda: app_calls.call(client, "twice", "", (4,), {}, 5), True),
                                   (lambda: list(app_calls.stream(client, "numbers", "", (2,), {}, 5)), False)):
            client = Handled()
            client.handlers = {name: app_calls.handler_of(__name__, name) for name in ("twice", "numbers")}
            client.refusals = [0.01, 0.02]
            self.assertIn(begin(), [(8, {4}), [{0}, {1}]])
            first, second, third = client.keys
            self.assertIsNone(first)
            self.assertEqual(second, third)
            if has_key:
                self.assertRegex(second, "^[0-9a-f-]{36}$")

    def test_each_refusal_of_a_call_doubles_the_wait_that_the_worker_asks_for_at_least(self):
        slept = []
        given_up = mock.Mock(wait=slept.append)
        client = Handled()
        client.handlers["twice"] = app_calls.handler_of(__name__, "twice")
        client.refusals = [0.01, 0.01, 0.01, 3, *[0.01] * 6]
        self.assertEqual(app_calls.call(client, "twice", "", (4,), {}, 600, given_up), (8, {4}))
        least = [0.05, 0.1, 0.2, 3, 0.8, 1.6, 3.2, 6.4, 10, 10]
        self.assertTrue(all(a <= b <= 1.25 * a for a, b in zip(least, slept)), slept)
        self.assertEqual(len(slept), len(least))

    def test_what_is_refused_for_good_or_for_longer_than_retries_take_is_raised(self):
        for refusals, retry_for in (([None], 5), ([0.01], 0), ([0.01, 60], 5)):
            client = Handled()
            client.refusals = list(refusals)
            with self.assertRaisesRegex(LambentError, "too much waits"):
                app_calls.call(client, "twice", "", (4,), {}, retry_for)
            self.assertEqual(len(client.keys), len(refusals))

    def test_a_function_that_is_not_deployed_is_told_how_to_deploy(self):
        with self.assertRaisesRegex(LambentError, "deploy its app first"):
            app_calls.call(Handled(), "test-twice", "", (), {})


@app.function()
def plain_json(a, b=1):
    return [a, b]


class StreamTest(unittest.TestCase):
    def test_items_keep_their_types_and_order(self):
        self.assertEqual(list(stream("numbers", 300)), [{i} for i in range(300)])
        self.assertEqual(list(stream("numbers_later", 3)), [0, 1, 2])
        self.assertEqual(list(stream("numbers", 0)), [])

    def test_what_a_generator_raises_is_raised_after_the_items_before(self):
        items = stream("numbers", 5, fail_at=2)
        self.assertEqual([next(items), next(items)], [{0}, {1}])
        with self.assertRaises(Odd) as raised:
            next(items)
        self.assertEqual(raised.exception.number, 2)
        self.assertIn("Remote traceback", str(raised.exception.__cause__))

    def test_the_wrong_way_to_call_is_told_with_the_right_one(self):
        with self.assertRaisesRegex(TypeError, "is a generator: call it by remote_gen"):
            call("numbers", 3)
        with self.assertRaisesRegex(TypeError, "is no generator, and answers with tuple: call it by remote"):
            list(stream("twice", 2))
        with self.assertRaisesRegex(LambentError, "deploy its app first"):
            list(app_calls.stream(Handled(), "numbers", "", (3,), {}))

    def test_other_clients_get_lines_of_json(self):
        handler = app_calls.handler_of(__name__, "numbers_later")
        self.assertEqual(asyncio.run(collect(handler({"n": 2}, None))), ["0\n", "1\n"])

    def test_an_answer_that_breaks_off_or_is_damaged_is_no_short_answer(self):
        whole = event_frame("PayloadChunk", app_streams._frame(1)) + event_frame("InvokeComplete", b"{}")
        self.assertEqual(list(app_streams.received([whole], self.fail)), [1])
        for chunks in ([whole[:-3]], [whole[:20]], [whole[:30] + b"x" + whole[31:]], [b"HTTP/1.1 nonsense"],
                       [event_frame("PayloadChunk", b"\0\0\0\x09abc") + event_frame("InvokeComplete", b"{}")],
                       [event_frame("PayloadChunk", b"\xff\xff\xff\xff")]):
            with self.assertRaises(LambentError):
                list(app_streams.received(chunks, self.fail))

    def test_the_answer_of_a_coroutine_function_is_awaited(self):
        self.assertEqual(call("thrice", 3), 9)


class BusyWorker(http.server.BaseHTTPRequestHandler):
    """Refuses each call for now."""

    protocol_version = "HTTP/1.1"  # connections are kept

    def do_GET(self):
        self.answer(200, b'{"object_socket": "/nowhere"}')

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.refused.release()
        self.answer(429, b"{}", {"x-lambent-code": "RESOURCE_EXHAUSTED", "retry-after-ms": "300000"})

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class WithBusyWorker(unittest.TestCase):
    def setUp(self):
        self.worker = http.server.ThreadingHTTPServer(("127.0.0.1", 0), BusyWorker)
        self.worker.refused = threading.Semaphore(0)
        thread = threading.Thread(target=self.worker.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(self.worker.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.worker.shutdown)


class GivenUpTest(WithBusyWorker):
    """The process ends although calls of it are refused for now, for minutes."""

    def ended(self, body, interrupt=False):
        """What a program printed on its standard error; `body` is of a coroutine, or of a function to interrupt, in which f is a function of an app and g a generator."""
        program = ("import asyncio, lambent\napp = lambent.App('busy')\n@app.function()\ndef f(x):\n    return x\n"
                   "@app.function()\ndef g(x):\n    yield x\n" + ("" if interrupt else "async ") + "def main():\n" + textwrap.indent(textwrap.dedent(body), "    ") +
                   "\ntry:\n    " + ("main()" if interrupt else "asyncio.run(main())") + "\nfinally:\n    print('left', flush=True)\n")
        environment = {**os.environ, "PYTHONPATH": str(PYTHON), "LAMBENT_ENDPOINT": "http://127.0.0.1:%d" % self.worker.server_port}
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "busy.py").write_text(program)
            with subprocess.Popen([sys.executable, "busy.py"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as process:
                try:
                    if interrupt:
                        # Python's own pool may stand still if it is interrupted while it takes a call: all that it calls at once
                        # have been refused first.
                        for _ in range(64):
                            self.assertTrue(self.worker.refused.acquire(timeout=30))
                        process.send_signal(signal.SIGINT)
                    out, said = process.communicate(timeout=30)
                finally:
                    process.kill()
        self.assertEqual(out, "left\n", said)
        return said

    def test_a_map_that_is_interrupted(self):
        self.assertIn("KeyboardInterrupt", self.ended("list(f.map(range(100), at_once=80))", interrupt=True))

    def test_a_map_whose_loop_is_left(self):
        self.assertIn("TimeoutError", self.ended("""
            async def read():
                async for each in f.map_async(range(3)):
                    pass
            await asyncio.wait_for(read(), 1)
            """))

    def test_calls_of_asyncio_that_are_cancelled(self):
        self.assertIn("TimeoutError", self.ended("await asyncio.wait_for(f.remote_async(1), 1)"))

    def test_a_stream_of_asyncio_that_is_cancelled(self):
        self.assertIn("TimeoutError", self.ended("""
            async def read():
                async for each in g.remote_gen_async(1):
                    pass
            await asyncio.wait_for(read(), 1)
            """))

    def test_calls_that_were_begun_when_the_program_ends(self):
        self.assertIn("it failed", self.ended("""
            f.spawn(1)
            await asyncio.sleep(0.5)
            raise ValueError("it failed")
            """))


class ConnectionsTest(WithBusyWorker):
    """What an app has opened, it closes: Python warns of each socket that is dropped open."""

    def said_of(self, body):
        """What Python said of a program in which f is a function of an app, g a generator, and both are refused."""
        program = ("import asyncio, threading, lambent\nfrom lambent.errors import LambentError\n"
                   "app = lambent.App('busy', retry_for=0)\n@app.function()\ndef f(x):\n    return x\n"
                   "@app.function()\ndef g(x):\n    yield x\n"
                   "def call():\n    try:\n        f.remote(1)\n    except LambentError:\n        print('refused', flush=True)\n" +
                   textwrap.dedent(body))
        environment = {**os.environ, "PYTHONPATH": str(PYTHON), "LAMBENT_ENDPOINT": "http://127.0.0.1:%d" % self.worker.server_port}
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "busy.py").write_text(program)
            done = subprocess.run([sys.executable, "-W", "always::ResourceWarning", "busy.py"], cwd=folder, env=environment,
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, set(done.stdout.split())), (0, {"refused"}), done.stderr)
        return done.stderr

    def test_of_threads_that_end_before_the_program(self):
        self.assertEqual(self.said_of("""
            call()
            for _ in range(3):
                thread = threading.Thread(target=call)
                thread.start()
                thread.join()
            """), "")

    def test_of_calls_in_the_background(self):
        self.assertEqual(self.said_of("""
            for each in [f.spawn(1), f.spawn(2)]:
                try:
                    each.get()
                except LambentError:
                    print("refused")
            """), "")

    def test_of_streams_of_asyncio(self):
        self.assertEqual(self.said_of("""
            async def read():
                async for each in g.remote_gen_async(1):
                    pass
            try:
                asyncio.run(read())
            except LambentError:
                print("refused")
            """), "")

    def test_a_client_that_is_refused_leaves_nothing(self):
        with mock.patch.object(BusyWorker, "do_GET", lambda handler: handler.answer(401, b'{"error": {"code": "UNAUTHENTICATED", "message": "who?"}}')):
            self.assertEqual(self.said_of("call()"), "")


class ThreadClientsTest(unittest.TestCase):
    def test_each_thread_has_a_client_that_ends_with_it(self):
        made = []
        clients = ThreadClients(lambda: made.append(mock.Mock()) or made[-1])
        seen = []

        def use():
            seen.append(clients.get())
            self.assertIs(clients.get(), seen[-1])
            seen[-1].close.assert_not_called()

        use()
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        self.assertEqual(made, seen)
        made[0].close.assert_not_called()
        made[1].close.assert_called_once_with()
        clients.close()
        made[0].close.assert_called_once_with()
        self.assertIs(clients.get(), made[2])


class MapTest(unittest.TestCase):
    """Calls of 50 items of which those that end in 3 fail."""

    def setUp(self):
        def run(given_up, n):
            self.called.append(n)
            if n % 10 == 3:
                raise Odd(n)
            return n // 2

        self.called = []
        self.half = type(thrice)(lambent.App("mapped"), run, "mapped-half")
        self.half._run = run

    def check(self, answers):
        self.assertEqual([each.number if isinstance(each, Odd) else each for each in answers], [n if n % 10 == 3 else n // 2 for n in range(50)])
        self.assertEqual(sum(isinstance(each, Odd) for each in answers), 5)

    def test_the_first_failure_is_raised_in_its_place(self):
        answers = self.half.map(range(50), at_once=2)
        self.assertEqual([next(answers) for _ in range(3)], [0, 0, 1])
        with self.assertRaises(Odd):
            next(answers)
        self.assertLess(max(self.called), 8)

    def test_failures_are_answers_where_they_are_asked_for(self):
        self.check(list(self.half.map(range(50), at_once=3, return_exceptions=True)))
        self.check(list(self.half.starmap(((n,) for n in range(50)), return_exceptions=True)))

        async def of_asyncio():
            self.check([each async for each in self.half.map_async(range(50), return_exceptions=True)])
            with self.assertRaises(Odd):
                _ = [each async for each in self.half.map_async(range(50))]

        asyncio.run(of_asyncio())


class AppTest(unittest.TestCase):
    def test_a_function_is_called_here_as_any_other(self):
        self.assertEqual(twice(5), (10, {5}))
        self.assertEqual(twice.local(5), (10, {5}))
        self.assertEqual((twice.name, twice.__name__), ("test-twice", "twice"))

    def test_what_a_sandbox_could_not_import_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no function or class of the module itself"):
            @app.function()
            def inner():
                pass
        with self.assertRaisesRegex(ValueError, "two functions 'twice'"):
            app.function()(twice._function)
        with self.assertRaisesRegex(ValueError, "1 to 40 letters"):
            lambent.App("a b")

    def test_settings_that_make_no_sense_are_named(self):
        for settings, message in (({"memry": "1G"}, "no setting memry"), ({"memory": "lots"}, "memory is 'lots'"),
                                  ({"requirements": "numpy"}, "requirements is a list"),
                                  ({"preload": ["numpy"]}, "preload goes with requirements")):
            with self.assertRaisesRegex((TypeError, ValueError), message):
                app.function(**settings)

    def test_settings_are_what_the_worker_gets(self):
        deployment = app.deployments["test-twice"]
        configuration = app_code._configuration(deployment)
        self.assertEqual((configuration["MemorySize"], configuration["Timeout"], configuration["Handler"]),
                         (1024, 7, "_lambent_app.twice"))
        self.assertEqual(configuration["Environment"]["Variables"], {"A": "1", "TOKEN": "${secret:db}"})
        self.assertEqual(app_code._tags(deployment)["lambent:gpu-memory"], "2048MiB")

    def test_volumes_are_mounts(self):
        settings = app_code.Settings.of({"volumes": {"/weights": "weights", "/data": "/srv/data"}})
        tags = app_code._tags(app_code.Deployment("a-f", "f", "handler", settings))
        self.assertEqual(tags["lambent:mounts"], "/srv/data:/data,weights:/weights")

    def test_a_schedule_is_a_cron_a_rate_or_a_table(self):
        def of(**given):
            return json.loads(app_code.Settings.of(given).schedules)

        self.assertEqual(of(schedule="30 2 * * *"), [{"cron": "30 2 * * *", "name": "schedule"}])
        self.assertEqual(of(schedule="@daily"), [{"cron": "@daily", "name": "schedule"}])
        self.assertEqual(of(schedule="5 minutes"), [{"name": "schedule", "rate": "5 minutes"}])
        self.assertEqual(of(schedules=[{"name": "a", "cron": "0 9 * * *", "timezone": "Europe/Zurich", "payload": {"n": 1}}, {"name": "b", "rate": "1 hour"}]),
                         [{"cron": "0 9 * * *", "name": "a", "payload": "{\"n\": 1}", "timezone": "Europe/Zurich"}, {"name": "b", "rate": "1 hour"}])
        self.assertEqual(app_code.Settings.of({}).schedules, "")
        for wrong in ({"schedule": 5}, {"schedules": "5 minutes"}, {"schedule": "1 hour", "schedules": []}):
            with self.assertRaises(TypeError):
                app_code.Settings.of(wrong)
        deployment = app_code.Deployment("app-f", "f", "handler", app_code.Settings.of({"schedule": "1 hour"}))
        self.assertEqual(json.loads(app_code._tags(deployment)["lambent:schedules"])[0]["rate"], "1 hour")

    def test_what_is_ready_and_what_is_reached_are_tags(self):
        settings = app_code.Settings.of({"min_instances": 2, "keep_alive": 60, "cpus": 0.5, "network": ["api.example.org:443", "10.1.2.3:5432"], "concurrency": 8})
        tags = app_code._tags(app_code.Deployment("a-f", "f", "http", settings))
        self.assertEqual([tags["lambent:" + name] for name in ("min-instances", "keep-alive", "cpus", "network", "http-concurrency")],
                         ["2", "60", "0.5", "api.example.org:443,10.1.2.3:5432", "8"])
        self.assertEqual(app_code._tags(app_code.Deployment("a-f", "f", "handler", settings))["lambent:http-concurrency"], "8")

    def test_what_follows_asynchronous_calls_are_tags(self):
        names = ["lambent:async-" + name for name in ("retries", "max-age", "on-success", "on-failure")]
        settings = app_code.Settings.of({"async_retries": 2, "async_max_age": 600, "on_success": "audit", "on_failure": twice})
        tags = app_code._tags(app_code.Deployment("a-f", "f", "handler", settings))
        self.assertEqual([tags[name] for name in names], ["2", "600", "audit", "test-twice"])
        tags = app_code._tags(app_code.Deployment("a-f", "f", "handler", app_code.Settings.of({})))
        self.assertEqual([tags[name] for name in names], ["-1", "0", "", ""])


class RequestTest(unittest.TestCase):
    """What a deployment sends, to a worker that notes it."""

    class Worker:
        def __init__(self, action="updated", has_code=False, package=b""):
            self.action, self.has_code, self.package, self.requests, self._http = action, has_code, package, [], self

        def request(self, method, path, body=None, headers=None):
            self.requests.append((method, path, body))
            if path.endswith("/code/parts"):
                if not self.package:
                    return 404, {}, b'{"error": {"code": "NOT_FOUND", "message": "no package is kept"}}'
                parts = [{"sha256": app_code._digest(part), "bytes": len(part)} for part in app_code._parts(self.package)]
                return 200, {}, json.dumps({"code_sha256": app_code._digest(self.package), "parts": parts}).encode()
            if "code_sha256" in path and not self.has_code and "base_sha256" not in path:
                return 412, {}, b'{"error": {"code": "FAILED_PRECONDITION", "message": "no kept revision has this code"}}'
            return 200, {}, json.dumps({"action": self.action, "State": "Active"}).encode()

    def deploy(self, worker, content, **settings):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "shop.py").write_text(content)
            deployment = app_code.Deployment("a-f", "f", "handler", app_code.Settings.of({"memory": "1G", **settings}))
            changed = app_code.deploy(worker, deployment, str(pathlib.Path(folder) / "shop.py"), ())
        return changed, [(method, path.partition("?")[0]) for method, path, _ in worker.requests]

    def test_it_is_one_request_with_settings_and_code(self):
        worker = self.Worker()
        self.assertEqual(self.deploy(worker, "x = 1"), (True, [("PUT", "/v1/functions/a-f"), ("GET", "/2015-03-31/functions/a-f/configuration")]))
        body = worker.requests[0][2]
        self.assertIn(b'name="settings"\r\n\r\n{"Runtime": "python3"', body)
        self.assertIn(b'name="code"\r\n\r\nPK', body)

    def test_only_the_setting_names_a_version_of_python_whatever_the_clients_own_is(self):
        for settings, runtime in (({"requirements": ["numpy"]}, "python3"), ({"requirements": ["numpy"], "python": "3.12"}, "python3.12"),
                                  ({"python": "3.12"}, "python3.12")):
            with self.subTest(settings=settings):
                worker = self.Worker()
                self.deploy(worker, "x = 1", **settings)
                self.assertIn(b'name="settings"\r\n\r\n{"Runtime": "%s"' % runtime.encode(), worker.requests[0][2])

    def test_a_function_that_was_of_another_kind_is_told_of(self):
        class Changing(self.Worker):
            def request(self, method, path, body=None, headers=None):
                status, headers, answer = super().request(method, path, body, headers)
                return status, headers, json.dumps({**json.loads(answer), "kind_change": {"from": "model", "to": "handler"}}).encode()

        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "shop.py").write_text("x = 1")
            told, deployment = [], app_code.Deployment("a-f", "f", "handler", app_code.Settings.of({"memory": "1G"}))
            app_code.deploy(Changing(), deployment, str(pathlib.Path(folder) / "shop.py"), (), told.append)
        self.assertEqual(told, ["a-f: warning: it was of kind model and is now of kind handler; 'lambent rollback a-f' brings the former one back"])

    def test_what_has_not_changed_is_not_waited_for(self):
        self.assertEqual(self.deploy(self.Worker("unchanged"), "x = 1"), (False, [("PUT", "/v1/functions/a-f")]))

    def test_a_large_package_goes_to_a_worker_that_lacks_it_only(self):
        large = "# " + random.Random(1).randbytes(100_000).hex()
        has, lacks = self.Worker(has_code=True), self.Worker()
        self.deploy(has, large)
        self.deploy(lacks, large)
        self.assertEqual([b"PK" in (body or b"") for _, _, body in has.requests], [False, False])
        self.assertEqual([b"PK" in (body or b"") for _, _, body in lacks.requests], [False, False, True, False])

    def test_of_a_large_package_a_worker_gets_what_it_lacks(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "shop.py"
            (pathlib.Path(folder) / "data.bin").write_bytes(random.Random(1).randbytes(200_000))
            deployment = app_code.Deployment("a-f", "f", "handler", app_code.Settings.of({"memory": "1G"}))
            packages = []
            for line in ("x = 1\n", "x = 'another line, which is longer'\n"):
                file.write_text(line)
                packages.append(app_code.package_of(deployment, str(file), ("data.bin",)))
            worker = self.Worker(package=packages[0])
            app_code.deploy(worker, deployment, str(file), ("data.bin",))
        method, path, body = worker.requests[2]
        self.assertIn("base_sha256=", path)
        self.assertLess(len(body), 4000)
        # The steps make the package.
        steps, made = body.partition(b"lambentD")[2].rpartition(b"\r\n--lambent-")[0], b""
        while steps:
            if steps[0] == 1:
                offset, length = struct.unpack_from("<QQ", steps, 1)
                made, steps = made + packages[0][offset:offset + length], steps[17:]
            else:
                length, = struct.unpack_from("<Q", steps, 1)
                made, steps = made + steps[9:9 + length], steps[9 + length:]
        self.assertEqual(made, packages[1])


class WatchTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "shop.py").write_text("x = 1\n")
        self.log, self.deployed, self.shown, self._http, self.away = b"before\n", 0, [], self, ""
        self.asked, self.knows_the_end = [], True
        self.watch = app_watch.Watch(str(self.folder), self.deploy, self.shown.append, self)

    def deploy(self):
        if self.away == "when it is deployed":
            raise error_of("UNAVAILABLE", "gone")
        self.deployed += 1
        return ["shop-f"]

    def version(self):
        if self.away == "before":
            raise error_of("UNAVAILABLE", "gone")

    def request(self, method, path):
        if self.away == "before its log is read":
            raise error_of("UNAVAILABLE", "gone")
        offset, form = path.partition("offset=")[2].split("&")
        self.assertEqual(form, "format=ndjson")
        told = [{"nodes": ["a", "b"], "silent_nodes": [], "older_lines_gone": False}]
        self.asked.append(offset)
        if offset == "end":
            if not self.knows_the_end:
                return 400, {}, b'{"error": {"code": "INVALID_ARGUMENT"}}'
            offset = len(self.log)
        told += [{"node": "a", "text": line} for line in self.log[int(offset):].decode().splitlines(keepends=True)]
        return 200, {"x-lambent-next-offset": str(len(self.log))}, "".join(json.dumps(each) + "\n" for each in told).encode()

    def test_each_change_is_deployed_once_and_nothing_else_is(self):
        for change, times in ((None, 1), ("shop.py", 2), (None, 2), (".hidden", 2), ("module.pyc", 2), ("data/table.json", 3)):
            if change:
                path = self.folder / change
                path.parent.mkdir(exist_ok=True)
                path.write_text("changed\n")
            self.watch.look()
            self.assertEqual(self.deployed, times, change)

    def test_what_the_command_writes_itself_is_no_change(self):
        with open(self.folder / "out.log", "wb") as own, open(self.folder / "data.log", "wb") as other:
            before = os.dup(1)
            os.dup2(own.fileno(), 1)
            try:
                seen = app_watch.state_of(str(self.folder))
            finally:
                os.dup2(before, 1)
                os.close(before)
            self.assertFalse(other.closed)
        self.assertEqual({os.path.basename(each) for each in seen}, {"shop.py", "data.log"})

    def test_a_change_while_the_worker_is_away_is_deployed_once_it_is_back(self):
        for away, deployed in (("before", 1), ("when it is deployed", 2), ("before its log is read", 4)):
            (self.folder / "shop.py").write_text(away)
            self.away = away
            with self.assertRaises(LambentError):
                self.watch.look()
            self.away = ""
            self.watch.look()
            self.watch.look()
            self.assertEqual((self.deployed, list(self.watch._tails)), (deployed, ["shop-f"]), away)
            self.watch._tails.clear()

    def test_whole_lines_that_are_printed_from_now_on_are_shown(self):
        self.watch.look()
        self.log += b"START RequestId: 0e6c Version: $LATEST\none\nEND RequestId: 0e6c\ntw"
        self.watch.look()
        self.log += b"o\n"
        self.watch.look()
        self.assertEqual(self.shown, ["shop-f | one", "shop-f | two"])

    def test_what_was_printed_before_is_read_only_of_a_worker_that_does_not_tell_the_end(self):
        self.watch.look()
        self.assertEqual(self.asked, ["end", "7"])
        self.watch._tails.clear()
        self.asked.clear()
        self.knows_the_end = False
        (self.folder / "shop.py").write_text("changed\n")
        self.watch.look()
        self.assertEqual(self.asked, ["end", "0", "7", "7"])
        self.assertEqual(self.shown, [])


class PackageTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "shop.py").write_text("x = 1\n")
        (self.folder / "helper.py").write_text("y = 2\n")
        (self.folder / "data").mkdir()
        (self.folder / "data/table.json").write_text("{}")

    def names(self, include=(), **settings):
        deployment = app_code.Deployment("a-f", "f", "handler", app_code.Settings.of(settings))
        made = app_code.package_of(deployment, str(self.folder / "shop.py"), include)
        again = app_code.package_of(deployment, str(self.folder / "shop.py"), include)
        self.assertEqual(made, again, "the same files give the same bytes")
        with zipfile.ZipFile(io.BytesIO(made)) as archive:
            return sorted(archive.namelist())

    def test_a_package_has_the_apps_file_and_what_is_included(self):
        self.assertEqual(self.names(), ["_lambent_app.py", "shop.py"])
        self.assertEqual(self.names(["*.py", "data"]), ["_lambent_app.py", "data/table.json", "helper.py", "shop.py"])
        (self.folder / ".env").write_text("TOKEN=1")
        (self.folder / ".venv/lib").mkdir(parents=True)
        (self.folder / ".venv/lib/large.py").write_text("")
        (self.folder / "data/__pycache__").mkdir()
        (self.folder / "data/__pycache__/a.pyc").write_text("")
        self.assertEqual(self.names(["*"]), ["_lambent_app.py", "data/table.json", "helper.py", "shop.py"])
        self.assertEqual(self.names(["d*", ".e*"]), [".env", "_lambent_app.py", "data/table.json", "shop.py"])
        (self.folder / "data/.env").write_text("TOKEN=1")
        (self.folder / "data/.git/refs").mkdir(parents=True)
        (self.folder / "data/.git/refs/head").write_text("")
        for pattern in ("*", "d*"):
            self.assertEqual([name for name in self.names([pattern]) if "/" in name], ["data/table.json"], "hidden in a folder that it matches")
        self.assertEqual([name for name in self.names(["data"]) if "/" in name], ["data/.env", "data/.git/refs/head", "data/table.json"])
        (self.folder / ".venv/.lock").write_text("")
        self.assertEqual([name for name in self.names([".v*"]) if "/" in name], [".venv/.lock", ".venv/lib/large.py"])
        for more in ({"requirements": ["numpy"]}, {"python": "3.11"}):
            self.assertEqual(self.names(**more), [".lambent/python.json", "_lambent_app.py", "shop.py"])

    def test_what_its_owner_may_run_may_be_run_there(self):
        (self.folder / "data/tool.sh").write_text("#!/bin/sh\n")

        def modes(mode):
            (self.folder / "data/tool.sh").chmod(mode)
            deployment = app_code.Deployment("a-f", "f", "handler", app_code.Settings.of({}))
            made = app_code.package_of(deployment, str(self.folder / "shop.py"), ["data"])
            with zipfile.ZipFile(io.BytesIO(made)) as archive:
                return {each.filename: oct(each.external_attr >> 16) for each in archive.infolist()}, made

        plain = {"_lambent_app.py": "0o644", "shop.py": "0o644", "data/table.json": "0o644"}
        self.assertEqual(modes(0o700)[0], {**plain, "data/tool.sh": "0o755"})
        self.assertEqual(modes(0o660)[0], {**plain, "data/tool.sh": "0o644"})
        self.assertEqual(modes(0o700)[1], modes(0o775)[1], "other rights change nothing")

    def test_links_are_followed_or_refused_by_name(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            (pathlib.Path(elsewhere) / "deep").mkdir()
            (pathlib.Path(elsewhere) / "deep/more.json").write_text("{}")
            (self.folder / "data/shared").symlink_to(elsewhere)
            (self.folder / "linked").symlink_to(elsewhere)
            self.assertEqual(self.names(["data", "linked"]), ["_lambent_app.py", "data/shared/deep/more.json", "data/table.json",
                                                              "linked/deep/more.json", "shop.py"])
            (pathlib.Path(elsewhere) / "deep/up").symlink_to("..")
            with self.assertRaisesRegex(LambentError, "the link data/shared/deep/up leads to ..: it lies in that"):
                self.names(["data"])
        (self.folder / "data/shared").unlink()
        (self.folder / "other").mkdir()
        (self.folder / "other/back").symlink_to("../data")
        (self.folder / "data/on").symlink_to("../other")
        with self.assertRaisesRegex(LambentError, "the link data/on/back leads to ../data: it lies in that"):
            self.names(["data"])
        (self.folder / "data/on").unlink()
        (self.folder / "data/gone.json").symlink_to("nothing.json")
        with self.assertRaisesRegex(LambentError, "the link data/gone.json leads to nothing.json: nothing is there"):
            self.names(["data"])
        (self.folder / "data/gone.json").unlink()
        (self.folder / "lost.py").symlink_to("nothing.py")
        with self.assertRaisesRegex(LambentError, "the link lost.py leads to nothing.py: nothing is there"):
            self.names(["*.py"])

    def test_what_does_not_lie_beside_the_app_is_refused(self):
        for pattern in ("../secret", "/etc/passwd", "data/../../x"):
            with self.assertRaisesRegex(LambentError, "does not lie beside"):
                self.names([pattern])
        with self.assertRaisesRegex(LambentError, "nothing that matches"):
            self.names(["none.txt"])


class CommandTest(unittest.TestCase):
    def test_that_no_worker_answers_is_the_commands_exit_code(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "shop.py").write_text("import lambent\napp = lambent.App('a')\n\n@app.function()\ndef f():\n    pass\n")
            done = subprocess.run([sys.executable, "-m", "lambent", "deploy", "shop.py"], capture_output=True, text=True, cwd=folder,
                                  env={"PYTHONPATH": str(PYTHON), "PATH": "/usr/bin", "LAMBENT_ENDPOINT": f"unix:{folder}/none.sock"})
        self.assertEqual(done.returncode, 24, done.stderr)
        self.assertIn("UNAVAILABLE", done.stderr)

    def test_the_command_of_a_wheel_does_what_is_done_with_python_files_by_its_own_python(self):
        for words in (["run", "a.py::f"], ["dev", "a.py"], ["deploy", "a.py"], ["deploy", "--endpoint", "http://a:1", "b/a.py"]):
            self.assertTrue(_command.is_app_verb(words), words)
        for words in ([], ["ls"], ["deploy"], ["deploy", "folder"], ["deploy", "--handler", "a.py"], ["deploy", "-x.py"], ["invoke", "a.py"]):
            self.assertFalse(_command.is_app_verb(words), words)
        with mock.patch.object(sys, "argv", ["lambent", "deploy", "nowhere.py"]), mock.patch.object(sys, "stderr", io.StringIO()) as said, \
                mock.patch.dict(os.environ), self.assertRaises(SystemExit) as ended:
            _command.main()
        self.assertEqual(ended.exception.code, 15, said.getvalue())
        self.assertIn("there is no file 'nowhere.py'", said.getvalue())

    def test_the_command_of_a_wheel_finds_the_programs_beside_it(self):
        with mock.patch.object(sys, "argv", ["/venv/bin/lambent", "doctor"]), mock.patch("os.path.exists", return_value=True), \
                mock.patch("os.execv") as begun, mock.patch.dict(os.environ, {"PATH": "/usr/bin"}):
            _command.main()
            self.assertEqual(os.environ["PATH"], "/usr/bin:/venv/bin")
            _command.main()
            self.assertEqual(os.environ["PATH"], "/usr/bin:/venv/bin")
        self.assertEqual(begun.call_args[0][1][1:], ["doctor"])

    def test_words_are_values_of_python_or_texts(self):
        self.assertEqual(command.arguments_of(["3", "a b", "--by", "[1, 2]", "--to-what=None"]),
                         ([3, "a b"], {"by": [1, 2], "to_what": None}))
        with self.assertRaisesRegex(LambentError, "--by has no value"):
            command.arguments_of(["--by"])

    def test_arguments_have_the_types_that_the_function_says(self):
        def function(count: int, rate: "float", name: str, rest: list = [], anything=None):
            pass

        types = command.types_of(function)
        self.assertEqual(command.arguments_of(["3", "2", "7", "[1]", "x"], (), types), ([3, 2, "7", [1], "x"], {}))
        self.assertEqual(command.arguments_of(["--name", "7", "--anything", "7", "--new", "x"], (), types),
                         ([], {"name": "7", "anything": 7, "new": "x"}))
        for words, said in ((["x"], "count is a whole number, not 'x'"), (["--count", "1.5"], "--count is a whole number, not '1.5'"),
                            (["--count", "True"], "--count is a whole number"), (["1", "fast"], "rate is a number, not 'fast'"),
                            (["--rest", "1"], "--rest is a list such as")):
            with self.assertRaisesRegex(LambentError, said):
                command.arguments_of(words, (), types)

    def test_values_without_a_name_are_for_parameters_that_have_a_place(self):
        def function(first: int, *names, count: int = 1):
            pass

        types, places = command.types_of(function), command.places_of(function)
        self.assertEqual(places, ["first"])
        self.assertEqual(command.arguments_of(["1", "alice", "--count", "2"], (), types, places), ([1, "alice"], {"count": 2}))
        with self.assertRaisesRegex(LambentError, "--count is a whole number"):
            command.arguments_of(["1", "--count", "x"], (), types, places)

    def test_switches_need_no_value(self):
        def function(a, fast: bool, slow=False, n: int = 1, *, old: "bool" = True):
            pass

        switches = command.switches_of(function)
        self.assertEqual(switches, {"fast", "slow", "old"})
        for words, wanted in ((["--fast", "--n", "3"], ([], {"fast": True, "n": 3})), (["--fast", "false", "x"], (["x"], {"fast": False})),
                              (["--slow=True", "--old", "0"], ([], {"slow": True, "old": False})), (["--fast", "3"], ([3], {"fast": True}))):
            self.assertEqual(command.arguments_of(words, switches), wanted, words)
        with self.assertRaisesRegex(LambentError, "--fast is true or false, not 'perhaps'"):
            command.arguments_of(["--fast=perhaps"], switches)

    def test_help_of_a_function_and_what_is_no_function(self):
        source = ("import lambent\napp = lambent.App('a')\n\n@app.function()\ndef f(x: int, fast: bool = False) -> str:\n    'Doubles it.'\n"
                  "    return ''\n\n@app.cls()\nclass C:\n    def go(self): pass\n\n@app.asgi()\ndef web(): pass\n")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a.py").write_text(source)
            for place, code, told in (("a.py::f", 0, "a.py::f(x: int, fast: bool = False) -> str\n\nDoubles it.\n"),
                                      ("a.py::C", 15, "C is a class: a.py::C.METHOD; "), ("a.py::no", 15, "there is no function 'no'; "),
                                      ("a.py::web", 15, "web is a web application, which 'lambent deploy a.py' serves at /f/a-web/; ")):
                done = subprocess.run([sys.executable, "-m", "lambent", "run", place, "--help"], capture_output=True, text=True, cwd=folder,
                                      env={"PYTHONPATH": str(PYTHON), "PATH": "/usr/bin", "LAMBENT_ENDPOINT": f"unix:{folder}/none.sock"})
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(told, done.stdout + done.stderr)

    def test_mistakes_are_told_in_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "two.py").write_text(textwrap.dedent("""
                import lambent
                a, b = lambent.App("a"), lambent.App("b")
            """))
            for words, message in ((["deploy", "nothing.py"], "NOT_FOUND: there is no file"),
                                   (["deploy", "two.py"], "INVALID_ARGUMENT: two.py has 2 apps")):
                done = subprocess.run([sys.executable, "-m", "lambent", *words], capture_output=True, text=True, cwd=folder,
                                      env={"PYTHONPATH": str(PYTHON), "PATH": "/usr/bin"})
                self.assertEqual(done.returncode, {"NOT_FOUND": 15, "INVALID_ARGUMENT": 13}[message.partition(":")[0]])
                self.assertIn(message, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_without_a_place_only_the_place_is_missed(self):
        done = subprocess.run([sys.executable, "-m", "lambent", "run"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(pathlib.Path(lambent.__file__).parents[1])})
        self.assertTrue(done.stderr.endswith("the following arguments are required: FILE::FUNCTION\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
