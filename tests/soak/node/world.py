"""The node under test as processes: workers in a folder of their own, state on a small disk, watched by /proc. Used by faults, load and checks."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

import harness
from harness import WallClock, descendants
from leftovers import shared_files_of
from soak import name_of

PRESETS = harness.PREFIX / "lib/emulated/presets"
DISK_MIB = 384


def start_time(pid):
    """With the pid it names a process for good; none if it is gone or a zombie."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except OSError:
        return None


class Node(harness.Worker):
    """A worker that the sceptic may kill: `intact` says whether it should be running now."""
    log_level = "info"

    def __init__(self, name, promises, flags, gpu, folder, environment=None):
        self.name, self.promises = name, promises
        self.intact = threading.Lock()  # held by a fault that stops the worker, and by who looks whether it runs
        self.seen = {}  # {pid: start time} of all processes that it ever had, as far as they were seen
        self.launchers = set()
        self.shared_files = set()  # in folders that are not its own, that it was seen to use
        super().__init__(*flags, gpu=gpu, folder=folder, environment=environment)
        self.remember()

    def remember(self):
        self.shared_files |= shared_files_of(self.process.pid)
        for pid in descendants(self.process.pid):
            self.shared_files |= shared_files_of(pid)
            self.seen[pid] = start_time(pid)
            if name_of(pid).startswith("lambent-launch"):
                self.launchers.add(pid)

    def processes(self, name):
        return [pid for pid in descendants(self.process.pid) if name_of(pid).startswith(name[:15])]

    def survivors(self, pids):
        """Of {pid: start time} those that still are."""
        return [pid for pid, started in pids.items() if started and start_time(pid) == started]

    def wait_gone(self, pids, seconds):
        deadline = time.monotonic() + seconds
        while self.survivors(pids) and time.monotonic() < deadline:
            time.sleep(0.02)  # they are nobody's children here: there is nothing to wait on
        return self.survivors(pids)

    def start_again(self):
        """After a death. What the dead one had started must be gone by itself."""
        left = self.wait_gone({pid: self.seen.get(pid) for pid in self.seen}, 15)
        if left:
            self.promises.violation(f"{self.name}: {[(pid, name_of(pid)) for pid in left]} outlived their worker by 15 s")
        for attempt in range(3):
            try:
                self.start()
                break
            except AssertionError as error:
                self.promises.violation(f"{self.name}: attempt {attempt} to start again: {error}")
        self.seen.clear()
        self.remember()

    def emulated(self, *words):
        return subprocess.run([str(harness.PREFIX / "bin/emulated-gpu"), words[0], "--node", str(self.folder / "run/gpu-node"),
                               *words[1:]], capture_output=True, text=True, timeout=30)


class World:
    """Two nodes: one with two small whole devices, one with MIG slices for pipelines."""

    def __init__(self, promises, folder=None, sliced=True, flags=()):
        self.promises, self.nodes, self.mounted = promises, {}, False
        self.stopping, self.watcher = threading.Event(), threading.Thread(target=self.watch, daemon=True)
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="lambent-sceptic-"))
        self.disk = self.folder / "main/state"
        try:
            self.begin(sliced, flags)
        except BaseException:  # the signal that ends the sceptic as well
            self.close(keep_files=folder is not None)
            raise

    def begin(self, sliced, flags):
        self.disk.mkdir(parents=True)
        self.mounted = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "lambent-sceptic", str(self.disk)], capture_output=True).returncode == 0
        small = self.folder / "small.toml"
        text = (PRESETS / "tiny.toml").read_text()
        small.write_text(text.replace("devices = 1", "devices = 2").replace("memory_mib = 1024", "memory_mib = 512"))
        self.wall_clock = WallClock(self.folder / "wall-clock")
        self.nodes["main"] = Node("main", self.promises, ("--context-memory", "16", "--concurrency", "2", "--pool", "12", "--ready-sandboxes", "2",
                                                          "--host-memory", "2G", "--object-memory", "64M", "--object-disk", "64M", *flags),
                                  f"emulated:{small}", self.folder / "main", self.wall_clock.environment)
        if sliced:
            (self.folder / "sliced").mkdir()
            self.nodes["sliced"] = Node("sliced", self.promises, ("--pipeline-slices", "all", "--ready-sandboxes", "1", "--pool", "8",
                                                                  *flags),
                                        "emulated:a100-80gb-mig", self.folder / "sliced")
        self.watcher.start()

    def watch(self):
        """Remembers every process, and starts a worker again that nobody killed: that is a violation."""
        while not self.stopping.wait(0.3):
            for node in self.nodes.values():
                if not node.intact.acquire(blocking=False):
                    continue
                try:
                    if node.process.poll() is not None:
                        with self.promises.window("node:" + node.name):
                            self.promises.violation(f"{node.name}: its worker ended by itself, status {node.process.returncode}:\n"
                                                    + node.log()[-2500:])
                            node.start_again()
                    node.remember()
                finally:
                    node.intact.release()

    def close(self, keep_files):
        self.stopping.set()
        if self.watcher.is_alive():
            self.watcher.join()
        for node in self.nodes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.close()
            if node.process.poll() is None:
                node.kill()
        if self.mounted:
            if keep_files:
                subprocess.run(["cp", "-a", str(self.disk), str(self.folder / "main/state-kept")], capture_output=True)
            subprocess.run(["umount", str(self.disk)], capture_output=True)
        if not keep_files:
            shutil.rmtree(self.folder, ignore_errors=True)
