"""What is done to the nodes: a schedule that depends on the seed alone, and the doing of it. One thread; only hostile functions and clients,
which concern nobody, go on beside the next fault. Every sleep here is how long a fault lasts, the pause until the next one, or the pace at which
other processes, which nobody can wait on, are looked at.
"""
import contextlib
import dataclasses
import email.utils
import json
import os
import random
import resource
import signal
import socket
import subprocess
import threading
import time

from functions import HOSTILE
from harness import HttpError, descendants
from soak import name_of

# How often each comes in one deck of cards.
KINDS = {
    "kill-worker": 2, "restart-worker": 1, "kill-launcher": 2, "kill-device-daemon": 2, "kill-executor": 2, "kill-sandbox": 4, "kill-child": 2,
    "kill-pipeline-stage": 2, "kill-sliced-worker": 1, "stop-worker": 2, "stop-launcher": 2, "stop-device-daemon": 2, "stop-executor": 1, "stop-sandbox": 2,
    "fill-disk": 2, "starve-descriptors": 1, "starve-processors": 1, "lose-device": 2, "corrupt-device": 1, "stick-device": 1, "report-xid": 1,
    "slow-link": 2, "step-clock": 2, "fail-allocations": 1, "drain-device": 1, "lose-sliced-device": 1,
    "hostile-function": 8, "half-requests": 2, "slow-client": 2, "garbage": 2, "flood": 2, "go-away": 2,
}
SLICED = {"kill-pipeline-stage", "kill-sliced-worker", "lose-sliced-device"}


@dataclasses.dataclass(frozen=True)
class Fault:
    at: float  # seconds since the load began; later if the one before took longer
    kind: str
    seed: int  # of every choice that it makes


def schedule(seed, seconds, only=(), sliced=True):
    """The same for the same arguments, whatever the machine does."""
    dice = random.Random(f"faults {seed}")
    kinds = [kind for kind, count in KINDS.items() for _ in range(count) if (not only or kind in only) and (sliced or kind not in SLICED)]
    faults, deck, at = [], [], 2.0
    while at < seconds:
        if not deck:
            deck = kinds[:]
            dice.shuffle(deck)
        faults.append(Fault(at, deck.pop(), dice.randrange(1 << 30)))
        at += dice.uniform(1, 6)
    return faults


class Faults:
    def __init__(self, world, load):
        self.world, self.load, self.promises = world, load, world.promises
        self.main = world.nodes["main"]
        self.beside = []  # threads of hostile functions and clients

    def run(self, faults, seconds):
        started = time.monotonic()
        for fault in faults:
            pause = started + fault.at - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            if time.monotonic() - started > seconds:
                break
            self.perform(fault)
        time.sleep(max(0, started + seconds - time.monotonic()))
        for each in self.beside:
            each.join(120)

    def perform(self, fault):
        dice = random.Random(fault.seed)
        self.promises.fault(fault.kind, "")
        try:
            getattr(self, fault.kind.replace("-", "_"))(dice)
        except Exception as error:
            self.promises.violation(f"the sceptic's own fault {fault}: {error!r}")
        self.beside = [each for each in self.beside if each.is_alive()]

    def say(self, words):
        with self.promises.lock:
            self.promises.last_faults[-1] += " " + words

    def go_on_beside(self, action, *arguments):
        self.beside.append(threading.Thread(target=self.guarded, args=(action, *arguments), daemon=True))
        self.beside[-1].start()

    def guarded(self, action, *arguments):
        try:
            action(*arguments)
        except Exception as error:
            self.promises.violation(f"the sceptic's own {action.__name__}{arguments}: {error!r}")

    # Deaths.
    def kill(self, node):
        with node.intact, self.promises.window("node:" + node.name):
            node.remember()
            node.kill()
            node.start_again()

    def kill_worker(self, dice):
        self.kill(self.main)

    def kill_sliced_worker(self, dice):
        self.kill(self.world.nodes["sliced"])

    def restart_worker(self, dice):
        with self.main.intact, self.promises.window("node:main"):
            self.main.remember()
            status = self.main.stop()
            if status != 0:
                self.promises.violation(f"asked to stop, the worker ended with status {status}:\n{self.main.log()[-1500:]}")
            self.main.start_again()

    def kill_launcher(self, dice):
        node = dice.choice(list(self.world.nodes.values()))
        self.say(node.name)
        with node.intact, self.promises.window("node:" + node.name, linger_seconds=1):
            node.remember()
            launchers = node.processes("lambent-launcher")
            for pid in launchers:
                os.kill(pid, signal.SIGKILL)
            # It either ends, to be started again, or goes on with a new launcher.
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and node.process.poll() is None:
                if set(node.processes("lambent-launcher")) - set(launchers):
                    break
                time.sleep(0.05)
            if node.process.poll() is not None:
                self.say("and the worker ended with it")
                node.start_again()
            elif not set(node.processes("lambent-launcher")) - set(launchers):
                self.promises.violation(f"{node.name}: 10 s without a launcher")

    def strike(self, name, number):
        pids = self.main.processes(name)
        for pid in pids[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pids[:1]

    def kill_device_daemon(self, dice):
        # Whoever waits for its turn on a link, or for memory on the host, asks the next one.
        self.strike("lambent-device", signal.SIGKILL)

    def kill_executor(self, dice):
        with self.promises.window("executor", linger_seconds=1):
            self.strike("lambent-executor", signal.SIGKILL)

    def sandboxes(self, node, prefixes):
        with contextlib.suppress(OSError, HttpError):
            return [each for each in node.sandboxes() if each["function"].startswith(prefixes) and each.get("pid")]
        return []

    def strike_sandbox(self, node, dice, number, prefixes, linger_seconds, children=False):
        found = self.sandboxes(node, prefixes)
        if not found:
            return None
        victim = dice.choice(sorted(found, key=lambda each: each["function"]))
        pid = victim["pid"]
        if children:
            pid = dice.choice(descendants(pid) or [pid])
        self.say(f"{victim['function']}, process {pid} {name_of(pid)}")
        groups = ["function:" + victim["function"]]
        if victim["function"].startswith("version"):
            groups.append("node:main")
        with self.promises.window(*groups, linger_seconds=linger_seconds):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid

    WELL_BEHAVED = ("calm", "gpu", "parent", "step", "lists", "shared")

    def kill_sandbox(self, dice):
        self.strike_sandbox(self.main, dice, signal.SIGKILL, self.WELL_BEHAVED, 1)

    def kill_child(self, dice):
        self.strike_sandbox(self.main, dice, signal.SIGKILL, self.WELL_BEHAVED, 1, children=True)

    def kill_pipeline_stage(self, dice):
        # What was under way in it is done again elsewhere: concerns nobody.
        found = self.sandboxes(self.world.nodes["sliced"], ("pipeline",))
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(found)["pid"], signal.SIGKILL)

    # Slow peers: nobody is refused, all wait.
    def stop(self, pids, seconds):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        self.go_on_after(pids, seconds)

    def go_on_after(self, pids, seconds):
        try:
            time.sleep(seconds)
        finally:  # the sceptic may be told to end meanwhile, and what is stopped cannot be ended in order
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def stop_worker(self, dice):
        self.stop([self.main.process.pid], dice.uniform(0.5, 4))

    def stop_launcher(self, dice):
        self.stop(self.main.processes("lambent-launcher"), dice.uniform(0.5, 4))

    def stop_device_daemon(self, dice):
        self.stop(self.main.processes("lambent-device"), dice.uniform(0.5, 5))

    def stop_executor(self, dice):
        self.stop(self.main.processes("lambent-executor"), dice.uniform(0.5, 2))

    def stop_sandbox(self, dice):
        pid = self.strike_sandbox(self.main, dice, signal.SIGSTOP, self.WELL_BEHAVED, 0)
        if pid:
            self.go_on_after([pid], dice.uniform(0.5, 3))

    # Too little of something.
    def fill_disk(self, dice):
        """The state folder is full: what cannot be kept is not acknowledged. What needs no disk is served."""
        if not self.world.mounted:
            self.say("left out: mounting a small disk needs root")
            return
        ballast = self.world.disk / "ballast"
        with self.promises.window("disk", linger_seconds=1):
            with open(ballast, "wb", buffering=0) as file:
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(1 << 20))
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(1 << 12))
            time.sleep(dice.uniform(2, 5))
            ballast.unlink()

    def starve_descriptors(self, dice):
        """The worker may open nothing more for a while."""
        pid = self.main.process.pid
        with self.promises.window("node:main", linger_seconds=1):
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            try:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + dice.randrange(4), before[1]))
                time.sleep(dice.uniform(1, 3))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    # Ends by itself where nobody is left to end it.
    HOG = "while kill -0 $PPID 2>/dev/null; do :; done"

    def starve_processors(self, dice):
        hogs = []
        try:
            for _ in range(2 * (os.cpu_count() or 1)):
                hogs.append(subprocess.Popen(["sh", "-c", self.HOG]))
            time.sleep(dice.uniform(2, 4))
        finally:
            for each in hogs:
                each.kill()
                each.wait()

    def step_clock(self, dice):
        """Somebody sets the node's clock, and sets it right again. What is measured is measured by another: it concerns nobody."""
        seconds = dice.choice((-6 * 3600, -90, 90, 6 * 3600))
        self.say(f"by {seconds} s")
        try:
            self.world.wall_clock.step(seconds)
            time.sleep(dice.uniform(1.5, 5))
            with contextlib.suppress(OSError, HttpError):
                told = email.utils.parsedate_to_datetime(self.main.request("GET", "/v1/devices").headers["date"]).timestamp()
                if abs(told - time.time() - seconds) > 30:
                    self.promises.violation(f"the worker's clock was set by {seconds} s, and it tells {told - time.time():.0f}")
        finally:
            self.world.wall_clock.step(0)

    # Devices.
    @contextlib.contextmanager
    def ill_device(self, dice, words):
        device = dice.randrange(2)
        self.say(f"device {device}")
        with self.promises.window("gpu", linger_seconds=3):
            self.main.emulated("fault", words.format(device=device))
            yield
            self.main.emulated("fault", f"reset device {device}")

    def lose_device(self, dice):
        with self.ill_device(dice, "lose device {device}"):
            time.sleep(dice.uniform(0.5, 5))

    def corrupt_device(self, dice):
        with self.ill_device(dice, "corrupt device {device}"):
            time.sleep(dice.uniform(0.5, 5))

    def stick_device(self, dice):
        with self.ill_device(dice, "stick device {device}"):
            time.sleep(dice.uniform(1, 4))
            # It falls off the bus: nobody resets a device under the processes that use it.
            self.main.emulated("fault", "lose device " + self.promises.last_faults[-1].split()[-1])
            time.sleep(1)

    def report_xid(self, dice):
        # 31: a fault of somebody's program; 13: of its kernel. The device is well.
        self.main.emulated("fault", f"report device {dice.randrange(2)} xid {dice.choice((13, 31))}")

    def slow_link(self, dice):
        device = dice.randrange(2)
        self.main.emulated("fault", f"slow device {device} by {dice.choice((8, 32))}")
        time.sleep(dice.uniform(2, 6))
        self.main.emulated("fault", f"slow device {device} by 1")

    def fail_allocations(self, dice):
        """Programs that start now are refused device memory now and then."""
        with self.promises.window("gpu", "executor", linger_seconds=3):
            self.main.emulated("fault", f"fail cuMemAlloc every {dice.choice((3, 20))} with CUDA_ERROR_OUT_OF_MEMORY")
            self.strike_sandbox(self.main, dice, signal.SIGKILL, ("gpu",), 1)
            time.sleep(dice.uniform(1, 4))
            self.main.emulated("fault", "none")
            self.end_those_with_a_plan()

    def end_those_with_a_plan(self):
        # A plan is read at cuInit and kept.
        for each in self.sandboxes(self.main, ("gpu", "shared")):
            with contextlib.suppress(ProcessLookupError), self.promises.window("function:" + each["function"], linger_seconds=1):
                os.kill(each["pid"], signal.SIGKILL)
        for pid in self.main.processes("lambent-executor"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def drain_device(self, dice):
        device = dice.randrange(2)
        with contextlib.suppress(OSError, HttpError):
            self.main.request("POST", f"/v1/devices/{device}/drain?reason=sceptic")
            time.sleep(dice.uniform(1, 4))
            self.main.request("POST", f"/v1/devices/{device}/undrain")

    def lose_sliced_device(self, dice):
        node = self.world.nodes["sliced"]
        with self.promises.window("gpu:sliced", linger_seconds=5):
            node.emulated("fault", "lose device 0")
            time.sleep(dice.uniform(0.5, 3))
            node.emulated("fault", "reset device 0")

    # Hostile functions: they get an answer, and nobody else notices.
    def hostile_function(self, dice):
        name = dice.choice(sorted(HOSTILE))
        self.say(name)
        self.go_on_beside(self.call_hostile, name, dice.random() < 0.3)

    def call_hostile(self, name, as_event):
        always = lambda answer: name != "tracer" or answer.get("traced", []) == []
        worker, begun = self.main, time.monotonic()
        try:
            reply = worker.invoke(name, {}, kind="Event" if as_event else None, timeout=120)
            if name == "tracer" and not as_event and not reply.headers.get("x-amz-function-error") and not always(reply.json):
                self.promises.violation(f"a function traces others: {reply.body[:200]!r}")
            self.promises.count("hostile", name + (" accepted" if as_event else " " + (reply.headers.get("x-lambent-error-type") or "answered")))
        except TimeoutError:
            self.promises.violation(f"hostile function {name}: neither an answer nor a closed connection after 120 s")
        except HttpError as error:
            self.load.refused("hostile", frozenset(("node:main", "disk")), begun, f"{name}: HTTP {error.status} {error.body[:300]!r}", f"HTTP {error.status}")
        except (OSError, ConnectionError) as error:
            self.load.refused("hostile", frozenset(("node:main",)), begun, f"{name}: {error!r}", "closed")
        except Exception as error:  # http.client's
            self.load.refused("hostile", frozenset(("node:main",)), begun, f"{name}: {error!r}", "closed")

    # Hostile clients.
    def connect(self):
        connection = socket.create_connection(self.main.address, 5)
        connection.settimeout(5)
        return connection

    REQUEST = b"POST /2015-03-31/functions/calm-0/invocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"

    def half_requests(self, dice):
        self.go_on_beside(self.hold_halves, [dice.randrange(1, 60) for _ in range(60)], dice.uniform(2, 8))

    def hold_halves(self, lengths, seconds):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for length in lengths:
                stack.enter_context(self.connect()).sendall((self.REQUEST % 1000)[:length] if length < 50 else self.REQUEST % 1000 + b"x" * length)
            time.sleep(seconds)

    def slow_client(self, dice):
        """Sends and reads some bytes at a time, as over a bad line, and is answered rightly."""
        self.go_on_beside(self.trickle, dice.randrange(1000), dice.uniform(0.002, 0.02))

    def trickle(self, n, pause):
        begun = time.monotonic()
        event = json.dumps({"n": n, "mark": "slow"}).encode()
        try:
            with self.connect() as connection:
                connection.settimeout(60)
                for byte in (self.REQUEST % len(event)) + event:
                    connection.sendall(bytes([byte]))
                    time.sleep(pause)
                answer = b""
                while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
                    part = connection.recv(7)
                    if not part:
                        raise ConnectionError("closed before the answer's end")
                    answer += part
                if b" 200 " not in answer[:20] or json.loads(answer.partition(b"\r\n\r\n")[2])["n"] != n * n + 7:
                    if not self.promises.excused({"node:main", "function:calm-0"}, begun):
                        self.promises.violation(f"a slow client got {answer[:400]!r}")
                else:
                    self.promises.count("slow client", "right")
        except OSError as error:
            self.load.refused("slow client", frozenset(("node:main",)), begun, f"slow client: {error!r}", "closed")

    def garbage(self, dice):
        for _ in range(30):
            with contextlib.suppress(OSError), self.connect() as connection:
                connection.settimeout(0.2)
                start = dice.choice((b"", b"GET / HTTP/1.1\r\n", b"POST /2015-03-31/functions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                                     b"POST /2015-03-31/functions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"))
                connection.sendall(start + dice.randbytes(dice.randrange(1, 3000)))
                connection.recv(1000)

    def flood(self, dice):
        """Hundreds of calls of one function at once: it is its own queue that grows."""
        self.go_on_beside(self.pour, 150, dice.uniform(2, 4))

    def pour(self, count, seconds):
        event = b'{"n": 1, "mark": "flood", "seconds": 0.02}'
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for _ in range(count):
                stack.enter_context(self.connect()).sendall((self.REQUEST.replace(b"calm-0", b"flooded") % len(event)) + event)
            time.sleep(seconds)

    def go_away(self, dice):
        event = b'{"n": 1, "mark": "gone", "seconds": 0.1}'
        for name in (b"flooded", b"gpu-0", b"kernel-0", b"flow", b"shared-0"):
            with contextlib.suppress(OSError), self.connect() as connection:
                connection.sendall((self.REQUEST.replace(b"calm-0", name) % len(event)) + event)
