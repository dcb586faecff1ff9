"""Revisions of functions in a cluster that shares a catalog: their numbers, the list of them and the way back are the same asked of any
node, also of one that was not there when they were deployed, and after the node that deployed them is lost."""
import json
import threading
import unittest

from cluster_world import Postgres
from harness import HttpError
from test_cluster import Cluster, deploy
from test_cluster_versions import FUNCTIONS, change_code, outcome_of


class RevisionsOfACluster(unittest.TestCase):
    def setUp(self):
        self.postgres = Postgres(self)
        self.cluster = Cluster(self, flags=("--catalog", self.postgres.url))
        self.cluster.wait_until_up()

    def revisions(self, name):
        return self.cluster[name].request("GET", "/v1/functions/echo/revisions").json["revisions"]

    def described(self, name):
        told = self.cluster[name].request("GET", f"{FUNCTIONS}/echo").json["Configuration"]
        return told["RevisionId"], told["LastModified"], told["CodeSha256"], told["MemorySize"]

    def roll_back(self, name, revision=None):
        query = f"?revision={revision}" if revision else ""
        return self.cluster[name].request("POST", f"/v1/functions/echo/rollback{query}", "{}").json

    def runs(self, name):
        """Of that node's own, or of one that it asks."""
        return outcome_of(lambda: self.cluster[name].invoke("echo", {}).json["version"])

    def lose(self, name):
        self.cluster[name].kill()
        for each in "abc":
            if each != name and self.cluster[each].process.poll() is None:
                self.cluster.wait_for(lambda each=each: self.cluster.states(each)[name] == "lost")

    def same(self, names, count):
        def told_by_all():
            return [(self.revisions(name), self.described(name)) for name in names]

        def is_same(told):
            return all(len(each[0]) == count and each == told[0] for each in told)
        self.cluster.wait_for(lambda: is_same(told_by_all()), 30)
        told = told_by_all()
        for each in told:
            self.assertEqual(each, told[0])
        return told[0][0]

    def test_they_are_the_same_at_any_node_also_without_the_one_that_deployed(self):
        deploy(self.cluster["a"], "echo", version=1)
        self.cluster["c"].kill()
        change_code(self.cluster["a"], 2)
        self.cluster["b"].request("PUT", f"{FUNCTIONS}/echo/configuration", json.dumps({"MemorySize": 192}))
        change_code(self.cluster["a"], 3)
        self.cluster["c"].start()
        self.cluster.wait_until_up()
        self.cluster.wait_for(lambda: self.runs("c") == 3)
        self.lose("a")
        listed = self.same("bc", 4)
        self.assertEqual([each["revision"] for each in listed], [4, 3, 2, 1])
        self.assertEqual([each["current"] for each in listed], [True, False, False, False])
        self.assertEqual(len({each["code_sha256"] for each in listed}), 3)
        self.assertTrue(all(each["code_bytes"] > 0 for each in listed))
        self.lose("b")
        # To code that this node never had.
        self.assertEqual(self.roll_back("c", 2)["revision"], 5)
        self.assertEqual(self.runs("c"), 2)
        for name in "ab":
            self.cluster[name].start()
        self.cluster.wait_until_up()
        self.cluster.wait_for(lambda: [self.runs(name) for name in "abc"] == [2, 2, 2], 30)
        self.assertEqual(self.same("abc", 5)[0]["revision"], 5)
        self.lose("a")
        self.same("bc", 5)
        self.roll_back("b")  # the one before
        self.cluster.wait_for(lambda: [self.runs(name) for name in "bc"] == [3, 3], 30)
        with self.assertRaises(HttpError) as caught:
            self.roll_back("c", 99)
        self.assertEqual(caught.exception.status, 404)
        self.assertIn(b"kept are 1, 2, 3, 4, 5, 6", caught.exception.body)

    def test_one_that_was_away_while_it_was_changed_and_changed_back_has_its_number(self):
        deploy(self.cluster["a"], "echo", version=1)
        self.cluster.wait_for(lambda: [self.runs(name) for name in "bc"] == [1, 1])
        self.cluster["c"].kill()
        change_code(self.cluster["a"], 2)
        self.assertEqual(self.roll_back("a")["revision"], 3)
        described = self.described("a")
        self.cluster["c"].start()
        self.cluster.wait_until_up()
        for name in "ab":
            self.lose(name)
        listed = self.same("c", 3)
        self.assertEqual([each["current"] for each in listed], [True, False, False])
        self.cluster.wait_for(lambda: self.described("c") == described, 30)
        self.assertEqual(self.roll_back("c")["revision"], 4)
        self.assertEqual(self.runs("c"), 2)

    def test_an_update_that_changes_nothing_has_no_number(self):
        deploy(self.cluster["a"], "echo", version=1)
        self.cluster.wait_for(lambda: [self.runs(name) for name in "bc"] == [1, 1])
        self.lose("a")
        for _ in range(2):
            change_code(self.cluster["b"], 2)
            self.cluster["b"].request("PUT", f"{FUNCTIONS}/echo/configuration", json.dumps({"MemorySize": 192}))
        self.assertEqual(self.same("bc", 3)[0]["revision"], 3)
        again = json.dumps({"MemorySize": 192, "Description": ""})
        self.assertEqual(self.cluster["b"].request("PUT", f"{FUNCTIONS}/echo/configuration", again).json["MemorySize"], 192)
        change_code(self.cluster["b"], 3)
        self.assertEqual(self.same("bc", 4)[0]["revision"], 4)

    def test_of_those_that_two_nodes_deploy_at_once_each_has_its_number(self):
        deploy(self.cluster["a"], "echo", version=1)
        for name in "bc":
            self.cluster.wait_for(lambda name=name: self.runs(name) == 1)
        self.lose("a")
        taken = []

        def change(name, number):
            if not isinstance(outcome_of(change_code, self.cluster[name], number), tuple):
                taken.append(number)
        for turn in range(3):
            threads = [threading.Thread(target=change, args=each) for each in (("b", 10 + turn), ("c", 20 + turn))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.same("bc", 1 + len(taken))
        listed = self.same("bc", 1 + len(taken))
        self.assertEqual([each["revision"] for each in listed], list(range(1 + len(taken), 0, -1)))

    def test_without_postgresql_they_are_listed_and_nothing_is_rolled_back(self):
        deploy(self.cluster["a"], "echo", version=1)
        change_code(self.cluster["a"], 2)
        self.cluster.wait_for(lambda: self.runs("b") == 2)
        self.postgres.do("stop")
        self.assertEqual([each["revision"] for each in self.revisions("a")], [2, 1])
        self.assertEqual(outcome_of(self.roll_back, "a", 1)[0], 503)
        self.postgres.do("start")
        self.cluster.wait_for(lambda: isinstance(outcome_of(self.roll_back, "a", 1), dict), 30)
        self.cluster.wait_for(lambda: [self.runs(name) for name in "abc"] == [1, 1, 1], 30)
        self.assertEqual([each["revision"] for each in self.same("abc", 3)], [3, 2, 1])

    def test_one_that_is_removed_leaves_none_and_its_numbers_are_not_used_again(self):
        deploy(self.cluster["a"], "echo", version=1)
        change_code(self.cluster["a"], 2)
        self.cluster.wait_for(lambda: self.runs("c") == 2)
        self.cluster["c"].kill()  # which misses that it was removed
        self.cluster["a"].delete("echo")
        deploy(self.cluster["a"], "echo", version=3)
        self.cluster["c"].start()
        self.cluster.wait_until_up()
        self.cluster.wait_for(lambda: self.runs("c") == 3)
        self.lose("a")
        self.cluster.wait_for(lambda: self.described("b") == self.described("c"), 30)
        self.assertEqual([each["revision"] for each in self.same("bc", 1)], [3])


if __name__ == "__main__":
    unittest.main()
