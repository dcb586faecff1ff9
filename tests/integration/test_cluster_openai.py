"""OpenAI's API on several nodes: any node takes a request, and the node runs it that takes work and has what the function needs; streams
come as they are made, errors in OpenAI's form, and all models are listed everywhere."""
import http.client
import json
import threading
import time
import unittest

from harness import HttpError, make_zip
from test_cluster import ClassCleanup, Cluster

PATH = "/v1/chat/completions"
# It says what came, and streams words: the second one two seconds after the first, the others each 0.1 seconds.
CHAT = """
import http.server, json, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])) if "Content-Length" in self.headers else self.chunks()
        request = json.loads(body)
        if request.get("fail"):
            os._exit(1)
        if not request.get("stream"):
            said = {"path": self.path, "bytes": len(body), "headers": sorted(name.lower() for name in self.headers), "pid": os.getpid()}
            text = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            return self.wfile.write(text)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for word in ("one", *["two"] * request.get("words", 1), "[DONE]"):
            text = f"data: {word}\\n\\n".encode()
            self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(text), text))
            self.wfile.flush()
            time.sleep(2 if word == "one" else 0.1)
        self.wfile.write(b"0\\r\\n\\r\\n")
    def chunks(self):
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body
class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


def deploy(node, name, models, **tags):
    more = {f"lambent:{key.replace('_', '-')}": value for key, value in tags.items()}
    node.create(name, make_zip({"app.py": CHAT}), handler="python3 app.py",
                tags={"lambent:kind": "http", "lambent:openai-models": models, **more})


def ask(node, model="tiny", headers=None, **more):
    return node.request("POST", PATH, json.dumps({"model": model, **more}), {"Content-Type": "application/json", **(headers or {})})


class OnThreeNodes(unittest.TestCase):
    """a has a GPU and the catalog, b has no GPU, c has one and takes no work."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(ClassCleanup(cls), gpu={"a": "emulated:tiny", "b": "none", "c": "emulated:tiny"})
        cls.cluster.wait_until_up()
        deploy(cls.cluster["a"], "chat", "tiny,org/tiny", gpu_memory="64MiB")
        cls.cluster.set_drained("c", True)

    def refusal(self, status, *arguments, **more):
        with self.assertRaises(HttpError) as caught:
            ask(*arguments, **more)
        self.assertEqual(caught.exception.status, status, caught.exception.body)
        return json.loads(caught.exception.body)["error"]

    def test_a_node_without_the_gpu_and_one_that_is_drained_pass_requests_on(self):
        before = self.cluster.completed("chat")
        for number, name in enumerate("abc" * 2):
            said = ask(self.cluster[name], ("tiny", "org/tiny")[number % 2]).json
            self.assertEqual(said["path"], PATH)
            self.assertNotIn("x-lambent-serving-function", said["headers"])
            self.assertNotIn("x-forwarded-prefix", said["headers"])
        after = self.cluster.completed("chat")
        self.assertEqual({name: after[name] - before[name] for name in "abc"}, {"a": 6, "b": 0, "c": 0})
        for name in "bc":
            self.assertGreaterEqual(self.cluster.status(name)["requests"]["forwarded"], 2)

    def test_no_client_chooses_the_function_itself(self):
        self.assertEqual(ask(self.cluster["b"], headers={"X-Lambent-Serving-Function": "other"}).json["path"], PATH)
        self.assertEqual(self.refusal(404, self.cluster["b"], "none", headers={"X-Lambent-Serving-Function": "chat"})["code"], "model_not_found")

    def test_bodies_of_any_size_stream_through(self):
        for name in "bc":
            body = {"model": "tiny", "input": "x" * (9 << 20)}
            self.assertEqual(ask(self.cluster[name], **body).json["bytes"], len(json.dumps(body)))
            # In chunks, of which the second names the model.
            connection = self.cluster[name].connect(60)
            pieces = [b'{"messages": ["', b'hello"], "model": "tiny"', b', "more": "' + b"y" * (1 << 20), b'"}']
            connection.request("POST", PATH, iter(pieces), {"Content-Type": "application/json"}, encode_chunked=True)
            self.assertEqual(json.load(connection.getresponse())["bytes"], sum(map(len, pieces)))
            connection.close()

    def test_a_stream_comes_as_it_is_made(self):
        for name in "bc":
            connection = self.cluster[name].connect(60)
            connection.request("POST", PATH, json.dumps({"model": "tiny", "stream": True}), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
            self.assertEqual(answer.read1(), b"data: one\n\n")
            self.assertEqual(answer.read(), b"data: two\n\ndata: [DONE]\n\n")
            connection.close()

    def test_a_client_that_leaves_ends_its_request_on_the_other_node(self):
        def live():
            return self.cluster["a"].request("GET", "/v1/activity/live", headers={"X-Lambent-Only-Here": "true"}).json["invocations"]
        connection = self.cluster["b"].connect(60)
        request = {"model": "tiny", "stream": True, "words": 300}  # half a minute of them
        connection.request("POST", PATH, json.dumps(request), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read1()
        self.assertEqual([each["function"] for each in live()], ["chat"])
        answer.close()
        connection.close()
        self.cluster.wait_for(lambda: not live())
        self.assertEqual(ask(self.cluster["b"]).json["path"], PATH)

    def test_errors_come_in_openais_form_from_every_node(self):
        for name in "abc":
            error = self.refusal(404, self.cluster[name], "none")
            self.assertEqual((error["code"], error["param"]), ("model_not_found", "model"))
            self.assertIn("names no model", self.refusal(400, self.cluster[name], None)["message"])
            self.assertIn("lambent logs chat", self.refusal(502, self.cluster[name], fail=True)["message"])

    def test_models_are_those_of_the_cluster(self):
        deploy(self.cluster["c"], "second", "of-c")
        for name in "abc":
            listed = [each["id"] for each in self.cluster[name].request("GET", "/v1/models").json["data"]]
            self.assertLessEqual({"tiny", "org/tiny", "of-c"}, set(listed), name)
            self.assertEqual(self.cluster[name].request("GET", "/v1/models/org/tiny").json["id"], "org/tiny")

    def test_a_model_that_was_deployed_a_moment_ago_is_known_at_every_node(self):
        for number in range(3):
            deploy(self.cluster["a"], f"new{number}", f"new-{number}")
            for name in "bc":
                self.assertEqual(ask(self.cluster[name], f"new-{number}").json["path"], PATH)


class WithoutItsNodes(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(self, gpu={"a": "none", "b": "none", "c": "emulated:tiny"})
        self.cluster.wait_until_up()
        deploy(self.cluster["a"], "chat", "tiny", gpu_memory="64MiB")
        self.assertEqual(ask(self.cluster["b"]).status, 200)

    def error_at(self, name, *arguments, **more):
        with self.assertRaises(HttpError) as caught:
            ask(self.cluster[name], *arguments, **more)
        return caught.exception.status, json.loads(caught.exception.body)["error"]

    def test_what_is_not_there_to_answer_is_said_in_openais_form(self):
        # In the middle of a stream its client sees that it is cut off.
        connection = self.cluster["b"].connect(60)
        connection.request("POST", PATH, json.dumps({"model": "tiny", "stream": True}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        self.assertEqual(answer.read1(), b"data: one\n\n")
        self.cluster["c"].kill()
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            answer.read()
        connection.close()
        self.cluster.wait_for(lambda: all(self.cluster.states(name)["c"] == "lost" for name in "ab"))
        for name in "ab":
            status, error = self.error_at(name)
            self.assertEqual((status, error["type"]), (503, "server_error"))
            self.assertIn("lost or drained (c)", error["message"])
        # The catalog's node is gone: whether there is such a model cannot be told.
        self.cluster["c"].start()
        self.cluster.wait_for(lambda: self.cluster.states("b")["c"] == "up")
        self.cluster["a"].kill()
        self.cluster.wait_for(lambda: self.cluster.states("b")["a"] == "lost")
        self.assertEqual(ask(self.cluster["b"]).status, 200)
        status, error = self.error_at("b", "none")
        self.assertEqual((status, error["type"]), (503, "server_error"))
        self.assertEqual([each["id"] for each in self.cluster["b"].request("GET", "/v1/models").json["data"]], ["tiny"])

    def test_work_spreads_over_nodes_that_are_full(self):
        deploy(self.cluster["a"], "plain", "plain")
        self.cluster.wait_for(lambda: all("plain" in {each["name"] for each in self.cluster[name].request(
            "GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"]} for name in "abc"))
        threads = [threading.Thread(target=ask, args=(self.cluster["a"], "plain"), kwargs={"stream": True}) for _ in range(12)]
        for thread in threads:
            thread.start()
            time.sleep(0.1)  # a node knows its own load by then
        for thread in threads:
            thread.join()
        ran = self.cluster.completed("plain")
        self.assertEqual(sum(ran.values()), 12)
        self.assertGreater(sum(count > 0 for count in ran.values()), 1, ran)


if __name__ == "__main__":
    unittest.main()
