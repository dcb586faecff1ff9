"""What the tests of this folder share: a worker that installs packages from the wheels of tools/framework_wheels.py, without a network."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import PREFIX, Worker

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEELS = pathlib.Path(os.environ.get("LAMBENT_FRAMEWORK_WHEELS", ROOT / "build/framework-wheels"))
UV = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
INSTALL_SECONDS = 900


def need_wheels():
    """Of the versions that are wanted now; ./dev test --all has tried to fetch them."""
    installed = WHEELS / "installed.txt"
    if not installed.exists() or installed.read_text() != (ROOT / "tests/frameworks/requirements.txt").read_text():
        raise unittest.SkipTest(f"the wheels are not in {WHEELS}: tools/framework_wheels.py {WHEELS} fetches them, 3 GB")


class FrameworkTest(unittest.TestCase):
    """A test case with one worker and a folder for all of its tests."""

    flags = ()
    gpu = "none"

    @classmethod
    def setUpClass(cls):
        need_wheels()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-frameworks-"))
        cls.worker = Worker("--uv", UV, "--python-wheels", str(WHEELS), "--python-offline", *cls.flags, gpu=cls.gpu, folder=cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def lambent(self, *words):
        done = subprocess.run([PREFIX / "bin/lambent", *words], capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS,
                              env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def copy_of(self, example):
        folder = self.folder / example
        if not folder.exists():
            shutil.copytree(PREFIX / "examples" / example, folder)
        return folder

    def deploy_whole(self, example, code, manifest):
        """The components of a pipeline in one function, which is no pipeline: for what they answer without stages."""
        folder = self.folder / "whole"
        shutil.copytree(example / "code", folder)
        (folder / "whole.py").write_text(code)
        (folder / "lambent.toml").write_text(manifest)
        self.lambent("deploy", str(folder))

    def write(self, name, code, manifest):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "app.py").write_text(code)
        (folder / "lambent.toml").write_text(manifest)
        return folder

    def answer(self, name, event):
        reply = self.worker.invoke(name, event, timeout=300)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body[-2000:])
        return json.loads(reply.body)
