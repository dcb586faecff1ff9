"""Objects and all kinds of functions on several nodes: what one node has another one reads, work goes where there is room, and
what it needs follows."""
import array
import hashlib
import json
import sys
import unittest

import test_kernel_functions as kernels
from cluster_world import SlowLink
from harness import PREFIX, HttpError, make_zip
from tenants import Caller
from test_cluster import ClassCleanup, Cluster
from test_graph_requests import multipart

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402
from lambent.errors import LambentError  # noqa: E402

SLOW = """
import time
def handler(event, context):
    time.sleep(event["seconds"])
    return event["value"]
"""
SIZE = """
from lambent import objects
def handler(event, context):
    return len(bytes(objects.get(event["of"])))
"""
HELLO = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
# An http function that speaks the inference protocol, as models do.
MODEL = HELLO.replace("do_GET", "do_POST").replace("b\"hello\"", "b'{\"m\"}'")


def scaled_by_its_graph(worker, factor):
    """What a request that brings its graph makes of 1, 2, 3, 4."""
    package = make_zip({"graph.json": json.dumps(kernels.scale_graph(factor=factor)), **kernels.bundle_files()})
    request = json.dumps({"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]}).encode()
    body, headers = multipart(package=package, request=request)
    answer = worker.request("POST", f"/v1/graphs/{hashlib.sha256(package).hexdigest()}/invocations", body, headers)
    return answer.json["outputs"][0]["data"]


def forwarded(cluster, name):
    return cluster.status(name)["requests"]["forwarded"]


class Objects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(ClassCleanup(cls))
        cls.cluster.wait_until_up()
        cls.cluster["a"].create_python("size", SIZE)

    def put(self, name, content, query=""):
        return self.cluster[name].request("POST", "/v1/objects" + query, content).json["object"]

    def status(self, name, method, path):
        try:
            return self.cluster[name].request(method, path).status
        except HttpError as error:
            return error.status

    def test_what_is_put_on_one_node_is_read_on_all_with_its_type(self):
        name = self.put("a", bytes(range(24)), "?datatype=FP32&shape=2,3")
        for node in "cba":
            head = self.cluster[node].request("HEAD", f"/v1/objects/{name}")
            self.assertEqual((head.headers["x-lambent-state"], head.headers["x-lambent-bytes"]), ("exists", "24"))
            got = self.cluster[node].request("GET", f"/v1/objects/{name}")
            self.assertEqual((got.body, got.headers["x-lambent-datatype"], got.headers["x-lambent-shape"]), (bytes(range(24)), "FP32", "[2,3]"))

    def test_large_ones_come_in_parts_that_are_verified(self):
        # 40 MiB and a little, in parts that differ: each has its own place.
        large = b"".join(hashlib.sha256(bytes([each])).digest() * (1 << 15) for each in range(40)) + b"the rest"
        self.assertEqual(self.cluster["c"].request("GET", "/v1/objects/" + self.put("b", large)).body, large)
        name = self.put("b", b"abc")
        part = self.cluster["b"].request("GET", f"/v1/objects/{name}", headers={"X-Lambent-Only-Here": "true"})
        self.assertEqual(part.headers["x-lambent-digest"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")

    def test_what_is_nowhere_is_not_found_anywhere(self):
        for method in "GET", "HEAD", "DELETE":
            self.assertEqual(self.status("b", method, "/v1/objects/00000000-0000-4000-8000-000000000001.0"), 404)

    def test_what_is_removed_at_one_node_goes_from_all(self):
        name = self.put("a", b"x")
        self.cluster["b"].request("GET", f"/v1/objects/{name}")  # has a copy now
        self.assertEqual(self.status("c", "DELETE", f"/v1/objects/{name}"), 204)
        # It stays for those that are bringing it at the moment.
        self.cluster.wait_for(lambda: [self.status(node, "HEAD", f"/v1/objects/{name}") for node in "abc"] == [404] * 3, 30)

    def test_futures_are_waited_for_on_other_nodes(self):
        for each in range(3):
            self.cluster["a"].create_python(f"slow{each}", SLOW)
        before = forwarded(self.cluster, "b")
        with Client(self.cluster["b"].endpoint) as client:
            made = [client.function(f"slow{each}").remote(seconds=0.3, value="x" * each) for each in range(3)]
            sizes = [client.function("size").remote(of=each) for each in made]
            self.assertEqual([each.json() for each in sizes], [2, 3, 4])
        # The home took none of them; each of three functions belongs somewhere.
        self.assertGreater(forwarded(self.cluster, "b"), before)
        with Client(self.cluster["c"].endpoint) as client:
            self.assertEqual(client.get(sizes[2].id).data.tobytes(), b"4")

    def test_what_is_removed_at_once_still_reaches_the_invocation_that_needs_it(self):
        self.cluster["b"].request("POST", "/v1/cluster/nodes/b/drain")
        self.addCleanup(self.cluster["b"].request, "POST", "/v1/cluster/nodes/b/undrain")
        with Client(self.cluster["b"].endpoint) as client:
            for each in range(5):
                given = client.put(b"x" * (3 << 20))
                size = client.function("size").remote(of=given)
                given.remove()
                self.assertEqual(size.json(), 3 << 20)


class LostNode(unittest.TestCase):
    def test_the_objects_of_a_node_that_is_lost_are_said_to_be_lost(self):
        cluster = Cluster(self)
        cluster.wait_until_up()
        kept, gone = (cluster["c"].request("POST", "/v1/objects", content).json["object"] for content in (b"kept", b"gone"))
        cluster["a"].request("GET", f"/v1/objects/{kept}")
        cluster["c"].kill()
        cluster.wait_for(lambda: cluster.states("b")["c"] == "lost")
        self.assertEqual(cluster["b"].request("GET", f"/v1/objects/{kept}").body, b"kept")
        with self.assertRaises(HttpError) as caught:
            cluster["b"].request("GET", f"/v1/objects/{gone}")
        self.assertEqual(caught.exception.status, 503)
        self.assertRegex(caught.exception.json["error"]["message"], "NodeLost: .*'c'")
        cluster["b"].create_python("size", SIZE)
        with self.assertRaises(HttpError) as caught:
            cluster["b"].invoke("size", {"of": gone}, headers={"X-Lambent-Needs": gone})
        self.assertEqual((caught.exception.status, caught.exception.headers["x-lambent-code"]), (503, "UNAVAILABLE"))
        self.assertIn(b"NodeLost", caught.exception.body)


class Altered(SlowLink):
    """A way between nodes on which a word is changed."""

    def changed(self, data):
        return data.replace(b"a true word", b"a lying one")


class Older(SlowLink):
    """The way to a node whose program says nothing of objects, as those of before."""

    def changed(self, data):
        return data.replace(b'"shares_objects"', b'"says_otherwise"')


class OfTwoVersions(unittest.TestCase):
    def test_a_node_that_brings_no_objects_is_given_no_work_that_needs_some(self):
        cluster = Cluster(self, names="ab", told=False)
        link = Older(self, cluster["b"].address[1], 0)
        members = [{"node": "a", "address": cluster.addresses["a"]}, {"node": "b", "address": f"http://127.0.0.1:{link.port}"}]
        for name in "ab":
            cluster[name].request("PUT", "/v1/cluster/members", json.dumps({"source": "test", "members": members}))
            cluster.wait_for(lambda name=name: set(cluster.states(name).values()) == {"up"})
        a = cluster["a"]
        a.create_python("size", SIZE)
        a.request("POST", "/v1/cluster/nodes/a/drain")
        made = a.request("POST", "/v1/objects", b"12345").json["object"]
        before = forwarded(cluster, "a")
        self.assertEqual(a.invoke("size", {"of": made}, headers={"X-Lambent-Needs": made}).json, 5)
        self.assertEqual(forwarded(cluster, "a"), before)
        self.assertEqual(a.invoke("size", {"of": made}).json, 5)
        self.assertEqual(forwarded(cluster, "a"), before + 1)


class OnABadNetwork(unittest.TestCase):
    def test_what_comes_altered_is_refused_and_not_kept(self):
        cluster = Cluster(self, names="ab", told=False)
        link = Altered(self, cluster["a"].address[1], 0)
        members = [{"node": "a", "address": f"http://127.0.0.1:{link.port}"}, {"node": "b", "address": cluster.addresses["b"]}]
        cluster["b"].request("PUT", "/v1/cluster/members", json.dumps({"source": "test", "members": members}))
        cluster.wait_for(lambda: set(cluster.states("b").values()) == {"up"})
        good, bad = (cluster["a"].request("POST", "/v1/objects", content).json["object"] for content in (b"another", b"a true word"))
        self.assertEqual(cluster["b"].request("GET", f"/v1/objects/{good}").body, b"another")
        for _ in range(2):
            with self.assertRaises(HttpError) as caught:
                cluster["b"].request("GET", f"/v1/objects/{bad}")
            self.assertEqual(caught.exception.json["error"]["code"], "DATA_LOSS")
        self.assertEqual(len(cluster["b"].request("GET", "/v1/objects").json["objects"]), 1)


class OfTenants(unittest.TestCase):
    def test_objects_are_their_tenants_on_every_node(self):
        cluster = Cluster(self, names="ab", flags=("--auth", "tokens"))
        operators = cluster.operators()
        callers = {}
        for tenant in "red", "blue":
            operators["a"].create_tenant(tenant)
            cluster.wait_for(lambda tenant=tenant: tenant in [each["name"] for each in operators["b"].request("GET", "/v1/tenants").json["tenants"]])
            for name in "ab":
                callers[tenant, name] = Caller(cluster[name], operators[name].create_token(tenant)["secret"])
        made = callers["red", "a"].request("POST", "/v1/objects", b"of red").json["object"]
        self.assertEqual(callers["red", "b"].request("GET", f"/v1/objects/{made}").body, b"of red")
        other = callers["red", "a"].request("POST", "/v1/objects", b"only at a").json["object"]
        for name in "ab":
            for method in "GET", "HEAD", "DELETE":
                self.assertEqual(callers["blue", name].status_of(method, f"/v1/objects/{other}")[0], 404)
        # No client may say that it is a node, and the nodes' own words open nothing without the key.
        with self.assertRaises(HttpError) as caught:
            callers["blue", "b"].request("GET", f"/v1/objects/{other}", headers={"X-Lambent-Node": "a red read - " + "0" * 64})
        self.assertEqual(caught.exception.status, 401)
        self.assertEqual(callers["red", "b"].request("GET", f"/v1/objects/{other}").body, b"only at a")


class Kinds(unittest.TestCase):
    """A node that takes no work forwards what its clients ask for, whatever kind of function it is."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(ClassCleanup(cls), names="ab", gpu="emulated:tiny")
        cls.cluster.wait_until_up()
        a = cls.cluster["a"]
        a.create_python("size", SIZE)
        for name, program in (("web", HELLO), ("model", MODEL)):
            a.create(name, make_zip({"app.py": program}), runtime="python3", handler="python3 app.py", tags={"lambent:kind": "http"})
        package = {"graph.json": json.dumps(kernels.scale_graph()), **kernels.bundle_files()}
        a.create("scale", make_zip(package), runtime="provided.al2023", handler="graph.json", tags={"lambent:kind": "kernel"})
        flow = {"components": [{"name": "scaled", "function": "scale", "input": {"x": {"object": "$input.x"}}},
                               {"name": "bytes", "function": "size", "input": {"of": "$scaled.y"}}],
                "output": {"y": "$scaled.y", "bytes": "$bytes"}}
        a.create("flow", make_zip({"workflow.json": json.dumps(flow)}), runtime="provided.al2023", handler="workflow.json",
                 tags={"lambent:kind": "workflow"})
        cls.cluster["b"].request("POST", "/v1/cluster/nodes/b/drain")

    def elsewhere(self, ask):
        """What `ask` gives at node b, which forwards."""
        before = forwarded(self.cluster, "b")
        answer = ask(self.cluster["b"])
        self.assertGreater(forwarded(self.cluster, "b"), before)
        return answer

    def test_handlers(self):
        made = self.cluster["b"].request("POST", "/v1/objects", b"12345").json["object"]
        for headers in {}, {"X-Lambent-Needs": made}:
            self.assertEqual(self.elsewhere(lambda b, h=headers: b.invoke("size", {"of": made}, headers=h)).json, 5)

    def test_http_functions(self):
        self.assertEqual(self.elsewhere(lambda b: b.request("GET", "/f/web/")).body, b"hello")

    def test_models(self):
        self.assertEqual(self.elsewhere(lambda b: b.request("POST", "/v2/models/model/infer", b"{}")).body, b'{"m"}')

    def test_kernel_functions_by_value(self):
        reply = self.elsewhere(lambda b: b.invoke("scale", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]}))
        self.assertEqual(reply.json["outputs"][0]["data"], [2, 4, 6, 8])

    def test_kernel_functions_whose_tensors_lie_on_the_node_that_is_asked(self):
        with Client(self.cluster["b"].endpoint) as client:
            self.assertTrue(client.local)
            scale = client.function("scale")
            x = array.array("f", [1, 2, 3, 4])
            y = self.elsewhere(lambda _: scale(x=x, outputs=("y",)))
            self.assertEqual(y.data.cast("B").cast("f").tolist(), [2, 4, 6, 8])
            twice = scale.remote(x=scale.remote(x=x, outputs=("y",)), outputs=("y",))
            self.assertEqual(twice.get().data.cast("B").cast("f").tolist(), [4, 8, 12, 16])
            with self.assertRaises(LambentError):
                scale(x=array.array("f", [1, 2]), outputs=("y",))

    def test_graphs_that_come_with_requests(self):
        graph = make_zip({"graph.json": json.dumps(kernels.scale_graph(factor=3.0)), **kernels.bundle_files()})
        digest = hashlib.sha256(graph).hexdigest()
        run = json.dumps({"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})
        with self.assertRaises(HttpError) as caught:
            self.elsewhere(lambda b: b.request("POST", f"/v1/graphs/{digest}/invocations", run))
        self.assertEqual((caught.exception.status, caught.exception.headers["x-lambent-error-type"]), (404, "Graph.NotFound"))
        self.assertEqual(self.elsewhere(lambda b: b.request("PUT", f"/v1/graphs/{digest}", graph)).json["digest"], digest)
        reply = self.elsewhere(lambda b: b.request("POST", f"/v1/graphs/{digest}/invocations", run))
        self.assertEqual(reply.json["outputs"][0]["data"], [3, 6, 9, 12])
        self.assertEqual(self.elsewhere(lambda b: scaled_by_its_graph(b, 5.0)), [5, 10, 15, 20])
        # At a node that can run them they stay.
        before = forwarded(self.cluster, "a")
        self.assertEqual(scaled_by_its_graph(self.cluster["a"], 7.0), [7, 14, 21, 28])
        self.assertEqual(forwarded(self.cluster, "a"), before)
        kept = [each["digest"] for each in self.cluster["a"].request("GET", "/v1/graphs").json["graphs"]]
        self.assertIn(digest, kept)
        self.assertEqual(self.cluster["b"].request("GET", "/v1/graphs").json["graphs"], [])
        self.assertEqual(self.cluster["b"].request("DELETE", f"/v1/graphs/{digest}").json["digest"], digest)
        self.assertNotIn(digest, [each["digest"] for each in self.cluster["a"].request("GET", "/v1/graphs").json["graphs"]])

    def test_workflows_with_what_they_read_and_make(self):
        with Client(self.cluster["b"].endpoint) as client:
            x = client.put(array.array("f", [1, 2, 3, 4]))
            answer = self.elsewhere(lambda b: b.invoke("flow", {"x": x.id})).json
            self.assertEqual(answer["bytes"], 16)
            self.assertEqual(client.get(answer["y"]["object"]).data.cast("B").cast("f").tolist(), [2, 4, 6, 8])


class WithoutGpus(unittest.TestCase):
    def test_graphs_that_come_with_requests_run_where_a_gpu_is(self):
        cluster = Cluster(self, names="ab", gpu={"a": "none", "b": "emulated:tiny"})
        cluster.wait_until_up()
        for name in "ab":
            self.assertEqual(scaled_by_its_graph(cluster[name], 2.5), [2.5, 5, 7.5, 10])
        self.assertEqual(len(cluster["b"].request("GET", "/v1/graphs").json["graphs"]), 1)
        cluster["b"].kill()
        cluster.wait_for(lambda: cluster.states("a")["b"] == "lost")
        with self.assertRaises(HttpError) as caught:
            scaled_by_its_graph(cluster["a"], 2.5)
        self.assertIn("GPU", caught.exception.body.decode())


if __name__ == "__main__":
    unittest.main()
