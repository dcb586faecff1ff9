"""The clients of bench upgrade and bench overload: what goes wrong in their threads fails the run."""
import http.server
import threading
import time
import types
import unittest

import overload
import upgrade


class Answers(http.server.BaseHTTPRequestHandler):
    """One after the other: (status, headers, body) each; the last one again and again."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        answers = self.server.answers
        status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


class ClientsTest(unittest.TestCase):
    def setUp(self):
        self.ended = threading.Event()

    def address_of(self, *answers):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        server.daemon_threads, server.answers = True, list(answers)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return server.server_address

    def wait_for(self, holds):
        end = time.monotonic() + 30
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_an_answer_of_another_kind_is_a_failure_and_the_client_goes_on(self):
        right = b'{"y": 42, "process": "p"}'
        wrong = {"plain": (b"[]", b"{}", b"no JSON", b'{"y": 42}', b"7", b'{"y": 41, "process": "p"}'),
                 "kernel": (b'{"outputs": []}', b'{"outputs": [{"data": []}]}', b'{"outputs": [{"raw": "="}]}')}
        client = upgrade.Client(types.SimpleNamespace(address=self.address_of(
            *[(200, {}, body) for body in wrong["plain"]], (200, {}, right))), "plain", True, self.ended)
        client.start()
        self.wait_for(lambda: client.answers or not client.is_alive())
        upgrade.join([client], self.ended)
        self.assertEqual(len(client.failures), len(wrong["plain"]), client.failures)
        self.assertGreater(len(client.answers), 0)
        kernel = upgrade.Client(None, "kernel", True, self.ended)
        for body in wrong["kernel"]:
            kernel.take(0, types.SimpleNamespace(status=200, getheader=lambda *_: None), body)
        self.assertEqual(len(kernel.failures), len(wrong["kernel"]), kernel.failures)

    def test_a_client_that_ends_by_itself_is_a_failure(self):
        class Quits(upgrade.Caller):
            def call(self):
                pass

        class Breaks(upgrade.Caller):
            def call(self):
                raise RuntimeError("broken")

        class Stays(upgrade.Caller):
            def call(self):
                self.ended.wait()
        callers = [each(None, each.__name__, self.ended) for each in (Quits, Breaks, Stays)]
        for each in callers:
            each.start()
        self.wait_for(lambda: not callers[0].is_alive() and not callers[1].is_alive())
        upgrade.join(callers, self.ended)
        self.assertEqual([each.failures for each in callers], [
            ["Quits: its client ended before the others"],
            ["Breaks: its client ended by RuntimeError('broken')", "Breaks: its client ended before the others"], []])

    def test_one_that_is_told_to_come_again_and_gets_an_error_fails_the_run_and_its_wait_counts(self):
        address = self.address_of((429, {"retry-after-ms": "20"}, b""), (500, {}, b""))
        client = overload.Told(address, "by_connection", self.ended)
        client.start()
        client.join(30)
        self.assertEqual([served for _, served in client.found], [False])
        with self.assertRaisesRegex(SystemExit, "1 of 1 clients failed.*by_connection.*HTTP 500"):
            overload.raise_failures([client])

    def test_one_that_comes_as_it_was_told_is_served(self):
        address = self.address_of((429, {"retry-after-ms": "20"}, b""), (200, {}, b""))
        client = overload.Told(address, "unknown", self.ended)
        client.start()
        self.wait_for(lambda: client.found)
        self.ended.set()
        client.join(30)
        (ratio, served), = client.found
        self.assertTrue(served)
        self.assertGreaterEqual(ratio, 0.9)
        overload.raise_failures([client])


if __name__ == "__main__":
    unittest.main()
