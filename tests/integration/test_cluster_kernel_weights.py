"""Constants of kernel functions that lie in volumes, on a node that has copies of them: old ones are no hindrance to a revision with
new weights, and give way to them."""
import base64
import json
import unittest

import test_kernel_weights as weights
from harness import make_zip
from test_cluster import Cluster
from test_kernel_functions import bundle_files, floats


class WeightsOfACopy(unittest.TestCase):
    """a keeps the volume and gets the deployments; b runs what is asked of it."""

    def setUp(self):
        self.cluster = Cluster(self, names="ab", gpu="emulated:tiny", flags=("--context-memory", "16"))
        self.cluster.wait_until_up()
        self.a, self.b = self.cluster["a"], self.cluster["b"]
        self.cluster.set_drained("a", True)
        self.a.request("PUT", "/v1/volumes/weights")
        self.put("w", 10, 20, 30, 40)
        self.a.create("adds", make_zip(self.package("w")), runtime="provided.al2023", handler="graph.json",
                      tags={"lambent:kind": "kernel", "lambent:mounts": "weights:/weights"})
        self.assertEqual(self.sum(), [11, 22, 33, 44])

    def put(self, name, *numbers):
        self.a.request("PUT", f"/v1/volumes/weights/files/{name}.bin", floats(*numbers))

    def package(self, name, **more):
        return {"graph.json": json.dumps(weights.WeightsTest.graph(f"/weights/{name}.bin")), **bundle_files(), **more}

    def deploy(self, name, **more):
        content = base64.b64encode(make_zip(self.package(name, **more))).decode()
        self.a.request("PUT", "/2015-03-31/functions/adds/code", json.dumps({"ZipFile": content}))

    def sum(self):
        reply = self.b.invoke("adds", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json["outputs"][0]["data"]

    def revision_at_b(self):
        listed = self.b.request("GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"]
        return next(each for each in listed if each["name"] == "adds")["revision"]

    def test_a_revision_that_names_another_file_is_copied_and_reads_it(self):
        before = self.revision_at_b()
        self.put("v", 1, 2, 3, 4)
        self.deploy("v")
        self.cluster.wait_for(lambda: self.revision_at_b() != before)
        self.assertNotIn("function_not_copied", self.b.log())
        self.assertEqual(self.sum(), [2, 4, 6, 8])
        self.assertEqual(self.cluster.completed("adds"), {"a": 0, "b": 2})

    def test_a_revision_reads_what_was_put_under_the_old_name_before_it(self):
        before = self.revision_at_b()
        for version in range(1, 4):
            self.put("w", *[version] * 4)
            self.deploy("w", version=str(version))
            self.cluster.wait_for(lambda: self.revision_at_b() != before)
            before = self.revision_at_b()
            self.assertEqual(self.sum(), [version + n for n in (1, 2, 3, 4)])
        self.assertEqual(self.cluster.completed("adds"), {"a": 0, "b": 4})

    def test_a_node_that_was_away_reads_what_was_put_meanwhile(self):
        self.b.kill()
        self.put("w", 1, 2, 3, 4)
        self.b.start()
        self.cluster.wait_for(lambda: self.cluster.states("b") == {"a": "draining", "b": "up"})
        self.assertEqual(self.sum(), [2, 4, 6, 8])
        self.assertEqual(self.cluster.completed("adds"), {"a": 0, "b": 1})


if __name__ == "__main__":
    unittest.main()
