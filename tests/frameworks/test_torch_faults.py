"""Torch modules over two slices that raise, change their shape, leave the device, want more memory than there is or end their process: the request
is told what was wrong, and the next one and a neighbour are served, after all but the last by the processes of before."""
import json
import threading
import time
import unittest

from frameworks import FrameworkTest

CODE = """
import os

import torch
from lambent.pipeline import Module, Pipeline
from torch import nn


class First(Module):
    def setup(self):
        self.process = os.urandom(8).hex()  # numbers of processes are the same in each sandbox
        torch.manual_seed(1)
        self.layer = nn.Linear(4, 8)

    def forward(self, picture, do):
        value = self.layer(picture)
        if do == "raise":
            raise ValueError("no such picture")
        if do == "change":
            value = value[:, :3]
        if do == "meta":
            value = value.to("meta")
        if do == "sparse":
            value = value.to_sparse()
        if do == "want":
            value = torch.zeros(1 << 50)
        if do == "end":
            os._exit(7)
        return {"value": value, "process": self.process}


class Second(Module):
    def setup(self):
        torch.manual_seed(2)
        self.layer = nn.Linear(8, 2)

    def forward(self, both):
        return {"value": self.layer(both["value"]), "process": both["process"]}


class App(Pipeline):
    def define_dag(self, picture, do):
        return self.register("second", Second, self.register("first", First, picture, do))

    def decode(self, event):
        return {"picture": torch.tensor([event["numbers"]]), "do": event.get("do", "")}

    def encode(self, outputs):
        return {"numbers": outputs["second"]["value"][0].tolist(), "process": outputs["second"]["process"]}
"""
PIPELINE = {"pipeline": 1, "handler": "app.App", "inputs": ["picture", "do"], "outputs": ["second"],
            "components": [{"name": "first", "inputs": ["$picture", "$do"]}, {"name": "second", "inputs": ["first"]}]}
# As if no slice could hold both.
EACH = {"weights_mb": 14000, "memory_mb": 15000, "output_bytes": 1000, "probability": 1, "ms": {"2g.20gb": 20}}
PROFILE = {"profile": 1, "context_mb": 500, "start_ms": 300, "components": {"first": EACH, "second": EACH},
           "shapes": {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968}}}
MANIFEST = ('kind = "pipeline"\nname = "%s"\nruntime = "python3"\nmemory = "2G"\ntimeout_s = 120\n'
            '[python]\nrequirements = ["torch", "numpy"]\n[gpu]\nmemory = "%s"\n')
NUMBERS = [0.5, -1.0, 2.0, 0.25]


class TorchFaultsTest(FrameworkTest):
    gpu = "emulated:a100-80gb-mig"  # 3g.40gb, which the neighbour takes, and two of 2g.20gb
    flags = ("--pipeline-slices", "all")

    def package(self, name, profile, memory):
        folder = self.write(name, CODE, MANIFEST % (name, memory))
        (folder / "pipeline.json").write_text(json.dumps(PIPELINE))
        if profile:
            (folder / "profile.json").write_text(json.dumps(profile))
        self.lambent("deploy", str(folder))

    def good(self, name="faulty"):
        return self.answer(name, {"numbers": NUMBERS})

    def error(self, do):
        reply = self.worker.invoke("faulty", {"numbers": NUMBERS, "do": do})
        self.assertIn("x-amz-function-error", reply.headers, do)
        return f"{reply.json['errorType']}: {reply.json['errorMessage']}"

    def test_a_request_that_fails_fails_by_itself(self):
        self.package("neighbour", None, "30G")
        expected = self.good("neighbour")["numbers"]
        self.package("faulty", PROFILE, "2G")
        first = self.good()
        self.assertEqual(first["numbers"], expected)
        stages = self.worker.request("GET", "/v1/functions/faulty/pipeline").json["instances"][0]["stages"]
        self.assertEqual([[lane["components"] for lane in stage] for stage in stages], [[["first"]], [["second"]]])

        done, neighbours, failures = threading.Event(), [], []

        def ask_the_neighbour():
            try:
                while not done.is_set():
                    neighbours.append(self.good("neighbour")["numbers"])
            except Exception as error:  # told below, in the test's own thread
                failures.append(error)

        thread = threading.Thread(target=ask_the_neighbour)
        thread.start()
        try:
            for do, says in (("raise", "ValueError: .*no such picture"), ("change", "RuntimeError: .*shapes cannot be multiplied"),
                             ("meta", "a tensor on meta cannot be handed on"), ("sparse", r"sparse_coo cannot be handed on: hand on to_dense\(\)"),
                             ("want", "RuntimeError: .*memory")):
                before = len(neighbours)
                self.assertRegex(self.error(do), f"(?s){says}")
                self.assertEqual(self.good(), first, f"after '{do}', by the process of before")
                # However busy the machine is, the neighbour's next answer comes.
                until = time.monotonic() + 120
                while len(neighbours) == before and not failures and time.monotonic() < until:
                    time.sleep(0.01)
                self.assertTrue(failures or len(neighbours) > before, f"after '{do}' the neighbour is not served")
            self.assertRegex(self.error("end"), r"Runtime.ExitError: .*exit status 7 in stage 0 \(first\)")
            after = self.good()
            self.assertEqual(after["numbers"], first["numbers"])
            self.assertNotEqual(after["process"], first["process"], "it was started again")
        finally:
            done.set()
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual({tuple(each) for each in neighbours}, {tuple(expected)})


if __name__ == "__main__":
    unittest.main()
