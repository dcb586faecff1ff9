"""What the worker tells a service manager over NOTIFY_SOCKET, as systemd would read it."""
import os
import pathlib
import signal
import socket
import tempfile
import unittest

from harness import Worker


class ServiceManagerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lambent-notify-")
        self.addCleanup(folder.cleanup)
        self.path = str(pathlib.Path(folder.name, "notify"))
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(self.path)
        self.socket.settimeout(30)

    def start(self, **environment):
        worker = Worker(environment={"NOTIFY_SOCKET": self.path, **environment})
        self.addCleanup(worker.close)
        return worker

    def next(self, leave_out="WATCHDOG=1"):
        while True:
            message = self.socket.recv(4096).decode()
            if message != leave_out:
                return message

    def test_it_says_when_it_serves_reloads_and_stops(self):
        worker = self.start()
        serving = f"READY=1\nSTATUS=serving at {worker.endpoint}"
        self.assertEqual(self.next(), serving)
        worker.process.send_signal(signal.SIGHUP)
        self.assertRegex(self.next(), r"^RELOADING=1\nMONOTONIC_USEC=\d+$")
        self.assertEqual(self.next(), serving)
        worker.process.send_signal(signal.SIGTERM)
        self.assertRegex(self.next(), r"^STOPPING=1\nSTATUS=draining")
        self.assertEqual(worker.stop(), 0)

    def test_it_sends_signs_of_life_when_asked_and_functions_hear_nothing_of_it(self):
        worker = self.start(WATCHDOG_USEC="400000")
        for _ in range(3):
            self.assertEqual(self.next(leave_out=f"READY=1\nSTATUS=serving at {worker.endpoint}"), "WATCHDOG=1")
        worker.create_python("environment", """
import os
def handler(event, context):
    return [name for name in os.environ if name.startswith(("NOTIFY", "WATCHDOG"))]
""")
        self.assertEqual(worker.invoke("environment", {}).json, [])

    def test_a_watchdog_of_another_process_is_not_answered(self):
        worker = self.start(WATCHDOG_USEC="200000", WATCHDOG_PID=str(os.getpid()))
        self.assertTrue(self.next(leave_out="").startswith("READY=1"))
        self.socket.settimeout(1)
        with self.assertRaises(TimeoutError):
            self.socket.recv(4096)
        worker.stop()

    def test_without_a_manager_a_hangup_ends_the_worker(self):
        worker = Worker()
        self.addCleanup(worker.close)
        worker.process.send_signal(signal.SIGHUP)
        self.assertEqual(worker.process.wait(30), -signal.SIGHUP)

    def test_an_address_that_is_none_is_an_error_before_anything_starts(self):
        with self.assertRaises(AssertionError) as failed:
            Worker(environment={"NOTIFY_SOCKET": "notify"})
        self.assertIn("NOTIFY_SOCKET is an absolute path", str(failed.exception))


if __name__ == "__main__":
    unittest.main()
