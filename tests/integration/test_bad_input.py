"""Everything that goes wrong gets a clear error with the right code; the others keep running; nothing is left behind."""
import socket
import time
import unittest

from harness import HttpError, WorkerTest, make_zip

GOOD = "def handler(e, c): return 'good'"


class BadInputTest(WorkerTest):
    flags = ("--concurrency", "4")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker.create_python("good", GOOD)

    def tearDown(self):
        # Whatever a test did: the others keep running.
        self.assertEqual(self.worker.invoke("good").json, "good")

    def assert_function_error(self, reply, error_type, part):
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.headers.get("x-amz-function-error"), "Unhandled")
        self.assertEqual(reply.json["errorType"], error_type)
        self.assertIn(part, reply.json["errorMessage"])

    # Requests.
    def test_an_unknown_function_gets_404_and_a_suggestion(self):
        error = self.error_of(self.worker.invoke, "godo")
        self.assertEqual((error.status, error.error_type), (404, "ResourceNotFoundException"))

    def test_six_megabytes_and_one_byte_are_too_large(self):
        limit = 6 * 1024 * 1024
        error = self.error_of(self.worker.invoke, "good", b"1" * (limit + 1))
        self.assertEqual((error.status, error.error_type), (413, "RequestTooLargeException"))
        self.assertEqual(self.worker.invoke("good", b'"' + b"1" * (limit - 2) + b'"').json, "good")

    def test_a_megabyte_and_one_byte_are_too_large_for_an_asynchronous_one(self):
        error = self.error_of(self.worker.invoke, "good", b"1" * (1024 * 1024 + 1), kind="Event")
        self.assertEqual(error.status, 413)

    def test_malformed_http_is_answered_with_400(self):
        for raw in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc"):
            with socket.create_connection(self.worker.address, 10) as connection:
                connection.sendall(raw)
                self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 400"), raw)

    def test_a_thousand_idle_connections_do_not_keep_others_out(self):
        connections = [socket.create_connection(self.worker.address, 10) for _ in range(1000)]
        try:
            self.assertEqual(self.worker.invoke("good").json, "good")
        finally:
            for connection in connections:
                connection.close()

    def test_a_slow_sender_is_cut_off(self):
        with socket.create_connection(self.worker.address, 30) as connection:
            connection.sendall(b"POST /2015-03-31/functions/good/invocations HTTP/1.1\r\nHost: localhost\r\n")
            started = time.monotonic()
            answer = connection.recv(4096)
            self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 408"), answer)
            self.assertLess(time.monotonic() - started, 25)

    # Packages.
    def test_a_bad_zip_is_refused(self):
        error = self.error_of(self.worker.create, "badzip", b"this is no zip")
        self.assertEqual(error.status, 400)

    def test_a_zip_that_leads_outside_is_refused(self):
        error = self.error_of(self.worker.create, "traversal", make_zip({"../outside": b"x"}))
        self.assertEqual(error.status, 400)
        self.assertIn("outside", error.body.decode())
        self.assertEqual(self.error_of(self.worker.invoke, "traversal").status, 404)

    def test_a_missing_handler_is_named_with_a_suggestion(self):
        self.worker.create_python("misspelt", "def handler(e, c): return 1", handler="app.hadler")
        reply = self.worker.invoke("misspelt")
        self.assert_function_error(reply, "Runtime.HandlerNotFound", "handler")
        self.assertIn("did you mean", reply.json["errorMessage"].lower())

    def test_a_missing_bootstrap_is_named(self):
        self.worker.create("empty", make_zip({"readme": b"x"}), runtime="provided.al2023", handler="x")
        reply = self.worker.invoke("empty")
        self.assert_function_error(reply, "Runtime.InvalidEntrypoint", "bootstrap")

    # Handlers.
    def test_an_exception_is_told_with_its_type_and_trace(self):
        self.worker.create_python("raises", "def handler(e, c): raise ValueError('no good')")
        reply = self.worker.invoke("raises")
        self.assert_function_error(reply, "ValueError", "no good")
        self.assertTrue(reply.json["stackTrace"])

    def test_a_crash_is_told_and_the_next_invocation_gets_a_new_sandbox(self):
        self.worker.create_python("crashes", "import os\ndef handler(e, c):\n  if e.get('crash'): os.abort()\n  return 1")
        self.assert_function_error(self.worker.invoke("crashes", {"crash": True}), "Runtime.ExitError", "signal")
        self.assertEqual(self.worker.invoke("crashes", {}).json, 1)

    def test_a_handler_that_hangs_is_stopped_at_its_timeout(self):
        self.worker.create_python("hangs", "import time\ndef handler(e, c): time.sleep(60)", timeout=1)
        started = time.monotonic()
        self.assert_function_error(self.worker.invoke("hangs"), "Sandbox.Timeout", "timed out after 1.")
        self.assertLess(time.monotonic() - started, 10)

    def test_a_fork_bomb_stops_at_its_limit(self):
        self.worker.create_python("bomb", """
import os, time
def handler(e, c):
    forked = 0
    try:
        while True:
            if os.fork() == 0:
                time.sleep(30); os._exit(0)
            forked += 1
    except OSError as error:
        return {"forked": forked, "error": error.errno}
""")
        reply = self.worker.invoke("bomb")
        self.assertLess(reply.json["forked"], 300)
        self.worker.delete("bomb")

    def test_a_handler_that_eats_memory_is_ended_and_told_why(self):
        self.worker.create_python("eater", "def handler(e, c):\n  hoard = []\n  while True: hoard.append(bytearray(1 << 24))",
                                  memory=128)
        reply = self.worker.invoke("eater")
        self.assertEqual(reply.headers.get("x-amz-function-error"), "Unhandled")
        self.assertIn(reply.json["errorType"], ("Runtime.OutOfMemory", "MemoryError"))

    def test_a_handler_that_prints_a_hundred_megabytes_is_served(self):
        self.worker.create_python("loud", "def handler(e, c):\n  line = 'x' * 1023\n  for _ in range(100 * 1024): print(line)\n  return 'done'")
        self.assertEqual(self.worker.invoke("loud").json, "done")

    def test_a_handler_that_kills_its_parent_ends_only_itself(self):
        self.worker.create_python("patricide", "import os, signal, time\ndef handler(e, c):\n  os.kill(os.getppid(), signal.SIGKILL)\n  os.kill(-1, signal.SIGKILL)\n  time.sleep(1)\n  return 'alive'",
                                  timeout=5)
        reply = self.worker.invoke("patricide")
        self.assertEqual(reply.status, 200)

    def test_a_response_that_is_too_large_is_an_error_of_the_function(self):
        self.worker.create_python("wordy", "def handler(e, c): return 'x' * (6 * 1024 * 1024 + 100)")
        reply = self.worker.invoke("wordy")
        self.assertEqual(reply.headers.get("x-amz-function-error"), "Unhandled")
        self.assertEqual(reply.json["errorType"], "Function.ResponseSizeTooLarge")

    def test_a_sandbox_sees_neither_the_host_nor_a_network(self):
        self.worker.create_python("spy", """
import os, socket
def handler(e, c):
    seen = {"etc_shadow": os.path.exists("/etc/shadow"), "root": os.path.exists("/root"), "home": os.path.exists("/home")}
    seen["processes"] = sum(1 for each in os.listdir("/proc") if each.isdigit())
    try:
        socket.create_connection(("192.0.2.1", 80), 2)
        seen["network"] = True
    except OSError as error:
        seen["network"] = error.errno
    return seen
""")
        seen = self.worker.invoke("spy").json
        self.assertFalse(seen["etc_shadow"] or seen["root"] or seen["home"], seen)
        self.assertLess(seen["processes"], 5)
        self.assertNotEqual(seen["network"], True)

    def test_init_that_raises_is_told(self):
        self.worker.create_python("badinit", "raise RuntimeError('at import')\ndef handler(e, c): pass")
        reply = self.worker.invoke("badinit")
        self.assertEqual(reply.headers.get("x-amz-function-error"), "Unhandled")
        self.assertIn("at import", reply.json["errorMessage"])


if __name__ == "__main__":
    unittest.main()
