"""The worker and NVIDIA's own driver library on a machine without a device: which GPUs it takes by itself, what it says, how it refuses. What needs no
such library is tried without it too.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
import libraries

WITH_GPU = any(re.fullmatch(r"nvidia\d+", path.name) for path in pathlib.Path("/dev").iterdir()) or os.path.exists("/sys/module/nvidia/version")


def serve(*flags):
    """A start that is refused: (exit code, what it said)."""
    folder = tempfile.mkdtemp(prefix="lambent-test-")
    try:
        done = subprocess.run([harness.PREFIX / "bin/lambent", "serve", "--state", f"{folder}/state", "--run", f"{folder}/run", "--listen",
                               "127.0.0.1:0", *flags], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr
    finally:
        shutil.rmtree(folder)


def first_line(*flags, gpu="auto"):
    """The first event of a worker's log above those for debugging."""
    with contextlib.closing(harness.Worker(*flags, gpu=gpu)) as worker:
        lines = [json.loads(line) for line in worker.log().splitlines() if line.startswith("{")]
    return next(line for line in lines if line["level"] != "debug" and line["event"] != "weaker_limit")


def doctor(*flags):
    done = subprocess.run([harness.PREFIX / "bin/lambent", "doctor", "--json", *flags], capture_output=True, text=True, timeout=60)
    return next(one for one in json.loads(done.stdout)["findings"] if one["subject"] == "GPU")


@unittest.skipIf(WITH_GPU, "this machine has a GPU of NVIDIA's")
class WithoutADevice(unittest.TestCase):
    def test_a_worker_takes_the_emulated_gpu_and_says_why_first(self):
        told = first_line()
        self.assertEqual((told["event"], told["level"]), ("gpus", "info"))
        self.assertIn("emulated", told["gpus"])
        self.assertIn("no driver of NVIDIA's is loaded", told["why"])
        self.assertIn("no driver of NVIDIA's is loaded", doctor()["says"])

    def test_flags_override_it_and_need_no_reason(self):
        self.assertNotIn("why", first_line(gpu="emulated:tiny"))
        self.assertNotIn("why", first_line("--memory-scale", "16"))
        self.assertEqual(first_line(gpu="none")["gpus"], "none")

    def test_gpus_that_were_asked_for_and_are_not_there_are_refused_at_once(self):
        code, said = serve("--gpu", "nvidia")
        self.assertNotEqual(code, 0)
        self.assertRegex(said, r"^lambent serve: FAILED_PRECONDITION: --gpu nvidia: .*no driver of NVIDIA's is loaded.*--gpu emulated needs no GPU\n$")

    def test_a_folder_without_the_library_is_refused(self):
        code, said = serve("--gpu", "nvidia", "--nvidia-driver", "/nowhere")
        self.assertNotEqual(code, 0)
        self.assertEqual(said, "lambent serve: NOT_FOUND: --nvidia-driver: there is no libcuda.so.1 in /nowhere\n")


@unittest.skipIf(WITH_GPU, "this machine has a GPU of NVIDIA's")
class WithTheLibrary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        libraries.need_driver()

    def test_a_worker_asks_it_and_takes_the_emulated_gpu(self):
        why = f"there is {libraries.DRIVER}, but no driver of NVIDIA's is loaded and no /dev/nvidia0 (cuInit: CUDA_ERROR_NO_DEVICE (100))"
        told = first_line("--nvidia-driver", str(libraries.FOLDER))
        self.assertEqual((told["event"], told["why"]), ("gpus", why))
        self.assertIn("emulated", told["gpus"])
        found = doctor("--nvidia-driver", str(libraries.FOLDER))
        self.assertEqual((found["health"], found["says"]), ("good", why + ": lambent serve uses an emulated one"))
        self.assertIn("--gpus all", found["remedy"])

    def test_a_worker_that_was_told_to_use_it_refuses_with_the_remedy(self):
        code, said = serve("--gpu", "nvidia", "--nvidia-driver", str(libraries.FOLDER))
        self.assertNotEqual(code, 0)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn(f"--gpu nvidia: there is {libraries.DRIVER}", said)
        self.assertIn("docker run --gpus all", said)

    def test_lambent_device_says_what_the_driver_said(self):
        done = subprocess.run([harness.PREFIX / "bin/lambent-device", "--describe-driver"], capture_output=True, text=True, timeout=60,
                              env=libraries.environment_of("bare", ""))
        self.assertEqual(done.stderr, "lambent-device: UNAVAILABLE: cuInit: CUDA_ERROR_NO_DEVICE (100)\n")
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
