"""The Python runtime against a Runtime API made for the test: python3 -m unittest."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class FakeRuntimeApi:
    """Answers `next` with the given invocations in turn, then closes; keeps what was posted."""

    def __init__(self, invocations, chunked=False):
        self.invocations, self.chunked = list(invocations), chunked
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
                body = stream.read(int(headers.get("content-length", 0)))
                if method == "POST":
                    self.posts.append((path, headers, body))
                    connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
                elif self.invocations:
                    connection.sendall(self._invocation(*self.invocations.pop(0)))
                else:
                    return

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
    def serve(self, source, invocations, handler="app.handler", chunked=False):
        """Runs a handler with this source over these invocations; (posts, exit code, output)."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "app.py"), "w", encoding="utf-8") as file:
                file.write(source)
            api = FakeRuntimeApi(invocations, chunked)
            environment = dict(os.environ, AWS_LAMBDA_RUNTIME_API=api.address, PYTHONPATH=PYTHON,
                               LAMBDA_TASK_ROOT=folder, AWS_LAMBDA_FUNCTION_NAME="f")
            run = subprocess.run([sys.executable, "-m", "lambent_runtime", handler], cwd=folder,
                                 env=environment, capture_output=True, timeout=30, check=False)
            api.close()
            return api.posts, run.returncode, run.stdout.decode() + run.stderr.decode()

    def serve_one(self, source, body=b"{}", content_type="application/json", **options):
        posts, _, output = self.serve(source, [(content_type, body)], **options)
        self.assertEqual(len(posts), 1, output)
        return posts[0]

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

    def test_an_exception_is_reported_with_its_trace(self):
        path, headers, body = self.serve_one(
            "def inner():\n    raise KeyError('x')\ndef handler(event, context):\n    inner()\n")
        error = json.loads(body)
        self.assertTrue(path.endswith("/invocation/id-0/error"))
        self.assertEqual(headers["lambda-runtime-function-error-type"], "KeyError")
        self.assertEqual((error["errorType"], error["errorMessage"]), ("KeyError", "'x'"))
        self.assertEqual(len(error["stackTrace"]), 2)
        self.assertIn("in inner", error["stackTrace"][1])

    def test_what_json_does_not_have_is_a_marshal_error(self):
        for value in ("{1, 2}", "float('nan')", "object()", "'\\ud800'"):
            path, headers, _ = self.serve_one("def handler(e, c):\n    return %s\n" % value)
            self.assertTrue(path.endswith("/error"))
            self.assertEqual(headers["lambda-runtime-function-error-type"], "Runtime.MarshalError")

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
