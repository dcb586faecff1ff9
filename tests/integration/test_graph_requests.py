"""Requests that bring their graph of kernels, through the whole worker: the second one names it, what is wrong is named with its place,
neighbours notice nothing, and what is kept is bounded."""
import array
import hashlib
import json
import os
import sys
import threading
import unittest
import uuid

from harness import PREFIX, HttpError, Worker, WorkerTest, make_zip
from tenants import TokenWorker
from test_kernel_functions import bundle_files, floats, launch, scale_graph, tensor, unsigned

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent import kernels  # noqa: E402
from lambent.client import Client  # noqa: E402
from lambent.errors import InvalidArgument, PermissionDenied  # noqa: E402
from lambent.kernels import float32, uint32, write  # noqa: E402
from lambent.kernels.archive import pack  # noqa: E402

X = {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]}
RAW = {"Content-Type": "application/octet-stream"}
KEPT = 64  # of a tenant


def package(graph, **files):
    return make_zip({"graph.json": graph if isinstance(graph, str) else json.dumps(graph), **bundle_files(), **files})


def digest_of(zipped):
    return hashlib.sha256(zipped).hexdigest()


def multipart(**parts):
    boundary = uuid.uuid4().hex
    body = b"".join(b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (boundary.encode(), name.encode(), content)
                    for name, content in parts.items())
    return body + b"--%s--\r\n" % boundary.encode(), {"Content-Type": "multipart/form-data; boundary=" + boundary}


class GraphTest(WorkerTest):
    flags = ("--context-memory", "16", "--concurrency", "2")

    def run_kept(self, digest, request, headers=None, caller=None):
        body = request if isinstance(request, bytes) else json.dumps(request)
        return (caller or self.worker).request("POST", f"/v1/graphs/{digest}/invocations", body, headers)

    def bring(self, zipped, digest=None, caller=None, **parts):
        body, headers = multipart(package=zipped, **parts)
        return self.run_kept(digest or digest_of(zipped), body, headers, caller)

    def refused(self, graph, status=400, **files):
        """What is said of it."""
        error = self.error_of(self.bring, package(graph, **files))
        self.assertEqual(error.status, status, error.body)
        return error.json["error"]["message"]

    def kept(self):
        return {each["digest"] for each in self.worker.request("GET", "/v1/graphs").json["graphs"]}


class Requests(GraphTest):
    def test_the_first_request_brings_its_graph_and_the_second_names_it(self):
        zipped = package(scale_graph(factor=2.5))
        digest = digest_of(zipped)
        missing = self.error_of(self.run_kept, digest, X)
        self.assertEqual((missing.status, missing.headers["x-lambent-error-type"]), (404, "Graph.NotFound"))
        first = self.bring(zipped, request=json.dumps(X).encode())
        self.assertEqual(first.json["outputs"][0]["data"], [2.5, 5, 7.5, 10])
        self.assertEqual(first.headers["x-lambent-start"], "cold")
        second = self.run_kept(digest, X)
        self.assertEqual(second.json["outputs"][0]["data"], [2.5, 5, 7.5, 10])
        self.assertEqual(second.headers["x-lambent-start"], "warm")
        self.assertIn(digest, self.kept())

    def test_bytes_go_in_and_come_out(self):
        zipped = package(scale_graph(factor=3.0))
        first = self.bring(zipped, raw=floats(1, 2, 3, 4))
        self.assertEqual(first.body, floats(3, 6, 9, 12))
        self.assertEqual(self.run_kept(digest_of(zipped), floats(2, 2, 2, 2), RAW).body, floats(6, 6, 6, 6))

    def test_kept_graphs_are_no_functions(self):
        self.bring(package(scale_graph(factor=4.0)), raw=floats(1, 2, 3, 4))
        self.assertEqual(self.worker.request("GET", "/v1/functions").json["functions"], [])
        self.assertEqual(self.worker.request("GET", "/2015-03-31/functions").json["Functions"], [])

    def test_outputs_stay_as_objects_until_somebody_asks(self):
        zipped = package(scale_graph(factor=5.0))
        self.worker.request("PUT", f"/v1/graphs/{digest_of(zipped)}", zipped)
        stays = {**X, "outputs": [{"name": "y", "parameters": {"object": True}}]}
        reply = self.run_kept(digest_of(zipped), stays, {"X-Lambent-Outputs": "1"})
        self.assertEqual(reply.status, 202)
        made = reply.json["objects"][0]
        again = {"inputs": [{"name": "x", "parameters": {"object": made}}]}
        reply = self.run_kept(digest_of(zipped), again, {"X-Lambent-Needs": made})
        self.assertEqual(reply.json["outputs"][0]["data"], [25, 50, 75, 100])
        self.assertEqual(self.worker.request("GET", f"/v1/objects/{made}?wait=30").body, floats(5, 10, 15, 20))

    def test_a_removed_graph_is_asked_for_again(self):
        zipped = package(scale_graph(factor=6.0))
        path = f"/v1/graphs/{digest_of(zipped)}"
        told = self.worker.request("PUT", path, zipped).json
        self.assertEqual((told["digest"], told["package_bytes"]), (digest_of(zipped), len(zipped)))
        self.worker.request("DELETE", path)
        self.assertEqual(self.error_of(self.run_kept, digest_of(zipped), X).status, 404)
        self.assertEqual(self.error_of(self.worker.request, "DELETE", path).status, 404)

    def test_many_clients_bring_the_same_graphs_at_once(self):
        zips = [package(scale_graph(factor=float(10 + i))) for i in range(4)]
        failures = []

        def client(i):
            try:
                for k in range(6):
                    factor = (i + k) % 4
                    body = self.bring(zips[factor], raw=floats(k, 1, 2, 3)).body
                    self.assertEqual(body, floats(*(each * (10 + factor) for each in (k, 1, 2, 3))))
            except Exception as error:  # told below, in the test's own thread
                failures.append(error)
        clients = [threading.Thread(target=client, args=(i,)) for i in range(8)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        self.assertEqual(failures, [])


class Refusals(GraphTest):
    def test_what_is_wrong_with_a_graph_is_named_with_its_place(self):
        scale = scale_graph()
        lies = json.loads(json.dumps(scale))
        lies["buffers"][0]["shape"] = [0]
        short = json.loads(json.dumps(scale))
        short["steps"][0]["arguments"][1]["offset_bytes"] = 16
        backwards = {"buffers": scale["buffers"] + [tensor("t", "temporary", [4])],
                     "steps": [launch("scale", {"buffer": "t", "access": "read"}, "y", 2.0, unsigned(4)),
                               launch("scale", "x", {"buffer": "t", "access": "write"}, 2.0, unsigned(4))]}
        huge = {"buffers": [tensor("x", "input", [1 << 40]), tensor("y", "output", [1 << 40])], "steps": scale["steps"]}
        beyond = {"buffers": [tensor("x", "input", [1 << 28]), tensor("y", "output", [1 << 28])], "steps": scale["steps"]}
        weights = {"buffers": scale["buffers"] + [tensor("w", "constant", [4], file="w.bin")], "steps": [
            launch("scale", "w", {"buffer": "y", "access": "write"}, 1.0, unsigned(4)), *scale["steps"]]}
        for graph, words, files in [
                ("{", "graph.json", {}),
                ({"buffers": [], "steps": [launch("nothing")]}, "steps[0].kernel", {}),
                ({"buffers": [], "steps": [{**launch("scale"), "bundle": "bundles/other"}]}, "steps[0].bundle", {}),
                ({"buffers": [], "steps": [{**launch("scale"), "bundle": "../../etc"}]}, "steps[0].bundle", {}),
                (lies, "buffers[0]", {}),
                (short, "steps[0].arguments[1]", {}),
                (backwards, "steps[0].arguments[0]", {}),
                (huge, "buffers[0] ('x'): the buffers up to here take more than 1 TiB", {}),
                (beyond, "buffers[0]", {}),
                (weights, "buffers[2] ('w').file", {"w.bin": floats(1, 2, 3)}),
                (weights, "buffers[2] ('w').file", {}),
                ({"buffers": scale["buffers"], "steps": scale["steps"] * 5000}, "steps", {})]:
            with self.subTest(words):
                self.assertIn(words, self.refused(graph, **files))
        self.assertEqual(self.kept(), set())

    def test_packages_that_are_none_are_refused(self):
        good = package(scale_graph(factor=7.0))
        for zipped, digest, words in [
                (b"PK nonsense", None, "zip"),
                (good[:-40], None, "zip"),
                (good, digest_of(b""), "SHA-256"),
                (make_zip({"other.json": "{}"}), None, "graph.json"),
                (make_zip({"graph.json": json.dumps(scale_graph()), "../out": "x"}), None, "out")]:
            with self.subTest(words):
                error = self.error_of(self.bring, zipped, digest)
                self.assertEqual(error.status, 400, error.body)
                self.assertIn(words, error.json["error"]["message"])
        error = self.error_of(self.worker.request, "PUT", f"/v1/graphs/{digest_of(good)}", os.urandom(17 << 20))
        self.assertEqual((error.status, error.json["error"]["code"]), (400, "OUT_OF_RANGE"))
        self.assertEqual(self.kept(), set())

    def test_a_request_that_does_not_fit_its_graph_names_the_place(self):
        zipped = package(scale_graph())
        error = self.error_of(self.bring, zipped, request=b'{"inputs": [{"name": "x", "data": [1, 2, "three", 4]}]}')
        self.assertEqual((error.status, error.headers["x-lambent-error-type"]), (400, "Request.Invalid"))
        self.assertIn("inputs[0].data[2]", error.json["error"]["message"])
        self.assertEqual(self.bring(zipped, raw=floats(1, 2, 3, 4)).body, floats(2, 4, 6, 8))
        self.worker.request("DELETE", f"/v1/graphs/{digest_of(zipped)}")

    def test_a_graph_that_faults_fails_by_itself(self):
        self.worker.create("neighbour", package(scale_graph()), runtime="provided.al2023", handler="graph.json",
                           tags={"lambent:kind": "kernel"})
        failures, stop = [], threading.Event()

        def neighbour():
            while not stop.is_set():
                reply = self.worker.invoke("neighbour", floats(1, 2, 3, 4), headers=RAW)
                if "x-amz-function-error" in reply.headers or reply.body != floats(2, 4, 6, 8):
                    failures.append(reply.body)
        client = threading.Thread(target=neighbour)
        client.start()
        wild = package({"buffers": [tensor("flag", "input", [], "INT32"), tensor("y", "output", [4])],
                        "steps": [launch("wild", "flag", {"buffer": "y", "access": "write"})]})
        try:
            for _ in range(2):
                error = self.error_of(self.bring, wild, raw=bytes(4))
                self.assertEqual(error.headers["x-lambent-error-type"], "Kernel.Fault", error.body)
                self.refused({"buffers": [], "steps": [launch("nothing")]})
        finally:
            stop.set()
            client.join()
        self.assertEqual(failures, [])
        self.worker.delete("neighbour")
        self.worker.request("DELETE", f"/v1/graphs/{digest_of(wild)}")


class Bounds(GraphTest):
    def test_the_least_recently_used_graph_makes_room_for_the_next_one(self):
        zips = [package(scale_graph(factor=100.0 + i)) for i in range(KEPT + 1)]
        for zipped in zips[:KEPT]:
            self.worker.request("PUT", f"/v1/graphs/{digest_of(zipped)}", zipped)
        self.run_kept(digest_of(zips[0]), X)
        self.bring(zips[KEPT], raw=floats(1, 2, 3, 4))
        kept = self.kept()
        self.assertEqual(len(kept), KEPT)
        self.assertIn(digest_of(zips[0]), kept)
        self.assertNotIn(digest_of(zips[1]), kept)
        self.assertEqual(self.bring(zips[1], raw=floats(1, 2, 3, 4)).body, floats(101, 202, 303, 404))
        code = list((self.worker.folder / "state/code").iterdir())
        self.worker.wait_for(lambda: len(list((self.worker.folder / "state/code").iterdir())) <= KEPT + 1,
                             what=f"what is kept no longer leaves the disk ({len(code)})")


class FromPython(GraphTest):
    def graph(self, factor):
        graph = kernels.Graph("scaled")
        x, y = graph.input("x", "FP32", (4,)), graph.output("y", "FP32", (4,))
        t = graph.temporary("t", "FP32", (4,))
        scale = graph.source(self.source).kernel("scale")
        scale(1, 32, [x, write(t), float32(factor), uint32(4)])
        scale(1, 32, [kernels.read(t), y, float32(1), uint32(4)])
        return graph

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        from test_kernel_functions import KERNELS as text
        cls.source = str(cls.worker.folder / "k.cu")
        with open(cls.source, "w", encoding="utf-8") as file:
            file.write(text)

    def test_a_graph_is_called_like_a_function_and_resent_when_the_worker_has_lost_it(self):
        with Client(self.worker.endpoint) as client:
            graph = client.graph(self.graph(2.0))
            x = array.array("f", [1, 2, 3, 4])
            self.assertEqual(bytes(graph(x=x, outputs="y")), floats(2, 4, 6, 8))
            self.assertEqual([each["digest"] for each in client.graphs()], [graph.digest])
            self.assertTrue(graph.forget())
            self.assertFalse(graph.forget())
            self.assertEqual(bytes(graph(x=x, outputs=["y"])), floats(2, 4, 6, 8))
            first = graph.remote(x=x, outputs="y")
            self.assertEqual(bytes(graph.remote(x=first, outputs="y").get()), floats(4, 8, 12, 16))
            self.assertEqual(bytes(graph(x=first, outputs="y")), floats(4, 8, 12, 16))
            with self.assertRaisesRegex(TypeError, "no input 'z'"):
                graph(z=x, outputs="y")
            with self.assertRaisesRegex(TypeError, "input 'x' is FP32"):
                graph(x=array.array("f", [1]), outputs="y")
            with self.assertRaisesRegex(TypeError, "no output 'z'"):
                graph(x=x, outputs="z")

    def test_a_saved_folder_and_its_graph_are_the_same_package(self):
        folder = str(self.worker.folder / "saved")
        graph = self.graph(3.0)
        graph.save(folder)
        self.assertEqual(pack(folder), pack(graph))

    def test_a_mistake_is_raised_with_its_place(self):
        graph = self.graph(4.0)
        graph.steps[0]["kernel"] = "skale"
        with Client(self.worker.endpoint) as client, self.assertRaisesRegex(InvalidArgument, r"steps\[0\].*skale"):
            client.graph(graph)(x=array.array("f", [1, 2, 3, 4]), outputs="y")


class Tenants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = TokenWorker("--context-memory", "16")
        operator = cls.world.operator
        for name in "vision", "audio":
            operator.create_tenant(name, disk_bytes=3 * len(package(scale_graph())) if name == "vision" else 1 << 30)
        cls.vision, cls.audio = operator.caller("vision"), operator.caller("audio")
        cls.invoker = operator.caller("vision", scopes=("invoke",))

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def run_as(self, caller, zipped, carries=False):
        body, headers = multipart(package=zipped, raw=floats(1, 2, 3, 4)) if carries else (floats(1, 2, 3, 4), RAW)
        return caller.request("POST", f"/v1/graphs/{digest_of(zipped)}/invocations", body, headers)

    def status_of(self, *arguments, **options):
        try:
            return self.run_as(*arguments, **options).status
        except HttpError as error:
            return error.status

    def test_who_may_only_invoke_brings_no_code(self):
        zipped = package(scale_graph(factor=8.0))
        self.assertEqual(self.status_of(self.invoker, zipped, carries=True), 403)
        self.assertEqual(self.status_of(self.invoker, zipped), 404)
        self.assertEqual(self.run_as(self.vision, zipped, carries=True).body, floats(8, 16, 24, 32))
        self.assertEqual(self.run_as(self.invoker, zipped).body, floats(8, 16, 24, 32))
        with Client(self.world.worker.endpoint, token=self.invoker.token) as client, self.assertRaises(PermissionDenied):
            client.graph(package(scale_graph(factor=9.0)))(x=floats(1, 2, 3, 4), outputs="y")
        self.assertIn(f"/v1/graphs/{digest_of(zipped)}/invocations", self.world.audit_log.read_text())

    def test_a_tenant_runs_only_what_it_has_brought(self):
        zipped = package(scale_graph(factor=8.5))
        self.run_as(self.vision, zipped, carries=True)
        self.assertEqual(self.status_of(self.audio, zipped), 404)
        self.assertEqual(self.audio.request("GET", "/v1/graphs").json["graphs"], [])

    def test_within_its_quota_of_disk_a_tenant_keeps_the_last_ones(self):
        zips = [package(scale_graph(factor=20.0 + i)) for i in range(6)]
        for i, zipped in enumerate(zips):
            self.assertEqual(self.run_as(self.vision, zipped, carries=True).body[:4], floats(20 + i))
        kept = {each["digest"] for each in self.vision.request("GET", "/v1/graphs").json["graphs"]}
        self.assertLess(len(kept), 4)
        self.assertIn(digest_of(zips[-1]), kept)
        self.assertNotIn(digest_of(zips[0]), kept)


class Restarts(unittest.TestCase):
    def test_after_a_restart_the_client_brings_its_graph_again(self):
        worker = Worker("--context-memory", "16")
        self.addCleanup(worker.close)
        zipped = package(scale_graph())
        with Client(worker.endpoint) as client:
            self.assertEqual(bytes(client.graph(zipped)(x=floats(1, 2, 3, 4), outputs="y")), floats(2, 4, 6, 8))
        worker.kill()
        worker.start()
        self.assertEqual(worker.request("GET", "/v1/graphs").json["graphs"], [])
        with Client(worker.endpoint) as client:
            self.assertEqual(bytes(client.graph(zipped)(x=floats(1, 2, 3, 4), outputs="y")), floats(2, 4, 6, 8))
        self.assertEqual(worker.stop(), 0)


if __name__ == "__main__":
    unittest.main()
