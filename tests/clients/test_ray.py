"""lambent.ray with Ray itself, on one machine: two nodes of Ray, a worker for each, and what is left when the agents or Ray end."""
import json
import os
import signal
import time
import unittest
import urllib.request

import test_kernel_functions as kernels
from harness import process_exists
from ray_cluster import NEEDS_RAY, NEEDS_TIME, RayTest, deploy, invoke

COUNT = 1 << 18  # a MiB, which Ray keeps in its shared memory


@NEEDS_RAY
@NEEDS_TIME
class OnRay(RayTest):
    @classmethod
    def setUpClass(cls):
        cls.begin_with_total(nodes=2)
        deploy(cls.addresses[0], "scale", {"graph.json": json.dumps(kernels.scale_graph(COUNT)), **kernels.bundle_files()},
               handler="graph.json", kind="kernel")
        flow = {"components": [{"name": "scaled", "function": "scale", "input": {"x": "$input.x"}}],
                "output": {"y": "$scaled.y", "note": "$input.note"}}
        deploy(cls.addresses[0], "flow", {"workflow.json": json.dumps(flow)}, handler="workflow.json", kind="workflow")

    def test_1_every_node_of_ray_has_a_worker_and_its_gpus_are_ours(self):
        for status in self.cluster.status():
            self.assertEqual([member["state"] for member in status["cluster"]["members"]], ["up", "up"])
            self.assertEqual(len(status["gpus"]), 1)
        self.assertEqual(len({status["cluster"]["home"] for status in self.cluster.status()}), 1)
        self.wait_for(lambda: self.ray.available_resources().get("GPU", 0) == 0)
        self.assertEqual(len(self.workers()), 2)

    def test_2_functions_take_what_tasks_of_ray_make(self):
        @self.ray.remote(num_cpus=0.1)
        def numbers(count):
            time.sleep(0.5)
            return {"numbers": list(range(count))}

        @self.ray.remote(num_cpus=0.1)
        def double(answer):
            return 2 * answer["sum"]

        total = self.lambent.function("total")
        begin = time.monotonic()
        made = numbers.remote(5)
        answer = double.remote(total.remote(made))  # nothing has been waited for
        self.assertLess(time.monotonic() - begin, 0.5)
        self.assertEqual(self.ray.get(answer, timeout=60), 20)
        self.assertEqual(self.ray.get(total.remote({"numbers": [1, 2]}), timeout=60), {"sum": 3})
        self.assertEqual(self.ray.get(total.remote(b'{"numbers": [4]}'), timeout=60), {"sum": 4})

    def test_3_failures_are_errors_of_ray_and_ours(self):
        from lambent.errors import FunctionError, LambentError
        total = self.lambent.function("total")
        with self.assertRaises(self.ray.exceptions.RayTaskError) as caught:
            self.ray.get(total.remote({"fail": True}), timeout=60)
        self.assertIsInstance(caught.exception, FunctionError)
        self.assertIn("asked to", str(caught.exception))
        with self.assertRaises(LambentError):
            self.ray.get(self.lambent.function("nothing").remote({}), timeout=60)

        @self.ray.remote(num_cpus=0.1)
        def broken():
            raise RuntimeError("before")

        with self.assertRaises(RuntimeError):
            self.ray.get(total.remote(broken.remote()), timeout=60)

    def test_30_kernel_functions_take_and_give_references_of_arrays(self):
        import numpy

        @self.ray.remote(num_cpus=0.1)
        def make(first):
            time.sleep(0.5)
            return numpy.arange(first, first + COUNT, dtype=numpy.float32)

        @self.ray.remote(num_cpus=0.1)
        def last(array):
            return float(array[-1])

        scale = self.lambent.function("scale")
        begin = time.monotonic()
        made = scale.remote(x=scale.remote(x=make.remote(1), outputs="y"), outputs=["y"])
        answer = last.remote(made)  # nothing has been waited for
        self.assertLess(time.monotonic() - begin, 0.5)
        self.assertIsInstance(made, self.ray.ObjectRef)
        self.assertEqual(self.ray.get(answer, timeout=60), 4.0 * COUNT)
        array = self.ray.get(made)
        # It lies in Ray's memory, and no copy of it is made for who reads.
        self.assertEqual((array.dtype, array.shape, array.flags.owndata, array.flags.writeable), (numpy.float32, (COUNT,), False, False))

    def test_31_handles_stay_where_they_were_made_until_they_are_fetched(self):
        import numpy
        from lambent.errors import InvalidArgument
        scale = self.lambent.function("scale")
        handle = self.ray.get(scale.remote(x=numpy.ones(COUNT, numpy.float32), outputs="y", handles=True), timeout=60)
        self.assertRegex(str(handle), "^lambent://[-0-9a-f]+[.]0$")
        again = self.ray.get(scale.remote(x=handle, outputs="y"), timeout=60)
        self.assertEqual(again[-1], 4)
        # Any node fetches it, from the one that has it.
        for agent in self.cluster.agents.values():
            self.assertEqual(self.ray.get(agent.fetch.remote(handle.id), timeout=60)[-1], 2)
        self.assertEqual(self.lambent.Handle(str(handle)).get(timeout=60)[0], 2)
        handle.remove()
        with self.assertRaises(InvalidArgument) as caught:
            self.lambent.Handle("lambent://nothing")
        self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")

    def test_32_workflows_take_references_within_their_input_and_give_arrays(self):
        import numpy
        given = self.ray.put(numpy.ones(COUNT, numpy.float32))
        flow = self.lambent.function("flow")
        answer = self.ray.get(flow.remote({"x": given, "note": ["kept", self.ray.put(7)]}), timeout=60)
        self.assertEqual((answer["y"].shape, answer["y"][5], answer["note"]), ((COUNT,), 2, ["kept", 7]))
        handle = self.ray.get(flow.remote({"x": given, "note": None}, handles=True), timeout=60)["y"]
        self.assertEqual(self.ray.get(handle.remote(), timeout=60)[0], 2)
        # What it is given stays its owner's, also if it comes back.
        answer = self.ray.get(flow.remote({"x": handle, "note": {"same": handle}}), timeout=60)
        self.assertEqual((answer["y"][0], answer["note"]["same"][0]), (4, 2))
        time.sleep(11)  # what is removed can be read for ten seconds more
        self.assertEqual(handle.get(timeout=60)[0], 2)

    def test_33_what_fails_before_or_in_a_kernel_function_is_an_error_of_ray(self):
        import numpy
        from lambent.errors import LambentError

        @self.ray.remote(num_cpus=0.1)
        def broken():
            raise KeyError("before")

        @self.ray.remote(num_cpus=0.1)
        def after(array):
            return len(array)

        scale = self.lambent.function("scale")
        with self.assertRaises(KeyError):
            self.ray.get(after.remote(scale.remote(x=broken.remote(), outputs="y")), timeout=60)
        with self.assertRaises(self.ray.exceptions.RayTaskError) as caught:
            self.ray.get(after.remote(scale.remote(x=numpy.ones(3, numpy.float32), outputs="y")), timeout=60)
        self.assertIsInstance(caught.exception, LambentError)
        self.assertIn("x", str(caught.exception))
        with self.assertRaises(TypeError):
            scale.remote({"x": 1}, x=1, outputs="y")
        with self.assertRaises(TypeError):
            scale.remote(x=1)

    def test_4_an_agent_that_is_killed_takes_no_worker_with_it_and_comes_back(self):
        before = self.workers()
        status = self.cluster.status()[0]
        os.kill(status["pid"], signal.SIGKILL)
        for address in self.addresses:
            self.assertEqual(invoke(address, "total", {"numbers": [1]}), {"sum": 1})

        def is_back():
            try:
                return self.cluster.status()[0]["pid"] != status["pid"]
            except self.ray.exceptions.RayError:
                return False
        self.wait_for(is_back)
        self.assertEqual(self.workers(), before)
        self.assertEqual(self.ray.get(self.lambent.function("total").remote({"numbers": [2]}), timeout=60), {"sum": 2})

    def test_5_a_second_start_finds_what_is_there(self):
        before = self.workers()
        again = self.start(serve=[], timeout=60)
        self.assertEqual({each["pid"] for each in again.status()}, {each["pid"] for each in self.cluster.status()})
        self.assertEqual(self.workers(), before)

    def test_51_agents_that_were_stopped_and_started_are_asked(self):
        total = self.lambent.function("total")
        self.assertEqual(self.ray.get(total.remote({"numbers": [3]}), timeout=60), {"sum": 3})
        before = self.workers()
        self.cluster.stop()
        type(self).cluster = self.start(serve=[], timeout=60)
        self.assertEqual(self.ray.get(total.remote({"numbers": [4]}), timeout=60), {"sum": 4})
        self.assertEqual(self.workers(), before)

    def test_6_without_ray_the_workers_go_on(self):
        before = self.workers()
        self.ray.shutdown()
        self.of_ray.shutdown()
        time.sleep(self.lambent.LEASE + 2)  # nobody tells them who is a member any more
        assert_goes_on(self, before)


def assert_goes_on(test, workers):
    """The same processes are members of each other and answer."""
    test.assertEqual(test.workers(), workers)
    for address in test.addresses:
        test.assertEqual(invoke(address, "total", {"numbers": [1, 1]}), {"sum": 2})
        with urllib.request.urlopen(address + "/v1/cluster", timeout=10) as answer:
            states = [member["state"] for member in json.load(answer)["members"]]
        test.assertEqual(states, ["up", "up"])


@NEEDS_RAY
@NEEDS_TIME
class WithoutTheHead(RayTest):
    """The state service of Ray's head is killed, and raylets give up a minute later."""

    @classmethod
    def setUpClass(cls):
        cls.begin_with_total(nodes=2)

    def processes(self, kind):
        return [each.process for node in self.of_ray.list_all_nodes() for each in node.all_processes.get(kind, [])]

    def test_workers_members_and_calls_go_on(self):
        before = self.workers()
        agents = [status["pid"] for status in self.cluster.status()]
        raylets = self.processes("raylet")
        self.assertEqual((len(before), len(agents), len(raylets)), (2, 2, 2))
        self.ray.shutdown()  # a driver ends itself without a head; the agents stay
        head = self.processes("gcs_server")
        self.assertEqual(len(head), 1)
        head[0].kill()
        head[0].wait()
        calls = 0
        deadline = time.monotonic() + 150
        # Until raylets and agents are gone too, no call fails and each node sees the other.
        while any(raylet.poll() is None for raylet in raylets) or any(process_exists(agent) for agent in agents):
            self.assertLess(time.monotonic(), deadline, "Ray's processes go on without a head")
            assert_goes_on(self, before)
            calls += 1
            time.sleep(0.5)
        self.assertGreater(calls, 10)
        time.sleep(self.lambent.LEASE + 2)
        assert_goes_on(self, before)


if __name__ == "__main__":
    unittest.main()
