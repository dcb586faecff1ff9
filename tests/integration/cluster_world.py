"""Nodes of a cluster in network namespaces of their own behind one switch, whose cables can be pulled; links that are slow; and a
witness of what functions ran, which outlives every node.
"""
import collections
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from harness import HttpError, Worker, connect_unix, hold_network

# It tells the witness of the begin and the end of each run, by a socket that the test keeps.
WITNESSED = """
import socket, time
def tell(what, event):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.sendto(f"{what} {event['id']}".encode(), "/witness/door")
def handler(event, context):
    tell("begin", event)
    time.sleep(event.get("seconds", 0))
    tell("end", event)
    return {"id": event["id"]}
"""


class Witness:
    """How often each run began and ended, told by the runs themselves."""

    def __init__(self, test):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-witness-")).resolve()
        test.addCleanup(shutil.rmtree, self.folder, True)
        self.folder.chmod(0o755)
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.door.bind(str(self.folder / "door"))
        (self.folder / "door").chmod(0o777)
        self.door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.begun, self.ended = collections.Counter(), collections.Counter()
        self.times = collections.defaultdict(list)  # of each that began
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()
        test.addCleanup(self.close)

    def close(self):
        """The thread ends before its socket is closed: a recv() that is interrupted begins again with the same descriptor, which may be
        the next witness's by then, and takes a word from it."""
        self.door.shutdown(socket.SHUT_RDWR)
        self.listener.join()
        self.door.close()

    def listen(self):
        while word := self.door.recv(4096):
            what, run = word.decode().split()
            if what == "begin":
                self.times[run].append(time.monotonic())
            (self.begun if what == "begin" else self.ended)[run] += 1

    @property
    def tags(self):
        """Of a function that may tell it."""
        return {"lambent:mounts": f"{self.folder}:/witness"}


class Switch:
    """A network to which each node has one cable; skips the test where it cannot be made."""

    def __init__(self, test, names):
        for program in ("ip", "unshare", "nsenter"):
            if shutil.which(program) is None:
                raise unittest.SkipTest(f"{program} is not installed")
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can make networks for nodes")
        test.addCleanup(self.close)
        self.holders = {}
        for name in ("switch", *names):
            self.holders[name] = hold_network(900)
        self.addresses = {name: f"10.77.0.{number + 1}" for number, name in enumerate(names)}
        self.ip("switch", "link add name bridge type bridge")
        self.ip("switch", "link set dev bridge up")
        for name, address in self.addresses.items():
            self.ip("switch", f"link add name to-{name} type veth peer name cable netns /proc/{self.holders[name].pid}/ns/net")
            self.ip("switch", f"link set dev to-{name} master bridge")
            self.ip("switch", f"link set dev to-{name} up")
            self.ip(name, "link set dev lo up")
            self.ip(name, f"addr add {address}/24 dev cable")
            self.ip(name, "link set dev cable up")

    def within(self, name):
        return ["nsenter", f"--net=/proc/{self.holders[name].pid}/ns/net"]

    def ip(self, name, words):
        self.run(name, "ip " + words)

    def run(self, name, words):
        done = subprocess.run([*self.within(name), *words.split()], capture_output=True, text=True, timeout=20)
        if done.returncode != 0:
            raise unittest.SkipTest(f"this machine makes no such network: {words}: {done.stderr.strip()}")
        return done.stdout

    def pull(self, name):
        """Its cable: nothing is told to anyone, packets go nowhere."""
        self.ip("switch", f"link set dev to-{name} down")

    def plug(self, name):
        self.ip("switch", f"link set dev to-{name} up")

    def drop_packets(self, share):
        """This share of the packets that come to each node."""
        if shutil.which("iptables") is None:
            raise unittest.SkipTest("iptables is not installed")
        for name in self.addresses:
            self.run(name, f"iptables -A INPUT -i cable -m statistic --mode random --probability {share} -j DROP")

    def dropped(self, name):
        """How many packets to it."""
        rules = self.run(name, "iptables -L INPUT -v -x -n").splitlines()
        return sum(int(rule.split()[0]) for rule in rules if " DROP " in rule)

    def close(self):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()


class NodeBehindCable(Worker):
    """A node of a switch; the test reaches it by a socket in the file system, whatever its cable does."""

    def __init__(self, switch, name, *flags, folder):
        folder.mkdir()
        super().__init__("--node-name", name, "--insecure-open-to-network", "--socket", str(folder / "api"), *flags, gpu="none",
                         folder=folder, listen=f"{switch.addresses[name]}:8980", within=switch.within(name))

    def start(self):
        super().start()
        self.endpoint, self.address = f"unix:{self.folder}/api", str(self.folder / "api")


class Relay:
    """Passes bytes on between those who connect to a listener and what reach() connects to, until it is cut."""

    def __init__(self):
        self.sockets, self.listener, self.lock = [], None, threading.Lock()

    def listen(self, listener):
        self.listener = listener
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = self.reach()
            except OSError:
                near.close()
                continue
            with self.lock:
                if listener is not self.listener:  # it was cut meanwhile
                    near.close()
                    far.close()
                    return
                self.sockets += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def cut(self):
        """Both sides see their connections end, and new ones are refused."""
        with self.lock:
            if self.listener is not None:
                self.sockets.append(self.listener)
                self.listener = None
            for each in self.sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits there
                each.close()
            self.sockets.clear()


class SlowLink(Relay):
    """A port that passes bytes on to another one, each so many seconds later."""

    def __init__(self, test, port, delay):
        super().__init__()
        self.target, self.delay = port, delay
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        test.addCleanup(self.cut)
        self.listen(listener)

    def reach(self):
        return socket.create_connection(("127.0.0.1", self.target))

    def changed(self, data):
        """What arrives of it."""
        return data

    def carry(self, source, target):
        try:
            while data := source.recv(65536):
                time.sleep(self.delay)
                target.sendall(self.changed(data))
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Postgres:
    """A PostgreSQL server of this test, on a Unix socket; skips the test where it is not installed. A standby of another one has a copy
    of it, which is as new as what that acknowledges."""

    SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "postgres_server.sh"

    def __init__(self, test, primary=None):
        self.folder = tempfile.mkdtemp(prefix="lambent-postgres-")
        test.addCleanup(shutil.rmtree, self.folder, True)
        self.url = self.do("start", *([primary.folder] if primary else []))
        test.addCleanup(self.do, "stop")

    def url_with(self, other):
        """Both servers, of which one takes changes."""
        return f"{self.url},{other.folder}/socket"

    def query(self, sql):
        """The rows that psql prints."""
        done = subprocess.run(["psql", "-At", self.url, "-c", sql], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.splitlines()

    def do(self, verb, *more):
        done = subprocess.run([self.SCRIPT, verb, self.folder, *more], capture_output=True, text=True, timeout=120)
        if done.returncode == 77:
            raise unittest.SkipTest(done.stderr.strip())
        if done.returncode != 0 and verb != "stop":
            raise AssertionError(done.stderr)
        return done.stdout.strip()


class WayToPostgres(Relay):
    """A node's own way to the PostgreSQL of others, which may be cut, or take bytes and carry none."""

    def __init__(self, test, postgres):
        super().__init__()
        self.target = f"{postgres.folder}/socket/.s.PGSQL.5432"
        self.folder = tempfile.mkdtemp(prefix="lambent-way-")
        test.addCleanup(shutil.rmtree, self.folder, True)
        self.url = postgres.url.replace(f"{postgres.folder}/socket", self.folder)
        self.flows = threading.Event()
        test.addCleanup(self.cut)
        self.mend()

    def mend(self):
        if self.listener is None:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{self.folder}/.s.PGSQL.5432")
            listener.listen(16)
            self.listen(listener)
        self.flows.set()

    def reach(self):
        return connect_unix(self.target)

    def carry(self, source, target):
        try:
            while data := source.recv(65536):
                self.flows.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def freeze(self):
        """Neither side is told; PostgreSQL goes on to wait for the node."""
        self.flows.clear()

    def cut(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.folder}/.s.PGSQL.5432")
        super().cut()
        self.flows.set()  # threads end


class Load:
    """Requests to all of these nodes, one after the other from each of a few threads: synchronous and asynchronous ones in turn, each
    with an id of its own, which ends so. Clients that move on ask the next node where one takes no connection."""

    def __init__(self, nodes, function, threads=1, moves_on=False, seconds=0.02, suffix=""):
        self.nodes, self.function, self.moves_on, self.seconds, self.suffix = nodes, function, moves_on, seconds, suffix
        self.done, self.lock, self.number = threading.Event(), threading.Lock(), 0
        self.answered, self.accepted, self.failed = [], {}, {}
        self.threads = [threading.Thread(target=self.run, args=(name,)) for name in nodes for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self, name):
        while not self.done.is_set():
            with self.lock:
                self.number += 1
                number = self.number
            kind = "Event" if number % 2 else None
            run = f"{'async' if kind else 'sync'}-{name}-{number}{self.suffix}"
            try:
                reply = self.ask(name, {"id": run, "seconds": self.seconds}, kind)
                with self.lock:
                    if "x-amz-function-error" in reply.headers:
                        self.failed[run] = AssertionError(reply.body)
                    elif not kind and reply.json != {"id": run}:
                        self.failed[run] = AssertionError(f"the answer of another run: {reply.body}")
                    elif kind:
                        self.accepted[run] = reply.headers["x-amzn-requestid"]
                    else:
                        self.answered.append(run)
            except (HttpError, OSError) as error:
                with self.lock:
                    self.failed[run] = error
                time.sleep(0.05)

    def ask(self, name, event, kind):
        names = list(self.nodes)
        for turn in range(len(names)):
            node = self.nodes[names[(names.index(name) + turn) % len(names)]]
            try:
                return node.invoke(self.function, event, kind)
            except (ConnectionRefusedError, FileNotFoundError):
                if not self.moves_on or turn + 1 == len(names):
                    raise
        return None

    def wait_for(self, answers):
        """Until so many more were answered or accepted."""
        end = time.monotonic() + 60
        wanted = len(self.answered) + len(self.accepted) + answers
        while len(self.answered) + len(self.accepted) < wanted:
            if time.monotonic() > end:
                raise AssertionError(f"only {len(self.answered)} answers, {len(self.failed)} failures: {list(self.failed.items())[-3:]}")
            time.sleep(0.01)

    def stop(self):
        self.done.set()
        for thread in self.threads:
            thread.join()
