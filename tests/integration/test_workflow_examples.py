"""The three workflows among the examples through the whole worker, deployed by the CLI with their networks. First those of true
shape, as the modelled device times them: it computes nothing, so that they hold which calls were made, in which order, where, and for
how long at least. Then the small ones, which compute: their answers are what the networks' definitions give, one after the other."""
import array
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from harness import PREFIX, WorkerTest
from test_kernel_examples import EXAMPLES, example, module_of

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402


PEAK = 15.7e12  # of a V100, in operations a second
# Of a network, by its paper: no device is faster than its peak.
OPERATIONS = {"ssd300": 62.7e9, "resnet50": 8.2e9, "alexnet": 1.4e9, "vgg16": 30.9e9, "densenet121": 5.7e9}


def picture(size):
    some = random.Random(size)
    return array.array("f", [some.uniform(0, 1) for _ in range(3 * size * size)])


def tinted(seed):
    """64 x 64 pixels, each colour as bright as the seed says."""
    some = random.Random(f"64 {seed}")
    tint = [some.uniform(0, 2) for _ in range(3)]
    return array.array("f", [most * some.random() for most in tint for _ in range(64 * 64)])


def frame(seed, cars, people):
    """150 x 150 pixels, dim ones but for a red spot for each car and a blue one for each person. spots: (row, column, how bright), each
    within one of the 19 x 19 places that the detector's first map has."""
    some, side = random.Random(seed), 150
    pixels = array.array("f", [some.uniform(0, 0.4) for _ in range(3 * side * side)])
    for colour, spots in ((0, cars), (2, people)):
        for row, column, bright in spots:
            for y in range(8 * row + 1, 8 * row + 5):
                for x in range(8 * column + 1, 8 * column + 5):
                    for channel in range(3):
                        pixels[(channel * side + y) * side + x] = bright if channel == colour else 0
    return pixels


class WorkflowWorker(WorkerTest):
    gpu = "emulated:v100-16gb"
    flags = ("--concurrency", "8")

    def setUp(self):
        self.client = Client(self.worker.endpoint)
        self.addCleanup(self.client.close)

    def deploy(self, folder):
        run = subprocess.run([PREFIX / "bin/lambent", "deploy", folder], capture_output=True, text=True, check=False,
                             env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
        self.assertEqual(run.returncode, 0, run.stderr)

    def put(self, size, pixels=None):
        return {"object": self.client.put(pixels or picture(size), datatype="FP32", shape=(3, size, size)).id}

    def ask(self, name, event):
        reply = self.worker.invoke(name, event)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body[:1000])
        self.run_id = reply.headers["x-amzn-requestid"]
        return reply.json


class WorkflowExamples(WorkflowWorker):
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
            found = self.ask("traffic", {"frame": self.put(300), "found": {"cars": cars, "people": people}})
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
        found = self.ask("image_processing", {"image": self.put(224)})
        self.assertEqual(found["face"]["shape"], [1, 1000])
        self.assertEqual(self.client.get(found["image"]["object"]).shape, (3, 224, 224))
        calls = self.calls_of_last_run()
        self.assertEqual({name: call["function"] for name, call in calls.items()}, {"face": "vgg16", "enhance": "vdsr"})
        self.assert_after(calls, "enhance", "face")

    def test_a_post_is_translated_and_judged(self):
        self.deploy(PREFIX / "examples/16_workflow_social")
        tokens = {"datatype": "INT32", "shape": [32], "data": list(range(32))}
        found = self.ask("social_media", {"tokens": tokens, "segments": dict(tokens, data=[0] * 32),
                                          "image": self.put(224)})
        # The verdict on scores of zero.
        self.assertEqual(found, {"kind": "first", "picture_class": 0, "sure": 0})
        calls = self.calls_of_last_run(on_host=("verdict",))
        self.assertEqual({name: call["function"] for name, call in calls.items()},
                         {"translate": "translate", "text": "post_kind", "picture": "densenet121", "verdict": "post_verdict"})
        self.assert_after(calls, "text", "translate")
        self.assert_after(calls, "verdict", "text", "picture")
        # The picture does not wait for the text.
        self.assertLess(calls["picture"]["at_ms"], calls["translate"]["at_ms"] + calls["translate"]["took_ms"])


class WorkflowsThatCompute(WorkflowWorker):
    """The small forms of the examples."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-workflows-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        # The kernels of all networks, compiled once.
        subprocess.run([PREFIX / "bin/lambent-bundle", "build", EXAMPLES / "11_kernel_models/layers.cu", "-o", cls.folder / "layers"],
                       check=True, capture_output=True)
        cls.models = example("11_kernel_models")
        cls.reference = example("11_kernel_models", "reference")

    def deploy_small(self, name):
        """The example as it is, but for the kernels."""
        folder = self.folder / name
        shutil.copytree(PREFIX / "examples" / f"{name}_small", folder)
        networks = [path.parent for path in folder.glob("*/graph.json")]
        for network in networks:
            manifest = (network / "lambent.toml").read_text()
            self.assertIn('sources = ["layers.cu"]', manifest)
            (network / "lambent.toml").write_text(manifest.replace('sources = ["layers.cu"]', 'bundles = ["../../layers"]'))
        self.assertTrue(networks)
        self.deploy(folder)

    def expected(self, network, *inputs):
        """What the network's definition makes of these numbers."""
        weights = self.models.seeded(network, 0)
        return getattr(self.reference, network)(weights, *inputs, **self.models.SMALL[network])

    def assert_close(self, found, expected):
        self.assertEqual(len(found), len(expected))
        delta = 2e-4 * max(map(abs, expected))
        for one, other in zip(found, expected):
            self.assertAlmostEqual(one, other, delta=delta)

    def test_what_is_found_in_a_frame_is_looked_at(self):
        self.deploy_small("14_workflow_traffic")
        pick = module_of(PREFIX / "examples/14_workflow_traffic_small/pick/app.py")
        for seed, cars, people in ((0, [(3, 4, 1.0), (10, 15, 1.2)], [(12, 2, 1.1)]), (1, [], [(6, 9, 1.1), (16, 12, 1.0)])):
            pixels = frame(seed, cars, people)
            answer = self.ask("traffic", {"frame": self.put(150, pixels)})
            self.assertEqual([len(answer[key]) for key in ("cars", "plates", "people")], [len(cars), len(cars), len(people)])
            found = pick.detections(self.expected("ssd300", pixels), pick.SMALL_MAPS, frame=150)
            for kind, key, network in ((pick.CAR, "cars", "resnet50"), (pick.CAR, "plates", "alexnet"), (pick.PERSON, "people", "vgg16")):
                crops = [pick.crop(pixels, 150, box, 64) for _, each, box in found if each == kind]
                self.assertEqual(len(answer[key]), len(crops))
                for one, crop in zip(answer[key], crops):
                    self.assert_close(one["probabilities"]["data"], self.expected(network, crop))
        nothing = {"frame": self.put(150, frame(2, [], []))}
        self.assertEqual(self.ask("traffic", nothing), {"cars": [], "plates": [], "people": []})
        # What is in a frame is not for the request to say here.
        refused = self.worker.invoke("traffic", {**nothing, "found": {"cars": 1}})
        self.assertIn("'found' is for modelled networks", refused.body.decode())

    def test_a_picture_becomes_sharper_and_its_face_is_told(self):
        self.deploy_small("15_workflow_image")
        labels = set()
        for image in tinted(0), tinted(2):
            found = self.ask("image_processing", {"image": self.put(64, image)})
            expected = self.expected("vgg16", image)
            self.assert_close(found["face"]["data"], expected)
            self.assertEqual(label(found["face"]["data"]), label(expected))
            sharper = self.client.get(found["image"]["object"])
            self.assert_close(list(memoryview(bytes(sharper)).cast("f")), self.expected("vdsr", image))
            labels.add(label(expected))
        self.assertEqual(len(labels), 2, "whose face it is depends on the picture")

    def test_a_post_is_understood(self):
        self.deploy_small("16_workflow_social")
        verdicts = []
        # Two kinds of texts, and two classes of pictures.
        for seed, image in ((1, tinted(0)), (2, tinted(6))):
            some = random.Random(seed)
            words = [some.randrange(1000) for _ in range(32)]
            tokens = {"datatype": "INT32", "shape": [32], "data": words}
            found = self.ask("social_media", {"tokens": tokens, "segments": dict(tokens, data=[0] * 32), "image": self.put(64, image)})
            text = self.expected("post_kind", self.expected("translate", words), [0] * 32)
            classes = self.expected("densenet121", image)
            verdicts.append(("first" if text[0] >= text[1] else "second", label(classes)))
            self.assertEqual((found["kind"], found["picture_class"]), verdicts[-1])
            self.assertAlmostEqual(found["sure"], max(classes), delta=1e-4)  # of four digits
        self.assertEqual([len(set(each)) for each in zip(*verdicts)], [2, 2], "it depends on the words and on the picture")


def label(probabilities):
    return max(range(len(probabilities)), key=probabilities.__getitem__)
