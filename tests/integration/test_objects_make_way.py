"""Objects that fill a GPU beyond what their function was promised: who is admitted there finds the memory empty."""
import struct
import sys
import unittest

from harness import PREFIX
from test_gpu import GpuTest
from test_kernel_functions import MIB, KernelTest, scale_graph

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402

# Has most of the device as soon as it runs.
LARGE = """
import lambent_cuda as cuda

device = cuda.Device()
held = [device.buffer(64 << 20) for _ in range(13)]

def handler(event, context):
    return len(held)
"""
FLOATS = 4 * MIB  # 16 MiB


class MakeWay(KernelTest, GpuTest):
    flags = ("--context-memory", "16", "--concurrency", "2", "--executor-objects", "elastic", "--ready-sandboxes", "2", "--object-memory", "1G")

    def test_a_function_starts_when_the_objects_in_its_way_have_gone(self):
        client = Client(self.worker.endpoint)
        self.addCleanup(client.close)
        self.create("maker", scale_graph(FLOATS), tags={"lambent:gpu-memory": "100M"})
        self.addCleanup(self.worker.delete, "maker")
        for turn in range(4):
            made = []
            for number in range(30):
                x = client.put(struct.pack("<f", float(number)) * FLOATS, "FP32", (FLOATS,))
                made.append(client.function("maker").remote(x=x, outputs=["y"]))
                client.get(made[-1], timeout=30)
                client.remove(x)
            on_device = sum(float(line.rpartition(" ")[2]) for line in self.worker.metrics().splitlines()
                            if line.startswith('lambent_object_bytes{place="device"}'))
            self.assertGreater(on_device, 400 * MIB, "nothing is in the way")
            name = f"large-{turn}"
            self.create_gpu(name, LARGE, gpu_memory="850MiB", memory=512)
            reply = self.worker.invoke(name)
            self.assertEqual(reply.body, b"13")
            self.assertEqual(struct.unpack("<f", bytes(client.get(made[3], timeout=30))[:4]), (6.0,))
            self.worker.delete(name)
            for each in made:
                client.remove(each)


del KernelTest, GpuTest

if __name__ == "__main__":
    unittest.main()
