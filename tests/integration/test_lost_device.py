"""A GPU falls ill under a worker, or off the bus: what is idle on it goes, what comes waits, and once the device is well so is all."""
import json
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


class DeviceTest(WorkerTest):
    def strike(self, *words):
        subprocess.run([str(PREFIX / "bin/emulated-gpu"), words[0], "--node", str(self.worker.folder / "run/gpu-node"),
                        *words[1:]], check=True, capture_output=True, text=True)

    def healthy(self):
        return any(line.startswith("lambent_gpu_healthy{") and line.endswith(" 1")
                   for line in self.worker.metrics().splitlines())

    def cli(self, *words, expect=0):
        done = subprocess.run([str(PREFIX / "bin/lambent"), *words, "--json", "--endpoint", self.worker.endpoint],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, expect, f"{words}\n{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout)["devices"] if expect == 0 else done.stderr

    def state(self):
        device, = self.cli("devices")
        return device["state"]


class LostDeviceTest(DeviceTest):
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


class SickDeviceTest(DeviceTest):
    def test_an_error_of_memory_drains_a_device_until_it_is_reset(self):
        self.worker.create("holder", make_zip({"app.py": HOLDER}), tags={"lambent:gpu-memory": "64MiB"})
        self.assertEqual(self.worker.invoke("holder").json, "done")
        self.assertEqual(self.state(), "healthy")

        self.strike("fault", "report device 0 xid 31")
        self.worker.wait_for(lambda: 'lambent_gpu_xid_errors_total{gpu="0",xid="31"} 1' in self.worker.metrics(),
                             what="that the application's error is counted")
        self.assertEqual(self.state(), "healthy")
        self.assertEqual(len(self.worker.sandboxes()), 1)

        self.strike("fault", "corrupt device 0")
        self.worker.wait_for(lambda: self.state() == "drained", what="that the device is drained")
        device, = self.cli("devices")
        self.assertEqual(device["reason"], "Xid 48: double-bit ECC error")
        self.worker.wait_for(lambda: not self.worker.sandboxes(), what="that its sandbox is gone")
        self.worker.wait_for(lambda: self.cli("devices")[0]["uncorrected_errors"] == 1, what="that the error is counted")

        self.strike("fault", "reset device 0")
        self.worker.wait_for(lambda: self.state() == "healthy", what="that it serves again")
        self.assertEqual(self.worker.invoke("holder").json, "done")


class DrainedDeviceTest(DeviceTest):
    def test_a_drain_outlives_a_worker_that_is_killed(self):
        self.cli("drain", "0", "--reason", "new fan")
        self.worker.kill()
        self.worker.start()
        device, = self.cli("devices")
        self.assertEqual((device["state"], device["reason"]), ("drained", "by the operator: new fan"))
        self.cli("undrain", "0")

        self.strike("fault", "report device 0 xid 119")
        self.worker.wait_for(lambda: self.state() == "drained", what="that the device is drained")
        reason = self.cli("devices")[0]["reason"]
        # The catalog writes in order: once this is kept, so is the drain.
        self.worker.create("barrier", make_zip({"app.py": HOLDER}), tags={"lambent:gpu-memory": "64MiB"})
        self.worker.kill()
        self.worker.start()
        device, = self.cli("devices")
        self.assertEqual((device["state"], device["reason"]), ("drained", reason))
        self.cli("undrain", "0")
        self.worker.kill()
        self.worker.start()
        self.assertEqual(self.state(), "healthy")

    def test_the_operator_drains_a_device_and_takes_it_back(self):
        self.worker.create("holder", make_zip({"app.py": HOLDER}), tags={"lambent:gpu-memory": "64MiB"})
        self.assertEqual(self.worker.invoke("holder").json, "done")
        device, = self.cli("drain", "0", "--reason", "new fan")
        self.assertEqual((device["state"], device["reason"]), ("drained", "by the operator: new fan"))
        self.worker.wait_for(lambda: not self.worker.sandboxes(), what="that its sandbox is gone")
        self.assertIn("there are 0", self.cli("drain", "1", expect=15))
        replies = []
        waits = threading.Thread(target=lambda: replies.append(self.worker.invoke("holder")))
        waits.start()
        self.worker.wait_for(lambda: "lambent_queued_invocations 1" in self.worker.metrics(),
                             what="that the invocation waits")
        device, = self.cli("undrain", "0")
        self.assertEqual((device["state"], device["reason"]), ("healthy", None))
        waits.join(60)
        self.assertEqual([reply.json for reply in replies], ["done"])
