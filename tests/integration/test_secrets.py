"""Secrets, logs and backups of a real worker: what functions get, what nobody else sees, and what is there after a restart."""
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

from harness import PREFIX, HttpError, Worker, make_zip
from tenants import TokenWorker

LAMBENT = str(PREFIX / "bin/lambent")
VALUE = "correct horse battery staple"
# What it was started with, and what is in its file.
SHOW = """
import os
def handler(event, context):
    print('started with', len(os.environ['PASSWORD']))
    path = os.environ.get('KEY', '')
    return {'password': os.environ['PASSWORD'], 'url': os.environ.get('URL'), 'path': path, 'key': open(path).read() if path else None,
            'listed': sorted(os.listdir('/run/secrets')) if path else None}
"""
# What it finds in its volume and its layer.
MOUNTS = """
import hashlib, words
def handler(event, context):
    files = [open('/weights/' + name, 'rb').read() for name in ('model.bin', 'again/model.bin')]
    assert files[0] == files[1]
    return [hashlib.sha256(files[0]).hexdigest(), words.WORD]
"""
# What is in the file, and what kind of file system that is in.
READ = """
import os
def handler(event, context):
    path = os.environ['KEY']
    places = [line.split() for line in open('/proc/self/mounts')]
    kind = max((place, kind) for _, place, kind, *_ in places if path.startswith(place.rstrip('/') + '/'))[1]
    return {'key': open(path).read(), 'kind': kind}
"""
IN_MEMORY = ("ramfs", "tmpfs")
REFERENCES = {"PASSWORD": "${secret:pw}", "URL": "db://u:${secret:pw}@h", "KEY": "${secret-file:key}"}


def files_with(folder, value):
    """The files below a folder that have a value in them."""
    found = []
    for parent, _, names in os.walk(folder):
        for file in (pathlib.Path(parent, name) for name in names):
            with contextlib.suppress(FileNotFoundError):  # the worker removes some meanwhile
                if file.is_file() and value.encode() in file.read_bytes():
                    found.append(str(file))
    return found


def expect_no_plaintext(test, worker):
    """A function is shown a file with a secret that lies on no disk: while it runs, and after the worker is killed."""
    worker.request("PUT", "/v1/secrets/plain", VALUE)
    worker.create_python("reads", READ, environment={"KEY": "${secret-file:plain}"})
    answer = worker.invoke("reads").json
    test.assertEqual(answer["key"], VALUE)
    test.assertIn(answer["kind"], IN_MEMORY)
    test.assertEqual(files_with(worker.folder, VALUE), [])
    worker.kill()
    test.assertEqual(files_with(worker.folder, VALUE), [])


class SecretsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-secrets-"))
        cls.worker = Worker("--journal", str(cls.folder / "journal"), folder=cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def put(self, name, value):
        return self.worker.request("PUT", f"/v1/secrets/{name}", value)

    def code_of(self, call, *arguments, **options):
        with self.assertRaises(HttpError) as caught:
            call(*arguments, **options)
        return caught.exception.status

    def test_a_function_gets_values_and_files_and_nothing_else_shows_them(self):
        self.put("pw", VALUE)
        self.put("key", "-----KEY-----")
        self.worker.create_python("show", SHOW, environment=REFERENCES)
        answer = self.worker.invoke("show").json
        self.assertEqual(answer, {"password": VALUE, "url": f"db://u:{VALUE}@h", "path": "/run/secrets/key", "key": "-----KEY-----",
                                  "listed": ["key"]})
        shown = [self.worker.request("GET", path).body.decode() for path in (
            "/v1/secrets", "/v1/functions", "/2015-03-31/functions", "/2015-03-31/functions/show", "/v1/functions/show/log", "/v1/sandboxes")]
        self.assertIn("${secret:pw}", shown[3])
        for text in [*shown, self.worker.log()]:
            self.assertNotIn(VALUE, text)
        self.assertEqual(files_with(self.folder, VALUE), [])

    def test_a_changed_value_reaches_the_next_call_and_one_in_use_stays(self):
        self.put("turn", "old")
        self.worker.create_python("turning", SHOW, environment={"PASSWORD": "${secret:turn}"})
        self.assertEqual(self.worker.invoke("turning").json["password"], "old")
        for turn in range(20):
            self.put("turn", f"new {turn}")
            self.assertEqual(self.worker.invoke("turning").json["password"], f"new {turn}")
        self.assertEqual(self.code_of(self.worker.request, "DELETE", "/v1/secrets/turn"), 412)
        self.worker.delete("turning")
        self.worker.request("DELETE", "/v1/secrets/turn")
        self.assertEqual(self.code_of(self.worker.request, "DELETE", "/v1/secrets/turn"), 404)

    def test_a_changed_value_waits_for_another_change_of_the_function(self):
        self.put("both", "old")
        self.worker.create_python("both", SHOW, environment={"PASSWORD": "${secret:both}"})
        for turn in range(20):
            tag = threading.Thread(target=self.tag, args=("both", turn + 1))
            tag.start()
            self.put("both", f"new {turn}")
            tag.join()
            self.assertEqual(self.worker.invoke("both").json["password"], f"new {turn}")

    def tag(self, name, weight):
        try:
            self.worker.tag(name, {"lambent:weight": str(weight)})
        except HttpError as error:
            if error.status != 409:  # the other change came first
                raise

    def test_what_cannot_be_is_refused(self):
        self.assertEqual(self.code_of(self.worker.create_python, "none", SHOW, environment={"PASSWORD": "${secret:missing}"}), 409)
        self.assertEqual(self.code_of(self.worker.create_python, "bad", SHOW, environment={"PASSWORD": "${secret:"}), 400)
        self.assertEqual(self.code_of(self.put, "large", b"x" * (64 * 1024 + 1)), 400)
        self.assertEqual(self.code_of(self.put, "..", b"x"), 400)
        self.assertEqual(self.code_of(self.put, "a%2Fb", b"x"), 400)

    def test_large_files_are_shown_whole(self):
        names = [f"large-{number}" for number in range(6)]
        for name in names:
            self.put(name, name.encode() + b"x" * (64 * 1024 - len(name)))
        self.worker.create_python("large", "import os\ndef handler(e, c): return {k: len(open(p).read()) for k, p in os.environ.items() if k[:6] == 'LARGE_'}",
                                  environment={f"LARGE_{number}": f"${{secret-file:{name}}}" for number, name in enumerate(names)})
        self.assertEqual(self.worker.invoke("large").json, {f"LARGE_{number}": 64 * 1024 for number in range(6)})

    def test_the_command_takes_a_value_from_standard_input_only(self):
        def run(*arguments, given=""):
            return subprocess.run([LAMBENT, "secrets", *arguments, "--endpoint", self.worker.endpoint], input=given, capture_output=True,
                                  text=True, timeout=60)
        self.assertEqual(run("set", "typed", given="hunter2\n").returncode, 0)
        self.worker.create_python("typed", SHOW, environment={"PASSWORD": "${secret:typed}"})
        self.assertEqual(self.worker.invoke("typed").json["password"], "hunter2")
        self.assertIn("typed", run("ls").stdout)
        self.assertNotEqual(run("set", "empty").returncode, 0)
        self.assertNotEqual(run("rm", "typed").returncode, 0)


class SecretFilesTest(unittest.TestCase):
    def test_files_with_secrets_are_on_no_disk_also_after_kill_9(self):
        worker = Worker()
        self.addCleanup(worker.close)
        expect_no_plaintext(self, worker)


class TenantsSecretsTest(unittest.TestCase):
    def test_tenants_with_secrets_of_one_name_get_their_own(self):
        held = TokenWorker()
        self.addCleanup(held.close)
        for color in ("red", "blue"):
            held.operator.create_tenant(color)
            caller = held.operator.caller(color)
            caller.request("PUT", "/v1/secrets/pw", f"of {color}")
            caller.create_python("show", SHOW, environment={"PASSWORD": "${secret:pw}"})
            self.assertEqual(caller.invoke("show").json["password"], f"of {color}")
        self.assertEqual(held.operator.caller("red", scopes=("read", "invoke")).status_of("PUT", "/v1/secrets/pw", "x")[0], 403)
        self.assertNotIn("of red", held.audit_log.read_text())
        self.assertIn("/v1/secrets/pw", held.audit_log.read_text())


class LogsTest(unittest.TestCase):
    def log_of(self, worker, offset=0):
        reply = worker.request("GET", f"/v1/functions/talk/log?offset={offset}")
        return reply.body.decode(), int(reply.headers["x-lambent-next-offset"])

    def test_what_was_printed_is_there_after_kill_9_at_its_offset(self):
        worker = Worker()
        self.addCleanup(worker.close)
        worker.create_python("talk", "def handler(e, c): print('said', e['n'])")
        worker.invoke("talk", {"n": 1})
        worker.wait_for(lambda: "said 1" in self.log_of(worker)[0], what="the first line")
        before, offset = self.log_of(worker)
        time.sleep(1)  # what was printed less than 200 ms ago may be lost by a kill
        worker.kill()
        worker.start()
        after, step = self.log_of(worker)
        self.assertEqual(after, before)
        self.assertGreaterEqual(step, offset)  # a killed worker may have told offsets that are not on disk
        for place in (offset, step):
            self.assertEqual(self.log_of(worker, place), ("", step))
        worker.invoke("talk", {"n": 2})
        for place in (offset, step):
            worker.wait_for(lambda: "said 2" in self.log_of(worker, place)[0], what="the second line")
            self.assertNotIn("said 1", self.log_of(worker, place)[0])

    def test_without_room_on_disk_they_end_with_the_worker(self):
        worker = Worker("--function-log-size", "0")
        self.addCleanup(worker.close)
        worker.create_python("talk", "def handler(e, c): print('said', e['n'])")
        worker.invoke("talk", {"n": 1})
        worker.stop()
        worker.start()
        self.assertEqual(self.log_of(worker)[0], "")


class BackupTest(unittest.TestCase):
    def test_a_backup_under_load_has_what_was_acknowledged_and_serves(self):
        held = TokenWorker()
        self.addCleanup(held.close)
        held.operator.create_tenant("team")
        caller = held.operator.caller("team")
        caller.request("PUT", "/v1/secrets/pw", VALUE)
        caller.create_python("show", SHOW, environment={"PASSWORD": "${secret:pw}"})
        stop, acknowledged = threading.Event(), []

        def submit():
            while not stop.is_set():
                acknowledged.append(caller.invoke("show", kind="Event").headers["x-amzn-requestid"])
                time.sleep(0.01)

        sender = threading.Thread(target=submit)
        sender.start()
        held.worker.wait_for(lambda: len(acknowledged) > 10, what="some invocations")
        known = list(acknowledged)
        copy = held.folder / "copy"
        done = subprocess.run([LAMBENT, "backup", "--state", str(held.folder / "state"), str(copy)], capture_output=True, text=True, timeout=60)
        stop.set()
        sender.join()
        self.assertEqual(done.returncode, 0, done.stderr)
        again = subprocess.run([LAMBENT, "backup", "--state", str(held.folder / "state"), str(copy)], capture_output=True, text=True, timeout=60)
        self.assertEqual(again.returncode, 16, again.stderr)

        other = pathlib.Path(tempfile.mkdtemp(prefix="lambent-restored-"))
        self.addCleanup(shutil.rmtree, other, ignore_errors=True)
        done = subprocess.run([LAMBENT, "restore", "--state", str(other / "state"), str(copy)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        restored = Worker("--auth", "tokens", folder=other)
        self.addCleanup(restored.close)
        there = type(caller)(restored, caller.token)
        self.assertEqual(there.invoke("show").json["password"], VALUE)

        def has_result(request_id):
            return there.request("GET", f"/v1/invocations/{request_id}").status == 200
        for request_id in known:
            restored.wait_for(lambda: has_result(request_id), 60, f"the result of {request_id}")

    def command(self, verb, state, folder, *more):
        return subprocess.run([LAMBENT, verb, "--state", str(state), str(folder), *more], capture_output=True, text=True, timeout=120)

    def test_files_of_volumes_and_layers_are_there_after_a_restore(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        layer = {"Content": {"ZipFile": base64.b64encode(make_zip({"python/words.py": "WORD = 'of the layer'", "lib/file": "x"})).decode()}}
        worker.request("POST", "/2018-10-31/layers/words/versions", json.dumps(layer))
        weights = os.urandom(3 << 20)
        worker.request("PUT", "/v1/volumes/weights")
        for path in ("model.bin", "again/model.bin"):
            worker.request("PUT", f"/v1/volumes/weights/files/{path}", weights)
        worker.create_python("mounts", MOUNTS, tags={"lambent:mounts": "weights:/weights", "lambent:layers": "words:1"})
        worker.request("DELETE", "/2018-10-31/layers/words/versions/1")  # the function keeps it
        expected = [hashlib.sha256(weights).hexdigest(), "of the layer"]
        self.assertEqual(worker.invoke("mounts").json, expected)
        stop, put = threading.Event(), []

        def change():
            while not stop.is_set():
                name = f"more/{len(put) % 5}/{len(put)}"
                worker.request("PUT", f"/v1/volumes/weights/files/{name}", name)
                put.append(name)
                if len(put) % 3 == 0:
                    worker.request("DELETE", f"/v1/volumes/weights/files/{put[-2]}")

        changer = threading.Thread(target=change)
        changer.start()
        worker.wait_for(lambda: len(put) > 5, what="some files")
        kept = [name for name in put if put.index(name) % 3 != 1]
        state, copy = worker.folder / "state", worker.folder / "copy"
        done = self.command("backup", state, copy)
        stop.set()
        changer.join()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=copy).returncode, 0)
        [content] = [path for path in copy.glob("volumes/1/weights/contents/*") if path.stat().st_size == len(weights)]
        self.assertEqual(content.stat().st_nlink, 3, "once, with its name and those of both files")

        other = pathlib.Path(tempfile.mkdtemp(prefix="lambent-restored-"))
        self.addCleanup(shutil.rmtree, other, ignore_errors=True)
        done = self.command("restore", other / "state", copy)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        restored = Worker(gpu="none", folder=other)
        self.addCleanup(restored.close)
        self.assertEqual(restored.invoke("mounts").json, expected)
        for name in kept:
            self.assertEqual(restored.request("GET", f"/v1/volumes/weights/files/{name}").body.decode(), name)
        publication = restored.request("POST", "/2018-10-31/layers/words/versions", json.dumps(layer)).json
        self.assertEqual(publication["Version"], 2, "a number is given once")

        with open(content, "r+b") as file:
            content.chmod(0o755)
            file.write(b"rotten")
        done = self.command("restore", other / "again", copy)
        self.assertEqual(done.returncode, 25, done.stderr)
        self.assertIn("is not what was put there", done.stderr)
        self.assertFalse((other / "again").exists())
        (copy / "code").rename(copy / "lost")
        done = self.command("restore", other / "again", copy)
        self.assertIn("was backed up and cannot be read", done.stderr)
        done = self.command("backup", state, worker.folder / "small", "--without-volumes")
        self.assertEqual(done.returncode, 0)
        self.assertIn("volumes are not in this backup", done.stderr)
        self.assertEqual(list((worker.folder / "small").glob("volumes/*")), [])

    def test_a_newer_state_is_refused(self):
        worker = Worker()
        self.addCleanup(worker.close)
        worker.stop()
        state = pathlib.Path(worker.folder) / "state"
        with sqlite3.connect(state / "catalog.db") as database:
            database.execute("INSERT INTO schema_version VALUES (1000)")
        done = subprocess.run([LAMBENT, "backup", "--state", str(state), str(state) + ".copy"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 19, done.stderr)
        self.assertIn("newer Lambent", done.stderr)
        self.assertFalse(pathlib.Path(str(state) + ".copy").exists())


if __name__ == "__main__":
    unittest.main()
