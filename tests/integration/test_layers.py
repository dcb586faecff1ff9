"""Layers of Lambda's API over ends of the worker, by tag, and in HTTP functions. tests/clients/test_boto3.py has the rest."""
import base64
import json
import os
import unittest

from harness import HttpError, WorkerTest, make_zip
from tenants import TokenWorker

CODE = make_zip({"app.py": "def handler(event, context):\n  import words\n  return [words.WORD, open('/opt/lib/file').read()]"})
SERVER = b'''import http.server, os, words
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = words.WORD.encode()
        self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
'''


def publish(caller, name, files):
    body = {"Content": {"ZipFile": base64.b64encode(make_zip(files)).decode()}}
    return caller.request("POST", f"/2018-10-31/layers/{name}/versions", json.dumps(body)).json


class LayersTest(WorkerTest):
    def publish(self, name, files):
        return publish(self.worker, name, files)

    def test_they_survive_kill_9(self):
        self.publish("kept", {"python/words.py": "WORD = 'kept'", "lib/file": "of the layer"})
        self.worker.create("layered", CODE, tags={"lambent:layers": "kept:1"})
        self.assertEqual(self.worker.invoke("layered").json, ["kept", "of the layer"])
        self.worker.kill()
        self.worker.start()
        self.assertEqual(self.worker.invoke("layered").json, ["kept", "of the layer"])
        self.assertEqual(self.publish("kept", {"lib/file": "next"})["Version"], 2)

    def test_a_server_has_them_too(self):
        self.publish("served", {"python/words.py": "WORD = 'served'"})
        self.worker.create("server", make_zip({"server.py": SERVER}), handler="python3 server.py",
                           tags={"lambent:kind": "http", "lambent:layers": "served:1"})
        self.assertEqual(self.worker.request("GET", "/f/server/").body, b"served")

    def test_they_are_read_only(self):
        self.publish("fixed", {"lib/file": "as it was"})
        self.worker.create_python("writer", "def handler(event, context):\n"
                                  "  try:\n    open('/opt/lib/file', 'w')\n"
                                  "  except OSError as error:\n    return error.errno\n",
                                  tags={"lambent:layers": "fixed:1"})
        self.assertEqual(self.worker.invoke("writer").json, 30)  # EROFS

    def test_a_function_keeps_a_version_that_was_deleted_and_can_be_changed(self):
        self.publish("gone", {"python/words.py": "WORD = 'gone'", "lib/file": "still here"})
        self.worker.create("keeper", CODE, tags={"lambent:layers": "gone:1"})
        self.worker.request("DELETE", "/2018-10-31/layers/gone/versions/1")
        self.worker.tag("keeper", {"team": "words"})
        self.worker.request("PUT", "/2015-03-31/functions/keeper/configuration", json.dumps({"Timeout": 7}))
        self.assertEqual(self.worker.invoke("keeper").json, ["gone", "still here"])
        with self.assertRaisesRegex(HttpError, "no version 1 of layer"):
            self.worker.create("another", CODE, tags={"lambent:layers": "gone:1"})

    def test_a_tag_that_is_no_list_is_refused(self):
        for value in ("kept", "kept:0", "nothing:7", "a:1,a:2"):
            with self.assertRaises(HttpError) as caught:
                self.worker.create("refused", CODE, tags={"lambent:layers": value})
            self.assertEqual(caught.exception.status, 400, value)


class TenantsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = TokenWorker(gpu="none")
        cls.node.operator.create_tenant("vision", disk_bytes=1 << 20)
        cls.node.operator.create_tenant("speech")
        cls.vision = cls.node.operator.caller("vision")
        cls.speech = cls.node.operator.caller("speech")

    @classmethod
    def tearDownClass(cls):
        cls.node.close()

    def refused(self, status, call, *arguments, **options):
        with self.assertRaises(HttpError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.status, status)

    def test_a_tenant_has_its_own(self):
        publish(self.vision, "secret", {"python/words.py": "WORD = 'vision'", "lib/file": "its own"})
        self.assertEqual(self.speech.request("GET", "/2018-10-31/layers").json["Layers"], [])
        self.refused(404, self.speech.request, "GET", "/2018-10-31/layers/secret/versions/1")
        self.refused(400, self.speech.create, "thief", CODE, tags={"lambent:layers": "secret:1"})
        self.vision.create("owner", CODE, tags={"lambent:layers": "secret:1"})
        self.assertEqual(self.vision.invoke("owner").json, ["vision", "its own"])
        # By what they are composed to neither.
        listed = self.vision.request("GET", "/v1/functions").json["functions"]
        mounts = next(each["mounts"] for each in listed if each["name"] == "owner")
        stolen = ",".join(f"{each['volume']}:{each['at']}" for each in mounts)
        self.assertIn("layers.", stolen)
        self.refused(400, self.speech.create, "thief", CODE, tags={"lambent:mounts": stolen})

    def test_they_count_for_the_quota_of_disk(self):
        noise = os.urandom(700 << 10)
        publish(self.vision, "large", {"lib/noise": noise})
        self.refused(429, publish, self.vision, "more", {"lib/noise": os.urandom(700 << 10)})
        self.vision.request("DELETE", "/2018-10-31/layers/large/versions/1")
        publish(self.vision, "more", {"lib/noise": noise})
        self.vision.request("DELETE", "/2018-10-31/layers/more/versions/1")


if __name__ == "__main__":
    unittest.main()
