"""examples/33_torch_pipeline, a pipeline of torch modules: in one piece and over slices it answers as the same modules in one process."""
import json
import unittest

from frameworks import FrameworkTest

# All modules in one process, without stages.
WHOLE = """
import app

APP = app.App()


def handler(event, context):
    return APP.run(event)
"""
MANIFEST = 'name = "whole"\nruntime = "python3"\nhandler = "whole.handler"\nmemory = "2G"\ntimeout_s = 120\n[python]\nrequirements = ["torch", "numpy"]\n'
COMPONENTS = ("backbone", "segment", "classify")
EVENTS = [*({"picture": number} for number in range(4)), {"pixels": [[[0.5] * 16] * 8] * 3}]


class TorchPipelineTest(FrameworkTest):
    gpu = "emulated:a100-80gb-mig"  # 3g.40gb, 2g.20gb, 2g.20gb
    flags = ("--pipeline-slices", "all")

    def stages(self):
        instances = self.worker.request("GET", "/v1/functions/torch_pipeline/pipeline").json["instances"]
        return [[lane["components"] for lane in stage] for stage in instances[0]["stages"]]

    def check(self, expected):
        for event, right in zip(EVENTS, expected):
            told = self.answer("torch_pipeline", event)
            self.assertEqual(told["points"], right["points"], event)
            for chance, other in zip(told["chances"], right["chances"], strict=True):
                self.assertAlmostEqual(chance, other, places=3)

    def test_it_answers_the_same_in_one_process_in_one_stage_and_in_several(self):
        example = self.copy_of("33_torch_pipeline")
        self.deploy_whole(example, WHOLE, MANIFEST)
        expected = [self.answer("whole", event) for event in EVENTS]
        self.assertEqual(len({tuple(one["points"]) for one in expected}), len(EVENTS), "all pictures look alike")
        self.assertEqual([sum(one["points"]) for one in expected], [64 * 64] * 4 + [8 * 16])

        self.lambent("deploy", str(example))
        self.check(expected)
        self.assertEqual(self.stages(), [[list(COMPONENTS)]])
        reply = self.worker.invoke("torch_pipeline", {"pixels": [[[0.5] * 7] * 8] * 3})
        self.assertIn("multiples of 8", reply.json["errorMessage"])

        # As if no slice could hold it all.
        each = {"weights_mb": 14000, "memory_mb": 15000, "output_bytes": 100000, "probability": 1, "ms": {"2g.20gb": 20, "3g.40gb": 14}}
        (example / "code/profile.json").write_text(json.dumps({
            "profile": 1, "context_mb": 500, "start_ms": 300, "components": dict.fromkeys(COMPONENTS, each),
            "shapes": {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968}, "3g.40gb": {"multiprocessors": 42, "memory_mb": 40192}}}))
        self.lambent("deploy", str(example))
        self.check(expected)
        stages = self.stages()
        self.assertGreater(len(stages), 1, stages)
        self.assertEqual(sorted(name for stage in stages for lane in stage for name in lane), sorted(COMPONENTS))


if __name__ == "__main__":
    unittest.main()
