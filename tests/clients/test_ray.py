"""lambent.ray with Ray itself, on one machine: two nodes of Ray, a worker for each, and what is left when the agents or Ray end.
All nodes have one address and one /dev/shm here, so that this tests joining, calls and death, and no network."""
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import unittest
import urllib.request

from harness import PREFIX, make_zip

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "python"
HAS_RAY = importlib.util.find_spec("ray") is not None

ECHO = """
def handler(event, context):
    if event.get("fail"):
        raise ValueError("asked to")
    return {"sum": sum(event["numbers"])}
"""


def invoke(address, function, event):
    request = urllib.request.Request(f"{address}/2015-03-31/functions/{function}/invocations", json.dumps(event).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@unittest.skipUnless(HAS_RAY, "ray is not installed: ./dev test --all installs it")
class OnRay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(SOURCE))
        # Processes of Ray find the package by this.
        os.environ["PYTHONPATH"] = f"{SOURCE}:{os.environ.get('PYTHONPATH', '')}"
        os.environ["RAY_DISABLE_MEMORY_MONITOR"] = "1"
        os.environ["RAY_ENABLE_METRICS_COLLECTION"] = "0"
        import ray
        from ray.cluster_utils import Cluster

        import lambent.ray
        cls.ray, cls.lambent = ray, lambent.ray
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-ray-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.addClassCleanup(cls.end_workers)
        (cls.folder / "key").write_text("r" * 40)
        sizes = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 80 << 20}
        cls.of_ray = Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False})
        cls.addClassCleanup(cls.of_ray.shutdown)
        cls.of_ray.add_node(**sizes)
        ray.init(address=cls.of_ray.address, namespace="test", log_to_driver=False)
        cls.addClassCleanup(ray.shutdown)
        serve = [str(PREFIX / "bin/lambent-worker"), "--cluster-key", str(cls.folder / "key"), "--node-name", "ray-{node}",
                 "--state", str(cls.folder / "{node}"), "--run", str(cls.folder / "{node}/run"), "--listen", "127.0.0.1:0",
                 "--gpu", "emulated:tiny"]
        cls.cluster = lambent.ray.start(str(cls.folder / "key"), state=str(cls.folder), serve=serve, timeout=90)
        cls.cluster.wait_until_up(60)
        cls.addresses = [member["address"] for member in cls.cluster.status()[0]["cluster"]["members"]]
        code = make_zip({"app.py": ECHO})
        body = {"FunctionName": "total", "Runtime": "python3.11", "Handler": "app.handler", "Role": "x",
                "Code": {"ZipFile": __import__("base64").b64encode(code).decode()}}
        request = urllib.request.Request(cls.addresses[0] + "/2015-03-31/functions", json.dumps(body).encode())
        urllib.request.urlopen(request, timeout=30).close()

    @classmethod
    def workers(cls):
        """Their process ids, as the kernel knows them by what they were started with."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"bin/lambent-worker") and str(cls.folder).encode() in b" ".join(words):
                found.append(int(entry.parent.name))
        return sorted(found)

    @classmethod
    def end_workers(cls):
        for process in cls.workers():
            os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + 40
        while cls.workers() and time.monotonic() < deadline:
            time.sleep(0.1)

    def wait_for(self, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), deadline, "it did not happen in time")
            time.sleep(0.2)

    def test_1_every_node_of_ray_has_a_worker_and_its_gpus_are_ours(self):
        for status in self.cluster.status():
            self.assertEqual([member["state"] for member in status["cluster"]["members"]], ["up", "up"])
            self.assertEqual(len(status["gpus"]), 1)
        self.assertEqual(len({status["cluster"]["home"] for status in self.cluster.status()}), 1)
        self.wait_for(lambda: self.ray.available_resources().get("GPU", 0) == 0)
        self.assertEqual(len(self.workers()), 2)

    def test_2_functions_take_what_tasks_of_ray_make(self):
        @self.ray.remote(num_cpus=0.1)
        def numbers(count):
            time.sleep(0.5)
            return {"numbers": list(range(count))}

        @self.ray.remote(num_cpus=0.1)
        def double(answer):
            return 2 * answer["sum"]

        total = self.lambent.function("total")
        begin = time.monotonic()
        made = numbers.remote(5)
        answer = double.remote(total.remote(made))  # nothing has been waited for
        self.assertLess(time.monotonic() - begin, 0.5)
        self.assertEqual(self.ray.get(answer, timeout=60), 20)
        self.assertEqual(self.ray.get(total.remote({"numbers": [1, 2]}), timeout=60), {"sum": 3})
        self.assertEqual(self.ray.get(total.remote(b'{"numbers": [4]}'), timeout=60), {"sum": 4})

    def test_3_failures_are_errors_of_ray_and_ours(self):
        from lambent.errors import FunctionError, LambentError
        total = self.lambent.function("total")
        with self.assertRaises(self.ray.exceptions.RayTaskError) as caught:
            self.ray.get(total.remote({"fail": True}), timeout=60)
        self.assertIsInstance(caught.exception, FunctionError)
        self.assertIn("asked to", str(caught.exception))
        with self.assertRaises(LambentError):
            self.ray.get(self.lambent.function("nothing").remote({}), timeout=60)

        @self.ray.remote(num_cpus=0.1)
        def broken():
            raise RuntimeError("before")

        with self.assertRaises(RuntimeError):
            self.ray.get(total.remote(broken.remote()), timeout=60)

    def test_4_an_agent_that_is_killed_takes_no_worker_with_it_and_comes_back(self):
        before = self.workers()
        status = self.cluster.status()[0]
        os.kill(status["pid"], signal.SIGKILL)
        for address in self.addresses:
            self.assertEqual(invoke(address, "total", {"numbers": [1]}), {"sum": 1})

        def is_back():
            try:
                return self.cluster.status()[0]["pid"] != status["pid"]
            except self.ray.exceptions.RayError:
                return False
        self.wait_for(is_back)
        self.assertEqual(self.workers(), before)
        self.assertEqual(self.ray.get(self.lambent.function("total").remote({"numbers": [2]}), timeout=60), {"sum": 2})

    def test_5_a_second_start_finds_what_is_there(self):
        before = self.workers()
        again = self.lambent.start(str(self.folder / "key"), state=str(self.folder), serve=[], timeout=60)
        self.assertEqual({each["pid"] for each in again.status()}, {each["pid"] for each in self.cluster.status()})
        self.assertEqual(self.workers(), before)

    def test_6_without_ray_the_workers_go_on(self):
        before = self.workers()
        self.ray.shutdown()
        self.of_ray.shutdown()
        time.sleep(self.lambent.LEASE + 2)  # nobody tells them who is a member any more
        self.assertEqual(self.workers(), before)
        for address in self.addresses:
            self.assertEqual(invoke(address, "total", {"numbers": [1, 1]}), {"sum": 2})
            with urllib.request.urlopen(address + "/v1/cluster", timeout=10) as answer:
                states = [member["state"] for member in json.load(answer)["members"]]
            self.assertEqual(states, ["up", "up"])


if __name__ == "__main__":
    unittest.main()
