"""Handlers that share a GPU runtime: their CUDA calls run in an executor, beside kernel functions and each other."""
import threading
import time
import unittest

from harness import make_zip
from test_kernel_functions import KernelTest, bundle_files, scale_graph

MIB = 1 << 20

SCALE = """
import array, os
import lambent_cuda as cuda

device = cuda.Device()
kernels = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles/k"))
scale = kernels.kernel("scale")
kept = []
process = os.urandom(8).hex()

def handler(event, context):
    numbers = array.array("f", event["numbers"])
    y = device.buffer(numbers.itemsize * len(numbers))
    scale(grid=-(-len(numbers) // 256), block=256,
          args=[device.buffer(numbers), y, cuda.float32(event.get("factor", 2)), cuda.uint32(len(numbers))])
    if event.get("keep"):
        kept.append(device.buffer(event["keep"]))
    free, total = device.memory_info()
    return {"y": list(y.array("f")), "free": free, "total": total, "process": process,
            "driver": [line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line][0]}
"""
CAPTURES = """
import ctypes
import lambent_cuda as cuda

device = cuda.Device()
call = device.driver.call
y = device.buffer(64)
stream, graph, executable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))
call("cuStreamBeginCapture_v2", stream, ctypes.c_int(0))
call("cuMemsetD32Async", y.pointer, ctypes.c_uint(7), ctypes.c_size_t(8), stream)
call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(y.pointer.value + 32), y.pointer, ctypes.c_size_t(32), stream)
call("cuStreamEndCapture", stream, ctypes.byref(graph))
call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))

def handler(event, context):
    y.fill(0)
    device.synchronize()  # the stream waits for none of the default stream's work
    call("cuGraphLaunch", executable, stream)
    call("cuStreamSynchronize", stream)
    return list(y.array("I"))
"""
# One stream waits for a function of the program, with a fill of memory behind it that is freed in the order of another one.
FREED_TOO_SOON = """
import ctypes, threading, time
import lambent_cuda as cuda

device = cuda.Device()
call = device.driver.call
go = threading.Event()
wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: go.wait())
held, other = ctypes.c_void_p(), ctypes.c_void_p()
for stream in (held, other):
    call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))

def handler(event, context):
    memory = ctypes.c_uint64()
    before, _ = device.memory_info()
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 20))
    call("cuLaunchHostFunc", held, wait, None)
    call("cuMemsetD8Async", memory, ctypes.c_ubyte(1), ctypes.c_size_t(1 << 20), held)
    call("cuMemFreeAsync", memory, other)
    call("cuStreamSynchronize", other)
    meanwhile, _ = device.memory_info()
    time.sleep(2)  # what was free for a while goes back to the device
    go.set()
    call("cuStreamSynchronize", held)
    while device.memory_info()[0] != before:
        time.sleep(0.01)
    return before - meanwhile
"""
FAULTS = """
import ctypes, os, time
import lambent_cuda as cuda

device = cuda.Device()
kernels = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles/k"))
y, flag = device.buffer(16), device.buffer(4)
flag.fill(0)

def handler(event, context):
    if event["how"] == "die":
        kept = device.buffer(4 << 20)
        os.abort()
    if event["how"] == "foreign":
        device.driver.call("cuMemFree_v2", ctypes.c_uint64(event["address"]))
    if event["how"] == "address":
        return y.pointer.value
    if event["how"] == "ring":
        line = next(line for line in open("/proc/self/maps") if "lambent-forward" in line)
        begin, end = (int(each, 16) for each in line.split()[0].split("-"))
        ctypes.memset(begin, 0xa5, end - begin)
    if event["how"] == "much":
        return len([device.buffer(1 << 20) for _ in range(1000)])
    kernels.kernel(event["how"])(grid=1, block=1, args=[flag, y])
    device.synchronize()
    return "done"
"""


class SharedRuntime(KernelTest):
    def setUp(self):
        for function in self.worker.request("GET", "/v1/functions").json["functions"]:
            self.worker.delete(function["name"])

    def handler(self, name, source, memory="32MiB", domain="", timeout=30, **options):
        tags = {"lambent:gpu-memory": memory, "lambent:gpu-runtime": "shared", "lambent:gpu-domain": domain}
        return self.worker.create(name, make_zip({"app.py": source, **bundle_files()}), tags=tags, timeout=timeout, **options)

    def test_they_compute_in_an_executor_that_kernel_functions_share(self):
        self.handler("first", SCALE)
        self.handler("second", SCALE)
        self.create("kernel", scale_graph())
        first = self.ask("first", {"numbers": [1, 2, 3], "factor": 3}).json
        self.assertEqual(first["y"], [3, 6, 9])
        second = self.ask("second", {"numbers": list(range(1000))}).json
        self.assertEqual(second["y"], [2 * n for n in range(1000)])
        self.assertTrue(first["driver"].startswith("/opt/lambent/forward/"), first["driver"])
        self.assertNotEqual(first["process"], second["process"])
        y = self.outputs(self.ask("kernel", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]}))["y"]["data"]
        self.assertEqual(y, [2, 4, 6, 8])
        self.assertEqual(self.ask("first", {"numbers": [5]}).headers["x-lambent-start"], "warm")

    def test_memory_that_is_freed_too_soon_stays_until_other_streams_have_done_with_it(self):
        self.handler("beside", SCALE)
        self.handler("hasty", FREED_TOO_SOON)
        before = self.ask("beside", {"numbers": [1]}).json["process"]
        self.assertEqual(self.ask("hasty", {}).json, MIB)
        self.assertEqual(self.ask("beside", {"numbers": [1]}).json["process"], before)

    def test_what_was_captured_is_launched_again_and_again(self):
        self.handler("step", CAPTURES)
        self.handler("other", CAPTURES)
        for _ in range(3):
            self.assertEqual(self.ask("step", {}).json, [7] * 16)
            self.assertEqual(self.ask("other", {}).json, [7] * 16)

    def test_a_changed_share_needs_no_new_start(self):
        self.handler("scale", SCALE)
        process = self.ask("scale", {"numbers": [1]}).json["process"]
        for share in "25", "60", "100":
            self.worker.tag("scale", {"lambent:gpu-share": share})
            answer = self.ask("scale", {"numbers": [1, 2]}).json
            self.assertEqual((answer["y"], answer["process"]), ([2, 4], process))

    def test_each_sees_its_own_limit_and_is_told_when_it_is_reached(self):
        self.handler("scale", SCALE)
        answer = self.ask("scale", {"numbers": [1], "keep": 20 * MIB}).json
        self.assertEqual(answer["total"], 32 * MIB)
        self.assertLessEqual(answer["free"], 12 * MIB)
        failure = self.failure("scale", {"numbers": [1], "keep": 20 * MIB})
        self.assertIn("OUT_OF_MEMORY", failure["errorMessage"])
        self.assertEqual(self.ask("scale", {"numbers": [2]}).json["y"], [4])

    def test_its_memory_is_reported_with_its_result(self):
        self.handler("scale", SCALE)
        reply = self.ask("scale", {"numbers": [1], "keep": 8 * MIB})
        self.assertGreaterEqual(int(reply.headers["x-lambent-device-memory-peak-bytes"]), 8 * MIB)
        sandbox = next(each for each in self.worker.sandboxes() if each["function"] == "scale")
        self.assertGreaterEqual(sandbox["device_memory_bytes"], 8 * MIB)

    def test_addresses_of_others_are_none(self):
        self.handler("one", FAULTS)
        self.handler("two", FAULTS)
        address = self.ask("one", {"how": "address"}).json
        self.failure("two", {"how": "foreign", "address": address})
        self.assertEqual(self.ask("one", {"how": "address"}).json, address)

    def test_what_one_that_dies_held_is_given_back(self):
        self.handler("one", FAULTS, memory="900MiB")
        self.handler("much", FAULTS, memory="900MiB")
        for _ in range(3):
            self.failure("one", {"how": "die"})
        self.assertIn("OUT_OF_MEMORY", self.failure("much", {"how": "much"})["errorMessage"])
        self.assertIn("OUT_OF_MEMORY", self.failure("much", {"how": "much"})["errorMessage"])

    def faults(self):
        name = 'lambent_executor_ends_total{how="fault"} '
        return next(float(line.removeprefix(name)) for line in self.worker.metrics().splitlines() if line.startswith(name))

    def test_a_fault_ends_its_domain_and_no_other(self):
        self.handler("broken", FAULTS)
        self.handler("near", SCALE)
        self.handler("far", SCALE, domain="far")
        far = self.ask("far", {"numbers": [1]}).json["process"]
        self.ask("near", {"numbers": [1]})
        before = self.faults()
        self.failure("broken", {"how": "wild"})
        begin = time.monotonic()
        self.assertEqual(self.ask("near", {"numbers": [1, 2]}).json["y"], [2, 4])
        self.assertLess(time.monotonic() - begin, 20)
        reply = self.ask("far", {"numbers": [3]})
        self.assertEqual(reply.headers["x-lambent-start"], "warm")
        self.assertEqual(reply.json["process"], far)
        self.assertGreaterEqual(self.faults(), before + 1)
        self.worker.wait_for(lambda: 'lambent_executors{gpu="0"} 2\n' in self.worker.metrics(), what="an executor for each domain")

    def test_one_that_writes_over_its_ring_is_replaced_and_no_other(self):
        self.handler("liar", FAULTS)
        self.handler("near", SCALE)
        near = self.ask("near", {"numbers": [1]}).json["process"]
        self.failure("liar", {"how": "ring"})
        self.worker.wait_for(lambda: "x-amz-function-error" not in self.worker.invoke("liar", {"how": "address"}).headers,
                             what="another sandbox of it")
        self.assertEqual(self.ask("near", {"numbers": [3]}).json["process"], near)

    def test_a_kernel_that_never_ends_meets_its_time_out(self):
        self.handler("broken", FAULTS, timeout=2)
        self.handler("near", SCALE)
        self.ask("near", {"numbers": [1]})
        failure = self.failure("broken", {"how": "endless"})
        self.assertEqual(failure["errorType"], "Sandbox.Timeout")
        self.assertEqual(self.ask("near", {"numbers": [1, 2]}).json["y"], [2, 4])

    def test_many_at_once(self):
        self.handler("scale", SCALE)
        wrong = []

        def ask(n):
            y = self.ask("scale", {"numbers": [n, n + 1]}).json["y"]
            if y != [2 * n, 2 * n + 2]:
                wrong.append((n, y))
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
