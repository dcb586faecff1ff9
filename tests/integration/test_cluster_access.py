"""Who may use a cluster whose nodes share a catalog in PostgreSQL: tenants, tokens and secrets that one node makes are those of all, also
of one that starts without PostgreSQL; nothing of a secret lies there in the clear, and a node with another key is refused."""
import json
import pathlib
import subprocess
import tempfile
import unittest

from cluster_world import Postgres
from harness import PREFIX, HttpError
from tenants import Caller, Operator
from test_cluster import Cluster

VALUE = "correct horse battery staple"
SHOW = """
import os
def handler(event, context):
    return os.environ["PASSWORD"]
"""


class TokenCluster(Cluster):
    """Three nodes that want tokens, and their operators."""

    def __init__(self, test, postgres, policy="random"):
        super().__init__(test, flags=("--auth", "tokens", "--catalog", postgres.url), policy=policy)
        self.operators = {name: Operator(self[name], self.folder / f"{name}.sock") for name in self.nodes}
        self.wait_until_up()

    def status(self, name):
        return self.operators[name].request("GET", "/v1/cluster").json

    def known(self, name):
        return {tenant["name"] for tenant in self.operators[name].request("GET", "/v1/tenants").json["tenants"]}

    def answers(self, name, secret):
        """The status for one who sends this token."""
        return Caller(self[name], secret).status_of("GET", "/v1/functions")[0]


def code_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
        return None
    except HttpError as error:
        return error.headers.get("x-lambent-code") or error.json["error"]["code"]


class AccessOfACluster(unittest.TestCase):
    def setUp(self):
        self.postgres = Postgres(self)
        self.cluster = TokenCluster(self, self.postgres)
        self.operators = self.cluster.operators

    def test_a_token_of_one_node_is_one_of_all_until_any_revokes_it(self):
        self.operators["c"].create_tenant("team")
        token = self.operators["c"].create_token("team")
        self.assertEqual(self.cluster.answers("c", token["secret"]), 200)
        for name in "ab":
            self.cluster.wait_for(lambda name=name: self.cluster.answers(name, token["secret"]) == 200)
            listed = self.operators[name].request("GET", "/v1/tenants/team/tokens").json["tokens"]
            self.assertEqual([each["id"] for each in listed], [token["id"]])
        self.operators["b"].request("DELETE", f"/v1/tenants/team/tokens/{token['id']}")
        self.assertEqual(self.cluster.answers("b", token["secret"]), 401)
        for name in "ac":
            self.cluster.wait_for(lambda name=name: self.cluster.answers(name, token["secret"]) == 401)
        # A tenant goes from all as well, and its tokens with it.
        last = self.operators["a"].create_token("team")
        self.cluster.wait_for(lambda: self.cluster.answers("b", last["secret"]) == 200)
        self.operators["c"].request("DELETE", "/v1/tenants/team")
        for name in "abc":
            self.cluster.wait_for(lambda name=name: "team" not in self.cluster.known(name))
            self.assertEqual(self.cluster.answers(name, last["secret"]), 401)

    def test_without_postgresql_tokens_are_as_they_were_and_can_be_revoked(self):
        first, second = (self.operators["a"].create_token("default")["secret"] for _ in range(2))
        ids = {each["id"] for each in self.operators["a"].request("GET", "/v1/tenants/default/tokens").json["tokens"]}
        gone = next(each for each in ids if each in first)
        for name in "bc":
            self.cluster.wait_for(lambda name=name: self.cluster.answers(name, second) == 200)
        self.postgres.do("crash")
        self.cluster["b"].kill()
        self.cluster["b"].start()
        self.assertEqual([self.cluster.answers("b", token) for token in (first, second)], [200, 200])
        self.assertEqual(code_of(self.operators["a"].create_token, "default"), "UNAVAILABLE")
        self.assertEqual(code_of(self.operators["a"].request, "DELETE", f"/v1/tenants/default/tokens/{gone}"), "UNAVAILABLE")
        self.assertEqual(self.cluster.answers("a", first), 401)
        for name in "bc":  # a tells them
            self.cluster.wait_for(lambda name=name: self.cluster.answers(name, first) == 401)
        self.postgres.do("start")
        self.cluster.wait_for(lambda: self.postgres.query("SELECT count(*) FROM shared_tokens") == ["1"], 30)
        for name in "bc":
            self.cluster.wait_for(lambda name=name: self.cluster.answers(name, first) == 401, 30)
        self.assertEqual([self.cluster.answers(name, second) for name in "abc"], [200, 200, 200])

    def test_a_secret_of_one_node_is_given_to_functions_on_all(self):
        team = self.operators["a"]
        team.request("PUT", "/v1/secrets/pw", VALUE)
        self.operators["c"].create_python("show", SHOW, environment={"PASSWORD": "${secret:pw}"})

        def everywhere(value):
            """Whether each node runs it, and gives this."""
            before = completed()
            for turn in range(12):
                if self.operators["abc"[turn % 3]].invoke("show").json != value:
                    return False
            after = completed()
            return all(after[name] > before[name] for name in "abc")

        def completed():
            counts = {}
            for name in "abc":
                listed = self.operators[name].request("GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"]
                counts[name] = sum(each["completed"] for each in listed if each["name"] == "show")
            return counts
        self.cluster.wait_for(lambda: everywhere(VALUE), 60)
        self.operators["b"].request("PUT", "/v1/secrets/pw", "another")
        self.cluster.wait_for(lambda: everywhere("another"), 60)
        # It is in use, at whichever node it is asked for.
        self.assertEqual(code_of(self.operators["c"].request, "DELETE", "/v1/secrets/pw"), "FAILED_PRECONDITION")
        # At rest: by name, and sealed.
        self.assertEqual(self.postgres.query("SELECT tenant, name FROM shared_secrets"), ["default|pw"])
        self.postgres.do("stop")
        files = [path.read_bytes() for path in pathlib.Path(self.postgres.folder, "data").rglob("*") if path.is_file()]
        self.assertTrue(any(b"PASSWORD" in each for each in files))  # the function's environment
        self.assertFalse(any(VALUE.encode() in each for each in files))
        # A node that starts without PostgreSQL has what it had.
        self.cluster["b"].kill()
        self.cluster["b"].start()
        self.cluster.wait_for(lambda: self.cluster.states("b")["b"] == "up")
        self.cluster.wait_for(lambda: everywhere("another"), 60)
        self.postgres.do("start")
        self.cluster.wait_for(lambda: code_of(self.operators["b"].delete, "show") is None, 30)
        self.cluster.wait_for(lambda: code_of(self.operators["c"].request, "DELETE", "/v1/secrets/pw") is None, 30)
        for name in "abc":
            self.cluster.wait_for(lambda name=name: self.operators[name].request("GET", "/v1/secrets").json["secrets"] == [])

    def test_a_node_with_another_key_does_not_start_and_says_what_to_do(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.folder))
        (folder / "key").write_text("x" * 40)
        done = subprocess.run([PREFIX / "bin/lambent-worker", "--listen", "127.0.0.1:0", "--state", folder / "state", "--run", folder / "run",
                               "--gpu", "none", "--node-name", "d", "--cluster-key", folder / "key", "--catalog", self.postgres.url],
                              capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("start it with the same file as the other nodes", done.stderr)


if __name__ == "__main__":
    unittest.main()
