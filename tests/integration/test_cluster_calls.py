"""Calls that nodes of a cluster make themselves: those of schedules and the steps of workflows run on the node that has what they
take, also where the node that holds the schedule or the run has not; and what becomes of schedules when their node is lost."""
import json
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

from cluster_world import WITNESSED, Postgres, Witness
from harness import PREFIX, HttpError, WallClock, make_zip
from test_cluster import Cluster

# A node with four small GPUs, and one with a single large one: no node has what both of these functions take.
GPUS = {"a": "none", "b": "emulated:tiny-x4", "c": "emulated:v100-16gb"}
WIDE = {"lambent:gpu-memory": "64MiB", "lambent:gpu-count": "2"}
LARGE = {"lambent:gpu-memory": "4GiB"}

ADD = """
def handler(event, context):
    return event["n"] + AMOUNT
"""
MAKE = """
import array
from lambent import objects
def handler(event, context):
    return objects.put(array.array("f", [event["n"]] * 100).tobytes(), name=context.aws_request_id + ".0")  # the run's own
"""
READ = """
import array
from lambent import objects
def handler(event, context):
    return sum(array.array("f", bytes(objects.get(event["of"]["object"]))))
"""
SLOW = """
import time
def handler(event, context):
    time.sleep(event["seconds"])
    return event["seconds"]
"""
NOTES = """
def handler(event, context):
    return {"heard": event}
"""


def component(name, function, **more):
    return {"name": name, "function": function, **more}


class ClusterTest(unittest.TestCase):
    def create(self, name, source, tags=None, **more):
        self.cluster["a"].create(name, make_zip({"app.py": source}), tags=tags or {}, **more)

    def create_workflow(self, name, components, output, timeout=30):
        package = make_zip({"workflow.json": json.dumps({"components": components, "output": output})})
        self.cluster["a"].create(name, package, runtime="provided.al2023", handler="workflow.json", timeout=timeout,
                                 tags={"lambent:kind": "workflow"})
        names = {name, *(each["function"] for each in components)}
        self.cluster.wait_for(lambda: all(self.know(node, names) for node in self.cluster.nodes))

    def know(self, node, names):
        return names <= {each["name"] for each in self.cluster[node].request("GET", "/v1/functions").json["functions"]}

    def result_of(self, node, invocation):
        self.cluster.wait_for(lambda: self.cluster[node].request("GET", f"/v1/invocations/{invocation}").status == 200, seconds=30)
        return self.cluster[node].request("GET", f"/v1/invocations/{invocation}").json


class StepsOfWorkflows(ClusterTest):
    def setUp(self):
        self.cluster = Cluster(self, gpu=GPUS)
        self.cluster.wait_until_up()

    def test_a_run_goes_to_the_node_that_has_what_all_of_its_steps_take(self):
        self.create("plain", ADD.replace("AMOUNT", "1"))
        self.create("wide", ADD.replace("AMOUNT", "10"), WIDE)
        self.create_workflow("both", [component("one", "plain", input="$input"), component("two", "wide", input={"n": "$one"})], "$two")
        for node in "abc":
            self.assertEqual(self.cluster[node].invoke("both", {"n": 5}).json, 16)
        # Whole runs, also of the step that any node could have made.
        for function in ("plain", "wide"):
            self.assertEqual(self.cluster.completed(function), {"a": 0, "b": 3, "c": 0})

    def test_a_step_that_its_runs_node_cannot_hold_is_made_by_another(self):
        self.create("wide", ADD.replace("AMOUNT", "10"), WIDE)
        self.create("large", ADD.replace("AMOUNT", "100"), LARGE)
        self.create("plain", ADD.replace("AMOUNT", "1"))
        self.create("fails", "def handler(event, context):\n    raise KeyError(event['n'])\n", LARGE)
        self.create_workflow("all", [component("one", "wide", input="$input"), component("two", "large", input={"n": "$one"}),
                                     component("three", "plain", input={"n": "$two"})], "$three")
        for node in "abc":
            self.assertEqual(self.cluster[node].invoke("all", {"n": 5}).json, 116)
            accepted = self.cluster[node].invoke("all", {"n": 6}, "Event")
            self.assertEqual(self.result_of(node, accepted.headers["x-amzn-requestid"]), 117)
        self.assertEqual((self.cluster.completed("wide")["b"], self.cluster.completed("large")["c"]), (6, 6))
        # A failure there is the step's own.
        self.create_workflow("failing", [component("one", "wide", input="$input"), component("two", "fails", input={"n": "$one"})], "$two")
        failed = self.cluster["a"].invoke("failing", {"n": 5})
        self.assertIn("x-amz-function-error", failed.headers)
        self.assertIn("KeyError", failed.json["errorMessage"])
        self.assertIn("two", failed.json["errorMessage"])
        # Without the node of one step the run says which is missing.
        self.cluster["c"].kill()
        self.cluster.wait_for(lambda: self.cluster.states("a")["c"] == "lost")
        lost = self.cluster["a"].invoke("all", {"n": 5})
        self.assertIn("lost or drained (c)", lost.json["errorMessage"])

    def test_objects_that_a_step_made_elsewhere_are_brought_and_go_with_the_run(self):
        self.create("make", MAKE, WIDE)
        self.create("read", READ, LARGE)
        self.create_workflow("pass", [component("made", "make", input="$input"), component("sum", "read", input={"of": "$made"})], "$sum")
        self.create_workflow("keep", [component("made", "make", input="$input"), component("sum", "read", input={"of": "$made"})],
                             {"made": "$made", "sum": "$sum"})
        objects = lambda node: {each["object"] for each in self.cluster[node].request("GET", "/v1/objects").json["objects"]}
        for node in "abc":
            self.assertEqual(self.cluster[node].invoke("pass", {"n": 3}).json, 300)
        self.cluster.wait_for(lambda: not any(objects(node) for node in "abc"))
        kept = self.cluster["a"].invoke("keep", {"n": 2}).json
        self.assertEqual(kept["sum"], 200)
        self.assertEqual(self.cluster["a"].request("GET", "/v1/objects/" + kept["made"]["object"]).status, 200)

    def test_a_run_that_times_out_ends_the_calls_that_it_has_queued_elsewhere(self):
        self.create("wide", ADD.replace("AMOUNT", "0"), WIDE)
        self.create("slow", SLOW, LARGE, timeout=60)
        self.create_workflow("late", [component("one", "wide", input={"n": 1}), component("two", "slow", for_each="$input.each")], "$two",
                             timeout=3)
        self.cluster["b"].invoke("wide", {"n": 1})  # warm from here on
        self.cluster["b"].invoke("slow", {"seconds": 0})
        reply = self.cluster["b"].invoke("late", {"each": [{"seconds": 2}] * 40})
        self.assertEqual(reply.json["errorType"], "Sandbox.Timeout")
        running = lambda: sum(each["running"] for node in "bc" for each in self.cluster[node].request(
            "GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"] if each["name"] == "slow")
        # What runs goes on, as it does on the run's own node; of the forty most have not begun, and two run at once.
        self.cluster.wait_for(lambda: running() == 0, seconds=20)
        self.assertLess(self.cluster.completed("slow")["c"], 20)


class SchedulesOfFunctionsThatRunElsewhere(ClusterTest):
    def test_the_home_begins_them_where_the_gpus_are_and_finds_their_results(self):
        if not (PREFIX / "tests/wall_clock_step.so").exists():
            self.skipTest("tests/wall_clock_step.so is not built: ./dev build release wall_clock_step")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-clocks-"))
        self.addCleanup(shutil.rmtree, folder, True)
        clocks = {name: WallClock(folder / name) for name in GPUS}
        ahead = (60 - 12 - time.time()) % 60  # some seconds before a full minute
        for clock in clocks.values():
            clock.step(ahead)
        self.cluster = Cluster(self, gpu=GPUS, clocks=clocks)
        self.cluster.wait_until_up()
        self.create("timed", NOTES, {**LARGE, "lambent:schedules": json.dumps([{"name": "often", "cron": "* * * * *", "payload": json.dumps({"n": 7})}])})
        row = lambda: self.cluster["a"].request("GET", "/v1/schedules").json["schedules"][0]
        self.cluster.wait_for(lambda: row()["last_outcome"] == "succeeded", seconds=90)
        self.assertEqual(self.cluster.completed("timed"), {"a": 0, "b": 0, "c": 1})
        self.assertEqual(row()["error"], "")
        for node in "abc":
            self.assertEqual(self.result_of(node, row()["last_invocation"]), {"heard": {"n": 7}})
        # Any node shows it, and who begins it. Only the home has begun anything itself.
        for node in "bc":
            shown = self.cluster[node].request("GET", "/v1/schedules").json
            self.assertEqual(shown["silent_nodes"], [])
            self.assertEqual(shown["schedules"], [row()])
            own = self.cluster[node].request("GET", "/v1/schedules", headers={"X-Lambent-Only-Here": "true"}).json["schedules"][0]
            self.assertEqual((own["begins"], own["last"], own["begun"]), (False, None, 0))
        self.assertEqual((row()["node"], row()["begins"]), ("a", True))


class SchedulesWithASharedCatalog(ClusterTest):
    def test_another_node_begins_each_instant_once_while_the_home_is_lost(self):
        postgres, witness = Postgres(self), Witness(self)
        self.cluster = Cluster(self, flags=("--catalog", postgres.url, "--mount-allow", str(witness.folder)))
        self.cluster.wait_until_up()
        source = WITNESSED.replace("event['id']", "event['time']").replace('event["id"]', 'event["time"]')
        self.create("timed", source, {**witness.tags, "lambent:schedules": json.dumps([{"name": "often", "cron": "* * * * *"}])})
        self.cluster.wait_for(lambda: all(self.know(node, {"timed"}) for node in "bc"))
        # The home is frozen just before the minute, so that the instant comes while no node knows yet that it is lost.
        time.sleep((60 - 1.5 - time.time()) % 60)
        before = set(witness.begun)  # a minute may have been full before
        self.cluster["a"].process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.cluster["a"].process.send_signal, signal.SIGCONT)
        self.cluster.wait_for(lambda: set(witness.ended) - before, seconds=30)
        self.assertEqual(len(set(witness.begun) - before), 1)
        shown = self.cluster["c"].request("GET", "/v1/schedules").json
        self.assertEqual((shown["schedules"][0]["node"], shown["silent_nodes"]), ("b", ["a"]))
        self.assertIn(shown["schedules"][0]["last"], set(witness.begun) - before)
        self.assertIsNotNone(shown["schedules"][0]["last_invocation"])
        # Back again it finds that the instant was begun.
        self.cluster["a"].process.send_signal(signal.SIGCONT)
        self.cluster.wait_until_up()
        time.sleep(5)  # the home's look is overdue and comes at once: a second run would show by then
        self.assertEqual(set(witness.begun.values()), {1})


if __name__ == "__main__":
    unittest.main()
