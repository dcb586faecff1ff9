"""Volumes and mounts in a running worker: uploads that are cut off and go on, what functions see, what they may not, quotas, the
command and the Python client."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from harness import PREFIX, HttpError, Worker, make_zip
from tenants import TokenWorker

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402
from lambent.errors import InvalidArgument, LambentError  # noqa: E402

LAMBENT = str(PREFIX / "bin/lambent")
MIB = 1 << 20
HANDLER = """
import os
def attempt(call):
    try:
        call()
        return 'done'
    except OSError as error:
        return error.strerror
def handler(event, context):
    path = event.get('path', '/weights/model.bin')
    status = os.stat(path)
    size = lambda place: (lambda v: v.f_blocks * v.f_frsize)(os.statvfs(place))
    with open(path, 'rb') as file:
        content = file.read(64).decode()
    return {'content': content, 'inode': status.st_ino, 'device': status.st_dev,
            'write': attempt(lambda: open(path, 'ab')),
            'create': attempt(lambda: open(os.path.dirname(path) + '/new', 'wb')),
            'remove': attempt(lambda: os.unlink(path)),
            'chmod': attempt(lambda: os.chmod(path, 0o777)),
            'tmp': size('/tmp'), 'shm': size('/dev/shm')}
"""


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def status_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except HttpError as error:
        return error.status, error.body.decode()
    return 200, ""


class VolumesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-volumes-")).resolve()
        cls.host = cls.folder / "models"
        (cls.host / "small").mkdir(parents=True)
        (cls.host / "small/note").write_text("of the host")
        cls.worker = Worker("--mount-allow", str(cls.host), gpu="none", folder=cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def volume(self):
        name = self.id().rpartition(".")[2][:60].replace("test_", "")
        self.worker.request("PUT", f"/v1/volumes/{name}")
        return name

    def put(self, volume, path, content):
        return self.worker.request("PUT", f"/v1/volumes/{volume}/files/{path}", content).json

    def deploy(self, name, mounts, code=HANDLER, **tags):
        return self.worker.create_python(name, code, tags={"lambent:mounts": mounts, **tags})

    def cli(self, *words, **options):
        return subprocess.run([LAMBENT, *words, "--endpoint", self.worker.endpoint], capture_output=True, text=True, timeout=120,
                              check=False, **options)

    def test_functions_see_the_same_file_and_cannot_change_it(self):
        name = self.volume()
        self.put(name, "model.bin", b"weights")
        self.deploy("one", f"{name}:/weights", **{"lambent:shared-memory": "128MiB"})
        self.deploy("two", f"{name}:/mnt/deep/place")
        one = self.worker.invoke("one").json
        two = self.worker.invoke("two", {"path": "/mnt/deep/place/model.bin"}).json
        self.assertEqual(one["content"], "weights")
        for action in ("write", "create", "remove", "chmod"):
            self.assertIn(one[action], ("Read-only file system", "Permission denied"), action)
        self.assertEqual((one["inode"], one["device"]), (two["inode"], two["device"]), "one page cache for all")
        self.assertEqual(one["shm"], 128 * MIB)
        self.assertEqual(two["shm"], 64 * MIB)
        self.assertEqual(one["tmp"], 512 * MIB)
        shown = self.worker.request("GET", "/v1/functions").json["functions"]
        self.assertEqual([f["mounts"] for f in shown if f["name"] == "one"], [[{"volume": name, "at": "/weights"}]])

    def test_a_new_content_is_seen_by_the_next_who_opens_it(self):
        name = self.volume()
        self.put(name, "model.bin", b"old")
        self.deploy("changing", f"{name}:/weights")
        self.assertEqual(self.worker.invoke("changing").json["content"], "old")
        self.put(name, "model.bin", b"new")
        self.assertEqual(self.worker.invoke("changing").json["content"], "new")

    def test_a_volume_in_use_stays_and_a_missing_one_is_named(self):
        name = self.volume()
        self.put(name, "model.bin", b"weights")
        self.deploy("user", f"{name}:/weights")
        status, text = status_of(self.worker.request, "DELETE", f"/v1/volumes/{name}")
        self.assertEqual(status, 412)
        self.assertIn("is mounted by functions: user", text)
        self.worker.delete("user")
        self.worker.request("DELETE", f"/v1/volumes/{name}")
        status, text = status_of(self.deploy, "late", f"{name}:/weights")
        self.assertEqual(status, 409, text)
        self.assertIn(f"the mount at /weights: volume '{name}' does not exist", text)

    def test_places_and_paths_that_lead_elsewhere_are_refused(self):
        name = self.volume()
        for place in ("/var/task", "/var/task/x", "/proc", "/dev/shm", "/etc", "/", "/w/../etc", "w", "/run/secrets", "/opt/lambent"):
            status, text = status_of(self.deploy, "bad", f"{name}:{place}")
            self.assertEqual(status, 400, f"{place}: {text}")
        for path in ("../x", "..%2fx", "a/../../x", "%2fetc%2fpasswd", "a//b", "a/", ".", "a%00b", "%ff", "a/%2e%2e/b"):
            status, text = status_of(self.put, name, path, b"x")
            self.assertEqual(status in (400, 404), True, f"{path}: {status} {text}")
        state = self.folder / "state"
        self.assertEqual([p for p in state.rglob("x")], [])
        for bad in ("..", ".x", "a%2fb", "a" * 65):
            self.assertEqual(status_of(self.worker.request, "PUT", f"/v1/volumes/{bad}")[0] in (400, 404), True, bad)

    def test_host_folders_are_those_that_the_operator_allowed(self):
        self.deploy("host", f"{self.host}/small:/models")
        answer = self.worker.invoke("host", {"path": "/models/note"}).json
        self.assertEqual(answer["content"], "of the host")
        self.assertIn(answer["write"], ("Read-only file system", "Permission denied"))
        outside = self.folder / "elsewhere"
        outside.mkdir()
        for path in (outside, "/etc", self.folder, self.folder / "state"):
            status, text = status_of(self.deploy, "outside", f"{path}:/models")
            self.assertEqual(status, 403, text)
        status, text = status_of(self.deploy, "outside", f"{self.host}/../elsewhere:/models")
        self.assertEqual(status, 400, text)
        os.symlink(outside, self.host / "link")
        status, text = status_of(self.deploy, "outside", f"{self.host}/link:/models")
        self.assertEqual(status, 409, text)
        self.assertIn("goes through a link", text)
        (self.host / "link").unlink()

    def test_a_folder_that_vanished_is_an_error_and_others_go_on(self):
        gone = self.host / "gone"
        gone.mkdir()
        (gone / "note").write_text("here")
        self.deploy("vanishing", f"{gone}:/models")
        self.worker.create_python("unharmed", "def handler(event, context): return 1")
        shutil.rmtree(gone)
        failure = self.failure_of("vanishing", "/models/note")
        self.assertIn("No such file", failure)
        self.assertIn(str(gone), failure)
        status, text = status_of(self.deploy, "vanished", f"{gone}:/models")
        self.assertEqual(status, 409, text)
        self.assertIn("is not there", text)
        # A link in its place shows nothing of the host.
        os.symlink("/etc", gone)
        self.assertIn("Too many levels of symbolic links", self.failure_of("vanishing", "/models/passwd"))
        gone.unlink()
        self.assertEqual(self.worker.invoke("unharmed").json, 1)

    def failure_of(self, name, path):
        """Why its sandbox did not start: as the answer of a function, or, of one that failed before, of the worker."""
        try:
            answer = self.worker.invoke(name, {"path": path})
        except HttpError as error:
            self.assertEqual(error.status, 503, error.body)
            return error.body.decode()
        self.assertEqual(answer.headers.get("x-amz-function-error"), "Unhandled", answer.body)
        return answer.json["errorMessage"]

    def cut_off(self, volume, content, sent):
        """Sends a part of a file, then goes away."""
        query = f"size={len(content)}&sha256={sha256(content)}"
        connection = self.worker.connect()
        connection.putrequest("PUT", f"/v1/volumes/{volume}/files/model.bin?{query}")
        connection.putheader("Content-Length", str(len(content)))
        connection.endheaders()
        connection.send(content[:sent])
        self.worker.wait_for(lambda: self.progress(volume, content)["offset"] >= sent - MIB, what="the upload")
        connection.close()
        return query

    def progress(self, volume, content):
        return self.worker.request(
            "GET", f"/v1/volumes/{volume}/uploads/model.bin?size={len(content)}&sha256={sha256(content)}").json

    def test_an_upload_goes_on_after_a_cut_connection_and_after_a_kill(self):
        name = self.volume()
        content = os.urandom(8 * MIB)
        query = self.cut_off(name, content, 3 * MIB + 5)
        self.assertEqual(status_of(self.worker.request, "GET", f"/v1/volumes/{name}/files/model.bin")[0], 404)
        self.worker.wait_for(lambda: self.progress(name, content)["offset"] == 3 * MIB + 5, what="the rest of the upload")
        self.worker.kill()
        self.worker.start()
        offset = self.progress(name, content)["offset"]
        self.assertEqual(offset, 3 * MIB + 5)
        wrong = status_of(self.worker.request, "PUT", f"/v1/volumes/{name}/files/model.bin?{query}&offset=5", b"x")
        self.assertEqual(wrong[0], 409, wrong)
        done = self.worker.request("PUT", f"/v1/volumes/{name}/files/model.bin?{query}&offset={offset}", content[offset:]).json
        self.assertTrue(done["complete"])
        self.assertEqual(done["file"], {"path": "model.bin", "size_bytes": len(content), "sha256": sha256(content)})
        got = self.worker.request("GET", f"/v1/volumes/{name}/files/model.bin")
        self.assertEqual(got.body, content)
        self.assertEqual(got.headers["etag"], f'"{sha256(content)}"')
        self.worker.kill()
        self.worker.start()
        self.assertTrue(self.progress(name, content)["complete"])

    def test_bytes_that_changed_on_the_way_are_not_kept(self):
        name = self.volume()
        content = b"x" * 1000
        query = f"size=1000&sha256={sha256(content)}"
        status, text = status_of(self.worker.request, "PUT", f"/v1/volumes/{name}/files/a?{query}", b"x" * 999 + b"y")
        self.assertEqual(status, 409, text)
        self.assertIn("it is dropped", text)
        self.assertEqual(self.worker.request("GET", f"/v1/volumes/{name}/files").json["files"], [])

    def test_a_large_file_streams_through_little_memory(self):
        name = self.volume()
        pieces = 256

        def resident():
            text = pathlib.Path(f"/proc/{self.worker.process.pid}/status").read_text()
            return int(text.partition("VmHWM:")[2].split()[0]) << 10

        before = resident()
        connection = self.worker.connect(timeout=120)
        connection.request("PUT", f"/v1/volumes/{name}/files/large", iter([b"z" * MIB] * pieces),
                           {"Content-Length": str(pieces * MIB)})
        answer = json.loads(connection.getresponse().read())
        self.assertEqual(answer["file"]["size_bytes"], pieces * MIB)
        connection.request("GET", f"/v1/volumes/{name}/files/large")
        response = connection.getresponse()
        time.sleep(0.3)  # a client that is slow
        digest, size = hashlib.sha256(), 0
        while piece := response.read(MIB):
            digest.update(piece)
            size += len(piece)
        self.assertEqual((size, digest.hexdigest()), (pieces * MIB, answer["file"]["sha256"]))
        self.assertLess(resident() - before, 48 * MIB)
        self.worker.request("DELETE", f"/v1/volumes/{name}")

    def test_the_command_puts_lists_gets_and_removes(self):
        local = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (local / "model/deep er").mkdir(parents=True)
        (local / "model/a.bin").write_bytes(b"A" * 5000)
        (local / "model/deep er/b ü.bin").write_bytes(b"B" * 10)
        self.assertEqual(self.cli("volumes", "create", "cli").stdout, "cli\n")
        put = self.cli("volumes", "put", "cli", str(local / "model"), "v1")
        self.assertEqual((put.returncode, put.stderr), (0, ""))
        self.assertEqual(put.stdout, "v1/a.bin  4.9 KiB  sent\nv1/deep er/b ü.bin  10 B  sent\n")
        again = self.cli("volumes", "put", "cli", str(local / "model"), "v1").stdout
        self.assertEqual([line.rpartition(" ")[2] for line in again.splitlines()], ["unchanged"] * 2)
        other = self.cli("volumes", "put", "cli", str(local / "model/a.bin"), "copy/of a").stdout
        self.assertEqual(other.split()[-1], "continued", "its content is there: nothing was sent")
        listed = json.loads(self.cli("volumes", "ls", "cli", "--json").stdout)["files"]
        self.assertEqual([file["path"] for file in listed], ["copy/of a", "v1/a.bin", "v1/deep er/b ü.bin"])
        volumes = json.loads(self.cli("volumes", "ls", "--json").stdout)["volumes"]
        self.assertEqual([v["size_bytes"] for v in volumes if v["name"] == "cli"], [5010])
        got = self.cli("volumes", "get", "cli", "v1", str(local / "got"))
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertEqual((local / "got/deep er/b ü.bin").read_bytes(), b"B" * 10)
        self.assertEqual((local / "got/a.bin").read_bytes(), b"A" * 5000)
        self.assertEqual(self.cli("volumes", "rm", "cli", "v1").returncode, 0)
        self.assertEqual(json.loads(self.cli("volumes", "ls", "cli", "--json").stdout)["files"][0]["path"], "copy/of a")
        self.assertEqual(self.cli("volumes", "rm", "cli").stdout, "cli\n")
        missing = self.cli("volumes", "ls", "cli")
        self.assertEqual(missing.returncode, 15)
        self.assertIn("volume 'cli' does not exist", missing.stderr)

    def test_a_command_that_is_killed_goes_on_and_so_does_one_whose_worker_is(self):
        name = self.volume()
        local = self.folder / "large.bin"
        with open(local, "wb") as file:
            for _ in range(96):
                file.write(os.urandom(4 * MIB))
        unfinished = lambda: sum(v["unfinished_bytes"] for v in self.worker.request("GET", "/v1/volumes").json["volumes"])
        words = [LAMBENT, "volumes", "put", name, str(local), "--endpoint", self.worker.endpoint]
        first = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.worker.wait_for(lambda: unfinished() > 0 or first.poll() is not None, what="the first upload")
        first.send_signal(signal.SIGKILL)
        first.wait(10)
        # Its worker is killed in the middle of the second, and comes back at the same address.
        self.worker.listen = "{}:{}".format(*self.worker.address)
        second = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        digest = hashlib.sha256(local.read_bytes()).hexdigest()
        time.sleep(0.2)
        self.worker.kill()
        self.worker.start()
        out, err = second.communicate(timeout=120)
        self.assertEqual((second.returncode, err), (0, ""))
        self.assertEqual(self.worker.request("GET", f"/v1/volumes/{name}/files").json["files"],
                         [{"path": "large.bin", "size_bytes": 384 * MIB, "sha256": digest}])
        self.worker.request("DELETE", f"/v1/volumes/{name}")
        local.unlink()

    def test_the_python_client_does_the_same(self):
        local = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (local / "model/deep").mkdir(parents=True)
        (local / "model/a.bin").write_bytes(b"A" * 3 * MIB)
        (local / "model/deep/b").write_bytes(b"")
        with Client(self.worker.endpoint, local=False) as client:
            volumes = client.volumes
            volumes.create("python")
            self.assertEqual(volumes.put("python", local / "model"), 2)
            self.assertEqual(volumes.put("python", local / "model"), 0)
            self.assertEqual([file["path"] for file in volumes.files("python")], ["a.bin", "deep/b"])
            (local / "got").mkdir()
            (local / "got/a.bin.part").write_bytes(b"A" * MIB)
            volumes.get("python", ".", local / "got")
            self.assertEqual((local / "got/a.bin").read_bytes(), b"A" * 3 * MIB)
            self.assertEqual((local / "got/deep/b").read_bytes(), b"")
            (local / "got/other.part").write_bytes(b"B" * MIB)
            with self.assertRaisesRegex(LambentError, "another sha256"):
                volumes.get("python", "a.bin", local / "got/other")
            with self.assertRaisesRegex(LambentError, "no file and no folder"):
                volumes.get("python", "nothing", local / "nothing")
            (local / "model/out").symlink_to("/etc/passwd")
            with self.assertRaisesRegex(LambentError, "leads out of the folder"):
                volumes.put("python", local / "model")
            volumes.remove("python", "deep")
            (local / "model/out").unlink()
            (local / "elsewhere").mkdir()
            (local / "elsewhere/c").write_text("c")
            (local / "model/new").write_text("new")
            for target, words in (("deep", "model/linked is a link to a folder; give follow_links"), (local / "elsewhere", "out of the folder"),
                                  ("nothing", "leads nowhere")):
                (local / "model/linked").symlink_to(target)
                with self.assertRaisesRegex(InvalidArgument, words):
                    volumes.put("python", local / "model")
                (local / "model/linked").unlink()
            self.assertEqual([file["path"] for file in volumes.files("python")], ["a.bin"], "a refusal comes before the first file")
            (local / "model/linked").symlink_to(local / "elsewhere")
            volumes.put("python", local / "model", follow_links=True)
            self.assertEqual([file["path"] for file in volumes.files("python")], ["a.bin", "deep/b", "linked/c", "new"])
            (local / "model/linked").unlink()
            (local / "model/linked").symlink_to(local / "model")
            with self.assertRaisesRegex(InvalidArgument, "too deep for a volume"):
                volumes.put("python", local / "model", follow_links=True)
            volumes.remove("python")
            self.assertNotIn("python", [volume["name"] for volume in volumes.list()])


class VolumesOfTenantsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.host = pathlib.Path(tempfile.mkdtemp(prefix="lambent-host-")).resolve()
        cls.host.chmod(0o755)
        (cls.host / "note").write_text("vision's")
        cls.node = TokenWorker("--mount-allow", f"{cls.host}=vision", gpu="none")
        cls.node.operator.create_tenant("vision", disk_bytes=MIB)
        cls.node.operator.create_tenant("speech")
        cls.vision = cls.node.operator.caller("vision")
        cls.speech = cls.node.operator.caller("speech")

    @classmethod
    def tearDownClass(cls):
        cls.node.close()
        shutil.rmtree(cls.host, ignore_errors=True)

    def test_a_tenant_sees_its_own_only(self):
        self.vision.request("PUT", "/v1/volumes/own")
        self.vision.request("PUT", "/v1/volumes/own/files/a", b"secret")
        self.assertEqual(self.speech.request("GET", "/v1/volumes").json["volumes"], [])
        for method, path in (("GET", "/v1/volumes/own/files/a"), ("PUT", "/v1/volumes/own/files/a"), ("DELETE", "/v1/volumes/own"),
                             ("GET", "/v1/volumes/own/files")):
            self.assertEqual(self.speech.status_of(method, path, b"x" if method == "PUT" else None)[0], 404)
        code = make_zip({"app.py": HANDLER})
        status, text = status_of(self.speech.create, "thief", code, tags={"lambent:mounts": "own:/weights"})
        self.assertEqual(status, 409, text)
        self.assertIn("does not exist", text)

    def test_a_host_folder_may_be_one_tenants(self):
        code = make_zip({"app.py": HANDLER})
        self.vision.create("reader", code, tags={"lambent:mounts": f"{self.host}:/models"})
        self.assertEqual(self.vision.invoke("reader", {"path": "/models/note"}).json["content"], "vision's")
        status, text = status_of(self.speech.create, "reader", code, tags={"lambent:mounts": f"{self.host}:/models"})
        self.assertEqual(status, 403, text)
        self.assertNotIn(str(self.host), text.partition("allows")[2])

    def test_the_quota_of_disk_has_packages_and_volumes(self):
        self.vision.request("PUT", "/v1/volumes/full")
        content = os.urandom(MIB + 1)
        status, text = self.vision.status_of("PUT", f"/v1/volumes/full/files/a?size={MIB + 1}&sha256={sha256(content)}", content)
        self.assertEqual(status, 429, text)
        self.assertIn("quota of disk", text)
        self.vision.request("PUT", "/v1/volumes/full/files/a", content[:MIB // 2])
        tenant = self.node.operator.request("GET", "/v1/tenants/vision").json
        self.assertGreater(tenant["usage"]["disk_bytes"], MIB // 2)
        code = make_zip({"app.py": HANDLER, "noise": content.hex()})
        status, text = status_of(self.vision.create, "large", code)
        self.assertEqual(status, 429, text)
        self.assertIn("the packages, volumes, layers, logs and asynchronous invocations", text)
        self.vision.request("DELETE", "/v1/volumes/full")
        self.assertLess(self.node.operator.request("GET", "/v1/tenants/vision").json["usage"]["disk_bytes"], MIB // 2)

    def test_puts_and_removes_are_audited_and_need_the_scope(self):
        self.vision.request("PUT", "/v1/volumes/audited")
        self.vision.request("PUT", "/v1/volumes/audited/files/a/b?sha256=" + sha256(b"x"), b"x")
        self.vision.request("DELETE", "/v1/volumes/audited/files/a")
        lines = [json.loads(line) for line in self.node.audit_log.read_text().splitlines()]
        mine = [(line["method"], line["path"], line["status"]) for line in lines if "/audited" in line.get("path", "")]
        self.assertEqual(mine, [("PUT", "/v1/volumes/audited", 200), ("PUT", "/v1/volumes/audited/files/a/b", 200),
                                ("DELETE", "/v1/volumes/audited/files/a", 200)])
        reader = self.node.operator.caller("vision", scopes=("read",))
        self.assertEqual(reader.status_of("PUT", "/v1/volumes/audited/files/c", b"x")[0], 403)
        self.assertEqual(reader.status_of("GET", "/v1/volumes")[0], 200)
        invoker = self.node.operator.caller("vision", scopes=("invoke",))
        self.assertEqual(invoker.status_of("GET", "/v1/volumes")[0], 403)


if __name__ == "__main__":
    unittest.main()
