"""The paper's three workflows with every network a handler in a sandbox (example 27): they share one GPU runtime, hand tensors on at
their addresses and have one copy of their weights; and the same without a shared runtime, where all of it goes over the host."""
import importlib.util
import os
import pathlib
import subprocess
import tempfile

from harness import PREFIX, WorkerTest
from test_workflow_examples import picture

ROOT = pathlib.Path(__file__).resolve().parents[2]
MB = 1_000_000


class SharedRuntimeExample(WorkerTest):
    gpu = "emulated:v100-16gb"
    flags = ("--concurrency", "8", "--memory-scale", "16", "--time-scale", "4")

    def deploy(self, folder):
        run = subprocess.run([PREFIX / "bin/lambent", "deploy", folder], capture_output=True, text=True, check=False,
                             env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
        self.assertEqual(run.returncode, 0, run.stderr)

    def put(self, size):
        reply = self.worker.request("POST", f"/v1/objects?datatype=FP32&shape=3,{size},{size}", picture(size).tobytes())
        return {"object": reply.json["object"]}

    def ask(self, name, event):
        reply = self.worker.invoke(name, event)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body[:1000])
        return reply.json

    def sandboxes(self):
        """Bytes of device memory that a function's sandboxes hold together."""
        held = {}
        for each in self.worker.sandboxes():
            held[each["function"]] = held.get(each["function"], 0) + each["device_memory_bytes"]
        return held

    def test_traffic_hands_its_pictures_to_as_many_networks_as_there_are_objects(self):
        self.deploy(PREFIX / "examples/27_shared_runtime/traffic")
        for cars, people in ((2, 1), (0, 3), (0, 0)):
            found = self.ask("handler_traffic", {"frame": self.put(300), "cars": list(range(cars)), "people": list(range(people)),
                                                 "reads": {"cars": 2 * cars, "people": people}})
            self.assertEqual([len(found[key]) for key in ("cars", "plates", "people")], [cars, cars, people])
            for each in found["cars"] + found["plates"] + found["people"]:
                self.assertEqual(each["probabilities"], {"best": 0, "score": 0})
        # What was handed on has gone, as each function's last call found: only weights are left, of each network once, however many
        # sandboxes it has.
        for network, weights in (("ssd300", 105.1), ("resnet50", 127.7), ("alexnet", 244.4), ("vgg16", 553.4)):
            self.assertLess(self.sandboxes()[f"handler_traffic_{network}"], (weights + 2) * MB, network)
        self.assertIn('lambent_executors{gpu="0"} 1\n', self.worker.metrics())

    def test_one_network_of_two_workflows_has_its_weights_once(self):
        for workflow in "image", "traffic":
            self.deploy(PREFIX / f"examples/27_shared_runtime/{workflow}")
        found = self.ask("handler_image", {"image": self.put(224)})
        self.assertEqual(found["face"], {"best": 0, "score": 0})
        self.assertIn("object", found["image"])
        self.ask("handler_traffic", {"frame": self.put(300), "cars": [], "people": [0], "reads": {"cars": 0, "people": 1}})
        held = self.sandboxes()
        of_vgg = [used for name, used in held.items() if name.endswith("_vgg16")]
        self.assertLess(sum(of_vgg), 1.5 * 553.4 * MB, held)

    def test_a_post_is_judged(self):
        self.deploy(PREFIX / "examples/27_shared_runtime/social")
        found = self.ask("handler_social", {"tokens": self.put(32), "image": self.put(224)})
        self.assertEqual(found, {"text": {"best": 0, "score": 0}, "picture": {"best": 0, "score": 0}, "other": {"best": 0, "score": 0}})

    def test_without_a_shared_runtime_the_same_goes_over_the_host(self):
        specification = importlib.util.spec_from_file_location("build", ROOT / "examples/27_shared_runtime/build.py")
        build = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(build)
        with tempfile.TemporaryDirectory() as folder:
            build.main([folder, "image", "--runtime", "own", "--prefix", "own_", "--kernels", str(PREFIX / "share/lambent/kernels")])
            self.deploy(os.path.join(folder, "image"))
        before = self.worker.metrics().count('lambent_executors{gpu="0"} 1\n')
        found = self.ask("own_image", {"image": self.put(224)})
        self.assertEqual(set(found["face"]), {"best", "score"})
        self.assertIn("object", found["image"])
        self.assertEqual(self.worker.metrics().count('lambent_executors{gpu="0"} 1\n'), before)
