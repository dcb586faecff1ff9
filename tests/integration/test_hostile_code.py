"""Code and packages that want to break out, or to starve their neighbours. Whatever they do: they hurt themselves alone."""
import io
import os
import pathlib
import socket
import stat
import threading
import time
import unittest
import zipfile

from harness import HttpError, process_exists
from hostile import HostileTest, MIB, worker_memory


class BreakoutTest(HostileTest):
    def test_calls_that_would_open_doors_are_refused(self):
        seen = self.ask("burglar", """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    return "done" if result >= 0 else os.strerror(ctypes.get_errno())
def handler(event, context):
    seen = {"setuid": attempt(105, 0), "unshare user": attempt(272, 0x10000000), "unshare net": attempt(272, 0x40000000),
            "mount": attempt(165, b"none", b"/tmp", b"tmpfs", 0, 0), "umount": attempt(166, b"/tmp", 2),
            "pivot_root": attempt(155, b"/tmp", b"/tmp"), "bpf": attempt(321, 0, 0, 0),
            "ptrace init": attempt(101, 16, 1, 0, 0), "keyctl": attempt(250, 0, 0), "perf": attempt(298, 0, 0, 0, 0, 0),
            "io_uring": attempt(425, 1, 0), "userfaultfd": attempt(323, 0), "reboot": attempt(169, 0xfee1dead, 672274793, 0),
            "swapon": attempt(167, b"/tmp/x", 0), "init_module": attempt(175, 0, 0, 0), "chroot": attempt(161, b"/tmp"),
            "open_by_handle_at": attempt(304, -100, 0, 0), "setns": attempt(308, 0, 0), "sethostname": attempt(170, b"x", 1),
            "clone3 user": attempt(435, (ctypes.c_uint64 * 11)(0x10000000), 88),
            "process_vm_readv init": attempt(310, 1, 0, 0, 0, 0, 0), "settimeofday": attempt(164, 0, 0),
            "socket packet": attempt(41, 17, 3, 0), "socket vsock": attempt(41, 40, 1, 0), "mknod": attempt(133, b"/tmp/n", 0o60666, 0x800)}
    return {name: what for name, what in seen.items() if what == "done"}
""")
        # An empty read or a time set to nothing is harmless: nothing else may succeed.
        self.assertEqual(set(seen) - {"settimeofday", "process_vm_readv init"}, set())

    def test_the_secrets_of_the_worker_are_out_of_sight(self):
        seen = self.ask("reader", """
import os
def handler(event, context):
    seen = {}
    for path in ("/proc/1/environ", "/proc/1/cmdline", "/proc/1/maps", "/proc/1/mem", "/proc/1/fd", "/proc/1/root/root",
                 "/proc/self/environ", "/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/proc/self/mountinfo"):
        try:
            seen[path] = repr(os.listdir(path) if path.endswith(("fd", "root")) else open(path, "rb").read(100000))
        except OSError as error:
            seen[path] = None
    return seen
""")
        for path, content in seen.items():
            self.assertNotIn(self.secret, content or "", path)
        for path in ("/proc/1/mem", "/proc/1/fd", "/proc/kcore", "/proc/1/root/root"):
            self.assertIsNone(seen[path], path)
        # The host's paths tell what else lies there.
        self.assertNotIn(str(self.worker.folder), seen["/proc/1/cmdline"] or "")

    def test_sockets_of_the_host_are_out_of_reach(self):
        with socket.socket(socket.AF_UNIX) as listener, socket.socket() as tcp:
            name = f"\0lambent-test-{os.getpid()}"
            listener.bind(name)
            listener.listen()
            tcp.bind(("127.0.0.1", 0))
            tcp.listen()
            seen = self.ask("caller", """
import socket
def attempt(family, address):
    try:
        socket.socket(family).connect(address); return "reached"
    except OSError as error:
        return error.strerror
def handler(event, context):
    return [attempt(socket.AF_UNIX, "\\0" + event["name"]), attempt(socket.AF_INET, ("127.0.0.1", event["port"])),
            attempt(socket.AF_INET, ("127.0.0.1", event["worker"])), attempt(socket.AF_UNIX, event["run"] + "/lambent.sock")]
""", {"name": name[1:], "port": tcp.getsockname()[1], "worker": self.worker.address[1], "run": str(self.worker.folder)})
        self.assertNotIn("reached", seen)

    def test_signals_to_init_do_nothing(self):
        seen = self.ask("regicide", """
import os, signal
def handler(event, context):
    refused = []
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGHUP):
        try:
            os.kill(1, number)
        except OSError as error:
            refused.append(number)
    return os.path.exists("/proc/1")
""")
        self.assertIs(seen, True)
        self.assertEqual(self.worker.invoke("regicide").headers["x-lambent-start"], "warm")

    def test_a_daemon_lives_as_long_as_its_sandbox_and_no_longer(self):
        self.worker.create_python("daemon", """
import os, time
def handler(event, context):
    if not os.path.exists("/tmp/daemon"):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            while True:
                open("/tmp/daemon", "w").write(str(time.monotonic())); time.sleep(0.02)
        while not os.path.exists("/tmp/daemon"):
            time.sleep(0.01)
    first = open("/tmp/daemon").read(); time.sleep(0.2)
    return first != open("/tmp/daemon").read()
""")
        self.assertIs(self.worker.invoke("daemon").json, True)
        self.assertIs(self.worker.invoke("daemon").json, True)
        pid = next(each["pid"] for each in self.worker.sandboxes() if each["function"] == "daemon")
        space = os.readlink(f"/proc/{pid}/ns/pid_for_children") if os.path.exists(f"/proc/{pid}") else None
        inside = [each for each in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.pid_space(each) == space]
        self.assertGreaterEqual(len(inside), 2)
        self.worker.delete("daemon")
        self.worker.wait_for(lambda: not any(process_exists(each) for each in inside), what="the daemon's end")

    @staticmethod
    def pid_space(pid):
        try:
            return os.readlink(f"/proc/{pid}/ns/pid")
        except OSError:
            return None

    def test_nothing_of_a_sandbox_is_seen_by_the_next_one(self):
        self.worker.create_python("litter", """
import os
def handler(event, context):
    seen = os.listdir("/tmp") + os.listdir("/dev/shm")
    open("/tmp/left", "w").write("x"); open("/dev/shm/left", "w").write("x")
    if event.get("end"): os._exit(0)
    return seen
""")
        self.worker.invoke("litter", {"end": True})
        self.assertEqual(self.worker.invoke("litter").json, [])


class PackageTest(HostileTest):
    def zip_with(self, entries):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, mode, content in entries:
                info = zipfile.ZipInfo(name)
                info.create_system = 3
                info.external_attr = mode << 16
                archive.writestr(info, content)
        return out.getvalue()

    def test_links_that_lead_outside_are_refused_or_lead_nowhere(self):
        outside = pathlib.Path(self.worker.folder) / "outside"
        for name, entries in (
                ("file-behind-link", [("link", stat.S_IFLNK | 0o777, str(self.worker.folder)),
                                      ("link/outside", stat.S_IFREG | 0o644, "written")]),
                ("parent-link", [("link", stat.S_IFLNK | 0o777, "../../.."), ("link/outside", stat.S_IFREG | 0o644, "x")]),
                ("absolute", [(str(outside), stat.S_IFREG | 0o644, "x")]),
                ("dots", [("a/../../outside", stat.S_IFREG | 0o644, "x")]),
                ("backslash", [("..\\\\outside", stat.S_IFREG | 0o644, "x")]),
                ("device", [("node", stat.S_IFCHR | 0o666, "")]),
                ("fifo", [("fifo", stat.S_IFIFO | 0o666, "")])):
            with self.subTest(name):
                code = self.zip_with(entries + [("app.py", stat.S_IFREG | 0o644, "def handler(e, c): return 1")])
                try:
                    self.worker.create(name, code)
                    self.worker.invoke(name)
                except HttpError as error:
                    self.assertEqual(error.status, 400, error.body)
                self.assertFalse(outside.exists())
                found = [path for path in self.worker.folder.rglob("*") if path.name == "outside"]
                self.assertEqual([p for p in found if "code" not in str(p)], [])

    def test_a_link_to_the_hosts_secrets_shows_nothing(self):
        target = pathlib.Path(self.worker.folder) / "state/catalog.db"
        self.assertTrue(target.exists())
        code = self.zip_with([("peek", stat.S_IFLNK | 0o777, str(target)), ("shadow", stat.S_IFLNK | 0o777, "/etc/shadow"),
                              ("app.py", stat.S_IFREG | 0o644, """
def read(path):
    try: return open(path, "rb").read(10).hex()
    except OSError: return None
def handler(e, c): return [read("/var/task/peek"), read("/var/task/shadow")]""")])
        try:
            self.worker.create("peeker", code)
            self.assertEqual(self.worker.invoke("peeker").json, [None, None])
        except HttpError as error:
            self.assertEqual(error.status, 400)

    def test_set_user_id_bits_do_not_survive(self):
        code = self.zip_with([("tool", stat.S_IFREG | 0o6755, "#!/bin/sh\n"),
                              ("app.py", stat.S_IFREG | 0o644, "import os\ndef handler(e, c): return os.stat('/var/task/tool').st_mode")])
        self.worker.create("setuid", code)
        self.assertEqual(self.worker.invoke("setuid").json & 0o7000, 0)

    def test_a_zip_bomb_is_refused(self):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("app.py", "def handler(e, c): return 1")
            for n in range(3):
                archive.writestr(f"zeros{n}", bytes(90 << 20))
        error = self.error_of(self.worker.create, "zipbomb", out.getvalue())
        self.assertIn(error.status, (400, 413))


class GluttonTest(HostileTest):
    def test_full_scratch_space_is_told_and_ends_with_the_sandbox(self):
        seen = self.ask("hoarder", """
import os
def fill(path, most):
    written = 0
    try:
        with open(path, "wb", buffering=0) as file:
            while written < most:
                written += file.write(bytes(1 << 20))
    except OSError as error:
        return [written >> 20, error.strerror]
    return [written >> 20, None]
def handler(event, context):
    return [fill("/dev/shm/x", 200 << 20)]
""", memory=512)
        self.assertLessEqual(seen[0][0], 64)
        self.assertIsNotNone(seen[0][1])
        self.worker.delete("hoarder")

    def test_a_gigabyte_of_output_without_a_line_end_is_served(self):
        before = worker_memory(self.worker)
        self.worker.create_python("blurter", "import os\ndef handler(e, c):\n  block = b'x' * (1 << 20)\n  for _ in range(1024):\n"
                                             "    left = memoryview(block)\n    while left: left = left[os.write(1, left):]\n"
                                             "  return 'done'", timeout=60)
        replies = []
        caller = threading.Thread(target=lambda: replies.append(self.worker.invoke("blurter")))
        caller.start()
        while caller.is_alive():
            started = time.monotonic()
            self.assertEqual(self.worker.invoke("good").json, "good")
            self.assertLess(time.monotonic() - started, 2)
            time.sleep(0.05)
        self.assertEqual(replies[0].json, "done")
        self.assertLess(worker_memory(self.worker) - before, 96 * MIB)  # with what waits for the log's file (32 MiB)

    def test_a_fork_bomb_and_a_memory_eater_do_not_stop_the_others(self):
        self.worker.create_python("forks", """
import os, time
def handler(event, context):
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)
""", timeout=3)
        self.worker.create_python("eats", "def handler(e, c):\n  hoard = []\n  while True: hoard.append(bytearray(1 << 22))",
                                  memory=128)
        replies = {}
        callers = [threading.Thread(target=lambda n=n: replies.update({n: self.worker.invoke(n)})) for n in ("forks", "eats")]
        for caller in callers:
            caller.start()
        served = 0
        while any(caller.is_alive() for caller in callers):
            self.assertEqual(self.worker.invoke("good").json, "good")
            served += 1
        self.assertGreater(served, 5)
        # The one that asks the runtime is the parent or one of a thousand children: the end is a timeout or an answer.
        self.assertEqual(replies["forks"].headers.get("x-amz-function-error"), "Unhandled")
        self.assertIn(replies["eats"].json["errorType"], ("Runtime.OutOfMemory", "MemoryError"))
        self.worker.delete("forks")

    def test_a_scribbled_ledger_confuses_nobody(self):
        source = """
import os
import lambent_cuda as cuda
device = cuda.Device()
def handler(event, context):
    path = "/opt/lambent/ledger"
    how = event.get("how")
    if how == "garbage":
        with open(path, "r+b") as file: file.write(os.urandom(16384))
    if how == "ones":
        with open(path, "r+b") as file: file.write(b"\\xff" * 16640)
    if how == "truncate": os.truncate(path, 0)
    if how == "grow":
        with open(path, "r+b") as file:
            file.seek(1 << 20)
            for _ in range(100): file.write(bytes(1 << 20))
    if how == "remove":
        try: os.unlink(path)
        except OSError: pass
    if how == "lock":
        import fcntl
        file = open(path, "r+b"); fcntl.lockf(file, fcntl.LOCK_EX)
    return "done"
"""
        self.worker.create_python("scribbler", source, tags={"lambent:gpu-memory": "64MiB"})
        for how in ("garbage", "ones", "truncate", "grow", "remove", "lock"):
            reply = self.worker.invoke("scribbler", {"how": how})
            if "x-amz-function-error" not in reply.headers:
                self.assertEqual(reply.json, "done")
            self.assertLessEqual(int(reply.headers["x-lambent-device-memory-peak-bytes"]), 64 * MIB, how)
            ledgers = list((self.worker.folder / "run/sandboxes").glob("ledger-*"))
            self.assertLess(sum(each.stat().st_blocks * 512 for each in ledgers), 4 * MIB, how)
        self.worker.metrics()
        self.worker.delete("scribbler")
        self.worker.wait_for(lambda: not list((self.worker.folder / "run/sandboxes").glob("ledger-*")), what="no ledger")


if __name__ == "__main__":
    unittest.main()
