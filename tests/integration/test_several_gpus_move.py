"""Functions of two GPUs whose memory moves off both and back to both: beside each other, beside functions of one GPU, when a half fails,
when a process dies between the halves, and when the worker becomes another program."""
import os
import signal
import threading
import time
import unittest

from harness import make_zip
from test_kept_gpu_sandboxes import KeptGpuTest, small_machine
from test_memory_moves import MIB

# Holds memory on both of its GPUs for as long as it lives, each with a pattern of its own, and looks at it at every call.
PAIR = """
import array, os
import lambent_cuda as cuda

SIZE, SEED = int(os.environ["HOLD_MIB"]) << 20, int(os.environ["SEED"])
first = cuda.Device(0)
devices = [first, cuda.Device(1)]
words = [array.array("I", ((SEED + 7 * i + n) & 0xffffffff for n in range(1 << 16))).tobytes() for i in range(2)]
held = [[device.buffer(words[i]) for _ in range(SIZE // len(words[i]))] for i, device in enumerate(devices)]
calls = 0

def handler(event, context):
    global calls
    calls += 1
    changed = [(i, n) for i in range(2) for n, one in enumerate(held[i]) if one.bytes() != words[i]]
    return {"changed": changed, "calls": calls, "pid": os.getpid(), "free": [device.memory_info()[0] for device in devices]}
"""


class PairsTest(KeptGpuTest):
    devices = 2

    def machine(self):
        machine = small_machine(self.device_mib)
        with open(machine.name) as file:
            text = file.read()
        with open(machine.name, "w") as file:
            file.write(text.replace("devices = 1", f"devices = {self.devices}"))
        self.addCleanup(machine.close)
        return "emulated:" + machine.name

    def start(self, *flags, **options):
        return super().start("--set", "foresee=false", *flags, gpu=self.machine(), **options)

    def hold_pair(self, name, mib=100, environment=None, tags=None):
        self.worker.create(name, make_zip({"app.py": PAIR}), memory=512, tags={
            "lambent:gpu-memory": f"{mib + mib // 14}MiB", "lambent:gpu-count": "2", **(tags or {})},
            environment={"HOLD_MIB": str(mib), "SEED": str(1000 * len(name)), **(environment or {})})

    def metric(self, name, *parts):
        return [float(line.rpartition(" ")[2]) for line in self.worker.metrics().splitlines()
                if line.startswith(name + "{") and all(part in line for part in parts)]

    def resident_on(self):
        return self.metric("lambent_gpu_memory_bytes", 'kind="resident"')

    def on_host(self):
        [value] = [float(line.rpartition(" ")[2]) for line in self.worker.metrics().splitlines()
                   if line.startswith("lambent_moved_out_memory_bytes ")]
        return value

    def place(self, name):
        return [each["device_memory_place"] for each in self.worker.sandboxes() if each["function"] == name]


class TwoGpus(PairsTest):
    def test_two_functions_that_do_not_fit_together_both_stay_warm_and_find_their_bytes(self):
        self.start()
        for name in ("pair", "other_pair"):
            self.hold_pair(name, 150)
            self.assertEqual(self.call(name)[0], "cold")
        for times in range(2, 5):
            for name in ("pair", "other_pair"):
                start, answer = self.call(name)
                self.assertEqual((start, answer["calls"]), ("gpu_cold", times))
        places = sorted(self.place("pair") + self.place("other_pair"))
        self.assertEqual(places, ["in", "out"])
        # Each GPU has what is there and the other's context; the host the rest, of both GPUs.
        held = [value / MIB for value in self.resident_on()]
        self.assertEqual(held, [164 + 4, 164 + 4])
        self.assertEqual(self.on_host() / MIB, 2 * 164 - 4)
        moved = sum(self.metric("lambent_gpu_memory_moved_bytes_total", 'direction="out"')) / MIB
        self.assertGreaterEqual(moved, 7 * 2 * 150)
        self.assertEqual(self.starts(), 2)

    def test_those_with_one_gpu_and_those_with_two_give_way_to_each_other(self):
        self.start()
        self.hold_pair("pair", 150)
        for name in ("one", "twos"):
            self.hold(name, 150)
        names = ("pair", "one", "twos")
        for name in names:
            self.assertEqual(self.call(name)[0], "cold")
        stop, failures, served = threading.Event(), [], dict.fromkeys(names, 0)

        def keep_calling(name):
            while not stop.is_set():
                try:
                    self.call(name)
                    served[name] += 1
                except Exception as error:  # noqa: BLE001
                    failures.append(error)
                    return
        threads = [threading.Thread(target=keep_calling, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        try:
            self.worker.wait_for(lambda: failures or min(served.values()) >= 5, what="all to be served")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        # The pair was never started again: all that it was called went to one sandbox.
        self.assertEqual(self.call("pair")[1]["calls"], served["pair"] + 2)

    def test_a_move_in_of_which_one_half_fails_is_tried_again(self):
        self.start()
        # Its buffers lie in blocks of 2 MiB, which are made again as the memory comes in: one of them cannot be, at first.
        fault = f"fail cuMemCreate call {150 + 100} with CUDA_ERROR_OUT_OF_MEMORY"
        self.hold_pair("failing", 150, environment={"EMULATED_CUDA_FAULTS": fault})
        self.hold_pair("neighbour", 150)
        self.call("failing")
        self.call("neighbour")
        self.hold("one", 40)
        self.call("one")
        start, answer = self.call("failing")
        self.assertEqual((start, answer["calls"]), ("gpu_cold", 2))
        self.assertIn('"event":"memory_not_moved"', self.worker.log())
        self.assertGreaterEqual(min(self.resident_on()) / MIB, 164)
        for name in ("neighbour", "one", "failing"):
            self.call(name)
        self.check_accounts()

    def test_a_driver_that_fails_between_the_halves_costs_that_sandbox_and_no_other(self):
        self.start()
        self.hold_pair("failing", 150, environment={"EMULATED_CUDA_FAULTS": "fail cuMemcpyDtoHAsync_v2 call 100 with CUDA_ERROR_UNKNOWN"})
        self.hold("one", 40)
        self.hold_pair("neighbour", 150)
        for name in ("failing", "one", "neighbour"):
            self.call(name)
        self.assertEqual(self.place("failing"), [])
        self.assertEqual(self.call("one")[1]["calls"], 2)
        for name in ("failing", "neighbour", "one"):
            self.call(name)
        self.check_accounts()

    def check_accounts(self):
        """What is counted on each GPU is what its sandboxes have."""
        for name in self.names():
            self.worker.delete(name)
        self.worker.wait_for(lambda: self.resident_on() == [0, 0], what="that nothing counts on a GPU")
        self.worker.wait_for(lambda: self.on_host() == 0, what="that nothing counts on the host")

    def names(self):
        return {each["function"] for each in self.worker.sandboxes()}


class SlowLinks(PairsTest):
    """150 MiB take 1.5 s to leave each GPU."""

    def machine(self):
        name = super().machine().partition(":")[2]
        with open(name) as file:
            text = file.read()
        with open(name, "w") as file:
            file.write(text.replace("device_to_host_gb_per_s = 10.0", "device_to_host_gb_per_s = 0.1"))
        return "emulated:" + name

    def test_a_kill_between_the_halves_frees_both_and_harms_no_neighbour(self):
        self.start()
        self.hold("one", 40)
        self.assertEqual(self.call("one")[0], "cold")
        for times, wait in enumerate((0.2, 1.0)):
            self.hold_pair("victim", 150)
            self.hold_pair("next", 150)
            pid = self.call("victim")[1]["pid"]
            [sandbox] = [each for each in self.worker.sandboxes() if each["function"] == "victim"]
            answers = []
            thread = threading.Thread(target=lambda: answers.append(self.call("next")))
            thread.start()
            self.worker.wait_for(lambda: self.place("victim") == ["moving out"], what="the move to begin")
            time.sleep(wait)
            self.assertEqual(self.place("victim"), ["moving out"])
            os.kill(sandbox["pid"], signal.SIGKILL)
            thread.join()
            self.assertEqual([start for start, _ in answers], ["cold"], pid)
            self.assertEqual(self.call("one")[1]["calls"], 2 + times)
            self.assertEqual(self.call("victim")[0], "cold")
            self.worker.delete("victim")
            self.worker.delete("next")
            self.worker.wait_for(lambda: max(self.resident_on()) / MIB < 60, what="that both GPUs are free")


class Kept(PairsTest):
    def test_a_new_program_finds_the_memory_of_two_gpus_where_it_was(self):
        self.start()
        for name in ("pair", "other_pair"):
            self.hold_pair(name, 150)
            self.assertEqual(self.call(name)[0], "cold")
        for times in (2, 3):
            before = self.seen()
            self.assertEqual({place for _, _, place in before.values()}, {"in", "out"})
            self.replace()
            self.assertEqual(self.seen(), before)
            for name in ("pair", "other_pair"):
                start, answer = self.call(name)
                self.assertEqual(answer["calls"], times, f"{name} was started again")
                self.assertIn(start, ("warm", "gpu_cold"))
            self.assertEqual(self.starts(), 0)


if __name__ == "__main__":
    unittest.main()
