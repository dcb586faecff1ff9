"""Functions that take several GPUs together: what their programs see, their limits, beside functions with one GPU, drains, refusals."""
import json
import subprocess
import threading
import time
import unittest

from harness import PREFIX, WorkerTest, make_zip

MIB = 1 << 20
STAGED = PREFIX / "examples"

SURVEY = """
import ctypes, os, time
import lambent_cuda as cuda

count = ctypes.c_int()
first = cuda.Device(0)
first.driver.call("cuDeviceGetCount", ctypes.byref(count))
devices = [first] + [cuda.Device(i) for i in range(1, count.value)]

def in_order(i, size):
    # On device i, while the context of device 0 is current: by a stream, by its own pool, by a pool that is made for it.
    library = ctypes.CDLL("libcuda.so.1")
    contexts, stream, own, made = [ctypes.c_void_p(), ctypes.c_void_p()], ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    for number, each in zip((0, i), contexts):
        assert library.cuDevicePrimaryCtxRetain(ctypes.byref(each), number) == 0
        assert library.cuCtxSetCurrent(each) == 0
    assert library.cuStreamCreate(ctypes.byref(stream), 1) == 0
    assert library.cuCtxSetCurrent(contexts[0]) == 0
    assert library.cuDeviceGetDefaultMemPool(ctypes.byref(own), i) == 0
    # CUmemPoolProps: pinned memory without handles, on a device.
    properties = (ctypes.c_int * 22)(1, 0, 1, i)
    assert library.cuMemPoolCreate(ctypes.byref(made), properties) == 0
    results = []
    for pool in (None, own, made):
        address = ctypes.c_uint64()
        if pool is None:
            result = library.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(size), stream)
        else:
            result = library.cuMemAllocFromPoolAsync(ctypes.byref(address), ctypes.c_size_t(size), pool, stream)
        results.append(result)
        if result == 0:
            assert library.cuMemFreeAsync(address, stream) == 0
            assert library.cuStreamSynchronize(stream) == 0
    assert library.cuMemPoolDestroy(made) == 0
    assert library.cuStreamDestroy_v2(stream) == 0
    first.driver._thread.context = None
    return results

def handler(event, context):
    answer = {"count": count.value, "visible": os.environ["CUDA_VISIBLE_DEVICES"]}
    answer["free_before"] = [device.memory_info()[0] for device in devices]
    answer["total"] = [device.memory_info()[1] for device in devices]
    held = [devices[i].buffer(size) for i, size in event.get("hold", [])]
    answer["free"] = [device.memory_info()[0] for device in devices]
    # Each device holds what was written to it.
    for i, buffer in enumerate(held):
        buffer.fill(i + 1)
    answer["holds"] = [buffer.bytes()[-1] for buffer in held]
    if "beyond" in event:
        i, size = event["beyond"]
        try:
            devices[i].buffer(size)
            answer["beyond"] = "allocated"
        except cuda.CudaError as error:
            answer["beyond"] = error.name
    if "in_order" in event:
        answer["in_order"] = in_order(*event["in_order"])
    # A context that is made by the program, on each.
    made = []
    for i in range(count.value):
        handle, context_handle = ctypes.c_int(), ctypes.c_void_p()
        first.driver.call("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(i))
        first.driver.call("cuCtxCreate_v2", ctypes.byref(context_handle), ctypes.c_uint(0), handle)
        current = ctypes.c_int(-1)
        library = ctypes.CDLL("libcuda.so.1")
        library.cuCtxGetDevice(ctypes.byref(current))
        made.append(current.value)
        library.cuCtxDestroy_v2(context_handle)
        first.driver._thread.context = None
    answer["contexts"] = made
    time.sleep(event.get("seconds", 0))
    return answer
"""

ONE = """
import time
import lambent_cuda as cuda
device = cuda.Device()

def handler(event, context):
    time.sleep(event.get("seconds", 0))
    return "done"
"""


class GpusTest(WorkerTest):
    flags = ("--concurrency", "1", "--set", "foresee=false")

    def lambent(self, *arguments):
        return subprocess.run([str(PREFIX / "bin/lambent"), *arguments, "--endpoint", self.worker.endpoint],
                              capture_output=True, text=True, timeout=120)

    def create(self, name, source=SURVEY, count=2, memory="64MiB", tags=None, **options):
        tags = {"lambent:gpu-memory": memory, "lambent:gpu-count": str(count), **(tags or {})}
        self.worker.create(name, make_zip({"app.py": source}), tags=tags, **options)
        self.addCleanup(self.worker.delete, name)

    def survey(self, name, **event):
        reply = self.worker.invoke(name, event, timeout=120)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json

    def sandboxes_of(self, name):
        return [each for each in self.worker.sandboxes() if each["function"] == name]


class MostGpusTest(GpusTest):
    gpu = "emulated:tiny-x64"

    def test_a_node_has_64_gpus_and_a_function_can_take_them_all(self):
        devices = self.worker.request("GET", "/v1/devices").json["devices"]
        self.assertEqual(len({device["uuid"] for device in devices}), 64)
        self.create("one", ONE, count=1)
        self.assertEqual(self.worker.invoke("one", {}).json, "done")
        self.create("all", count=64, timeout=120)
        answer = self.survey("all", hold=[[0, 40 * MIB], [31, 20 * MIB], [32, 30 * MIB], [63, 50 * MIB]], beyond=[63, 20 * MIB])
        self.assertEqual(answer["count"], 64)
        self.assertEqual(answer["contexts"], list(range(64)))
        self.assertEqual(answer["holds"], [1, 2, 3, 4])
        self.assertEqual(answer["free_before"][63] - answer["free"][63], 50 * MIB)
        self.assertEqual(answer["beyond"], "CUDA_ERROR_OUT_OF_MEMORY")
        [sandbox] = self.sandboxes_of("all")
        self.assertEqual(len(set(sandbox["gpus"])), 64)


class SeveralGpusTest(GpusTest):
    gpu = "emulated:tiny-x4"

    def test_its_program_sees_its_own_gpus_and_has_its_limit_on_each(self):
        self.create("pair")
        answer = self.survey("pair", hold=[[0, 40 * MIB], [1, 50 * MIB]], beyond=[1, 20 * MIB])
        self.assertEqual(answer["count"], 2)
        self.assertEqual(len(set(answer["visible"].split(","))), 2)
        self.assertEqual(answer["contexts"], [0, 1])
        self.assertEqual(answer["total"], [64 * MIB, 64 * MIB])
        self.assertEqual([before - after for before, after in zip(answer["free_before"], answer["free"])], [40 * MIB, 50 * MIB])
        self.assertEqual(answer["holds"], [1, 2])
        self.assertEqual(answer["beyond"], "CUDA_ERROR_OUT_OF_MEMORY")
        # Beyond the limit of one device, though within that of both.
        self.assertEqual(self.survey("pair", hold=[[0, 60 * MIB]], beyond=[0, 20 * MIB])["beyond"], "CUDA_ERROR_OUT_OF_MEMORY")
        self.assertEqual(self.survey("pair", hold=[[0, 60 * MIB]], beyond=[1, 60 * MIB])["beyond"], "allocated")
        [sandbox] = self.sandboxes_of("pair")
        self.assertEqual(len(set(sandbox["gpus"])), 2)
        self.assertEqual(sandbox["gpus"][0], sandbox["gpu"])
        reply = self.worker.invoke("pair", {"hold": [[0, 40 * MIB], [1, 50 * MIB]]})
        self.assertEqual(int(reply.headers["x-lambent-device-memory-peak-bytes"]), 90 * MIB)

    def test_every_view_of_a_call_names_all_its_gpus(self):
        self.create("pair")
        self.create("one", ONE, count=1)
        reply = self.worker.invoke("pair", {})
        [sandbox] = self.sandboxes_of("pair")
        both = ",".join(sandbox["gpus"])
        self.assertEqual(reply.headers["x-lambent-device"], both)
        self.assertEqual(len(self.worker.invoke("one", {}).headers["x-lambent-device"]), 1)
        rows = {row["function"]: row for row in self.worker.request("GET", "/v1/activity/invocations").json["invocations"]}
        self.assertEqual((rows["pair"]["gpu"], rows["pair"]["gpus"]), (sandbox["gpu"], sandbox["gpus"]))
        self.assertEqual(rows["one"]["gpus"], [rows["one"]["gpu"]])
        self.assertIn(f"gpu {both} ", self.lambent("invoke", "pair").stderr)
        listed = self.lambent("invocations", "pair")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn(f"  {both}  ", listed.stdout)
        # The outcome of an asynchronous one is kept with them.
        begun = self.worker.invoke("pair", {}, kind="Event").headers["x-amzn-requestid"]

        def outcome():
            answer = self.worker.request("GET", f"/v1/invocations/{begun}")
            return answer if answer.status == 200 else None

        self.assertEqual(self.worker.wait_for(outcome, what="the outcome").headers["x-lambent-device"], both)
        # As a step of a workflow.
        graph = {"components": [{"name": "step", "function": "pair", "input": {}}]}
        self.worker.create("chain", make_zip({"workflow.json": json.dumps(graph)}), runtime="provided.al2023", handler="workflow.json",
                           tags={"lambent:kind": "workflow"})
        self.addCleanup(self.worker.delete, "chain")
        run = self.worker.invoke("chain", {}).headers["x-amzn-requestid"]
        [call] = self.worker.request("GET", f"/v1/invocations/{run}/trace").json["calls"]
        self.assertEqual(call["gpus"], sandbox["gpus"])

    def test_memory_in_the_order_of_a_stream_counts_for_the_device_that_it_lies_on(self):
        self.create("streams")
        # What is left of device 1, and a device 0 that is full.
        answer = self.survey("streams", hold=[[0, 60 * MIB], [1, 40 * MIB]], in_order=[1, 20 * MIB])
        self.assertEqual(answer["in_order"], [0, 0, 0])
        # And too little of device 1, with much of device 0.
        answer = self.survey("streams", hold=[[1, 60 * MIB]], in_order=[1, 20 * MIB])
        self.assertEqual(answer["in_order"], [2, 2, 2])

    def test_the_example_works_on_both(self):
        done = self.lambent("deploy", str(STAGED / "31_several_gpus"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.worker.delete, "several_gpus")
        done = self.lambent("invoke", "several_gpus", "-d", '{"check": true, "count": 1001}')
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertIs(answer["correct"], True)
        self.assertEqual(answer["gpus"], 2)
        shown = self.lambent("describe", "several_gpus")
        self.assertRegex(shown.stdout, r"gpu_count +2")

    def test_beside_functions_with_one_gpu_it_comes_to_its_turn_and_they_to_theirs(self):
        self.create("four", count=4)
        for i in range(4):
            self.create(f"one{i}", ONE, count=1)
        stop = threading.Event()
        served = [0] * 4

        def keep_busy(i):
            while not stop.is_set():
                self.worker.invoke(f"one{i}", {"seconds": 0.05})
                served[i] += 1
        threads = [threading.Thread(target=keep_busy, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        try:
            self.worker.wait_for(lambda: min(served) > 2, what="all to be served")
            before = list(served)
            begin = time.monotonic()
            replies = [self.worker.invoke("four", {}) for _ in range(3)]
            took = time.monotonic() - begin
            self.assertEqual([reply.json["count"] for reply in replies], [4] * 3)
            self.worker.wait_for(lambda: all(now > then + 1 for now, then in zip(served, before)), what="all to be served again")
            self.assertLess(took, 60)
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def test_a_drained_gpu_takes_its_sandbox_along_and_it_goes_on_with_others(self):
        self.create("pair")
        self.survey("pair")
        [sandbox] = self.sandboxes_of("pair")
        drained = sandbox["gpus"][1]
        done = self.lambent("drain", drained)
        self.assertEqual(done.returncode, 0, done.stderr)
        try:
            self.worker.wait_for(lambda: all(each["id"] != sandbox["id"] for each in self.sandboxes_of("pair")),
                                 what="its sandbox to end")
            self.assertEqual(self.survey("pair")["count"], 2)
            [after] = self.sandboxes_of("pair")
            self.assertNotIn(drained, after["gpus"])
        finally:
            self.lambent("undrain", drained)

    def test_what_cannot_be_is_refused_with_what_to_change(self):
        code = make_zip({"app.py": ONE})
        for count, tags, words in ((5, {}, "this worker has 4 GPUs"), (2, {"lambent:gpu-memory": "4GiB"}, "device memory"),
                                   (2, {"lambent:gpu-memory": "0MiB"}, "gpu.memory is not given"),
                                   (2, {"lambent:gpu-runtime": "shared"}, "set gpu.runtime to 'own'"),
                                   (2, {"lambent:cpu-variant": "true"}, "remove the CPU variant"),
                                   (2, {"lambent:checkpoint": "true"}, "remove checkpoint"),
                                   (2, {"lambent:kind": "kernel"}, "needs gpu.count = 1"), (65, {}, "64"), (0, {}, "")):
            tags = {"lambent:gpu-memory": "64MiB", "lambent:gpu-count": str(count), **tags}
            error = self.error_of(self.worker.create, "refused", code, tags=tags)
            self.assertEqual(error.status, 400, error.body)
            self.assertIn(words, error.body.decode())

    def test_a_policy_that_gives_gpus_one_by_one_refuses_it(self):
        from harness import Worker
        worker = Worker("--policy", "exclusive", gpu=self.gpu)
        self.addCleanup(worker.close)
        tags = {"lambent:gpu-memory": "64MiB", "lambent:gpu-count": "2"}
        error = self.error_of(worker.create, "pair", make_zip({"app.py": ONE}), tags=tags)
        self.assertIn("run it with density", error.body.decode())


if __name__ == "__main__":
    unittest.main()
