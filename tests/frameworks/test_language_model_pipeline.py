"""examples/36_language_model_pipeline: in one process and over slices it writes what the network writes that reads everything again for each token."""
import json
import unittest

from frameworks import FrameworkTest

# Without stages, and without keys and values that are kept.
WHOLE = """
import app
import torch


def handler(event, context):
    network = app.Decoder()
    network.setup()
    network.eval()
    tokens = torch.tensor([list(event["prompt"].encode())])
    with torch.inference_mode():
        for _ in range(event["count"]):
            tokens = torch.cat((tokens, network.run(tokens, None)[0]), 1)
    return {"tokens": tokens[0, len(event["prompt"].encode()):].tolist()}
"""
MANIFEST = 'name = "whole"\nruntime = "python3"\nhandler = "whole.handler"\nmemory = "2G"\ntimeout_s = 120\n[python]\nrequirements = ["torch", "numpy"]\n'
EVENTS = [{"prompt": "Once upon a time", "count": 24}, {"prompt": "x", "count": 1}, {"prompt": "GPU " * 100, "count": 64}]


class LanguageModelPipelineTest(FrameworkTest):
    gpu = "emulated:a100-80gb-mig"
    flags = ("--pipeline-slices", "0:1,0:2")  # both of 2g.20gb: the 3g.40gb would hold it in one piece

    def stages(self):
        instances = self.worker.request("GET", "/v1/functions/language_model/pipeline").json["instances"]
        return [[lane["components"] for lane in stage] for stage in instances[0]["stages"]]

    def test_what_is_read_in_one_stage_is_gone_on_with_in_the_next(self):
        example = self.copy_of("36_language_model_pipeline")
        self.deploy_whole(example, WHOLE, MANIFEST)
        expected = [self.answer("whole", event) for event in EVENTS]
        self.assertGreater(len(set(expected[2]["tokens"])), 1, "it writes one token for ever, which tells nothing")

        self.lambent("deploy", str(example))
        self.assertEqual([self.answer("language_model", event) for event in EVENTS], expected)
        self.assertEqual(self.stages(), [[["prefill", "decode"]]])
        for event, message in (({"prompt": ""}, "1 to 512 bytes"), ({"prompt": "x", "count": 65}, "'count' is 1 to 64")):
            self.assertIn(message, self.worker.invoke("language_model", event).json["errorMessage"])

        # As if no slice could hold both.
        each = {"weights_mb": 14000, "memory_mb": 15000, "output_bytes": 100000, "probability": 1, "ms": {"2g.20gb": 20}}
        (example / "code/profile.json").write_text(json.dumps({
            "profile": 1, "context_mb": 500, "start_ms": 300, "components": dict.fromkeys(("prefill", "decode"), each),
            "shapes": {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968}}}))
        self.lambent("deploy", str(example))
        self.assertEqual([self.answer("language_model", event) for event in EVENTS], expected)
        self.assertEqual(self.stages(), [[["prefill"]], [["decode"]]])


if __name__ == "__main__":
    unittest.main()
