"""Versions and aliases of functions in a cluster: what one node publishes or changes is seen and run by all, and changes through two
nodes in one moment settle without loss."""
import base64
import json
import threading
import time
import unittest

from cluster_world import Postgres
from harness import HttpError, make_zip
from test_cluster import ECHO, Cluster, deploy

FUNCTIONS = "/2015-03-31/functions"


def code(number):
    return make_zip({"app.py": ECHO.replace("VERSION", str(number))})


def change_code(node, number, function="echo"):
    body = json.dumps({"ZipFile": base64.b64encode(code(number)).decode()})
    return node.request("PUT", f"{FUNCTIONS}/{function}/code", body)


def publish(node, function="echo"):
    return node.request("POST", f"{FUNCTIONS}/{function}/versions", "{}").json["Version"]


def alias_body(version, second=None, share=0.5, **more):
    routing = {"AdditionalVersionWeights": {second: share}} if second else {}
    return json.dumps({"FunctionVersion": version, "RoutingConfig": routing, **more})


def create_alias(node, name, version, **more):
    return node.request("POST", f"{FUNCTIONS}/echo/aliases", alias_body(version, Name=name, **more)).json


def update_alias(node, name, version, **more):
    return node.request("PUT", f"{FUNCTIONS}/echo/aliases/{name}", alias_body(version, **more)).json


def outcome_of(call, *arguments, **options):
    """The answer, or the status and Lambent's code of a refusal."""
    try:
        return call(*arguments, **options)
    except HttpError as error:
        return error.status, error.headers.get("x-lambent-code")


class OfCluster:
    """What the tests of both kinds of cluster do."""

    def ran(self, name, qualifier):
        return self.cluster[name].invoke(f"echo%3A{qualifier}", {}).json["version"]

    def lose(self, name):
        self.cluster[name].kill()
        for each in "abc":
            if each != name:
                self.cluster.wait_for(lambda each=each: self.cluster.states(each)[name] == "lost")

    def wait_for_version(self, qualifier, number, names="abc"):
        for name in names:
            self.cluster.wait_for(lambda name=name: outcome_of(self.ran, name, qualifier) == number, 30)

    def aliases(self, name):
        return {each["Name"]: each for each in self.cluster[name].request("GET", f"{FUNCTIONS}/echo/aliases").json["Aliases"]}

    def begin(self):
        """Versions 1 and 2, and the alias prod of the first."""
        deploy(self.cluster["b"], "echo", version=11)
        self.assertEqual(publish(self.cluster["b"]), "1")
        change_code(self.cluster["c"], 22)
        self.assertEqual(publish(self.cluster["a"]), "2")
        create_alias(self.cluster["c"], "prod", "1")


class WithAHome(OfCluster, unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(self)
        self.cluster.wait_until_up()

    def test_versions_and_aliases_run_on_every_node_and_without_the_home(self):
        self.begin()
        self.wait_for_version("1", 11)
        self.wait_for_version("2", 22)
        self.wait_for_version("prod", 11)
        update_alias(self.cluster["b"], "prod", "2")
        self.wait_for_version("prod", 22)
        with self.assertRaises(HttpError) as caught:
            self.ran("b", "9")
        self.assertEqual(caught.exception.status, 404)
        self.assertIn(b"it has $LATEST, 1, 2, prod", caught.exception.body)
        time.sleep(2.5)  # each node looks once a second
        self.lose("a")
        for name in "bc":
            self.assertEqual([self.ran(name, each) for each in ("1", "2", "prod")], [11, 22, 22])
            # Only the home takes changes.
            self.assertEqual(outcome_of(publish, self.cluster[name]), (503, "UNAVAILABLE"))

    def test_shares_hold_on_every_node(self):
        self.begin()
        update_alias(self.cluster["a"], "prod", "1", second="2")
        self.cluster.wait_for(lambda: all(self.aliases(name)["prod"].get("RoutingConfig") for name in "abc"))
        self.wait_for_version("1", 11)
        self.wait_for_version("2", 22)
        self.lose("a")
        ran = [self.ran(name, "prod") for name in "bc" for _ in range(40)]
        self.assertGreater(min(ran.count(11), ran.count(22)), 8)

    def test_what_is_removed_goes_everywhere(self):
        self.begin()
        self.wait_for_version("prod", 11)
        # Only where it is not needed.
        self.assertEqual(outcome_of(self.cluster["b"].request, "DELETE", f"{FUNCTIONS}/echo?Qualifier=1")[0], 409)
        self.cluster["b"].request("DELETE", f"{FUNCTIONS}/echo/aliases/prod")
        self.cluster["c"].request("DELETE", f"{FUNCTIONS}/echo?Qualifier=1")
        removed = [(name, qualifier) for name in "bc" for qualifier in ("prod", "1")]
        self.cluster.wait_for(lambda: all(isinstance(outcome_of(self.ran, *each), tuple) for each in removed))
        self.lose("a")
        for each in removed:
            self.assertIsInstance(outcome_of(self.ran, *each), tuple, each)
        self.assertEqual(self.ran("b", "2"), 22)


class WithASharedCatalog(OfCluster, unittest.TestCase):
    def setUp(self):
        self.postgres = Postgres(self)
        self.cluster = Cluster(self, flags=("--catalog", self.postgres.url))
        self.cluster.wait_until_up()
        self.cluster.wait_for(self.brought, 30)

    def brought(self):
        return self.postgres.query("SELECT brought FROM shared_versions_brought") == ["1"]

    def test_versions_are_published_and_aliases_changed_without_the_first_node(self):
        self.begin()
        self.wait_for_version("prod", 11)
        self.lose("a")
        change_code(self.cluster["b"], 33)
        self.assertEqual(publish(self.cluster["b"]), "3")
        self.wait_for_version("3", 33, "bc")
        update_alias(self.cluster["c"], "prod", "3")
        self.wait_for_version("prod", 33, "bc")
        # Back to what was deployed before, through another node.
        self.cluster["c"].request("POST", "/v1/functions/echo/rollback", "{}")
        self.cluster.wait_for(lambda: [self.cluster[name].invoke("echo", {}).json["version"] for name in "bc"] == [22, 22])
        self.cluster["a"].start()
        self.cluster.wait_until_up()
        self.wait_for_version("prod", 33)
        self.wait_for_version("3", 33)
        self.assertEqual(self.cluster["a"].invoke("echo", {}).json["version"], 22)
        # A number is used once, whichever node gives it.
        self.cluster["b"].request("DELETE", f"{FUNCTIONS}/echo?Qualifier=2")
        self.assertEqual(publish(self.cluster["a"]), "4")

    def test_changes_of_one_alias_through_two_nodes_in_one_moment_leave_one(self):
        self.begin()
        self.wait_for_version("2", 22)
        self.lose("a")  # which would take them one after the other
        self.cluster.wait_for(lambda: all("prod" in self.aliases(name) for name in "bc"))
        for turn in range(4):
            outcomes = {}

            def change(name, version):
                outcomes[version] = outcome_of(update_alias, self.cluster[name], "prod", version, Description=f"{turn}{version}")

            threads = [threading.Thread(target=change, args=each) for each in (("b", "1"), ("c", "2"))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            taken = {version for version, outcome in outcomes.items() if isinstance(outcome, dict)}
            self.assertTrue(taken, outcomes)
            refused = [outcome for outcome in outcomes.values() if not isinstance(outcome, dict)]
            self.assertLessEqual({each[1] for each in refused}, {"ABORTED"})
            self.cluster.wait_for(lambda: self.aliases("b") == self.aliases("c"))
            # Of both that were taken the later one holds.
            self.assertIn(self.aliases("b")["prod"]["FunctionVersion"], taken)

    def test_versions_that_two_nodes_publish_in_one_moment_are_both_kept(self):
        self.begin()
        self.wait_for_version("2", 22)
        self.lose("a")
        made = {}

        def make(name, number):
            if not isinstance(outcome_of(change_code, self.cluster[name], number), tuple):
                made[number] = outcome_of(publish, self.cluster[name])

        for turn in range(3):
            threads = [threading.Thread(target=make, args=each) for each in (("b", 100 + turn), ("c", 200 + turn))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        published = {number: version for number, version in made.items() if isinstance(version, str)}
        self.assertTrue(published, made)
        refused = [outcome for outcome in made.values() if not isinstance(outcome, str)]
        self.assertLessEqual({each[1] for each in refused}, {"ABORTED"})
        # Each number is what was published under it, on both nodes: nothing was put over another.
        for version in published.values():
            self.wait_for_version(version, self.ran("b", version), "bc")
            self.assertIn(self.ran("b", version), made)

    def test_a_version_that_an_alias_of_another_node_needs_stays(self):
        self.begin()
        self.wait_for_version("2", 22)
        self.lose("a")
        create_alias(self.cluster["b"], "next", "2")
        outcome = outcome_of(self.cluster["c"].request, "DELETE", f"{FUNCTIONS}/echo?Qualifier=2")
        self.assertEqual(outcome[0], 409)
        self.wait_for_version("next", 22, "bc")

    def test_a_cluster_whose_first_node_alone_had_versions_is_upgraded(self):
        self.begin()
        self.wait_for_version("prod", 11)
        for name in "abc":
            self.cluster[name].kill()
        # As a program left it that did not know of shared versions.
        for change in ("DELETE FROM shared_functions WHERE name LIKE '%:%'", "DELETE FROM shared_version_numbers",
                       "UPDATE shared_versions_brought SET brought = 0", "UPDATE shared_version SET version = version + 1"):
            self.postgres.query(change)
        for name in "bc":
            self.cluster[name].start()
        self.cluster.wait_until_up("bc")
        # Their numbers could be those of versions that the first node has.
        change_code(self.cluster["b"], 30)
        self.assertEqual(outcome_of(publish, self.cluster["b"]), (503, "UNAVAILABLE"))
        self.cluster["a"].start()
        self.cluster.wait_until_up()
        self.wait_for_version("prod", 11)
        self.wait_for_version("2", 22)
        change_code(self.cluster["c"], 33)
        self.assertEqual(publish(self.cluster["c"]), "3")
        self.wait_for_version("3", 33)


if __name__ == "__main__":
    unittest.main()
