"""What the integration tests stand on: a real worker in folders of its own, on a port of its own, stopped and checked for
leftovers afterwards. Standard library only.
"""
import atexit
import base64
import contextlib
import http.client
import io
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile

PREFIX = pathlib.Path(os.environ["LAMBENT_PREFIX"])  # the build folder, laid out like a package
EXAMPLES = PREFIX / "share/lambent/examples"
KERNELS = PREFIX / "share/lambent/kernels"


class HttpError(Exception):
    def __init__(self, status, headers, body):
        super().__init__(f"HTTP {status}: {body[:300]!r}")
        self.status, self.headers, self.body = status, headers, body

    @property
    def error_type(self):
        return self.headers.get("x-amzn-errortype", "").split(":")[0]

    @property
    def json(self):
        return json.loads(self.body)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


def make_zip(files):
    """files: {name: text, bytes or (bytes, mode)} -> zip bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            content, mode = content if isinstance(content, tuple) else (content, 0o644)
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return out.getvalue()


def zip_folder(folder, extra=()):
    """A zip of a folder's files; extra: [(path in the zip, folder)]."""
    files = {}
    for base, root in [("", pathlib.Path(folder))] + [(name + "/", pathlib.Path(path)) for name, path in extra]:
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                files[base + str(path.relative_to(root))] = (path.read_bytes(), path.stat().st_mode & 0o777)
    return make_zip(files)


_claims = contextlib.ExitStack()  # sockets whose names say which ports are this process's, until it ends
atexit.register(_claims.close)


def claim_ports(count):
    """Ports of loopback for workers that have to know each other's before they are started. No other process of tests gets them, and the
    kernel hands none of them out by itself: it takes those from 32768 on, unless told otherwise."""
    found = []
    for port in sorted(range(20000, 32768), key=lambda _: random.random()):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0lambent-test-port-{port}")
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _claims.enter_context(claim)
        found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"there are no {count} free ports")


def hold_network(seconds):
    """A process in a network namespace of its own, which it holds for so long; skips the test where there can be none."""
    own = os.readlink("/proc/self/ns/net")
    holder = subprocess.Popen(["unshare", "--net", "sleep", str(seconds)], stderr=subprocess.PIPE, text=True)
    with holder.stderr as words:
        while holder.poll() is None:
            with contextlib.suppress(OSError):  # it ends
                if os.readlink(f"/proc/{holder.pid}/ns/net") != own:
                    return holder
            time.sleep(0.005)
        raise unittest.SkipTest(f"this machine makes no network namespace: {words.read().strip()}")


class WallClock:
    """What the processes of a node take for the time of day, off from the machine's by a step."""

    def __init__(self, file):
        self.file = file
        self.file.write_bytes(bytes(8))
        self.environment = {"LD_PRELOAD": str(PREFIX / "tests/wall_clock_step.so"), "LAMBENT_WALL_CLOCK_STEP": str(self.file)}

    def step(self, seconds):
        with open(self.file, "r+b", buffering=0) as file:  # they have it mapped
            file.write(struct.pack("=q", int(seconds * 10**9)))


def connect_unix(path, timeout=None):
    """A connection to a socket in the file system; OSError leaves nothing open."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout)
        connection.connect(str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def http_over_unix(path, timeout):
    connection = http.client.HTTPConnection("localhost", timeout=timeout)
    connection.sock = connect_unix(path, timeout)
    return connection


def exchange(connection, method, path, body=None, headers=None):
    """One request over a connection that ends with it: the Reply, or HttpError."""
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()
    if reply.status >= 400:
        raise HttpError(reply.status, reply.headers, reply.body)
    return reply


class Worker:
    """A lambent-worker of the build under test."""

    log_level = "debug"

    def __init__(self, *flags, gpu="emulated:tiny", folder=None, environment=None, listen="127.0.0.1:0", tls=None, within=()):
        """`tls`: an ssl.SSLContext, for a worker that serves HTTPS. `within`: words of a command that runs the rest of its own."""
        self.own_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="lambent-test-"))
        self.flags, self.gpu, self.listen, self.process, self.tls = flags, gpu, listen, None, tls
        self.environment, self.within = environment or {}, within
        self.log_path = self.folder / "worker.log"
        self.start()

    def start(self):
        endpoint = self.folder / "run/endpoint"
        with contextlib.suppress(FileNotFoundError):
            endpoint.unlink()
        deadline = time.monotonic() + 30
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*self.within, str(PREFIX / "bin/lambent-worker"), "--listen", self.listen, "--state", str(self.folder / "state"),
                 "--run", str(self.folder / "run"), "--gpu", self.gpu, "--log-format", "json", "--log-level",
                 self.log_level, *self.flags],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, **self.environment})
        try:
            while not endpoint.exists():
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"the worker did not start:\n{self.log()[-4000:]}")
                time.sleep(0.01)
        except BaseException:
            self.kill()  # nobody else knows of it yet
            raise
        self.endpoint = endpoint.read_text().strip()
        if self.endpoint.startswith(("http://", "https://")):
            host, _, port = self.endpoint.partition("//")[2].rpartition(":")
            self.address = (host, int(port))
        else:
            self.address = self.endpoint.removeprefix("unix:")

    def log(self):
        return self.log_path.read_text(errors="replace")

    def kill(self):
        """kill -9, as the sceptic does it."""
        self.process.kill()
        self.process.wait(10)

    def stop(self):
        """Asks it to stop; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def close(self):
        if self.process.poll() is None:
            self.stop()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, timeout=60):
        if self.endpoint.startswith("https://"):
            return http.client.HTTPSConnection(*self.address, timeout=timeout, context=self.tls)
        if isinstance(self.address, tuple):
            return http.client.HTTPConnection(*self.address, timeout=timeout)
        return http_over_unix(self.address, timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        return exchange(self.connect(timeout), method, path, body, headers)

    # The Lambda API, as a raw client would speak it.
    def create(self, name, code, runtime="python3", handler="app.handler", timeout=30, memory=256, tags=None,
               environment=None):
        body = {"FunctionName": name, "Runtime": runtime, "Handler": handler, "Role": "arn:aws:iam::0:role/any",
                "Code": {"ZipFile": base64.b64encode(code).decode()}, "Timeout": timeout, "MemorySize": memory,
                "Tags": tags or {}, "Environment": {"Variables": environment or {}}}
        return self.request("POST", "/2015-03-31/functions", json.dumps(body)).json

    def create_python(self, name, source, **options):
        return self.create(name, make_zip({"app.py": source}), **options)

    def invoke(self, name, payload=b"{}", kind=None, headers=None, timeout=60):
        if not isinstance(payload, (bytes, str)):
            payload = json.dumps(payload)
        headers = dict(headers or {})
        if kind:
            headers["X-Amz-Invocation-Type"] = kind
        return self.request("POST", f"/2015-03-31/functions/{name}/invocations", payload, headers, timeout)

    def tag(self, name, tags):
        arn = f"arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3A{name}"
        return self.request("POST", f"/2017-03-31/tags/{arn}", json.dumps({"Tags": tags}))

    def delete(self, name):
        return self.request("DELETE", f"/2015-03-31/functions/{name}")

    def sandboxes(self):
        """Of a node of a cluster its own."""
        return self.request("GET", "/v1/sandboxes", headers={"X-Lambent-Only-Here": "true"}).json["sandboxes"]

    def sandbox_ids(self, function):
        return {each["id"] for each in self.sandboxes() if each["function"] == function}

    def metrics(self):
        return self.request("GET", "/metrics").body.decode()

    def metric(self, name):
        """The sum of the samples whose lines begin so."""
        return sum(float(line.split()[-1]) for line in self.metrics().splitlines() if line.startswith(name))

    def wait_for(self, condition, seconds=20, what="the condition"):
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come true within {seconds} s\n{self.log()[-3000:]}")
            time.sleep(0.02)


def zygote_probe():
    """Whether lambent-launcher has what zygotes need."""
    text = subprocess.run([str(PREFIX / "bin/lambent-launcher"), "--probe"], capture_output=True, text=True).stdout
    return "own user namespace: yes" in text and "memory cgroup: yes" in text


def descendants(pid):
    """The processes below pid, by /proc."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def process_exists(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stop_without_leftovers(worker, close):
    """Stops it and calls close(); AssertionError if it did not end well, or left processes behind."""
    below = descendants(worker.process.pid)
    status = worker.stop()
    leftovers = [pid for pid in below if process_exists(pid)]
    log = worker.log()
    close()
    assert status == 0, f"the worker ended with status {status}:\n{log[-3000:]}"
    assert not leftovers, f"processes were left behind: {leftovers}"


class WorkerTest(unittest.TestCase):
    """A test case with one worker for all of its tests."""

    flags = ()
    gpu = "emulated:tiny"

    @classmethod
    def setUpClass(cls):
        cls.worker = Worker(*cls.flags, gpu=cls.gpu)

    @classmethod
    def tearDownClass(cls):
        stop_without_leftovers(cls.worker, cls.close_worker)

    @classmethod
    def close_worker(cls):
        cls.worker.close()

    def error_of(self, call, *arguments, **options):
        with self.assertRaises(HttpError) as caught:
            call(*arguments, **options)
        return caught.exception
