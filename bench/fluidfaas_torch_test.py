"""What bench paper-fluidfaas-worker does with PyTorch networks, as far as that needs no PyTorch."""
import io
import json
import pathlib
import unittest
import zipfile

import fluidfaas_torch

RIGHT = {"shape": [1, 3], "mean": 2.0, "spread": 1.0, "points": [1.0, 2.0, 3.0]}
NETWORKS = {name: {"ms": 10.0, "output_bytes": 12} for name in ("a", "b", "c")}


class FluidFaasTorchTest(unittest.TestCase):
    def test_an_answer_is_right_up_to_rounding(self):
        self.assertTrue(fluidfaas_torch.is_same(RIGHT, RIGHT))
        self.assertTrue(fluidfaas_torch.is_same({**RIGHT, "mean": 2.00001}, RIGHT))
        for wrong in ({"mean": 2.1}, {"shape": [3]}, {"points": [1.0, 2.0, 3.1]}, {"spread": 0.9}):
            self.assertFalse(fluidfaas_torch.is_same({**RIGHT, **wrong}, RIGHT), wrong)
        self.assertFalse(fluidfaas_torch.is_same({"errorMessage": "no"}, RIGHT))
        self.assertFalse(fluidfaas_torch.is_same(None, RIGHT))

    def test_arrivals_come_in_order_at_about_the_rate_and_again_for_the_same_seed(self):
        arrivals = fluidfaas_torch.arrivals_of(["a", "b"], 10, 100, 7)
        self.assertEqual(arrivals, sorted(arrivals, key=lambda one: one[0]))
        self.assertEqual(arrivals, fluidfaas_torch.arrivals_of(["a", "b"], 10, 100, 7))
        self.assertTrue(800 < len(arrivals) < 1200, len(arrivals))
        self.assertEqual({name for _, name, _ in arrivals}, {"a", "b"})
        self.assertLess(max(number for _, _, number in arrivals), fluidfaas_torch.PICTURES)

    def test_a_function_of_three_networks_fits_the_larger_slice_alone(self):
        with zipfile.ZipFile(io.BytesIO(fluidfaas_torch.package(["a", "b", "c"], NETWORKS))) as packed:
            profile, pipeline = json.loads(packed.read("profile.json")), json.loads(packed.read("pipeline.json"))
        whole = fluidfaas_torch.CONTEXT_MB + sum(one["weights_mb"] for one in profile["components"].values()) + fluidfaas_torch.WORKING_MB
        self.assertGreater(whole, fluidfaas_torch.SHAPES["2g.20gb"]["memory_mb"])
        self.assertLess(whole, fluidfaas_torch.SHAPES["3g.40gb"]["memory_mb"])
        self.assertEqual([one["inputs"] for one in pipeline["components"]], [["$value"], ["a"], ["b"]])

    def test_without_pytorch_nothing_runs_and_the_reason_is_told(self):
        before, fluidfaas_torch.TORCH = fluidfaas_torch.TORCH, pathlib.Path("/nowhere")
        try:
            told = fluidfaas_torch.rows(pathlib.Path("/nowhere"), True, 1)
        finally:
            fluidfaas_torch.TORCH = before
        self.assertIn("tools/torch_environment.py", told["why_not"])


if __name__ == "__main__":
    unittest.main()
