"""A worker gives way to the program that is installed now: no request fails, and what was accepted is answered."""
import http.client
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import threading
import time
import unittest

import harness
from harness import PREFIX, Worker

DOUBLE = "def handler(e, c): return e['n'] * 2"
SLOW = "import time\ndef handler(e, c):\n  time.sleep(1)\n  return e['n'] * 2"


class Installed(Worker):
    """A worker of an installation of its own, whose programs can be replaced."""

    def __init__(self, *flags, gpu="none", **options):
        self.prefix = pathlib.Path(tempfile.mkdtemp(prefix="lambent-installed-"))
        (self.prefix / "bin").mkdir()
        self.install_first()
        self.install_again()
        super().__init__(*flags, gpu=gpu, **options)

    def install_first(self):
        for path in (PREFIX / "bin").iterdir():
            if path.is_file() and path.name.startswith(("lambent", "emulated-gpu")):
                shutil.copy2(path, self.prefix / "bin")
        for name in ("lib", "share"):
            (self.prefix / name).symlink_to(PREFIX / name)

    def install_again(self):
        """As packages do it: a new file in the place of the old one."""
        new = self.prefix / "bin/new"
        shutil.copy2(PREFIX / "bin/lambent-worker", new)
        new.rename(self.prefix / "bin/lambent-worker")

    def install_broken(self, script):
        new = self.prefix / "bin/new"
        new.write_text(script)
        new.chmod(0o755)
        new.rename(self.prefix / "bin/lambent-worker")

    def start(self):
        kept, harness.PREFIX = harness.PREFIX, self.prefix
        try:
            super().start()
        finally:
            harness.PREFIX = kept

    def replace(self):
        self.process.send_signal(signal.SIGUSR2)

    def events(self, name):
        return self.log().count(f'"event":"{name}"')

    def close(self):
        super().close()
        shutil.rmtree(self.prefix, ignore_errors=True)


class Load:
    """Clients that call double without a pause, on connections that they keep, or on a new one for each call."""

    def __init__(self, worker, clients=4):
        self.worker, self.failures, self.answered, self.ended = worker, [], 0, threading.Event()
        self.clients = [threading.Thread(target=self.call, args=(number % 2 == 0,)) for number in range(clients)]
        for client in self.clients:
            client.start()

    def call(self, keeps):
        connection = None
        while not self.ended.is_set():
            try:
                if connection is None:
                    connection = self.worker.connect()
                connection.request("POST", "/2015-03-31/functions/double/invocations", b'{"n": 21}')
                reply = connection.getresponse()
                body = reply.read()
                if reply.status != 200 or body != b"42":
                    self.failures.append((reply.status, body[:200]))
                if not keeps or reply.getheader("Connection") == "close":
                    connection.close()
                    connection = None
                self.answered += 1
            except (OSError, http.client.HTTPException) as error:
                self.failures.append((keeps, repr(error)))
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def end(self):
        self.ended.set()
        for client in self.clients:
            client.join()


class ReplacedTest(unittest.TestCase):
    """A test case with a worker of its own that becomes another program."""

    def start(self, *flags, gpu="none"):
        self.worker = Installed(*flags, gpu=gpu)
        self.addCleanup(self.worker.close)
        self.replacements = 0
        return self.worker

    def replace(self):
        self.replacements += 1
        self.worker.install_again()
        self.worker.replace()
        self.wait_until_replaced()

    def wait_until_replaced(self):
        self.worker.wait_for(lambda: self.worker.events("listening") > self.replacements, 60, "the new program's start")

    def starts(self):
        """Sandboxes that this program has started."""
        lines = [line for line in self.worker.metrics().splitlines() if line.startswith('lambent_cold_start_seconds_count{phase="sandbox"}')]
        self.assertTrue(lines, "no metric of starts")
        return sum(int(float(line.split()[-1])) for line in lines)


class ReplacementTest(unittest.TestCase):
    def setUp(self):
        self.worker = Installed()
        self.addCleanup(self.worker.close)
        self.worker.create_python("double", DOUBLE)
        self.worker.create_python("slow", SLOW)

    def wait_until_replaced(self, times=1):
        self.worker.wait_for(lambda: self.worker.events("listening") > times, 60, "the new program's start")

    def test_no_request_fails_under_load(self):
        pid = self.worker.process.pid
        load = Load(self.worker)
        time.sleep(0.5)
        running = []
        caller = threading.Thread(target=lambda: running.append(self.worker.invoke("slow", {"n": 4}).json))
        caller.start()
        self.worker.wait_for(lambda: any(each["function"] == "slow" and each["state"] == "busy"
                                         for each in self.worker.sandboxes()), what="the slow call's run")
        waiting = {self.worker.invoke("slow", {"n": n}, kind="Event").headers["x-amzn-requestid"]: n for n in range(3)}
        self.worker.install_again()
        self.worker.replace()
        self.wait_until_replaced()
        before = load.answered
        self.worker.wait_for(lambda: load.answered > before + 20, what="answers of the new program")
        load.end()
        caller.join()
        self.assertEqual(load.failures, [])
        self.assertEqual(running, [8])
        self.assertEqual(self.worker.process.poll(), None)
        self.assertEqual(self.worker.process.pid, pid)
        self.assertNotIn("deleted", os.readlink(f"/proc/{pid}/exe"))
        for request_id, n in waiting.items():
            reply = self.worker.wait_for(lambda: self.result_of(request_id), 30, "an asynchronous result")
            self.assertEqual(reply.json, n * 2)

    def result_of(self, request_id):
        reply = self.worker.request("GET", f"/v1/invocations/{request_id}")
        return reply if reply.status == 200 else None

    def test_again_and_again(self):
        load = Load(self.worker, 2)
        for times in range(1, 4):
            self.worker.replace()
            self.wait_until_replaced(times)
        load.end()
        self.assertEqual(load.failures, [])
        self.assertEqual(self.worker.stop(), 0)

    def test_a_program_that_does_not_start_is_not_taken(self):
        self.worker.install_broken("#!/bin/sh\necho 'libnew.so: not found' >&2\necho 'try --help' >&2\nexit 127\n")
        self.worker.replace()
        self.worker.wait_for(lambda: self.worker.events("not_replaced"), what="the refusal")
        self.assertIn("libnew.so: not found; try --help", self.worker.log())
        self.assertEqual(self.worker.invoke("double", {"n": 21}).json, 42)
        self.worker.install_again()
        self.worker.replace()
        self.wait_until_replaced()
        self.assertEqual(self.worker.invoke("double", {"n": 21}).json, 42)

    def test_a_worker_that_gives_way_stops_when_it_is_told_to(self):
        running = []
        caller = threading.Thread(target=lambda: running.append(self.worker.invoke("slow", {"n": 1}).json))
        caller.start()
        self.worker.wait_for(lambda: any(each["state"] == "busy" for each in self.worker.sandboxes()), what="the run")
        self.worker.replace()
        self.worker.wait_for(lambda: self.worker.events("replacing"), what="the check")
        self.worker.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.worker.process.wait(30), 0)
        caller.join()
        self.assertEqual(running, [2], "what ran was answered")
        self.assertEqual(self.worker.events("listening"), 1)


class SocketsOfAServiceManagerTest(unittest.TestCase):
    """The worker takes the sockets that systemd holds (LISTEN_FDS)."""

    def test_clients_wait_while_no_worker_runs(self):
        listener, port = self.listener()
        folder = tempfile.mkdtemp(prefix="lambent-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        worker = Activated(listener, folder=folder, gpu="none", listen=f"127.0.0.1:{port}")
        self.addCleanup(worker.close)
        worker.create_python("double", DOUBLE)
        self.assertEqual(worker.stop(), 0)
        replies = []
        caller = threading.Thread(target=lambda: replies.append(worker.invoke("double", {"n": 21}).json))
        caller.start()
        time.sleep(0.2)
        worker.start()
        caller.join()
        self.assertEqual(replies, [42])

    def test_an_address_that_the_worker_does_not_serve_is_refused(self):
        listener, port = self.listener()
        with self.assertRaises(AssertionError) as refused:
            Activated(listener, gpu="none", listen="127.0.0.1:1")
        self.assertIn(f"the service manager listens at 127.0.0.1:{port}", str(refused.exception))

    def listener(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        return listener, listener.getsockname()[1]


class Activated(Worker):
    def __init__(self, listener, **options):
        self.listener = listener
        super().__init__(**options)

    def start(self):
        # What systemd does between fork and exec: the socket at descriptor 3, and the process's own number.
        script = 'exec 3<&"$1"; shift; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"'
        self.listener.set_inheritable(True)
        popen = harness.subprocess.Popen

        def start_with_socket(words, **options):
            command = ["/bin/bash", "-c", script, "start", str(self.listener.fileno()), *words]
            return popen(command, pass_fds=[self.listener.fileno()], **options)

        harness.subprocess.Popen = start_with_socket
        try:
            super().start()
        finally:
            harness.subprocess.Popen = popen


if __name__ == "__main__":
    unittest.main()
