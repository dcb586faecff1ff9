"""A pipeline in a cluster: each node with slices has instances of it on its own, calls go to any of these nodes, and the stages of
one instance are never of two nodes."""
import contextlib
import json
import re
import subprocess
import threading
import time
import unittest

from harness import PREFIX, HttpError, make_zip
from test_cluster import Cluster
from test_pipelines import APP, pipeline, profile

SLICES = ("--pipeline-slices", "all")


def cluster_with_slices(test, without, timeout=30):
    """Three nodes, of which one has no slices, and the pipeline p. It takes 45 GB in all, which no slice has: each instance has several."""
    others = [node for node in "abc" if node != without]
    cluster = Cluster(test, names="abc", policy="random", gpu={without: "none", **dict.fromkeys(others, "emulated:a100-80gb-mig")},
                      own_flags=dict.fromkeys(others, SLICES))
    cluster.wait_until_up()
    package = make_zip({"app.py": APP, "pipeline.json": json.dumps(pipeline()), "profile.json": json.dumps(profile(15000))})
    cluster["a"].create("p", package, handler="pipeline.json", timeout=timeout, tags={"lambent:kind": "pipeline"})
    return cluster


class InstancesOnSeveralNodes(unittest.TestCase):
    def test_calls_run_on_the_slices_of_each_node_and_go_on_without_one_of_them(self):
        cluster = cluster_with_slices(self, without="c")
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


class ANodeThatLosesItsSlices(unittest.TestCase):
    def test_calls_go_to_nodes_that_still_have_theirs(self):
        cluster = cluster_with_slices(self, without="a")

        def report(node):
            told = cluster[node].request("GET", "/v1/cluster/report").json
            return len(told["pipelines"]), len(told["pipelines_later"])
        cluster.wait_for(lambda: report("b") == (1, 0) and report("c") == (1, 0))
        mig = [str(PREFIX / "bin/emulated-gpu"), "mig", "--node", str(cluster["b"].folder / "run/gpu-node")]
        listed = subprocess.run([*mig, "list"], capture_output=True, text=True, check=True, timeout=60).stdout
        for each in re.findall(r"MIG-[\w-]+", listed):
            subprocess.run([*mig, "destroy", each], capture_output=True, check=True, timeout=60)
        cluster.wait_for(lambda: report("b") == (0, 1), 30)
        time.sleep(5)  # until the others know: reports come once a second, and later on a busy machine
        for turn in range(15):
            self.assertEqual(cluster["abc"[turn % 3]].invoke("p", {"n": turn}).json["n"], 30 * turn)
        self.assertEqual(cluster.completed("p"), {"a": 0, "b": 0, "c": 15})
        # It is no node that never could: it is named as one that is away.
        cluster["c"].kill()
        cluster.wait_for(lambda: cluster.states("a")["c"] == "lost")
        with self.assertRaises(HttpError) as raised:
            cluster["a"].invoke("p", {"n": 1})
        self.assertEqual((raised.exception.status, raised.exception.headers["x-lambent-code"]), (503, "UNAVAILABLE"))
        self.assertIn("lost or drained (c)", str(raised.exception))


class ANodeThatStops(unittest.TestCase):
    def test_what_waits_in_its_queue_is_run_by_another(self):
        cluster = cluster_with_slices(self, without="a", timeout=60)

        def runs_on_both():
            with contextlib.suppress(HttpError):  # before the first node knows that they can
                cluster["a"].invoke("p", {"n": 1})
            return min(cluster.completed("p", "bc").values()) > 0
        cluster.wait_for(runs_on_both, 60)
        failed, answered = [], []

        def ask(number):
            try:
                reply = cluster["a"].invoke("p", {"n": number, "seconds": 1, "slow": "second"})
                (answered if "x-amz-function-error" not in reply.headers and reply.json["n"] == 30 * number else failed).append(reply.body)
            except HttpError as error:
                failed.append(error)
        callers = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
        for caller in callers:
            caller.start()
        queued = lambda: sum(each["queued"] for each in cluster["b"].request(
            "GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"])
        cluster.wait_for(lambda: queued() > 1)
        self.assertEqual(cluster["b"].stop(), 0)
        for caller in callers:
            caller.join(90)
        self.assertEqual((failed, len(answered)), ([], 16))


class ANodeWithoutSlices(unittest.TestCase):
    """The home and another node have none: what one node has serves calls and deployments of any."""

    def setUp(self):
        self.cluster = Cluster(self, names="abc", gpu={"a": "none", "b": "emulated:a100-80gb-mig", "c": "none"}, own_flags={"b": SLICES})
        self.cluster.wait_until_up()

    def deploy(self, node, name="p", memory_mb=15000, **more):
        package = make_zip({"app.py": APP, "pipeline.json": json.dumps(pipeline(**more)), "profile.json": json.dumps(profile(memory_mb))})
        return self.cluster[node].create(name, package, handler="pipeline.json", timeout=30, tags={"lambent:kind": "pipeline"})

    def test_a_pipeline_is_deployed_called_and_shown_at_any_node(self):
        self.deploy("c")
        for turn in range(6):  # from the first moment on
            self.assertEqual(self.cluster["abc"[turn % 3]].invoke("p", {"n": turn}).json["n"], 30 * turn)
        accepted = self.cluster["a"].invoke("p", {"n": 7}, kind="Event").headers["x-amzn-requestid"]
        self.cluster.wait_for(lambda: self.cluster["c"].request("GET", "/v1/invocations/" + accepted).status == 200)
        self.assertEqual(self.cluster.completed("p"), {"a": 0, "b": 7, "c": 0})
        for node in "abc":
            shown = self.cluster[node].request("GET", "/v1/functions/p/pipeline").json
            self.assertGreater(len(shown["instances"]), 0)
            self.assertEqual((shown["node"], shown["completed"]), ("b", 7))
        # Its steps too: a workflow whose run is where there are no slices calls it there.
        graph = {"components": [{"name": "one", "function": "p", "input": "$input"}], "output": "$one"}
        self.cluster["a"].create("w", make_zip({"workflow.json": json.dumps(graph)}), runtime="provided.al2023", handler="workflow.json",
                                 timeout=30, tags={"lambent:kind": "workflow"})
        for node in "abc" * 2:
            self.assertEqual(self.cluster[node].invoke("w", {"n": 2}).json["n"], 60)

    def test_what_a_node_without_slices_shows_is_the_same_after_a_restart(self):
        self.deploy("c", slo={"ms": 500}, isolation="auto")
        self.assertEqual(self.cluster["c"].invoke("p", {"n": 1}).json["n"], 30)
        for node in "ac":  # one planned it, the other has a copy

            def shown(node=node):
                return self.cluster[node].request("GET", "/v1/functions/p/pipeline", headers={"X-Lambent-Only-Here": "true"}).json

            before = shown()
            self.assertEqual((before["node"], before["slo"]["ms"], before["instances"]), (node, 500, []))
            self.assertEqual(self.cluster[node].stop(), 0)
            self.cluster[node].start()
            self.assertEqual(shown(), before)

    def test_a_pipeline_that_no_node_could_run_is_refused_with_its_own_error(self):
        with self.assertRaises(HttpError) as raised:
            self.deploy("c", isolation="shared")
        self.assertIn("how much memory it needs: gpu.memory", str(raised.exception))
        self.assertNotIn("no other node", str(raised.exception))

    def test_what_no_node_has_the_slices_for_is_refused_and_lost_slices_are_named(self):
        with self.assertRaises(HttpError) as raised:
            self.deploy("c", "large", 60000)
        self.assertEqual((raised.exception.status, raised.exception.headers["x-lambent-code"]), (409, "FAILED_PRECONDITION"))
        self.assertIn("no other node of the cluster has what it takes", str(raised.exception))
        self.deploy("a")
        self.assertEqual(self.cluster["c"].invoke("p", {"n": 1}).json["n"], 30)
        self.cluster["b"].kill()
        self.cluster.wait_for(lambda: self.cluster.states("a")["b"] == "lost" and self.cluster.states("c")["b"] == "lost")
        for node in "ac":
            with self.assertRaises(HttpError) as raised:
                self.cluster[node].invoke("p", {"n": 1})
            self.assertEqual((raised.exception.status, raised.exception.headers["x-lambent-code"]), (503, "UNAVAILABLE"))
            self.assertIn("lost or drained (b)", str(raised.exception))
        self.cluster["b"].start()
        self.cluster.wait_until_up()
        # Without the home, which has the catalog, its calls go on.
        self.cluster["a"].kill()
        self.cluster.wait_for(lambda: self.cluster.states("c")["a"] == "lost")
        self.assertEqual(self.cluster["c"].invoke("p", {"n": 3}).json["n"], 90)


if __name__ == "__main__":
    unittest.main()
