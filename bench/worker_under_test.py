"""A worker of the build for a benchmark: started in folders of its own, asked over HTTP, watched through /proc, stopped.

Standard library only. LAMBENT_PREFIX names the build (laid out like a package).
"""
import base64
import contextlib
import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREFIX = pathlib.Path(os.environ.get("LAMBENT_PREFIX", ROOT / "build/release"))
PROGRAMS = PREFIX / "bin"


def make_zip(files):
    """files: {name: bytes or (bytes, mode)} -> zip bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            content, mode = content if isinstance(content, tuple) else (content, 0o644)
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


class Worker:
    """A lambent-worker; use it in a `with`. under: words of a program that runs it, such as valgrind's."""

    def __init__(self, *flags, programs=PROGRAMS, under=()):
        self.programs = programs
        self.under = under
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-bench-"))
        self.socket = self.folder / "api.sock"
        self.log_path = self.folder / "worker.log"
        self.flags = flags
        self.start()

    def start(self):
        endpoint = self.folder / "run/endpoint"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*self.under, str(self.programs / "lambent-worker"), "--listen", "127.0.0.1:0", "--socket", str(self.socket),
                 "--state", str(self.folder / "state"), "--run", str(self.folder / "run"), "--log-format", "json",
                 *self.flags],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 30
        while not endpoint.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = self.log_path.read_text(errors="replace")[-3000:]
                self.close()
                raise SystemExit(f"the worker did not start:\n{log}")
            time.sleep(0.01)
        self.endpoint = endpoint.read_text().strip()
        self.address = self.endpoint.removeprefix("http://").rpartition(":")[::2]

    def restart(self):
        """Stops it and starts it over the same state; seconds from its end until it answers."""
        self.stop()
        start = time.monotonic()
        self.start()
        self.request("GET", "/healthz")
        return time.monotonic() - start

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        (self.folder / "run/endpoint").unlink(missing_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(40)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.address[0], int(self.address[1]), timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400 or response.getheader("X-Amz-Function-Error"):
            raise SystemExit(f"{method} {path}: HTTP {response.status}: {content[:500]!r}")
        return content

    def create(self, name, code, runtime, handler, max_concurrency=1, tags=None, memory_mib=256):
        self.request("POST", "/2015-03-31/functions", json.dumps({
            "FunctionName": name, "Runtime": runtime, "Handler": handler, "Role": "arn:aws:iam::0:role/any",
            "Code": {"ZipFile": base64.b64encode(code).decode()}, "Timeout": 60, "MemorySize": memory_mib,
            "Tags": {**({"lambent:max-concurrency": str(max_concurrency)} if max_concurrency else {}), **(tags or {})}}))

    def cpu_seconds(self):
        """What the worker's threads ran until now; of the scheduler's own count, in nanoseconds."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total * 1e-9


@contextlib.contextmanager
def serving(*words, stderr=None):
    """A program that prints its address, and ends with its standard input; yields its process id and the address."""
    with subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        try:
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(60)


def invocations_path(name):
    return f"/2015-03-31/functions/{name}/invocations"


def machine():
    """What a figure must be read with; no names."""
    model = "unknown"
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {"cores": os.cpu_count(), "cpu": model, "kernel": os.uname().release,
            "load_1min_at_start": round(os.getloadavg()[0], 2)}
