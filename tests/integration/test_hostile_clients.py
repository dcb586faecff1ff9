"""Clients that send nonsense, read nothing, go away, or all come at once: everyone else is served."""
import os
import random
import resource
import socket
import threading
import time
import unittest

from harness import HttpError, Worker
from hostile import HostileTest, MIB, worker_memory


class PublicApiTest(HostileTest):
    def raw(self, text, seconds=10):
        with socket.create_connection(self.worker.address, seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(text)
            return connection.recv(4096)

    def test_strange_requests_get_an_answer(self):
        for method, path in (("GET", "/v1/functions/good/log?offset=-1"), ("GET", "/v1/functions/good/log?offset=" + "9" * 40),
                             ("GET", "/v1/functions/nobody/log"), ("GET", "/v1/invocations/nonsense"), ("GET", "/v1/invocations/"),
                             ("GET", "/2015-03-31/functions/%2e%2e%2f%2e%2e"), ("GET", "/2015-03-31/functions/" + "x" * 3000),
                             ("POST", "/2015-03-31/functions/%00/invocations"), ("PATCH", "/2015-03-31/functions/good"),
                             ("DELETE", "/metrics"), ("GET", "//"), ("GET", "/" + "%" * 100), ("OPTIONS", "*"),
                             ("POST", "/2015-03-31/functions"), ("PUT", "/2015-03-31/functions/good/code")):
            with self.subTest(path):
                status = None
                try:
                    status = self.worker.request(method, path).status
                except HttpError as error:
                    status = error.status
                self.assertTrue(200 <= status < 500, f"{method} {path}: {status}")

    def test_bodies_made_to_hurt_a_parser_get_400(self):
        for body in ("[" * 200_000, '{"FunctionName": ' * 50_000, '{"FunctionName": "' + "x" * 100_000 + '"}', '{"a": 1e99999}', "\xff\xfe",
                     "null", "[]", '{"FunctionName": 5}', '{"FunctionName": "a", "Code": {"ZipFile": "!!!"}}',
                     '{"FunctionName": "a", "Timeout": -1, "Runtime": "python3", "Handler": "a.b", "Role": "x", "Code": {"ZipFile": ""}}'):
            error = self.error_of(self.worker.request, "POST", "/2015-03-31/functions", body.encode("latin-1"))
            self.assertEqual(error.status, 400, body[:60])

    def test_clients_that_go_away_leave_nothing_running_for_ever(self):
        self.worker.create_python("slowly", "import time\ndef handler(e, c):\n  time.sleep(0.05)\n  return 'x' * 100000")
        request = (b"POST /2015-03-31/functions/slowly/invocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        for _ in range(60):
            with socket.create_connection(self.worker.address, 10) as connection:
                connection.sendall(request)
        self.assertEqual(len(self.worker.invoke("slowly").json), 100000)
        self.worker.wait_for(lambda: not any(each["state"] == "busy" for each in self.worker.sandboxes()), 30, "quiet")
        self.worker.delete("slowly")

    def test_what_a_client_left_queued_does_not_run(self):
        self.worker.create_python("counted", "import time\nran = []\ndef handler(e, c):\n  ran.append(e['n'])\n"
                                             "  time.sleep(e['seconds'])\n  return ran",
                                  tags={"lambent:max-concurrency": "1"})
        queued = lambda: next(each["queued"] for each in self.worker.request("GET", "/v1/functions").json["functions"]
                              if each["name"] == "counted")
        first = threading.Thread(target=self.worker.invoke, args=("counted", {"n": 1, "seconds": 10}))
        first.start()
        self.worker.wait_for(lambda: any(each["function"] == "counted" and each["state"] == "busy"
                                         for each in self.worker.sandboxes()), 30, "the first")
        with socket.create_connection(self.worker.address, 10) as connection:
            event = b'{"n": 2, "seconds": 0}'
            connection.sendall(b"POST /2015-03-31/functions/counted/invocations HTTP/1.1\r\nHost: localhost\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(event), event))
            self.worker.wait_for(lambda: queued() == 1, 30, "the second in its queue")
        self.worker.wait_for(lambda: queued() == 0, 30, "the queue to be left")
        first.join()
        self.assertEqual(self.worker.invoke("counted", {"n": 3, "seconds": 0}).json, [1, 3])

    def test_a_client_that_reads_nothing_is_no_burden(self):
        self.worker.create_python("large", "def handler(e, c): return 'x' * 5000000")
        before = worker_memory(self.worker)
        request = b"POST /2015-03-31/functions/large/invocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
        with socket.create_connection(self.worker.address, 10) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            try:
                for _ in range(2000):
                    connection.send(request)
            except BlockingIOError:
                pass
            time.sleep(3)
            self.assertEqual(self.worker.invoke("good").json, "good")
            self.assertLess(worker_memory(self.worker) - before, 128 * MIB)
        self.worker.delete("large")


class FewFilesTest(unittest.TestCase):
    def test_a_small_soft_limit_of_open_files_does_not_bound_the_clients(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 1000:
            self.skipTest(f"the hard limit of open files is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        try:
            worker = Worker()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.addCleanup(worker.close)
        worker.create_python("good", "import resource\ndef handler(e, c): return resource.getrlimit(resource.RLIMIT_NOFILE)[1]")
        idle = [socket.create_connection(worker.address, 10) for _ in range(min(500, soft // 2))]
        try:
            self.assertEqual(worker.invoke("good").json, 1024)
        finally:
            for connection in idle:
                connection.close()


class StormTest(HostileTest):
    flags = ("--concurrency", "4", "--pool", "12")
    seconds = 20 if os.environ.get("LAMBENT_WHOLE_TESTS") else 6
    clients = 200
    functions = 20

    def test_every_request_gets_exactly_one_answer(self):
        source = """
import os, time
def handler(event, context):
    how = event.get("how")
    if how == "crash": os.abort()
    if how == "exit": os._exit(3)
    if how == "hang": time.sleep(30)
    if how == "raise": raise ValueError("no")
    return event["n"]
"""
        for n in range(self.functions):
            self.worker.create_python(f"storm{n}", source, timeout=1, memory=64)
        deadline = time.monotonic() + self.seconds
        counts, wrong = {}, []
        lock = threading.Lock()

        def client(number):
            dice = random.Random(number)
            n = 0
            while time.monotonic() < deadline:
                n += 1
                how = dice.choices(("fine", "crash", "exit", "hang", "raise"), (90, 3, 2, 1, 4))[0]
                mark = number * 1_000_000 + n
                try:
                    reply = self.worker.invoke(f"storm{dice.randrange(self.functions)}", {"n": mark, "how": how}, timeout=120)
                    failed = reply.headers.get("x-amz-function-error")
                    answer = "failed" if failed else "answered"
                    if not failed and reply.json != mark:
                        wrong.append((mark, reply.body))
                    if bool(failed) != (how != "fine"):
                        wrong.append((how, reply.body))
                except HttpError as error:
                    answer = f"refused {error.status}"
                    if error.status != 429:
                        wrong.append((how, error.status, error.body))
                except OSError as error:
                    answer = "lost"
                    wrong.append((how, repr(error)))
                with lock:
                    counts[how, answer] = counts.get((how, answer), 0) + 1

        threads = [threading.Thread(target=client, args=(number,)) for number in range(self.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong[:5], [], f"{len(wrong)} wrong; {counts}")
        self.assertGreater(sum(counts.values()), 200)
        completed = sum(float(line.rpartition(" ")[2]) for line in self.worker.metrics().splitlines()
                        if line.startswith("lambent_invocations_total{") and 'function="storm' in line)
        self.assertEqual(completed, sum(n for (_, answer), n in counts.items()), counts)
        self.worker.wait_for(lambda: not any(each["state"] == "busy" for each in self.worker.sandboxes()), 30, "quiet")


if __name__ == "__main__":
    unittest.main()
