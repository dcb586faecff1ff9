"""A GPU falls off the bus under a worker: what is idle on it goes, what comes waits, and once the device is back all is well."""
import subprocess
import threading

from harness import PREFIX, WorkerTest, make_zip

HOLDER = """
import lambent_cuda as cuda

device = cuda.Device()
memory = device.buffer(1 << 20)

def handler(event, context):
    memory.fill(7)
    device.synchronize()
    return "done"
"""


class LostDeviceTest(WorkerTest):
    def strike(self, *words):
        subprocess.run([str(PREFIX / "bin/emulated-gpu"), words[0], "--node", str(self.worker.folder / "run/gpu-node"),
                        *words[1:]], check=True, capture_output=True, text=True)

    def healthy(self):
        return any(line.startswith("lambent_gpu_healthy{") and line.endswith(" 1")
                   for line in self.worker.metrics().splitlines())

    def test_a_lost_device_gets_no_work_and_serves_again_when_it_is_back(self):
        self.worker.create("holder", make_zip({"app.py": HOLDER}), tags={"lambent:gpu-memory": "64MiB"})
        self.assertEqual(self.worker.invoke("holder").json, "done")
        first = {sandbox["id"] for sandbox in self.worker.sandboxes()}
        self.assertEqual(len(first), 1)

        self.strike("fault", "lose device 0")
        self.worker.wait_for(lambda: not self.healthy(), what="that the device is told to be sick")
        self.worker.wait_for(lambda: not self.worker.sandboxes(), what="that its sandbox is gone")
        replies = []
        waits = threading.Thread(target=lambda: replies.append(self.worker.invoke("holder")))
        waits.start()
        self.worker.wait_for(lambda: "lambent_queued_invocations 1" in self.worker.metrics(),
                             what="that the invocation waits")

        self.strike("fault", "reset device 0")
        waits.join(60)
        self.assertEqual([reply.json for reply in replies], ["done"])
        self.assertTrue(self.healthy())
        self.assertTrue(first.isdisjoint(sandbox["id"] for sandbox in self.worker.sandboxes()))
