"""Real packages of PyPI, as docs/guides/python-packages.md has them: ./dev test --all only, because PyTorch is 3 GB to fetch."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import PREFIX, Worker
from test_python_packages import LAMBENT, UV

TORCH = """
import torch
def handler(event, context):
    a = torch.arange(6.0).reshape(2, 3)
    return {'product': (a @ a.T).tolist()}
"""
MANIFEST = 'name = "{name}"\nruntime = "python3"\nhandler = "app.handler"\nmemory = "2G"\ntimeout_s = 120\n[python]\n{python}\n'
SKLEARN = """
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
X, y = load_iris(return_X_y=True)
MODEL = LogisticRegression(max_iter=500).fit(X, y)
def handler(event, context):
    return int(MODEL.predict([event['x']])[0])
"""


class PackagesOfPyPITest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-pypi-"))
        cls.worker = Worker("--uv", UV, gpu="none", folder=cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def deploy(self, folder):
        done = subprocess.run([LAMBENT, "deploy", str(folder), "--endpoint", self.worker.endpoint], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def write(self, name, code, python):
        folder = self.folder / name
        folder.mkdir()
        (folder / "app.py").write_text(code)
        (folder / "lambent.toml").write_text(MANIFEST.format(name=name, python=python))
        return folder

    def test_the_example_runs_a_model_by_onnxruntime(self):
        self.deploy(PREFIX / "examples/20_python_packages")
        answer = self.worker.invoke("classify", {"x": [1, 2, 3, 4]}).json
        self.assertEqual((answer["scores"], answer["best"]), ([[6.0, 7.0, 8.0]], [2]))

    def test_scikit_learn_learns_and_answers(self):
        self.deploy(self.write("iris", SKLEARN, 'requirements = ["scikit-learn"]'))
        self.assertEqual(self.worker.invoke("iris", {"x": [5.1, 3.5, 1.4, 0.2]}).json, 0)

    @unittest.skipIf(shutil.disk_usage(tempfile.gettempdir()).free < 20 << 30, "PyTorch needs 20 GB of free disk")
    def test_pytorch_deploys_and_another_line_of_code_installs_nothing(self):
        folder = self.write("tensors", TORCH, 'requirements = ["torch"]')
        self.deploy(folder)
        self.assertEqual(self.worker.invoke("tensors", timeout=120).json, {"product": [[5.0, 14.0], [14.0, 50.0]]})
        built = self.worker.log().count('"environment_built"')
        (folder / "app.py").write_text(TORCH.replace("reshape(2, 3)", "reshape(3, 2)"))
        self.deploy(folder)
        self.assertEqual(len(self.worker.invoke("tensors", timeout=120).json["product"]), 3)
        self.assertEqual(self.worker.log().count('"environment_built"'), built)


if __name__ == "__main__":
    unittest.main()
