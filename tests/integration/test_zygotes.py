"""Sandboxes of Python functions that are forked from a zygote, in a running worker: packages that this test writes, good and hostile
ones. ./dev test installs uv into .venv."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import HttpError, Worker, descendants, make_zip, zygote_probe
from python_wheels import write_wheel

OWN_UV = pathlib.Path(__file__).resolve().parents[2] / ".venv/bin/uv"
UV = shutil.which("uv") or str(OWN_UV)
SLOW = "import os, time\ntime.sleep(0.7)\nLOADED_BY = os.getpid()\nLOADED_AT = time.monotonic()\nSEEN = []\n"
HANDLER = """
import os, sys, random, threading, time
BEGAN = time.monotonic()
LOADED = sorted(m for m in ('slow', 'evil', 'json') if m in sys.modules)
def handler(event, context):
    if 'module' in event:
        __import__(event['module'])
    slow = sys.modules.get('slow')
    if slow:
        slow.SEEN.append(os.environ.get('TOKEN', ''))
    return {'pid': os.getpid(), 'loaded': LOADED, 'random': random.random(), 'token': os.environ.get('TOKEN'), 'name': os.environ['AWS_LAMBDA_FUNCTION_NAME'],
            'cwd': os.getcwd(), 'path': sys.path, 'argv': sys.argv[1:], 'seen': slow.SEEN if slow else None, 'threads': threading.active_count(),
            'after_load': BEGAN - slow.LOADED_AT if slow else None, 'files': sorted(os.listdir('/tmp'))}
"""


@unittest.skipUnless(zygote_probe(), "zygotes are not possible here")
class ZygotesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-zygotes-"))
        wheels = cls.folder / "wheels"
        wheels.mkdir()
        write_wheel(wheels, "slow", files={"slow/__init__.py": SLOW})
        write_wheel(wheels, "evil", files={"evil/__init__.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,), daemon=True).start()\n"})
        flags = ("--uv", UV, "--python-wheels", str(wheels), "--python-offline") if os.path.exists(UV) else ()
        cls.worker = Worker(*flags, gpu="none", folder=cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def deploy(self, name, requirements=None, preload=(), code=HANDLER, **more):
        files = {"app.py": code}
        if requirements is not None:
            files[".lambent/python.json"] = json.dumps({"requirements": requirements, "preload": list(preload)})
        created = self.worker.create(name, make_zip(files), **more)
        self.worker.wait_for(lambda: self.worker.request("GET", f"/2015-03-31/functions/{name}/configuration").json["State"] != "Pending", what="its packages")
        return created

    def events(self, event):
        return [json.loads(line) for line in self.worker.log().splitlines() if f'"{event}"' in line]

    def update(self, name, **variables):
        """A new revision: its next invocation is a cold start."""
        self.worker.request("PUT", f"/2015-03-31/functions/{name}/configuration", json.dumps({"Environment": {"Variables": variables}}))

    def ready(self, preload=""):
        """Zygotes that have become ready, of functions without packages or with this preload."""
        keys = [event["zygote"] for event in self.events("zygote_ready")]
        return sum(1 for key in keys if (key.endswith(" " + preload) if preload else key == "tenant 1"))

    def wait_for_zygote(self, before, preload=""):
        self.worker.wait_for(lambda: self.ready(preload) > before, what="a zygote")

    def zygote_processes(self):
        found = []
        for pid in descendants(self.worker.process.pid):
            try:
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"lambent_runtime.zygote" in line:
                found.append(pid)
        return found

    def test_a_second_cold_start_is_forked_and_is_the_functions_own(self):
        self.deploy("plain", environment={"TOKEN": "one"})
        before = self.ready()
        first = self.worker.invoke("plain", {}).json
        if not before:
            self.wait_for_zygote(0)
        forked = self.worker.metric("lambent_sandboxes_forked_total")
        self.update("plain", TOKEN="two")
        second = self.worker.invoke("plain", {}).json
        self.assertEqual(self.worker.metric("lambent_sandboxes_forked_total"), forked + 1, self.worker.log()[-2000:])
        self.assertEqual((first["token"], second["token"]), ("one", "two"))
        for same in ("cwd", "path", "argv", "name", "threads", "files"):
            self.assertEqual(first[same], second[same], same)

    def test_two_functions_of_one_environment_share_what_is_loaded_and_nothing_else(self):
        if not os.path.exists(UV):
            self.skipTest("there is no uv")
        before = self.ready("slow")
        self.deploy("left", ["slow"], ["slow"], environment={"TOKEN": "left-secret"})
        self.deploy("right", ["slow"], ["slow"], environment={"TOKEN": "right-secret"})
        self.worker.invoke("left", {"module": "slow"})
        self.wait_for_zygote(before, "slow")
        self.update("left", TOKEN="left-secret", MORE="1")
        answers = [self.worker.invoke(name, {"module": "slow"}).json for name in ("left", "right")]
        self.assertIn("slow", answers[0]["loaded"])
        self.assertEqual([answer["seen"] for answer in answers], [["left-secret"], ["right-secret"]])
        self.assertNotEqual(answers[0]["random"], answers[1]["random"])
        self.assertEqual([answer["files"] for answer in answers], [[], []])

    def test_secrets_are_not_in_a_zygote(self):
        self.deploy("secretive", environment={"TOKEN": "hide-me-5417"})
        before = self.ready()
        self.worker.invoke("secretive", {})
        if not before:
            self.wait_for_zygote(0)
        self.update("secretive", TOKEN="hide-me-5417", MORE="1")
        self.worker.invoke("secretive", {})
        looked = 0
        for pid in self.zygote_processes():
            try:
                cgroup = pathlib.Path(f"/proc/{pid}/status").read_text()
                memory = read_memory(pid)
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            is_fork = cgroup.split("NSpid:")[1].splitlines()[0].count("\t") > 2
            self.assertNotIn(b"hide-me-5417", environment)
            if not is_fork:
                looked += 1
                self.assertNotIn(b"hide-me-5417", memory)
        self.assertGreater(looked, 0)

    def test_hostile_packages_cost_their_function_its_zygote_alone(self):
        if not os.path.exists(UV):
            self.skipTest("there is no uv")
        self.deploy("hostile", ["evil"], ["evil"])
        self.worker.invoke("hostile", {"module": "evil"})
        self.worker.wait_for(lambda: any("starts threads" in event["why"] for event in self.events("zygote_failed")), what="a refusal")
        self.update("hostile", X="1")
        self.assertEqual(self.worker.invoke("hostile", {"module": "evil"}).json["threads"], 2)

    def test_a_killed_zygote_is_said_and_functions_start_without(self):
        if not os.path.exists(UV):
            self.skipTest("there is no uv")
        before = self.ready("slow")
        others = set(self.zygote_processes())
        self.deploy("orphan", ["slow", "evil"], ["slow"])
        self.worker.invoke("orphan", {})
        self.wait_for_zygote(before, "slow")
        failed = len(self.events("zygote_failed"))
        for pid in set(self.zygote_processes()) - others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.worker.wait_for(lambda: len(self.events("zygote_failed")) > failed, what="the failure")
        forked = self.worker.metric("lambent_sandboxes_forked_total")
        self.update("orphan", X="1")
        self.assertEqual(self.worker.invoke("orphan", {}).json["loaded"], ["json"])
        self.assertEqual(self.worker.metric("lambent_sandboxes_forked_total"), forked)

    def test_what_is_preloaded_outlives_the_worker(self):
        if not os.path.exists(UV):
            self.skipTest("there is no uv")
        self.deploy("lasting", ["slow", "evil"], ["slow", "json"])
        self.worker.stop()
        self.worker.start()
        self.worker.invoke("lasting", {})
        self.wait_for_zygote(0, "slow json")

    def test_what_cannot_be_a_module_is_refused(self):
        with self.assertRaises(HttpError) as caught:
            self.deploy("bad", [], ["os; print(1)"])
        self.assertEqual(caught.exception.status, 400)
        self.assertIn("is not the name of a module", caught.exception.body.decode())

    def test_without_zygotes_each_sandbox_starts_its_own_python(self):
        worker = Worker("--zygotes", "0", gpu="none")
        self.addCleanup(worker.close)
        worker.create_python("f", HANDLER)
        for number in range(3):
            worker.request("PUT", "/2015-03-31/functions/f/configuration", json.dumps({"Environment": {"Variables": {"TOKEN": str(number)}}}))
            self.assertEqual(worker.invoke("f", {}).json["token"], str(number))
        self.assertIn("lambent_sandboxes_forked_total 0", worker.metrics())

    def test_nothing_is_left_when_the_worker_ends(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        worker.create_python("f", HANDLER)
        worker.invoke("f", {})
        worker.wait_for(lambda: "zygote_ready" in worker.log(), what="a zygote")
        below = descendants(worker.process.pid)
        worker.kill()
        worker.wait_for(lambda: not [pid for pid in below if os.path.exists(f"/proc/{pid}/exe")], what="the end of all processes")


def read_memory(pid):
    """What a process has written, or may have."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, permissions = line.split()[:2]
            start, end = (int(each, 16) for each in span.split("-"))
            if not permissions.startswith("rw") or end - start > 256 << 20:
                continue
            try:
                memory.seek(start)
                found.append(memory.read(end - start))
            except OSError:
                continue
    return b"".join(found)


if __name__ == "__main__":
    unittest.main()
