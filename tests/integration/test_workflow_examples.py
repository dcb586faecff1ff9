"""The three workflows among the examples through the whole worker: deployed by the CLI with their networks, and invoked as
the modelled device times them; then all three with the same networks made narrow, with weights from a seed, which compute. As a modelled
device computes nothing, the first three hold which calls were made, in which order, where, and for how long at least."""
import array
import importlib.util
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from harness import PREFIX, WorkerTest
from test_kernel_examples import example

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402


PEAK = 15.7e12  # of a V100, in operations a second
# Of a network, by its paper: no device is faster than its peak.
OPERATIONS = {"ssd300": 62.7e9, "resnet50": 8.2e9, "alexnet": 1.4e9, "vgg16": 30.9e9, "densenet121": 5.7e9}


# Their inputs are as large as ever, their layers few and narrow. SSD's maps are those of the paper, for which `pick` is written.
NARROW_VGG = ((2, 2), (1, 2), (1, 3), (1, 3), (1, 4))


def narrow_networks(models):
    """By name: a network that computes in milliseconds on an emulated device."""
    return {"ssd300": lambda: models.ssd300(300, NARROW_VGG, 6, ((2, 4, 2, 1), (2, 4, 2, 1), (2, 4, 1, 0), (2, 4, 1, 0)), weights=weights_of("ssd300")),
            "resnet50": lambda: models.resnet50(224, 2, (1, 1, 1, 1), 6, weights_of("resnet50")),
            "alexnet": lambda: models.alexnet(224, (3, 4, 4, 4, 4), 8, 6, weights_of("alexnet")),
            "vgg16": lambda: models.vgg16(224, NARROW_VGG, 8, 6, weights_of("vgg16")),
            "vdsr": lambda: models.vdsr(224, 2, 3, weights_of("vdsr")),
            "densenet121": lambda: models.densenet121(224, 2, (1, 1, 1, 1), 6, weights_of("densenet121")),
            "translate": lambda: models.translate(32, 1, 16, 2, 40, weights_of("translate")),
            "post_kind": lambda: models.bert(32, 1, 16, 2, 40, 32, weights_of("post_kind"), "post_kind", 1)}


def weights_of(network):
    """Numbers of such a spread that what a layer gives is as large as what it takes."""
    def weights(name, shape):
        some, count = random.Random(f"{network} {name}"), 1
        for extent in shape:
            count *= extent
        around = 1.0 if name.endswith(".scale") else 0.0
        alone = len(shape) == 1 or name in ("words", "positions", "kinds")
        spread = 0.2 if len(shape) == 1 else 1.0 if alone else (6 / (count // shape[0])) ** 0.5
        if (network, name) == ("densenet121", "classes.weights"):
            spread *= 5  # its means over a picture hardly differ
        numbers = array.array("f", [around + some.uniform(-spread, spread) for _ in range(count)])
        return biased(name, numbers) if network == "ssd300" and name.startswith("boxes") and name.endswith(".bias") else numbers
    return weights


def biased(name, numbers):
    """Of a detector's last layers: the background is likely, but for a car or a person in one box of each place of the last two maps."""
    for box in range(len(numbers) // 25):
        likely = 15 if name[5] in "45" and box == 1 else 7 if name[5] in "45" and box == 0 else 0
        numbers[25 * box + likely] += 12 if likely == 0 else 5
    return numbers


def module_of(path):
    specification = importlib.util.spec_from_file_location(path.parent.name, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def picture(size, seed=0):
    some = random.Random(size + seed)
    return array.array("f", [some.uniform(0, 1 + 4 * seed) for _ in range(3 * size * size)])


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

    def put(self, size, seed=0):
        return self.client.put(picture(size, seed), datatype="FP32", shape=(3, size, size)).id

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


class WorkflowsThatCompute(WorkflowWorker):
    """The files of the examples, with narrow networks under the names that they call: a run gives what its networks give one by one."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-workflows-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        # The kernels of all networks, compiled once.
        source = pathlib.Path(__file__).resolve().parents[2] / "examples/11_kernel_models/layers.cu"
        subprocess.run([PREFIX / "bin/lambent-bundle", "build", source, "-o", cls.folder / "layers"], check=True, capture_output=True)

    def deploy_computing(self, name):
        """The example's workflow and its handlers as they are, and beside them networks with weights."""
        made = narrow_networks(example("11_kernel_models"))
        folder = self.folder / name
        folder.mkdir()
        for entry in (PREFIX / "examples" / name).iterdir():
            target = folder / entry.name
            if entry.name in made:
                graph = made[entry.name]()
                self.assertEqual(graph.name, entry.name)
                graph.save(target, launch_mode="compute")
                manifest = (target / "lambent.toml").read_text()
                (target / "lambent.toml").write_text(manifest.replace('sources = ["layers.cu"]', 'bundles = ["../../layers"]'))
            elif entry.is_dir():
                shutil.copytree(entry, target)
            else:
                shutil.copy(entry, target)
        self.deploy(folder)

    def alone(self, name, **inputs):
        """Of a network by itself: the numbers of its first output. inputs: (datatype, shape, numbers)."""
        given = [{"name": key, "datatype": datatype, "shape": list(shape), "data": list(numbers)} for key, (datatype, shape, numbers) in inputs.items()]
        return self.ask(name, {"inputs": given})["outputs"][0]["data"]

    def assert_close(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            self.assertAlmostEqual(one, other, places=4)

    def test_what_is_found_in_a_frame_is_looked_at(self):
        self.deploy_computing("14_workflow_traffic")
        pick = module_of(PREFIX / "examples/14_workflow_traffic/pick/app.py")
        answers = []
        for seed in (0, 1):
            answers.append(self.ask("traffic", {"frame": {"object": self.put(300, seed)}}))
            frame = picture(300, seed)
            found = pick.detections(self.alone("ssd300", image=("FP32", (3, 300, 300), frame)))
            crops = {kind: [pick.crop(frame, 300, box) for _, each, box in found if each == kind] for kind in (pick.CAR, pick.PERSON)}
            self.assertTrue(crops[pick.CAR] and crops[pick.PERSON], "the detector finds nothing")
            for network, key, kind in (("resnet50", "cars", pick.CAR), ("alexnet", "plates", pick.CAR), ("vgg16", "people", pick.PERSON)):
                self.assertEqual(len(answers[-1][key]), len(crops[kind]))
                for answer, crop in zip(answers[-1][key], crops[kind]):
                    self.assert_close(answer["probabilities"]["data"], self.alone(network, image=("FP32", (3, 224, 224), crop)))
                    self.assertAlmostEqual(sum(answer["probabilities"]["data"]), 1, places=4)
        self.assertNotEqual(answers[0], answers[1], "what is computed depends on the frame")

    def test_a_picture_becomes_sharper_and_its_face_is_told(self):
        self.deploy_computing("15_workflow_image")
        found = self.ask("image_processing", {"image": {"object": self.put(224)}})
        image = ("FP32", (3, 224, 224), picture(224))
        self.assert_close(found["face"]["data"], self.alone("vgg16", image=image))
        sharper = self.client.get(found["image"]["object"])
        self.assert_close(list(memoryview(bytes(sharper)).cast("f")), self.alone("vdsr", image=image))

    def test_a_post_is_understood(self):
        self.deploy_computing("16_workflow_social")
        segments = ("INT32", (32,), [0] * 32)
        verdicts, translations = [], set()
        for seed in range(3):
            some = random.Random(seed)
            words = [some.randrange(40) for _ in range(32)]
            tokens = {"datatype": "INT32", "shape": [32], "data": words}
            verdicts.append(self.ask("social_media", {"tokens": tokens, "segments": dict(tokens, data=[0] * 32),
                                                      "image": {"object": self.put(224, seed)}}))
            translated = self.alone("translate", tokens=("INT32", (32,), words))
            translations.add(tuple(translated))
            text = self.alone("post_kind", tokens=("INT32", (32,), translated), segments=segments)
            classes = self.alone("densenet121", image=("FP32", (3, 224, 224), picture(224, seed)))
            best = max(range(len(classes)), key=classes.__getitem__)
            self.assertEqual((verdicts[-1]["kind"], verdicts[-1]["picture_class"]), ("first" if text[0] >= text[1] else "second", best))
            self.assertAlmostEqual(verdicts[-1]["sure"], classes[best], places=3)
        self.assertGreater(len({verdict["sure"] for verdict in verdicts}), 1, "what is computed depends on the picture")
        self.assertGreater(len(translations), 1, "and on the words")
