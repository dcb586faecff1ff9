"""The three workflows among the examples through the whole worker: deployed by the CLI with their networks, and invoked as
the modelled device times them; and one of them with small networks, which compute. As a modelled device computes nothing, the
first three hold which calls were made, in which order, where, and for how long at least."""
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


PEAK = 15.7e12  # of a V100, in operations a second
# Of a network, by its paper: no device is faster than its peak.
OPERATIONS = {"ssd300": 62.7e9, "resnet50": 8.2e9, "alexnet": 1.4e9, "vgg16": 30.9e9, "densenet121": 5.7e9}


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
        self.run_id = reply.headers["x-amzn-requestid"]
        return reply.json

    def calls_of_last_run(self, on_host=()):
        """The calls by their names; each ran on the GPU for as long as its network takes at least, but those on the host."""
        trace = self.worker.request("GET", f"/v1/invocations/{self.run_id}/trace").json
        self.assertEqual((trace["state"], trace["calls_ended"]), ("succeeded", len(trace["calls"])))
        calls = {call["component"]: call for call in trace["calls"]}
        self.assertEqual(len(calls), len(trace["calls"]), "a component was called twice")
        for name, call in calls.items():
            with self.subTest(name):
                self.assertNotIn("failed", call)
                self.assertEqual(call.get("gpu"), None if name in on_host else 0)
                self.assertGreaterEqual(call["run_ms"], 1e3 * OPERATIONS.get(call["function"], 0) / PEAK)
                self.assertLessEqual(call["at_ms"] + call["took_ms"], trace["took_ms"] + 0.1)
        return calls

    def assert_after(self, calls, later, *earlier):
        for each in earlier:
            self.assertGreaterEqual(calls[later]["at_ms"], calls[each]["at_ms"] + calls[each]["took_ms"] - 0.1, (later, each))

    def test_traffic_looks_at_each_object(self):
        self.deploy(PREFIX / "examples/14_workflow_traffic")
        for cars, people in ((2, 1), (0, 0), (0, 3)):
            found = self.ask("traffic", {"frame": {"object": self.put(300)}, "found": {"cars": cars, "people": people}})
            self.assertEqual([len(found[key]) for key in ("cars", "plates", "people")], [cars, cars, people])
            calls = self.calls_of_last_run(on_host=("pick",))
            self.assertEqual({name: call["function"] for name, call in calls.items()},
                             {"detect": "ssd300", "pick": "pick_objects",
                              **{f"cars[{i}]": "resnet50" for i in range(cars)}, **{f"plates[{i}]": "alexnet" for i in range(cars)},
                              **{f"people[{i}]": "vgg16" for i in range(people)}})
            self.assert_after(calls, "pick", "detect")
            looks = [name for name in calls if "[" in name]
            for name in looks:
                self.assert_after(calls, name, "pick")
            # All of them were asked for at once.
            if looks:
                starts = [calls[name]["at_ms"] for name in looks]
                self.assertLess(max(starts), min(calls[name]["at_ms"] + calls[name]["took_ms"] for name in looks))
            for each in found["cars"] + found["plates"] + found["people"]:
                self.assertEqual(each["probabilities"]["shape"], [1, 1000])

    def test_image_processing_hands_on_a_picture(self):
        self.deploy(PREFIX / "examples/15_workflow_image")
        found = self.ask("image_processing", {"image": {"object": self.put(224)}})
        self.assertEqual(found["face"]["shape"], [1, 1000])
        self.assertEqual(self.client.get(found["image"]["object"]).shape, (3, 224, 224))
        calls = self.calls_of_last_run()
        self.assertEqual({name: call["function"] for name, call in calls.items()}, {"face": "vgg16", "enhance": "vdsr"})
        self.assert_after(calls, "enhance", "face")

    def test_a_post_is_translated_and_judged(self):
        self.deploy(PREFIX / "examples/16_workflow_social")
        tokens = {"datatype": "INT32", "shape": [32], "data": list(range(32))}
        found = self.ask("social_media", {"tokens": tokens, "segments": dict(tokens, data=[0] * 32),
                                          "image": {"object": self.put(224)}})
        # The verdict on scores of zero.
        self.assertEqual(found, {"kind": "first", "picture_class": 0, "sure": 0})
        calls = self.calls_of_last_run(on_host=("verdict",))
        self.assertEqual({name: call["function"] for name, call in calls.items()},
                         {"translate": "translate", "text": "post_kind", "picture": "densenet121", "verdict": "post_verdict"})
        self.assert_after(calls, "text", "translate")
        self.assert_after(calls, "verdict", "text", "picture")
        # The picture does not wait for the text.
        self.assertLess(calls["picture"]["at_ms"], calls["translate"]["at_ms"] + calls["translate"]["took_ms"])

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
