"""HTTP functions: programs that listen, reached under /f/NAME/ and by a host name of their own."""
import base64
import hashlib
import http.client
import json
import os
import pathlib
import resource
import shutil
import socket
import tempfile
import threading
import time
import unittest

from certificates import Authority
from harness import Worker, WorkerTest, make_zip

SERVER = r'''
import hashlib, http.server, os, sys, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            while True:
                size = int(self.rfile.readline(), 16)
                if size == 0:
                    self.rfile.readline()
                    return
                yield self.rfile.read(size)
                self.rfile.readline()
        left = int(self.headers.get("Content-Length", 0))
        while left > 0:
            piece = self.rfile.read(min(left, 65536))
            if not piece:
                print("the client went away", flush=True)
                return
            left -= len(piece)
            yield piece

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def handle_any(self):
        path = self.path.split("?")[0]
        if path == "/head":
            list(self.body())
            lines = [f"{self.command} {self.path}"] + [f"{k}: {v}" for k, v in self.headers.items()]
            return self.answer(200, "\n".join(lines).encode(), X_Kept="yes", Connection="keep-alive", Keep_Alive="timeout=5")
        if path == "/pid":
            return self.answer(200, str(os.getpid()).encode())
        if path == "/digest":
            digest = hashlib.sha256()
            size = 0
            for piece in self.body():
                digest.update(piece)
                size += len(piece)
            return self.answer(200, f"{size} {digest.hexdigest()}".encode())
        if path == "/bytes":
            left = int(self.path.split("=")[1])
            self.send_response(200)
            self.send_header("Content-Length", str(left))
            self.end_headers()
            sent = 0
            try:
                while sent < left:
                    piece = b"x" * min(65536, left - sent)
                    self.wfile.write(piece)
                    sent += len(piece)
            finally:
                print("sent", sent, flush=True)
            return
        if path == "/events":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for number in range(int(self.path.split("=")[1])):
                    self.chunk(b"data: %d\n\n" % number)
                    time.sleep(0.1)
            except OSError:
                print("the reader of events is gone", flush=True)
                raise
            self.wfile.write(b"0\r\n\r\n")
            return
        if path == "/dies":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.chunk(b"half")
            time.sleep(0.1)
            os._exit(3)
        if path == "/dies-unsized":
            self.protocol_version = "HTTP/1.0"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"half")
            os._exit(3)
        if path == "/crashes":
            print("last words", flush=True)
            os._exit(4)
        if path == "/never":
            time.sleep(60)
        if path == "/late":
            time.sleep(float(self.path.split("=")[1]))
            return self.answer(200, str(os.getpid()).encode())
        if path == "/garbage":
            self.wfile.write(b"this is no HTTP at all\r\n\r\n")
            self.close_connection = True
            return
        if path == "/huge-head":
            self.send_response(200)
            self.send_header("X-Huge", "h" * 100_000)
            self.end_headers()
            return
        if path == "/error":
            return self.answer(500, b"my own error")
        if path == "/old":
            self.protocol_version = "HTTP/1.0"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"to the end")
            self.close_connection = True
            return
        if path == "/page":
            return self.answer(200, b"<script>1</script>", Content_Type="text/html")
        if path == "/upgrade":
            self.send_response(101)
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", "shout")
            self.end_headers()
            while True:
                data = self.connection.recv(65536)
                if not data:
                    self.connection.sendall(b"bye")
                    break
                self.connection.sendall(data.upper())
            self.close_connection = True
            return
        self.answer(404, b"nothing here")

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_PATCH = do_OPTIONS = handle_any

    def log_message(self, *args):
        print("served", self.command, self.path, flush=True)

print("starting", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
'''


# Says that it was asked to end, and does.
POLITE = SERVER.replace("\nclass Handler", '''
import signal

def end(*_):
    print("asked to end", flush=True)
    os._exit(0)

signal.signal(signal.SIGTERM, end)

class Handler''')


class HttpFunctionsTest(WorkerTest):
    def create_http(self, name, source=SERVER, command="python3 server.py", timeout=20, **tags):
        tags = {"lambent:kind": "http", **{"lambent:" + k.replace("_", "-"): str(v) for k, v in tags.items()}}
        return self.worker.create(name, make_zip({"server.py": source}), handler=command, timeout=timeout, tags=tags)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.create_http(cls, "web")

    def get(self, path, **options):
        return self.worker.request("GET", path, **options)

    def raw(self):
        connection = socket.create_connection(self.worker.address, timeout=30)
        self.addCleanup(connection.close)
        return connection

    def resident(self):
        """Bytes of the worker."""
        with open(f"/proc/{self.worker.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * 4096

    def log_has(self, name, text):
        self.worker.wait_for(lambda: text in self.get(f"/v1/functions/{name}/log?offset=0").body.decode(), what=text)

    # ---- requests and answers

    def test_a_request_reaches_the_program_without_its_prefix_and_tells_where_it_comes_from(self):
        reply = self.get("/f/web/head?a=b%20c", headers={"X-Forwarded-For": "10.0.0.1", "X-Own": "1", "TE": "trailers"})
        lines = reply.body.decode().split("\n")
        self.assertEqual(lines[0], "GET /head?a=b%20c")
        fields = dict(line.split(": ", 1) for line in lines[1:])
        self.assertEqual(fields["X-Own"], "1")
        self.assertEqual(fields["X-Forwarded-For"], "10.0.0.1, 127.0.0.1")
        self.assertEqual(fields["X-Forwarded-Proto"], "http")
        self.assertEqual(fields["X-Forwarded-Prefix"], "/f/web")
        self.assertIn("for=127.0.0.1", fields["Forwarded"])
        self.assertNotIn("TE", fields)
        self.assertEqual(reply.headers["x-kept"], "yes")
        self.assertNotIn("keep-alive", reply.headers)
        self.assertEqual(len(reply.headers["x-lambent-invocation-id"]), 36)

    def test_warm_requests_are_served_by_one_program_over_one_connection(self):
        pids = {self.get("/f/web/pid").body for _ in range(5)}
        self.assertEqual(len(pids), 1)

    def test_a_function_has_a_host_name_of_its_own(self):
        host = f"web.lambent.localhost:{self.worker.address[1]}"
        reply = self.get("/head", headers={"Host": host})
        self.assertIn("Host: " + host, reply.body.decode())
        self.assertNotIn("content-security-policy", reply.headers)
        # Nothing of the worker's own API is there.
        error = self.error_of(self.get, "/v1/functions", headers={"Host": host})
        self.assertEqual((error.status, error.body), (404, b"nothing here"))

    def test_pages_may_use_the_function_that_they_come_from_and_nothing_else(self):
        port = self.worker.address[1]
        host = f"web.lambent.localhost:{port}"
        self.get("/pid", headers={"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"})
        for origin, target, path in (("http://evil.example", host, "/pid"),
                                     (f"http://other.lambent.localhost:{port}", host, "/pid"),
                                     (f"http://{host}", f"localhost:{port}", "/v1/functions"),
                                     ("null", f"localhost:{port}", "/v1/functions")):
            error = self.error_of(self.get, path, headers={"Host": target, "Origin": origin})
            self.assertEqual(error.status, 403, origin)
        # Under a path a page would have the API's origin: it gets one of its own.
        self.assertIn("sandbox", self.get("/f/web/page").headers["content-security-policy"])

    def test_every_method_and_status_passes(self):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            reply = self.worker.request(method, "/f/web/head", b"x")
            self.assertTrue(reply.body.decode().startswith(method + " /head"), method)
        self.assertEqual(self.worker.request("HEAD", "/f/web/head").body, b"")
        error = self.error_of(self.get, "/f/web/error")
        self.assertEqual((error.status, error.body), (500, b"my own error"))
        self.assertEqual(self.get("/f/web/old").body, b"to the end")

    def test_the_programs_own_credentials_pass_where_the_worker_wants_none(self):
        reply = self.get("/f/web/head", headers={"Authorization": "Bearer of the program"})
        self.assertIn("Authorization: Bearer of the program", reply.body.decode())

    # ---- streams

    def test_a_body_of_any_size_reaches_the_program_as_it_comes(self):
        size = 64 * 1024 * 1024
        body = os.urandom(1024 * 1024) * 64
        reply = self.worker.request("POST", "/f/web/digest", body)
        self.assertEqual(reply.body.decode(), f"{size} {hashlib.sha256(body).hexdigest()}")

    def test_a_chunked_body_passes(self):
        pieces = [b"a" * 70000, b"b", b"c" * 9]
        reply = self.worker.request("POST", "/f/web/digest", iter(pieces))
        digest = hashlib.sha256(b"".join(pieces)).hexdigest()
        self.assertEqual(reply.body.decode(), f"70010 {digest}")

    def test_a_client_that_waits_for_leave_to_send_gets_it(self):
        client = self.raw()
        client.sendall(b"POST /f/web/digest HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
        client.sendall(b"ab")
        self.assertIn(b"200 OK", client.recv(1000))

    def test_events_come_as_they_are_made(self):
        connection = self.worker.connect()
        connection.request("GET", "/f/web/events?n=5")
        response = connection.getresponse()
        self.assertEqual(response.getheader("content-type"), "text/event-stream")
        began = time.monotonic()
        self.assertEqual(response.read1(), b"data: 0\n\n")
        self.assertLess(time.monotonic() - began, 0.3)
        rest = response.read()
        self.assertEqual(rest, b"".join(b"data: %d\n\n" % n for n in range(1, 5)))
        self.assertGreater(time.monotonic() - began, 0.3)
        connection.close()

    def test_a_large_answer_passes_whole(self):
        self.assertEqual(len(self.get("/f/web/bytes?n=40000000").body), 40_000_000)

    def test_a_slow_reader_holds_the_program_back_and_costs_little(self):
        before = self.resident()
        client = self.raw()
        client.sendall(b"GET /f/web/bytes?n=500000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertTrue(client.recv(1000).startswith(b"HTTP/1.1 200"))
        time.sleep(1)
        self.assertLess(self.resident() - before, 16 * 1024 * 1024)
        client.close()
        self.log_has("web", "sent ")

    def test_an_upgraded_connection_carries_bytes_both_ways(self):
        client = self.raw()
        client.sendall(b"GET /f/web/upgrade HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
        head = client.recv(1000)
        self.assertTrue(head.startswith(b"HTTP/1.1 101 "), head)
        self.assertIn(b"Upgrade: shout\r\n", head)
        self.assertIn(b"Connection: Upgrade\r\n", head)
        for word in (b"hello", b"again"):
            client.sendall(word)
            self.assertEqual(client.recv(100), word.upper())
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(client.recv(100), b"bye")
        self.assertEqual(client.recv(100), b"")

    def test_the_program_sees_that_its_reader_is_gone(self):
        self.create_http("left")
        connection = self.worker.connect()
        connection.request("GET", "/f/left/events?n=600")
        connection.getresponse().read1()
        connection.sock.close()
        connection.close()
        self.log_has("left", "the reader of events is gone")
        # Its place is free again.
        self.assertTrue(self.get("/f/left/pid").body)

    # ---- programs that go wrong

    def test_a_program_that_dies_in_its_answer_leaves_one_that_looks_cut_off(self):
        self.create_http("dying")
        for path in ("dies", "dies-unsized"):
            connection = self.worker.connect()
            connection.request("GET", "/f/dying/" + path)
            response = connection.getresponse()
            with self.assertRaises(http.client.IncompleteRead):
                response.read()
            connection.close()
        self.assertEqual(len(self.get("/f/dying/pid").body) > 0, True)

    def test_a_program_that_crashes_is_told_with_its_exit_and_its_log(self):
        self.create_http("crashing")
        error = self.error_of(self.get, "/f/crashing/crashes", headers={"X-Amz-Log-Type": "Tail"})
        self.assertEqual(error.status, 502)
        self.assertIn("exit status 4", error.json["error"]["message"])
        self.assertEqual((error.json["error"]["code"], error.json["error"]["type"]), ("UNKNOWN", "Runtime.ExitError"))
        self.assertIn("last words", error.json["log"])

    def test_a_program_that_never_answers_is_ended_after_the_functions_time(self):
        self.create_http("never", timeout=1)
        began = time.monotonic()
        error = self.error_of(self.get, "/f/never/never")
        self.assertEqual(error.status, 504)
        self.assertIn("timed out after 1.0", error.json["error"]["message"])
        self.assertLess(time.monotonic() - began, 8)

    def test_an_answer_that_goes_on_for_ever_is_cut_off_after_the_functions_time(self):
        self.create_http("endless", timeout=1)
        connection = self.worker.connect()
        connection.request("GET", "/f/endless/events?n=100000")
        with self.assertRaises(http.client.IncompleteRead):
            connection.getresponse().read()
        connection.close()

    def test_a_program_that_does_not_listen_is_told_so(self):
        self.create_http("mute", source="import time; print('I do not listen', flush=True); time.sleep(100)", timeout=1)
        error = self.error_of(self.get, "/f/mute/", headers={"X-Amz-Log-Type": "Tail"})
        self.assertEqual(error.status, 504)
        self.assertIn("port 8080", error.json["error"]["message"])
        self.assertIn("I do not listen", error.json["log"])
        self.log_has("mute", "I do not listen")

    def test_a_program_that_listens_elsewhere_is_told_where(self):
        source = ("import socket, time\n"
                  "five = socket.create_server(('127.0.0.1', 5000))\n"
                  "six = socket.create_server(('::1', 8080), family=socket.AF_INET6)\n"
                  "time.sleep(100)\n")
        self.create_http("elsewhere", source=source, timeout=1)
        error = self.error_of(self.get, "/f/elsewhere/")
        self.assertEqual(error.status, 504)
        self.assertTrue(error.json["error"]["message"].endswith(
            "the program does not listen on 127.0.0.1, port 8080 (its PORT), but on 127.0.0.1:5000, [::1]:8080"), error.body)

    def test_a_program_that_ends_at_once_is_told_with_its_exit(self):
        self.create_http("gone", source="import sys; print('no model', flush=True); sys.exit(7)")
        error = self.error_of(self.get, "/f/gone/", headers={"X-Amz-Log-Type": "Tail"})
        self.assertEqual(error.status, 502)
        self.assertIn("exit status 7 before it was ready", error.json["error"]["message"])
        self.assertEqual(error.json["error"]["code"], "UNKNOWN")
        self.assertIn("no model", error.json["log"])

    def test_a_program_that_writes_where_it_may_not_is_told_where_it_may(self):
        self.create_http("writer", source="open('pid', 'w')")
        error = self.error_of(self.get, "/f/writer/")
        self.assertEqual(error.status, 502)
        self.assertEqual(error.json["hint"], "its folder is read-only, /tmp is not; its log: lambent logs writer")

    # ---- ends

    def change(self, name, source):
        zipped = base64.b64encode(make_zip({"server.py": source})).decode()
        self.worker.request("PUT", f"/2015-03-31/functions/{name}/code", json.dumps({"ZipFile": zipped}))

    def sandboxes_of(self, name):
        return [each for each in self.worker.sandboxes() if each["function"] == name]

    def test_a_request_in_flight_at_a_change_ends_where_it_began_and_then_its_program_is_asked_to_end(self):
        self.create_http("changing", source=POLITE)
        self.assertEqual(self.get("/f/changing/pid").body, b"2")
        connection = self.worker.connect()
        connection.request("GET", "/f/changing/events?n=15")
        response = connection.getresponse()
        self.assertEqual(response.read1(), b"data: 0\n\n")
        self.change("changing", POLITE.replace("str(os.getpid())", "'changed'"))
        self.assertEqual(self.get("/f/changing/pid").body, b"changed")
        self.assertEqual(response.read(), b"".join(b"data: %d\n\n" % n for n in range(1, 15)))
        connection.close()
        self.log_has("changing", "asked to end")

    def test_a_program_at_rest_that_does_not_end_when_it_is_asked_is_killed_after_its_grace(self):
        self.create_http("stubborn", source=POLITE.replace("os._exit(0)", "pass"))
        self.assertTrue(self.get("/f/stubborn/pid").body)
        began = time.monotonic()
        self.change("stubborn", SERVER)
        self.log_has("stubborn", "asked to end")
        self.worker.wait_for(lambda: not self.sandboxes_of("stubborn"), what="its end")
        self.assertGreater(time.monotonic() - began, 4)

    def test_a_program_is_asked_to_end_when_it_rests_too_long_and_when_the_worker_stops(self):
        for flags in (("--keep-alive", "0.5"), ()):
            worker = Worker(*flags, gpu="none")
            self.addCleanup(worker.close)
            worker.create("web", make_zip({"server.py": POLITE}), handler="python3 server.py", tags={"lambent:kind": "http"})
            self.assertTrue(worker.request("GET", "/f/web/pid").body)
            if not flags:
                self.assertEqual(worker.stop(), 0)
                worker.start()
            worker.wait_for(lambda: "asked to end" in worker.request("GET", "/v1/functions/web/log?offset=0").body.decode())
            worker.wait_for(lambda: not worker.sandboxes(), what="its end")

    def test_answers_that_are_no_http_are_bad_gateways(self):
        for path, words in (("garbage", "not HTTP"), ("huge-head", "headers have more than 65536 bytes")):
            error = self.error_of(self.get, "/f/web/" + path)
            self.assertEqual(error.status, 502)
            self.assertIn(words, error.json["error"]["message"])

    def test_readiness_can_be_a_path(self):
        late = SERVER.replace('if path == "/head":', '''if path == "/ready":
            return self.answer(200 if time.monotonic() - began > 0.5 else 503, b"")
        if path == "/head":''').replace('print("starting"', 'began = time.monotonic(); print("starting"')
        self.create_http("late", source=late, http_readiness="/ready")
        began = time.monotonic()
        self.assertTrue(self.get("/f/late/pid").body)
        self.assertGreater(time.monotonic() - began, 0.5)

    def test_the_port_is_the_manifests(self):
        self.create_http("ported", http_port=9999)
        self.assertTrue(self.get("/f/ported/pid").body)

    # ---- as an invocation

    def test_a_request_is_an_invocation_with_its_lines_in_the_log(self):
        self.create_http("lines")
        reply = self.get("/f/lines/pid")
        invocation = reply.headers["x-lambent-invocation-id"]
        for line in (f"START RequestId: {invocation}", f"END RequestId: {invocation}", "served GET /pid"):
            self.log_has("lines", line)
        self.worker.wait_for(lambda: 'function="lines"' in self.worker.metrics())

    def test_several_requests_at_once_get_sandboxes_of_their_own(self):
        self.create_http("several")
        replies = []
        def events():
            replies.append(self.get("/f/several/events?n=10").body)
        threads = [threading.Thread(target=events) for _ in range(3)]
        for thread in threads:
            thread.start()
        self.worker.wait_for(lambda: sum(each["function"] == "several" for each in self.worker.sandboxes()) >= 2)
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(replies)), 1)

    def leave(self, path):
        """A client that goes away half a second after it asked."""
        connection = self.raw()
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(0.5)
        connection.close()

    def states(self, name):
        return [each["state"] for each in self.worker.sandboxes() if each["function"] == name]

    def test_what_a_client_left_is_at_work_until_the_program_has_answered(self):
        self.create_http("abandoned", max_concurrency=1)
        self.get("/f/abandoned/pid")
        self.leave("/f/abandoned/late?s=3")
        self.assertEqual(self.states("abandoned"), ["busy"])
        begin = time.monotonic()
        self.get("/f/abandoned/pid")
        self.assertGreater(time.monotonic() - begin, 1, "the next one waits for its turn")
        self.worker.wait_for(lambda: any(line.startswith("lambent_invocations_total{") and 'function="abandoned"' in line
                                         and 'outcome="function_error"' in line for line in self.worker.metrics().splitlines()))

    def test_what_a_client_left_ends_with_the_functions_time(self):
        self.create_http("burns", timeout=2)
        self.get("/f/burns/pid")
        self.leave("/f/burns/late?s=60")
        self.worker.wait_for(lambda: self.states("burns") == [], seconds=10)

    def test_handlers_get_events_and_http_functions_are_not_for_invoking(self):
        self.worker.create_python("handler", "def handler(e, c): return e['rawPath']")
        self.assertEqual(self.get("/f/handler/a").body, b"/a")
        error = self.error_of(self.worker.invoke, "web")
        self.assertIn("/f/web/", error.json["Message"])
        self.assertEqual(self.error_of(self.get, "/f/nothing/").status, 404)

    def test_thousands_of_slow_clients_hold_up_their_own_function_only(self):
        clients = 10_000 if os.environ.get("LAMBENT_WHOLE_TESTS") else 1000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 2 * clients:  # the worker, too, keeps files for other things than connections
            self.skipTest(f"this machine allows only {hard} open files")
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.create_http("slow", max_concurrency=2)
        before = self.resident()
        for _ in range(clients):
            self.raw().sendall(b"POST /f/slow/digest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000)
        for _ in range(20):
            began = time.monotonic()
            self.assertTrue(self.get("/f/web/pid").body)
            self.assertLess(time.monotonic() - began, 2 * clients / 1000)  # far from the 30 s that theirs would take
        self.assertLessEqual(sum(each["function"] == "slow" for each in self.worker.sandboxes()), 2)
        self.assertLess(self.resident() - before, 128 * 1024 * 1024)
        self.doCleanups()
        self.worker.wait_for(lambda: self.get("/f/slow/pid").body, what="slow to be free again")

    def test_a_function_may_use_a_gpu(self):
        source = """
import http.server, os, sys
sys.path.insert(0, ".")
import lambent_cuda as cuda
device = cuda.Device()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        data = device.buffer(b"kept on the device")
        body = f"{device.name} {bytes(data.array('B')).decode()}".encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
        self.create_http("gpu", source=source, gpu_memory="64MiB")
        reply = self.get("/f/gpu/")
        self.assertIn(b"kept on the device", reply.body)
        self.assertEqual(self.get("/f/gpu/").body, reply.body)

    def test_mistakes_in_the_deployment_are_told_at_once(self):
        for options, words in (({"command": ""}, "needs the command"), ({"http_port": 9001}, "port 9001"),
                               ({"command": 'python3 "x'}, "quote"), ({"http_readiness": "ready"}, "readiness")):
            error = self.error_of(self.create_http, "wrong", **options)
            self.assertIn(words, error.body.decode())


class HttpFunctionsOverTlsTest(unittest.TestCase):
    def test_streams_pass_over_tls_in_both_directions(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-http-"))
        self.addCleanup(shutil.rmtree, folder, True)
        authority = Authority(folder)
        certificate, key = authority.issue("worker")
        worker = Worker("--tls-certificate", str(certificate), "--tls-key", str(key), gpu="none", tls=authority.context())
        self.addCleanup(worker.close)
        worker.create("web", make_zip({"server.py": SERVER}), handler="python3 server.py", tags={"lambent:kind": "http"})
        body = os.urandom(1024 * 1024) * 16
        reply = worker.request("POST", "/f/web/digest", body)
        self.assertEqual(reply.body.decode(), f"{len(body)} {hashlib.sha256(body).hexdigest()}")
        self.assertEqual(len(worker.request("GET", "/f/web/bytes?n=20000000").body), 20_000_000)
        self.assertIn("X-Forwarded-Proto: https", worker.request("GET", "/f/web/head").body.decode())
        connection = worker.connect()
        connection.request("GET", "/f/web/upgrade", headers={"Connection": "Upgrade", "Upgrade": "shout"})
        connection.sock.settimeout(20)
        head = connection.sock.recv(1000)
        self.assertTrue(head.startswith(b"HTTP/1.1 101 "), head)
        for size in (5, 40_000, 200_000):
            connection.sock.sendall(b"a" * size)
            received = b""
            while len(received) < size:
                received += connection.sock.recv(65536)
            self.assertEqual(received, b"A" * size)
        connection.close()


class BehindAProxyTest(unittest.TestCase):
    HANDLER = "def handler(event, context):\n    return [event['requestContext']['http']['sourceIp'], event['headers']['x-forwarded-proto']]\n"
    SENT = {"X-Forwarded-For": "1.1.1.1, 198.51.100.7", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "app.example"}

    def seen(self, *flags):
        """What a handler and a program see of a request that says that a proxy sent it."""
        worker = Worker(*flags, gpu="none")
        self.addCleanup(worker.close)
        worker.create("event", make_zip({"app.py": self.HANDLER}))
        worker.create("web", make_zip({"server.py": SERVER}), handler="python3 server.py", tags={"lambent:kind": "http"})
        event = worker.request("GET", "/f/event/", headers=self.SENT).json
        lines = worker.request("GET", "/f/web/head", headers=self.SENT).body.decode().split("\n")[1:]
        return event, dict(line.split(": ", 1) for line in lines)

    def test_a_trusted_proxy_says_where_a_request_comes_from(self):
        event, fields = self.seen("--trusted-proxy", "127.0.0.0/8")
        self.assertEqual(event, ["198.51.100.7", "https"])
        self.assertEqual((fields["X-Forwarded-Proto"], fields["X-Forwarded-Host"]), ("https", "app.example"))
        self.assertEqual(fields["X-Forwarded-For"], "1.1.1.1, 198.51.100.7, 127.0.0.1")

    def test_others_are_not_believed(self):
        event, fields = self.seen("--trusted-proxy", "10.0.0.1", "--trusted-proxy", "unix")
        self.assertEqual(event, ["127.0.0.1", "http"])
        self.assertEqual(fields["X-Forwarded-Proto"], "http")
        self.assertTrue(fields["X-Forwarded-Host"].startswith("127.0.0.1:"), fields)


if __name__ == "__main__":
    unittest.main()
