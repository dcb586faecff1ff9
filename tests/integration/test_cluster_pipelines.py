"""A pipeline in a cluster: each node with slices has instances of it on its own, calls go to any of these nodes, and the stages of
one instance are never of two nodes."""
import json
import unittest

from harness import make_zip
from test_cluster import Cluster
from test_pipelines import APP, pipeline, profile

SLICES = ("--pipeline-slices", "all")


class InstancesOnSeveralNodes(unittest.TestCase):
    def test_calls_run_on_the_slices_of_each_node_and_go_on_without_one_of_them(self):
        cluster = Cluster(self, names="abc", policy="random", gpu={"a": "emulated:a100-80gb-mig", "b": "emulated:a100-80gb-mig", "c": "none"},
                          own_flags={"a": SLICES, "b": SLICES})
        cluster.wait_until_up()
        # 45 GB in all, which no slice has: each instance has several slices.
        package = make_zip({"app.py": APP, "pipeline.json": json.dumps(pipeline()), "profile.json": json.dumps(profile(15000))})
        cluster["a"].create("p", package, handler="pipeline.json", timeout=30, tags={"lambent:kind": "pipeline"})
        knows = lambda node: "p" in [each["name"] for each in cluster[node].request("GET", "/v1/functions").json["functions"]]
        cluster.wait_for(lambda: knows("b"))
        for turn in range(24):
            reply = cluster["abc"[turn % 3]].invoke("p", {"n": turn})
            self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
            self.assertEqual((reply.json["n"], reply.json["path"]), (30 * turn, ["first", "second", "third"]))
        counts = cluster.completed("p", "ab")
        self.assertEqual(sum(counts.values()), 24)
        self.assertGreater(min(counts.values()), 0)
        for node in "ab":
            holders = [each["holders"] for each in cluster[node].request("GET", "/v1/slices").json["slices"]]
            self.assertGreater(sum(bool(each) for each in holders), 1, "its stages are on several slices of this node")
        # One node less: the other's instances go on.
        cluster["b"].kill()
        cluster.wait_for(lambda: cluster.states("a")["b"] == "lost" and cluster.states("c")["b"] == "lost")
        for turn in range(4):
            self.assertEqual(cluster["ac"[turn % 2]].invoke("p", {"n": 1}).json["n"], 30)


if __name__ == "__main__":
    unittest.main()
