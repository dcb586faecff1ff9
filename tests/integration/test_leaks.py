"""After normal and hostile work, a stop or a kill -9, nothing is left of a worker beyond its two folders."""
import contextlib
import os
import pathlib
import shutil
import tempfile
import time
import unittest

from harness import HttpError, Worker, descendants, process_exists

MIB = 1 << 20


def cgroup_folders(launchers):
    """The cgroup folders of these launchers (pids) and of their sandboxes, v1 and v2; those of other workers are none of ours."""
    names = {f"lambent-{pid}" for pid in launchers}
    return {base for base, _, _ in os.walk("/sys/fs/cgroup") if names.intersection(pathlib.Path(base).parts)}


def launchers_of(worker):
    return [pid for pid in descendants(worker.process.pid)
            if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("lambent-launch")]


def mounts():
    return set(line.split(" ", 5)[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


def temporary_files():
    """What ours might leave in shared folders; workers of other tests may run at the same time."""
    return {os.path.join(folder, name) for folder, words in (("/dev/shm", ("",)), ("/tmp", ("emulated-cuda", "ledger", "gpu-node")))
            for name in os.listdir(folder) if any(word in name for word in words)}


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


SOURCES = {
    "calm": ({}, "def handler(e, c): return e"),
    "gpu": ({"lambent:gpu-memory": "64MiB"}, """
import lambent_cuda as cuda
device = cuda.Device()
memory = device.buffer(16 << 20)
def handler(event, context):
    if event.get("crash"):
        import os; os.abort()
    memory.fill(1)
    return device.memory_info()
"""),
    "forker": ({}, """
import os, time
def handler(event, context):
    for _ in range(20):
        if os.fork() == 0:
            os.setsid(); time.sleep(100); os._exit(0)
    open("/dev/shm/rest", "w").write("x"); open("/tmp/rest", "w").write("x")
    os.abort()
"""),
    "sleeper": ({}, "import time\ndef handler(e, c): time.sleep(60)"),
    "broken": ({}, "raise RuntimeError('at import')"),
    "eater": ({}, "def handler(e, c):\n  hoard = []\n  while True: hoard.append(bytearray(1 << 22))"),
}


class LeaksTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-leaks-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.mounts, self.files = mounts(), temporary_files()
        self.worker = Worker("--concurrency", "2", "--pool", "3", folder=self.folder)
        self.addCleanup(self.worker.close)

    def work(self):
        for name, (tags, source) in SOURCES.items():
            self.worker.create_python(name, source, tags=tags, timeout=1, memory=128)
        for name, event in (("calm", {}), ("gpu", {}), ("forker", {}), ("gpu", {"crash": True}), ("broken", {}), ("eater", {}),
                            ("sleeper", {}), ("gpu", {}), ("calm", {})):
            self.worker.invoke(name, event)
        self.below = descendants(self.worker.process.pid)
        self.assertGreater(len(self.below), 2)
        self.launchers = launchers_of(self.worker)

    def assert_nothing_runs(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and any(process_exists(pid) for pid in self.below):
            time.sleep(0.05)
        self.assertEqual([pid for pid in self.below if process_exists(pid)], [])
        # Without processes, only a mount could keep a namespace.
        self.assertEqual(mounts() - self.mounts, set())
        self.assertEqual(temporary_files() - self.files, set())

    def assert_cgroups_are_gone(self):
        deadline = time.monotonic() + 10
        while cgroup_folders(self.launchers) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(sorted(cgroup_folders(self.launchers)), [])

    def test_a_worker_that_is_stopped_leaves_nothing(self):
        self.work()
        self.assertEqual(self.worker.stop(), 0)
        self.assert_nothing_runs()
        self.assert_cgroups_are_gone()
        self.assertEqual(list((self.folder / "run").rglob("ledger-*")), [])

    def test_a_worker_that_is_killed_leaves_nothing_that_runs_and_the_next_one_cleans_up(self):
        self.work()
        self.worker.kill()
        self.assert_nothing_runs()
        self.worker.start()
        self.launchers += launchers_of(self.worker)
        self.assertEqual(list((self.folder / "run").rglob("ledger-*")), [])
        self.assertEqual(self.worker.invoke("calm", {"n": 1}).json, {"n": 1})
        self.assertEqual(self.worker.stop(), 0)
        self.assert_cgroups_are_gone()
        self.assertEqual(list((self.folder / "run").rglob("ledger-*")), [])

    def test_a_launcher_that_is_killed_takes_its_sandboxes_along(self):
        self.work()
        launcher, = self.launchers
        self.below = [launcher, *descendants(launcher)]
        os.kill(launcher, 9)
        self.assert_nothing_runs()
        # The worker either ends, to be started again, or goes on with a new launcher.
        for _ in range(2):
            try:
                self.assertEqual(self.worker.invoke("calm", {"n": 2}).json, {"n": 2})
                break
            except (OSError, HttpError):
                print("\nwithout its launcher the worker", self.worker.process.poll(), self.worker.log()[-600:])
                if self.worker.process.poll() is None:
                    self.worker.kill()
                self.worker.start()
        else:
            self.fail("the worker did not recover")


class BoundsTest(unittest.TestCase):
    """Hundreds of cold starts cost the worker neither descriptors nor memory nor files."""
    names = [f"f{n}" for n in range(6)]  # three of each kind, for two places

    def setUp(self):
        # Nothing starts that no call asks for.
        self.worker = Worker("--concurrency", "2", "--pool", "2", "--set", "foresee=false")
        self.addCleanup(self.worker.close)

    def rounds(self, count):
        cold, n = 0, 0
        while cold < count and n < 5 * count:
            n += 1
            reply = self.worker.invoke(self.names[n % len(self.names)], {"crash": n % 7 == 0})
            cold += reply.headers["x-lambent-start"] == "cold"
        return cold

    def counts_at_rest(self, pids):
        """(files, resident bytes, threads) of each process once both pools are full and nothing ends any more."""
        def four_rest():
            there = sorted(sandbox["function"] for sandbox in self.worker.sandboxes())
            for name in self.names[:4]:
                if name not in there:
                    self.worker.invoke(name, {})
            return there == self.names[:4]

        self.worker.wait_for(four_rest, 20, "that four sandboxes rest")
        files = {name: [] for name in pids}

        def steady():
            for name, pid in pids.items():
                files[name] = [*files[name][-9:], open_files(pid)]
            return all(len(seen) == 10 and len(set(seen)) == 1 for seen in files.values())

        self.worker.wait_for(steady, 20, "that the number of open files stays as it is")
        return {name: (files[name][-1], resident(pid), len(os.listdir(f"/proc/{pid}/task"))) for name, pid in pids.items()}

    def test_three_hundred_cold_starts(self):
        source = "import os\ndef handler(e, c):\n  if e.get('crash'): os._exit(1)\n  return e"
        for n, name in enumerate(self.names):
            self.worker.create_python(name, source, memory=64, tags={"lambent:gpu-memory": "16MiB"} if n % 2 else {})
        self.rounds(50)
        launcher, = launchers_of(self.worker)
        pids = {"worker": self.worker.process.pid, "launcher": launcher}
        before = self.counts_at_rest(pids)
        folders = len(cgroup_folders([launcher]))
        self.assertEqual(self.rounds(300), 300)
        after = self.counts_at_rest(pids)
        for name in pids:
            (files, memory, threads), (files_then, memory_then, threads_then) = before[name], after[name]
            self.assertLessEqual(files_then, files, name)
            self.assertLess(memory_then, memory + 16 * MIB, name)
            self.assertEqual(threads_then, threads, name)
        # Sandboxes that are just ending still have theirs.
        self.assertLessEqual(len(cgroup_folders([launcher])), folders + 12)
        self.assertLessEqual(len(list((self.worker.folder / "run").rglob("ledger-*"))), 2)
        # A pool of two for functions with a GPU, and one of two for those without.
        self.assertLessEqual(len(self.worker.sandboxes()), 4)

    def test_code_of_removed_functions_and_revisions_goes(self):
        source = "def handler(e, c): return %d"
        for n in range(30):
            self.worker.create_python("brief", source % n)
            self.assertEqual(self.worker.invoke("brief").json, n)
            self.worker.delete("brief")
        def code_files():
            return [path for path in self.worker.folder.rglob("app.py")]
        self.worker.wait_for(lambda: len(code_files()) <= 2, 20, f"that code is removed: {len(code_files())} left")


if __name__ == "__main__":
    unittest.main()
