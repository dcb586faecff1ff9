#!/usr/bin/env python3
"""What bench models says of its part through a worker where something is missing: a program, a library, any answer."""
import pathlib
import random
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import models_worker  # noqa: E402


class ModelsWorkerTest(unittest.TestCase):
    def test_latencies_are_of_what_was_answered(self):
        figures = models_worker.figures({"a": [0.5, None], "b": [1.5]})
        self.assertEqual((figures["calls"], figures["failed"], figures["mean_s"], figures["p99_s"]), (3, 1, 1.0, 1.5))
        self.assertEqual(models_worker.over(figures, {"mean_s": 0.5, "p50_s": 3.0, "p99_s": 1.5}), {"mean_s": 2, "p50_s": 0.5, "p99_s": 1})

    def test_there_are_none_where_nothing_was_answered(self):
        none = models_worker.figures({"a": [None, None]})
        self.assertEqual(none, {"calls": 2, "failed": 2, "mean_s": None, "p50_s": None, "p99_s": None})
        self.assertEqual(models_worker.figures({})["calls"], 0)
        some = models_worker.figures({"a": [1.0]})
        for pair in ((none, some), (some, none)):
            self.assertEqual(set(models_worker.over(*pair).values()), {None})

    def test_what_is_missing_is_the_reason_to_skip(self):
        with mock.patch.object(models_worker, "find_library", lambda: None), mock.patch.object(models_worker.shutil, "which", lambda _: "/bin/sh"):
            self.assertIn("there is no onnxruntime", models_worker.run(True, random.Random(1))["skipped"])
        with mock.patch.object(models_worker, "ROOT", pathlib.Path("/none")), mock.patch.object(models_worker.shutil, "which", lambda _: None):
            self.assertEqual(models_worker.run(True, random.Random(1)), {"skipped": "there is no uv", "systems": {}})


if __name__ == "__main__":
    unittest.main()
