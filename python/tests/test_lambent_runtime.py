"""The Python runtime against a Runtime API made for the test: python3 -m unittest."""
import base64
import json
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, PYTHON)

from lambent_runtime.shared_memory import tidy_after  # noqa: E402


class FakeRuntimeApi:
    """Answers `next` with the given invocations in turn, then closes; keeps what was posted."""

    def __init__(self, invocations, chunked=False, refuse_after=None, joined=False):
        self.invocations, self.chunked, self.refuse_after = list(invocations), chunked, refuse_after
        self.joined = joined  # an answer that asks for the next invocation gets it
        self.asked = 0  # exchanges that asked for nothing else
        self.posts = []  # (path, headers, body)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def close(self):
        self.listener.close()
        self.thread.join()

    def _serve(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as stream:
            while True:
                line = stream.readline().decode()
                if not line:
                    return
                method, path, _ = line.split(" ")
                headers = {}
                while (line := stream.readline().decode().rstrip("\r\n")):
                    name, _, value = line.partition(": ")
                    headers[name.lower()] = value
                if headers.get("transfer-encoding") == "chunked":
                    body = self._read_chunks(connection, stream, headers)
                    if body is None:
                        return
                else:
                    body = stream.read(int(headers.get("content-length", 0)))
                if method == "POST":
                    self.posts.append((path, headers, body))
                    if self.joined and headers.get("lambent-runtime-next") == "wait":
                        if not self.invocations:
                            return
                        connection.sendall(self._next())
                        continue
                    connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
                elif self.invocations:
                    self.asked += 1
                    connection.sendall(self._next())
                else:
                    return

    def _read_chunks(self, connection, stream, headers):
        """The chunks; trailers join the headers. None: the answer came in their middle, after `refuse_after`, and ended it."""
        chunks = []
        while size := int(stream.readline() or b"0", 16):
            chunks.append(stream.read(size))
            stream.readline()
            if len(chunks) == self.refuse_after:
                connection.sendall(b"HTTP/1.1 410 Gone\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngone")
                self.listener.close()  # it would come back on another connection
        if self.refuse_after is not None:
            return None
        while (line := stream.readline().decode().rstrip("\r\n")):
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        return chunks

    def _next(self):
        """The next invocation; one that is a number instead refuses the answer before, and a text this call after an answer."""
        invocation = self.invocations.pop(0)
        if isinstance(invocation, int):
            return b"HTTP/1.1 %d Refused\r\nContent-Length: 3\r\n\r\nbad" % invocation
        if isinstance(invocation, str):
            return b"HTTP/1.1 %s Refused\r\nLambent-Runtime-Answer: accepted\r\nContent-Length: 3\r\n\r\nbad" % invocation.encode()
        return self._invocation(*invocation)

    def _invocation(self, content_type, body):
        head = ("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nLambda-Runtime-Aws-Request-Id: id-%d\r\n"
                "Lambda-Runtime-Deadline-Ms: 99999999999999\r\n"
                "Lambda-Runtime-Invoked-Function-Arn: arn:f\r\n" %
                (content_type, len(self.invocations)))
        if self.chunked:
            parts = b"".join(b"%x\r\n%s\r\n" % (1, body[i:i + 1]) for i in range(len(body)))
            return head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"
        return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


class RuntimeTest(unittest.TestCase):
    def serve(self, source, invocations, handler="app.handler", chunked=False, runtime="python3", joined=False):
        """Runs a handler with this source over these invocations; (posts, exit code, output)."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "app.py"), "w", encoding="utf-8") as file:
                file.write(source)
            api = self.api = FakeRuntimeApi(invocations, chunked, joined=joined)
            environment = dict(os.environ, AWS_LAMBDA_RUNTIME_API=api.address, PYTHONPATH=PYTHON,
                               LAMBDA_TASK_ROOT=folder, AWS_LAMBDA_FUNCTION_NAME="f", AWS_EXECUTION_ENV="AWS_Lambda_" + runtime)
            run = subprocess.run([sys.executable, "-m", "lambent_runtime", handler], cwd=folder,
                                 env=environment, capture_output=True, timeout=30, check=False)
            api.close()
            return api.posts, run.returncode, run.stdout.decode() + run.stderr.decode()

    def serve_one(self, source, body=b"{}", content_type="application/json", **options):
        posts, _, output = self.serve(source, [(content_type, body)], **options)
        self.assertEqual(len(posts), 1, output)
        return posts[0]

    def printed(self, source, invocations=1):
        """What it printed in so many invocations, but for the last words of the runtime."""
        _, _, output = self.serve(source, [("application/json", b"{}")] * invocations)
        return output.removesuffix("lambent_runtime: the Runtime API closed the connection\n")

    def test_large_events_and_answers_come_whole(self):
        for size in (16 * 1024, 64 * 1024, 3 * 1024 * 1024):
            with self.subTest(size=size):
                text = "".join(chr(97 + i % 26) for i in range(size))
                echo = "def handler(event, context):\n    assert type(event) is %s\n    return event\n"
                events = [("application/json", json.dumps(text).encode()), ("text/plain", text.encode())]
                for kind, event in zip(("str", "bytes"), events):
                    posts, _, output = self.serve(echo % kind, [event] * 2)
                    self.assertEqual([body == event[1] for _, _, body in posts], [True, True], output[:1000])

    STREAMING = "application/vnd.awslambda.http-integration-response"

    def error_in_trailers(self, headers):
        return json.loads(base64.b64decode(headers["lambda-runtime-function-error-body"]))

    def test_a_generator_streams_what_it_yields(self):
        path, headers, chunks = self.serve_one(
            "def handler(event, context):\n    yield 'ü'\n    yield None\n    yield b''\n    yield bytearray(b'b')\n")
        self.assertEqual(path, "/2018-06-01/runtime/invocation/id-0/response")
        self.assertEqual(headers["lambda-runtime-function-response-mode"], "streaming")
        self.assertEqual(headers["content-type"], "text/plain; charset=utf-8")
        self.assertEqual(chunks, ["ü".encode(), b"b"])
        self.assertNotIn("lambda-runtime-function-error-type", headers)

    def test_a_runtime_of_another_version_than_the_one_that_runs_is_told(self):
        this = "%d.%d" % sys.version_info[:2]
        for runtime, told in (("python3.8", True), ("python" + this, False), ("python3", False), ("Image", False)):
            with self.subTest(runtime=runtime):
                _, _, output = self.serve("def handler(e, c):\n    return 1\n", [("application/json", b"{}")], runtime=runtime)
                self.assertEqual("the runtime is python3.8, and this is Python " + this in output, told, output)

    def test_asynchronous_generators_share_a_loop(self):
        posts, _, output = self.serve(
            "import asyncio\nasync def handler(event, context):\n    yield b'%d' % id(asyncio.get_running_loop())\n"
            "    await asyncio.sleep(0)\n    yield b'end'\n", [("application/json", b"{}")] * 2)
        self.assertEqual(len(posts), 2, output)
        self.assertEqual(posts[0][1]["content-type"], "application/octet-stream")
        self.assertEqual(posts[0][2], posts[1][2])

    def test_a_stream_may_begin_with_what_the_response_is(self):
        _, headers, chunks = self.serve_one(
            "def handler(e, c):\n    yield {'statusCode': 201}\n    yield 'body'\n")
        self.assertEqual(headers["content-type"], self.STREAMING)
        self.assertEqual(chunks, [b'{"statusCode": 201}' + bytes(8), b"body"])

    def test_an_empty_generator_is_an_empty_answer(self):
        _, headers, chunks = self.serve_one("def handler(e, c):\n    return\n    yield\n")
        self.assertEqual((headers["lambda-runtime-function-response-mode"], chunks), ("streaming", []))

    def test_a_generator_that_fails_at_once_is_a_failure_as_any(self):
        path, headers, body = self.serve_one("def handler(e, c):\n    raise KeyError('a')\n    yield\n")
        self.assertEqual(path, "/2018-06-01/runtime/invocation/id-0/error")
        self.assertEqual(json.loads(body)["errorType"], "KeyError")
        self.assertEqual(self.serve_one("def handler(e, c):\n    yield 5\n")[0], path)

    def test_one_that_fails_later_says_so_in_trailers(self):
        for source, error in (("raise KeyError('a')", "KeyError"), ("yield 5", "TypeError"), ("yield {}", "TypeError")):
            _, headers, chunks = self.serve_one("def handler(e, c):\n    yield 'half'\n    %s\n" % source)
            self.assertEqual(chunks, [b"half"])
            self.assertEqual(headers["lambda-runtime-function-error-type"], error)
            self.assertEqual(self.error_in_trailers(headers)["errorType"], error)

    def test_a_generator_is_closed_when_its_client_is_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "app.py"), "w", encoding="utf-8") as file:
                file.write("import time\ndef handler(e, c):\n    try:\n        while True:\n            yield 'x'\n"
                           "            time.sleep(0.01)\n    finally:\n        print('closed')\n")
            api = FakeRuntimeApi([("application/json", b"{}")], refuse_after=3)
            environment = dict(os.environ, AWS_LAMBDA_RUNTIME_API=api.address, PYTHONPATH=PYTHON, LAMBDA_TASK_ROOT=folder)
            run = subprocess.run([sys.executable, "-m", "lambent_runtime", "app.handler"], cwd=folder, env=environment,
                                 capture_output=True, timeout=30, check=False)
            api.close()
        self.assertIn("closed", run.stdout.decode())
        self.assertIn("was ended with 410: gone", run.stderr.decode())

    def test_a_zygote_has_loaded_all_of_the_runtime(self):
        code = ("import os, sys\nfrom lambent_runtime import zygote\nzygote._load([])\n"
                "print(*[f for f in os.listdir(os.path.dirname(zygote.__file__)) if f.endswith('.py') and not f.startswith('_') and "
                "'lambent_runtime.' + f[:-3] not in sys.modules])")
        run = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=PYTHON), capture_output=True, text=True, timeout=30)
        self.assertEqual((run.stdout, run.stderr), ("\n", ""))

    def test_events_are_json_and_so_are_answers(self):
        path, headers, body = self.serve_one(
            "def handler(event, context):\n    return {'sum': sum(event['v']), 'text': 'ü'}\n",
            b'{"v": [1, 2, 3]}')
        self.assertEqual(path, "/2018-06-01/runtime/invocation/id-0/response")
        self.assertEqual(headers["content-type"], "application/json")
        self.assertEqual(json.loads(body), {"sum": 6, "text": "ü"})

    def test_invocations_are_served_one_after_the_other(self):
        posts, code, _ = self.serve(
            "n = 0\ndef handler(event, context):\n    global n\n    n += 1\n    return [n, event]\n",
            [("application/json", b"1"), ("", b"2"), ("application/json", b"")])
        self.assertEqual([json.loads(body) for _, _, body in posts], [[1, 1], [2, 2], [3, None]])
        self.assertEqual(code, 24)

    def test_an_answer_brings_the_next_invocation_where_the_api_sends_it(self):
        source = "def handler(event, context):\n    if event == 2: raise KeyError(event)\n    return event\n"
        events = [("application/json", b"%d" % each) for each in range(1, 5)]
        posts, _, output = self.serve(source, events, joined=True)
        self.assertEqual([path.rpartition("/")[2] for path, _, _ in posts], ["response", "error", "response", "response"], output)
        self.assertEqual([body for _, _, body in posts if body.isdigit()], [b"1", b"3", b"4"])
        self.assertEqual(self.api.asked, 1)
        # One that was refused is told, and the next is asked for.
        posts, _, output = self.serve(source, [events[0], 413, events[2]], joined=True)
        self.assertEqual([body for _, _, body in posts], [b"1", b"3"], output)
        self.assertIn("refused with 413: bad", output)
        self.assertEqual(self.api.asked, 2)

    def test_a_refusal_of_the_next_invocation_after_an_accepted_answer_ends_the_process(self):
        event = ("application/json", b"1")
        for status in ("403", "500"):
            posts, code, output = self.serve("def handler(event, context):\n    return event\n", [event, status, event], joined=True)
            self.assertEqual((len(posts), self.api.asked, code), (1, 1, 24), output)
            self.assertIn("the Runtime API answered %s to next" % status, output)
            self.assertNotIn("answer was refused", output)

    def test_other_content_types_are_bytes_both_ways(self):
        _, headers, body = self.serve_one(
            "def handler(event, context):\n    assert type(event) is bytes\n    return event[::-1]\n",
            b"\x00\xff\x01", "application/octet-stream")
        self.assertEqual((headers["content-type"], body), ("application/octet-stream", b"\x01\xff\x00"))

    def test_chunked_events_are_joined(self):
        _, _, body = self.serve_one("def handler(e, c):\n    return e\n", b'"chunky"', chunked=True)
        self.assertEqual(body, b'"chunky"')

    def test_a_large_event_arrives_whole(self):
        _, _, body = self.serve_one("def handler(e, c):\n    return len(e)\n",
                                    json.dumps("x" * 3_000_000).encode())
        self.assertEqual(body, b"3000000")

    def test_the_context_has_lambdas_names(self):
        _, _, body = self.serve_one(
            "def handler(event, context):\n"
            "    return [context.aws_request_id, context.function_name, context.invoked_function_arn,\n"
            "            context.get_remaining_time_in_millis() > 1000]\n")
        self.assertEqual(json.loads(body), ["id-0", "f", "arn:f", True])

    def test_the_callers_context_has_lambdas_names(self):
        source = ("from lambent_runtime.context import Context\n"
                  "def of(text):\n"
                  "    return Context({'lambda-runtime-aws-request-id': '1', 'lambda-runtime-client-context': text}).client_context\n"
                  "def handler(event, context):\n"
                  "    given = of(event)\n"
                  "    return [given.custom, given.env, given.client.app_title, given.client.app_version_name,\n"
                  "            context.client_context, of(''), of('[1]'), of('{'), of('{\"a\":' + '[' * 100000)]\n")
        event = json.dumps('{"custom": {"a": 1}, "client": {"app_title": "t"}}').encode()
        _, _, body = self.serve_one(source, event)
        self.assertEqual(json.loads(body), [{"a": 1}, None, "t", None, None, None, None, None, None])

    def test_the_context_has_what_lambda_has_and_leaves_empty(self):
        _, _, body = self.serve_one(
            "def handler(event, context):\n"
            "    return [context.identity.cognito_identity_id, context.identity.cognito_identity_pool_id, context.tenant_id]\n")
        self.assertEqual(json.loads(body), [None, None, None])
        self.assertEqual(self.printed("def handler(event, context):\n    context.log('said so')\n"), "said so\n")

    def test_an_asynchronous_handler_is_awaited(self):
        posts, _, output = self.serve(
            "import asyncio\nasync def handler(event, context):\n    await asyncio.sleep(0)\n    if event: raise KeyError('x')\n"
            "    return id(asyncio.get_running_loop())\n",
            [("application/json", b"{}"), ("application/json", b"{}"), ("application/json", b"[1]")])
        self.assertEqual([path.rpartition("/")[2] for path, _, _ in posts], ["response", "response", "error"], output)
        self.assertEqual(posts[0][2], posts[1][2])
        self.assertEqual(len(json.loads(posts[2][2])["stackTrace"]), 1)

    def test_records_of_the_root_logger_are_in_the_log_and_name_their_invocation(self):
        line = r"\[INFO\]\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\tid-%d\tcalled\n"
        for before in ("", "import sys\nassert 'logging' not in sys.modules\n"):
            output = self.printed(
                before + "import logging\nlog = logging.getLogger()\nlog.setLevel(logging.INFO)\nlog.debug('unseen')\n"
                "def handler(event, context):\n    log.info('called')\n", invocations=2)
            self.assertRegex(output, "^" + line % 1 + line % 0 + "$")

    def test_what_the_function_says_of_logging_holds(self):
        begin = "import json, logging, sys\n"
        for source, said in (
                ("logging.basicConfig(level=logging.INFO, format='%(message)s')\n", "called\n"),
                ("logging.getLogger().handlers[0].setFormatter(logging.Formatter('own %(aws_request_id)s'))\n"
                 "logging.getLogger().setLevel(20)\n", "own id-0\n"),
                ("logging.getLogger().handlers.clear()\nlogging.getLogger().setLevel(20)\n", ""),
                ("import logging.config\nlogging.config.dictConfig({'version': 1, 'root': {'level': 'INFO', 'handlers': ['h']},\n"
                 "  'handlers': {'h': {'class': 'logging.StreamHandler', 'formatter': 'f'}}, 'formatters': {'f': {'format': '%(message)s!'}}})\n",
                 "called!\n")):
            with self.subTest(source):
                output = self.printed(begin + source + "def handler(event, context):\n    logging.getLogger('a.b').info('called')\n")
                self.assertEqual(output, said)

    def test_a_module_of_the_function_may_be_called_logging(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "logging.py"), "w", encoding="utf-8") as file:
                file.write("own = 7\n")
            _, _, body = self.serve_one("import sys\nsys.path.insert(0, %r)\nimport logging\n"
                                        "def handler(event, context):\n    return logging.own\n" % folder)
        self.assertEqual(body, b"7")

    def test_decimals_leave_as_numbers(self):
        _, _, body = self.serve_one("from decimal import Decimal\ndef handler(e, c):\n    return [Decimal('1.5'), Decimal(3)]\n")
        self.assertEqual(json.loads(body), [1.5, 3])

    def test_numbers_and_arrays_of_numpy_leave_as_json(self):
        # A module that looks like numpy: its types, and tolist().
        numpy = ("import sys, types\n"
                 "class generic:\n"
                 "    def __init__(self, value): self.value = value\n"
                 "    def tolist(self): return self.value\n"
                 "class ndarray(generic): pass\n"
                 "sys.modules['numpy'] = types.SimpleNamespace(generic=generic, ndarray=ndarray)\n")
        _, _, body = self.serve_one(numpy + "def handler(e, c):\n    return {'n': generic(3), 'a': ndarray([[1, 2.5]])}\n")
        self.assertEqual(json.loads(body), {"n": 3, "a": [[1, 2.5]]})
        for value in ("generic(1j)", "ndarray([1j])", "generic(float('nan'))", "generic(b'raw')"):
            path, headers, body = self.serve_one(numpy + "def handler(e, c):\n    return %s\n" % value)
            self.assertTrue(path.endswith("/error"), value)
            self.assertEqual(headers["lambda-runtime-function-error-type"], "Runtime.MarshalError")

    def test_an_exception_is_reported_with_its_trace(self):
        path, headers, body = self.serve_one(
            "def inner():\n    raise KeyError('x')\ndef handler(event, context):\n    inner()\n")
        error = json.loads(body)
        self.assertTrue(path.endswith("/invocation/id-0/error"))
        self.assertEqual(headers["lambda-runtime-function-error-type"], "KeyError")
        self.assertEqual((error["errorType"], error["errorMessage"]), ("KeyError", "'x'"))
        self.assertEqual(len(error["stackTrace"]), 2)
        self.assertIn("in inner", error["stackTrace"][1])

    # What the machine of the test may have set.
    NO_CUDA = "import os\nfor name in ('CUDA_VISIBLE_DEVICES', 'EMULATED_CUDA_NODE'):\n    os.environ.pop(name, None)\n"
    CUDA = (NO_CUDA + "import mmap, pathlib\n"
            "folder = pathlib.Path(os.environ['LAMBDA_TASK_ROOT'], %r)\n"
            "folder.mkdir(parents=True)\n"
            "(folder / 'libcudart.so.12').write_bytes(b'x')\n"
            "with open(folder / 'libcudart.so.12') as file:\n"
            "    held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
            "os.environ.update(%r)\n"
            "def handler(e, c):\n    raise RuntimeError(%r)\n")

    def test_an_error_of_cuda_on_an_emulated_gpu_says_why_and_what_to_do(self):
        emulated, words = {"EMULATED_CUDA_NODE": "/node"}, "CUDA error: named symbol not found"
        for folder, variables, message, explained in (("nvidia/lib", emulated, words, True), ("nvidia/lib", {}, words, False),
                                                      ("emulated_runtime/x", emulated, words, False),
                                                      ("nvidia/lib", emulated, "out of luck", False)):
            with self.subTest(folder=folder, variables=variables, message=message), tempfile.TemporaryDirectory() as root:
                _, _, body = self.serve_one(self.CUDA % (os.path.join(root, folder), variables, message))
                said = json.loads(body)["errorMessage"]
                self.assertTrue(said.startswith(message), said)
                self.assertEqual("/nvidia/lib/libcudart.so.12, which does not run on it: use the CPU, or a worker" in said, explained, said)
                if not explained:
                    self.assertEqual(said, message)

    def test_an_error_of_cuda_in_a_sandbox_without_a_gpu_says_how_to_get_one(self):
        code = self.NO_CUDA + "os.environ.update(%r)\ndef handler(e, c):\n    raise RuntimeError(%r)\n"
        hint = (' (this sandbox has no GPU; a function gets one by gpu="8G" in its app, or by [gpu] and memory = "8G" in its lambent.toml)')
        for variables, message, explained in (({}, "Found no NVIDIA driver on your system.", True), ({}, "No CUDA GPUs are available", True),
                                              ({"CUDA_VISIBLE_DEVICES": "0"}, "No CUDA GPUs are available", False),
                                              ({}, "CUDA error: out of memory", False)):
            with self.subTest(variables=variables, message=message):
                _, _, body = self.serve_one(code % (variables, message))
                self.assertEqual(json.loads(body)["errorMessage"], message + hint * explained)

    def test_an_error_of_the_network_in_a_sandbox_without_one_says_how_to_get_one(self):
        code = "import socket\nsocket.if_nameindex = lambda: %r\ndef handler(e, c):\n    raise OSError(%r)\n"
        without, unknown = [(1, "lo")], "[Errno -2] Name or service not known"
        for interfaces, message, explained in ((without, unknown, True), (without, "[Errno 101] Network is unreachable", True),
                                               (without, "<urlopen error [Errno -3] Temporary failure in name resolution>", True),
                                               ([*without, (2, "tun0")], unknown, False), (without, "[Errno 111] Connection refused", False)):
            with self.subTest(interfaces=interfaces, message=message):
                _, _, body = self.serve_one(code % (interfaces, message))
                said = json.loads(body)["errorMessage"]
                self.assertTrue(said.startswith(message), said)
                self.assertEqual(" (this function has no network: network = [" in said, explained, said)

    def test_an_error_of_the_network_is_told_though_the_interfaces_cannot_be_read(self):
        code = "import socket\ndef none():\n    raise OSError(24, 'Too many open files')\nsocket.if_nameindex = none\n" \
               "def handler(e, c):\n    raise OSError(%r)\n"
        message = "[Errno -3] Temporary failure in name resolution"
        _, _, body = self.serve_one(code % message)
        self.assertEqual(json.loads(body)["errorMessage"], message)

    def test_what_torch_could_not_fill_is_removed_and_what_is_in_use_stays(self):
        message = "RuntimeError: unable to allocate shared memory(shm) for file </%s>: No space left on device (28)"
        with tempfile.TemporaryDirectory() as folder:
            for name in ("torch_left", "torch_open", "torch_mapped", "torch_sent", "other"):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(b"x" * 4096)
            os.mkdir(os.path.join(folder, "torch_folder"))
            with open(os.path.join(folder, "torch_mapped"), "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            with mapped, open(os.path.join(folder, "torch_open"), "rb"):
                self.assertEqual(tidy_after("RuntimeError: out of luck, </torch_left>", folder), [])
                for name in ("torch_none", "torch_open", "torch_mapped", "torch_folder", "other"):
                    self.assertEqual(tidy_after(message % name, folder), [], name)
                self.assertEqual(tidy_after(message % "torch_left", folder), ["torch_left"])
            # What it does not name may be on its way between two processes.
            self.assertEqual(sorted(os.listdir(folder)), ["other", "torch_folder", "torch_mapped", "torch_open", "torch_sent"])

    def test_a_call_that_fails_for_want_of_shared_memory_leaves_none_behind(self):
        name = "torch_lambent_test_%d" % os.getpid()
        source = ("import os\ndef handler(e, c):\n    path = '/dev/shm/%s'\n    if not e: return os.path.exists(path)\n"
                  "    open(path, 'wb').close()\n"
                  "    raise RuntimeError('unable to allocate shared memory(shm) for file </%s>: No space left on device (28)')\n" % (name, name))
        try:
            posts, _, output = self.serve(source, [("application/json", b"1"), ("application/json", b"0")])
            self.assertEqual([path.rpartition("/")[2] for path, _, _ in posts], ["error", "response"], output)
            self.assertEqual(posts[1][2], b"false")
        finally:
            if os.path.exists("/dev/shm/" + name):
                os.unlink("/dev/shm/" + name)

    # Each is followed by an invocation that the same process serves.
    STRANGE = {
        "a name beyond Latin-1": ("class Überlaufж(Exception): pass", "Überlaufж('x')", "?berlauf?", "Überlaufж", "x"),
        "a name that would be headers": ("Odd = type('Odd\\r\\nX: y', (Exception,), {})", "Odd('x')", "Odd??X: y", "Odd\r\nX: y", "x"),
        "a __str__ that raises": ("class Mute(Exception):\n    def __str__(self): raise KeyError(1)", "Mute()", "Mute", "Mute",
                                  "(the __str__ of Mute raised KeyError)"),
        "no Exception": ("import asyncio", "asyncio.CancelledError('x')", "CancelledError", "CancelledError", "x"),
        "a __getattr__ that raises": ("class Odd(Exception):\n    def __getattr__(self, name): raise KeyError(name)", "Odd('x')", "Odd",
                                      "Odd", "x"),
    }

    def test_an_exception_of_any_class_is_reported_and_the_process_goes_on(self):
        for what, (source, made, in_header, name, message) in self.STRANGE.items():
            with self.subTest(what):
                posts, _, output = self.serve(source + "\ndef handler(e, c):\n    if e: raise %s\n    return 'on'\n" % made,
                                              [("application/json", b"1"), ("application/json", b"0")])
                self.assertEqual([path.rpartition("/")[2] for path, _, _ in posts], ["error", "response"], output)
                self.assertEqual(posts[0][1]["lambda-runtime-function-error-type"], in_header)
                error = json.loads(posts[0][2])
                self.assertEqual((error["errorType"], error["errorMessage"]), (name, message))

    def test_a_stream_may_end_with_an_exception_of_any_class(self):
        for what, (source, made, in_header, name, message) in self.STRANGE.items():
            with self.subTest(what):
                _, headers, chunks = self.serve_one(source + "\ndef handler(e, c):\n    yield 'half'\n    raise %s\n" % made)
                self.assertEqual((chunks, headers["lambda-runtime-function-error-type"]), ([b"half"], in_header))
                error = self.error_in_trailers(headers)
                self.assertEqual((error["errorType"], error["errorMessage"]), (name, message))

    def test_an_answer_may_have_methods_of_its_own(self):
        keys = "class Keys(dict):\n    __getattr__ = dict.__getitem__\n"
        self.assertEqual(self.serve_one(keys + "def handler(e, c):\n    return Keys(a=1)\n")[2], b'{"a": 1}')
        path, headers, _ = self.serve_one("class Bad(dict):\n    def items(self): raise KeyError(1)\n"
                                          "def handler(e, c):\n    return Bad(a=1)\n")
        self.assertTrue(path.endswith("/invocation/id-0/error"))
        self.assertEqual(headers["lambda-runtime-function-error-type"], "Runtime.MarshalError")

    def test_an_event_that_is_no_json_is_told_as_that(self):
        path, headers, body = self.serve_one("def handler(e, c):\n    return e\n", b"hello")
        self.assertTrue(path.endswith("/invocation/id-0/error"))
        self.assertEqual(headers["lambda-runtime-function-error-type"], "Runtime.UnmarshalError")
        self.assertEqual(json.loads(body)["stackTrace"], [])
        self.assertIn("the event is not JSON (Expecting value", json.loads(body)["errorMessage"])

    def test_what_json_does_not_have_is_a_marshal_error(self):
        for value in ("{1, 2}", "float('nan')", "object()", "'\\ud800'", "__import__('decimal').Decimal('nan')"):
            path, headers, _ = self.serve_one("def handler(e, c):\n    return %s\n" % value)
            self.assertTrue(path.endswith("/error"))
            self.assertEqual(headers["lambda-runtime-function-error-type"], "Runtime.MarshalError")

    def test_a_marshal_error_says_what_would_be_json(self):
        made = ("import dataclasses, datetime, enum, pathlib, uuid\n@dataclasses.dataclass\nclass Point:\n    x: int\n"
                "class Kind(enum.Enum):\n    A = 'a'\nclass Model:\n    def model_dump(self, mode): pass\n    def __iter__(self): pass\n"
                "class Polars:\n    def to_dicts(self): pass\n    def to_dict(self): pass\n    def tolist(self): pass\n"
                "class Pandas:\n    def to_dict(self): pass\n    def __iter__(self): pass\ndef handler(e, c):\n    return {'x': [%s]}\n")
        for value, way in (("Point(1)", "dataclasses.asdict() of it"), ("datetime.date.today()", "its isoformat()"), ("Kind.A", "its value"),
                           ("pathlib.Path('/x')", "str() of it"), ("uuid.uuid4()", "str() of it"), ("{1, 2}", "list() of it"),
                           ("Model()", "its model_dump(mode='json')"), ("Polars()", "its to_dicts()"), ("Pandas()", "its to_dict('records')")):
            with self.subTest(value):
                message = json.loads(self.serve_one(made % value)[2])["errorMessage"]
                self.assertRegex(message, "^Unable to marshal response: Object of type .* is not JSON serializable; answer with ")
                self.assertTrue(message.endswith("answer with " + way), message)
        message = json.loads(self.serve_one(made % "float('inf')")[2])["errorMessage"]
        self.assertIn("JSON has no NaN and no infinity", message)
        self.assertTrue(json.loads(self.serve_one(made % "object()")[2])["errorMessage"].endswith("is not JSON serializable"))

    def test_a_forked_process_that_comes_back_from_the_handler_is_ended(self):
        source = ("import os, time\ndef handler(event, context):\n    child = os.fork()\n    if child == 0:\n        %s\n"
                  "    os.waitpid(child, 0)\n    return 'parent'\n")
        for child in ("return 'child'", "raise ValueError('child')", "return iter(b'' for _ in range(1))", "return (i for i in 'ab')"):
            with self.subTest(child):
                posts, code, output = self.serve(source % child, [("application/json", b"{}")] * 3)
                self.assertEqual([body for _, _, body in posts], [b'"parent"'] * 3, output)
                self.assertEqual(code, 24, output)
                self.assertEqual(output.count("a process that the handler forked came back from it"), 3, output)

    def test_a_process_that_is_forked_in_the_middle_of_a_stream_sends_nothing_of_it(self):
        source = ("import os\ndef handler(event, context):\n    yield 'a'\n    child = os.fork()\n    if child == 0:\n        %s\n"
                  "    os.waitpid(child, 0)\n    yield 'b'\n")
        for child in ("yield 'child'; return", "return", "raise ValueError('child')"):
            with self.subTest(child):
                posts, code, output = self.serve(source % child, [("application/json", b"{}")] * 2)
                self.assertEqual([body for _, _, body in posts], [[b"a", b"b"]] * 2, output)
                self.assertFalse([each for each in posts if "lambda-runtime-function-error-type" in each[1]], output)
                self.assertEqual(code, 24, output)
                self.assertEqual(output.count("a process that the handler forked came back from it"), 2, output)

    def init_error(self, source, handler):
        posts, code, output = self.serve(source, [], handler)
        self.assertEqual((len(posts), code), (1, 1), output)
        self.assertEqual(posts[0][0], "/2018-06-01/runtime/init/error")
        error = json.loads(posts[0][2])
        self.assertEqual(error["errorType"], posts[0][1]["lambda-runtime-function-error-type"])
        return error["errorType"], error["errorMessage"]

    def test_a_missing_handler_is_an_init_error_with_a_suggestion(self):
        source = "def handler(e, c):\n    return 1\n"
        self.assertEqual(self.init_error(source, "app.handlr"), (
            "Runtime.HandlerNotFound", "Handler 'handlr' missing on module 'app'; did you mean 'handler'?"))
        kind, message = self.init_error(source, "ap.handler")
        self.assertEqual(kind, "Runtime.ImportModuleError")
        self.assertIn("did you mean 'app'?", message)
        self.assertEqual(self.init_error(source, "app")[0], "Runtime.MalformedHandlerName")

    def test_what_a_modules_getattr_raises_is_an_init_error(self):
        for raised, kind, message in (("import nonsense_here", "Runtime.ImportModuleError",
                                       "Unable to import module 'app': No module named 'nonsense_here'; name it in [python] "
                                       "requirements, or put it into the package"),
                                      ("raise RuntimeError('cold')", "RuntimeError", "cold")):
            self.assertEqual(self.init_error("def __getattr__(name):\n    %s\n" % raised, "app.handler"), (kind, message))

    def test_a_module_that_does_not_load_is_an_init_error(self):
        self.assertEqual(self.init_error("import nonsense_here\n", "app.handler")[0],
                         "Runtime.ImportModuleError")
        self.assertEqual(self.init_error("def handler(:\n", "app.handler")[0],
                         "Runtime.UserCodeSyntaxError")
        self.assertEqual(self.init_error("raise RuntimeError('cold')\n", "app.handler"),
                         ("RuntimeError", "cold"))

    def test_without_a_runtime_api_it_says_so(self):
        environment = {k: v for k, v in os.environ.items() if k != "AWS_LAMBDA_RUNTIME_API"}
        run = subprocess.run([sys.executable, "-m", "lambent_runtime", "app.handler"], cwd=PYTHON,
                             env=environment, capture_output=True, timeout=30, check=False)
        self.assertEqual(run.returncode, 19)
        self.assertIn(b"AWS_LAMBDA_RUNTIME_API", run.stderr)


if __name__ == "__main__":
    unittest.main()
