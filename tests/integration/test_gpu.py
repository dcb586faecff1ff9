"""GPU functions through the whole worker: the examples, memory limits, kernels that never end, crashes, sharing."""
import functools
import json
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

from harness import PREFIX, WorkerTest, make_zip

MIB = 1 << 20
STAGED = PREFIX / "examples"

SURVEY = """
import ctypes, os
import lambent_cuda as cuda

device = cuda.Device()

def handler(event, context):
    held = [device.buffer(size << 20) for size in event.get("hold_mib", [])]
    answer = {"info": device.memory_info(), "name": device.name}
    total = ctypes.c_size_t()
    device.driver.call("cuDeviceTotalMem_v2", ctypes.byref(total), device._handle)
    answer["total"] = total.value
    if "beyond_mib" in event:
        try:
            device.buffer(event["beyond_mib"] << 20)
            answer["beyond"] = "allocated"
        except cuda.CudaError as error:
            answer["beyond"] = error.name
    if "seconds" in event:
        import time
        time.sleep(event["seconds"])
    count = ctypes.c_int()
    device.driver.call("cuDeviceGetCount", ctypes.byref(count))
    answer["devices"] = count.value
    answer["visible"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    if event.get("crash"):
        os.abort()
    return answer
"""

LAUNCH = """
import lambent_cuda as cuda

device = cuda.Device()
kernels = device.load("/var/task/bundles/hostile")
memory = device.buffer(32 << 20)

def handler(event, context):
    memory.fill(0)
    kernels.kernel(event["kernel"])(grid=4, block=32, args=[memory])
    device.synchronize()
    return "done"
"""

HOSTILE = """
#include <lambent/kernel.h>

// The flag is never set: on a device, too, this ends only with its process.
extern "C" __global__ void endless(volatile unsigned* flag) {
  while (flag[0] == 0) {
  }
}
LAMBENT_KERNEL(endless);

extern "C" __global__ void wild(volatile unsigned* flag) {
  volatile unsigned* nowhere = reinterpret_cast<volatile unsigned*>(16);
  *nowhere = flag[0];
}
LAMBENT_KERNEL(wild);

extern "C" __global__ void tame(volatile unsigned* flag) { flag[threadIdx.x] = threadIdx.x; }
LAMBENT_KERNEL(tame);
"""


@functools.lru_cache(maxsize=None)
def hostile_bundle():
    """The bundle of HOSTILE, as {name in the zip: content}."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "hostile.cu"
        source.write_text(HOSTILE)
        out = pathlib.Path(folder) / "hostile"
        subprocess.run([str(PREFIX / "bin/lambent-bundle"), "build", str(source), "-o", str(out)], check=True,
                       capture_output=True)
        return {"bundles/hostile/" + str(path.relative_to(out)): path.read_bytes()
                for path in out.rglob("*") if path.is_file()}


class GpuTest(WorkerTest):
    flags = ("--concurrency", "4")

    def lambent(self, *arguments, **options):
        return subprocess.run([str(PREFIX / "bin/lambent"), *arguments, "--endpoint", self.worker.endpoint],
                              capture_output=True, text=True, timeout=120, **options)

    def deploy(self, example):
        done = self.lambent("deploy", str(STAGED / example))
        self.assertEqual(done.returncode, 0, done.stderr)

    def create_gpu(self, name, source, files=None, gpu_memory="64MiB", tags=None, **options):
        tags = {"lambent:gpu-memory": gpu_memory, **(tags or {})}
        return self.worker.create(name, make_zip({"app.py": source, **(files or {})}), tags=tags, **options)

    def device_memory_used(self):
        return sum(float(line.rpartition(" ")[2]) for line in self.worker.metrics().splitlines()
                   if line.startswith("lambent_gpu_memory_bytes{") and 'kind="used"' in line)

    def steady_memory_used(self):
        """Once two readings of the device agree; a reading may be a moment old."""
        readings = [-1.0]

        def steady():
            readings.append(self.device_memory_used())
            time.sleep(0.5)
            return readings[-1] == readings[-2]
        self.worker.wait_for(steady, what="a steady reading")
        return readings[-1]

    def assert_memory_comes_back_to(self, bytes_used):
        self.worker.wait_for(lambda: self.device_memory_used() <= bytes_used, 15,
                             f"that the device is back at {bytes_used} bytes used, from {self.device_memory_used()},")

    def assert_function_error(self, reply, error_type, part=""):
        self.assertEqual(reply.headers.get("x-amz-function-error"), "Unhandled", reply.body)
        self.assertEqual(reply.json["errorType"], error_type, reply.body)
        self.assertIn(part, reply.json["errorMessage"])

    def assert_works(self, reply):
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json


class ExamplesTest(GpuTest):
    def check(self, example, name, *events):
        self.deploy(example)
        for event in events:
            reply = self.worker.invoke(name, {"check": True, **event})
            self.assertIs(self.assert_works(reply).get("correct"), True, reply.body)
            peak = int(reply.headers["x-lambent-device-memory-peak-bytes"])
            self.assertTrue(0 < peak <= 64 * MIB, peak)
        self.worker.delete(name)

    def test_vector_add_agrees_with_the_cpu(self):
        self.check("01_python_vector_add", "vector_add", {}, {"count": 1000})

    def test_matmul_agrees_with_the_cpu(self):
        self.check("02_python_matmul", "matmul", {})

    def test_fft_agrees_with_the_cpu(self):
        self.check("03_python_fft", "fft", {})

    def test_jacobi_agrees_with_the_cpu(self):
        self.check("04_python_jacobi", "jacobi", {})

    def test_the_native_handler_agrees_with_the_cpu(self):
        self.check("05_native_handler", "native", *({"kernel": kernel} for kernel in
                                                    ("vector_add", "matmul", "fft", "jacobi")))

    def test_the_peak_is_what_one_invocation_held(self):
        self.deploy("01_python_vector_add")
        peaks = [int(self.worker.invoke("vector_add", {"count": count}).headers["x-lambent-device-memory-peak-bytes"])
                 for count in (1 << 20, 1 << 10)]
        self.assertGreaterEqual(peaks[0], 3 * 4 << 20)
        self.assertLess(peaks[1], peaks[0])
        self.worker.delete("vector_add")

    def test_a_kernel_bundle_of_the_package_serves_what_the_command_sends(self):
        self.deploy("01_python_vector_add")
        done = self.lambent("invoke", "vector_add", "-d", '{"a": [1, 2], "b": [10, 20]}')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["c"], [11, 22])
        self.assertIn("cold", done.stderr)
        self.worker.delete("vector_add")


class PaperFunctionTest(GpuTest):
    gpu = "emulated:v100-16gb"
    flags = ("--concurrency", "2", "--time-scale", "10")

    def test_a_modelled_function_takes_its_time_and_holds_its_memory(self):
        manifest = (STAGED / "06_paper_function/lambent.toml").read_text()
        with tempfile.TemporaryDirectory() as folder:
            manifest = manifest.replace('LAMBENT_TIME_SCALE = "1"', 'LAMBENT_TIME_SCALE = "10"')
            manifest = manifest.replace("../../share", str(PREFIX / "share"))
            (pathlib.Path(folder) / "lambent.toml").write_text(manifest)
            bootstrap = pathlib.Path(folder) / "bootstrap"
            bootstrap.write_bytes((STAGED / "06_paper_function/bootstrap").read_bytes())
            bootstrap.chmod(0o755)
            done = self.lambent("deploy", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        first = self.worker.invoke("paper-function")
        self.assertEqual(self.assert_works(first)["modelled_ms"], 500)
        # Its 200 ms count from its first instruction, the worker's from when it hears that the process is there.
        self.assertGreaterEqual(int(first.headers["x-lambent-init-us"]), 190_000)
        second = self.worker.invoke("paper-function")
        self.assertEqual(second.headers["x-lambent-start"], "warm")
        # 500 modelled milliseconds are 50 real ones.
        self.assertGreaterEqual(int(second.headers["x-lambent-run-us"]), 50_000)
        self.assertLess(int(second.headers["x-lambent-run-us"]), 250_000)
        self.assertGreaterEqual(int(second.headers["x-lambent-device-memory-peak-bytes"]), 1024 * MIB)
        self.worker.wait_for(lambda: self.device_memory_used() >= 1024 * MIB, what="the device's used memory")


class LimitTest(GpuTest):
    def test_every_question_about_memory_is_answered_with_the_limit(self):
        self.create_gpu("survey", SURVEY, gpu_memory="96MiB")
        answer = self.assert_works(self.worker.invoke("survey"))
        self.assertEqual(answer["info"], [96 * MIB, 96 * MIB])
        self.assertEqual(answer["total"], 96 * MIB)
        answer = self.assert_works(self.worker.invoke("survey", {"hold_mib": [32]}))
        self.assertEqual(answer["info"], [64 * MIB, 96 * MIB])

    def test_more_than_the_limit_is_refused_and_the_function_goes_on(self):
        self.create_gpu("greedy", SURVEY)
        reply = self.worker.invoke("greedy", {"beyond_mib": 65})
        self.assertEqual(self.assert_works(reply)["beyond"], "CUDA_ERROR_OUT_OF_MEMORY")
        reply = self.worker.invoke("greedy", {"hold_mib": [32], "beyond_mib": 33})
        self.assertEqual(self.assert_works(reply)["beyond"], "CUDA_ERROR_OUT_OF_MEMORY")
        reply = self.worker.invoke("greedy", {"hold_mib": [32], "beyond_mib": 31})
        self.assertEqual(self.assert_works(reply)["beyond"], "allocated")
        self.assertEqual(reply.headers["x-lambent-start"], "warm")
        # Unhandled, it is an error of the function's, and the next invocation works.
        self.assert_function_error(self.worker.invoke("greedy", {"hold_mib": [128]}), "OutOfMemory",
                                   "CUDA_ERROR_OUT_OF_MEMORY")
        self.assert_works(self.worker.invoke("greedy"))

    def test_the_children_of_a_function_share_its_limit(self):
        self.create_gpu("family", """
import subprocess, sys
import lambent_cuda as cuda
device = cuda.Device()
CHILD = '''
import sys
sys.path.insert(0, "/var/runtime")
import lambent_cuda as cuda
try:
    cuda.Device().buffer(int(sys.argv[1]) << 20); print("allocated")
except cuda.OutOfMemory:
    print("refused")
'''
def handler(event, context):
    held = device.buffer(40 << 20)
    run = lambda mib: subprocess.run([sys.executable, "-c", CHILD, str(mib)], capture_output=True, text=True)
    return [run(30).stdout.strip(), run(20).stdout.strip(), run(20).stdout.strip()]
""")
        reply = self.worker.invoke("family")
        self.assertEqual(self.assert_works(reply), ["refused", "allocated", "allocated"])

    def test_a_function_that_asked_for_no_gpu_has_none(self):
        self.worker.create_python("plain", """
import ctypes, os
def handler(event, context):
    seen = {name: os.environ.get(name) for name in ("LD_PRELOAD", "EMULATED_CUDA_NODE", "LAMBENT_SHIM_LEDGER")}
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        try:
            ctypes.CDLL(name); seen[name] = "there"
        except OSError:
            seen[name] = None
    seen["lambent"] = os.path.exists("/opt/lambent/gpu-node") or None
    seen["devices"] = [n for n in os.listdir("/dev") if "nvidia" in n] or None
    return seen
""")
        seen = self.assert_works(self.worker.invoke("plain"))
        self.assertEqual([name for name, value in seen.items() if value is not None], [])

    def test_a_function_cannot_choose_what_stands_before_its_driver(self):
        self.create_gpu("sly", SURVEY, environment={
            "CUDA_VISIBLE_DEVICES": "", "LD_PRELOAD": "", "LAMBENT_SHIM_LEDGER": "/tmp/none",
            "EMULATED_CUDA_NODE": "/tmp/node"})
        answer = self.assert_works(self.worker.invoke("sly", {"beyond_mib": 65}))
        self.assertEqual((answer["devices"], answer["visible"], answer["beyond"], answer["total"]),
                         (1, "0", "CUDA_ERROR_OUT_OF_MEMORY", 64 * MIB))

    def test_more_than_any_device_has_is_refused_at_once(self):
        error = self.error_of(self.create_gpu, "colossal", SURVEY, gpu_memory="2GiB")
        self.assertEqual(error.status, 400)
        self.assertIn("memory", error.body.decode())


class SharingTest(GpuTest):
    def test_two_functions_hold_memory_of_one_device_at_once(self):
        replies = {}
        for name in ("left", "right"):
            self.create_gpu(name, SURVEY, gpu_memory="320MiB")
            self.assert_works(self.worker.invoke(name))
        before = self.steady_memory_used()

        def call(name):
            replies[name] = self.worker.invoke(name, {"hold_mib": [300], "seconds": 2})

        threads = [threading.Thread(target=call, args=(name,)) for name in ("left", "right")]
        for thread in threads:
            thread.start()
        self.worker.wait_for(lambda: self.device_memory_used() >= before + 600 * MIB, 10, "that both hold memory")
        for thread in threads:
            thread.join()
        for name in ("left", "right"):
            self.assertEqual(self.assert_works(replies[name])["info"], [20 * MIB, 320 * MIB])
            self.assertGreaterEqual(int(replies[name].headers["x-lambent-device-memory-peak-bytes"]), 300 * MIB)
        self.assert_memory_comes_back_to(before)
        for name in ("left", "right"):
            self.worker.delete(name)
        self.assert_memory_comes_back_to(before - 2 * 16 * MIB)


class HostileKernelTest(GpuTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker.create_python("good", "def handler(e, c): return 'good'")

    def setUp(self):
        self.create_gpu("hostile", LAUNCH, hostile_bundle(), timeout=2)
        self.create_gpu("neighbour", SURVEY)
        self.assert_works(self.worker.invoke("neighbour"))
        self.before = self.steady_memory_used()

    def tearDown(self):
        self.worker.delete("hostile")
        self.worker.delete("neighbour")
        self.assert_memory_comes_back_to(0)

    def test_a_kernel_that_never_ends_is_stopped_at_the_timeout(self):
        started = time.monotonic()
        replies = []
        caller = threading.Thread(target=lambda: replies.append(self.worker.invoke("hostile", {"kernel": "endless"})))
        caller.start()
        others = 0
        while caller.is_alive():
            self.assert_works(self.worker.invoke("neighbour", {"hold_mib": [8]}))
            self.assertEqual(self.worker.invoke("good").json, "good")
            others += 1
        caller.join()
        self.assert_function_error(replies[0], "Sandbox.Timeout", "timed out after 2.")
        self.assertLess(time.monotonic() - started, 12)
        self.assertGreater(others, 3)
        self.assert_memory_comes_back_to(self.before)
        self.assertEqual(self.assert_works(self.worker.invoke("hostile", {"kernel": "tame"})), "done")

    def test_a_wild_write_of_a_kernel_breaks_that_functions_context_alone(self):
        self.assert_works(self.worker.invoke("hostile", {"kernel": "tame"}))
        broken = self.worker.sandbox_ids("hostile")
        reply = self.worker.invoke("hostile", {"kernel": "wild"})
        self.assert_function_error(reply, "CudaError", "CUDA_ERROR_ILLEGAL_ADDRESS")
        self.assert_works(self.worker.invoke("neighbour"))
        self.assertIn(b"The CUDA context of this process is broken (CUDA error 700)", self.worker.request(
            "GET", "/v1/functions/hostile/log").body)
        # As on a GPU, the context stays broken for as long as its process lives: so nothing more is given to it.
        self.assertEqual(self.assert_works(self.worker.invoke("hostile", {"kernel": "tame"})), "done")
        self.assertTrue(self.worker.sandbox_ids("hostile").isdisjoint(broken))
        self.assertEqual(self.worker.invoke("hostile", {"kernel": "tame"}).headers["x-lambent-start"], "warm")

    def test_what_waited_for_a_process_whose_context_breaks_runs_in_the_next(self):
        replies = []
        callers = [threading.Thread(target=lambda kernel=kernel: replies.append((kernel, self.worker.invoke("hostile", {"kernel": kernel}))))
                   for kernel in ("wild", "tame", "tame", "wild", "tame")]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        for kernel, reply in replies:
            if kernel == "tame":
                self.assertEqual(self.assert_works(reply), "done")
            else:
                self.assert_function_error(reply, "CudaError", "CUDA_ERROR_ILLEGAL_ADDRESS")

    def test_crashes_with_memory_in_hand_leave_none_behind(self):
        for _ in range(5):
            reply = self.worker.invoke("neighbour", {"hold_mib": [20, 20], "crash": True})
            self.assert_function_error(reply, "Runtime.ExitError", "signal")
            self.assertGreaterEqual(int(reply.headers["x-lambent-device-memory-peak-bytes"]), 40 * MIB)
        self.assert_works(self.worker.invoke("neighbour"))
        self.assert_memory_comes_back_to(self.before)


MADE_WHILE_RUNNING = r'''
import ctypes
import lambent_cuda as cuda

device = cuda.Device()
PTX = """.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 out, .param .u32 value)
{
.reg .b64 %rd<4>;
.reg .b32 %r<4>;
ld.param.u64 %rd1, [out];
ld.param.u32 %r1, [value];
mov.u32 %r2, %tid.x;
mad.lo.s32 %r3, %r2, FACTOR, %r1;
mul.wide.u32 %rd2, %r2, 4;
add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r3;
ret;
}
"""

def handler(event, context):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    text = PTX.replace("FACTOR", str(event["factor"])).encode()
    device.driver.call("cuModuleLoadData", ctypes.byref(module), text)
    device.driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"store")
    memory = device.buffer(4 * 32)
    arguments = [memory.pointer, ctypes.c_uint32(event["value"])]
    pointers = (ctypes.c_void_p * 2)(*[ctypes.addressof(each) for each in arguments])
    one, threads = ctypes.c_uint(1), ctypes.c_uint(32)
    device.driver.call("cuLaunchKernel", function, one, one, one, threads, one, one, ctypes.c_uint(0), None, pointers, None)
    device.synchronize()
    return list(memoryview(memory.bytes()).cast("I"))
'''


class PtxTest(GpuTest):
    """PTX that a function makes is compiled in its sandbox, or in that of its executor, with the host's compiler."""

    def test_kernels_that_a_function_makes_run_in_its_sandbox(self):
        for runtime in ("own", "shared"):
            with self.subTest(runtime=runtime):
                name = "maker-" + runtime
                tags = {"lambent:gpu-runtime": "shared"} if runtime == "shared" else None
                self.create_gpu(name, MADE_WHILE_RUNNING, tags=tags, memory=1024, timeout=120)
                for factor, value in ((3, 5), (3, 7), (4, 5)):
                    found = self.assert_works(self.worker.invoke(name, {"factor": factor, "value": value}))
                    self.assertEqual(found, [i * factor + value for i in range(32)])
                broken = self.worker.invoke(name, {"factor": "%nothing", "value": 1})
                self.assert_function_error(broken, "CudaError", "CUDA_ERROR_INVALID_PTX")


if __name__ == "__main__":
    unittest.main()
