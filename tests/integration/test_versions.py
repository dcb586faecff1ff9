"""Versions, aliases, rollback and deployments in one call, with boto3, the command and the worker's own API."""
import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.parse

from harness import PREFIX, HttpError, Worker, make_zip

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError
except ImportError:
    boto3 = None

LAMBENT = str(PREFIX / "bin/lambent")
CODE = "import os\ndef handler(event, context):\n  return {'says': %r, 'version': context.function_version, 'arn': context.invoked_function_arn, 'name': context.function_name}\n"


def digest(content):
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def copy(offset, length):
    """A step of a delta."""
    return struct.pack("<BQQ", 1, offset, length)


def says(word):
    return make_zip({"app.py": CODE % word})


class VersionsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-versions-"))
        cls.worker = Worker(gpu="none", folder=cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.worker.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def command(self, *words, expect=0):
        result = subprocess.run([LAMBENT, *words], capture_output=True, text=True, timeout=120,
                                env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def package(self, name, word, **settings):
        folder = self.folder / ("package-" + name)
        folder.mkdir(exist_ok=True)
        (folder / "app.py").write_text(CODE % word)
        lines = [f'{key} = {json.dumps(value)}' for key, value in settings.items()]
        (folder / "lambent.toml").write_text(
            f'name = "{name}"\nruntime = "python3"\nhandler = "app.handler"\n' + "\n".join(lines) + "\n")
        return str(folder)

    def invoke(self, name):
        reply = self.worker.invoke(name)
        return reply.headers.get("x-amz-executed-version"), reply.json

    def revision(self, name):
        listed = json.loads(self.command("revisions", name, "--json"))["revisions"]
        return listed[0]["revision"]

    # ---- One deployment, one revision

    def test_a_deployment_of_code_and_settings_is_one_revision(self):
        self.assertIn("created one", self.command("deploy", self.package("one", "a")))
        self.assertEqual(self.revision("one"), 1)
        folder = self.package("one", "b", memory="1GiB", environment={})
        self.assertIn("would be updated one", self.command("deploy", folder, "--dry-run"))
        self.assertEqual(self.revision("one"), 1)
        said = self.command("deploy", folder, "--dry-run")
        self.assertIn("memory_bytes: 536870912 -> 1073741824", said)
        self.assertIn("code_sha256", said)
        self.assertIn("updated one", self.command("deploy", folder))
        self.assertEqual(self.revision("one"), 2)
        self.assertEqual(self.invoke("one")[1]["says"], "b")
        self.assertIn("unchanged one, at revision 2", self.command("deploy", folder, "--wait"))
        self.assertEqual(self.revision("one"), 2)
        self.command("deploy", folder, "--wait", "--no-wait", expect=2)

    def test_a_refused_part_changes_nothing(self):
        self.command("deploy", self.package("whole", "a"))
        for settings in ({"memory": "1MiB"}, {"environment": {"P": "${secret:none}"}}):
            toml = self.package("whole", "b")
            lines = "".join(f'[{k}]\n' + "".join(f'{a} = "{b}"\n' for a, b in v.items()) if isinstance(v, dict)
                            else f'{k} = "{v}"\n' for k, v in settings.items())
            with open(pathlib.Path(toml) / "lambent.toml", "a") as file:
                file.write(lines)
            result = subprocess.run([LAMBENT, "deploy", toml], capture_output=True, text=True, timeout=60,
                                    env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
            self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertEqual(self.revision("whole"), 1)
        self.assertEqual(self.invoke("whole")[1]["says"], "a")

    def test_of_two_deployments_at_once_one_wins_and_the_other_is_told(self):
        self.command("deploy", self.package("race", "start"))
        folders = []
        for i in range(4):
            source = self.package("race", f"w{i}")
            folder = self.folder / f"race-{i}"
            shutil.copytree(source, folder)
            folders.append(str(folder))

        def deploy(folder):
            return subprocess.run([LAMBENT, "deploy", folder], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(deploy, folders))
        won = [r for r in results if r.returncode == 0]
        self.assertGreaterEqual(len(won), 1)
        for result in results:
            if result.returncode != 0:
                self.assertEqual(result.returncode, 20, result.stderr)
                self.assertIn("another change of function 'race' is under way", result.stderr)
        self.assertEqual(self.revision("race"), 1 + len(won))

    def test_a_large_package_that_the_worker_has_is_not_sent_again(self):
        folder = self.package("large", "a")
        (pathlib.Path(folder) / "data.bin").write_bytes(os.urandom(300_000))
        first = json.loads(self.command("deploy", folder, "--json"))
        self.assertGreater(first["sent_bytes"], 300_000)
        with open(pathlib.Path(folder) / "lambent.toml", "a") as file:
            file.write("timeout_s = 7\n")
        second = json.loads(self.command("deploy", folder, "--json"))
        self.assertEqual(second["action"], "updated")
        self.assertLess(second["sent_bytes"], 4_000)
        self.assertEqual(self.invoke("large")[1]["says"], "a")

    def test_of_a_large_package_only_what_changed_is_sent(self):
        folder = pathlib.Path(self.package("parts", "a"))
        for i in range(8):
            (folder / f"data{i}.bin").write_bytes(os.urandom(1 << 20))
        first = json.loads(self.command("deploy", str(folder), "--json"))
        self.assertGreater(first["sent_bytes"], 8 << 20)
        for word in "bc":
            self.package("parts", word)
            changed = json.loads(self.command("deploy", str(folder), "--json"))
            self.assertEqual(changed["action"], "updated")
            self.assertLess(changed["sent_bytes"], 8_000)
            self.assertEqual(self.invoke("parts")[1]["says"], word)
        # What it serves is what the whole package would have been.
        self.assertEqual(json.loads(self.command("deploy", str(folder), "--json"))["action"], "unchanged")
        # Only of present code the package is kept: after one that was rolled back to, all is sent once.
        self.command("rollback", "parts")
        self.assertEqual(self.invoke("parts")[1]["says"], "b")
        for word, is_sent in (("d", self.assertGreater), ("e", self.assertLess)):
            self.package("parts", word)
            is_sent(json.loads(self.command("deploy", str(folder), "--json"))["sent_bytes"], 8_000)
            self.assertEqual(self.invoke("parts")[1]["says"], word)

    def put_delta(self, name, delta, made, base):
        settings = {"Runtime": "python3", "Role": "-", "Handler": "app.handler"}
        body = b"".join(b'--XX\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % part
                        for part in ((b"settings", json.dumps(settings).encode()), (b"delta", delta))) + b"--XX--\r\n"
        query = urllib.parse.urlencode({"code_sha256": made, "base_sha256": base})
        try:
            return self.worker.request("PUT", f"/v1/functions/{name}?{query}", body, {"Content-Type": "multipart/form-data; boundary=XX"})
        except HttpError as error:
            return error

    def test_a_delta_that_lies_changes_nothing(self):
        mine = make_zip({"app.py": CODE % "mine", "data": os.urandom(200_000)})
        others = make_zip({"app.py": CODE % "others", "data": os.urandom(200_000)})
        self.worker.create("mine", mine)
        self.worker.create("others", others)
        whole = b"lambentD" + copy(0, len(mine))
        # What it makes is not what its digest says; and nothing is told of code that is another function's.
        refused = [(whole, digest(b"other"), digest(mine)), (b"lambentD" + copy(0, len(others)), digest(others), digest(others)),
                   (b"lambentD" + copy(0, 5), digest(b"x"), digest(b"never there"))]
        messages = []
        for delta, made, base in refused:
            error = self.put_delta("mine", delta, made, base)
            self.assertEqual(error.status, 412, error)
            messages.append(error.body.decode())
        self.assertIn("send it as the part 'code'", messages[0])
        self.assertEqual(messages[1].replace(digest(others), ""), messages[2].replace(digest(b"x"), ""))
        for delta in (b"lambentX", whole[:-3], b"lambentD" + copy(len(mine), 1), b"lambentD" + struct.pack("<BQ", 2, 1 << 63) + b"x"):
            error = self.put_delta("mine", delta, digest(b"x"), digest(mine))
            self.assertEqual(error.status, 400, error)
        # No zip, by its right digest.
        error = self.put_delta("mine", b"lambentD" + copy(0, 100), digest(mine[:100]), digest(mine))
        self.assertEqual(error.status, 400, error)
        self.assertEqual(self.put_delta("nobody", whole, digest(mine), digest(mine)).status, 412)
        self.assertEqual(self.invoke("mine")[1]["says"], "mine")
        self.assertEqual(self.put_delta("mine", whole, digest(mine), digest(mine)).status, 200)

    # ---- Versions and aliases

    def test_an_alias_moves_from_version_to_version(self):
        self.command("deploy", self.package("moves", "a"))
        self.assertIn("published moves:1", self.command("publish", "moves", "--description", "first"))
        self.assertIn("published moves:1", self.command("publish", "moves"))
        self.command("deploy", self.package("moves", "b"))
        self.assertIn("published moves:2", self.command("publish", "moves"))
        self.assertIn("moves:prod -> 1", self.command("alias", "set", "moves", "prod", "1"))
        version, answer = self.invoke("moves:prod")
        self.assertEqual((version, answer["says"], answer["version"], answer["name"]), ("1", "a", "1", "moves"))
        self.assertEqual(self.invoke("moves")[0], "$LATEST")
        self.command("deploy", self.package("moves", "c"))
        self.assertEqual(self.invoke("moves:prod")[1]["says"], "a")
        self.command("alias", "set", "moves", "prod", "2")
        self.assertEqual(self.invoke("moves:prod")[1]["says"], "b")
        self.assertIn("needed by the alias 'prod'", self.command("versions", "rm", "moves", "2", expect=19))
        self.command("versions", "rm", "moves", "1")
        listed = self.command("versions", "ls", "moves")
        self.assertNotIn("first", listed)
        self.assertEqual(json.loads(self.command("versions", "ls", "moves", "--json"))["versions"][0]["version"], "2")
        self.assertIn("Version: 2", self.command("logs", "moves:prod"))
        with self.assertRaises(HttpError) as raised:
            self.invoke("moves:1")
        self.assertEqual(raised.exception.status, 404)
        self.assertIn("it has $LATEST, 2, prod", str(raised.exception))

    def test_a_second_version_gets_its_share(self):
        for word in "ab":
            self.command("deploy", self.package("canary", word))
            self.command("publish", "canary")
        self.assertIn("canary:prod -> 1 (75%), 2 (25%)",
                      self.command("alias", "set", "canary", "prod", "1", "--second", "2=0.25"))
        seen = [self.invoke("canary:prod")[0] for _ in range(120)]
        self.assertEqual(set(seen), {"1", "2"})
        self.assertTrue(10 <= seen.count("2") <= 55, seen.count("2"))

    def test_the_function_goes_back_to_an_earlier_revision(self):
        for word in "abc":
            self.command("deploy", self.package("back", word))
        self.assertIn("now at revision 4", self.command("rollback", "back"))
        self.assertEqual(self.invoke("back")[1]["says"], "b")
        self.command("rollback", "back", "--to", "1")
        self.assertEqual(self.invoke("back")[1]["says"], "a")
        self.assertIn("kept are", self.command("rollback", "back", "--to", "99", expect=15))

    def test_bad_input_is_told(self):
        self.command("deploy", self.package("bad", "a"))
        self.command("publish", "bad")
        self.assertIn("looks like a version", self.command("alias", "set", "bad", "7", "1", expect=13))
        self.assertIn("no version or alias '9'", self.command("alias", "set", "bad", "prod", "9", expect=15))
        self.assertIn("add up", self.command("alias", "set", "bad", "prod", "1", "--second", "2=1.5", expect=13))
        self.assertIn("VERSION=SHARE", self.command("alias", "set", "bad", "prod", "1", "--second", "2", expect=13))
        self.command("publish", "nobody", expect=15)
        self.command("rollback", "bad", expect=19)

    def test_publishing_without_a_change_makes_no_version_and_there_is_a_bound(self):
        self.command("deploy", self.package("many", "a"))
        for _ in range(300):
            self.assertEqual(self.worker.request("POST", "/v1/functions/many/versions").json["version"], "1")
        refused = None
        for i in range(110):
            self.worker.request("PUT", "/2015-03-31/functions/many/configuration", json.dumps({"Timeout": 2 + i}).encode())
            try:
                self.worker.request("POST", "/v1/functions/many/versions")
            except HttpError as error:
                refused = error
                break
        self.assertEqual(refused.status, 412)
        self.assertIn("100 versions", str(refused))
        names = json.loads(self.command("ls", "--json"))
        self.assertNotIn("many:1", json.dumps(names))
        self.command("rm", "many")
        self.command("deploy", self.package("many", "a"))
        self.assertIn("published many:1", self.command("publish", "many"))

    def test_an_http_function_is_reached_by_its_alias(self):
        folder = self.folder / "web"
        folder.mkdir()
        (folder / "server.py").write_text(
            "import os\nfrom http.server import *\nclass H(BaseHTTPRequestHandler):\n"
            "  def do_GET(self):\n    body = (os.environ['WORD'] + self.path).encode()\n"
            "    self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()\n"
            "    self.wfile.write(body)\n"
            "ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), H).serve_forever()\n")
        manifest = 'name = "web"\nkind = "http"\nruntime = "python3"\ncommand = ["python3", "server.py"]\n[environment]\nWORD = "%s"\n'
        for word in ("old", "new"):
            (folder / "lambent.toml").write_text(manifest % word)
            self.command("deploy", str(folder))
            self.command("publish", "web")
        self.command("alias", "set", "web", "prod", "1")
        self.assertEqual(self.worker.request("GET", "/f/web:prod/x").body, b"old/x")
        self.assertEqual(self.worker.request("GET", "/f/web/x").body, b"new/x")
        self.assertEqual(self.worker.request("GET", "/f/web:2/x").body, b"new/x")
        with self.assertRaises(HttpError) as raised:
            self.worker.request("GET", "/f/web:none/x")
        self.assertEqual(raised.exception.status, 404)


class RestartTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-versions-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def test_versions_aliases_and_revisions_outlive_a_killed_worker(self):
        worker = Worker(gpu="none", folder=self.folder)
        self.addCleanup(lambda: worker.stop())

        def deploy(word):
            worker.request("PUT", "/v1/functions/f", *deployment(word))

        def invoke(name):
            return worker.invoke(name).json["says"]
        deploy("a")
        worker.request("POST", "/v1/functions/f/versions")
        worker.request("PUT", "/v1/functions/f/aliases/prod", b'{"version": "1"}')
        deploy("b")
        worker.kill()
        worker = Worker(gpu="none", folder=self.folder)
        self.assertEqual((invoke("f:prod"), invoke("f:1"), invoke("f")), ("a", "a", "b"))
        worker.request("POST", "/v1/functions/f/rollback")
        self.assertEqual(invoke("f"), "a")
        worker.request("DELETE", "/2015-03-31/functions/f")
        worker.kill()
        worker = Worker(gpu="none", folder=self.folder)
        for name in ("f", "f:1", "f:prod"):
            with self.assertRaises(HttpError):
                invoke(name)

    def test_a_worker_that_is_killed_while_it_deploys_serves_the_old_revision_or_the_new_one(self):
        for delay in (0.0, 0.002, 0.01, 0.03):
            worker = Worker(gpu="none", folder=self.folder)
            try:
                worker.request("PUT", "/v1/functions/f", *deployment("old"))
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    going = pool.submit(lambda: worker.request("PUT", "/v1/functions/f", *deployment("new", 900)))
                    time.sleep(delay)
                    worker.kill()
                    going.exception()
            finally:
                worker.stop()
            worker = Worker(gpu="none", folder=self.folder)
            try:
                shown = worker.request("GET", "/2015-03-31/functions/f/configuration").json
                is_new = worker.invoke("f").json["says"] == "new"
                self.assertEqual(shown["MemorySize"], 900 if is_new else 512, "all of it or nothing")
            finally:
                worker.stop()


def deployment(word, memory=512):
    """The body and the headers of a deployment in one call."""
    settings = json.dumps({"Runtime": "python3", "Role": "any", "Handler": "app.handler", "MemorySize": memory})
    parts = [b"--XX\r\nContent-Disposition: form-data; name=\"settings\"\r\n\r\n" + settings.encode() + b"\r\n",
             b"--XX\r\nContent-Disposition: form-data; name=\"code\"\r\n\r\n" + says(word) + b"\r\n--XX--\r\n"]
    return b"".join(parts), {"Content-Type": "multipart/form-data; boundary=XX"}


@unittest.skipUnless(boto3, "there is no boto3")
class Boto3Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-versions-"))
        cls.worker = Worker(gpu="none", folder=cls.folder)
        cls.client = boto3.client("lambda", endpoint_url=cls.worker.endpoint, region_name="us-east-1", aws_access_key_id="any",
                                  aws_secret_access_key="any", config=Config(retries={"max_attempts": 1}))

    @classmethod
    def tearDownClass(cls):
        cls.worker.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def create(self, name, word="a", **options):
        return self.client.create_function(
            FunctionName=name, Runtime="python3", Role="arn:aws:iam::123456789012:role/r", Handler="app.handler",
            Code={"ZipFile": says(word)}, **options)

    def says(self, name, **options):
        answer = self.client.invoke(FunctionName=name, Payload=b"{}", **options)
        return answer["ExecutedVersion"], json.load(answer["Payload"])["says"]

    def test_versions_and_aliases(self):
        client = self.client
        self.assertEqual(self.create("f", Publish=True)["Version"], "1")
        client.get_waiter("function_active_v2").wait(FunctionName="f")
        client.get_waiter("published_version_active").wait(FunctionName="f", Qualifier="1")
        updated = client.update_function_code(FunctionName="f", ZipFile=says("b"))
        client.get_waiter("function_updated_v2").wait(FunctionName="f")
        with self.assertRaises(client.exceptions.PreconditionFailedException):
            client.publish_version(FunctionName="f", RevisionId="00000000-0000-0000-0000-000000000000")
        with self.assertRaises(client.exceptions.InvalidParameterValueException):
            client.publish_version(FunctionName="f", CodeSha256="other")
        made = client.publish_version(FunctionName="f", Description="second", CodeSha256=updated["CodeSha256"],
                                      RevisionId=updated["RevisionId"])
        self.assertEqual((made["Version"], made["Description"]), ("2", "second"))
        self.assertTrue(made["FunctionArn"].endswith(":f:2"))
        self.assertEqual([v["Version"] for page in client.get_paginator("list_versions_by_function").paginate(
            FunctionName="f", PaginationConfig={"PageSize": 1}) for v in page["Versions"]], ["$LATEST", "1", "2"])
        alias = client.create_alias(FunctionName="f", Name="prod", FunctionVersion="1",
                                    RoutingConfig={"AdditionalVersionWeights": {"2": 0.5}})
        self.assertEqual(alias["RoutingConfig"], {"AdditionalVersionWeights": {"2": 0.5}})
        self.assertEqual({self.says("f", Qualifier="prod")[1] for _ in range(40)}, {"a", "b"})
        with self.assertRaises(client.exceptions.ResourceConflictException):
            client.create_alias(FunctionName="f", Name="prod", FunctionVersion="1")
        with self.assertRaises(client.exceptions.ResourceNotFoundException):
            client.create_alias(FunctionName="f", Name="x", FunctionVersion="77")
        with self.assertRaises(client.exceptions.PreconditionFailedException):
            client.update_alias(FunctionName="f", Name="prod", FunctionVersion="2", RevisionId="stale")
        changed = client.update_alias(FunctionName="f", Name="prod", FunctionVersion="2", RoutingConfig={},
                                      RevisionId=alias["RevisionId"])
        self.assertNotIn("RoutingConfig", changed)
        self.assertEqual(self.says(alias["AliasArn"]), ("2", "b"))
        self.assertEqual(self.says("f:1"), ("1", "a"))
        self.assertEqual(client.get_function(FunctionName="f", Qualifier="prod")["Configuration"]["Version"], "2")
        self.assertEqual([a["Name"] for a in client.list_aliases(FunctionName="f")["Aliases"]], ["prod"])
        with self.assertRaises(client.exceptions.ResourceConflictException):
            client.delete_function(FunctionName="f", Qualifier="2")
        client.delete_alias(FunctionName="f", Name="prod")
        client.delete_function(FunctionName="f", Qualifier="2")
        with self.assertRaises(client.exceptions.ResourceNotFoundException):
            client.invoke(FunctionName="f", Qualifier="2")
        with self.assertRaises(client.exceptions.ResourceNotFoundException):
            client.get_alias(FunctionName="f", Name="prod")
        self.assertNotIn("f:1", [f["FunctionName"] for f in client.list_functions()["Functions"]])

    def test_concurrency(self):
        client = self.client
        self.create("g")
        self.assertNotIn("ReservedConcurrentExecutions", client.get_function_concurrency(FunctionName="g"))
        client.put_function_concurrency(FunctionName="g", ReservedConcurrentExecutions=3)
        self.assertEqual(client.get_function_concurrency(FunctionName="g")["ReservedConcurrentExecutions"], 3)
        client.delete_function_concurrency(FunctionName="g")
        self.assertNotIn("ReservedConcurrentExecutions", client.get_function_concurrency(FunctionName="g"))
        with self.assertRaises(ClientError) as raised:
            client.put_provisioned_concurrency_config(FunctionName="g", Qualifier="1", ProvisionedConcurrentExecutions=1)
        self.assertEqual(raised.exception.response["Error"]["Code"], "ResourceNotFoundException")

    def test_an_event_runs_the_version_that_was_named(self):
        self.create("h", Publish=True)
        self.client.update_function_code(FunctionName="h", ZipFile=says("b"))
        answer = self.client.invoke(FunctionName="h", Qualifier="1", InvocationType="Event", Payload=b"{}")
        name = answer["ResponseMetadata"]["HTTPHeaders"]["x-amzn-requestid"]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            reply = self.worker.request("GET", f"/v1/invocations/{name}")
            if reply.status == 200:
                break
            time.sleep(0.05)
        self.assertEqual(reply.json["says"], "a")


if __name__ == "__main__":
    unittest.main()
