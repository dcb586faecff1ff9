"""perf_analyzer, Triton's load generator, unmodified as PyPI has it: by HTTP and gRPC, with tensors in the request and in system shared memory,
with answers that it compares with those it was told."""
import csv
import json
import re
import subprocess
import unittest

import numpy as np

import model_shapes
from model_worker import ROOT, UV, WEIGHTS, deploy_model, matrix_model
from test_shared_memory import Harness

# tools/dev/perf_analyzer.sh installs it.
INSTALLED = ROOT / ".cache/perf_analyzer"
PROGRAM = INSTALLED / "perf_analyzer/bin/perf_analyzer"
LIBRARIES = INSTALLED / "libraries"
VALUES = np.arange(8, dtype=np.float32).reshape(2, 4)
REQUESTS = 60


def command():
    """The program, by the libraries beside it where this system's are too old for it."""
    loader = LIBRARIES / "ld-linux-x86-64.so.2"
    return [str(loader), "--library-path", str(LIBRARIES), str(PROGRAM)] if loader.exists() else [str(PROGRAM)]


@unittest.skipUnless(UV.exists(), "there is no uv in .venv")
@unittest.skipUnless(PROGRAM.exists(), "perf_analyzer is not installed: ./dev test --all installs it")
class PerfAnalyzerTest(Harness):
    @classmethod
    def setUpClass(cls):
        cls.start_with_library()
        # It compares outputs only where the model says their whole shape.
        net = model_shapes.Net()
        fixed = net.model(scores=net("MatMul", net.input("x", VALUES.shape), net.constant(WEIGHTS)))
        deploy_model(cls.worker, cls.folder / "scores.onnx", fixed.SerializeToString())
        deploy_model(cls.worker, cls.folder / "open.onnx", matrix_model(WEIGHTS))

    def run_it(self, protocol, *flags, expected=VALUES @ WEIGHTS):
        """How it ended, and the rows of its CSV file. It compares each answer with `expected`, which it does not where outputs are shared."""
        content = {"data": [{"x": {"content": VALUES.flatten().tolist(), "shape": list(VALUES.shape)}}]}
        if "--shared-memory" not in flags:
            content["validation_data"] = [{"scores": {"content": expected.flatten().tolist(), "shape": list(expected.shape)}}]
        data, table = self.folder / "data.json", self.folder / "table.csv"
        data.write_text(json.dumps(content))
        table.unlink(missing_ok=True)
        address = self.worker.endpoint.removeprefix("http://") if protocol == "http" else self.front.address
        ended = subprocess.run([*command(), "-m", "scores", "-i", protocol, "-u", address, "--input-data", str(data), "-f", str(table),
                                "--request-count", str(REQUESTS), *flags], capture_output=True, text=True, timeout=120, check=False)
        return ended, list(csv.DictReader(table.read_text().splitlines())) if table.exists() else []

    def answered(self):
        counted = [line for line in self.worker.metrics().splitlines() if line.startswith('nv_inference_request_success{model="scores",')]
        return float(counted[0].rpartition(" ")[2]) if counted else 0

    def test_it_measures_by_both_protocols_and_the_answers_are_right(self):
        for protocol, *flags in (("http",), ("http", "--async"), ("grpc",), ("grpc", "--async", "--streaming"),
                                 ("http", "--shared-memory", "system"), ("grpc", "--shared-memory", "system")):
            with self.subTest(protocol=protocol, flags=flags):
                before = self.answered()
                ended, rows = self.run_it(protocol, "--concurrency-range", "2", *flags)
                self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                self.assertRegex(ended.stdout, r"Inferences/Second vs\. Client")
                self.assertGreaterEqual(self.answered() - before, REQUESTS)
                self.assertEqual(len(rows), 1)
                self.assertGreater(float(rows[0]["Inferences/Second"]), 0)
                # What it asked the server's statistics for: they are of this model, and not empty.
                self.assertGreaterEqual(float(rows[0]["Server Compute Infer"]), 0)

    def test_it_clears_the_regions_that_it_registered(self):
        ended, _ = self.run_it("http", "--shared-memory", "system")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual(self.worker.request("GET", "/v2/systemsharedmemory/status").json, [])

    def test_other_answers_than_it_was_told_are_noticed(self):
        ended, _ = self.run_it("http", expected=VALUES @ WEIGHTS + 1)
        self.assertNotEqual(ended.returncode, 0)
        self.assertTrue(re.search("output|data|match", ended.stdout + ended.stderr, re.IGNORECASE), ended.stdout + ended.stderr)

    def test_a_model_of_open_shape_takes_the_shape_that_it_is_told(self):
        for shape, ends_well in (("x:3,4", True), ("x:3,5", False)):
            ended = subprocess.run([*command(), "-m", "open", "-u", self.worker.endpoint.removeprefix("http://"), "--request-count", "20",
                                    "--shape", shape], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(ended.returncode == 0, ends_well, ended.stdout + ended.stderr)

    def test_a_model_that_is_not_there_is_told(self):
        ended = subprocess.run([*command(), "-m", "none", "-u", self.worker.endpoint.removeprefix("http://"), "--request-count", "5"],
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("none", ended.stdout + ended.stderr)


if __name__ == "__main__":
    unittest.main()
