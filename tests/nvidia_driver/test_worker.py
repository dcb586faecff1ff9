"""The worker and NVIDIA's own driver library on a machine without a device: which GPUs it takes by itself, what it says, how it refuses. What needs no
such library is tried without it too.
"""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import harness
import libraries


def serve(*flags):
    """A start that is refused: (exit code, what it said)."""
    folder = tempfile.mkdtemp(prefix="lambent-test-")
    try:
        done = subprocess.run([harness.PREFIX / "bin/lambent", "serve", "--state", f"{folder}/state", "--run", f"{folder}/run", "--listen",
                               "127.0.0.1:0", *flags], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr
    finally:
        shutil.rmtree(folder)


def first_line(*flags, gpu="auto", **how):
    """The first event of a worker's log above those for debugging."""
    with contextlib.closing(harness.Worker(*flags, gpu=gpu, **how)) as worker:
        lines = [json.loads(line) for line in worker.log().splitlines() if line.startswith("{")]
    return next(line for line in lines if line["level"] != "debug" and line["event"] != "weaker_limit")


def doctor(*flags):
    done = subprocess.run([harness.PREFIX / "bin/lambent", "doctor", "--json", *flags], capture_output=True, text=True, timeout=60)
    return next(one for one in json.loads(done.stdout)["findings"] if one["subject"] == "GPU")


@unittest.skipIf(libraries.WITH_GPU, "this machine has a GPU of NVIDIA's")
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


@unittest.skipIf(libraries.WITH_GPU, "this machine has a GPU of NVIDIA's")
class OnAMachineThatLooksAsIfItHadOne(unittest.TestCase):
    """Device files and a module that are made up, in a mount namespace; the emulated libraries stand in for NVIDIA's."""

    VERSION = "580.95"

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lambent-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(f"{self.folder}/dev")
        self.within = ("unshare", "-m", "bash", str(libraries.HERE / "machine_with_gpu.sh"), self.VERSION, f"{self.folder}/dev")
        tried = subprocess.run([*self.within, "test", "-c", "/dev/nvidia0"], capture_output=True, text=True)
        if tried.returncode:
            self.skipTest(f"such a machine cannot be made here: {tried.stderr.strip()}")
        node = f"{self.folder}/node"
        subprocess.run([harness.PREFIX / "bin/emulated-gpu", "create", "--node", node, "--config", "tiny"], check=True, capture_output=True)
        self.environment = {"EMULATED_CUDA_NODE": node}

    def doctor(self, library_folder):
        done = subprocess.run([*self.within, harness.PREFIX / "bin/lambent", "doctor", "--json", "--nvidia-driver", library_folder],
                              env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=60)
        return next(one for one in json.loads(done.stdout)["findings"] if one["subject"] == "GPU")

    def test_a_worker_takes_its_gpus_by_itself(self):
        folder = str(libraries.EMULATED.parent)
        told = first_line("--nvidia-driver", folder, environment=self.environment, within=self.within)
        self.assertEqual((told["event"], told["level"], told["why"]), ("gpus", "info", f"1 by driver {self.VERSION}"))
        self.assertRegex(told["gpus"], r"^0: .+ GPU, 1 GiB$")  # and does not call it emulated
        self.assertEqual(self.doctor(folder), {"health": "good", "subject": "GPU", "says": f"1 by driver {self.VERSION}",
                                               "remedy": "lambent serve uses them"})

    def test_one_that_cannot_be_used_is_a_warning_with_the_remedy(self):
        libraries.need_driver()  # NVIDIA's own, which finds no device behind the files
        told = first_line("--nvidia-driver", str(libraries.FOLDER), within=self.within)
        self.assertEqual((told["event"], told["level"]), ("gpus", "warning"))
        self.assertIn("emulated", told["gpus"])
        self.assertRegex(told["why"], r"^driver 580.95 is loaded, but CUDA does not start: cuInit: CUDA_ERROR_\w+ \(\d+\); .* has to be of the same version")
        self.assertEqual(self.doctor(str(libraries.FOLDER))["health"], "bad")

    def test_a_worker_that_was_told_to_use_it_ends_with_the_remedy(self):
        libraries.need_driver()
        done = subprocess.run([*self.within, harness.PREFIX / "bin/lambent", "serve", "--gpu", "nvidia", "--nvidia-driver", libraries.FOLDER,
                               "--state", f"{self.folder}/state", "--run", f"{self.folder}/run", "--listen", "127.0.0.1:0"],
                              capture_output=True, text=True, timeout=90)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr.splitlines()[-1], r"^lambent serve: UNAVAILABLE: NVML told of no GPU within 15 s: driver 580.95 is loaded, but CUDA")


@unittest.skipIf(libraries.WITH_GPU, "this machine has a GPU of NVIDIA's")
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
