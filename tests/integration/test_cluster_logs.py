"""Logs of functions in a cluster: any node gives the lines of all, in order of time, once and as they come; what a node that is lost
or silent has is named."""
import http.client
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

TALKER = """
def handler(event, context):
    print("said", event["number"])
    return event["number"]
"""
LOG = "/v1/functions/talk/log"
PROGRAM = os.environ.get("LAMBENT_PREFIX", "") + "/bin/lambent"


class Follower:
    """One who follows the log of a function; what came so far is text."""

    def __init__(self, test, node, path=f"{LOG}?follow=1"):
        self.connection = node.connect()
        self.connection.request("GET", path)
        self.response = self.connection.getresponse()
        self.text, self.ended = "", False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        test.addCleanup(self.leave)

    def read(self):
        try:
            while piece := self.response.read1(65536):
                self.text += piece.decode()
        except (OSError, http.client.HTTPException, ValueError):
            pass
        self.ended = True

    def leave(self):
        if self.connection.sock is not None:
            self.connection.sock.shutdown(2)
        self.thread.join()
        self.connection.close()


class LogsOfACluster(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(self, policy="random")
        self.cluster.wait_until_up()
        self.cluster["a"].create_python("talk", TALKER)
        self.number = 0

    def say(self, times=1, names="abc"):
        """One after the other, through the nodes in turn."""
        for turn in range(times):
            reply = self.cluster[names[turn % len(names)]].invoke("talk", {"number": self.number})
            self.assertEqual(reply.json, self.number)
            self.number += 1

    def say_on_all(self, names="abc"):
        """Until each has run some."""
        for _ in range(40):
            self.say(3, names)
            if min(self.cluster.completed("talk", names).values()) >= 2:
                return
        self.fail("the policy `random` is none")

    def lines(self, node, path=f"{LOG}?format=ndjson"):
        """(what is said of the first answer, the lines) until there are no more: an answer ends where another node's offsets make a step."""
        about, lines, place = None, [], None
        while True:
            reply = self.cluster[node].request("GET", path if place is None else f"{LOG}?format=ndjson&offset={place}")
            objects = [json.loads(line) for line in reply.body.decode().splitlines()]
            about = about or objects[0]
            lines += objects[1:]
            if place == reply.headers["x-lambent-next-offset"]:
                return about, lines
            place = reply.headers["x-lambent-next-offset"]

    @staticmethod
    def said(lines):
        """In the order that they have; of one millisecond that of any."""
        said = [(line["time"], int(line["text"].split()[1])) for line in lines if line["text"].startswith("said ")]
        return [number for _, number in sorted(said)] if said == sorted(said, key=lambda each: each[0]) else said

    def wait_for_lines(self, node):
        self.cluster.wait_for(lambda: len(self.said(self.lines(node)[1])) == self.number)

    def test_any_node_gives_the_lines_of_all_in_order_of_time(self):
        self.say_on_all()
        self.wait_for_lines("a")
        own = {}
        for name in "abc":
            reply = self.cluster[name].request("GET", LOG, headers={"X-Lambent-Only-Here": "true"})
            own[name] = reply.body.decode().splitlines(keepends=True)
            self.assertEqual(int(reply.headers["x-lambent-next-offset"]), len(reply.body))
        for name in "abc":
            about, lines = self.lines(name)
            self.assertEqual(about, {"nodes": ["a", "b", "c"], "silent_nodes": [], "older_lines_gone": False})
            # The calls went one after the other.
            self.assertEqual(self.said(lines), list(range(self.number)))
            times = [line["time"] for line in lines]
            self.assertEqual(times, sorted(times))
            for node in "abc":
                self.assertEqual([line["text"] for line in lines if line["node"] == node], own[node])
            text = self.cluster[name].request("GET", LOG).body.decode()
            self.assertEqual(text, "".join(f"{line['node']} | {line['text']}" for line in lines))

    def test_readers_go_on_where_they_were(self):
        self.say_on_all()
        self.wait_for_lines("b")
        first = self.cluster["b"].request("GET", LOG)
        place = first.headers["x-lambent-next-offset"]
        self.assertRegex(place, r"^a:\d+,b:\d+,c:\d+$")
        begun = self.number
        self.say(4)
        self.wait_for_lines("c")
        # At another node.
        _, lines = self.lines("c", f"{LOG}?format=ndjson&offset={place}")
        self.assertEqual(self.said(lines), list(range(begun, begun + 4)))
        with self.assertRaises(HttpError) as caught:
            self.cluster["a"].request("GET", f"{LOG}?offset=a:x")
        self.assertEqual(caught.exception.status, 400)

    def test_lines_and_their_times_outlive_workers(self):
        self.say_on_all()
        self.wait_for_lines("a")
        time.sleep(0.5)  # until they are on disk
        before = self.lines("a")
        for name in "bc":
            self.cluster[name].kill()
        for name in "bc":
            self.cluster[name].start()
        self.cluster.wait_until_up()
        self.assertEqual(self.lines("a"), before)

    def test_followers_get_the_lines_of_all_nodes_until_they_leave(self):
        self.say_on_all()
        follower = Follower(self, self.cluster["b"], f"{LOG}?follow=1&times=1")

        def said():
            found = re.findall(r"^[abc] \| (\S+Z) (said \d+)$", follower.text, re.MULTILINE)
            return self.said([{"time": time, "text": text} for time, text in found])
        self.cluster.wait_for(lambda: len(said()) == self.number)
        self.say(12)
        self.cluster.wait_for(lambda: len(said()) == self.number)
        self.assertEqual(said(), list(range(self.number)))
        # A tenant has 64 followers: none of those who left counts.
        for _ in range(70):
            passing = Follower(self, self.cluster["b"])
            self.assertEqual(passing.response.status, 200)
            passing.leave()
        last = Follower(self, self.cluster["b"])
        self.assertEqual(last.response.status, 200)
        self.say(1)
        self.cluster.wait_for(lambda: len(said()) == self.number)
        self.cluster.wait_for(lambda: last.text.count("said") == self.number)

    def test_a_node_that_is_lost_is_named_and_the_rest_comes(self):
        self.say_on_all()
        follower = Follower(self, self.cluster["a"])
        self.cluster.wait_for(lambda: follower.text.count("said") == self.number)
        of_c = self.cluster.completed("talk")["c"]
        self.cluster["c"].kill()
        self.cluster.wait_for(lambda: "[node c does not answer: its lines are missing]\n" in follower.text)
        self.cluster.wait_for(lambda: all(self.cluster.states(name)["c"] == "lost" for name in "ab"))
        self.say(4, "ab")
        self.cluster.wait_for(lambda: follower.text.count("said") == self.number)
        reply = self.cluster["b"].request("GET", LOG)
        self.assertEqual(reply.headers["x-lambent-silent-nodes"], "c")
        self.assertEqual(reply.body.decode().count("said"), self.number - of_c)
        about, _ = self.lines("b")
        self.assertEqual((about["nodes"], about["silent_nodes"]), (["a", "b"], ["c"]))
        self.cluster["c"].start()
        self.cluster.wait_until_up()
        self.assertNotIn("x-lambent-silent-nodes", self.cluster["b"].request("GET", LOG).headers)
        self.wait_for_lines("b")

    def test_a_node_that_hangs_is_waited_for_no_longer_than_two_seconds(self):
        self.say_on_all()
        self.wait_for_lines("a")
        os.kill(self.cluster["c"].process.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            reply = self.cluster["a"].request("GET", LOG)
            self.assertLess(time.monotonic() - began, 15)  # two seconds, on a machine that has them
            self.assertEqual(reply.headers["x-lambent-silent-nodes"], "c")
            self.assertIn("said", reply.body.decode())
        finally:
            os.kill(self.cluster["c"].process.pid, signal.SIGCONT)

    def test_a_function_that_is_nowhere_is_not_found(self):
        for path in ("/v1/functions/none/log", "/v1/functions/none/log?follow=1"):
            with self.assertRaises(HttpError) as caught:
                self.cluster["b"].request("GET", path)
            self.assertEqual(caught.exception.status, 404)
        self.cluster["c"].kill()
        self.cluster.wait_for(lambda: self.cluster.states("b")["c"] == "lost")
        with self.assertRaises(HttpError) as caught:
            self.cluster["b"].request("GET", "/v1/functions/none/log")
        self.assertEqual((caught.exception.status, caught.exception.headers.get("retry-after")), (503, "1"))

    def command(self, *words, node="b", **options):
        return subprocess.run([PROGRAM, *words, "--endpoint", self.cluster[node].endpoint], capture_output=True, text=True, timeout=60,
                              check=True, **options)

    def test_the_command_shows_nodes_times_and_who_is_silent(self):
        self.say_on_all()
        self.wait_for_lines("b")
        done = self.command("logs", "talk")
        self.assertEqual(sorted(int(n) for n in re.findall(r"^[abc] \| said (\d+)$", done.stdout, re.MULTILINE)), list(range(self.number)))
        self.assertEqual(done.stderr, "")
        timed = self.command("logs", "talk", "--timestamps").stdout
        self.assertRegex(timed, r"(?m)^[abc] \| \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z said 0$")
        objects = [json.loads(line) for line in self.command("logs", "talk", "--json").stdout.splitlines()]
        self.assertEqual(self.said(objects), list(range(self.number)))
        self.cluster["c"].kill()
        self.cluster.wait_for(lambda: self.cluster.states("b")["c"] == "lost")
        done = self.command("logs", "talk")
        self.assertEqual(done.stderr, "node c does not answer: its lines are missing\n")
        self.assertIn("said", done.stdout)
        follows = subprocess.Popen([PROGRAM, "logs", "-f", "talk", "--endpoint", self.cluster["b"].endpoint], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        try:
            while "said" not in follows.stdout.readline():
                pass
            self.say(1, "a")
            while f"said {self.number - 1}\n" not in follows.stdout.readline():
                pass
        finally:
            follows.kill()
            follows.communicate()


class LogsOfTenants(unittest.TestCase):
    def test_tenants_see_their_own_lines_only_and_ask_no_node_behind_its_back(self):
        cluster = Cluster(self, "ab", flags=("--auth", "tokens"), policy="random")
        operators = {name: Operator(cluster[name], cluster.folder / f"{name}.sock") for name in "ab"}
        end = time.monotonic() + 20
        while not all(member["state"] == "up" for name in "ab"
                      for member in operators[name].request("GET", "/v1/cluster").json["members"]):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        callers = {}
        for tenant in ("red", "blue"):
            operators["a"].create_tenant(tenant)
            token = operators["a"].create_token(tenant)["secret"]
            callers[tenant] = Caller(cluster["a"], token)
            callers[tenant].create_python("talk", TALKER)
        for number in range(30):
            for tenant, caller in callers.items():
                caller.invoke("talk", {"number": f"{tenant}-{number}"})

        def text(tenant):
            return callers[tenant].request("GET", LOG).body.decode()
        for tenant, other in (("red", "blue"), ("blue", "red")):
            while text(tenant).count(f"said {tenant}-") < 30:
                self.assertLess(time.monotonic(), end + 60)
                time.sleep(0.05)
            self.assertIn("\nb | ", text(tenant))
            self.assertNotIn(f"said {other}-", text(tenant))
            # What nodes ask each other.
            for path in (f"/v1/cluster/log/{other}/talk?offset=0&most=100", f"/v1/cluster/log/{tenant}/talk?offset=0&most=100"):
                self.assertEqual(callers[tenant].status_of("GET", path)[0], 403)
        forged = {"X-Lambent-Node": "b red 0"}
        for headers in ({}, forged):
            with self.assertRaises(HttpError) as caught:
                cluster["a"].request("GET", "/v1/cluster/log/red/talk?offset=0&most=100", headers=headers)
            self.assertEqual(caught.exception.status, 401)


if __name__ == "__main__":
    unittest.main()
