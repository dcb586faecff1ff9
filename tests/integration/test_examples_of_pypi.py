"""Examples with packages of PyPI, deployed and asked as their pages have it: ./dev test --all only, because they are fetched."""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import HttpError, Worker
from test_python_packages import LAMBENT, UV

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
LABELS = ["circle", "cross", "square", "triangle"]


class ExamplesOfPyPITest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-examples-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.worker = Worker("--uv", UV, gpu="none", folder=cls.folder)
        cls.addClassCleanup(cls.worker.close)
        # Beside each other, because one takes a file of the other.
        for name in ("20_python_packages", "21_model", "23_fastapi_handler", "34_image_classifier"):
            shutil.copytree(EXAMPLES / name, cls.folder / name)

    def deploy(self, path):
        done = subprocess.run([LAMBENT, "deploy", str(self.folder / path), "--endpoint", self.worker.endpoint], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def make_shapes(self):
        if not (self.folder / "shapes").exists():
            done = subprocess.run([UV, "run", "--quiet", "--no-project", "--python", sys.executable, "--with", "numpy", "python", "-B",
                                   str(self.folder / "34_image_classifier/make_model.py"), str(self.folder / "shapes")],
                                  capture_output=True, text=True, env={**os.environ, "UV_CACHE_DIR": str(self.folder / "cache")})
            self.assertRegex(done.stdout, r"it knows 9\d\.\d %", done.stderr)

    def classify(self, function):
        found = []
        for label in LABELS:
            picture = (self.folder / "shapes/pictures" / (label + ".png")).read_bytes()
            answer = self.worker.invoke(function, {"image": base64.b64encode(picture).decode()}, timeout=120).json
            self.assertGreater(answer["probabilities"][answer["label"]], 0.9)
            found.append(answer["label"])
        return found

    def test_a_model_that_is_a_file_answers_by_the_inference_protocol(self):
        subprocess.run([sys.executable, "-B", str(self.folder / "21_model/write_model.py")], check=True)
        self.deploy("21_model")
        tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
        answer = self.worker.request("POST", "/v2/models/scores/infer", json.dumps({"inputs": [tensor]}).encode())
        self.assertEqual((answer.status, answer.json["outputs"][0]["data"]), (200, [60.0, 70.0, 80.0]), answer.body)

    def test_fastapi_behind_a_handler_has_its_pages(self):
        self.deploy("23_fastapi_handler")
        self.assertEqual(self.worker.request("GET", "/f/shop/fruits").json, ["apple", "pear"])
        order = self.worker.request("POST", "/f/shop/orders", b'{"fruit": "pear", "count": 4}', {"Content-Type": "application/json"})
        self.assertEqual((order.status, order.json), (201, {"price": 3.0}))
        with self.assertRaises(HttpError) as caught:
            self.worker.request("POST", "/f/shop/orders", b'{"fruit": "plum"}', {"Content-Type": "application/json"})
        self.assertEqual((caught.exception.status, caught.exception.json), (404, {"detail": "there are no plums"}))

    def test_the_image_classifier_knows_its_pictures_by_onnxruntime_and_as_a_model(self):
        self.make_shapes()
        self.deploy("shapes/onnx")
        self.assertEqual(self.classify("shapes_onnx"), LABELS)
        self.deploy("shapes/onnx/classifier.onnx")
        about = self.worker.request("GET", "/v2/models/classifier").json
        self.assertEqual([(each["name"], each["shape"]) for each in about["inputs"]], [("image", [-1, 1, 32, 32])])

    @unittest.skipIf(shutil.disk_usage(tempfile.gettempdir()).free < 20 << 30, "PyTorch needs 20 GB of free disk")
    def test_the_image_classifier_knows_its_pictures_by_pytorch(self):
        self.make_shapes()
        self.deploy("shapes/torch")
        self.assertEqual(self.classify("shapes_torch"), LABELS)


if __name__ == "__main__":
    unittest.main()
