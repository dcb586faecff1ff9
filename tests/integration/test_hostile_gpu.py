"""Functions with a GPU that attack what they share with others: the node of emulated GPUs, and the sockets on which device memory is
moved and gets its turns. Whatever they do, others are served, if need be after the device was given up and came back."""
import json
import tempfile
import unittest

from harness import PREFIX, make_zip
from hostile import MIB, HostileTest, worker_memory

HOLDER = """
import os
import lambent_cuda as cuda

device = cuda.Device()
memory = device.buffer(1 << 20)

def handler(event, context):
    memory.fill(7)
    device.synchronize()
    assert memory.bytes()[:4] == b"\\x07" * 4
    return {"pid": os.getpid()}
"""

# Every attacker has the node's descriptor, as any process with a GPU can have it.
ATTACKER = """
import array, errno, fcntl, os, random, socket, struct, time

def connect(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    s.connect(path)
    return s

def node():
    s = connect("/opt/lambent/gpu-node")
    _, fds, _, _ = socket.recv_fds(s, 16, 4)
    return fds[0]

def refusal(call):
    try:
        return call() and "done"
    except OSError as error:
        return errno.errorcode[error.errno]

def handler(event, context):
    return globals()[event["how"]](event)

def resize(event):
    fd = node()
    return [refusal(lambda: os.truncate(fd, 0)), refusal(lambda: os.truncate(fd, 1 << 24)),
            refusal(lambda: os.pwrite(fd, bytes(4096), 1 << 24)), refusal(lambda: os.posix_fallocate(fd, 1 << 24, 4096)),
            refusal(lambda: os.truncate("/opt/lambent/gpu-node", 0))]

def keep_the_lock(event):
    if os.fork() == 0:
        os.setsid()
        fd = node()
        # F_OFD_SETLKW of the byte that all take
        fcntl.fcntl(fd, 38, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 1 << 40, 1, 0))
        time.sleep(600)
        os._exit(0)
    time.sleep(0.5)
    return "done"

def scribble(event):
    fd = node()
    os.pwrite(fd, random.Random(event["seed"]).randbytes(event["bytes"]), event["at"])
    return "done"

MESSAGE = struct.Struct("<IHHQQQQQIIIIII")
def message(kind, sequence=0, bytes=0, status=0, direction=0):
    return MESSAGE.pack(0x4d454d4c, 3, kind, sequence, bytes, 0, 0, 0, status, direction, 0, 0, 1, 0)

def flood(event):
    path = event["path"]
    end = time.monotonic() + 4
    rounds = random.Random(1)
    kept, sent = [], 0
    while time.monotonic() < end:
        try:
            s = connect(path)
            s.settimeout(0.2)
        except OSError:
            kept.clear()
            continue
        kept.append(s)
        try:
            for _ in range(20):
                kind = rounds.choice((1, 2, 3, 5, 6, 7, 32, 33, 34, 35, 36, 38, 39, 41, 64, 65))
                s.send(message(kind, rounds.getrandbits(64), rounds.choice((1 << 21, 1 << 40, (1 << 64) - (1 << 21), 3)),
                               rounds.randrange(6), rounds.randrange(2)) if rounds.random() < 0.8 else os.urandom(rounds.randrange(1, 200)))
                sent += 1
        except OSError:
            pass
        if len(kept) > 200: kept.clear()
    return sent

def give_descriptors(event):
    outcomes = set()
    for path in ("/opt/lambent/memory", "/opt/lambent/link"):
        s = connect(path)
        # A socket that would hold up who closes it last.
        server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
        client = socket.create_connection(server.getsockname())
        client.setblocking(False)
        outcomes.add(refusal(lambda: client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60)) or True))
        try:
            while True: client.send(bytes(65536))
        except BlockingIOError:
            pass
        for _ in range(50):
            try:
                socket.send_fds(s, [message(1)], [client.fileno()])
                outcomes.add("sent")
            except OSError as error:
                outcomes.add(errno.errorcode[error.errno])
        client.close()
    return sorted(outcomes)
"""

GPU = {"lambent:gpu-memory": "64MiB"}


class HostileGpuTest(HostileTest):
    flags = ("--concurrency", "4", "--keep-alive", "600")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker.create("holder", make_zip({"app.py": HOLDER}), tags=GPU)
        cls.worker.create("attacker", make_zip({"app.py": ATTACKER}), tags=GPU, timeout=60)

    def attack(self, how, **event):
        reply = self.worker.invoke("attacker", {"how": how, **event})
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json

    def holder(self):
        try:
            reply = self.worker.invoke("holder", timeout=10)
        except TimeoutError:
            return None  # it came while the device was going
        return None if "x-amz-function-error" in reply.headers or reply.status != 200 else reply.json["pid"]

    def state(self):
        device, = json.loads(self.worker.request("GET", "/v1/devices").body)["devices"]
        return device["state"]

    def recovers(self):
        self.worker.wait_for(lambda: self.holder() is not None, seconds=60, what="that the neighbour is served")
        self.worker.wait_for(lambda: self.state() == "healthy", seconds=60, what="that the device is well")


class Node(HostileGpuTest):
    def test_nobody_changes_the_size_of_the_node(self):
        before = self.holder()
        # The path is that of a socket.
        self.assertEqual(self.attack("resize"), ["EPERM", "EPERM", "EPERM", "EPERM", "EINVAL"])
        self.assertEqual(self.holder(), before)

    def test_a_lock_that_is_kept_costs_the_device_and_no_more_than_that(self):
        self.assertIsNotNone(self.holder())
        before = self.pids("holder")
        self.assertEqual(self.attack("keep_the_lock"), "done")
        # A device that is given up takes its sandboxes with it, and may be well again at once.
        self.worker.wait_for(lambda: self.pids("holder") != before, seconds=60, what="that the device is given up")
        self.recovers()

    def test_nonsense_anywhere_in_the_node_costs_the_device_at_most(self):
        for seed, (at, size) in enumerate(((0, 4096), (4096, 65536), (1 << 20, 1 << 20), (0, 4 << 20))):
            with self.subTest(at=at, size=size):
                self.assertIsNotNone(self.holder())
                self.attack("scribble", at=at, bytes=size, seed=seed)
                self.recovers()


# Both look first, and leave a mark then.
LITTER = """
import os
import lambent_cuda as cuda

device = cuda.Device()

def handler(event, context):
    found = 0
    for size in (1 << 20, 24 << 20):
        buffer = device.buffer(size)
        found += size - buffer.bytes().count(0)
        buffer.fill(0x5a)
        device.synchronize()
        kept.append(buffer)
    if event.get("end"): os._exit(0)
    return found

kept = []
"""


class Residue(HostileGpuTest):
    def test_device_memory_of_one_function_is_zero_when_another_gets_it(self):
        for name in ("first", "second"):
            self.worker.create(name, make_zip({"app.py": LITTER}), tags=GPU)
        self.worker.invoke("first", {"end": True})
        for name in ("first", "second"):
            self.assertEqual(self.worker.invoke(name).json, 0, name)


class Sockets(HostileGpuTest):
    def test_floods_of_messages_hold_up_nobody(self):
        before = worker_memory(self.worker)
        self.assertIsNotNone(self.holder())
        for path in ("/opt/lambent/memory", "/opt/lambent/link", "/opt/lambent/gpu-node"):
            self.assertGreaterEqual(self.attack("flood", path=path), 0)
            self.assertIsNotNone(self.holder())
        self.assertLess(worker_memory(self.worker), before + 64 * MIB)
        self.assertEqual(self.state(), "healthy")

    def test_descriptors_are_not_taken_and_sockets_do_not_linger(self):
        outcomes = self.attack("give_descriptors")
        self.assertIn("EPERM", outcomes)
        self.assertNotIn("done", outcomes)
        self.assertIsNotNone(self.holder())


# One more process of the sandbox, as far as the worker knows. It says hello on the socket of moves, and then nothing.
SILENT = """
import os, socket, struct
import lambent_cuda as cuda

device = cuda.Device()
memory = device.buffer(96 << 20)
MESSAGE = struct.Struct("<IHHQQQQQIIIIII")
shim = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

def handler(event, context):
    if event.get("says"):
        shim.connect("/opt/lambent/memory")
        shim.send(MESSAGE.pack(0x4d454d4c, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0))
    return os.getpid()
"""


class Moves(HostileTest):
    """Of a device on which there is room for one of two."""
    flags = ("--concurrency", "2", "--keep-alive", "600", "--context-memory", "4", "--set", "move_timeout_s=2", "--set", "foresee=false",
             "--set", "prefetch=false")

    @classmethod
    def setUpClass(cls):
        text = (PREFIX / "lib/emulated/presets/tiny.toml").read_text()
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as machine:
            machine.write(text.replace("memory_mib = 1024", "memory_mib = 160").replace("context_mib = 16", "context_mib = 4"))
            machine.flush()
            cls.gpu = "emulated:" + machine.name
            super().setUpClass()
        for name, source in (("neighbour", HOLDER.replace("1 << 20", "96 << 20")), ("silent", SILENT)):
            cls.worker.create(name, make_zip({"app.py": source}), tags={"lambent:gpu-memory": "112MiB"}, timeout=60)

    def test_who_does_not_move_out_of_the_way_ends_and_the_call_that_waits_runs(self):
        before = self.worker.invoke("neighbour").json["pid"]
        for _ in range(2):
            self.assertEqual(self.worker.invoke("silent", {}).headers.get("x-amz-function-error"), None)
            self.assertEqual(self.worker.invoke("silent", {"says": True}).headers.get("x-amz-function-error"), None)
            silent = self.pids("silent")
            reply = self.worker.invoke("neighbour")
            self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
            self.assertEqual(reply.json["pid"], before, "the same process, whose memory came back")
            self.assertEqual(reply.headers["x-lambent-start"], "gpu_cold")
            self.worker.wait_for(lambda: self.pids("silent") == [], what="the end of the one that did not move")
            self.assertNotEqual(silent, [])


if __name__ == "__main__":
    unittest.main()
