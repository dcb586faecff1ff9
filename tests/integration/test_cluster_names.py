"""Workers that are not what the list of nodes says: two of one name, swapped addresses, and programs of other versions."""
import http.server
import json
import threading
import unittest

from harness import HttpError, Worker, claim_ports
from test_cluster import Cluster, deploy


class TwoOfOneName(unittest.TestCase):
    def second(self, cluster, name, addresses=None):
        """A worker that is called like one that is there, at another address."""
        listed = [flag for node, address in (addresses or cluster.addresses).items() for flag in ("--cluster-node", f"{node}={address}")]
        worker = Worker("--cluster-key", str(cluster.folder / "key"), "--node-name", name, *listed, gpu="none")
        self.addCleanup(worker.close)
        return worker

    def own(self, worker):
        return next(each for each in worker.request("GET", "/v1/cluster").json["members"] if each["self"])

    def test_the_one_at_the_listed_address_is_the_first_node_and_the_other_changes_nothing(self):
        cluster = Cluster(self)
        cluster.wait_until_up()
        deploy(cluster["b"], "echo")
        second = self.second(cluster, "a")
        cluster.wait_for(lambda: self.own(second).get("problem"))
        problem = self.own(second)["problem"]
        self.assertIn(f"another worker is called 'a' and answers at {cluster.addresses['a']}", problem)
        self.assertIn("--node-name", problem)
        for change in (lambda: deploy(second, "own"), lambda: second.delete("echo"),
                       lambda: second.request("PUT", "/v1/volumes/v", "{}")):
            with self.assertRaises(HttpError) as refused:
                change()
            self.assertIn(refused.exception.status, (409, 412))
            self.assertIn("this node changes nothing: another worker is called 'a'", refused.exception.body.decode())
        # What its clients call runs on nodes that have their names.
        second.wait_for(lambda: all(each["state"] == "up" for each in second.request("GET", "/v1/cluster").json["members"] if not each["self"]),
                        what="the others")
        self.assertEqual(second.invoke("echo", {"n": 1}).json["event"], {"n": 1})
        # The first node is what it was, for itself and for the others.
        self.assertFalse(self.own(cluster["a"]).get("problem"))
        deploy(cluster["c"], "later", version=2)
        self.assertEqual(cluster["b"].invoke("later", {}).json["version"], 2)
        self.assertEqual(set(cluster.states("b").values()), {"up"})

    def test_a_list_with_swapped_addresses_is_named(self):
        cluster = Cluster(self, names="ab", told=False)
        swapped = {"a": cluster.addresses["b"], "b": cluster.addresses["a"]}
        told = json.dumps({"source": "mistake", "members": [{"node": name, "address": address} for name, address in swapped.items()]})
        for name in "ab":
            cluster[name].request("PUT", "/v1/cluster/members", told)
        cluster.wait_for(lambda: self.own(cluster["a"]).get("problem"))
        self.assertIn(f"node 'b' answers at {swapped['a']}, the address of this node, 'a'", self.own(cluster["a"])["problem"])
        right = json.loads(told)
        for member in right["members"]:
            member["address"] = cluster.addresses[member["node"]]
        for name in "ab":
            cluster[name].request("PUT", "/v1/cluster/members", json.dumps(right))
        cluster.wait_until_up()
        cluster.wait_for(lambda: not self.own(cluster["a"]).get("problem"))


class OtherVersions(unittest.TestCase):
    """A node of another program, whose report the test makes up."""

    def node(self, **said):
        port = claim_ports(1)[0]
        report = {"node": "x", "version": "99.0.0", "takes_work": True, "slots": 4, "load": 0, "memory_free": 0, "gpus": [], "warm": [], **said}

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps(report).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answers)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cluster = Cluster(self, names="a", told=False)
        cluster["a"].request("PUT", "/v1/cluster/members", json.dumps({"source": "test", "home": "a", "members": [
            {"node": "a", "address": cluster.addresses["a"]}, {"node": "x", "address": f"http://127.0.0.1:{port}"}]}))
        return cluster

    def member(self, cluster):
        return next(each for each in cluster.status("a")["members"] if each["node"] == "x")

    def test_what_a_younger_one_says_beside_what_is_known_is_passed_over(self):
        cluster = self.node(dreams=[1, {"of": "sheep"}], shares_dreams=True)
        cluster.wait_for(lambda: self.member(cluster)["state"] == "up")
        self.assertEqual(self.member(cluster)["version"], "99.0.0")

    def test_what_cannot_be_read_names_both_versions_and_which_to_upgrade(self):
        for version, which in (("99.0.0", "upgrade this node"), ("0.0.1", "upgrade that node")):
            cluster = self.node(version=version, slots="many")
            cluster.wait_for(lambda cluster=cluster: self.member(cluster).get("problem"))
            own = next(each["version"] for each in cluster.status("a")["members"] if each["self"])
            self.assertIn(f"this node has version {own} and node 'x' version {version}: {which}", self.member(cluster)["problem"])


if __name__ == "__main__":
    unittest.main()
