"""The wheels for pip: installed into new environments without a network, they bring the command and the client."""
import base64
import csv
import email
import hashlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
import zipfile

import packaged


def wheel(platform):
    return packaged.one(f"lambent-*-py3-none-{platform}*.whl")


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="lambent-wheel-")))

    def install(self, name, *words):
        """A new environment below the folder; its bin."""
        subprocess.run([sys.executable, "-m", "venv", self.folder / name], check=True)
        done = subprocess.run([self.folder / name / "bin/pip", "install", "--quiet", "--no-index", *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / name / "bin"

    def test_the_record_names_every_file_with_its_digest(self):
        for platform in ("any", "manylinux"):
            with self.subTest(platform), zipfile.ZipFile(wheel(platform)) as archive:
                (record,) = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
                rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(archive.read(record).decode()))}
                self.assertEqual(sorted(rows), sorted(archive.namelist()))
                for name, (digest, size) in rows.items():
                    content = archive.read(name)
                    if name != record:
                        made = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                        self.assertEqual((digest, size), (f"sha256={made}", str(len(content))), name)

    def test_its_version_and_extras_are_those_of_pyproject(self):
        project = tomllib.loads((packaged.ROOT / "python/pyproject.toml").read_text())["project"]
        with zipfile.ZipFile(wheel("any")) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            metadata = email.message_from_bytes(archive.read(name))
        self.assertEqual((metadata["Version"], metadata["Requires-Python"]), (project["version"], project["requires-python"]))
        self.assertEqual(metadata.get_all("Requires-Dist"),
                         [f"{needed}; extra == '{extra}'" for extra, all_needed in project["optional-dependencies"].items() for needed in all_needed])

    def test_pip_takes_the_wheel_with_the_programs_and_a_function_answers(self):
        programs = self.install("server", "--find-links", packaged.packages(), "lambent")
        run = self.folder / "run"
        environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(self.folder), "LAMBENT_ENDPOINT": f"unix:{run}/run/lambent.sock"}
        worker = subprocess.Popen([programs / "lambent", "serve", "--state", run / "state", "--run", run / "run", "--listen", "none"],
                                  env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            deadline = time.monotonic() + 60
            while not (run / "run/endpoint").exists():
                self.assertIsNone(worker.poll(), worker.stderr.read() if worker.poll() is not None else "")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            for words in (["init", "hello"], ["deploy", "hello"], ["invoke", "hello", "-d", '{"name": "Ada"}']):
                done = subprocess.run(["lambent", *words], cwd=self.folder, env=environment, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout), {"hello": "Ada"})
            self.assertEqual(sorted(path.name for path in (self.folder / "hello").iterdir()), ["app.py", "lambent.toml"])
            asked = subprocess.run([programs / "python", "-c", "from lambent.client import Client; print(Client().function('hello')(name='Bo'))"],
                                   env=environment, capture_output=True, text=True)
            self.assertEqual((asked.returncode, asked.stdout.strip()), (0, "{'hello': 'Bo'}"), asked.stderr)
        finally:
            worker.send_signal(signal.SIGTERM)
            _, errors = worker.communicate(timeout=60)
        self.assertEqual(worker.returncode, 0, errors.decode()[-2000:])

    def test_elsewhere_it_is_the_client_and_the_command_says_so(self):
        programs = self.install("client", wheel("any"))
        imported = subprocess.run([programs / "python", "-c", "import lambent, lambent.kernels, lambent.workflow, lambent.pipeline; lambent.App('x')"],
                                  capture_output=True, text=True)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        done = subprocess.run([programs / "lambent", "serve"], capture_output=True, text=True, env=os.environ)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has the Python client only", done.stderr)


if __name__ == "__main__":
    unittest.main()
