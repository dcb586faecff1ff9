"""More models than fit: kernels on a device, and processes on the host. What is worth least leaves by itself, what is pinned stays, and
every request is answered meanwhile."""
import concurrent.futures
import json
import pathlib
import unittest

from harness import Worker
from test_kernel_functions import MIB, KernelTest, launch, tensor, unsigned

HOLDS = """
import time
time.sleep(STARTS)
held = bytearray(b"x" * (SIZE << 20))

def handler(event, context):
    return len(held)
"""


class Memory:
    """Calls `hot` often, and then each of the others once; `hot` was not used for longest then, but is called most."""

    def tier(self, name):
        index = self.worker.request("POST", "/v2/repository/index").json
        return next(each["tier"] for each in index if each["name"] == name)

    def start(self, *flags, gpu):
        self.worker = Worker(*flags, gpu=gpu)
        self.addCleanup(self.worker.close)

    def call_all(self, names):
        for _ in range(12):
            self.call("hot")
        for name in names:
            self.call(name)


class OnADevice(Memory, KernelTest):
    NAMES = ("seldom0", "seldom1", "seldom2", "seldom3")

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def deploy(self, *flags):
        self.start("--context-memory", "16", "--concurrency", "1", *flags, gpu="emulated:tiny")
        words = 200 * MIB // 4  # of 1 GiB
        for number, name in enumerate(("pinned", "hot", *self.NAMES)):
            self.create(name, {"buffers": [tensor("w", "constant", [words], "UINT32", fill=number + 1), tensor("s", "output", [], "UINT32")],
                               "steps": [launch("checksum", "w", unsigned(words), "s")]},
                        tags={"lambent:min-instances": "1"} if name == "pinned" else {})
        self.sums = {name: -(-words // 1024) * (number + 1) for number, name in enumerate(("pinned", "hot", *self.NAMES))}
        self.worker.wait_for(lambda: self.tier("pinned") == "device", what="the pinned model on the device")

    def call(self, name):
        reply = self.ask(name, {"inputs": []})
        self.assertEqual(self.outputs(reply)["s"]["data"], [self.sums[name]])

    def test_what_is_worth_least_leaves(self):
        self.deploy("--set", "eviction=worth")
        self.call_all(self.NAMES)
        self.assertEqual((self.tier("hot"), self.tier("pinned")), ("device", "device"))
        self.assertEqual(self.tier("seldom3"), "device")
        self.assertIn("host", [self.tier(name) for name in self.NAMES])
        self.call_all(self.NAMES)
        self.assertEqual((self.tier("hot"), self.tier("pinned")), ("device", "device"))

    def test_by_least_recent_use_the_hot_one_leaves(self):
        self.deploy("--set", "eviction=lru", "--set", "anticipation=0")
        self.call_all(self.NAMES)
        self.assertEqual((self.tier("hot"), self.tier("pinned")), ("host", "device"))


    def unload(self, name):
        return self.worker.request("POST", f"/v2/repository/models/{name}/unload")

    def test_what_a_client_unloads_leaves_once_it_rests_and_comes_back(self):
        self.deploy()
        self.call("hot")
        with concurrent.futures.ThreadPoolExecutor(1) as one:
            asked = one.submit(self.call, "seldom0")
            self.worker.wait_for(lambda: asked.done() or any(each["function"] == "seldom0" and each["state"] == "busy" for each in self.worker.sandboxes()),
                                 what="a model at work")
            for name in ("hot", "seldom0"):
                self.unload(name)
            asked.result()
        # The second call of `seldom0` may have begun after it was unloaded.
        self.unload("seldom0")
        for name in ("hot", "seldom0"):
            self.worker.wait_for(lambda: self.tier(name) == "disk", what=f"{name} to leave the device")
            self.call(name)
            self.assertEqual(self.tier(name), "device")
        with self.assertRaisesRegex(Exception, "412.*min_instances"):
            self.unload("pinned")
        self.assertEqual(self.tier("pinned"), "device")


class OnTheHost(Memory, unittest.TestCase):
    NAMES = ("seldom0", "seldom1", "seldom2", "seldom3")
    LIMIT = 400
    START_S = {"hot": "1.5"}  # so much more than a start on a busy machine, that it is worth most by that, too

    def deploy(self, *flags):
        self.start("--sandbox-memory", f"{self.LIMIT}M", *flags, gpu="none")
        for name in ("pinned", "hot", *self.NAMES):
            self.worker.create_python(name, HOLDS.replace("SIZE", "80").replace("STARTS", self.START_S.get(name, "0")), memory=512,
                                      tags={"lambent:min-instances": "1"} if name == "pinned" else {})
        self.worker.wait_for(lambda: self.there("pinned"), what="the pinned function")

    def there(self, name):
        return any(each["function"] == name and each["state"] in ("idle", "busy") for each in self.worker.sandboxes())

    def held(self):
        return sum(each["host_memory_bytes"] for each in self.worker.sandboxes() if each["state"] != "stopping") / MIB

    def call(self, name):
        self.assertEqual(self.worker.invoke(name).json, 80 * MIB)

    def settle(self):
        self.worker.wait_for(lambda: self.held() <= self.LIMIT, what="what is held within the limit")

    def test_what_is_worth_least_leaves(self):
        self.deploy()
        self.call_all(self.NAMES)
        self.settle()
        self.assertTrue(self.there("hot") and self.there("pinned"))
        self.assertFalse(all(self.there(name) for name in self.NAMES))
        # It is no error to be called again.
        self.call_all(self.NAMES)
        self.settle()
        self.assertTrue(self.there("hot") and self.there("pinned"))
        lines = [json.loads(line) for line in pathlib.Path(self.worker.folder, "worker.log").read_text().splitlines() if "host_memory_short" in line]
        self.assertTrue(any(line["leave"] > 0 and line["limit_mib"] == self.LIMIT for line in lines), lines)

    def test_by_least_recent_use_the_hot_one_leaves(self):
        self.deploy("--set", "eviction=lru")
        self.call_all(self.NAMES)
        self.settle()
        self.assertTrue(self.there("pinned"))
        self.assertFalse(self.there("hot"))

    def test_without_a_limit_all_stay(self):
        self.LIMIT = 0
        self.deploy()
        self.call_all(self.NAMES)
        self.assertTrue(all(self.there(name) for name in ("hot", "pinned", *self.NAMES)))


if __name__ == "__main__":
    unittest.main()
