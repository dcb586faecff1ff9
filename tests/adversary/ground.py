"""Where the adversary works: a worker of its own with a neighbour that must stay well, and the ways to reach it."""
import contextlib
import functools
import os
import pathlib
import re
import shutil
import socket
import tempfile
import time

import harness
from harness import HttpError
from verdicts import Skip, require

MIB = 1 << 20


class Ground:
    """The folder of a run and its first worker, which most checks share. Checks that kill or fill make workers of their own."""

    def __init__(self, seconds_scale, folder=None):
        self.scale = seconds_scale  # 1, or less in the short form: how long load is kept up
        self.short = seconds_scale < 1
        self.keep = folder is not None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="lambent-adversary-"))
        self.made = 0

    @functools.cached_property
    def worker(self):
        worker = self.new_worker("main", "--concurrency", "4", "--pool", "16")
        worker.create_python("good", "def handler(event, context): return ['good', event]", memory=128)
        return worker

    def new_worker(self, name, *flags, **options):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return harness.Worker(*flags, folder=folder, **options)

    def name(self, base):
        """A name that no function has yet."""
        self.made += 1
        return f"{base}-{self.made}"

    def ask(self, source, event=None, files=None, name="asked", **options):
        """What a new function answers. It must answer."""
        name = self.name(name)
        self.worker.create(name, harness.make_zip({"app.py": source, **(files or {})}), **options)
        try:
            reply = self.worker.invoke(name, event or {})
        finally:
            self.worker.delete(name)
        require("x-amz-function-error" not in reply.headers, f"the function failed: {reply.body[:500]}")
        return reply.json

    def neighbour_is_well(self, seconds=5):
        """The function beside answers, quickly, and the worker is ready."""
        started = time.monotonic()
        require(self.worker.invoke("good", {"n": 1}).json == ["good", {"n": 1}], "the neighbour's answer is wrong")
        took = time.monotonic() - started
        require(took < seconds, f"the neighbour waited {took:.1f} s")
        require(self.worker.request("GET", "/readyz").status == 200, "the worker is not ready")
        return took

    def raw(self, text, seconds=5, half_close=False):
        """What the worker answers to these bytes, to the end of the connection or for so long."""
        return raw(self.worker.address, text, seconds, half_close)

    def close(self):
        if "worker" in self.__dict__:
            self.worker.close()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def raw(address, text, seconds=5, half_close=False):
    with socket.create_connection(address, seconds) as connection:
        connection.settimeout(seconds)
        answer = b""
        with contextlib.suppress(OSError):
            connection.sendall(text)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while piece := connection.recv(65536):
                answer += piece
        return answer


def statuses(answer):
    """Of all responses in it, in order."""
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def status_of(call, *arguments, **options):
    """(HTTP status, reply or error)."""
    try:
        reply = call(*arguments, **options)
        return getattr(reply, "status", 201), reply  # what creates answers the configuration
    except HttpError as error:
        return error.status, error


def memory_of(pid):
    """Resident bytes of a process."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def process_name(pid):
    """As the kernel has it: 15 characters; empty if it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def need_root(what):
    if os.geteuid() != 0:
        raise Skip(f"{what} needs root: run ./dev adversary as root")


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
