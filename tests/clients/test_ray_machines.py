"""lambent.ray on machines that Ray's autoscaler brings and takes away under load: each with a network, a name and processes of its own
(ray_machines.py), workers over TLS. Load moves to a machine that comes; one that goes is drained first, and no request is lost with it."""
import ctypes
import os
import pathlib
import unittest
from unittest import mock

from cluster_world import WITNESSED, Load, Switch, Witness
from harness import PREFIX, Worker
from ray_cluster import NEEDS_RAY, NEEDS_TIME, AutoscaledRay, RayTest

CLONE_NEWNET = 0x40000000
MACHINES = ("head", "gpu-1", "gpu-2")


def enter_network(path):
    """This thread, and all that it begins from now on."""
    with open(path) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise unittest.SkipTest(f"this machine lets no process into a network: {os.strerror(ctypes.get_errno())}")


class Reached(Worker):
    """A worker that others started, by its socket."""

    def __init__(self, socket):
        self.address, self.endpoint = str(socket), f"unix:{socket}"


@NEEDS_RAY
@NEEDS_TIME
class Machines(RayTest):
    @classmethod
    def setUpClass(cls):
        cls.prepare()
        os.environ["PYTHONPATH"] = f"{pathlib.Path(__file__).parent}:{os.environ['PYTHONPATH']}"
        cls.witness = Witness(cls)
        switch = Switch(cls, MACHINES)
        for name, address in switch.addresses.items():  # so that programs find the address of their machine
            switch.ip(name, f"route add default via 10.77.0.254 dev cable src {address}")
        own = f"/proc/{os.getpid()}/task/{os.getpid()}/ns/net"
        before = os.open(own, os.O_RDONLY)
        cls.addClassCleanup(os.close, before)
        cls.addClassCleanup(enter_network, f"/proc/self/fd/{before}")
        enter_network(f"/proc/{switch.holders['head'].pid}/ns/net")
        tls = cls.tls_folder(",".join(f"IP:{each}" for each in switch.addresses.values()))
        machines = {name: {"ip": switch.addresses[name], "pid": switch.holders[name].pid} for name in MACHINES}
        gpu = {"resources": {"CPU": 1, "GPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2}
        cls.of_ray = AutoscaledRay(cls.folder, {"gpu": gpu}, ip=switch.addresses["head"], provider={
            "type": "external", "module": "ray_machines.MachineProvider", "machines": machines, "folder": str(cls.folder)})
        cls.addClassCleanup(cls.of_ray.shutdown)
        cls.ray.init(address=cls.of_ray.address, namespace="test", log_to_driver=False, _node_ip_address=switch.addresses["head"])
        cls.addClassCleanup(cls.ray.shutdown)
        with mock.patch.dict(os.environ, {"PATH": f"{PREFIX / 'bin'}:{os.environ['PATH']}"}):
            serve = cls.lambent._usual_command(str(cls.folder / "key"), str(cls.folder), None, str(tls), True)
        cls.cluster = cls.start(serve=[*serve, "--gpu", "emulated:tiny", "--concurrency", "6", "--mount-allow", str(cls.witness.folder)],
                                gpus_only=True, scale=(1, 2), down_after=5)

    @classmethod
    def addCleanup(cls, function, *arguments):
        """For what takes a test: it is the class's here."""
        cls.addClassCleanup(function, *arguments)

    def node(self, name):
        return Reached(self.folder / name / "run/lambent.sock")

    def members(self, name):
        return {each["node"]: each["state"] for each in self.node(name).request("GET", "/v1/cluster").json["members"]}

    def ran(self, name):
        try:
            listed = self.node(name).request("GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"]
        except OSError:
            return 0
        return sum(each["completed"] for each in listed if each["name"] == "work")

    def machines(self):
        """Of those with GPUs the ones whose processes run."""
        found = set()
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"unshare") and str(self.folder / "ray").encode() in words:
                found.add(next(name for name in MACHINES if name.encode() in words))
        return found

    def check(self, load):
        load.stop()
        self.assertEqual(load.failed, {})
        runs = [*load.accepted, *load.answered]
        self.wait_for(lambda: all(self.witness.ended[run] > 0 for run in runs))
        self.assertEqual([run for run in runs if self.witness.begun[run] > 1], [])

    def test_load_moves_to_a_machine_that_comes_and_none_is_lost_with_one_that_goes(self):
        self.wait_for(lambda: self.cluster.status() != [], seconds=150)
        self.cluster.wait_until_up(120)
        self.assertEqual((self.machines(), set(self.members("gpu-1"))), ({"gpu-1"}, {"ray-gpu-1"}))
        home = {"gpu-1": self.node("gpu-1")}
        home["gpu-1"].create_python("work", WITNESSED, tags=self.witness.tags)
        for turn in range(2):  # the second time the same machine comes again, with the folders that it had
            busy = Load(home, "work", threads=10, seconds=0.5, suffix=f"-busy-{turn}")
            self.addCleanup(busy.stop)
            self.wait_for(lambda: self.machines() == {"gpu-1", "gpu-2"}, seconds=120)
            self.cluster.wait_until_up(150, nodes=2)
            before = self.ran("gpu-2")
            self.wait_for(lambda before=before: self.ran("gpu-2") > before + 10)
            addresses = self.own_addresses()
            self.assertEqual({each.partition("//")[2].split(":")[0] for each in addresses.values()}, {"10.77.0.2", "10.77.0.3"})
            self.check(busy)
            # Less to do, without a pause, until the machine is gone.
            light = Load(home, "work", seconds=0.1, suffix=f"-light-{turn}")
            self.addCleanup(light.stop)
            self.wait_for(lambda: self.machines() == {"gpu-1"}, seconds=150)
            light.wait_for(30)
            self.check(light)
            self.assertEqual(self.members("gpu-1")["ray-gpu-1"], "up")
            status = next(each for each in self.cluster.status() if each["cluster"])
            self.assertEqual(status["members_error"], "")


if __name__ == "__main__":
    unittest.main()
