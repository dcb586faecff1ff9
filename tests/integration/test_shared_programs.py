"""Programs that nvcc linked to a shared CUDA runtime, as functions of a worker: in a GPU runtime of their own and in a shared one, on the preset
that is the default and on a small one; and what one is told that cannot run."""
import unittest

from harness import PREFIX, WorkerTest, make_zip

PROGRAMS = PREFIX / "tests/programs"
# Those that use nothing but what is forwarded.
FORWARDED = ("vector_add", "matrix_multiply", "reduction", "scan", "histogram", "mandelbrot", "errors")

APP = """
import ctypes, os, subprocess

import lambent_cuda as cuda

kept = cuda.Device().buffer(1 << 20)
kept.fill(7)

def handler(event, context):
    if "program" in event:
        path = os.path.join(os.environ["LAMBDA_TASK_ROOT"], event["program"])
        done = subprocess.run([path], capture_output=True, text=True, timeout=60)
        print(done.stderr)
        return {"code": done.returncode, "out": done.stdout[-300:], "process": os.getpid()}
    if "ptx" in event:
        module = ctypes.c_void_p()
        cuda.Device().driver.call("cuModuleLoadData", ctypes.byref(module), event["ptx"].encode() + b"\\0")
    if "table" in event:
        address, number = ctypes.c_void_p(), (ctypes.c_ubyte * 16)()
        return ctypes.CDLL("libcuda.so.1").cuGetExportTable(ctypes.byref(address), number)
    return {"kept": set(kept.bytes()) == {7}, "process": os.getpid()}
"""


class SharedPrograms(WorkerTest):
    gpu = "emulated:v100-16gb"

    def setUp(self):
        if not (PROGRAMS / "vector_add").exists():
            self.skipTest("no nvcc, so no programs of it")
        for function in self.worker.request("GET", "/v1/functions").json["functions"]:
            self.worker.delete(function["name"])

    def deploy(self, name, programs=(), runtime="shared", domain="", host_code=True, environment=None, more=None):
        files = {"app.py": APP, **(more or {})}
        for each in programs:
            files[each] = ((PROGRAMS / each).read_bytes(), 0o755)
            if host_code:
                files[each + ".kernels.so"] = (PROGRAMS / (each + ".kernels.so")).read_bytes()
        tags = {"lambent:gpu-memory": "256MiB", "lambent:gpu-runtime": runtime, "lambent:gpu-domain": domain}
        self.worker.create(name, make_zip(files), tags=tags, timeout=60, memory=1024, environment=environment)

    def ask(self, name, **event):
        reply = self.worker.invoke(name, event)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json

    def log(self, name):
        return self.worker.request("GET", f"/v1/functions/{name}/log").body.decode()

    def assert_runs(self, name, programs):
        self.ask(name)
        for program in programs:
            with self.subTest(program):
                told = self.ask(name, program=program)
                self.assertEqual(told["code"], 0, f"{told}\n{self.log(name)[-2000:]}")

    def test_they_run_in_a_shared_runtime_one_after_the_other(self):
        self.deploy("programs", FORWARDED)
        self.deploy("near")
        near = self.ask("near")
        self.assert_runs("programs", FORWARDED)
        self.assertEqual(self.ask("near"), near, "a neighbour noticed")

    def test_of_a_list_of_files_the_first_that_can_be_read_has_the_kernels(self):
        kernels = [(PROGRAMS / f"{name}.kernels.so").read_bytes() for name in ("vector_add", "scan")]
        self.deploy("listed", ("vector_add",), host_code=False, more={"one.so": kernels[0], "two.so": kernels[1]},
                    environment={"EMULATED_CUDA_KERNELS": "/no/such.so::/var/task/one.so:/var/task/two.so"})
        self.assert_runs("listed", ("vector_add",))
        self.assertIn("it took /var/task/one.so", self.log("listed"))

    def test_they_run_in_a_runtime_of_their_own(self):
        programs = ("vector_add", "errors", "unmodified")
        self.deploy("programs", programs, runtime="own")
        self.assert_runs("programs", programs)

    def test_one_that_goes_on_where_it_was_refused_breaks_its_own_domain_and_no_other(self):
        # It launches kernels on managed memory that it did not get.
        self.deploy("broken", ["unmodified"], domain="broken")
        self.deploy("far", ["vector_add"], domain="far")
        far = self.ask("far")
        reply = self.worker.invoke("broken", {"program": "unmodified"})
        self.assertTrue("x-amz-function-error" in reply.headers or reply.json["code"] != 0, reply.body)
        self.assertEqual(self.ask("far"), far)
        self.assert_runs("far", ["vector_add"])
        self.worker.wait_for(lambda: "x-amz-function-error" not in self.worker.invoke("broken", {}).headers, what="another start")

    def test_its_log_says_what_is_missing(self):
        self.deploy("bare", ["vector_add"], host_code=False)
        self.assertNotEqual(self.ask("bare", program="vector_add")["code"], 0)
        self.worker.wait_for(lambda: "lambent-bundle host FILE.cu -o PROGRAM.kernels.so" in self.log("bare"), what="the reason")

    def test_its_log_has_the_line_of_bad_ptx(self):
        self.deploy("ptx")
        failure = self.worker.invoke("ptx", {"ptx": ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  frob.u32 %r1;\n}\n"})
        self.assertIn("x-amz-function-error", failure.headers)
        self.worker.wait_for(lambda: "lambent: a module was refused:" in self.log("ptx") and "frob" in self.log("ptx"), what="the reason")

    def test_its_log_says_what_nvidias_own_runtime_needs(self):
        self.deploy("nvidia")
        self.assertNotEqual(self.ask("nvidia", table=True), 0)
        self.worker.wait_for(lambda: 'runtime = "own"' in self.log("nvidia"), what="the hint")


class SharedProgramsOnASmallDevice(SharedPrograms):
    gpu = "emulated:tiny"


if __name__ == "__main__":
    unittest.main()
