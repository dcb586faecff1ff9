"""What clients see when parts of a cluster fail, each shown with real workers under load: nothing that was acknowledged is lost, and no
synchronous request runs twice. docs/operate/cluster.md has the same as a table."""
import json
import pathlib
import shutil
import tempfile
import time
import unittest

from cluster_world import WITNESSED, Load, NodeBehindCable, Postgres, SlowLink, Switch, Witness
from harness import HttpError, Worker, claim_ports
from test_cluster import Cluster


class CabledCluster(Cluster):
    """Three nodes, each in a network namespace of its own."""

    def __init__(self, test, names="abc", flags=()):
        self.switch = Switch(test, names)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-cluster-"))
        test.addCleanup(shutil.rmtree, self.folder, True)
        (self.folder / "key").write_text("k" * 40)
        self.addresses = {name: f"http://{address}:8980" for name, address in self.switch.addresses.items()}
        listed = [flag for name in names for flag in ("--cluster-node", f"{name}={self.addresses[name]}")]
        self.nodes = {}
        for name in names:
            self.nodes[name] = NodeBehindCable(self.switch, name, "--cluster-key", str(self.folder / "key"), *listed, *flags,
                                               folder=self.folder / name)
            test.addCleanup(self.nodes[name].close)


class UnderLoad(unittest.TestCase):
    """Each test has three nodes and one function that sleeps a little, known and warm everywhere."""

    def begin(self, names="abc"):
        self.witness = Witness(self)
        self.cluster = CabledCluster(self, flags=("--mount-allow", str(self.witness.folder)))
        self.cluster.wait_until_up()
        self.cluster["a"].create_python("work", WITNESSED, tags=self.witness.tags)
        self.load = Load({name: self.cluster[name] for name in names}, "work", threads=2)
        self.addCleanup(self.load.stop)
        self.load.wait_for(40)

    def lose(self, name, how):
        """Answers that other nodes gave after it count."""
        how(name)
        self.load.wait_for(40)
        survivors = [each for each in "abc" if each != name]
        for each in survivors:
            self.cluster.wait_for(lambda each=each: self.cluster.states(each)[name] == "lost")
        self.load.wait_for(40)

    def check(self):
        """After all is mended."""
        self.load.stop()
        self.cluster.wait_until_up()
        # What was accepted is run, though its node was away.
        runs = [*self.load.accepted, *self.load.answered]
        self.cluster.wait_for(lambda: all(self.witness.ended[run] > 0 for run in runs), 60)
        self.cluster.wait_for_outcomes("abc", list(self.load.accepted.values())[:5])
        # What was answered ran, and once.
        self.assertNotEqual(self.load.answered, [])
        for run in self.load.answered:
            self.assertEqual((self.witness.begun[run], self.witness.ended[run]), (1, 1), run)
        twice = [run for run, times in self.witness.begun.items() if run.startswith("sync") and times > 1]
        self.assertEqual(twice, [])
        # Clients are told that they may try again, never anything else.
        for run, error in self.load.failed.items():
            if isinstance(error, HttpError):
                self.assertEqual((error.status, error.headers.get("x-lambent-code")), (503, "UNAVAILABLE"), (run, error.body))
        return self.load

    def test_a_node_that_is_killed(self):
        self.begin()
        owner = self.cluster.owner("work")
        self.lose(owner, lambda name: self.cluster[name].kill())
        self.cluster[owner].start()
        load = self.check()
        lost = [run for run, error in load.failed.items() if isinstance(error, HttpError) and b"NodeLost" in error.body]
        # At most what it had at that moment, one of each thread.
        self.assertLessEqual(len(lost), 4)

    def test_a_node_whose_cable_is_pulled(self):
        self.begin()
        owner = self.cluster.owner("work")
        self.lose(owner, self.cluster.switch.pull)
        # It still answers who reaches it: it has the functions, and believes that the others are lost.
        self.assertEqual(self.cluster[owner].invoke("work", {"id": "alone"}).json, {"id": "alone"})
        self.cluster.wait_for(lambda: set(self.cluster.states(owner).values()) == {"up", "lost"})
        self.cluster.switch.plug(owner)
        self.check()

    def test_the_home_whose_cable_is_pulled(self):
        self.begin(names="bc")
        self.lose("a", self.cluster.switch.pull)
        for name in "bc":
            with self.assertRaises(HttpError) as caught:
                self.cluster[name].create_python("other", WITNESSED)
            self.assertEqual(caught.exception.headers["x-lambent-code"], "UNAVAILABLE")
        # On its side of the cut the home takes changes, as it alone has the catalog: none is lost.
        self.cluster["a"].create_python("meanwhile", WITNESSED, tags=self.witness.tags)
        self.cluster.switch.plug("a")
        self.check()
        for name in "bc":
            self.assertEqual(self.cluster[name].invoke("meanwhile", {"id": name}).json, {"id": name})

    def test_a_cable_that_is_pulled_and_plugged_again_at_once(self):
        self.begin()
        owner = self.cluster.owner("work")
        for _ in range(3):
            self.cluster.switch.pull(owner)
            time.sleep(0.5)
            self.cluster.switch.plug(owner)
            self.load.wait_for(10)
        # What was under way came through, or its client was told that it may not have: never another answer.
        load = self.check()
        self.assertLessEqual(len(load.failed), 6)


    def test_a_network_that_loses_packets(self):
        self.begin()
        self.cluster.switch.drop_packets(0.05)
        self.load.wait_for(200)
        # How many packets a call has depends on which nodes have the sandboxes, so that 200 calls can lose few.
        self.cluster.wait_for(lambda: sum(self.cluster.switch.dropped(name) for name in "abc") > 20, 60)
        load = self.check()
        # Packets are sent again below; what came late enough to take a node for lost cost what it had.
        self.assertLessEqual(len(load.failed), 10)


class ToldByAScript(unittest.TestCase):
    """Members are told by a script that ends, and comes back when others are there."""

    def tell(self, names, to):
        told = json.dumps({"source": "script", "home": "a", "lease_seconds": 1, "members": [
            {"node": name, "address": self.cluster.addresses[name]} for name in names]})
        for name in to:
            self.cluster[name].request("PUT", "/v1/cluster/members", told)

    def test_without_it_what_runs_goes_on_who_goes_is_forgotten_and_who_comes_is_not_known(self):
        witness = Witness(self)
        self.cluster = Cluster(self, names="abcd", told=False, flags=("--mount-allow", str(witness.folder)))
        self.tell("abc", "abc")
        self.cluster.wait_until_up("abc")
        self.cluster["a"].create_python("work", WITNESSED, tags=witness.tags)
        load = Load({name: self.cluster[name] for name in "ab"}, "work", threads=2)
        self.addCleanup(load.stop)
        load.wait_for(20)
        time.sleep(2)  # longer than its lease
        for name in "abc":
            self.assertEqual(self.cluster.states(name), dict.fromkeys("abc", "up"))
        load.wait_for(20)
        self.cluster["c"].kill()
        for name in "ab":
            self.cluster.wait_for(lambda name=name: list(self.cluster.states(name)) == ["a", "b"])
        load.wait_for(40)
        self.assertEqual(list(self.cluster.states("d")), ["d"])
        with self.assertRaises(HttpError) as caught:
            self.cluster["d"].invoke("work", {"id": "nowhere"})
        self.assertEqual(caught.exception.status, 404)
        self.tell("abd", "abd")
        self.cluster.wait_until_up("abd")
        self.assertEqual(self.cluster["d"].invoke("work", {"id": "known"}).json, {"id": "known"})
        load.stop()
        for run, error in load.failed.items():  # what the killed one had
            self.assertEqual((error.status, error.headers.get("x-lambent-code")), (503, "UNAVAILABLE"), (run, error.body))
        self.assertLessEqual(len(load.failed), 4)
        self.cluster["c"].start()  # which has what it accepted
        self.cluster.wait_for(lambda: all(witness.ended[run] > 0 for run in [*load.accepted, *load.answered]), 60)
        self.assertEqual([run for run in witness.begun if run.startswith("sync") and witness.begun[run] > 1], [])


class SlowNetwork(unittest.TestCase):
    def test_nodes_with_slow_links_stay_and_run_each_request_once(self):
        witness = Witness(self)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-cluster-"))
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "key").write_text("k" * 40)
        ports = dict(zip("ab", claim_ports(2)))
        links = {name: SlowLink(self, port, 0.3) for name, port in ports.items()}
        nodes = {}
        for name, port in ports.items():
            nodes[name] = Worker("--cluster-key", str(folder / "key"), "--node-name", name, "--mount-allow", str(witness.folder), gpu="none",
                                 listen=f"127.0.0.1:{port}")
            self.addCleanup(nodes[name].close)
        members = [{"node": name, "address": f"http://127.0.0.1:{links[name].port}"} for name in nodes]
        for node in nodes.values():
            node.request("PUT", "/v1/cluster/members", json.dumps({"source": "test", "members": members}))

        def states(node):
            return [member["state"] for member in node.request("GET", "/v1/cluster").json["members"]]
        for node in nodes.values():
            node.wait_for(lambda node=node: states(node) == ["up", "up"])
        for each in range(4):
            nodes["a"].create_python(f"work{each}", WITNESSED, tags=witness.tags)
        for each in range(4):
            for name, node in nodes.items():
                run = f"sync-{name}-{each}"
                self.assertEqual(node.invoke(f"work{each}", {"id": run}).json, {"id": run})
                node.wait_for(lambda run=run: witness.ended[run])
                self.assertEqual((witness.begun[run], states(node)), (1, ["up", "up"]))
        self.assertGreater(sum(node.request("GET", "/v1/cluster").json["requests"]["forwarded"] for node in nodes.values()), 0)


class CutOffFromTheOthersOnly(unittest.TestCase):
    """All nodes reach PostgreSQL; one of them and the others do not hear each other."""

    def test_nothing_that_it_runs_is_taken_over_and_changes_on_both_sides_come_to_all(self):
        postgres, witness = Postgres(self), Witness(self)
        cluster = CabledCluster(self, flags=("--catalog", postgres.url, "--mount-allow", str(witness.folder)))
        cluster.wait_until_up()
        cluster["a"].create_python("work", WITNESSED, timeout=30, tags=witness.tags)
        cluster.wait_for(lambda: cluster["c"].invoke("work", {"id": "known"}).json == {"id": "known"})
        for name in "ab":
            cluster[name].request("POST", f"/v1/cluster/nodes/{name}/drain")
        cluster.wait_for(lambda: [cluster.states("c")[name] for name in "ab"] == ["draining"] * 2)
        accepted = cluster["c"].invoke("work", {"id": "long", "seconds": 12}, "Event").headers["x-amzn-requestid"]
        cluster.wait_for(lambda: witness.begun["long"] == 1)
        for name in "ab":
            cluster[name].request("POST", f"/v1/cluster/nodes/{name}/undrain")
        cluster.switch.pull("c")
        cluster.wait_for(lambda: cluster.states("a")["c"] == "lost" and set(cluster.states("c").values()) == {"up", "lost"})
        self.assertEqual(cluster["c"].invoke("work", {"id": "alone"}).json, {"id": "alone"})
        cluster["c"].invoke("work", {"id": "event"}, "Event")
        for name in "ac":
            cluster[name].create_python(f"of-{name}", WITNESSED, tags=witness.tags)
        # Its session holds its lease: the others take nothing of it, and find what it made.
        result = lambda: cluster["a"].request("GET", "/v1/invocations/" + accepted).status
        cluster.wait_for(lambda: result() == 200, 40)
        self.assertEqual([witness.begun[run] for run in ("long", "alone", "event")], [1, 1, 1])
        cluster.switch.plug("c")
        cluster.wait_until_up()
        for name in "abc":
            for function in ("of-a", "of-c"):
                self.assertEqual(cluster[name].invoke(function, {"id": f"{function}-{name}"}).json, {"id": f"{function}-{name}"})


if __name__ == "__main__":
    unittest.main()
