"""Code that abuses the runtime API of its own sandbox: it hurts itself alone."""
import base64
import time
import unittest

from harness import HttpError
from hostile import HostileTest, MIB, worker_memory


class RuntimeApiTest(HostileTest):
    PRELUDE = """
import http.client, json, os, socket, time
def call(method, path, body=None, headers={}):
    connection = http.client.HTTPConnection("127.0.0.1", 9001, timeout=10)
    connection.request(method, "/2018-06-01/runtime/" + path, body, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()
"""

    def test_an_answer_for_another_invocation_is_refused(self):
        seen = self.ask("impostor", self.PRELUDE + """
def handler(event, context):
    other = "11111111-2222-3333-4444-555555555555"
    return [call("POST", f"invocation/{each}/response", b'"forged"')[0]
            for each in (other, "", "..", "x" * 5000, context.aws_request_id + "0")]
""")
        self.assertTrue(all(400 <= status < 500 for status in seen), seen)

    def test_an_invocation_is_answered_once(self):
        self.worker.create_python("twice", self.PRELUDE + """
answers = []
def handler(event, context):
    if event.get("tell"):
        return answers
    for text in ("first", "second"):
        answers.append(call("POST", f"invocation/{context.aws_request_id}/response", json.dumps(text))[0])
    return "third"
""")
        self.assertEqual(self.worker.invoke("twice").json, "first")
        # The runtime's own answer was refused as well, whether that ended it or not.
        self.assertIn(self.worker.invoke("twice", {"tell": True}).json, ([202, 400], []))

    def test_an_answer_that_asks_for_the_next_beside_the_runtime_takes_nothing_from_it(self):
        self.worker.create_python("greedy", self.PRELUDE + """
held = []
def handler(event, context):
    if event.get("fine"):
        return "fine"
    request = f"POST /2018-06-01/runtime/invocation/{context.aws_request_id}/response HTTP/1.1\\r\\nHost: x\\r\\n"
    request += "Lambent-Runtime-Next: wait\\r\\nContent-Length: 5\\r\\n\\r\\n" + json.dumps("own")
    for _ in range(3):  # the second and third are refused, and wait for nothing
        held.append(socket.create_connection(("127.0.0.1", 9001), 10))
        held[-1].sendall(request.encode())
    time.sleep(0.3)  # until those are read: what the handler returns is an answer too
    if event.get("leaves"):
        held.clear()
""", timeout=8)
        for event in ({}, {"leaves": True}):
            self.assertEqual(self.worker.invoke("greedy", event).json, "own")
            time.sleep(0.5)  # until the runtime has asked, whose newer call takes the place of that one
            started = time.monotonic()
            self.assertEqual(self.worker.invoke("greedy", {"fine": True}).json, "fine")
            self.assertLess(time.monotonic() - started, 7)

    def test_the_call_after_an_answer_without_an_end_is_answered(self):
        for way, send in (("endless", "while True: connection.sendall(block)"), ("stopped", "time.sleep(60)"),
                          ("slow", "\n    while True: connection.sendall(b'1'); time.sleep(0.05)")):
            with self.subTest(way):
                self.worker.create_python(f"talker-{way}", self.PRELUDE + """
def handler(event, context):
    if event.get("fine"):
        return "fine"
    head = f"POST /2018-06-01/runtime/invocation/{context.aws_request_id}/response HTTP/1.1\\r\\nHost: x\\r\\n"
    block = b"100000\\r\\n" + bytes(1 << 20) + b"\\r\\n"
    connection = socket.create_connection(("127.0.0.1", 9001), 30)
    connection.sendall(head.encode() + (b"Transfer-Encoding: chunked" if "block" in %r else b"Content-Length: 9999999999") + b"\\r\\n\\r\\n")
    %s
""" % (send, send), timeout=8)
                self.assertEqual(self.worker.invoke(f"talker-{way}").json["errorType"], "Function.ResponseSizeTooLarge")
                started = time.monotonic()
                self.assertEqual(self.worker.invoke(f"talker-{way}", {"fine": True}).json, "fine")
                self.assertLess(time.monotonic() - started, 7, "it waited for a runtime that does not come back")
                self.worker.delete(f"talker-{way}")

    def test_a_second_answer_beside_a_stream_ends_neither_it_nor_the_worker(self):
        self.worker.create_python("doubled", self.PRELUDE + """
def other(context, length, body):
    connection = socket.create_connection(("127.0.0.1", 9001), 10)
    head = f"POST /2018-06-01/runtime/invocation/{context.aws_request_id}/response HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: {length}\\r\\n\\r\\n"
    connection.sendall(head.encode() + body)
    time.sleep(0.3)
    connection.close()
    time.sleep(0.3)

def handler(event, context):
    yield "a"
    other(context, 9999999999, b"")  # too large
    other(context, 100, b"x")  # cut short
    yield "b"
""")
        self.assertEqual(self.worker.invoke("doubled").body, b"ab")

    def test_an_initialisation_error_comes_too_late_afterwards(self):
        seen = self.ask("late", self.PRELUDE + """
def handler(event, context):
    return [call("POST", "init/error", b'{"errorType": "X", "errorMessage": "y"}')[0], call("GET", "invocation/next")[0]]
""")
        self.assertEqual(seen, [403, 403])

    def test_a_thousand_connections_hurt_the_sandbox_alone(self):
        seen = self.ask("clinging", self.PRELUDE + """
held = []
def handler(event, context):
    try:
        for _ in range(1000):
            held.append(socket.create_connection(("127.0.0.1", 9001), 2))
    except OSError as error:
        pass
    return len(held)
""")
        self.assertGreater(seen, 50)
        self.assertIn(self.worker.invoke("clinging").headers["x-lambent-start"], ("warm", "cold"))

    def test_answers_that_are_never_read_do_not_fill_the_worker(self):
        before = worker_memory(self.worker)
        self.ask("deaf", self.PRELUDE + """
held = []
def handler(event, context):
    request = b"GET /2018-06-01/ping HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" * 1000
    for _ in range(50):
        connection = socket.create_connection(("127.0.0.1", 9001), 2)
        connection.setblocking(False)
        held.append(connection)
    sent = 0
    end = time.monotonic() + 3
    while time.monotonic() < end:
        for connection in held:
            try:
                sent += connection.send(request)
            except OSError:
                pass
    return sent
""")
        self.assertLess(worker_memory(self.worker) - before, 64 * MIB)
        self.worker.delete("deaf")

    def test_bodies_that_never_end_do_not_fill_the_worker(self):
        before = worker_memory(self.worker)
        self.ask("endless-bodies", self.PRELUDE + """
held = []
def handler(event, context):
    head = f"POST /2018-06-01/runtime/invocation/{context.aws_request_id}/response HTTP/1.1\\r\\nHost: x\\r\\n"
    for _ in range(60):
        connection = socket.create_connection(("127.0.0.1", 9001), 2)
        connection.settimeout(1)
        held.append(connection)
        try:
            connection.sendall(head.encode() + b"Content-Length: 6000000\\r\\n\\r\\n" + b"1" * 5900000)
        except OSError:
            pass
    return len(held)
""", memory=256)
        grown = worker_memory(self.worker) - before
        self.worker.delete("endless-bodies")
        self.assertLess(grown, 128 * MIB)

    def test_large_headers_and_garbage_get_an_error(self):
        seen = self.ask("garbage", self.PRELUDE + """
def raw(text):
    connection = socket.create_connection(("127.0.0.1", 9001), 5)
    try:
        connection.sendall(text)
    except OSError:
        pass
    try:
        return connection.recv(100).decode(errors="replace")[:12]
    except OSError:
        return "reset"
def handler(event, context):
    return [raw(b"GET /2018-06-01/ping HTTP/1.1\\r\\nX: " + b"x" * (4 << 20) + b"\\r\\n\\r\\n"),
            raw(bytes(range(256)) * 64), raw(b"\\x16\\x03\\x01" + b"\\0" * 200)]
""")
        for answer in seen:
            self.assertTrue(answer.startswith("HTTP/1.1 4") or answer in ("", "reset"), seen)

    def test_a_client_cannot_put_headers_into_what_the_function_reads(self):
        self.worker.create_python("told", """
def handler(event, context):
    return getattr(context, "aws_request_id", None)
""")
        context = base64.b64encode(b'{"a": 1}\r\nLambda-Runtime-Aws-Request-Id: forged\r\nX: y').decode()
        try:
            reply = self.worker.invoke("told", {}, headers={"X-Amz-Client-Context": context})
            self.assertEqual(reply.json, reply.headers["x-amzn-requestid"])
        except HttpError as error:
            self.assertEqual(error.status, 400)


if __name__ == "__main__":
    unittest.main()
