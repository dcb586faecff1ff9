"""Functions of a cluster that rest: no node keeps a sandbox of them or memory on its GPUs, and the next call, at any node, is answered."""
import unittest

from harness import make_zip
from test_cluster import Cluster
from test_cluster_objects import HELLO

ECHO = """
def handler(event, context):
    return event
"""
REST = {"lambent:keep-alive": "1"}
ONLY_HERE = {"X-Lambent-Only-Here": "true"}


class ToZero(unittest.TestCase):
    def sandboxes(self, node):
        return self.cluster[node].request("GET", "/v1/sandboxes", headers=ONLY_HERE).json["sandboxes"]

    def warm(self, node):
        return self.cluster[node].request("GET", "/v1/cluster/report").json["warm"]

    def memory_free(self, node, seen_by):
        return next(member["gpu_memory_free_bytes"] for member in self.cluster.status(seen_by)["members"] if member["node"] == node)

    def ask(self, node):
        worker = self.cluster[node]
        self.assertEqual(worker.invoke("plain", {"by": node}).json, {"by": node})
        self.assertEqual(worker.invoke("gpu", {"by": node}).json, {"by": node})
        self.assertEqual(worker.request("GET", "/f/page/").body, b"hello")

    def test_what_rests_leaves_all_nodes_and_comes_back_at_any(self):
        self.cluster = Cluster(self, names="ab", gpu="emulated:tiny", policy="random", flags=("--set", "foresee=false"))
        self.cluster.wait_until_up()
        worker = self.cluster["a"]
        worker.create_python("plain", ECHO, tags=REST)
        worker.create_python("gpu", ECHO, tags={**REST, "lambent:gpu-memory": "64MiB"})
        worker.create("page", make_zip({"app.py": HELLO}), handler="python3 app.py", tags={**REST, "lambent:kind": "http"})
        before = {node: self.memory_free(node, node) for node in "ab"}
        # Each runs on both nodes.
        for node in "ab" * 12:
            self.ask(node)
        for function in "plain", "gpu", "page":
            self.assertGreater(min(self.cluster.completed(function).values()), 0, function)
        for node in "ab":
            self.cluster.wait_for(lambda node=node: not self.sandboxes(node) and not self.warm(node))
            self.cluster.wait_for(lambda node=node: self.memory_free(node, "a") == self.memory_free(node, "b") == before[node])
        self.assertEqual(self.cluster["a"].invoke("plain", {}).headers["x-lambent-start"], "cold")
        for node in "ab":
            self.ask(node)
        # And again.
        for node in "ab":
            self.cluster.wait_for(lambda node=node: not self.sandboxes(node))

    def test_calls_that_come_while_the_last_sandbox_goes_are_answered(self):
        self.cluster = Cluster(self, names="ab", policy="random")
        self.cluster.wait_until_up()
        self.cluster["a"].create_python("plain", ECHO, tags={"lambent:keep-alive": "0"})
        for number in range(30):
            self.assertEqual(self.cluster["ab"[number % 2]].invoke("plain", {"number": number}).json, {"number": number})
        for node in "ab":
            self.cluster.wait_for(lambda node=node: not self.sandboxes(node))


if __name__ == "__main__":
    unittest.main()
