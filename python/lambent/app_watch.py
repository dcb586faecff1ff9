"""`python3 -m lambent dev FILE`: deploys an app again whenever a file beside it changes, and shows what its functions print. Standard
library only."""
from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from .client import Client
from .errors import LambentError

_LOOK_AGAIN = 0.3  # seconds between looks at files and logs
MOST_FILES = 5000
_OF_THE_WORKER = ("START RequestId: ", "END RequestId: ")  # lines around those that a function prints
NO_WORKER = 24  # the exit code, as the command `lambent` has it

_make_client: Any = Client
_error: Any = LambentError


def state_of(folder: str) -> dict[str, tuple[int, int]]:
    """{file: (its time, its size)} of what may be part of an app: all files but hidden and compiled ones, and the one that this command
    writes to, if its output goes into the folder."""
    written = set()
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            status = os.fstat(descriptor)
            written.add((status.st_dev, status.st_ino))
    found: dict[str, tuple[int, int]] = {}
    for below, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".") and each != "__pycache__"]
        for name in names:
            if name.startswith(".") or name.endswith(".pyc"):
                continue
            path = os.path.join(below, name)
            try:
                status = os.stat(path)
            except OSError:  # it was removed meanwhile
                continue
            if (status.st_dev, status.st_ino) not in written:
                found[path] = (status.st_mtime_ns, status.st_size)
            if len(found) > MOST_FILES:
                raise _error(f"{folder} has more than {MOST_FILES} files: give the app a folder of its own", "OUT_OF_RANGE")
    return found


class LogTail:
    """What a function prints from now on. `get(path)` is (status, headers, body) of a request to the worker."""

    def __init__(self, name: str, get: Callable[[str], tuple[int, dict[str, str], bytes]]) -> None:
        self._path, self._get, self._offset = f"/v1/functions/{quote(name, safe='')}/log", get, "end"
        self._parts: dict[str, str] = {}  # of lines that have not ended, by node
        if self._ask()[0] == 400:  # a worker of before does not know where the end is
            self._offset = "0"
            while self._read():
                pass

    def _ask(self) -> tuple[int, bytes]:
        status, headers, body = self._get(f"{self._path}?offset={quote(self._offset)}&format=ndjson")
        if status == 200:
            self._offset = headers.get("x-lambent-next-offset", self._offset)
        return status, body

    def _read(self) -> list[tuple[str, str]]:
        """[(node, text)]: lines, and the last one perhaps in part."""
        status, body = self._ask()
        if status != 200:
            return []
        told = [json.loads(each) for each in body.split(b"\n") if each]
        return [(each.get("node", ""), each["text"]) for each in told if "text" in each]  # others say what is missing

    def lines(self) -> list[str]:
        """The whole lines since the last time, of all nodes."""
        lines = []
        for node, text in self._read():
            *whole, self._parts[node] = (self._parts.get(node, "") + text).split("\n")
            lines += whole
        return lines


class Watch:
    """Looks at files and logs, one look after the other. `deploy()` deploys and returns the names of the app's functions."""

    def __init__(self, folder: str, deploy: Callable[[], list[str]], show: Callable[[str], None], client: Any) -> None:
        self._folder, self._deploy, self._show, self._client = folder, deploy, show, client
        self._seen: dict[str, tuple[int, int]] = {}
        self._tails: dict[str, LogTail] = {}

    def look(self) -> None:
        """LambentError, UNAVAILABLE: the worker is away; what has changed is deployed by a later look."""
        now = state_of(self._folder)
        if now != self._seen:
            self._client.version()  # before a process is started for nothing
            for name in self._deploy():
                if name not in self._tails:
                    self._tails[name] = LogTail(name, lambda path: self._client._http.request("GET", path))
            self._seen = now
        for name, tail in self._tails.items():
            for line in tail.lines():
                if not line.startswith(_OF_THE_WORKER):
                    self._show(f"{name} | {line}")


def _deploy(path: str) -> list[str]:
    """In a process of its own, which imports the file as it is now. A mistake in it is shown, and waits for the next change."""
    done = subprocess.run([sys.executable, "-m", "lambent", "deploy", path], stdout=subprocess.PIPE, text=True)
    words = [line.split(" ", 1) for line in done.stdout.splitlines()]
    changed = [name for what, name in words if what == "deployed"]
    if done.returncode == NO_WORKER:
        raise _error("it is deployed once the worker answers", "UNAVAILABLE")
    if done.returncode == 0:
        print("deployed " + ", ".join(changed) if changed else "nothing has changed", flush=True)
    return [name for _, name in words]


def dev(path: str) -> None:
    """Until Ctrl-C."""
    if not os.path.isfile(path):
        raise _error(f"there is no file {path!r}", "NOT_FOUND")
    with contextlib.suppress(KeyboardInterrupt), _make_client() as client:
        watch = Watch(os.path.dirname(os.path.abspath(path)), lambda: _deploy(path), lambda line: print(line, flush=True), client)
        while True:
            try:
                watch.look()
            except LambentError as error:
                if error.code != "UNAVAILABLE":
                    raise
                print(f"lambent: {error}", file=sys.stderr, flush=True)
                time.sleep(1)
            time.sleep(_LOOK_AGAIN)
