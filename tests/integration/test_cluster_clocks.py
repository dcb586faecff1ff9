"""Nodes whose clocks are a quarter of an hour apart, and one whose clock is set while it works: what goes by the clock of one node, and
what goes by no clock at all. Their clocks are set by a library that is preloaded into them (tests/soak/wall_clock_step.c)."""
import email.utils
import json
import pathlib
import shutil
import tempfile
import time
import unittest

from cluster_world import WITNESSED, Postgres, Witness
from harness import PREFIX, HttpError, WallClock
from tenants import Caller, Operator
from test_cluster import ECHO, Cluster
from test_cluster_logs import LOG, TALKER, Follower

APART = 900
FAILS = WITNESSED.replace('return {"id": event["id"]}', 'raise ValueError("told to")')
STEPS = {"a": 0, "b": APART, "c": -APART}


class ClocksApart(unittest.TestCase):
    def start(self, flags=(), policy="random", steps=STEPS):
        if not (PREFIX / "tests/wall_clock_step.so").exists():
            self.skipTest("tests/wall_clock_step.so is not built: ./dev build release wall_clock_step")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-clocks-"))
        self.addCleanup(shutil.rmtree, folder, True)
        self.clocks = {name: WallClock(folder / name) for name in steps}
        for name, step in steps.items():
            self.clocks[name].step(step)
        self.cluster = Cluster(self, flags=flags, policy=policy, clocks=self.clocks)
        if "--auth" not in flags:
            self.cluster.wait_until_up()
        # Else the rest would show nothing.
        for name, step in steps.items():
            self.assertAlmostEqual(self.ahead(name), step, delta=10)

    def ahead(self, name):
        """By the date of an answer."""
        told = self.cluster[name].request("GET", "/livez").headers["date"]
        return email.utils.parsedate_to_datetime(told).timestamp() - time.time()

    def test_calls_run_once_and_end_by_their_own_time_out_on_any_node(self):
        self.start()
        self.cluster["a"].create_python("echo", ECHO.replace("VERSION", "1"), timeout=2)
        for turn in range(30):
            self.assertEqual(self.cluster["abc"[turn % 3]].invoke("echo", {"n": turn}).json["event"], {"n": turn})
        counts = self.cluster.completed("echo")
        self.assertEqual(sum(counts.values()), 30)
        self.assertGreater(min(counts.values()), 0)
        for name in "abc":
            began = time.monotonic()
            reply = self.cluster[name].invoke("echo", {"seconds": 30})
            self.assertEqual(reply.json["errorType"], "Sandbox.Timeout")
            self.assertTrue(1.9 < time.monotonic() - began < 20)
        # A change that is made at one is the newest everywhere, whatever its node's clock says.
        for version, name in ((2, "b"), (3, "c"), (4, "a")):
            self.cluster[name].delete("echo")
            self.cluster[name].create_python("echo", ECHO.replace("VERSION", str(version)))
            for each in "abc":
                self.cluster.wait_for(lambda each=each, version=version: self.version_at(each) == version)

    def version_at(self, name):
        try:
            return self.cluster[name].invoke("echo", {}).json["version"]
        except HttpError as error:
            return error.status

    def test_members_stay_up_while_a_clock_is_set(self):
        self.start()
        self.cluster["a"].create_python("echo", ECHO.replace("VERSION", "1"))
        listed = {"source": "test", "home": "a", "lease_seconds": 3,
                  "members": [{"node": name, "address": address} for name, address in self.cluster.addresses.items()]}
        for step in (6 * 3600, -6 * 3600, APART):
            for name in "abc":
                self.cluster[name].request("PUT", "/v1/cluster/members", json.dumps(listed))
            self.clocks["b"].step(step)
            end = time.monotonic() + 2
            while time.monotonic() < end:
                for name in "abc":
                    self.assertEqual(self.cluster.states(name), {each: "up" for each in "abc"})
                    self.assertEqual(self.cluster[name].invoke("echo", {"n": name}).json["event"], {"n": name})

    def test_each_nodes_log_lines_stay_in_order_and_a_follower_gets_all_at_once(self):
        self.start()
        self.cluster["a"].create_python("talk", TALKER)
        for number in range(30):
            self.cluster["abc"[number % 3]].invoke("talk", {"number": number})

        def lines():
            text = self.cluster["c"].request("GET", LOG).body.decode()
            return [(line[0], int(line.split()[-1])) for line in text.splitlines() if " said " in line]
        self.cluster.wait_for(lambda: len(lines()) == 30)
        found = lines()
        self.assertEqual(sorted(number for _, number in found), list(range(30)))
        for node in "abc":
            own = [number for name, number in found if name == node]
            self.assertEqual(own, sorted(own))
        # Between nodes their clocks count: what the last one printed comes first.
        self.assertEqual([name for name, _ in found], sorted((name for name, _ in found), key="cab".index))
        follower = Follower(self, self.cluster["b"])
        self.cluster.wait_for(lambda: follower.text.count("said") == 30)
        for number in range(30, 42):
            self.cluster["abc"[number % 3]].invoke("talk", {"number": number})
        self.cluster.wait_for(lambda: follower.text.count("said") == 42, 10)

    def test_a_token_ends_by_the_clock_of_the_node_that_is_asked(self):
        self.start(flags=("--auth", "tokens", "--catalog", Postgres(self).url))
        operators = {name: Operator(self.cluster[name], self.cluster.folder / f"{name}.sock") for name in "abc"}

        def up(name):
            return all(member["state"] == "up" for member in operators[name].request("GET", "/v1/cluster").json["members"])
        end = time.monotonic() + 30
        while not all(up(name) for name in "abc"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        short = operators["a"].create_token("default", lifetime=APART // 3)["secret"]
        long = operators["a"].create_token("default", lifetime=3 * APART)["secret"]

        def status(name, secret):
            return Caller(self.cluster[name], secret).status_of("GET", "/v1/functions")[0]
        while not all(status(name, long) == 200 for name in "abc"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertEqual([status(name, short) for name in "abc"], [200, 401, 200])
        # A node that passes a request on has let it pass, by its own clock; the other asks no more.
        Caller(self.cluster["a"], short).create_python("echo", ECHO.replace("VERSION", "1"))
        for number in range(20):
            self.assertEqual(Caller(self.cluster["c"], short).invoke("echo", {"n": number}).json["event"], {"n": number})

    def test_asynchronous_calls_of_a_node_that_is_lost_run_once_elsewhere(self):
        postgres, witness = Postgres(self), Witness(self)
        self.start(flags=("--catalog", postgres.url, "--mount-allow", str(witness.folder)), policy="bounded-hash")
        self.cluster["a"].create_python("work", WITNESSED, tags={**witness.tags, "lambent:max-concurrency": "1"})
        accepted = {}
        for name in "abc":
            for number in range(3):
                run = f"{name}{number}"
                accepted[run] = self.cluster[name].invoke("work", {"id": run, "seconds": 0.1}, "Event").headers["x-amzn-requestid"]
        self.cluster["b"].kill()
        rest = "ac"
        for name in rest:
            self.cluster.wait_for(lambda name=name: self.cluster.states(name)["b"] == "lost")
        for run, invocation in accepted.items():
            for name in rest:
                self.cluster.wait_for(lambda name=name, invocation=invocation: self.outcome(name, invocation) == "succeeded", 40)
            self.assertGreaterEqual(witness.ended[run], 1)
            # Again only what was under way at the node that was lost.
            self.assertLessEqual(witness.begun[run], 2)
        self.assertLessEqual(sum(witness.begun.values()), len(accepted) + 1)

    def test_what_failed_is_tried_again_when_it_is_due_also_by_another_node(self):
        delay = 20
        postgres, witness = Postgres(self), Witness(self)
        self.start(flags=("--catalog", postgres.url, "--mount-allow", str(witness.folder), "--async-retry-delay", str(delay)))
        self.cluster["a"].create_python("work", FAILS, tags={**witness.tags, "lambent:async-retries": "1"})
        owners, submitted = {}, {}
        while set(owners.values()) != set("abc"):
            run = f"run{len(submitted)}"
            invocation = self.cluster["a"].invoke("work", {"id": run}, "Event").headers["x-amzn-requestid"]
            submitted[run] = time.monotonic()
            hexadecimal = invocation.replace("-", "")
            owners[run] = postgres.query(f"SELECT owner FROM shared_invocations WHERE encode(id, 'hex') = '{hexadecimal}'")[0]
        self.cluster.wait_for(lambda: postgres.query("SELECT count(*) FROM shared_invocations WHERE due_at_ns <> 0") == [str(len(owners))])
        for name in "bc":
            self.cluster[name].kill()
        self.assertLess(time.monotonic() - max(submitted.values()), delay / 2)
        for run, owner in owners.items():
            self.cluster.wait_for(lambda run=run: witness.begun[run] == 2, delay + 15)
        for run, owner in owners.items():
            self.assertGreater(witness.times[run][1] - submitted[run], delay - 2, f"it was {owner}'s")

    def test_results_are_kept_their_time_whatever_a_nodes_clock_says(self):
        self.start(flags=("--catalog", Postgres(self).url), steps={"a": 0, "b": 25 * 3600, "c": -25 * 3600})
        self.cluster["a"].create_python("echo", ECHO.replace("VERSION", "1"))
        accepted = [self.cluster["a"].invoke("echo", {"n": number}, "Event").headers["x-amzn-requestid"] for number in range(12)]
        for invocation in accepted:
            self.cluster.wait_for(lambda invocation=invocation: self.outcome("a", invocation) == "succeeded")
        self.assertEqual(min(self.cluster.completed("echo").values()) > 0, True)
        time.sleep(11)  # each node looks every five seconds for those whose time is over
        self.assertEqual({self.outcome(name, invocation) for invocation in accepted for name in "abc"}, {"succeeded"})

    def test_schedules_go_by_the_clock_of_the_catalog(self):
        postgres, witness = Postgres(self), Witness(self)
        self.start(flags=("--catalog", postgres.url, "--mount-allow", str(witness.folder)), steps={"a": 870, "b": 0, "c": 0})
        schedule = json.dumps([{"name": "each", "cron": "* * * * *", "payload": json.dumps({"id": "tick"})}])
        while time.time() % 60 > 35:
            time.sleep(0.5)  # so that a minute is full at a's clock before it is
        self.cluster["a"].create_python("work", WITNESSED, tags={**witness.tags, "lambent:schedules": schedule})
        self.cluster.wait_for(lambda: witness.begun["tick"] == 1, 70)
        self.assertLess(time.time() % 60, 10)
        self.clocks["a"].step(-870)
        time.sleep(2)
        self.assertEqual(witness.begun["tick"], 1)

    def outcome(self, name, invocation):
        try:
            return self.cluster[name].request("GET", f"/v1/invocations/{invocation}").headers.get("x-lambent-outcome")
        except HttpError as error:
            return error.status


if __name__ == "__main__":
    unittest.main()
