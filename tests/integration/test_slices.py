"""lambent slices as an operator uses it, on an emulated node: what is shown, what is refused, what is done."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from harness import PREFIX, Worker

LAMBENT = str(PREFIX / "bin/lambent")
INVALID, NOT_FOUND, PRECONDITION, UNAVAILABLE = 13, 15, 19, 24
# Holds a context on the first device that it sees until its input ends.
HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
print("there", flush=True)
sys.stdin.read()
"""


class SlicesTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-slices-")))

    def node(self, preset):
        path = self.folder / f"{preset}.node"
        subprocess.run([str(PREFIX / "bin/emulated-gpu"), "create", "--node", str(path), "--config", preset], check=True,
                       capture_output=True)
        return path

    def run_cli(self, *arguments, expect=0):
        done = subprocess.run([LAMBENT, "slices", *map(str, arguments)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def shapes(self, node):
        gpu, = json.loads(self.run_cli("ls", "--emulated", node, "--json").stdout)
        return gpu["mig"], [slice["shape"] for slice in gpu["slices"]]

    def test_advice_prefers_layouts_that_hold_the_function(self):
        component = {"weights_mb": 2000, "memory_mb": 9000, "output_bytes": 4096}
        (self.folder / "pipeline.json").write_text(json.dumps({
            "pipeline": 1, "handler": "app.App", "inputs": ["image"], "outputs": ["classify"], "slo": {"ms": 120},
            "components": [{"name": "deblur", "inputs": ["$image"]}, {"name": "classify", "inputs": ["deblur"]}]}))
        (self.folder / "profile.json").write_text(json.dumps({
            "profile": 1, "context_mb": 420, "start_ms": 300, "shapes": {"1g.10gb": {"multiprocessors": 14, "memory_mb": 9728}},
            "components": {"deblur": {**component, "ms": {"1g.10gb": 80}}, "classify": {**component, "ms": {"1g.10gb": 60}}}}))
        given = ["advise", "--pipeline", self.folder, "--profile", self.folder / "profile.json"]
        advice = json.loads(self.run_cli(*given, "--rate", 10, "--json").stdout)
        self.assertTrue(advice["simulated"])
        layouts = advice["whole"]["layouts"]
        self.assertEqual(layouts, sorted(layouts, key=lambda one: -round(one["within_slo"], 3)))
        # In pieces over 1g slices alone it is too slow; on one larger slice it is not.
        self.assertNotEqual(layouts[0]["gpus"], [["1g.10gb"] * 7])
        self.assertGreater(layouts[0]["within_slo"], 0.8)
        self.assertIn("MOST LOAD", self.run_cli(*given, "--rate", 10, "--limit", 1).stdout)
        table = self.folder / "requests.csv"
        table.write_text("submitted,fn\n" + "".join(f"{0.1 * number:.1f},app\n" for number in range(50)))
        traced = [*given, "--trace", table]
        self.run_cli(*traced, expect=INVALID)
        as_columns = ("--column", "time=submitted:s", "--column", "function=fn", "--json")
        self.assertGreater(json.loads(self.run_cli(*traced, *as_columns).stdout)["whole"]["layouts"][0]["within_slo"], 0)
        self.run_cli(*given, expect=INVALID)
        self.run_cli(*given, "--trace", self.folder / "none.csv", expect=NOT_FOUND)
        self.run_cli(*given, "--rate", 10, "--family", "v100", expect=INVALID)

    def test_a_device_is_cut_cut_anew_and_whole_again(self):
        node = self.node("a100-80gb")
        self.assertEqual(self.shapes(node), ("off", []))
        done = self.run_cli("apply", "4g.40gb,2g.20gb,1g.10gb", "--gpu", 0, "--emulated", node, "--yes")
        self.assertIn("turn on   MIG mode", done.stderr)
        self.assertEqual(self.shapes(node), ("on", ["4g.40gb", "2g.20gb", "1g.10gb"]))
        before, = json.loads(self.run_cli("ls", "--emulated", node, "--json").stdout)
        done = self.run_cli("apply", "4g.40gb,3*1g.10gb", "--gpu", 0, "--emulated", node, "--yes")
        self.assertEqual(done.stderr.splitlines(),
                         ["keep      4g.40gb@0", "keep      1g.10gb@6", "destroy   2g.20gb@4", "create    1g.10gb@4",
                          "create    1g.10gb@5"])
        after, = json.loads(self.run_cli("ls", "--emulated", node, "--json").stdout)
        # What was kept is the same slice, by the name under which a worker knows it.
        self.assertEqual(before["slices"][0]["uuids"], after["slices"][0]["uuids"])
        self.assertEqual(len({slice["uuids"][0] for slice in after["slices"]}), 4)
        self.run_cli("apply", "none", "--gpu", 0, "--emulated", node, "--yes")
        self.assertEqual(self.shapes(node), ("on", []))
        self.run_cli("apply", "--off", "--gpu", 0, "--emulated", node, "--yes")
        self.assertEqual(self.shapes(node), ("off", []))

    def test_without_yes_nothing_is_done(self):
        node = self.node("a100-80gb-mig")
        before = self.shapes(node)
        done = self.run_cli("apply", "7g.80gb", "--gpu", 0, "--emulated", node, expect=PRECONDITION)
        self.assertIn("destroy   3g.40gb@4", done.stderr)
        self.assertIn("say --yes", done.stderr)
        self.run_cli("apply", "--off", "--gpu", 0, "--emulated", node, expect=PRECONDITION)
        self.assertEqual(self.shapes(node), before)

    def test_nothing_is_done_while_a_process_uses_the_device(self):
        for preset in ("a100-80gb-mig", "a100-80gb"):
            node = self.node(preset)
            before = self.shapes(node)
            holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(PREFIX / "lib/emulated/libcuda.so.1")],
                                      env={**os.environ, "EMULATED_CUDA_NODE": str(node)}, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
            with holder:
                self.assertEqual(holder.stdout.readline().strip(), "there")
                done = self.run_cli("apply", "7g.80gb", "--gpu", 0, "--emulated", node, "--yes", expect=PRECONDITION)
                self.assertIn(f"in use, by process {holder.pid}", done.stderr)
                self.assertIn(f"in use by process {holder.pid}", self.run_cli("ls", "--emulated", node).stdout)
                self.assertEqual(self.shapes(node), before)
                holder.stdin.close()
                self.assertEqual(holder.wait(timeout=30), 0)
            self.run_cli("apply", "7g.80gb", "--gpu", 0, "--emulated", node, "--yes")
            self.assertEqual(self.shapes(node), ("on", ["7g.80gb"]))

    def test_nothing_is_done_while_a_worker_serves_the_device(self):
        worker = Worker(gpu="emulated:a100-80gb-mig")
        self.addCleanup(worker.close)
        node = pathlib.Path(worker.folder) / "run/gpu-node"
        before = self.shapes(node)
        done = self.run_cli("apply", "7g.80gb", "--gpu", 0, "--emulated", node, "--yes", expect=PRECONDITION)
        self.assertIn("a worker serves this machine's GPUs", done.stderr)
        self.assertEqual(self.shapes(node), before)
        worker.stop()
        self.run_cli("ls", "--emulated", node, expect=NOT_FOUND)  # it went with its worker

    def test_plans_need_no_device(self):
        layouts = json.loads(self.run_cli("plan", "--family", "a100-80gb", "--json").stdout)
        self.assertEqual(len(layouts), 19)
        self.assertIn([{"profile": "4g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}], layouts)
        refused = self.run_cli("plan", "2*4g.40gb", "--family", "a100-80gb", expect=INVALID)
        self.assertIn("no layout of a100-80gb has 2*4g.40gb beside each other", refused.stderr)
        typo = self.run_cli("plan", "4g.40g", "--family", "a100-80gb", expect=INVALID)
        self.assertIn("did you mean '4g.40gb'?", typo.stderr)

    def test_a_plan_for_a_device_says_what_would_go(self):
        node = self.node("a100-80gb-mig")
        plan = json.loads(self.run_cli("plan", "4g.40gb,3g.40gb", "--emulated", node, "--json").stdout)
        self.assertEqual(plan, {"turn_on": False, "keep": [{"profile": "3g.40gb", "start": 4}],
                                "destroy": [{"profile": "2g.20gb", "start": 0}, {"profile": "2g.20gb", "start": 2}],
                                "create": [{"profile": "4g.40gb", "start": 0}]})

    def test_what_cannot_be_is_refused_with_its_reason(self):
        self.assertIn("has no MIG", self.run_cli("apply", "none", "--gpu", 0, "--emulated", self.node("v100-16gb"), "--yes",
                                                 expect=PRECONDITION).stderr)
        node = self.node("h100-80gb")
        self.assertIn("there is no device 3", self.run_cli("plan", "1g.10gb", "--gpu", 3, "--emulated", node,
                                                           expect=NOT_FOUND).stderr)
        self.run_cli("apply", "--gpu", 0, "--emulated", node, expect=INVALID)
        self.run_cli("apply", "1g.10gb", "--emulated", node, expect=2)
        self.run_cli("ls", "--nvml", self.folder / "nothing.so", expect=UNAVAILABLE)

    def test_an_emulated_node_that_is_not_there_is_not_made(self):
        node = self.folder / "typo.node"
        for verb in ("ls", "plan", "apply"):
            given = [] if verb == "ls" else ["3*2g.20gb,1g.10gb", "--gpu", 0]
            self.assertIn("no emulated node", self.run_cli(verb, *given, "--emulated", node, expect=NOT_FOUND).stderr)
        self.assertFalse(node.exists())

    def test_emulated_slices_promise_nothing(self):
        gpu, = json.loads(self.run_cli("ls", "--emulated", self.node("a100-80gb-mig"), "--json").stdout)
        self.assertEqual({slice["memory_isolated"] for slice in gpu["slices"]}, {False})
        self.assertEqual({one["memory_isolated"] or one["fault_isolated"] for one in gpu["sharing"]}, {False})


if __name__ == "__main__":
    unittest.main()
