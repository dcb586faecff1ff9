"""Outputs that kernel functions keep on their GPU ("keep": "device"): read there without a copy to the host, brought to it when they are
wanted there or their memory is needed, deleted without ever having been copied, and lost with their executor, which readers are told."""
import json
import os
import signal
import struct
import sys
import threading
import unittest

from harness import PREFIX, Worker, make_zip
from tenants import TokenWorker
from test_kernel_functions import MIB, bundle_files, launch, scale_graph, tensor, unsigned
import test_objects_on_devices

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402

KEEP = {"object": True, "keep": "device"}
COUNT = MIB // 2  # 2 MiB of FP32
NVLINK = test_objects_on_devices.NVLINK


class KeepTest(test_objects_on_devices.Apart.__bases__[0]):
    """The same with one device, unless tests want two that are joined."""
    topology, more = "", ()

    @classmethod
    def setUpClass(cls):
        if cls.topology:
            return super().setUpClass()
        cls.worker = Worker(*cls.flags, *cls.more, gpu="emulated:tiny")
        cls.client = Client(cls.worker.endpoint)
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        # What a test before has left goes to the host when its function is removed, and is counted then.
        self.worker.wait_for(lambda: all(each.get("place") != "device" for each in self.worker.request("GET", "/v1/objects").json["objects"]),
                             what="devices without kept objects")
        self.before = {event: self.keeps(event) for event in ("kept", "read", "evicted", "avoided", "lost")}

    def keeps(self, event, what="keeps"):
        return self.metric(f'lambent_object_{what}_total{{event="{event}"}}') or 0

    def since(self):
        """What became of the objects that this test has kept."""
        return {event: int(self.keeps(event) - count) for event, count in self.before.items() if self.keeps(event) > count}

    def run_on(self, name, x, **parameters):
        """The object that the function makes of an object."""
        reply = self.ask(name, {"inputs": [{"name": "x", "parameters": {"object": x}}],
                                "outputs": [{"name": "y", "parameters": parameters or KEEP}]})
        return self.outputs(reply)["y"]["parameters"]["object"]

    def place(self, made):
        return self.worker.request("HEAD", f"/v1/objects/{made}").headers["x-lambent-place"]

    def value(self, made):
        """All of its numbers, which are the same."""
        content = self.worker.request("GET", f"/v1/objects/{made}?wait=30").body
        self.assertEqual(len(content), COUNT * 4)
        self.assertEqual(content, content[:4] * COUNT)
        return struct.unpack("<f", content[:4])[0]

    def x(self, number=1.0):
        return self.put(number, COUNT).id

    def make(self, name="double", number=1.0, **tags):
        self.create_sized(name, 64, COUNT, **tags)
        return self.run_on(name, self.x(number))

    def error_of_object(self, made):
        return self.error_of(self.worker.request, "GET", f"/v1/objects/{made}")


class Kept(KeepTest):
    def test_a_chain_stays_on_the_device_until_its_end_is_read(self):
        made = [self.make()]
        host = self.reads("host")
        for _ in range(3):
            made.append(self.run_on("double", made[-1]))
            self.assertEqual(self.place(made[-1]), "device")
        self.assertEqual(self.reads("host"), host)
        self.assertEqual(self.since(), {"kept": 4})
        self.assertEqual(self.value(made[-1]), 16.0)
        self.assertEqual(self.place(made[-1]), "memory")
        self.assertEqual(self.value(made[-1]), 16.0)
        self.assertEqual(self.since(), {"kept": 4, "read": 1})
        self.assertEqual(self.keeps("kept", "keep_bytes") % (COUNT * 4), 0)
        # The rest is deleted, and was never copied.
        for each in made[:-1]:
            self.client.remove(each)
        self.assertEqual(self.since(), {"kept": 4, "read": 1, "avoided": 3})

    def test_more_than_the_memory_of_the_function_goes_to_the_host_by_itself(self):
        self.create_sized("double", 24, COUNT)
        made = [self.run_on("double", self.x(number)) for number in range(30)]
        self.assertEqual([self.value(each) for each in made], [2.0 * number for number in range(30)])
        self.assertGreater(self.since().get("evicted", 0), 5)
        self.assertNotIn("lost", self.since())

    def test_a_handler_reads_one(self):
        made = self.make(number=3.0)
        self.worker.create_python("first", "import struct\nfrom lambent import objects\n"
                                           "def handler(event, context):\n"
                                           "    return struct.unpack('<f', bytes(objects.get(event))[:4])[0]\n")
        self.addCleanup(self.worker.delete, "first")
        self.assertEqual(self.worker.invoke("first", {"object": made}).json, 6.0)

    def test_a_function_that_is_removed_leaves_its_objects(self):
        self.create("gone", scale_graph(COUNT), tags={"lambent:gpu-memory": "64M"})
        made = self.run_on("gone", self.x(4.0))
        self.worker.delete("gone")
        self.assertEqual(self.value(made), 8.0)

    def test_deleted_ones_leave_nothing_to_a_function_that_writes_less(self):
        made = self.make(number=1000.0)
        self.client.remove(made)
        self.create("partial", {"buffers": [tensor("x", "input", [4]), tensor("y", "output", [COUNT])],
                                "steps": [launch("scale", "x", "y", 2.0, unsigned(4), block=(32,))]},
                    tags={"lambent:gpu-memory": "64M"})
        self.addCleanup(self.worker.delete, "partial")
        for _ in range(3):
            reply = self.ask("partial", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}],
                                         "outputs": [{"name": "y", "parameters": KEEP}]})
            made = self.outputs(reply)["y"]["parameters"]["object"]
            content = self.worker.request("GET", f"/v1/objects/{made}").body
            self.assertEqual(content[:16], struct.pack("<4f", 2, 4, 6, 8))
            self.assertEqual(content[16:], bytes(len(content) - 16))

    def test_with_a_killed_executor_they_are_lost_and_readers_are_told(self):
        made = self.make()
        copied = self.run_on("double", made, object=True)
        executor = next(each["pid"] for each in self.worker.sandboxes() if each["function"] == "double")
        os.kill(executor, signal.SIGKILL)
        self.worker.wait_for(lambda: self.since().get("lost"), what="the worker has heard")
        error = self.error_of_object(made)
        self.assertEqual(error.status, 500)
        self.assertEqual(error.json["error"]["code"], "DATA_LOSS")
        self.assertIn("was kept on GPU 0 only, and is lost", error.body.decode())
        failure = self.failure("double", {"inputs": [{"name": "x", "parameters": {"object": made}}], "outputs": [{"name": "y", "parameters": KEEP}]})
        self.assertEqual(failure["errorType"], "Object.Failed", failure)
        self.assertIn("is lost", failure["errorMessage"])
        # What was copied is there, and the function goes on.
        self.assertEqual(self.value(copied), 4.0)
        self.assertEqual(self.value(self.run_on("double", self.x(5.0))), 10.0)

    def workflow(self, name, components, output):
        graph = {"components": [{"name": name, "function": function, "input": {"x": x}} for name, function, x in components],
                 "output": output}
        self.worker.create(name, make_zip({"workflow.json": json.dumps(graph)}), runtime="provided.al2023", handler="workflow.json",
                           tags={"lambent:kind": "workflow"})
        self.addCleanup(self.worker.delete, name)

    def test_what_a_workflow_hands_from_kernel_to_kernel_stays_on_the_device(self):
        self.create_sized("double", 64, COUNT)
        self.workflow("chain", [("a", "double", "$input.x"), ("b", "double", "$a.y"), ("c", "double", "$b.y")], {"y": "$c.y"})
        host = self.reads("host")
        made = self.worker.invoke("chain", {"x": {"object": self.x()}}).json["y"]["object"]
        # The two between are gone with the run, and neither was ever copied; the output was.
        self.assertEqual(self.since(), {"kept": 2, "avoided": 2})
        self.assertEqual(self.place(made), "memory")
        self.assertEqual(self.value(made), 8.0)
        self.assertEqual(self.reads("host"), host + 1, "only x")

    def test_a_workflow_makes_again_what_went_with_its_executor(self):
        self.create_sized("double", 64, COUNT)
        # Counts to its number, for seconds, with an input that is on the device only.
        self.create("slow", {"buffers": [tensor("x", "input", [COUNT]), tensor("y", "output", [COUNT]), tensor("n", "temporary", [], "INT32"),
                                         tensor("done", "temporary", [], "INT32")],
                             "steps": [launch("clear", {"buffer": "n", "access": "write"}), launch("clear", {"buffer": "done", "access": "write"}),
                                       {"repeat": 2_000_000, "until": "done",
                                        "steps": [launch("count_up", {"buffer": "n", "access": "read_write"}, "done", 200_000)]},
                                       launch("scale", "x", "y", 2.0, unsigned(COUNT), grid=(-(-COUNT // 256),), block=(256,))]},
                    tags={"lambent:gpu-memory": "64M"})
        self.addCleanup(self.worker.delete, "slow")
        self.workflow("chain", [("a", "double", "$input.x"), ("b", "double", "$a.y"), ("c", "slow", "$b.y")], {"y": "$c.y"})
        replies = []
        caller = threading.Thread(target=lambda: replies.append(self.worker.invoke("chain", {"x": {"object": self.x()}})))
        caller.start()
        busy = self.worker.wait_for(lambda: [each for each in self.worker.sandboxes() if each["function"] == "slow" and each["state"] == "busy"],
                                    what="the last step runs")
        self.worker.wait_for(lambda: self.since().get("kept") == 2, what="two on the device")
        os.kill(busy[0]["pid"], signal.SIGKILL)
        caller.join(120)
        self.assertTrue(replies, "the run has not ended")
        self.assertNotIn("x-amz-function-error", replies[0].headers, replies[0].body)
        self.assertEqual(self.value(replies[0].json["y"]["object"]), 8.0)
        self.assertEqual(self.since()["lost"], 2)

    def test_with_a_kernel_that_faults_they_are_lost_and_others_are_not(self):
        made = self.make()
        on_host = self.run_on("double", self.x(2.0), object=True)
        self.create("wild", {"buffers": [tensor("flag", "input", [], "INT32"), tensor("y", "output", [])],
                             "steps": [launch("wild", "flag", {"buffer": "y", "access": "write"})]})
        self.addCleanup(self.worker.delete, "wild")
        self.assertEqual(self.failure("wild", {"inputs": [{"name": "flag", "data": [0]}]})["errorType"], "Kernel.Fault")
        self.assertIn("is lost", self.error_of_object(made).body.decode())
        self.assertEqual(self.value(on_host), 4.0)

    def test_mistakes_are_named_with_their_place(self):
        self.create_sized("double", 64, COUNT)
        x = {"name": "x", "parameters": {"object": self.x()}}
        for parameters, expected in (({"keep": "device"}, "outputs[0].parameters.keep: it is for outputs that become objects"),
                                     ({"object": True, "keep": "gpu"}, "outputs[0].parameters.keep: 'device' or 'host' is expected"),
                                     ({"object": True, "keep": True}, "outputs[0].parameters.keep: 'device' or 'host' is expected"),
                                     ({"object": True, "keeps": "device"}, "did you mean 'keep'?")):
            failure = self.failure("double", {"inputs": [x], "outputs": [{"name": "y", "parameters": parameters}]})
            self.assertEqual(failure["errorType"], "Request.Invalid", failure)
            self.assertIn(expected, failure["errorMessage"])
        self.assertEqual(self.value(self.run_on("double", x["parameters"]["object"], object=True, keep="host")), 2.0)
        self.assertEqual(self.since(), {})

    def test_the_python_client_keeps_what_its_calls_make(self):
        self.create_sized("double", 64, COUNT)
        double = self.client.function("double", keep="device")
        y = double.remote(x=self.put(3.0, COUNT), outputs="y")
        z = double.remote(x=y, outputs="y")
        self.assertEqual(self.first_of(z), (12.0, 12.0))
        self.assertEqual(self.since(), {"kept": 2, "read": 1})
        with self.assertRaises(ValueError):
            self.client.function("double", keep="gpu")


class KeptByTwo(KeepTest):
    topology = NVLINK

    def test_one_is_read_on_another_device(self):
        self.create_sized("double", 600, COUNT, factor=2.0)
        self.create_sized("triple", 600, COUNT, factor=3.0)
        y = self.run_on("double", self.x(7.0))
        z = self.run_on("triple", y)
        self.assertNotEqual(self.device_of("double"), self.device_of("triple"))
        self.assertEqual(self.value(z), 42.0)
        self.assertEqual(self.value(y), 14.0)


class KeptElastic(KeepTest):
    topology, more = NVLINK, ("--executor-objects", "elastic")

    def test_they_make_way_for_a_function_that_starts_and_are_what_they_were(self):
        self.create_sized("maker", 100, COUNT)
        made = [self.run_on("maker", self.x(float(number))) for number in range(30)]
        self.create_sized("filler", 950, COUNT, factor=5.0)
        self.value(self.run_on("filler", self.x()))
        self.create_sized("large", 880, COUNT)
        self.value(self.run_on("large", self.x()))
        self.assertEqual([self.value(each) for each in made], [2.0 * number for number in range(30)])
        self.assertNotIn("lost", self.since())


class KeptByTenants(unittest.TestCase):
    def test_another_tenant_neither_reads_nor_deletes_one(self):
        world = TokenWorker("--context-memory", "16", "--concurrency", "2")
        self.addCleanup(world.close)
        for tenant in ("one", "two"):
            world.operator.create_tenant(tenant)
        one, two = (world.operator.caller(tenant) for tenant in ("one", "two"))
        one.create("double", make_zip({"graph.json": json.dumps(scale_graph(COUNT)), **bundle_files()}), runtime="provided.al2023",
                   handler="graph.json", timeout=30, tags={"lambent:kind": "kernel", "lambent:gpu-memory": "64M"})
        x = one.request("POST", f"/v1/objects?datatype=FP32&shape={COUNT}", struct.pack("<f", 3.0) * COUNT).json["object"]

        made = one.invoke("double", {"inputs": [{"name": "x", "parameters": {"object": x}}],
                                     "outputs": [{"name": "y", "parameters": KEEP}]}).json["outputs"][0]["parameters"]["object"]
        for method in ("GET", "HEAD", "DELETE"):
            self.assertEqual(two.status_of(method, f"/v1/objects/{made}")[0], 404)
        self.assertEqual(one.request("HEAD", f"/v1/objects/{made}").headers["x-lambent-place"], "device")
        self.assertEqual(one.request("GET", f"/v1/objects/{made}").body, struct.pack("<f", 6.0) * COUNT)


class KeptAndStopped(KeepTest):
    def test_they_do_not_survive_the_worker_as_no_object_does(self):
        made = self.make()
        self.worker.kill()
        self.worker.start()
        error = self.error_of_object(made)
        self.assertEqual(error.status, 404)
        self.assertIn("was lost when the worker stopped", error.body.decode())
        self.assertEqual(self.value(self.run_on("double", self.x(2.0))), 4.0)


del KeepTest

if __name__ == "__main__":
    unittest.main()
