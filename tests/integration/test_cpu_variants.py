"""Functions that run on a GPU or, where that serves them better, on the host's processors."""
import subprocess
import threading

from harness import PREFIX, WorkerTest, make_zip
from test_gpu import GpuTest

# Says where it runs; with a GPU it holds some of its memory and occupies it for as long as it is asked to.
EITHER = """
import os, pathlib, time

calls = 0
if os.environ["LAMBENT_DEVICE"] == "gpu":
    import lambent_cuda as cuda
    device = cuda.Device()
    held = device.buffer(1 << 20)

def answer(event, by):
    global calls
    calls += 1
    time.sleep(event.get("seconds", 0))  # the run itself, which holds its place meanwhile
    if event.get("fail"):
        raise ValueError("asked to")
    return {"on": os.environ["LAMBENT_DEVICE"], "by": by, "calls": calls, "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "driver": any(pathlib.Path("/opt/lambent").glob("driver/libcuda*"))}

def handler(event, context):
    return answer(event, "handler")

def on_cpu(event, context):
    return answer(event, "on_cpu")
"""
VARIANT = {"lambent:gpu-memory": "64MiB", "lambent:cpu-variant": "true", "lambent:cpu-handler": "app.on_cpu",
           "lambent:gpu-speedup": "2"}


class CpuVariants(GpuTest):
    """One GPU that runs one invocation at a time; what would wait longer than the host takes goes there."""
    flags = ("--concurrency", "1", "--set", "hybrid=queueing")

    def create(self, name, tags):
        self.worker.create(name, make_zip({"app.py": EITHER}), tags=tags)
        self.addCleanup(self.worker.delete, name)

    def test_the_gpu_serves_while_it_is_free_and_the_host_while_it_is_not(self):
        self.create("either", VARIANT)
        first = self.worker.invoke("either", {})
        self.assertEqual((first.json["on"], first.json["by"], first.headers["x-lambent-device"]), ("gpu", "handler", "0"))
        replies = []
        callers = [threading.Thread(target=lambda: replies.append(self.worker.invoke("either", {"seconds": 2})))
                   for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        where = sorted((reply.json["on"], reply.headers["x-lambent-device"]) for reply in replies)
        self.assertIn(("gpu", "0"), where)
        self.assertIn(("cpu", "cpu"), where)
        on_cpu = next(reply.json for reply in replies if reply.json["on"] == "cpu")
        self.assertEqual(on_cpu["by"], "on_cpu")
        self.assertEqual(on_cpu["visible"], "")
        self.assertFalse(on_cpu["driver"], "the CPU variant's sandbox shows a GPU driver")
        places = {sandbox["device"] for sandbox in self.worker.sandboxes() if sandbox["function"] == "either"}
        self.assertEqual(places, {0, 1})

    def test_a_function_without_variant_waits_for_the_gpu(self):
        self.create("gpu-only", {"lambent:gpu-memory": "64MiB"})
        replies = []
        callers = [threading.Thread(target=lambda: replies.append(self.worker.invoke("gpu-only", {"seconds": 0.3})))
                   for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        self.assertEqual({reply.json["on"] for reply in replies}, {"gpu"})

    def test_bad_declarations_are_refused_by_name(self):
        for tags, word in (({"lambent:cpu-variant": "true"}, "without GPU"),
                           ({**VARIANT, "lambent:gpu-speedup": "-1"}, "gpu-speedup"),
                           ({**VARIANT, "lambent:cpu-handler": "nodot"}, "module.function"),
                           ({"lambent:gpu-memory": "64MiB", "lambent:cpu-handler": "app.on_cpu"}, "cpu-variant")):
            error = self.error_of(self.worker.create, "bad", make_zip({"app.py": EITHER}), tags=tags)
            self.assertEqual(error.status, 400, tags)
            self.assertIn(word, error.body.decode())


class CpuVariantsWithoutGpu(WorkerTest):
    flags = ("--set", "hybrid=queueing")

    def strike(self, *words):
        subprocess.run([str(PREFIX / "bin/emulated-gpu"), words[0], "--node", str(self.worker.folder / "run/gpu-node"),
                        *words[1:]], check=True, capture_output=True, text=True)

    def test_the_host_serves_while_the_gpu_is_lost(self):
        self.worker.create("either", make_zip({"app.py": EITHER}), tags=VARIANT)
        self.assertEqual(self.worker.invoke("either", {}).json["on"], "gpu")
        self.strike("fault", "lose device 0")
        self.worker.wait_for(lambda: any(line.startswith("lambent_gpu_healthy{") and line.endswith(" 0")
                                         for line in self.worker.metrics().splitlines()),
                             what="that the device is told to be sick")
        self.assertEqual(self.worker.invoke("either", {}).json["on"], "cpu")
        self.strike("fault", "reset device 0")
        self.worker.wait_for(lambda: any(line.startswith("lambent_gpu_healthy{") and line.endswith(" 1")
                                         for line in self.worker.metrics().splitlines()),
                             what="that the device is well again")
        self.worker.wait_for(lambda: self.worker.invoke("either", {}).json["on"] == "gpu", what="that the GPU serves again")
