"""A cluster whose PostgreSQL fails over: a standby that is promoted under load takes the place of the primary. What was acknowledged is
there and runs once, callers are told that they may try again, and a primary that comes back is not taken for one."""
import subprocess
import unittest

from cluster_world import WITNESSED, Load, Postgres, Witness
from harness import HttpError
from test_cluster import Cluster, deploy
from test_cluster_catalog import outcome_of, versions


class Failover(unittest.TestCase):
    def setUp(self):
        self.primary = Postgres(self)
        self.standby = Postgres(self, self.primary)
        self.witness = Witness(self)
        self.cluster = Cluster(self, flags=("--catalog", self.primary.url_with(self.standby), "--mount-allow", str(self.witness.folder)))
        self.cluster.wait_until_up()

    def reached(self, name):
        return "lambent_cluster_catalog_reached 1" in self.cluster[name].metrics().splitlines()

    def test_a_standby_that_is_promoted_under_load_loses_nothing_that_was_acknowledged(self):
        self.cluster["a"].create_python("work", WITNESSED, tags=self.witness.tags)
        load = Load({name: self.cluster[name] for name in "abc"}, "work")
        self.addCleanup(load.stop)
        load.wait_for(40)
        self.primary.do("crash")
        for name in "abc":
            self.cluster.wait_for(lambda name=name: not self.reached(name), 60)
            ready = self.cluster[name].request("GET", "/readyz")
            self.assertEqual(ready.status, 200)
            self.assertIn(b"[-] shared_catalog: ", ready.body)
            self.assertIn(b"asynchronous invocations are refused", ready.body)
        load.wait_for(40)  # synchronous ones go on
        self.standby.do("promote")
        for name in "abc":
            self.cluster.wait_for(lambda name=name: self.reached(name), 60)
            self.assertEqual(self.cluster[name].request("GET", "/readyz").body, b"ok\n")
        accepted = len(load.accepted)
        self.cluster.wait_for(lambda: len(load.accepted) > accepted + 10, 60)
        load.stop()
        self.cluster.wait_for(lambda: all(self.witness.ended[run] > 0 for run in [*load.accepted, *load.answered]), 60)
        self.cluster.wait_for_outcomes("abc", load.accepted.values(), 60)
        # No node was lost, so that none ran twice.
        self.assertEqual({times for run, times in self.witness.begun.items() if run in load.accepted or run in load.answered}, {1})
        # Those that were refused are those that need it.
        self.assertNotEqual(load.failed, {})
        for run, error in load.failed.items():
            self.assertIsInstance(error, HttpError, (run, error))
            self.assertEqual((run.split("-")[0], error.status, error.headers.get("x-lambent-code")), ("async", 503, "UNAVAILABLE"), error.body)
        # Each that was acknowledged stands in the new primary, once.
        rows = self.standby.query("SELECT count(*), count(DISTINCT id) FROM shared_invocations WHERE state = 'done'")
        done = int(rows[0].split("|")[0])
        self.assertEqual(rows, [f"{done}|{done}"])
        self.assertGreaterEqual(done, len(load.accepted))
        deploy(self.cluster["c"], "later")
        self.assertEqual(versions(self.cluster, "abc", "later"), [1, 1, 1])

    def test_a_primary_that_comes_back_is_not_written_to(self):
        deploy(self.cluster["a"], "before")
        self.primary.do("crash")
        self.standby.do("promote")
        self.cluster.wait_for(lambda: outcome_of(deploy, self.cluster["b"], "after")[0] in (200, 409), 60)
        for name in "abc":
            self.cluster.wait_for(lambda name=name: versions(self.cluster, name, "after") == [1] and self.reached(name), 60)
        # As nobody should start it: it takes writes, and knows nothing of what came since.
        subprocess.run(["sed", "-i", "/synchronous_standby_names/d", f"{self.primary.folder}/data/postgresql.auto.conf"], check=True)
        self.primary.do("start")
        self.standby.do("crash")
        for name in "abc":
            self.cluster.wait_for(lambda name=name: not self.reached(name), 60)
        status, code = outcome_of(deploy, self.cluster["c"], "astray")
        self.assertEqual((status, code), (503, "UNAVAILABLE"))
        for name in "abc":
            self.cluster.wait_for(lambda name=name: b"before another one was promoted" in self.cluster[name].request("GET", "/readyz").body)
        self.assertEqual(self.primary.query("SELECT name FROM shared_functions ORDER BY name"), ["before"])
        self.standby.do("start")
        for name in "abc":
            self.cluster.wait_for(lambda name=name: self.reached(name), 60)
        deploy(self.cluster["c"], "astray")
        self.assertEqual(versions(self.cluster, "abc", "astray"), [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
