"""The three workflows among the examples through the whole worker: deployed by the CLI with their networks, and invoked as
the modelled device times them; and one of them with small networks, which compute."""
import array
import os
import random
import subprocess
import sys
import tempfile

from harness import PREFIX, WorkerTest
from test_kernel_examples import example

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402
from lambent.workflow import Workflow  # noqa: E402


def picture(size):
    some = random.Random(size)
    return array.array("f", [some.uniform(0, 1) for _ in range(3 * size * size)])


class WorkflowExamples(WorkerTest):
    gpu = "emulated:v100-16gb"
    flags = ("--concurrency", "8")

    def setUp(self):
        self.client = Client(self.worker.endpoint)
        self.addCleanup(self.client.close)

    def deploy(self, folder):
        run = subprocess.run([PREFIX / "bin/lambent", "deploy", folder], capture_output=True, text=True, check=False,
                             env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
        self.assertEqual(run.returncode, 0, run.stderr)

    def put(self, size):
        return self.client.put(picture(size), datatype="FP32", shape=(3, size, size)).id

    def ask(self, name, event):
        reply = self.worker.invoke(name, event)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body[:1000])
        return reply.json

    def test_traffic_looks_at_each_object(self):
        self.deploy(PREFIX / "examples/14_workflow_traffic")
        for cars, people in ((2, 1), (0, 0), (0, 3)):
            found = self.ask("traffic", {"frame": {"object": self.put(300)}, "found": {"cars": cars, "people": people}})
            self.assertEqual([len(found[key]) for key in ("cars", "plates", "people")], [cars, cars, people])
            for each in found["cars"] + found["plates"] + found["people"]:
                self.assertEqual(each["probabilities"]["shape"], [1, 1000])

    def test_image_processing_hands_on_a_picture(self):
        self.deploy(PREFIX / "examples/15_workflow_image")
        found = self.ask("image_processing", {"image": {"object": self.put(224)}})
        self.assertEqual(found["face"]["shape"], [1, 1000])
        self.assertEqual(self.client.get(found["image"]["object"]).shape, (3, 224, 224))

    def test_a_post_is_translated_and_judged(self):
        self.deploy(PREFIX / "examples/16_workflow_social")
        tokens = {"datatype": "INT32", "shape": [32], "data": list(range(32))}
        found = self.ask("social_media", {"tokens": tokens, "segments": dict(tokens, data=[0] * 32),
                                          "image": {"object": self.put(224)}})
        self.assertEqual(set(found), {"kind", "picture_class", "sure"})

    def test_small_networks_compute_in_a_workflow_what_they_compute_alone(self):
        models, size = example("11_kernel_models"), 12

        def weights(name, shape):
            some, count = random.Random(name), 1
            for extent in shape:
                count *= extent
            return array.array("f", [some.uniform(-0.5, 0.5) for _ in range(count)])

        with tempfile.TemporaryDirectory() as folder:
            for name, graph in (("faces", models.vgg16(size, ((1, 2), (2, 3)), 6, 4, weights)),
                                ("enhance", models.vdsr(size, 2, 3, weights))):
                graph.name = name
                graph.save(os.path.join(folder, name), launch_mode="compute")
                self.deploy(os.path.join(folder, name))
            flow = Workflow("small")
            sharper = flow.call("enhance", {"image": flow.input.image})
            face = flow.call("faces", {"image": sharper.image_out}, inline=True)
            flow.output({"face": face.probabilities})
            flow.save(os.path.join(folder, "small"))
            self.deploy(os.path.join(folder, "small"))
        alone = {"name": "image", "datatype": "FP32", "shape": [3, size, size], "data": list(picture(size))}
        for name, output in (("enhance", "image_out"), ("faces", "probabilities")):
            outputs = self.ask(name, {"inputs": [alone]})["outputs"]
            self.assertEqual(outputs[0]["name"], output)
            alone = dict(alone, data=outputs[0]["data"])
        found = self.ask("small", {"image": {"object": self.put(size)}})["face"]["data"]
        self.assertEqual(len(found), 4)
        for one, other in zip(found, alone["data"]):
            self.assertAlmostEqual(one, other, places=5)
        self.assertAlmostEqual(sum(found), 1, places=5)
