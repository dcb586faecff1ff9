"""Python packages of functions in a running worker, without any network: from a folder of wheels that this test writes, good and
hostile ones. ./dev test
installs uv into .venv."""
import base64
import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from harness import PREFIX, HttpError, Worker, make_zip
from python_wheels import write_wheel

LAMBENT = str(PREFIX / "bin/lambent")
OWN_UV = pathlib.Path(__file__).resolve().parents[2] / ".venv/bin/uv"
UV = shutil.which("uv") or str(OWN_UV)
PASSWORD = "p4ssw0rd-of-the-index"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
HANDLER = """
import sys
def handler(event, context):
    import importlib, os
    module = importlib.import_module(event['module'])
    try:
        open(os.path.join(os.path.dirname(module.__file__), 'new'), 'w')
        written = True
    except OSError:
        written = False
    return {'version': module.VERSION, 'file': module.__file__, 'path': sys.path, 'prefix': sys.prefix, 'written': written,
            'cached': module.__cached__ and os.path.exists(module.__cached__)}
"""


# A handler, and as a program a server.
SERVER = """
import http.server
import json
import os
import sys


def handler(event, context):
    return [f'{sys.version_info.major}.{sys.version_info.minor}', sys.prefix]


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        import apple
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([apple.VERSION, sys.prefix]).encode())


if __name__ == "__main__":
    http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Answer).serve_forever()
"""


def python_json(requirements, version="", **more):
    return json.dumps({"version": version, "requirements": requirements, **more})


@unittest.skipUnless(os.path.exists(UV), "there is no uv")
class PythonPackagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-packages-"))
        cls.wheels = cls.folder / "wheels"
        cls.wheels.mkdir()
        write_wheel(cls.wheels, "apple", requires=["pear>=2"])
        write_wheel(cls.wheels, "pear", "1.0")
        write_wheel(cls.wheels, "pear", "2.0", scripts="bite = pear:main", files={
            "pear/__init__.py": "VERSION = '2.0'\ndef main():\n    print('bitten')\n"})
        write_wheel(cls.wheels, "clash", requires=["pear<2"])
        write_wheel(cls.wheels, "bad_syntax", files={"bad_syntax/__init__.py": "VERSION = '1.0'\n", "bad_syntax/old.py": "print 'x'\n"})
        write_wheel(cls.wheels, "tested", files={
            "tested/__init__.py": "VERSION = '1.0'\n", "tested/tests/__init__.py": "VERSION = 'tests'\n", "tested/contest.py": "VERSION = '2.0'\n"})
        # Two that the compiler gives up, before and beside those that are to be compiled.
        deep = {"deep/a.py": f"x = {'-' * 50000}1\n", "deep/b.py": "x = = 1\n", "deep/__init__.py": ""}
        write_wheel(cls.wheels, "deep", files=deep | {f"deep/z{number}.py": f"VERSION = {number}\n" for number in range(40)})
        # Hostile ones.
        write_wheel(cls.wheels, "outside", files={"../../../../../../escaped.py": "x = 1\n", "outside/__init__.py": "VERSION = '1.0'\n"})
        write_wheel(cls.wheels, "absolute", files={"/tmp/absolute_escaped.py": "x = 1\n", "absolute/__init__.py": "VERSION = '1.0'\n"})
        write_wheel(cls.wheels, "liar", lies=["liar/__init__.py"], files={"liar/__init__.py": "VERSION = '1.0'\n"})
        write_wheel(cls.wheels, "startup", files={
            "startup.pth": "import os; open(os.path.join(os.path.dirname(os.__file__), '..', '..', 'tmp', 'ran'), 'w')\n",
            "startup/__init__.py": "VERSION = '1.0'\n"})
        (cls.wheels / "broken-1.0-py3-none-any.whl").write_bytes(b"PK\x03\x04 no zip")
        (cls.wheels / "sourceonly-1.0.tar.gz").write_bytes(b"\x1f\x8b no tar")
        cls.flags = ("--uv", UV, "--python-wheels", str(cls.wheels), "--python-offline")
        cls.worker = Worker(*cls.flags, gpu="none", folder=cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def deploy(self, name, requirements, version="", code=HANDLER, **more):
        files = {"app.py": code, ".lambent/python.json": python_json(requirements, version, **more)}
        return self.worker.create(name, make_zip(files))

    def refused(self, name, requirements, version="", status=400, **more):
        with self.assertRaises(HttpError) as caught:
            self.deploy(name, requirements, version, **more)
        self.assertEqual(caught.exception.status, status, caught.exception.body)
        return caught.exception.body.decode()

    def environments(self):
        return sorted(path.name for path in (self.folder / "state/environments/ready").iterdir())

    def builds(self):
        return self.worker.log().count('"environment_built"')

    def test_packages_and_what_they_require_are_there_and_read_only(self):
        self.deploy("fruit", ["apple"], VERSION)
        answer = self.worker.invoke("fruit", {"module": "apple"}).json
        self.assertEqual(answer["version"], "1.0")
        self.assertFalse(answer["written"])
        self.assertTrue(answer["cached"])
        self.assertEqual(answer["prefix"], "/opt/lambent/python")
        site = [index for index, path in enumerate(answer["path"]) if path.startswith("/opt/lambent/python/lib")]
        self.assertLess(answer["path"].index("/var/task"), site[0])
        self.assertEqual(self.worker.invoke("fruit", {"module": "pear"}).json["version"], "2.0")

    def test_the_tests_of_packages_are_there_but_not_compiled_ahead(self):
        self.deploy("tested", ["tested"], VERSION)
        for module, version, cached in (("tested", "1.0", True), ("tested.contest", "2.0", True), ("tested.tests", "tests", False)):
            answer = self.worker.invoke("tested", {"module": module}).json
            self.assertEqual((answer["version"], answer["cached"]), (version, cached), module)

    def test_a_file_that_cannot_be_compiled_keeps_no_other_from_it(self):
        self.deploy("deep", ["deep"], VERSION)
        for number in range(40):
            answer = self.worker.invoke("deep", {"module": f"deep.z{number}"}).json
            self.assertEqual((answer["version"], answer["cached"]), (number, True))

    def test_the_code_goes_before_the_packages(self):
        files = {"app.py": HANDLER, "pear.py": "VERSION = 'mine'\n", ".lambent/python.json": python_json(["pear"])}
        self.worker.create("mine", make_zip(files))
        self.assertEqual(self.worker.invoke("mine", {"module": "pear"}).json["version"], "mine")

    def test_scripts_of_packages_run(self):
        code = "import subprocess\ndef handler(event, context):\n    return subprocess.check_output(['bite'], text=True)\n"
        self.deploy("script", ["pear==2.0"], code=code)
        self.assertEqual(self.worker.invoke("script", {}).json, "bitten\n")

    def test_another_line_of_code_and_another_function_build_nothing_again(self):
        self.deploy("first", ["pear<2", "bad_syntax"])
        before = self.builds()
        changed = make_zip({"app.py": HANDLER + "\n# changed\n", ".lambent/python.json": python_json(["bad_syntax", "pear<2"])})
        self.worker.request("PUT", "/2015-03-31/functions/first/code", json.dumps({"ZipFile": base64.b64encode(changed).decode()}))
        self.deploy("second", ["bad_syntax", "pear<2", "pear<2"])
        self.assertEqual(self.builds(), before)
        for name in ("first", "second"):
            self.assertEqual(self.worker.invoke(name, {"module": "pear"}).json["version"], "1.0")

    def test_two_deployments_at_once_build_one_environment(self):
        before = self.builds()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: self.deploy(f"twin{number}", ["apple==1.0", "bad_syntax"]), range(4)))
        self.assertEqual(self.builds(), before + 1)
        self.assertEqual(self.worker.invoke("twin3", {"module": "apple"}).json["version"], "1.0")

    def test_what_cannot_be_had_is_refused_with_the_reason(self):
        self.assertIn("nonexistent", self.refused("none", ["nonexistent"]))
        self.assertIn("pear", self.refused("clash", ["apple", "clash"]))
        self.assertIn("pear", self.refused("unsatisfied", ["pear>=9"]))
        self.assertIn("--python-wheels FOLDER", self.refused("source", ["sourceonly"]))
        self.refused("broken", ["broken"])
        with self.assertRaises(HttpError) as caught:
            self.worker.request("GET", "/2015-03-31/functions/none")
        self.assertEqual(caught.exception.status, 404)

    def test_a_python_that_is_not_there_is_refused_with_those_that_are(self):
        text = self.refused("version", ["pear"], "3.99")
        self.assertIn("Python 3.99 is not there", text)
        self.assertIn(VERSION if os.path.exists(f"/usr/bin/python{VERSION}") else "3.", text)

    def test_options_and_places_are_no_requirements(self):
        for bad in ("--index-url http://127.0.0.1:1/", "-e .", "-r /etc/passwd", "pear --index-url=http://127.0.0.1:1/",
                    "pear @ file:///etc/passwd", "/etc/passwd", "pear\n--no-binary :all:", "pear==2.0 --config-settings x=y",
                    "../pear-2.0-py3-none-any.whl", "pear; --index-url http://x"):
            self.assertIn("requirement", self.refused("option", [bad]), bad)
        self.refused("shape", "pear")
        self.refused("hash", ["pear==2.0 --hash=sha256:" + "0" * 64])

    def test_hostile_wheels_leave_nothing_outside_their_environment(self):
        for name in ("outside", "absolute", "liar", "startup"):
            try:
                self.deploy("hostile-" + name, [name])
            except HttpError as error:
                self.assertEqual(error.status, 400, (name, error.body))
        self.assertFalse(os.path.exists("/tmp/absolute_escaped.py"))
        self.assertFalse(os.path.exists("/tmp/ran"))
        self.assertEqual([str(path) for path in self.folder.rglob("escaped.py") if "site-packages" not in path.parts], [])
        for path in (self.folder / "state/environments").rglob("*"):
            mode = path.lstat().st_mode
            self.assertFalse(stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID), path)
            self.assertTrue(stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode), path)
        # Others are unharmed.
        self.deploy("after", ["pear"])
        self.assertEqual(self.worker.invoke("after", {"module": "pear"}).json["version"], "2.0")

    def test_the_table_by_itself_says_that_python_runs_an_http_function_and_a_version_by_itself_which(self):
        for name, kind, python in (("table", 'kind = "http"\ncommand = ["python3", "server.py"]\n', 'requirements = ["apple"]'),
                                   ("only", 'handler = "server.handler"\n', f'version = "{VERSION}"')):
            folder = self.folder / name
            folder.mkdir()
            (folder / "server.py").write_text(SERVER)
            (folder / "lambent.toml").write_text(f'name = "{name}"\n{kind}\n[python]\n{python}\n')
            done = subprocess.run([LAMBENT, "deploy", str(folder), "--endpoint", self.worker.endpoint], capture_output=True, text=True, check=False,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.worker.request("GET", "/f/table/").json, ["1.0", "/opt/lambent/python"])
        self.assertEqual(self.worker.invoke("only").json, [VERSION, "/opt/lambent/python"])

    def test_the_command_shows_the_reason_and_its_exit_status(self):
        folder = self.folder / "cli"
        folder.mkdir()
        (folder / "app.py").write_text(HANDLER)
        manifest = 'name = "cli"\nruntime = "python3"\nhandler = "app.handler"\n[python]\nrequirements = "requirements.txt"\n'
        (folder / "lambent.toml").write_text(manifest)
        (folder / "requirements.txt").write_text("# fruit\napple==1.0  # red\n")
        run = [LAMBENT, "deploy", str(folder), "--endpoint", self.worker.endpoint]
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.worker.invoke("cli", {"module": "apple"}).json["version"], "1.0")
        (folder / "requirements.txt").write_text("nonexistent\n")
        failed = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(failed.returncode, 13, failed.stderr)
        self.assertIn("nonexistent", failed.stderr)
        # What it was before serves on.
        self.assertEqual(self.worker.invoke("cli", {"module": "apple"}).json["version"], "1.0")
        (folder / "requirements.txt").write_text("pear\n")
        self.assertEqual(subprocess.run(run, capture_output=True, check=False, timeout=120).returncode, 0)
        self.assertEqual(self.worker.invoke("cli", {"module": "pear"}).json["version"], "2.0")


@unittest.skipUnless(os.path.exists(UV), "there is no uv")
class EnvironmentsOverTimeTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-packages-"))
        self.wheels = self.folder / "wheels"
        self.wheels.mkdir()
        write_wheel(self.wheels, "pear")
        self.worker = None

    def tearDown(self):
        if self.worker:
            self.worker.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *flags):
        self.worker = Worker("--uv", UV, "--python-wheels", str(self.wheels), "--python-offline", *flags, gpu="none", folder=self.folder)

    @unittest.skipUnless(os.geteuid() == 0, "what installs is the user that the folder belongs to")
    def test_a_folder_of_wheels_that_builds_cannot_read_is_named_with_the_remedy(self):
        self.start()
        self.wheels.chmod(0o700)
        with self.assertRaises(HttpError) as caught:
            self.create("closed", ["pear"])
        said = caught.exception.body.decode()
        self.assertIn(f"chmod -R a+rX {self.wheels}", said)
        self.wheels.chmod(0o755)
        self.create("open", ["pear"])

    def create(self, name, requirements):
        self.worker.create(name, make_zip({"app.py": HANDLER, ".lambent/python.json": python_json(requirements)}))

    def test_they_survive_a_killed_worker_and_half_built_ones_do_not(self):
        self.start()
        self.create("kept", ["pear"])
        self.worker.kill()
        half = self.folder / "state/environments/work" / ("0" * 64)
        half.mkdir()
        (half / "file").write_text("x")
        torn = self.folder / "state/environments/ready" / ("1" * 64)
        torn.mkdir()
        self.worker.start()
        self.assertFalse(half.exists())
        self.assertFalse(torn.exists())
        self.assertEqual(self.worker.invoke("kept", {"module": "pear"}).json["version"], "1.0")
        self.create("again", ["pear"])
        self.assertEqual(self.worker.log().count('"environment_built"'), 1)

    def test_an_environment_that_vanished_is_built_again_and_others_are_unharmed(self):
        self.start()
        self.create("gone", ["pear"])
        self.create("other", ["pear<5"])
        self.worker.stop()
        environments = self.folder / "state/environments"
        shutil.rmtree(next((environments / "ready").iterdir()))
        shutil.rmtree(environments / "functions")  # as in a state that was restored
        self.worker.start()
        for name in ("gone", "other"):
            self.worker.wait_for(lambda name=name: "version" in self.worker.invoke(name, {"module": "pear"}).json, what=name)

    def test_one_that_cannot_be_built_again_is_an_error_of_its_function_alone(self):
        self.start()
        write_wheel(self.wheels, "plum")
        self.create("gone", ["plum"])
        self.create("other", ["pear"])
        self.worker.stop()
        shutil.rmtree(self.folder / "state/environments/ready")
        (self.wheels / "plum-1.0-py3-none-any.whl").unlink()
        self.worker.start()
        self.worker.wait_for(lambda: "version" in self.worker.invoke("other", {"module": "pear"}).json, what="the other one")
        self.worker.wait_for(lambda: '"packages_not_installed"' in self.worker.log(), what="the failure")
        answer = self.worker.invoke("gone", {"module": "plum"})
        self.assertIn("deploy it again", answer.body.decode())

    def test_more_than_the_disk_that_is_allowed_is_refused(self):
        self.start("--environments-size", "1M")
        (self.wheels / "x").mkdir()
        write_wheel(self.wheels, "large", files={"large/__init__.py": "VERSION = '1.0'\n" + "# " + "x" * 100 + "\n" * 2_000_000})
        with self.assertRaises(HttpError) as caught:
            self.create("large", ["large"])
        self.assertIn(b"--environments-size", caught.exception.body)
        self.create("small", ["pear"])
        self.assertEqual(self.worker.invoke("small", {"module": "pear"}).json["version"], "1.0")


@unittest.skipUnless(os.path.exists(UV), "there is no uv")
class CudaPackagesTest(unittest.TestCase):
    """Packages that bring NVIDIA's CUDA runtime, on a worker with an emulated GPU."""

    LIBRARY = "nvidia/cuda_runtime/lib/libcudart.so.12"
    CODE = f"""
import mmap, pathlib, sys
def handler(event, context):
    path = next(p for p in (pathlib.Path(folder) / "{LIBRARY}" for folder in sys.path) if p.exists())
    with open(path) as file:
        held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)  # as a library that is loaded
        raise RuntimeError(event["error"])
"""

    def test_their_functions_are_warned_of_at_the_deployment_and_say_why_they_fail(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-packages-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        wheels = folder / "wheels"
        wheels.mkdir()
        write_wheel(wheels, "nvidia_cuda_runtime_cu12", files={self.LIBRARY: "x"})
        write_wheel(wheels, "nothing")
        worker = Worker("--uv", UV, "--python-wheels", str(wheels), "--python-offline", folder=folder)
        self.addCleanup(worker.close)
        state = lambda name: worker.request("GET", f"/2015-03-31/functions/{name}/configuration").json

        def create(name, requirements, **tags):
            code = make_zip({"app.py": self.CODE, ".lambent/python.json": python_json(requirements)})
            worker.create(name, code, tags=tags)
            worker.wait_for(lambda: state(name)["State"] == "Active", what="its packages")

        gpu = {"lambent:gpu-memory": "64MiB"}
        create("warned", ["nvidia_cuda_runtime_cu12"], **gpu)
        create("on_cpu", ["nvidia_cuda_runtime_cu12"])
        create("plain", ["nothing"], **gpu)
        words = "its package nvidia_cuda_runtime_cu12-1.0 uses NVIDIA's CUDA runtime, which does not run on this worker's emulated GPU: use the CPU"
        self.assertIn(words, state("warned")["StateReason"])
        for name in ("on_cpu", "plain"):
            self.assertNotIn("StateReason", state(name))
        failed = worker.invoke("warned", {"error": "CUDA error: named symbol not found"}).json["errorMessage"]
        self.assertRegex(failed, "^CUDA error: named symbol not found .the GPU is emulated, and this process uses NVIDIA's CUDA runtime, .*"
                         "libcudart.so.12, which does not run on it: use the CPU, or a worker with an NVIDIA GPU, lambent serve --gpu nvidia.$")
        self.assertEqual(worker.invoke("warned", {"error": "own"}).json["errorMessage"], "own")
        worker.stop()
        worker.start()
        self.assertIn(words, state("warned")["StateReason"])


@unittest.skipUnless(os.path.exists(UV), "there is no uv")
class SlowIndexTest(unittest.TestCase):
    """An index that takes connections and never answers."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-packages-"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        index = self.folder / "index"
        index.write_text(f"http://me:{PASSWORD}@127.0.0.1:{self.listener.getsockname()[1]}/simple\n")
        self.worker = Worker("--uv", UV, "--python-index", f"@{index}", "--environment-timeout", "3", gpu="none", folder=self.folder)

    def tearDown(self):
        self.worker.close()
        self.listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def create(self, name, headers=None):
        code = base64.b64encode(make_zip({"app.py": HANDLER, ".lambent/python.json": python_json(["pear"])})).decode()
        body = {"FunctionName": name, "Runtime": "python3", "Handler": "app.handler", "Role": "r", "Code": {"ZipFile": code}}
        return self.worker.request("POST", "/2015-03-31/functions", json.dumps(body), headers)

    def installers(self):
        """Processes of uv that ask our index: their environment names its port."""
        port, found = str(self.listener.getsockname()[1]).encode(), []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                name = (entry / "cmdline").read_bytes().split(b"\0")[0] if entry.name.isdigit() else b""
                if name.endswith(b"/uv") and port in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def test_nothing_goes_on_installing_for_a_worker_that_was_killed(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            creation = pool.submit(self.create, "endless")
            self.worker.wait_for(self.installers, what="uv at work")
            time.sleep(1)
            self.assertFalse(creation.done())
            self.worker.kill()
            self.assertIsInstance(creation.exception(30), ConnectionError)
        self.worker.wait_for(lambda: not self.installers(), seconds=2, what="the end of uv")

    def test_a_deployment_waits_no_longer_than_it_may_and_the_password_is_never_shown(self):
        with self.assertRaises(HttpError) as caught:
            self.create("waits")
        self.assertIn(b"--environment-timeout", caught.exception.body)
        shown = caught.exception.body.decode() + self.worker.log()
        self.assertNotIn(PASSWORD, shown)
        for path in (self.folder / "state").rglob("*"):
            if path.is_file() and not path.is_symlink():
                self.assertNotIn(PASSWORD.encode(), path.read_bytes(), path)

    def test_who_does_not_want_to_wait_sees_lambdas_states(self):
        created = self.create("early", {"Prefer": "respond-async"}).json
        self.assertEqual(created["State"], "Pending")
        with self.assertRaises(HttpError) as caught:
            self.worker.invoke("early")
        self.assertEqual(caught.exception.status, 409)
        shown = lambda: self.worker.request("GET", "/2015-03-31/functions/early/configuration").json
        self.worker.wait_for(lambda: shown()["State"] == "Failed", what="the failure")
        self.assertIn("--environment-timeout", shown()["StateReason"])
        self.worker.delete("early")
        with self.assertRaises(HttpError) as caught:
            shown()
        self.assertEqual(caught.exception.status, 404)

    def test_a_worker_that_stops_leaves_no_build_behind(self):
        self.create("early", {"Prefer": "respond-async"})
        self.worker.wait_for(lambda: any((self.folder / "state/environments/work").iterdir()), what="the build")
        self.assertEqual(self.worker.stop(), 0)
        running = subprocess.run(["pgrep", "-f", str(self.folder)], capture_output=True, text=True, check=False)
        self.assertEqual(running.stdout, "")


class RuntimeTest(unittest.TestCase):
    def test_a_runtime_is_the_python_that_it_names_or_is_refused_with_those_that_are_there(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        worker.create_python("own", "import sys\ndef handler(e, c): return 'python%d.%d' % sys.version_info[:2]", runtime="python3")
        own = worker.invoke("own").json
        worker.create_python("named", "def handler(e, c): return 1", runtime=own)
        with self.assertRaises(HttpError) as caught:
            worker.create_python("other", "def handler(e, c): return 1", runtime="python3.3")
        self.assertEqual(caught.exception.error_type, "InvalidParameterValueException")
        self.assertRegex(caught.exception.json["Message"],
                         rf"^runtime is 'python3\.3', which is not there; this worker's machine has .*{own.removeprefix('python')}")
        with self.assertRaises(HttpError) as caught:
            packages = python_json([], version=own.removeprefix("python"))
            worker.create("two", make_zip({"app.py": "", ".lambent/python.json": packages}), runtime="python3.3")
        self.assertIn("name one of the two", caught.exception.json["Message"])
        # One that has it already keeps it, with other settings too.
        arn = "/2015-03-31/functions/named/configuration"
        self.assertEqual(worker.request("PUT", arn, json.dumps({"Runtime": own, "Timeout": 9})).status, 200)
        with self.assertRaises(HttpError):
            worker.request("PUT", arn, json.dumps({"Runtime": "python3.3"}))


class WithoutUvTest(unittest.TestCase):
    def test_a_worker_without_uv_says_what_to_do(self):
        worker = Worker(gpu="none", environment={"PATH": "/nonexistent"})
        try:
            if (PREFIX / "bin/uv").exists():
                self.skipTest("this installation has its own")
            with self.assertRaises(HttpError) as caught:
                worker.create("f", make_zip({"app.py": HANDLER, ".lambent/python.json": python_json(["pear"])}))
            self.assertIn(b"--uv", caught.exception.body)
        finally:
            worker.close()


if __name__ == "__main__":
    unittest.main()
