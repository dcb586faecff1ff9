"""Pipelines whose components are models of torch that misbehave: what they hand on that cannot be, what they raise, how they end. Each
request gets an error that says why, the others of its job their answers. Skipped where there is no torch."""
import unittest

from pipeline_apps import Folder

from lambent.pipeline import PipelineError, stage_processes

try:
    import torch
except ImportError:
    torch = None

APP = """
import os

import torch

from lambent.pipeline import Module, Pipeline

MADE = {
    "same": lambda x: x,
    "shape": lambda x: torch.zeros(int(x.sum()), 3),
    "empty": lambda x: x[:0],
    "transposed": lambda x: x.reshape(1, -1).expand(3, -1).t(),
    "complex": lambda x: torch.complex(x, -x).conj(),
    "bfloat16": lambda x: x.to(torch.bfloat16),
    "sparse": lambda x: torch.diag(x).to_sparse(),
    "sparse_csr": lambda x: torch.diag(x).to_sparse_csr(),
    "nested": lambda x: torch.nested.nested_tensor([x, x[:1]]),
    "meta": lambda x: x.to("meta"),
    "quantised": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "cuda": lambda x: x.cuda(),
    "object": lambda x: object(),
    "module": lambda x: torch.nn.Linear(1, 1),
    "raise": lambda x: torch.ones(2) @ torch.ones(3),
    "exit": lambda x: exit(3),
    "_exit": lambda x: os._exit(4),
    "abort": lambda x: os.abort(),
}


class First(Module):
    name = "first"

    def setup(self):
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, value):
        return {"made": MADE[value["how"]](torch.tensor(value["x"]) * self.scale)}


class Second(Module):
    name = "second"

    def forward(self, value):
        made = value["made"]
        shown = torch.view_as_real(made.resolve_conj()) if made.is_complex() else made.float()
        return {"dtype": str(made.dtype), "shape": list(made.shape), "values": shown.flatten().tolist()}


class App(Pipeline):
    def define_dag(self, value):
        return self.register("second", Second, self.register("first", First, value))

    def decode(self, event):
        return {"value": event}

    def encode(self, outputs):
        return outputs["second"]
"""

CUT = [["first"], ["second"]]


@unittest.skipIf(torch is None, "there is no torch: Debian's python3-torch will do")
class TorchPipelineTest(Folder):
    def setUp(self):
        super().setUp()
        self.write(APP)
        self.import_anew()

    def start(self):
        local = stage_processes.LocalStageProcesses("app.App", CUT, self.folder)
        self.addCleanup(local.close)
        return local

    def ask(self, local, *hows):
        return local.run([{"how": how, "x": [1.0, 2.0]} for how in hows])

    def test_what_a_channel_can_carry_arrives_as_it_is(self):
        answers = [answer["value"] for answer in self.ask(self.start(), "same", "shape", "empty", "transposed", "complex", "bfloat16")]
        self.assertEqual(answers, [
            {"dtype": "torch.float32", "shape": [2], "values": [2, 4]},
            {"dtype": "torch.float32", "shape": [6, 3], "values": [0] * 18},
            {"dtype": "torch.float32", "shape": [0], "values": []},
            {"dtype": "torch.float32", "shape": [2, 3], "values": [2, 2, 2, 4, 4, 4]},
            {"dtype": "torch.complex64", "shape": [2], "values": [2, 2, 4, 4]},
            {"dtype": "torch.bfloat16", "shape": [2], "values": [2, 4]}])

    def test_what_it_cannot_carry_is_refused_by_its_name_and_spoils_no_other_request(self):
        local = self.start()
        for how, words in (("sparse", "layout torch.sparse_coo cannot be handed on: hand on to_dense()"),
                           ("sparse_csr", "layout torch.sparse_csr cannot be handed on"),
                           ("nested", "layout torch.nested cannot be handed on"),
                           ("meta", "a tensor on meta cannot be handed on"), ("quantised", "a tensor of torch.quint8 cannot be handed on"),
                           ("object", "it holds a object"), ("module", "it holds a Linear")):
            with self.subTest(how):
                before, refused, after = self.ask(local, "same", how, "same")
                self.assertEqual((before["value"]["values"], after["value"]["values"]), ([2, 4], [2, 4]))
                self.assertIn(words, refused["error"]["errorMessage"])

    def test_what_it_raises_is_its_own_error(self):
        local = self.start()
        before, raised, after = self.ask(local, "same", "raise", "same")
        self.assertEqual((before["value"]["values"], after["value"]["values"]), ([2, 4], [2, 4]))
        self.assertEqual(raised["error"]["errorType"], "RuntimeError")
        if not torch.cuda.is_available():
            self.assertRegex(self.ask(local, "cuda")[0]["error"]["errorMessage"], "(?i)cuda|nvidia")

    def test_one_that_ends_its_process_fails_its_job_and_others_can_be_started(self):
        for how in "exit", "_exit", "abort":
            with self.subTest(how):
                with self.assertRaises(PipelineError) as failure:
                    self.ask(self.start(), how)
                self.assertIn("stage process 0", str(failure.exception))
                self.assertEqual(self.ask(self.start(), "same")[0]["value"]["values"], [2, 4])


if __name__ == "__main__":
    unittest.main()
