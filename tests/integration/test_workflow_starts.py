"""Runs of workflows: the functions to come are started while the first one runs, and not where nothing is foreseen."""
import json
import unittest

from harness import Worker, make_zip

# Its start takes long, and so does its call.
SLOW = """
import time
time.sleep(0.4)
def handler(event, context):
    time.sleep(0.6)
    return {"by": context.function_name}
"""
CHAIN = {"components": [{"name": "a", "function": "first"}, {"name": "b", "function": "second", "after": ["a"]},
                        {"name": "c", "function": "third", "after": ["b"]}],
         "output": ["$a.by", "$b.by", "$c.by"]}


class WorkflowStartsTest(unittest.TestCase):
    def run_once(self, *flags):
        worker = Worker("--concurrency", "1", *flags, gpu="emulated:tiny")
        self.addCleanup(worker.close)
        for name in ("first", "second", "third"):
            worker.create(name, make_zip({"app.py": SLOW}), tags={"lambent:gpu-memory": "64MiB"})
        worker.create("chain", make_zip({"workflow.json": json.dumps(CHAIN)}), "provided.al2023", "workflow.json", tags={"lambent:kind": "workflow"}, timeout=60)
        reply = worker.invoke("chain", {})
        self.assertEqual(reply.json, ["first", "second", "third"])
        trace = worker.request("GET", f"/v1/invocations/{reply.headers['x-amzn-requestid']}/trace").json
        waits = {call["component"]: call["sandbox_ms"] + call["init_ms"] for call in trace["calls"]}
        return waits, self.counts_of(worker), worker

    def counts_of(self, worker):
        return {line.split('"')[1]: float(line.split()[-1]) for line in worker.metrics().splitlines()
                if line.startswith("lambent_starts_ahead_total{")}

    def test_later_components_are_started_while_the_first_one_runs(self):
        waits, counts, worker = self.run_once()
        self.assertEqual(counts["started"], 2)
        self.assertEqual(counts["used"], 2)
        # The first one waits for its whole start, the last one hardly for any of it: it had two calls' time.
        self.assertGreater(waits["a"], 400)
        self.assertLess(waits["c"], waits["a"] / 2)
        # Warm functions are left alone.
        self.assertEqual(worker.invoke("chain", {}).json, ["first", "second", "third"])
        self.assertEqual(self.counts_of(worker)["started"], 2)

    def test_where_nothing_is_foreseen_each_begins_cold(self):
        waits, counts, _ = self.run_once("--set", "foresee=false")
        self.assertEqual(counts.get("started", 0), 0)
        for component in "abc":
            self.assertGreater(waits[component], 400)


if __name__ == "__main__":
    unittest.main()
