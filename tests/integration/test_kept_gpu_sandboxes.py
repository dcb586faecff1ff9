"""A worker becomes the program that is installed now, and idle sandboxes with a GPU stay, with their device memory where it is: on the
device or on the host. What cannot stay ends, and starts again."""
import os
import pathlib
import signal
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from harness import PREFIX, descendants, make_zip, process_exists
from test_memory_moves import HOLDER, MIB
from test_replacement import ReplacedTest

# Holds memory on each GPU that it sees.
PAIR = """
import os
import lambent_cuda as cuda
first = cuda.Device()
held = [device.buffer(bytes([7 + i]) * (8 << 20)) for i, device in enumerate([first, cuda.Device(1)])]
def handler(event, context):
    return {"pid": os.getpid(), "holds": [each.bytes()[-1] for each in held]}
"""
SERVER = """
import http.server, os
import lambent_cuda as cuda
device = cuda.Device()
held = device.buffer(bytes([9]) * (8 << 20))
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = f"{os.getpid()} {held.bytes()[-1]}".encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
http.server.HTTPServer(('0.0.0.0', 8080), Handler).serve_forever()
"""
# Speaks with the sockets of its shim itself: connections that say nothing, and answers, wishes and claims that cannot be.
LIAR = """
import os, socket, struct
import lambent_cuda as cuda
device = cuda.Device()
held = device.buffer(bytes(8 << 20))
kept = []
MOST = (1 << 64) - 1

def message(kind, sequence=0, amount=0, left=0, offloaded=0):
    return struct.pack("<IHHQQQQQIIIIII", 0x4d454d4c, 3, kind, sequence, amount, left, offloaded, 0, 0, 0, 0, 1, os.getpid(), 0)

def handler(event, context):
    for path in ("/opt/lambent/memory", "/opt/lambent/link"):
        for _ in range(event.get("silent", 0)):
            kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            kept[-1].connect(path)
        for words in event.get("words", []):
            kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            kept[-1].connect(path)
            for kind in words:
                try:
                    kept[-1].send(message(kind, 1, MOST, MOST, MOST))
                except OSError:
                    break
    return os.getpid()
"""


def small_machine(device_mib):
    """A preset of one small device, which lives as long as the file does."""
    text = (PREFIX / "lib/emulated/presets/tiny.toml").read_text()
    text = text.replace("memory_mib = 1024", f"memory_mib = {device_mib}").replace("context_mib = 16", "context_mib = 4")
    machine = tempfile.NamedTemporaryFile("w", suffix=".toml")
    machine.write(text)
    machine.flush()
    return machine


class KeptGpuTest(ReplacedTest):
    held, device_mib = 70, 256  # MiB of a holder, of which three fit the device
    flags = ("--concurrency", "2", "--context-memory", "4")

    def start(self, *flags, gpu=None):
        if gpu is None:
            machine = small_machine(self.device_mib)
            self.addCleanup(machine.close)
            gpu = "emulated:" + machine.name
        return super().start(*self.flags, *flags, gpu=gpu)

    def hold(self, name, mib=None, **options):
        mib = mib or self.held
        tags = {"lambent:gpu-memory": f"{mib + mib // 14}MiB", **options.pop("tags", {})}
        self.worker.create(name, make_zip({"app.py": HOLDER}), tags=tags, memory=512,
                           environment={"HOLD_MIB": str(mib), "SEED": str(len(name))}, **options)

    def call(self, name, event=None):
        """The start class of one call, and its answer, once its memory was found as it was left."""
        reply = self.worker.invoke(name, event or {})
        self.assertEqual(reply.status, 200, reply.body)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        self.assertEqual(reply.json["changed"], [], f"{name}: buffers that came back changed")
        return reply.headers["x-lambent-start"], reply.json

    def seen(self):
        """Of each function: which process it is, its device, and where its memory is."""
        return {each["function"]: (each["pid"], each["device"], each["device_memory_place"]) for each in self.worker.sandboxes()}

    def resident(self):
        return sum(float(line.split()[-1]) for line in self.worker.metrics().splitlines()
                   if line.startswith("lambent_gpu_memory_bytes{") and 'kind="resident"' in line)


class KeptGpuSandboxes(KeptGpuTest):
    def test_each_answers_afterwards_with_its_memory_where_it_was(self):
        self.start()
        names = [f"holder{i}" for i in range(5)]
        for name in names:
            self.hold(name)
            self.assertEqual(self.call(name)[0], "cold")
        for times in range(1, 3):
            before = self.seen()
            self.assertIn("out", [place for _, _, place in before.values()])
            self.replace()
            self.assertIn('"kept":5,"ended":0', self.worker.log().split('"event":"gives_way"')[-1])
            self.assertEqual(self.seen(), before)
            names.reverse()  # the one that was called last comes first
            for name in names:
                where = before[name][2]
                start, answer = self.call(name)
                self.assertEqual(answer["calls"], 1 + times, f"{name} was started again")
                self.assertIn(start, ("warm", "gpu_cold"))
                if name == names[0]:
                    self.assertEqual((where, start), ("in", "warm"))
            self.assertEqual(self.starts(), 0)
        # What is there was counted: another one makes others leave, and fits.
        self.hold("another")
        self.assertEqual(self.call("another")[0], "cold")
        for name in names:
            self.call(name)
        self.assertEqual(self.starts(), 1)
        self.assertNotIn("CUDA_ERROR_OUT_OF_MEMORY", self.worker.log())

    def test_under_load_no_request_fails_and_none_starts_cold(self):
        self.start()
        names = [f"holder{i}" for i in range(4)]
        for name in names:
            self.hold(name)
            self.call(name)
        pids = {name: seen[0] for name, seen in self.seen().items()}
        failures, starts, ended = [], [], threading.Event()

        def client(name):
            while not ended.is_set():
                try:
                    starts.append((self.replacements, self.call(name)[0]))
                except Exception as error:  # told below, in the test's own thread
                    failures.append(repr(error))
                    return
        clients = [threading.Thread(target=client, args=(name,)) for name in names]
        for each in clients:
            each.start()
        for _ in range(3):
            time.sleep(1.5)
            self.replace()
        time.sleep(1.5)
        ended.set()
        for each in clients:
            each.join()
        self.assertEqual(failures, [])
        self.assertEqual([start for start in starts if start[1] == "cold"], [])
        self.assertGreater(len([start for start in starts if start[0] == 3]), 5)
        self.assertEqual(self.starts(), 0)
        self.assertEqual({name: seen[0] for name, seen in self.seen().items()}, pids)

    def test_managed_memory_and_memory_that_never_moves(self):
        self.start()
        for name, mode in (("managed", "uvm"), ("still", "off")):
            self.hold(name, tags={"lambent:memory-mode": mode})
            self.call(name)
        before = self.seen()
        self.replace()
        self.assertEqual(self.seen(), before)
        for name in ("managed", "still"):
            self.assertEqual(self.call(name)[1]["calls"], 2)
        self.assertEqual(self.starts(), 0)

    def test_a_server_with_a_gpu_and_its_instances_that_are_kept_ready(self):
        self.start()
        self.worker.create("served", make_zip({"app.py": SERVER}), handler="python3 app.py",
                           tags={"lambent:kind": "http", "lambent:gpu-memory": "32MiB", "lambent:min-instances": "1"})
        answer = self.worker.request("GET", "/f/served/").body
        before = self.seen()
        self.replace()
        self.assertEqual(self.seen(), before)
        self.assertEqual(self.worker.request("GET", "/f/served/").body, answer)
        self.assertEqual(self.starts(), 0)

    def test_what_cannot_stay_says_why_and_starts_again(self):
        self.start()
        self.hold("shares", mib=8, tags={"lambent:gpu-runtime": "shared"})
        self.hold("owns", mib=8)
        self.call("shares")
        self.call("owns")
        self.replace()
        self.assertEqual(self.call("shares")[0], "cold")
        self.assertEqual(self.call("owns")[0], "warm")
        self.assertIn("it shares a GPU's runtime, which ends", self.worker.log())

    def test_a_function_that_changed_gets_the_memory_of_the_old_one(self):
        self.start()
        for name in ("first", "second", "third"):
            self.hold(name)
            self.call(name)
        self.worker.delete("third")
        self.hold("third")  # its code is the same, and its number another
        self.replace()
        self.assertEqual(self.call("third")[0], "cold")
        self.assertEqual(self.call("first")[1]["calls"], 2)

    def test_one_that_lies_to_its_sockets_harms_no_other(self):
        self.start()
        for name in ("holder0", "holder1", "holder2"):
            self.hold(name)
            self.call(name)
        HELLO, MOVED, RETURNED = 1, 5, 38
        for name, lies in (("silent", {"silent": 20}), ("liar", {"words": [[MOVED], [HELLO, HELLO], [HELLO, RETURNED]]})):
            self.worker.create(name, make_zip({"app.py": LIAR}), tags={"lambent:gpu-memory": "16MiB"})
            self.assertEqual(self.worker.invoke(name, lies).status, 200)
        before = self.seen()
        began = time.monotonic()
        self.replace()
        self.assertLess(time.monotonic() - began, 30)
        self.assertIn("it did not come to rest", self.worker.log())
        for name in ("holder0", "holder1", "holder2"):
            self.assertEqual(self.call(name)[1]["calls"], 2)
            self.assertEqual(self.seen()[name][0], before[name][0])
        for name in ("silent", "liar"):
            self.assertEqual(self.worker.invoke(name, {}).status, 200)
        for name in ("holder0", "holder1", "holder2"):
            self.assertEqual(self.call(name)[1]["calls"], 3)

    def test_a_limit_holds_afterwards(self):
        self.start()
        self.hold("holder")
        self.call("holder")
        self.replace()
        reply = self.worker.invoke("holder", {"crash": True})
        self.assertIn("x-amz-function-error", reply.headers)
        self.assertEqual(self.call("holder")[1]["calls"], 1)
        self.worker.delete("holder")
        self.worker.wait_for(lambda: self.resident() == 0, what="that its memory counts no more")


class SeveralGpus(KeptGpuTest):
    flags = ("--concurrency", "1", "--context-memory", "16", "--set", "foresee=false")

    def test_each_stays_on_its_own_and_one_that_has_two_on_both(self):
        worker = self.start(gpu="emulated:tiny-x4")
        worker.create("pair", make_zip({"app.py": PAIR}), tags={"lambent:gpu-memory": "64MiB", "lambent:gpu-count": "2"})
        first = worker.invoke("pair", {}).json
        names = [f"holder{i}" for i in range(4)]
        for name in names:
            self.hold(name, mib=200)
        with ThreadPoolExecutor(len(names)) as clients:  # each starts on a GPU where no other does
            list(clients.map(self.call, names))
        before = self.seen()
        self.assertGreater(len({device for _, device, _ in before.values()}), 2)
        self.replace()
        self.assertEqual(self.seen(), before)
        self.assertEqual(worker.invoke("pair", {}).json, first)
        for name in names:
            self.assertEqual(self.call(name)[1]["calls"], 2)
        self.assertEqual(self.starts(), 0)


class KilledInTheMiddle(KeptGpuTest):
    def prepare(self):
        worker = self.start()
        for i in range(4):
            self.hold(f"holder{i}")
            self.call(f"holder{i}")
        return worker

    def test_a_worker_killed_at_any_step_leaves_nothing_and_starts_again(self):
        for moment in ("replacing", "gives_way", "gpus", "sandboxes_kept", "listening"):
            with self.subTest(moment):
                worker = self.prepare()
                before = worker.events(moment)
                below = descendants(worker.process.pid)
                worker.replace()
                worker.wait_for(lambda: worker.events(moment) > before, 60, moment)
                below += descendants(worker.process.pid)
                worker.kill()
                worker.wait_for(lambda: not any(process_exists(pid) for pid in below), what="the end of all processes")
                worker.start()
                self.assertEqual(self.call("holder0")[0], "cold")
                worker.close()

    def test_a_sandbox_killed_at_any_step_starts_again_and_its_memory_is_free(self):
        for moment in ("replacing", "gives_way", "gpus", "listening"):
            with self.subTest(moment):
                worker = self.prepare()
                before = worker.events(moment)
                victims = {name: seen[0] for name, seen in self.seen().items() if name in ("holder0", "holder3")}
                worker.replace()
                worker.wait_for(lambda: worker.events(moment) > before, 60, moment)
                for pid in victims.values():
                    os.kill(pid, signal.SIGKILL)
                self.replacements = 1
                self.wait_until_replaced()
                # What is given to one that is just being killed fails with it, as ever.
                worker.wait_for(lambda: not {pid for pid, _, _ in self.seen().values()} & set(victims.values()), what="their ends")
                for i in range(4):
                    self.call(f"holder{i}")
                for i in range(4):
                    start, answer = self.call(f"holder{i}")
                    self.assertEqual(answer["calls"], 2 if f"holder{i}" in victims else 3)
                worker.close()

    def test_a_monitor_of_devices_killed_meanwhile_is_started_again(self):
        worker = self.prepare()
        before = self.seen()
        worker.replace()
        worker.wait_for(lambda: worker.events("sandboxes_kept"), 60, "the sandboxes that were kept")
        self.replacements = 1
        self.wait_until_replaced()
        for pid in descendants(worker.process.pid):
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "lambent-device":
                os.kill(pid, signal.SIGKILL)
        for i in range(4):
            self.assertEqual(self.call(f"holder{i}")[1]["calls"], 2)
        self.assertEqual({name: seen[0] for name, seen in self.seen().items()}, {name: seen[0] for name, seen in before.items()})


if __name__ == "__main__":
    unittest.main()
