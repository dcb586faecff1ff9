"""What functions do and did in a cluster, asked at any node: invocations, figures, sandboxes and the dashboard's events of all nodes;
who does not answer is named, and tenants see their own."""
import json
import os
import re
import signal
import subprocess
import threading
import time
import unittest

from harness import HttpError
from tenants import Caller, Operator
from test_cluster import Cluster

ECHO = """
import time
def handler(event, context):
    time.sleep(event.get("seconds", 0))
    if event.get("fails"):
        raise ValueError("told to")
    return event
"""
ENDED, LIVE, FUNCTIONS = "/v1/activity/invocations", "/v1/activity/live", "/v1/activity/functions"
ONLY_HERE = {"X-Lambent-Only-Here": "true"}
PROGRAM = os.environ.get("LAMBENT_PREFIX", "") + "/bin/lambent"


def events(node, wanted, seconds=20):
    """Events of the dashboard's stream until `wanted(name, data)` is true; all that came."""
    connection = node.connect()
    came = []
    try:
        connection.request("GET", "/v1/activity/events")
        response = connection.getresponse()
        end = time.monotonic() + seconds
        name = ""
        while time.monotonic() < end:
            line = response.fp.readline() if response.chunked is False else response.readline()
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                came.append((name, json.loads(text.removeprefix("data: "))))
                if wanted(*came[-1]):
                    return came
        raise AssertionError(f"it did not come: {[name for name, _ in came]}")
    finally:
        connection.close()


class ActivityOfACluster(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(self, policy="random")
        self.cluster.wait_until_up()
        self.cluster["a"].create_python("echo", ECHO)
        self.ids = []

    def get(self, node, path, **options):
        return self.cluster[node].request("GET", path, **options).json

    def call(self, names="abc", **event):
        for name in names:
            self.ids.append(self.cluster[name].invoke("echo", event).headers["x-amzn-requestid"])

    def call_until_all_ran(self, names="abc"):
        for _ in range(40):
            self.call(names)
            if min(self.cluster.completed("echo", names).values()) >= 2:
                return
        self.fail("the policy `random` is none")

    def ended(self, node, query=""):
        return self.get(node, f"{ENDED}?{query}")["invocations"]

    def start(self, node, seconds, count):
        def ask():
            try:
                self.cluster[node].invoke("echo", {"seconds": seconds})
            except (HttpError, OSError):
                pass
        threads = [threading.Thread(target=ask, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        self.addCleanup(lambda: [thread.join() for thread in threads])

    def test_any_node_lists_those_that_ended_on_all_in_order_of_time(self):
        self.call_until_all_ran()
        own = {name: self.get(name, ENDED, headers=ONLY_HERE)["invocations"] for name in "abc"}
        for name in "abc":
            answer = self.get(name, ENDED)
            rows = answer["invocations"]
            self.assertEqual(answer["silent_nodes"], [])
            self.assertEqual(sorted(row["invocation"] for row in rows), sorted(self.ids))
            ended = [row["ended"] for row in rows]
            self.assertEqual(ended, sorted(ended, reverse=True))
            for node in "abc":
                self.assertEqual([row["sequence"] for row in rows if row["node"] == node], [row["sequence"] for row in own[node]])
            one = self.get(name, f"{ENDED}/{self.ids[0]}")
            self.assertEqual(one["node"], next(node for node in "abc" if self.ids[0] in [row["invocation"] for row in own[node]]))
        self.assertEqual(self.ended("b", "function=other"), [])
        with self.assertRaises(HttpError) as caught:
            self.get("b", f"{ENDED}/00000000-0000-4000-8000-000000000000")
        self.assertEqual(caught.exception.status, 404)

    def test_pages_of_all_nodes_have_each_once_also_when_another_node_goes_on(self):
        self.call_until_all_ran()
        whole = [row["invocation"] for row in self.ended("a")]
        found, place = [], ""
        for turn in range(len(whole)):
            answer = self.get("abc"[turn % 3], f"{ENDED}?limit=3&before={place}")
            self.assertLessEqual(len(answer["invocations"]), 3)
            found += [row["invocation"] for row in answer["invocations"]]
            place = answer.get("next", "")
            if not place:
                break
        self.assertEqual(found, whole)
        for bad in ("a:x", "a", ":3"):
            with self.assertRaises(HttpError) as caught:
                self.get("a", f"{ENDED}?before={bad}")
            self.assertEqual(caught.exception.status, 400)

    def test_what_runs_now_is_found_and_cancelled_at_any_node(self):
        self.start("a", 30, 6)
        self.cluster.wait_for(lambda: len(self.get("b", LIVE)["invocations"]) == 6)
        rows = self.get("c", LIVE)["invocations"]
        self.assertGreater(len({row["node"] for row in rows}), 1)
        waited = [row["waited_seconds"] for row in rows]
        self.assertEqual(waited, sorted(waited, reverse=True))
        self.assertEqual(len(self.get("c", f"{LIVE}?limit=2")["invocations"]), 2)
        sandboxes = self.get("b", "/v1/sandboxes")
        self.assertEqual({row["node"] for row in sandboxes["sandboxes"]}, {row["node"] for row in rows})
        for row in rows:
            elsewhere = next(name for name in "abc" if name != row["node"])
            done = self.command("cancel", row["invocation"], node=elsewhere)
            self.assertIn("cancelled", done.stdout)
        self.cluster.wait_for(lambda: self.get("a", LIVE)["invocations"] == [])
        for name in "abc":
            outcomes = {row["invocation"]: row["outcome"] for row in self.ended(name)}
            self.assertEqual([outcomes[row["invocation"]] == "succeeded" for row in rows], [False] * 6)

    def test_figures_of_functions_are_those_of_all_nodes(self):
        self.call_until_all_ran()
        self.assertLess(max(self.cluster.completed("echo").values()), len(self.ids))
        for name in "abc":
            row = self.get(name, FUNCTIONS)["functions"][0]
            self.assertEqual(row["cold"] + row["gpu_cold"] + row["warm"], len(self.ids))
            self.assertGreaterEqual(row["sandboxes"], 3)
            self.assertGreater(row["p50_ms"], 0)
            listed = self.get(name, "/v1/functions")["functions"][0]
            self.assertEqual((listed["completed"], listed["sandboxes"]), (len(self.ids), row["sandboxes"]))
            about = self.get(name, f"{FUNCTIONS}/echo")
            self.assertEqual(about["activity"], row)
            self.assertEqual(about["function"]["completed"], len(self.ids))
            self.assertEqual(sum(count for _, count in about["latency_buckets_ms"]), len(self.ids))
            self.assertEqual({node: each["warm"] + each["cold"] for node, each in about["by_node"].items()}, self.cluster.completed("echo"))

    def test_percentiles_are_made_of_all_nodes_latencies(self):
        self.call_until_all_ran()
        slow = next(name for name in "abc" if self.cluster.completed("echo")[name])
        before = self.get(slow, f"{FUNCTIONS}/echo")["activity"]["p50_ms"]
        # More than all before, on whichever nodes.
        for _ in range(len(self.ids) // 3 + 2):
            self.call(seconds=0.3)
        for name in "abc":
            self.assertGreater(self.get(name, f"{FUNCTIONS}/echo")["activity"]["p50_ms"], max(250, before))

    def test_the_dashboards_events_are_of_all_nodes(self):
        self.call_until_all_ran()
        self.start("a", 8, 6)
        self.cluster.wait_for(lambda: len(self.get("b", LIVE)["invocations"]) == 6)

        def has_all(name, data):
            return name == "state" and len(data["live"]) == 6
        state = events(self.cluster["b"], has_all)[-1][1]
        self.assertGreater(len({row["node"] for row in state["live"]}), 1)
        self.assertEqual({row["node"] for row in state["sandboxes"]}, set("abc"))
        self.assertEqual(state["silent_nodes"], [])
        came, missed, errors = [], [], []

        def has_ended(name, data):
            if name == "ended":
                came.extend(data["invocations"])
                missed.append(data["missed"])
            return len(came) >= 9

        def watch():
            try:
                events(self.cluster["c"], has_ended, 40)
            except Exception as error:  # a thread's failure would be no test's
                errors.append(error)
        watcher = threading.Thread(target=watch)
        watcher.start()
        time.sleep(2.5)  # what ended before it watched is not told
        self.call(names="aab")
        watcher.join()
        self.assertEqual(errors, [])
        self.assertEqual(set(missed), {0})
        self.assertEqual(len({(row["node"], row["sequence"]) for row in came}), len(came))
        self.assertEqual(len([row for row in came if row["invocation"] in self.ids[-3:]]), 3)
        self.assertEqual(len([row for row in came if row["took_ms"] > 7000]), 6)

        def has_sum(name, data):
            return name == "functions" and any(row["warm"] + row["cold"] >= len(self.ids) + 6 for row in data["functions"])
        self.assertTrue(events(self.cluster["a"], has_sum))

    def test_a_node_that_is_lost_or_hangs_is_named_and_the_rest_comes(self):
        self.call_until_all_ran()
        of_c = self.get("c", ENDED, headers=ONLY_HERE)["invocations"]
        os.kill(self.cluster["c"].process.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            answer = self.get("a", ENDED)
            self.assertLess(time.monotonic() - began, 15)  # two seconds, on a machine that has them
            self.assertEqual(answer["silent_nodes"], ["c"])
            self.assertEqual(len(answer["invocations"]), len(self.ids) - len(of_c))
        finally:
            os.kill(self.cluster["c"].process.pid, signal.SIGCONT)
        self.cluster["c"].kill()
        self.cluster.wait_for(lambda: self.cluster.states("b")["c"] == "lost")
        for path in (ENDED, LIVE, FUNCTIONS, f"{FUNCTIONS}/echo", "/v1/functions", "/v1/sandboxes", "/v1/devices"):
            self.assertEqual(self.get("b", path)["silent_nodes"], ["c"], path)
        with self.assertRaises(HttpError) as caught:
            self.get("b", f"{ENDED}/{of_c[0]['invocation']}")
        self.assertEqual(caught.exception.status, 503)
        self.assertIn(b"node 'c'", caught.exception.body)
        done = self.command("invocations")
        self.assertEqual(done.stderr, "node c does not answer: its invocations are missing\n")
        self.assertTrue(events(self.cluster["b"], lambda name, data: name == "state" and data.get("silent_nodes") == ["c"]))
        # A page is gone on with where the node is back; it counts again from one.
        self.cluster["c"].start()
        self.cluster.wait_until_up()
        self.assertEqual(self.get("b", ENDED)["silent_nodes"], [])

    def command(self, *words, node="b"):
        return subprocess.run([PROGRAM, *words, "--endpoint", self.cluster[node].endpoint], capture_output=True, text=True, timeout=60,
                              check=True)

    def test_the_commands_show_the_whole_cluster(self):
        self.call_until_all_ran()
        shown = self.command("invocations", "--limit", "500").stdout
        self.assertIn("NODE", shown.splitlines()[0])
        for each in self.ids:
            self.assertIn(each, shown)
        slowest = json.loads(self.command("invocations", "--slowest", "--limit", "4", "--json").stdout)["ended"]
        took = sorted((row["took_ms"] for row in self.ended("a")), reverse=True)
        self.assertEqual([row["took_ms"] for row in slowest], took[:4])
        self.assertRegex(self.command("ls").stdout, rf"(?m)^echo .* {len(self.ids)} +\d+$")
        top = json.loads(self.command("top", "--times", "1", "--json").stdout)
        self.assertEqual(top["functions"][0]["warm"] + top["functions"][0]["cold"], len(self.ids))
        described = self.command("describe", "echo").stdout
        for name, count in self.cluster.completed("echo").items():
            self.assertRegex(described, rf"(?m)^  on node {name} .* {count} ended$")
        # The slowest of all, whichever node has it, and the story of each at a node that does not have it.
        why = self.command("why", "echo").stdout
        self.assertIn(f"the slowest of the last {len(self.ids)} of echo", why)
        self.assertIn("invocation ", why)
        for row in self.ended("a")[:6]:
            elsewhere = next(name for name in "abc" if name != row["node"])
            self.assertRegex(self.command("why", row["invocation"], node=elsewhere).stdout, r"(?m)^ +\+\d")


class JournalsOfSomeNodes(unittest.TestCase):
    def test_a_node_without_a_journal_does_not_end_the_search_for_a_story(self):
        cluster = Cluster(self, policy="random", own_flags={name: ("--journal", "none") for name in "ac"})
        cluster.wait_until_up()
        cluster["a"].create_python("echo", ECHO)
        ran = {}
        while len(ran) < 3:
            before = cluster.completed("echo")
            invocation = cluster["a"].invoke("echo", {}).headers["x-amzn-requestid"]
            cluster.wait_for(lambda before=before: cluster.completed("echo") != before)
            after = cluster.completed("echo")
            ran[next(name for name in "abc" if after[name] > before[name])] = invocation
        for name in "abc":
            self.assertTrue(cluster[name].request("GET", f"/v1/invocations/{ran['b']}/why").json["story"])
        # It may have been a's: that "there is none" would be a guess.
        for name in "abc":
            with self.assertRaises(HttpError) as caught:
                cluster[name].request("GET", f"/v1/invocations/{ran['a']}/why")
            self.assertEqual(caught.exception.status, 412)
            self.assertIn("keeps no journal", str(caught.exception))
        # Nor that none keeps it, while the node that does is lost.
        cluster["b"].kill()
        for name in "ac":
            cluster.wait_for(lambda name=name: cluster.states(name)["b"] == "lost")
            with self.assertRaises(HttpError) as caught:
                cluster[name].request("GET", f"/v1/invocations/{ran['b']}/why")
            self.assertEqual(caught.exception.status, 503)
            self.assertIn("which may have it, does not answer", str(caught.exception))


class ActivityOfTenants(unittest.TestCase):
    def test_tenants_see_their_own_calls_of_all_nodes_only(self):
        cluster = Cluster(self, "ab", flags=("--auth", "tokens"), policy="random")
        operators = {name: Operator(cluster[name], cluster.folder / f"{name}.sock") for name in "ab"}
        end = time.monotonic() + 30
        while not all(member["state"] == "up" for name in "ab"
                      for member in operators[name].request("GET", "/v1/cluster").json["members"]):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        callers, ids = {}, {}
        for tenant in ("red", "blue"):
            operators["a"].create_tenant(tenant)
            callers[tenant] = Caller(cluster["a"], operators["a"].create_token(tenant)["secret"])
            callers[tenant].create_python("echo", ECHO)
        for tenant, caller in callers.items():
            ids[tenant] = [caller.invoke("echo", {}).headers["x-amzn-requestid"] for _ in range(20)]
        for tenant, other in (("red", "blue"), ("blue", "red")):
            rows = callers[tenant].request("GET", ENDED).json["invocations"]
            self.assertEqual(sorted(row["invocation"] for row in rows), sorted(ids[tenant]))
            self.assertEqual({row["node"] for row in rows}, {"a", "b"})
            self.assertEqual(callers[tenant].request("GET", FUNCTIONS).json["functions"][0]["warm"] +
                             callers[tenant].request("GET", FUNCTIONS).json["functions"][0]["cold"], 20)
            self.assertEqual({row["function"] for row in callers[tenant].request("GET", "/v1/sandboxes").json["sandboxes"]}, {"echo"})
            for which in ids[other][:6]:
                self.assertEqual(callers[tenant].status_of("GET", f"{ENDED}/{which}")[0], 404)
        # One who may only invoke learns nothing by another node.
        weak = Caller(cluster["a"], operators["a"].create_token("red", scopes=["invoke"])["secret"])
        self.assertEqual(weak.status_of("GET", ENDED)[0], 403)


if __name__ == "__main__":
    unittest.main()
