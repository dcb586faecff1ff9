"""Three workers that share a catalog in PostgreSQL: each takes changes, the loss of any node loses nothing that was acknowledged, and
without PostgreSQL what is known runs on."""
import base64
import concurrent.futures
import json
import pathlib
import shutil
import tempfile
import threading
import time
import unittest

from cluster_world import WITNESSED, Postgres, WayToPostgres, Witness
from harness import HttpError, make_zip
from test_cluster import ECHO, Cluster, deploy


def versions(cluster, names, function="echo"):
    return [cluster[name].invoke(function, {}).json["version"] for name in names]


def outcome_of(call, *arguments, **options):
    """The status and Lambent's code of a refusal, or 200 and nothing."""
    try:
        call(*arguments, **options)
        return 200, None
    except HttpError as error:
        return error.status, error.headers.get("x-lambent-code")


class SharedCatalog(unittest.TestCase):
    def setUp(self):
        self.postgres, self.witness = Postgres(self), Witness(self)
        self.cluster = Cluster(self, flags=("--catalog", self.postgres.url, "--mount-allow", str(self.witness.folder)))
        self.cluster.wait_until_up()

    def lose(self, name):
        self.cluster[name].kill()
        for each in "abc":
            if each != name:
                self.cluster.wait_for(lambda each=each: self.cluster.states(each)[name] == "lost")

    def test_changes_go_on_without_the_home_and_come_to_it_when_it_is_back(self):
        deploy(self.cluster["c"], "echo")
        self.assertEqual(versions(self.cluster, "abc"), [1, 1, 1])
        self.lose("a")
        deploy(self.cluster["b"], "later", version=2)
        self.assertEqual(versions(self.cluster, "cb", "later"), [2, 2])
        self.cluster["c"].delete("echo")
        self.cluster.wait_for(lambda: outcome_of(self.cluster["b"].invoke, "echo", {})[0] == 404)
        self.cluster["a"].start()
        self.cluster.wait_until_up()
        self.assertEqual(versions(self.cluster, "a", "later"), [2])
        self.cluster.wait_for(lambda: outcome_of(self.cluster["a"].invoke, "echo", {})[0] == 404)

    def test_changes_through_two_nodes_in_one_moment_leave_all_with_the_same(self):
        deploy(self.cluster["a"], "echo")
        self.assertEqual(versions(self.cluster, "bc"), [1, 1])
        self.lose("a")  # which would take them one after the other
        outcomes = []

        def change(name, number):
            code = ECHO.replace("VERSION", str(number))
            body = json.dumps({"ZipFile": base64.b64encode(make_zip({"app.py": code})).decode()})
            outcomes.append((number, *outcome_of(self.cluster[name].request, "PUT", "/2015-03-31/functions/echo/code", body)))

        for turn in range(4):
            threads = [threading.Thread(target=change, args=(name, 10 * turn + number)) for number, name in ((1, "b"), (2, "c"))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            accepted = {number for number, status, _ in outcomes if status == 200}
            self.cluster.wait_for(lambda: len(set(versions(self.cluster, "bc"))) == 1)
            self.assertIn(versions(self.cluster, "b")[0], accepted)
        # One of them at least took each turn, and the other was told to try again.
        self.assertGreaterEqual(len(accepted), 4)
        self.assertLessEqual({(status, code) for _, status, code in outcomes}, {(200, None), (409, "ABORTED")})

    def test_asynchronous_invocations_outlive_the_node_that_accepted_them(self):
        self.cluster["a"].create_python("work", WITNESSED, tags=self.witness.tags)
        self.cluster["a"].invoke("work", {"id": "first"})
        owner = self.cluster.owner("work")
        accepted = {}
        for number in range(40):
            entry = "abc"[number % 3]
            run = f"run-{number}"
            reply = self.cluster[entry].invoke("work", {"id": run, "seconds": 0.2}, "Event")
            accepted[run] = reply.headers["x-amzn-requestid"]
        self.assertGreater(sum(self.witness.begun.values()), 1)
        self.lose(owner)
        survivors = [name for name in "abc" if name != owner]
        self.cluster.wait_for(lambda: all(self.witness.ended[run] > 0 for run in accepted), 90)
        # Each has one outcome, at whichever node it is asked for.
        self.cluster.wait_for_outcomes(survivors, accepted.values())
        # What had ended did not run again; what was under way may have, once.
        self.assertLessEqual(max(self.witness.begun.values()), 2)
        self.cluster[owner].start()
        self.cluster.wait_until_up()
        before = dict(self.witness.begun)
        time.sleep(2)
        self.assertEqual(dict(self.witness.begun), before)

    def test_a_repeat_joins_the_first_through_any_node(self):
        self.cluster["a"].create_python("work", WITNESSED, tags=self.witness.tags)
        key = {"amz-sdk-invocation-id": "6f1b1f0e-2f4e-4f6e-9d5a-000000000001"}
        ids = {self.cluster[name].invoke("work", {"id": "once"}, "Event", key).headers["x-amzn-requestid"] for name in "abcabc"}
        self.assertEqual(len(ids), 1)
        self.cluster.wait_for(lambda: self.witness.ended["once"] == 1)

    def test_without_postgresql_functions_run_and_changes_are_refused(self):
        deploy(self.cluster["b"], "echo")
        self.assertEqual(versions(self.cluster, "abc"), [1, 1, 1])
        for lose, mend in (("crash", "start"), ("freeze", "thaw")):
            self.postgres.do(lose)
            try:
                self.assertEqual(versions(self.cluster, "abc"), [1, 1, 1])
                self.assertEqual(outcome_of(deploy, self.cluster["c"], f"new-{lose}"), (503, "UNAVAILABLE"))
                self.assertEqual(outcome_of(self.cluster["a"].delete, "echo"), (503, "UNAVAILABLE"))
                self.assertEqual(outcome_of(self.cluster["b"].invoke, "echo", {}, "Event"), (503, "UNAVAILABLE"))
                if lose == "crash":
                    self.cluster["b"].kill()
                    self.cluster["b"].start()  # with what it knows
                    self.assertEqual(versions(self.cluster, "b"), [1])
            finally:
                self.postgres.do(mend)
            self.cluster.wait_for(lambda: outcome_of(deploy, self.cluster["c"], f"later-{lose}")[0] in (200, 409), 30)
            for name in "ab":  # once they have reached it too
                self.cluster.wait_for(lambda name=name: outcome_of(self.cluster[name].invoke, f"later-{lose}", {})[0] == 200, 30)
            self.assertEqual(versions(self.cluster, "ab", f"later-{lose}"), [1, 1])

    def test_results_that_were_made_without_postgresql_are_kept_once_it_is_back(self):
        self.cluster["a"].create_python("work", WITNESSED, tags=self.witness.tags)
        accepted = self.cluster["a"].invoke("work", {"id": "long", "seconds": 2}, "Event").headers["x-amzn-requestid"]
        self.cluster.wait_for(lambda: self.witness.begun["long"] == 1)
        self.postgres.do("crash")
        self.cluster.wait_for(lambda: self.witness.ended["long"] == 1)
        self.postgres.do("start")
        self.cluster.wait_for(lambda: outcome_of(self.cluster["c"].request, "GET", f"/v1/invocations/{accepted}")[0] == 200, 30)
        self.assertEqual(self.witness.begun["long"], 1)

    def test_a_tenant_that_one_node_makes_is_known_at_all(self):
        self.cluster["c"].request("POST", "/v1/tenants", json.dumps({"name": "team", "weight": 3}))
        for name in "ab":
            self.cluster.wait_for(lambda name=name: any(
                each["name"] == "team" and each["weight"] == 3
                for each in self.cluster[name].request("GET", "/v1/tenants").json["tenants"]))


class WithoutAWayToPostgresql(unittest.TestCase):
    """Node c has a way of its own to PostgreSQL, which the others reach."""

    def setUp(self):
        self.postgres, self.witness = Postgres(self), Witness(self)
        self.way = WayToPostgres(self, self.postgres)
        catalogs = {name: ("--catalog", self.way.url if name == "c" else self.postgres.url) for name in "abc"}
        self.cluster = Cluster(self, flags=("--mount-allow", str(self.witness.folder)), own_flags=catalogs)
        self.cluster.wait_until_up()
        self.cluster["a"].create_python("work", WITNESSED, tags=self.witness.tags)
        self.ask("c", "first")

    def ask(self, name, run, seconds=0):
        self.assertEqual(self.cluster[name].invoke("work", {"id": run, "seconds": seconds}).json, {"id": run})

    def reached(self):
        return "lambent_cluster_catalog_reached 1" in self.cluster["c"].metrics().splitlines()

    def check(self, lose):
        self.cluster.set_drained("ab", True)
        accepted = self.cluster["c"].invoke("work", {"id": "long", "seconds": 14}, "Event").headers["x-amzn-requestid"]
        self.cluster.wait_for(lambda: self.witness.begun["long"] == 1)
        lose()
        begin = time.monotonic()
        self.assertEqual(outcome_of(self.cluster["c"].invoke, "work", {"id": "none"}, "Event"), (503, "UNAVAILABLE"))
        self.assertLess(time.monotonic() - begin, 15)  # ten for an answer, and three for another connection
        self.ask("c", "alone")
        self.cluster.set_drained("ab", False)
        self.cluster.wait_for(lambda: not self.reached(), 30)
        self.assertIn(b"[-] shared_catalog: ", self.cluster["c"].request("GET", "/readyz").body)
        # Changes go to the first node, which has its way; this one's copy is of before.
        deploy(self.cluster["c"], "later")
        self.assertEqual(versions(self.cluster, "abc", "later"), [1, 1, 1])
        for name in "abc":
            self.ask(name, f"of-{name}")
        # No other takes over what it has while it answers: it ends there, and its outcome is kept later.
        self.cluster.wait_for(lambda: self.witness.ended["long"] == 1, 40)
        self.assertNotEqual(outcome_of(self.cluster["a"].request, "GET", f"/v1/invocations/{accepted}")[0], 404)
        self.way.mend()
        for name in "abc":
            self.cluster.wait_for(lambda name=name: self.cluster[name].request("GET", f"/v1/invocations/{accepted}").status == 200, 40)
        self.cluster.wait_for(self.reached, 30)
        self.assertEqual(outcome_of(self.cluster["c"].invoke, "work", {"id": "again"}, "Event"), (200, None))
        self.cluster.wait_for(lambda: self.witness.ended["again"] == 1)
        self.assertEqual((self.witness.begun["long"], self.witness.begun["none"]), (1, 0))

    def test_it_is_cut(self):
        self.check(self.way.cut)

    def test_it_carries_nothing(self):
        self.check(self.way.freeze)


class WhatANodeCannotRun(unittest.TestCase):
    """a, which takes it over, has no GPU."""

    def test_an_invocation_of_a_lost_node_waits_for_a_node_with_its_gpu(self):
        postgres, witness = Postgres(self), Witness(self)
        cluster = Cluster(self, gpu={"a": "none", "b": "emulated:v100-16gb", "c": "emulated:v100-16gb"},
                          flags=("--catalog", postgres.url, "--mount-allow", str(witness.folder)))
        cluster.wait_until_up()
        cluster["a"].create_python("work", WITNESSED, tags={**witness.tags, "lambent:gpu-memory": "4GiB"})
        knows = lambda node: "work" in [each["name"] for each in cluster[node].request("GET", "/v1/functions").json["functions"]]
        cluster.wait_for(lambda: knows("b") and knows("c"))
        cluster["c"].kill()
        cluster.wait_for(lambda: cluster.states("a")["c"] == "lost")
        accepted = cluster["a"].invoke("work", {"id": "long", "seconds": 4}, "Event").headers["x-amzn-requestid"]
        cluster.wait_for(lambda: witness.begun["long"] == 1)
        cluster["b"].kill()
        cluster.wait_for(lambda: cluster.states("a")["b"] == "lost")
        time.sleep(2)  # it looks each second what it can take over
        result = lambda node: cluster[node].request("GET", "/v1/invocations/" + accepted)
        self.assertEqual((result("a").status, result("a").json["state"]), (202, "pending"))
        cluster["c"].start()
        cluster.wait_for(lambda: result("c").status == 200, 40)
        self.assertEqual((result("a").json, witness.begun["long"]), ({"id": "long"}, 2))
        self.assertEqual(cluster.completed("work", "ac"), {"a": 0, "c": 1})

    def test_what_no_living_node_can_run_keeps_nothing_else_from_being_taken_over(self):
        postgres, witness = Postgres(self), Witness(self)
        cluster = Cluster(self, names="ab", gpu={"a": "none", "b": "emulated:v100-16gb"},
                          flags=("--catalog", postgres.url, "--mount-allow", str(witness.folder)))
        cluster.wait_until_up()
        cluster["a"].create_python("work", WITNESSED, timeout=60, tags={**witness.tags, "lambent:gpu-memory": "12GiB"})  # one at a time
        cluster["a"].create_python("plain", WITNESSED, tags=witness.tags)
        cluster.wait_for(lambda: {"work", "plain"} <= {each["name"] for each in cluster["b"].request("GET", "/v1/functions").json["functions"]})
        cluster.set_drained("a", True)
        # More than a node ever takes over at once, before what any node can run.
        waiting = 4400
        cluster["b"].invoke("work", {"id": "long", "seconds": 50}, "Event")
        cluster.wait_for(lambda: witness.begun["long"] == 1)
        numbers = iter(range(waiting))

        def submit():
            for number in numbers:
                cluster["b"].invoke("work", {"id": f"w{number}"}, "Event")
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            for each in [threads.submit(submit) for _ in range(8)]:
                each.result()
        accepted = [cluster["b"].invoke("plain", {"id": f"p{number}", "seconds": 1}, "Event") for number in range(30)]
        last = accepted[-1].headers["x-amzn-requestid"]
        had_begun = set(witness.begun)
        cluster["b"].kill()
        result = lambda: cluster["a"].request("GET", "/v1/invocations/" + last).status
        cluster.wait_for(lambda: result() == 200, 60)
        counted = postgres.query("SELECT function, count(*) FROM shared_invocations WHERE state <> 'done' GROUP BY function")
        self.assertGreaterEqual(int(dict(row.split("|") for row in counted)["work"]), waiting - len(had_begun))
        # With the GPU it is taken over, the one that has begun first.
        cluster["b"].start()
        cluster.wait_for(lambda: "asynchronous_invocations_taken_over" in cluster["b"].log(), 30)
        cluster.wait_for(lambda: witness.begun["long"] == 2, 30)


class LookupsWithoutPostgresql(unittest.TestCase):
    def test_the_node_that_is_asked_says_so_and_asks_no_other(self):
        postgres = Postgres(self)
        folder = tempfile.mkdtemp(prefix="lambent-access-")
        self.addCleanup(shutil.rmtree, folder, True)
        logs = {name: pathlib.Path(folder) / name for name in "abc"}
        cluster = Cluster(self, flags=("--catalog", postgres.url), own_flags={name: ("--access-log", str(logs[name])) for name in "abc"})
        cluster.wait_until_up()
        deploy(cluster["a"], "echo")
        paths = [f"/v1/invocations/{cluster['a'].invoke('echo', {}, 'Event').headers['x-amzn-requestid']}" for _ in range(2)]

        def asked(path):
            return {name for name in "abc" if path in logs[name].read_text()}
        cluster.wait_for(lambda: outcome_of(cluster["a"].request, "GET", paths[0])[0] == 200)
        postgres.do("crash")
        self.assertEqual(outcome_of(cluster["a"].request, "GET", paths[1])[0], 503)
        cluster.wait_for(lambda: "a" in asked(paths[1]))
        self.assertEqual(asked(paths[1]), {"a"})


if __name__ == "__main__":
    unittest.main()
