"""A device that executors share with functions in processes of their own: what contexts of executors take, no function is admitted into."""
import json
import pathlib
import tempfile
import unittest

import harness
from test_kernel_functions import KernelTest, scale_graph
from test_memory_moves import HOLDER, MovingTest

MIB = 1 << 20
CONTEXT_MIB = 100


def with_contexts_of(mib):
    """A preset of one GPU of 520 MiB whose contexts take so much."""
    text = (pathlib.Path(harness.PREFIX) / "lib/emulated/presets/tiny.toml").read_text()
    file = tempfile.NamedTemporaryFile("w", suffix=".toml")
    file.write(text.replace("memory_mib = 1024", "memory_mib = 520").replace("context_mib = 16", f"context_mib = {mib}"))
    file.flush()
    return file


class BesideExecutors(MovingTest, KernelTest):
    """Two functions of 240 MiB with their contexts fit the device beside an instance of 16 MiB, but not beside its executor's context as well."""

    flags = ("--concurrency", "2", "--context-memory", str(CONTEXT_MIB))

    @classmethod
    def setUpClass(cls):
        cls.machine = with_contexts_of(CONTEXT_MIB)
        cls.addClassCleanup(cls.machine.close)
        cls.gpu = "emulated:" + cls.machine.name
        super().setUpClass()

    def taken(self):
        return self.worker.request("GET", "/v1/devices").json["devices"][0]["memory_taken_bytes"]

    def call_kernel(self):
        reply = self.worker.invoke("scale", {"inputs": [{"name": "x", "data": [1.0, 2.0, 3.0, 4.0]}]})
        self.assertEqual(json.loads(reply.body)["outputs"][0]["data"], [2.0, 4.0, 6.0, 8.0])

    def test_no_function_is_admitted_into_the_context_of_an_executor(self):
        self.assertEqual(self.taken(), 0)
        self.create("scale", scale_graph(4), tags={"lambent:gpu-memory": "16M"})
        self.addCleanup(self.worker.delete, "scale")
        self.call_kernel()
        self.assertEqual(self.taken(), CONTEXT_MIB * MIB)
        self.create_holders(2, mib=130)
        starts = [[self.call(name)[0] for name in self.names] for _ in range(3)]
        self.assertEqual(starts, [["cold", "cold"], ["gpu_cold", "gpu_cold"], ["gpu_cold", "gpu_cold"]])
        self.call_kernel()
        self.assertNotIn("OUT_OF_MEMORY", self.worker.log())

    def test_what_it_took_comes_back_when_nothing_uses_it_and_somebody_waits_for_it(self):
        self.create("scale", scale_graph(4), tags={"lambent:gpu-memory": "16M"})
        self.call_kernel()
        # With its context it fits the device, and not beside the executor's.
        self.names = ["whole"]
        self.create_gpu("whole", HOLDER, gpu_memory="400MiB", memory=512, environment={"HOLD_MIB": "380", "SEED": "1"})
        self.worker.tag("scale", {"lambent:gpu-memory": "8M"})  # its instance goes, its executor stays
        self.assertEqual(self.call("whole")[0], "cold")
        self.assertEqual(self.taken(), 0)
        self.call_kernel()
        self.assertEqual(self.taken(), CONTEXT_MIB * MIB)
        self.worker.delete("scale")


del KernelTest, MovingTest

if __name__ == "__main__":
    unittest.main()
