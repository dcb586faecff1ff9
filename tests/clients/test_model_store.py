"""Models that are fetched by URL: plain HTTP with servers that misbehave, and S3's protocol against moto's server, which checks signatures."""
import base64
import hashlib
import http.server
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse
import urllib.request

import numpy as np
import tritonclient.http as triton

from model_worker import LAMBENT, WEIGHTS, ModelWorkerTest, field, matrix_model, value_info
from tenants import TokenWorker

HAS_MOTO = importlib.util.find_spec("moto") is not None
# Keys on a page of a listing: Amazon's in the whole form, and else fewer, as every key takes a put.
PAGE = 1000 if os.environ.get("LAMBENT_WHOLE_TESTS") else 50
MOTO = """
import sys
from moto.s3.models import S3Backend
from moto.server import main
cut = S3Backend._truncate_result
S3Backend._truncate_result = lambda self, keys, most: cut(self, keys, min(most, int(sys.argv[2])))
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
"""
MODEL = matrix_model(WEIGHTS)
DIGEST = hashlib.sha256(MODEL).hexdigest()


def model_with_data(places):
    """y = x @ w for each (name of a file, weights): a model that keeps its tensors beside it."""
    nodes = constants = outputs = b""
    for number, (place, weights) in enumerate(places):
        external = b"".join(field(13, field(1, key) + field(2, value)) for key, value in (
            ("location", place), ("offset", "0"), ("length", str(weights.nbytes))))
        constants += field(5, field(1, weights.shape[0]) + field(1, weights.shape[1]) + field(2, 1) + field(8, f"w{number}")
                           + external + field(14, 1))
        nodes += field(1, field(1, "x") + field(1, f"w{number}") + field(2, f"y{number}") + field(4, "MatMul"))
        outputs += field(12, value_info(f"y{number}", ["n", weights.shape[1]]))
    graph = nodes + field(2, "beside") + constants + field(11, value_info("x", ["n", places[0][1].shape[0]])) + outputs
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 16))


class Store(http.server.BaseHTTPRequestHandler):
    """Files under their paths; a path's first part says how the server misbehaves."""
    protocol_version = "HTTP/1.1"
    files, seen = {}, []
    lock = threading.Lock()

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def list_bucket(self):
        """A page of a store whose keys are those of the files."""
        query = dict(urllib.parse.parse_qsl(self.path.partition("?")[2]))
        keys = sorted(name for name in self.files if name.startswith(query.get("prefix", "")) and name > query.get("continuation-token", ""))
        page = keys[:1000]
        more = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if len(keys) > 1000 else ""
        contents = "".join(f"<Contents><Key>{key}</Key><Size>{len(self.files[key])}</Size></Contents>" for key in page)
        self.answer(200, f"<ListBucketResult><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}{contents}</ListBucketResult>".encode())

    def do_GET(self):
        _, how, *rest = self.path.split("?")[0].split("/")
        name = "/".join(rest)
        with self.lock:
            self.seen.append((self.path, dict(self.headers)))
            times = sum(path == self.path for path, _ in self.seen)
        content = self.files.get(name)
        if how == "forbidden":
            return self.answer(403, b"<Error><Code>AccessDenied</Code><Message>Not for you</Message></Error>")
        if how == "loop":
            return self.answer(302, Location=f"/loop/{name}?{times}")
        if how == "elsewhere":
            return self.answer(302, Location=f"/plain/{name}")
        if how == "outside":
            return self.answer(302, Location="file:///etc/passwd")
        if how == "inside":
            return self.answer(302, Location="http://169.254.169.254/latest/meta-data/")
        if how == "login" and self.headers.get("Authorization") != "Basic " + base64.b64encode(b"me:secret").decode():
            return self.answer(401, b"who are you?")
        if how == "page":
            return self.answer(200, b"<html>sign in</html>")
        if how == "bucket" and "list-type=2" in self.path:
            return self.list_bucket()
        if content is None:
            return self.answer(404, b"no such file")
        if how == "endless":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")
            except OSError:
                return
        if how == "huge":
            return self.answer(200, b"", Content_Length=str(1 << 60))
        if how == "encoded":
            return self.answer(200, content, Content_Encoding="gzip")
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        if self.headers.get("If-None-Match") == tag:
            return self.answer(304, ETag=tag)
        start, status, extra = 0, 200, {"ETag": tag}
        if how == "lies":
            extra["x-amz-checksum-sha256"] = base64.b64encode(hashlib.sha256(b"another").digest()).decode()
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and self.headers.get("If-Range") == tag and how != "rangeless":
            start, status = int(asked[1]), 206
            extra["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.send_response(status)
        for header, value in extra.items():
            self.send_header(header, value)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if how in ("cut", "rangeless") and times < 3:
            # A third of it, and then the end.
            self.wfile.write(body[:max(1, len(content) // 3)])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif how == "dies" and times < 20:
            self.wfile.write(body[:1 if start == 0 else 0])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif how == "stalls":
            self.wfile.write(body[:10 if start == 0 else 0])
            self.wfile.flush()
            time.sleep(4)
            self.close_connection = True
        else:
            self.wfile.write(body)


class StoreCase(ModelWorkerTest):
    """Deployments with a cache of their own."""

    def setUp(self):
        self.cache = self.folder / "cache"
        shutil.rmtree(self.cache, ignore_errors=True)

    def deploy(self, *arguments, endpoint="", expect=0, **environment):
        deployed = subprocess.run([LAMBENT, "deploy", *map(str, arguments), "--endpoint", endpoint or self.worker.endpoint],
                                  capture_output=True, text=True, timeout=200,
                                  env={**os.environ, "XDG_CACHE_HOME": str(self.cache), **environment})
        if expect is not None:
            self.assertEqual(deployed.returncode, expect, deployed.stdout + deployed.stderr)
        return deployed

    def refused(self, *arguments, **environment):
        deployed = self.deploy(*arguments, expect=None, **environment)
        self.assertNotEqual(deployed.returncode, 0, deployed.stdout)
        return deployed.stderr

    def kept(self):
        return sorted(path.name for path in self.cache.rglob("*") if path.is_file() and path.name != "lock")

    def answers(self, name, weights=WEIGHTS, output="scores"):
        client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"))
        self.addCleanup(client.close)
        x = np.ones((2, weights.shape[0]), np.float32)
        given = triton.InferInput("x", x.shape, "FP32")
        given.set_data_from_numpy(x)
        np.testing.assert_allclose(client.infer(name, [given]).as_numpy(output), x @ weights, rtol=1e-5)


class ModelStoreTest(StoreCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
        cls.server.daemon_threads = True
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.server.server_close)
        cls.addClassCleanup(cls.server.shutdown)
        cls.url = f"http://127.0.0.1:{cls.server.server_port}"

    def setUp(self):
        super().setUp()
        Store.files.clear()
        Store.seen.clear()
        Store.files.update({"scores.onnx": MODEL})

    def test_a_model_is_deployed_from_its_url(self):
        for how, name in (("plain", "straight"), ("elsewhere", "redirected")):
            said = self.deploy(f"{self.url}/{how}/scores.onnx?token=secret", "--name", name, "--sha256", DIGEST)
            self.assertIn(f"created {name}", said.stdout)
            self.assertIn(f"/{how}/scores.onnx  ", said.stderr)
            self.assertNotIn("secret", said.stderr + said.stdout)
            self.answers(name)
            self.assertEqual(self.kept(), [], "what is deployed is not kept twice")
        self.assertNotIn("Accept-Encoding", Store.seen[0][1])

    def test_what_was_cut_off_goes_on_where_it_was(self):
        self.deploy(f"{self.url}/cut/scores.onnx", "--name", "continued", "--sha256", DIGEST)
        self.answers("continued")
        ranges = [headers.get("Range") for _, headers in Store.seen]
        third = len(MODEL) // 3
        self.assertEqual(ranges, [None, f"bytes={third}-", f"bytes={2 * third}-"])

    def test_a_server_without_ranges_is_asked_from_the_beginning(self):
        self.deploy(f"{self.url}/rangeless/scores.onnx", "--name", "rangeless", "--sha256", DIGEST)
        self.answers("rangeless")

    def test_the_next_run_goes_on_too(self):
        said = self.refused(f"{self.url}/dies/scores.onnx", "--name", "later")
        self.assertRegex(said, r"dies/scores.onnx: (it was cut off|the connection broke).*1 B came and are kept")
        self.assertEqual(self.kept(), ["scores.onnx.part", "scores.onnx.state"])
        before = len(Store.seen)
        Store.seen.extend([("/dies/scores.onnx", {})] * 20)
        self.deploy(f"{self.url}/dies/scores.onnx", "--name", "later")
        self.assertEqual(Store.seen[before + 20][1].get("Range"), "bytes=1-")
        self.answers("later")
        self.assertEqual(self.kept(), [])

    def test_a_file_that_changed_meanwhile_is_not_glued_to_the_old_one(self):
        self.refused(f"{self.url}/dies/scores.onnx", "--name", "changed")
        Store.files["scores.onnx"] = matrix_model(WEIGHTS * 3)
        Store.seen.extend([("/dies/scores.onnx", {})] * 20)
        self.deploy(f"{self.url}/dies/scores.onnx", "--name", "changed")
        self.answers("changed", WEIGHTS * 3)

    def test_refusals_of_the_server_are_told_and_nothing_is_left(self):
        for url, said in ((f"{self.url}/plain/nope.onnx", r"plain/nope.onnx: the server answers 404: no such file"),
                          (f"{self.url}/forbidden/scores.onnx", r"the server answers 403: Not for you"),
                          (f"{self.url}/loop/scores.onnx", r"it redirects more than 10 times"),
                          (f"{self.url}/outside/scores.onnx", r"it redirects to 'file:', which is not fetched"),
                          (f"{self.url}/inside/scores.onnx", r"it redirects to '169.254.169.254', which is 169.254.169.254 "
                                                             r"\(the metadata service of a cloud\); --fetch-private allows that"),
                          ("http://169.254.169.254/scores.onnx", r"'169.254.169.254', which is .*--fetch-private"),
                          (f"{self.url}/encoded/scores.onnx", r"the server sends it in 'gzip'"),
                          (f"{self.url}/huge/scores.onnx", r"it is larger than the .* that there is room for"),
                          (f"{self.url}/plain/", r"SHA256SUMS: the server answers 404: no such file; web servers do not list folders"),
                          ("http://no-such-host.invalid/m.onnx", r"Could not resolve host"),
                          ("s3:///scores.onnx", r"is no s3://BUCKET/KEY")):
            with self.subTest(url=url):
                self.assertRegex(self.refused(url, "--name", "never"), said)
                self.assertEqual(self.kept(), [])

    def test_a_user_and_a_password_stand_in_netrc(self):
        home = self.folder / "home"
        home.mkdir()
        (home / ".netrc").write_text("machine 127.0.0.1 login me password secret\nmachine other login you password wrong\n")
        self.assertIn("401: who are you?", self.refused(f"{self.url}/login/scores.onnx", "--name", "known", HOME=str(self.folder)))
        said = self.deploy(f"{self.url}/login/scores.onnx", "--name", "known", HOME=str(home))
        self.assertNotIn("secret", said.stderr + said.stdout)
        self.answers("known")

    def put_folder(self, name, versions, **others):
        """A model of several versions, each with weights beside it; and the list of all files."""
        files = {f"{name}/{version}/model.onnx": model_with_data([("model.onnx_data", WEIGHTS * version)]) for version in versions}
        files |= {f"{name}/{version}/model.onnx_data": (WEIGHTS * version).tobytes() for version in versions}
        files |= {f"{name}/{path}": content for path, content in others.items()}
        files[f"{name}/SHA256SUMS"] = b"".join(
            f"{hashlib.sha256(content).hexdigest()}  {path.removeprefix(name + '/')}\n".encode() for path, content in files.items())
        Store.files.update(files)

    def versions_of(self, name):
        client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"))
        self.addCleanup(client.close)
        return [each["version"] for each in client.get_model_repository_index() if each["name"] == name]

    def test_a_folder_of_a_web_server_is_what_its_sums_say(self):
        self.put_folder("sums", (1, 2, 3), **{"config.pbtxt": b"version_policy: { latest { num_versions: 2 } }\n", "notes.txt": b"-"})
        said = self.deploy(f"{self.url}/cut/sums/")
        self.assertIn("published sums:2", said.stdout)
        self.answers("sums", WEIGHTS * 3, "y0")
        self.assertEqual(self.versions_of("sums"), ["2", "3"])
        asked = {path for path, _ in Store.seen}
        self.assertNotIn("/cut/sums/1/model.onnx", asked, "a version that is not served is not fetched")
        self.assertNotIn("/cut/sums/notes.txt", asked)
        self.assertIn("bytes", " ".join(headers.get("Range") or "" for _, headers in Store.seen))
        self.assertEqual(self.kept(), [])
        again = self.deploy(f"{self.url}/plain/sums/")
        self.assertIn("unchanged sums:2\nunchanged sums:3", again.stdout)

    def test_a_manifest_of_a_store_is_not_read(self):
        """A store's writer does not choose a function's name, mounts, packages and network."""
        manifest = b'kind = "model"\nname = "planted"\nmemory = "777M"\n[environment]\nPLANTED = "theirs"\n'
        for path in ("5/1/model.onnx", "5/lambent.toml", "5/1/lambent.toml"):
            Store.files[f"planted-store/{path}"] = MODEL if path.endswith(".onnx") else manifest
        Store.files["planted-store/SHA256SUMS"] = b"".join(
            f"{hashlib.sha256(content).hexdigest()}  {path.removeprefix('planted-store/')}\n".encode()
            for path, content in Store.files.items() if path.startswith("planted-store/"))
        said = self.deploy(f"{self.url}/plain/planted-store/")
        self.assertIn("published 5:1", said.stdout)
        self.assertNotIn("planted:", said.stdout)
        self.assertNotIn("lambent.toml", " ".join(path for path, _ in Store.seen))
        self.answers("5")
        configuration = json.load(urllib.request.urlopen(f"{self.worker.endpoint}/2015-03-31/functions/5/configuration"))
        self.assertNotIn("theirs", json.dumps(configuration))
        self.assertNotEqual(configuration["MemorySize"], 777)

    def test_a_folder_goes_on_in_the_next_run(self):
        self.put_folder("halves", (1,))
        Store.files["halves/1/model.onnx_data"] = b"other"
        said = self.refused(f"{self.url}/plain/halves/")
        self.assertRegex(said, "model.onnx_data: what came has the sha256 .*, and not")
        self.assertEqual(self.kept(), ["model.onnx", "model.onnx.state"])
        Store.files["halves/1/model.onnx_data"] = WEIGHTS.tobytes()
        self.deploy(f"{self.url}/plain/halves/")
        self.assertTrue(any(path.endswith("/1/model.onnx") and "If-None-Match" in headers for path, headers in Store.seen))
        self.answers("halves", WEIGHTS, "y0")

    def test_a_listing_of_ten_thousand_keys_is_read_to_its_end(self):
        Store.files.update({f"many/2/part/{number:05}": b"" for number in range(10_000)})
        Store.files.update({"many/9/model.onnx": MODEL, "many/9/labels/de.txt": b"eins"})
        self.deploy("s3://bucket/many", AWS_ENDPOINT_URL_S3=self.url, AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
        self.answers("many")
        self.assertEqual(sum("list-type=2" in path for path, _ in Store.seen), 11)

    def test_a_listing_that_makes_no_sense_is_told(self):
        Store.files["bad/1/model<Key>.onnx"] = MODEL
        words = {"AWS_ENDPOINT_URL_S3": self.url, "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
        self.assertIn("the server answers 404", self.refused("s3://bucket/bad", **words))
        Store.files = {"bad/&nothing;/1/model.onnx": MODEL}
        self.addCleanup(setattr, Store, "files", {})
        self.assertIn("the store's listing has an entity that makes no sense", self.refused("s3://bucket/bad", **words))
        self.assertIn("the store's listing is none of S3's", self.refused("s3://plain/bad", **{**words, "AWS_ENDPOINT_URL_S3": f"{self.url}/page"}))

    def test_what_is_wrong_with_a_folder_is_told(self):
        self.put_folder("wrong", (1,))
        Store.files["wrong/SHA256SUMS"] = b"<html>index of wrong</html>\n"
        self.assertIn("SHA256SUMS: line 1 is no 'DIGEST  PATH'", self.refused(f"{self.url}/plain/wrong/"))
        Store.files["wrong/SHA256SUMS"] = f"{DIGEST}  model.onnx\n".encode()
        self.assertIn("none of its 1 files is of a version", self.refused(f"{self.url}/plain/wrong/"))
        Store.files["wrong/SHA256SUMS"] = f"{DIGEST}  ../1/model.onnx\n".encode()
        self.assertIn("line 1 is no", self.refused(f"{self.url}/plain/wrong/"))
        self.put_folder("wrong", (1,))
        self.assertIn("names version 7, which is not there", self.refused(f"{self.url}/plain/wrong/", "--version-policy", "specific:7"))
        self.assertIn("--sha256 is for one file", self.refused(f"{self.url}/plain/wrong/", "--sha256", DIGEST))
        self.assertIn("SHA256SUMS: the server answers 403", self.refused(f"{self.url}/forbidden/wrong/"))
        del Store.files["wrong/1/model.onnx_data"]
        self.assertIn("1/model.onnx_data: the server answers 404", self.refused(f"{self.url}/plain/wrong/"))

    def test_a_wrong_checksum_is_told_and_nothing_is_left(self):
        said = self.refused(f"{self.url}/plain/scores.onnx", "--name", "never", "--sha256", "0" * 64)
        self.assertIn(f"what came has the sha256 {DIGEST}, and not {'0' * 64}", said)
        self.assertEqual(self.kept(), [])
        self.assertIn("64", self.refused(f"{self.url}/plain/scores.onnx", "--sha256", "12"))
        # As the store itself says.
        said = self.refused(f"{self.url}/lies/scores.onnx", "--name", "never")
        self.assertIn(f"and not {hashlib.sha256(b'another').hexdigest()}", said)
        self.assertEqual(self.kept(), [])

    def test_a_server_that_stalls_is_left(self):
        began = time.monotonic()
        said = self.refused(f"{self.url}/stalls/scores.onnx", "--name", "never", "--fetch-timeout", "1")
        self.assertIn("nothing came for 1 s (--fetch-timeout)", said)
        self.assertLess(time.monotonic() - began, 60)

    def test_what_is_no_model_is_told_and_not_kept(self):
        Store.files["page.onnx"] = b"<!DOCTYPE html><html>sign in</html>"
        said = self.refused(f"{self.url}/plain/page.onnx", "--name", "never")
        self.assertIn("it is no ONNX model", said)
        self.assertEqual(self.kept(), [])
        Store.files["evil.onnx"] = model_with_data([("../../etc/passwd", WEIGHTS)])
        self.assertIn("'../../etc/passwd', which is no file beside it", self.refused(f"{self.url}/plain/evil.onnx"))
        self.assertEqual(self.kept(), [])

    def test_the_files_of_its_tensors_come_along(self):
        left, right = WEIGHTS, WEIGHTS * -2
        Store.files.update({"big/pair.onnx": model_with_data([("pair.onnx_data", left), ("more/w 1.safetensors", right)]),
                            "big/pair.onnx_data": left.tobytes(), "big/more/w%201.safetensors": right.tobytes()})
        self.deploy(f"{self.url}/cut/big/pair.onnx?once=1")
        self.answers("pair", left, "y0")
        self.answers("pair", right, "y1")
        asked = {path for path, _ in Store.seen}
        self.assertIn("/cut/big/more/w%201.safetensors", asked)
        del Store.files["big/pair.onnx_data"]
        self.assertIn("pair.onnx_data: the server answers 404", self.refused(f"{self.url}/plain/big/pair.onnx"))

    def test_a_manifest_may_name_a_url_and_its_checksum(self):
        folder = self.folder / "named"
        folder.mkdir()
        manifest = folder / "lambent.toml"
        manifest.write_text(f'kind = "model"\nname = "named"\nmodel = "{self.url}/plain/scores.onnx"\nsha256 = "{DIGEST}"\nthreads = 1\n')
        self.deploy(folder)
        self.answers("named")
        self.assertIn("unchanged named", self.deploy(folder).stdout)
        Store.files["scores.onnx"] = matrix_model(WEIGHTS * 2)
        self.assertIn("what came has the sha256", self.refused(folder))
        manifest.write_text(f'kind = "model"\nname = "named"\nsha256 = "{DIGEST}"\n')
        self.assertIn("line 3: sha256 is of a model that is fetched from a URL", self.refused(folder))

    def test_a_url_can_be_a_version(self):
        for version in (1, 2):
            Store.files["scores.onnx"] = matrix_model(WEIGHTS * version)
            self.deploy(f"{self.url}/plain/scores.onnx", "--name", "rolled", "--model-version", version)
            self.answers("rolled", WEIGHTS * version)

    def test_a_dry_run_keeps_what_it_fetched_for_the_deployment(self):
        self.assertIn("would be created dry", self.deploy(f"{self.url}/plain/scores.onnx", "--name", "dry", "--dry-run").stdout)
        self.assertEqual(self.kept(), ["scores.onnx", "scores.onnx.state"])
        self.deploy(f"{self.url}/plain/scores.onnx", "--name", "dry")
        self.assertIn("If-None-Match", Store.seen[-1][1])
        self.answers("dry")

    def test_no_more_is_fetched_than_the_tenant_may_keep(self):
        worker = TokenWorker(gpu="none")
        self.addCleanup(worker.close)
        worker.operator.create_tenant("small", disk_bytes=1 << 20)
        token = worker.operator.create_token("small")["secret"]
        for how in ("endless", "huge"):
            said = self.refused(f"{self.url}/{how}/scores.onnx", LAMBENT_TOKEN=token, endpoint=worker.worker.endpoint)
            self.assertRegex(said, "it is larger than the 1 MiB that there is room for")
            self.assertEqual(self.kept(), [])


@unittest.skipUnless(HAS_MOTO, "moto is not installed: ./dev test --all installs it")
class S3Test(StoreCase):
    """s3:// URLs; moto checks the signature of every request, as Amazon does."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import boto3
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        cls.store = f"http://127.0.0.1:{port}"
        process = subprocess.Popen([sys.executable, "-c", MOTO, str(port), str(PAGE)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)
        for _ in range(600):
            try:
                urllib.request.urlopen(cls.store + "/moto-api/data.json", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        made = {"endpoint_url": cls.store, "region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
        iam, cls.s3 = boto3.client("iam", **made), boto3.client("s3", **made)
        iam.create_user(UserName="reader")
        iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}]}))
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        cls.keys = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"], "AWS_REGION": "us-east-1"}
        cls.s3.create_bucket(Bucket="models")
        cls.s3.put_object(Bucket="models", Key="scores.onnx", Body=MODEL)
        cls.s3.put_object(Bucket="models", Key="a folder/größe+1/pair.onnx",
                          Body=model_with_data([("pair.onnx_data", WEIGHTS)]))
        cls.s3.put_object(Bucket="models", Key="a folder/größe+1/pair.onnx_data", Body=WEIGHTS.tobytes())
        for version in (1, 2):
            cls.put_version(f"a shop/größe+1/{version}", WEIGHTS * version)
            cls.put_version(f"repository/left/{version}", WEIGHTS * version)
        cls.s3.put_object(Bucket="models", Key="a shop/größe+1/config.pbtxt", Body=b"version_policy: { all {} }")
        cls.s3.put_object(Bucket="models", Key="a shop/größe+1/", Body=b"")
        cls.put_version("repository/right/7", WEIGHTS * 7)
        cls.s3.put_object(Bucket="models", Key="repository/readme.md", Body=b"-")
        for number in range(2 * PAGE + PAGE // 10):
            cls.s3.put_object(Bucket="models", Key=f"many/3/part/{number:05}", Body=b"")
        cls.put_version("many/3", WEIGHTS * 3)
        page = cls.s3.list_objects_v2(Bucket="models", Prefix="many/")
        if len(page["Contents"]) != PAGE or not page["IsTruncated"]:
            raise AssertionError("the store's pages have %d keys" % len(page["Contents"]))
        # From now on every request is to be signed.
        request = urllib.request.Request(cls.store + "/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}, method="POST")
        urllib.request.urlopen(request, timeout=10).close()

    @classmethod
    def put_version(cls, folder, weights):
        """With a digest that the store keeps and tells."""
        cls.s3.put_object(Bucket="models", Key=f"{folder}/model.onnx", Body=model_with_data([("more/model.bin", weights)]),
                          ChecksumAlgorithm="SHA256")
        cls.s3.put_object(Bucket="models", Key=f"{folder}/more/model.bin", Body=weights.tobytes(), ChecksumAlgorithm="SHA256")

    def test_a_folder_of_versions_comes_with_all_its_files(self):
        said = self.deploy("s3://models/a shop/größe+1", "--name", "shop", "--s3-endpoint", self.store, **self.keys)
        self.assertIn("published shop:1", said.stdout)
        self.assertIn("s3://models/a shop/größe+1/2/more/model.bin  ", said.stderr)
        self.assertNotIn(self.keys["AWS_SECRET_ACCESS_KEY"], said.stderr + said.stdout)
        self.answers("shop", WEIGHTS * 2, "y0")
        self.assertEqual(self.kept(), [])

    def test_a_repository_of_a_store_is_deployed_as_a_whole(self):
        said = self.deploy("s3://models/repository/", "--s3-endpoint", self.store, **self.keys)
        self.assertIn("published left:2", said.stdout)
        self.assertNotIn("left/1/", said.stderr, "only the latest version is served")
        self.answers("left", WEIGHTS * 2, "y0")
        self.answers("right", WEIGHTS * 7, "y0")

    def test_a_name_for_several_models_is_refused_before_any_of_their_files_comes(self):
        said = self.refused("s3://models/repository/", "--name", "one", "--s3-endpoint", self.store, **self.keys)
        self.assertIn("--name: these are several models", said)
        self.assertNotIn("model.onnx", said)
        self.assertEqual(self.kept(), [])

    def test_a_listing_of_several_pages_is_read_to_its_end(self):
        said = self.refused("s3://models/many/", "--version-policy", "specific:2", "--s3-endpoint", self.store, **self.keys)
        self.assertIn("names version 2, which is not there", said)
        said = self.refused("s3://models/many/3/", "--s3-endpoint", self.store, **self.keys)
        self.assertIn(f"none of its {2 * PAGE + PAGE // 10 + 2} files is of a version", said)

    def test_no_more_of_a_folder_is_fetched_than_the_tenant_may_keep(self):
        worker = TokenWorker(gpu="none")
        self.addCleanup(worker.close)
        worker.operator.create_tenant("small", disk_bytes=100)
        token = worker.operator.create_token("small")["secret"]
        said = self.refused("s3://models/repository/", "--s3-endpoint", self.store, LAMBENT_TOKEN=token,
                            endpoint=worker.worker.endpoint, **self.keys)
        self.assertRegex(said, "are more than the 100 B that there is room for")
        self.assertEqual(self.kept(), [])

    def test_keys_may_stand_in_a_profile(self):
        (self.folder / "credentials").write_text("[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n"
                                                 f"[reader]\naws_access_key_id = {self.keys['AWS_ACCESS_KEY_ID']}\n"
                                                 f"aws_secret_access_key = {self.keys['AWS_SECRET_ACCESS_KEY']}\n")
        files = {"AWS_SHARED_CREDENTIALS_FILE": str(self.folder / "credentials"), "AWS_CONFIG_FILE": "/dev/null"}
        words = ("s3://models/repository/right/", "--name", "profiled", "--s3-endpoint", self.store)
        self.deploy(*words, AWS_PROFILE="reader", **files)
        self.assertIn("403", self.refused(*words, **files))
        self.assertIn("there is no profile 'nobody'", self.refused(*words, AWS_PROFILE="nobody", **files))

    def test_a_signed_request_gets_the_model(self):
        said = self.deploy("s3://models/scores.onnx", "--name", "stored", "--s3-endpoint", self.store, "--sha256", DIGEST, **self.keys)
        self.assertNotIn(self.keys["AWS_SECRET_ACCESS_KEY"], said.stderr + said.stdout)
        self.answers("stored")
        self.assertEqual(self.kept(), [])

    def test_keys_with_other_letters_and_the_files_of_tensors(self):
        self.deploy("s3://models/a folder/größe+1/pair.onnx", AWS_ENDPOINT_URL_S3=self.store, **self.keys)
        self.answers("pair", output="y0")

    def test_errors_are_the_stores_own(self):
        wrong = {**self.keys, "AWS_SECRET_ACCESS_KEY": "wrong"}
        for url, keys, said in (("s3://models/scores.onnx", wrong, r"the server answers 403: The request signature"),
                                ("s3://models/nope.onnx", self.keys, r"the server answers 404: The specified key does not exist"),
                                ("s3://nowhere/scores.onnx", self.keys, r"the server answers 404: The specified bucket does not exist"),
                                ("s3://nowhere", self.keys, r"list s3://nowhere/: the server answers 404: The specified bucket does not exist"),
                                ("s3://models/repository/", wrong, r"the server answers 403: The request signature"),
                                ("s3://models/nothing", self.keys, r"none of its 0 files is of a version")):
            with self.subTest(url=url):
                self.assertRegex(self.refused(url, "--name", "never", "--s3-endpoint", self.store, **keys), said)
                self.assertEqual(self.kept(), [])


if __name__ == "__main__":
    unittest.main()
