"""Objects of kernel functions on a node with two GPUs: read over the devices' own link, moved out of a function's way, and
gone when they are deleted."""
import pathlib
import struct
import sys
import tempfile
import unittest

from harness import PREFIX, Worker
from test_kernel_functions import MIB, KernelTest, scale_graph

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402

NVLINK = '[topology]\nnvlink = [[0, 1]]\nnvlink_gb_per_s = 40.0\nnvlink_latency_us = 1\n'
FLOATS = MIB  # 4 MiB of FP32


class TwoDevices(KernelTest):
    """Two small GPUs of 1 GiB; a sandbox's memory stays where it is, so that a function has its device for good."""
    topology = NVLINK
    more = ("--executor-objects", "elastic")

    @classmethod
    def setUpClass(cls):
        cls.machine = tempfile.NamedTemporaryFile("w", suffix=".toml")
        cls.addClassCleanup(cls.machine.close)
        tiny = (pathlib.Path(PREFIX) / "lib/emulated/presets/tiny.toml").read_text()
        cls.machine.write(tiny.replace("devices = 1", "devices = 2") + cls.topology)
        cls.machine.flush()
        cls.worker = Worker(*cls.flags, "--host-memory", "0", *cls.more, gpu="emulated:" + cls.machine.name)
        cls.client = Client(cls.worker.endpoint)
        cls.addClassCleanup(cls.client.close)

    def create_sized(self, name, mib, count=FLOATS, factor=2.0, **tags):
        self.create(name, scale_graph(count, factor), tags={"lambent:gpu-memory": f"{mib}M", **tags})
        self.addCleanup(self.worker.delete, name)

    def device_of(self, name):
        """Where its only instance is."""
        instances = [each for each in self.worker.request("GET", "/v1/sandboxes").json["sandboxes"] if each["function"] == name]
        self.assertEqual(len(instances), 1, instances)
        return instances[0]["gpu"]

    def metric(self, line):
        for each in self.worker.metrics().splitlines():
            if each.startswith(line + " "):
                return float(each.rsplit(" ", 1)[1])
        return None

    def moves(self, to):
        return self.metric(f'lambent_object_moves_total{{to="{to}"}}') or 0

    def on_devices(self):
        return self.metric('lambent_object_bytes{place="device"}') or 0

    def reads(self, source):
        return self.metric(f'lambent_object_reads_total{{from="{source}"}}') or 0

    def put(self, number, count=FLOATS):
        return self.client.put(struct.pack("<f", number) * count, "FP32", (count,))

    def first_of(self, reference):
        return struct.unpack("<2f", bytes(self.client.get(reference, timeout=30))[:8])

    def over_two_devices(self):
        """y = 2x on one device, z = 3y on the other; z."""
        self.create_sized("double", 600, factor=2.0)
        self.create_sized("triple", 600, factor=3.0)
        y = self.client.function("double").remote(x=self.put(7.0), outputs=["y"])
        z = self.client.function("triple").remote(x=y, outputs=["y"])
        self.assertEqual(self.first_of(z), (42.0, 42.0))
        self.assertNotEqual(self.device_of("double"), self.device_of("triple"))
        return y, z


class OverNvlink(TwoDevices):
    def test_an_object_is_had_from_the_other_device(self):
        before = self.reads("neighbour"), self.reads("host")
        self.over_two_devices()
        self.assertEqual(self.reads("neighbour"), before[0] + 1)
        self.assertEqual(self.reads("host"), before[1] + 1)  # what the client put

    def test_deleted_objects_leave_the_devices(self):
        y, z = self.over_two_devices()
        self.assertGreaterEqual(self.on_devices(), 8 * MIB)
        for each in self.worker.request("GET", "/v1/objects").json["objects"]:
            self.client.remove(each["object"])
        self.worker.wait_for(lambda: self.on_devices() == 0, what="devices without objects")

    def test_objects_make_way_for_a_function_that_starts_and_are_what_they_were(self):
        count = 4 * MIB
        # One device has `maker`, the other `filler`; `large` fits beside the first alone.
        self.create_sized("maker", 100, count)
        made = []
        for number in range(8):  # one after the other, so that one instance makes them all
            x = self.put(float(number), count)
            made.append(self.client.function("maker").remote(x=x, outputs=["y"]))
            self.assertEqual(self.first_of(made[-1]), (2.0 * number, 2.0 * number))
        self.create_sized("filler", 950, count, factor=5.0)
        self.first_of(self.client.function("filler").remote(x=self.put(1.0, count), outputs=["y"]))
        self.assertNotEqual(self.device_of("maker"), self.device_of("filler"))
        before = self.moves("neighbour")
        self.create_sized("large", 880)
        self.first_of(self.client.function("large").remote(x=self.put(1.0), outputs=["y"]))
        self.worker.wait_for(lambda: self.moves("neighbour") > before, what="a move to the other device")
        # Read on the other device, where some lie by now, they have not come from the host.
        host = self.reads("host")
        for number, each in enumerate(made):
            y = self.client.function("filler").remote(x=each, outputs=["y"])
            self.assertEqual(self.first_of(y), (10.0 * number, 10.0 * number))
        self.assertEqual(self.reads("host"), host)


class Apart(TwoDevices):
    """They cannot reach each other."""
    topology = ""

    def test_an_object_comes_from_the_host(self):
        self.over_two_devices()
        self.assertEqual(self.reads("neighbour"), 0)
        self.assertEqual(self.reads("host"), 2)


class Lent(TwoDevices):
    more = ("--executor-objects", "shared")

    def test_an_object_is_had_from_the_other_device_and_nothing_is_moved(self):
        self.over_two_devices()
        self.assertEqual(self.reads("neighbour"), 1)
        self.assertEqual([self.moves(to) for to in ("reader", "neighbour", "host")], [0, 0, 0])


del KernelTest, TwoDevices

if __name__ == "__main__":
    unittest.main()
