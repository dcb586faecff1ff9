"""Kernel functions through the whole worker: requests by value, as bytes and as objects, graphs that are refused,
kernels that hang or fault, more functions than memory, and a worker that is killed."""
import array
import base64
import contextlib
import functools
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from harness import PREFIX, Worker, WorkerTest, make_zip

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402
from lambent.errors import InvalidArgument, LambentError, ResourceExhausted  # noqa: E402

MIB = 1 << 20

# What stands before and after kernels: a tensor is made from an event, and read into an answer.
PREPARE = """
import array, time
from lambent import objects

def handler(event, context):
    time.sleep(event.get("seconds", 0))
    if "fail" in event:
        raise ValueError(event["fail"])
    numbers = array.array("f", event["numbers"])
    objects.put(numbers.tobytes(), "FP32", (len(numbers),), name=context.aws_request_id + ".1")
    return "prepared"
"""
TOTAL = """
import array
from lambent import objects

def handler(event, context):
    return sum(sum(array.array("f", bytes(objects.get(each)))) for each in event["of"])
"""

# What nvcc makes of `__global__ void twice(float* x, unsigned count)`, in short.
LIBRARY = """.version 7.0
.target sm_70
.address_size 64
.visible .entry _Z5twicePfj(.param .u64 x, .param .u32 count) {
  .reg .pred %p<2>; .reg .f32 %f<3>; .reg .b32 %r<3>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra done;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd4], %f2;
done:
  ret;
}
"""
KERNELS = """
#include <lambent/kernel.h>

extern "C" __global__ void scale(const float* x, float* y, float factor, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] * factor;
}
LAMBENT_KERNEL(scale);

extern "C" __global__ void add(float* into, const float* what, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) into[i] += what[i];
}
LAMBENT_KERNEL(add);

// One more, until it is `most`.
extern "C" __global__ void count_up(int* number, int* done, int most) {
  if (threadIdx.x != 0 || blockIdx.x != 0) return;
  *number += 1;
  *done = *number >= most;
}
LAMBENT_KERNEL(count_up);

extern "C" __global__ void clear(int* number) { *number = 0; }
LAMBENT_KERNEL(clear);

// Nothing writes the flag: on a device, too, this ends only with its process.
extern "C" __global__ void endless(const volatile int* flag, float* y) {
  while (*flag == 0) {
  }
  *y = 1;
}
LAMBENT_KERNEL(endless);

extern "C" __global__ void wild(const int* offset, float* y) {
  float* nowhere = reinterpret_cast<float*>(16ull + *offset);
  *nowhere = *y;
}
LAMBENT_KERNEL(wild);

extern "C" __global__ void checksum(const unsigned* words, unsigned count, unsigned* sum) {
  if (threadIdx.x != 0 || blockIdx.x != 0) return;
  unsigned total = 0;
  for (unsigned i = 0; i < count; i += 1024) total += words[i];
  *sum = total;
}
LAMBENT_KERNEL(checksum);
"""


@functools.cache
def bundle_files():
    """The kernels above, compiled: {name in the package: bytes}."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "k.cu").write_text(KERNELS)
        subprocess.run([PREFIX / "bin/lambent-bundle", "build", folder / "k.cu", "-o", folder / "k"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return {f"bundles/k/{path.relative_to(folder / 'k')}": path.read_bytes()
                for path in (folder / "k").rglob("*") if path.is_file()}


def tensor(name, role, shape, datatype="FP32", **more):
    return {"name": name, "role": role, "datatype": datatype, "shape": shape, **more}


def launch(kernel, *arguments, grid=(1,), block=(1,)):
    arguments = [{"buffer": each} if isinstance(each, str) else
                 {"literal": each, "datatype": "FP32" if isinstance(each, float) else "INT32"} if not isinstance(each, dict)
                 else each for each in arguments]
    return {"kernel": kernel, "bundle": "bundles/k", "grid": list(grid), "block": list(block), "arguments": arguments}


def unsigned(number):
    return {"literal": number, "datatype": "UINT32"}


def scale_graph(count=4, factor=2.0):
    return {"buffers": [tensor("x", "input", [count]), tensor("y", "output", [count])],
            "steps": [launch("scale", "x", "y", factor, unsigned(count), grid=(-(-count // 256),), block=(256,))]}


def floats(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


class KernelTest(WorkerTest):
    flags = ("--context-memory", "16", "--concurrency", "2")

    def create(self, name, graph, files=None, tags=None, timeout=30):
        package = {"graph.json": json.dumps(graph), **bundle_files(), **(files or {})}
        return self.worker.create(name, make_zip(package), runtime="provided.al2023", handler="graph.json",
                                  timeout=timeout, tags={"lambent:kind": "kernel", **(tags or {})})

    def refused(self, graph, files=None, tags=None):
        error = self.error_of(self.create, "refused", graph, files, tags)
        self.assertEqual(error.status, 400)
        self.assertIn("InvalidParameterValue", error.error_type)
        return error.json["Message"] if "Message" in error.json else error.json["message"]

    def ask(self, name, request, **options):
        reply = self.worker.invoke(name, request, **options)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply

    def failure(self, name, request, **options):
        reply = self.worker.invoke(name, request, **options)
        self.assertIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json

    def outputs(self, reply):
        return {each["name"]: each for each in reply.json["outputs"]}


class Requests(KernelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.create(cls(), "scale", scale_graph())

    def test_tensors_go_in_and_come_out_as_json(self):
        reply = self.ask("scale", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [4], "data": [1, 2, 3, 4.5]}]})
        self.assertEqual(self.outputs(reply)["y"]["data"], [2, 4, 6, 9])
        self.assertEqual(self.outputs(reply)["y"]["shape"], [4])

    def test_the_second_request_finds_everything_in_place(self):
        request = {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]}
        self.ask("scale", request)
        self.assertEqual(self.ask("scale", request).headers["x-lambent-start"], "warm")

    def test_a_changed_share_or_weight_needs_no_new_start_and_changed_code_does(self):
        request = {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]}
        self.create("narrow", scale_graph())
        self.assertEqual(self.ask("narrow", request).headers["x-lambent-start"], "cold")
        first = self.worker.sandbox_ids("narrow")
        for tags in {"lambent:gpu-share": "25"}, {"lambent:gpu-share": "60", "lambent:weight": "2"}, {"team": "vision"}:
            self.worker.tag("narrow", tags)
            reply = self.ask("narrow", request)
            self.assertEqual(reply.headers["x-lambent-start"], "warm", tags)
            self.assertEqual(self.outputs(reply)["y"]["data"], [2, 4, 6, 8])
        self.assertEqual(self.worker.sandbox_ids("narrow"), first)
        self.worker.tag("narrow", {"lambent:gpu-domain": "apart"})
        # On a slow machine the new one is started ahead: after four calls a fifth is foreseen.
        self.assertIn(self.ask("narrow", request).headers["x-lambent-start"], ("cold", "warm"))
        self.assertTrue(self.worker.sandbox_ids("narrow").isdisjoint(first))

    def test_bare_bytes_go_in_and_come_out(self):
        reply = self.ask("scale", floats(1, 2, 3, 4), headers={"Content-Type": "application/octet-stream"})
        self.assertEqual(reply.body, floats(2, 4, 6, 8))

    def test_mistakes_are_named_with_their_place(self):
        for request, words in [
                ({"inputs": []}, "x"),
                ({"inputs": [{"name": "z", "data": [1]}]}, "inputs[0]"),
                ({"inputs": [{"name": "x", "datatype": "FP64", "shape": [4], "data": [1, 2, 3, 4]}]}, "FP64"),
                ({"inputs": [{"name": "x", "shape": [5], "data": [1, 2, 3, 4, 5]}]}, "inputs[0]"),
                ({"inputs": [{"name": "x", "data": [1, 2, "three", 4]}]}, "data[2]"),
                ({"inputs": [{"name": "x", "data": [1, 2, 3, 4]}], "outputs": [{"name": "x"}]}, "outputs[0]")]:
            failure = self.failure("scale", request)
            self.assertEqual(failure["errorType"], "Request.Invalid", failure)
            self.assertIn(words, failure["errorMessage"])
        failure = self.failure("scale", b"{nonsense")
        self.assertEqual(failure["errorType"], "Request.Invalid", failure)
        failure = self.failure("scale", floats(1, 2, 3), headers={"Content-Type": "application/octet-stream"})
        self.assertIn("16", failure["errorMessage"])
        self.assertEqual(self.outputs(self.ask("scale", {"inputs": [{"name": "x", "data": [1, 0, 0, 0]}]}))["y"]["data"],
                         [2, 0, 0, 0])

    def test_an_object_that_is_not_there_is_said_to_be_missing(self):
        missing = "00000000-0000-4000-8000-000000000000.0"
        failure = self.failure("scale", {"inputs": [{"name": "x", "parameters": {"object": missing}}]})
        self.assertEqual(failure["errorType"], "Object.NotFound", failure)
        self.assertIn(f"inputs[0].parameters.object ('x'): object {missing}", failure["errorMessage"])

    def test_an_object_that_has_expired_is_said_to_have(self):
        with Client(self.worker.endpoint) as client:
            x = client.put(floats(1, 2, 3, 4), "FP32", (4,), ttl=1)

            def failure():
                reply = self.worker.invoke("scale", {"inputs": [{"name": "x", "parameters": {"object": x.id}}]})
                return reply.json if "x-amz-function-error" in reply.headers else None
            failed = self.worker.wait_for(failure, what="it expires")
        self.assertEqual(failed["errorType"], "Object.NotFound", failed)
        self.assertRegex(failed["errorMessage"], "inputs.0..parameters.object .'x'.: .*expired")

    def test_large_tensors_travel_beside_the_messages(self):
        count = 1 << 20
        self.create("large", scale_graph(count))
        numbers = array.array("f", range(count))
        reply = self.ask("large", numbers.tobytes(), headers={"Content-Type": "application/octet-stream"})
        self.assertEqual(reply.body, array.array("f", (2 * each for each in range(count))).tobytes())

    def test_an_output_becomes_an_object_and_an_input(self):
        request = {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}],
                   "outputs": [{"name": "y", "parameters": {"object": True}}]}
        made = self.outputs(self.ask("scale", request))["y"]["parameters"]["object"]
        again = {"inputs": [{"name": "x", "parameters": {"object": made}}]}
        self.assertEqual(self.outputs(self.ask("scale", again))["y"]["data"], [4, 8, 12, 16])

    def test_constants_come_from_files_and_fills(self):
        graph = {"buffers": [tensor("x", "in_out", [3]), tensor("w", "constant", [3], file="w.bin"),
                             tensor("ones", "constant", [3], fill=1)],
                 "steps": [launch("add", "x", "w", unsigned(3), block=(32,)), launch("add", "x", "ones", unsigned(3), block=(32,))]}
        self.create("biased", graph, {"w.bin": floats(10, 20, 30)})
        reply = self.ask("biased", {"inputs": [{"name": "x", "data": [1, 2, 3]}]})
        self.assertEqual(self.outputs(reply)["x"]["data"], [12, 23, 34])

    def test_rounds_are_counted_or_end_when_a_flag_says_so(self):
        def counting(times, **until):
            return {"buffers": [tensor("n", "output", [], "INT32"), tensor("done", "temporary", [], "INT32")],
                    "steps": [launch("clear", {"buffer": "n", "access": "write"}), launch("clear", {"buffer": "done", "access": "write"}),
                              {"repeat": times, **until,
                               "steps": [launch("count_up", {"buffer": "n", "access": "read_write"}, "done", 37)]}]}
        self.create("counted", counting(1000))
        self.create("until", counting(1000, until="done"))
        for _ in range(3):
            self.assertEqual(self.outputs(self.ask("counted", {"inputs": []}))["n"]["data"], [1000])
            self.assertEqual(self.outputs(self.ask("until", {"inputs": []}))["n"]["data"], [37])

    def test_many_clients_of_many_functions(self):
        for i in range(6):
            self.create(f"by{i}", scale_graph(factor=float(i)))
        failures = []

        def client(i):
            try:
                for k in range(20):
                    reply = self.ask(f"by{i % 6}", {"inputs": [{"name": "x", "data": [k, 1, 2, 3]}]})
                    self.assertEqual(self.outputs(reply)["y"]["data"], [k * (i % 6), i % 6, 2 * (i % 6), 3 * (i % 6)])
            except Exception as error:  # told below, in the test's own thread
                failures.append(error)
        clients = [threading.Thread(target=client, args=(i,)) for i in range(12)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        self.assertEqual(failures, [])

    def test_a_changed_graph_is_the_one_that_runs(self):
        self.create("changing", scale_graph(factor=3.0))
        request = {"inputs": [{"name": "x", "data": [1, 1, 1, 1]}]}
        self.assertEqual(self.outputs(self.ask("changing", request))["y"]["data"][0], 3)
        package = make_zip({"graph.json": json.dumps(scale_graph(factor=5.0)), **bundle_files()})
        self.worker.request("PUT", "/2015-03-31/functions/changing/code",
                            json.dumps({"ZipFile": base64.b64encode(package).decode()}))
        self.assertEqual(self.outputs(self.ask("changing", request))["y"]["data"][0], 5)


class Graphs(KernelTest):
    """Functions of both kinds that need each other's objects, submitted before those exist."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls()
        test.create("double", scale_graph())
        test.create("triple", scale_graph(factor=3.0))
        wild = {"buffers": [tensor("flag", "input", [], "INT32"), tensor("y", "output", [4])],
                "steps": [launch("wild", "flag", {"buffer": "y", "access": "write"})]}
        test.create("broken", wild)
        cls.worker.create_python("slow_source", "import time\ndef handler(event, context):\n"
                                                "    time.sleep(0.5)\n    return [1, 2, 3, 4]\n")
        cls.worker.create_python("prepare", PREPARE)
        cls.worker.create_python("total", TOTAL)

    def submit(self, name, request, *needs):
        headers = {"X-Lambent-Needs": ", ".join(needs)} if needs else {}
        reply = self.worker.request("POST", f"/v1/functions/{name}/invocations", json.dumps(request), headers)
        self.assertEqual(reply.status, 202)
        return reply.json["objects"][0]

    def kernel(self, name, value):
        needs = [value] if isinstance(value, str) else []
        given = {"parameters": {"object": value}} if needs else {"data": value}
        return self.submit(name, {"inputs": [{"name": "x", **given}],
                                  "outputs": [{"name": "y", "parameters": {"object": True}}]}, *needs)

    def test_a_chain_is_submitted_at_once_and_its_end_is_waited_for(self):
        end = self.kernel("triple", self.kernel("double", self.kernel("triple", [1, 2, 3, 4])))
        reply = self.worker.request("GET", f"/v1/objects/{end}?wait=30")
        self.assertEqual(reply.body, floats(18, 36, 54, 72))
        self.assertEqual(reply.headers["x-lambent-datatype"], "FP32")

    def test_a_failure_reaches_the_end_of_the_chain_with_its_cause(self):
        later = self.submit("slow_source", {})
        broken = self.submit("broken", {"inputs": [{"name": "flag", "data": [0]}],
                                        "outputs": [{"name": "y", "parameters": {"object": True}}]}, later)
        end = self.kernel("triple", self.kernel("double", broken))
        error = self.error_of(self.worker.request, "GET", f"/v1/objects/{end}?wait=30")
        for words in ("'double'", "'broken'", "Kernel.Fault: kernel wild"):
            self.assertIn(words, error.body.decode())
        self.assertEqual(error.json["error"]["code"], "INTERNAL")

    def test_what_fails_says_so_with_its_own_code(self):
        with Client(self.worker.endpoint) as client:
            double = client.function("double")
            x = client.put(floats(1, 2, 3, 4), "FP32", (4,))
            whole = client.put(array.array("i", [1, 2, 3, 4]))  # the same bytes, of another type
            for inputs, outputs, place in (({"x": whole}, ["y"], "inputs[0].parameters.object ('x')"),
                                           ({"z": x}, ["y"], "inputs[0].name"), ({"x": x}, ["z"], "outputs[0].name")):
                with self.assertRaises(InvalidArgument) as caught:
                    double(**inputs, outputs=outputs)
                self.assertIn(place, str(caught.exception))
            self.assertEqual(bytes(double(x=x, outputs=["y"])), floats(2, 4, 6, 8))

    def test_handlers_and_kernels_mix_in_one_graph(self):
        with Client(self.worker.endpoint) as client:
            double, triple = client.function("double"), client.function("triple")
            event = json.dumps({"numbers": [1, 2, 3, 4], "seconds": 0.3})
            _, x = client.submit("prepare", event, outputs=2)
            twice = double.remote(x=x, outputs=["y"])
            thrice = triple.remote(x=twice, outputs=["y"])
            total = client.function("total").remote({"of": [x, twice, thrice]})
            self.assertEqual(total.json(), 10 + 20 + 60)
            self.assertEqual((thrice.get().datatype, thrice.get().shape), ("FP32", (4,)))

    def test_references_are_those_of_the_outputs_that_were_named(self):
        graph = {"buffers": [tensor("x", "input", [4])] + [tensor(name, "output", [4]) for name in "abc"],
                 "steps": [launch("scale", "x", name, float(factor), unsigned(4), block=(32,))
                           for name, factor in zip("abc", (1, 2, 3))]}
        self.create("three", graph)
        with Client(self.worker.endpoint) as client:
            x = client.put(floats(1, 2, 3, 4), "FP32", (4,))
            three = client.function("three")
            c, a = three.remote(x=x, outputs=["c", "a"])
            b = three.remote(x=x, outputs=["b"])
            self.assertEqual([bytes(each.get()) for each in (a, b, c)],
                             [floats(1, 2, 3, 4), floats(2, 4, 6, 8), floats(3, 6, 9, 12)])

    def test_a_handlers_failure_reaches_kernels_that_need_it(self):
        with Client(self.worker.endpoint) as client:
            event = json.dumps({"fail": "no numbers today", "seconds": 0.3})
            _, x = client.submit("prepare", event, outputs=2)
            end = client.function("total").remote({"of": [client.function("double").remote(x=x, outputs=["y"])]})
            with self.assertRaises(LambentError) as caught:
                end.get(30)
            for words in ("'double'", "'prepare'", "ValueError: no numbers today"):
                self.assertIn(words, str(caught.exception))

    def test_a_request_for_an_object_that_failed_says_so_whatever_its_producer_failed_with(self):
        broken = {"inputs": [{"name": "flag", "data": [0]}], "outputs": [{"name": "y", "parameters": {"object": True}}]}
        missing = "00000000-0000-4000-8000-000000000000.0"
        lacking = {"inputs": [{"name": "x", "parameters": {"object": missing}}]}
        for name, request, cause in (("broken", broken, "Kernel.Fault: kernel wild"),
                                     ("double", {"inputs": []}, "Request.Invalid: inputs: 'x' is missing"),
                                     ("double", lacking, f"Object.NotFound: inputs[0].parameters.object ('x'): object {missing}")):
            made = self.submit(name, request)
            self.error_of(self.worker.request, "GET", f"/v1/objects/{made}?wait=30")
            failure = self.failure("triple", {"inputs": [{"name": "x", "parameters": {"object": made}}]})
            self.assertEqual(failure["errorType"], "Object.Failed", failure)
            self.assertIn(cause, failure["errorMessage"])

    def test_calls_leave_no_objects_behind_and_what_they_make_lives_as_long_as_was_said(self):
        with Client(self.worker.endpoint) as client:
            def listed():
                return {each["object"] for each in self.worker.request("GET", "/v1/objects").json["objects"]}
            x = client.put(floats(1, 2, 3, 4), "FP32", (4,))
            before = listed()
            double = client.function("double")
            self.assertEqual(bytes(double(x=array.array("f", [1, 2, 3, 4]), outputs="y")), floats(2, 4, 6, 8))
            self.assertEqual(bytes(double(x=x, outputs="y")), floats(2, 4, 6, 8))
            with self.assertRaises(InvalidArgument):
                double(x=array.array("d", [1, 2, 3, 4]), outputs="y")
            self.worker.wait_for(lambda: listed() - before == set(), what="nothing is left")
            self.assertIn(x.id, listed())
            short = client.function("double", ttl=1).remote(x=x, outputs="y")
            self.assertEqual(bytes(short.get()), floats(2, 4, 6, 8))
            self.worker.wait_for(lambda: short.id not in listed(), what="it expires")

    def test_an_object_of_another_type_is_refused_with_both_types(self):
        made = self.submit("slow_source", {})
        failure = self.failure("double", {"inputs": [{"name": "x", "parameters": {"object": made}}]},
                               headers={"X-Lambent-Needs": made})
        self.assertEqual(failure["errorType"], "Request.Invalid", failure)
        self.assertIn("FP32", failure["errorMessage"])

    def test_an_object_that_is_still_being_made_is_not_waited_for_on_the_device(self):
        made = self.submit("slow_source", {})
        failure = self.failure("double", {"inputs": [{"name": "x", "parameters": {"object": made}}]})
        self.assertEqual(failure["errorType"], "Object.NotThere", failure)


class Deployment(KernelTest):
    def test_what_makes_no_sense_is_refused_with_its_place(self):
        graph = scale_graph()
        graph["steps"][0]["kernel"] = "scael"
        self.assertIn("scael", self.refused(graph))
        graph = scale_graph()
        graph["steps"][0]["arguments"].pop()
        self.assertIn("steps[0]", self.refused(graph))
        graph = scale_graph()
        graph["steps"][0]["arguments"][0]["offset_bytes"] = 4096
        self.assertIn("steps[0].arguments[0]", self.refused(graph))
        graph = scale_graph()
        graph["bufers"] = graph.pop("buffers")
        self.assertIn("bufers", self.refused(graph))
        graph = scale_graph()
        graph["buffers"].append(tensor("w", "constant", [4], file="w.bin"))
        graph["steps"].append(launch("scale", "w", "y", 1.0, unsigned(4), block=(32,)))
        for files in ({}, {"w.bin": b"short"}, {"w.bin/inside": b""}):
            self.assertIn("graph.json: buffers[2] ('w').file: ", self.refused(graph, files))
        for bundle, meant in (("bundles/K", "bundles/k"), ("lambent:bals", "lambent:blas")):
            graph = scale_graph()
            graph["steps"] = [{"repeat": 2, "steps": [{**graph["steps"][0], "bundle": bundle}]}]
            message = self.refused(graph)
            self.assertIn(f"graph.json: steps[0].steps[0].bundle: {bundle} is no kernel bundle", message)
            self.assertIn(f"did you mean '{meant}'?", message)
            self.assertNotIn(str(self.worker.folder), message)

    def test_a_package_without_its_graph_or_with_a_damaged_bundle_is_refused(self):
        error = self.error_of(self.worker.create, "none", make_zip({"x": "y"}), runtime="provided.al2023",
                              handler="graph.json", tags={"lambent:kind": "kernel"})
        self.assertEqual((error.status, error.error_type), (400, "InvalidParameterValueException"))
        self.assertIn("graph.json", error.body.decode())
        self.assertNotIn(str(self.worker.folder), error.body.decode())
        damaged = dict(bundle_files())
        host = next(name for name in damaged if name.endswith(".so"))
        damaged[host] = damaged[host][:-1] + bytes([damaged[host][-1] ^ 1])
        for file in ("bundles/k/manifest.json", host):
            for content in (b"", damaged[file][:100]):
                message = self.refused(scale_graph(), {**damaged, file: content})
                self.assertIn("graph.json: steps[0].bundle: ", message)
                self.assertNotIn(str(self.worker.folder), message)
        self.assertIn("bundles/k does not match its hash", self.refused(scale_graph(), damaged))

    def test_what_the_device_lacks_is_said_of_its_place(self):
        graph = scale_graph()
        graph["steps"] = [{"repeat": 2, "steps": [{**graph["steps"][0], "shared_bytes": 220_000}]}]
        self.create("much", graph)  # what a block may have is known to the device alone
        failure = self.failure("much", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})
        self.assertEqual(failure["errorType"], "Runtime.InvalidEntrypoint", failure)
        self.assertIn("graph.json: steps[0].steps[0]: scale with 220000 bytes of shared memory", failure["errorMessage"])

    def test_a_bundle_whose_manifest_says_other_parameters_is_the_packages_mistake(self):
        files = bundle_files()
        manifest = json.loads(files["bundles/k/manifest.json"])
        scale = next(each for each in manifest["kernels"] if each["name"] == "scale")
        scale["parameters"][3] = 8
        manifest["content_sha256"] = ""
        digest = hashlib.sha256()
        parts = [json.dumps(manifest, indent=2, sort_keys=True).encode() + b"\n"]
        parts += [files["bundles/k/" + each] for each in manifest["sources"]]
        parts += [files["bundles/k/" + each["file"]] for each in manifest["targets"]]
        for part in parts:
            digest.update(b"%d:" % len(part) + part)
        manifest["content_sha256"] = digest.hexdigest()
        graph = scale_graph()
        graph["steps"][0]["arguments"][3] = {"literal": 4, "datatype": "UINT64"}
        self.create("forged", graph, {"bundles/k/manifest.json": json.dumps(manifest)})
        failure = self.failure("forged", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})
        self.assertEqual(failure["errorType"], "Runtime.InvalidEntrypoint", failure)
        self.assertIn("graph.json: steps[0]: kernel bundle 'k': the parameters of 'scale'", failure["errorMessage"])

    def test_a_graph_cannot_lead_out_of_its_package(self):
        graph = scale_graph()
        graph["steps"][0]["bundle"] = "../../../../etc"
        self.refused(graph)
        error = self.error_of(self.worker.create, "out", make_zip({"x": "y"}), runtime="provided.al2023",
                              handler="../../catalog.db", tags={"lambent:kind": "kernel"})
        self.assertEqual(error.status, 400)

    def test_more_memory_than_the_device_has_is_refused(self):
        message = self.refused(scale_graph(1 << 29))
        self.assertIn("graph.json: buffers[0] ('x'): a request takes 4.0 GiB of device memory, 2 GiB of it for this buffer", message)
        graph = scale_graph()
        graph["buffers"].append(tensor("w", "constant", [1 << 28], fill=1))
        graph["steps"].append(launch("scale", "w", "y", 1.0, unsigned(4), block=(32,)))
        self.assertIn("graph.json: buffers[2] ('w'): ", self.refused(graph))

    def test_deploy_compiles_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "k.cu").write_text(KERNELS)
            (folder / "graph.json").write_text(json.dumps(scale_graph()))
            (folder / "lambent.toml").write_text('name = "compiled"\nkind = "kernel"\nsources = ["k.cu"]\n')
            subprocess.run([PREFIX / "bin/lambent", "deploy", "--endpoint", self.worker.endpoint, folder], check=True,
                           capture_output=True)
        reply = self.ask("compiled", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})
        self.assertEqual(self.outputs(reply)["y"]["data"], [2, 4, 6, 8])

    def test_kernels_come_out_of_a_library_that_is_compiled_already(self):
        graph = {"buffers": [tensor("y", "in_out", [4])], "steps": [{
            "bundle": "bundles/library", "kernel": "_Z5twicePfj", "grid": [1], "block": [32],
            "arguments": [{"buffer": "y", "access": "read_write"}, unsigned(3)]}]}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "library.ptx").write_text(LIBRARY)
            (folder / "graph.json").write_text(json.dumps(graph))
            (folder / "lambent.toml").write_text('name = "library"\nkind = "kernel"\nsources = ["library.ptx"]\n')
            deploy = [PREFIX / "bin/lambent", "deploy", "--endpoint", self.worker.endpoint, folder]
            subprocess.run(deploy, check=True, capture_output=True)
            reply = self.ask("library", {"inputs": [{"name": "y", "data": [1, 2, 3, 4]}]})
            self.assertEqual(self.outputs(reply)["y"]["data"], [2, 4, 6, 4])
            # What its PTX says of parameters is what graphs are checked by.
            graph["steps"][0]["arguments"].pop()
            (folder / "graph.json").write_text(json.dumps(graph))
            refused = subprocess.run(deploy, capture_output=True, text=True)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("_Z5twicePfj", refused.stderr)
            self.assertIn("2", refused.stderr)


class Faults(KernelTest):
    def setUp(self):
        self.create("good", scale_graph())
        for kernel in ("endless", "wild"):
            graph = {"buffers": [tensor("flag", "input", [], "INT32"), tensor("y", "output", [])],
                     "steps": [launch(kernel, "flag", {"buffer": "y", "access": "read_write" if kernel == "endless" else "write"})]}
            self.create(kernel, graph, timeout=1)

    def tearDown(self):
        for name in ("good", "endless", "wild"):
            self.worker.delete(name)

    def good(self):
        reply = self.ask("good", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})
        self.assertEqual(self.outputs(reply)["y"]["data"], [2, 4, 6, 8])
        return reply

    def while_others_run(self, act):
        """Calls `act` while other clients use the same device; every one of their requests succeeds."""
        stop, failures, served = threading.Event(), [], []

        def client():
            try:
                while not stop.is_set():
                    self.good()
                    served.append(time.monotonic())
            except Exception as error:  # told below, in the test's own thread
                failures.append(error)
        clients = [threading.Thread(target=client) for _ in range(3)]
        for each in clients:
            each.start()
        try:
            self.worker.wait_for(lambda: len(served) > 20, what="the neighbours are served")
            act()
            count = len(served)
            self.worker.wait_for(lambda: failures or len(served) > count + 20, what="the neighbours are served again")
        finally:
            stop.set()
            for each in clients:
                each.join()
        self.assertEqual(failures, [])

    def test_a_kernel_that_hangs_fails_and_its_neighbours_finish(self):
        def act():
            failure = self.failure("endless", {"inputs": [{"name": "flag", "data": [0]}]})
            self.assertEqual(failure["errorType"], "Sandbox.Timeout", failure)
        self.while_others_run(act)
        self.assertEqual(self.outputs(self.ask("endless", {"inputs": [{"name": "flag", "data": [1]}]}))["y"]["data"], [1])

    def test_a_loop_that_does_not_end_is_stopped_and_its_executor_goes_on(self):
        graph = {"buffers": [tensor("n", "output", [], "INT32"), tensor("done", "temporary", [], "INT32")],
                 "steps": [launch("clear", {"buffer": "n", "access": "write"}), launch("clear", {"buffer": "done", "access": "write"}),
                           {"repeat": 1_000_000_000, "until": "done",
                            "steps": [launch("count_up", {"buffer": "n", "access": "read_write"}, "done", 2_000_000_000)]}]}
        self.create("runaway", graph, timeout=1)

        def executors():
            return {each["pid"] for each in self.worker.sandboxes() if each["function"] == "good"}
        self.good()
        before = executors()

        def act():
            failure = self.failure("runaway", {"inputs": []})
            self.assertEqual(failure["errorType"], "Sandbox.Timeout", failure)
        self.while_others_run(act)
        self.worker.wait_for(lambda: all(each["function"] != "runaway" for each in self.worker.sandboxes()), what="it is gone")
        self.good()
        self.assertEqual(executors(), before, "the neighbours stayed where they were")
        self.worker.delete("runaway")

    def test_a_kernel_that_faults_fails_and_its_neighbours_finish(self):
        def act():
            failure = self.failure("wild", {"inputs": [{"name": "flag", "data": [0]}]})
            self.assertEqual(failure["errorType"], "Kernel.Fault", failure)
        self.while_others_run(act)

    def test_a_slow_neighbour_outlives_several_faults(self):
        graph = {"buffers": [tensor("n", "output", [], "INT32"), tensor("done", "temporary", [], "INT32")],
                 "steps": [launch("clear", {"buffer": "n", "access": "write"}), launch("clear", {"buffer": "done", "access": "write"}),
                           {"repeat": 2_000_000, "until": "done",
                            "steps": [launch("count_up", {"buffer": "n", "access": "read_write"}, "done", 40_000)]}]}
        self.create("patient", graph)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.worker.invoke("patient", {"inputs": []})))
        thread.start()
        for _ in range(3):
            time.sleep(0.4)
            self.failure("wild", {"inputs": [{"name": "flag", "data": [0]}]})
        thread.join()
        self.assertNotIn("x-amz-function-error", answers[0].headers, answers[0].body)
        self.assertEqual(self.outputs(answers[0])["n"]["data"], [40_000])
        self.worker.delete("patient")

    def test_an_error_that_quotes_a_long_request_harms_nobody(self):
        for size in (150_000, 400_000):
            failure = self.failure("good", {"inputs": [{"name": "x", "datatype": "A" * size, "data": [1, 2, 3, 4]}]})
            self.assertEqual(failure["errorType"], "Request.Invalid")
        self.assertEqual(self.good().headers["x-lambent-start"], "warm")

    def test_objects_survive_the_executor(self):
        request = {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}],
                   "outputs": [{"name": "y", "parameters": {"object": True}}]}
        made = self.outputs(self.ask("good", request))["y"]["parameters"]["object"]
        self.failure("wild", {"inputs": [{"name": "flag", "data": [0]}]})
        reply = self.ask("good", {"inputs": [{"name": "x", "parameters": {"object": made}}]})
        self.assertEqual(self.outputs(reply)["y"]["data"], [4, 8, 12, 16])

    def test_an_executor_that_is_killed_is_replaced(self):
        self.good()
        executors = self.worker.wait_for(lambda: [each["pid"] for each in self.worker.sandboxes() if each["function"] == "good"])
        subprocess.run(["kill", "-9", str(executors[0])], check=True)
        begin = time.monotonic()
        self.good()
        self.assertLess(time.monotonic() - begin, 20)


class Quota(KernelTest):
    """Outputs that are more than their tenant may have."""

    flags = (*KernelTest.flags, "--object-quota", "5M")

    def test_an_output_beyond_the_quota_is_refused_with_its_place(self):
        self.create("large", {"buffers": [tensor("x", "input", [4]), tensor("y", "output", [MIB]), tensor("z", "output", [4])],
                              "steps": [launch("scale", "x", name, 2.0, unsigned(4), block=(32,)) for name in "yz"]})
        with Client(self.worker.endpoint) as client:
            x = client.put(floats(1, 2, 3, 4), "FP32", (4,))
            large = client.function("large")
            first = large.remote(x=x, outputs=["y"])
            self.assertEqual(bytes(first.get().data[:16]), floats(2, 4, 6, 8))
            with self.assertRaises(ResourceExhausted) as caught:
                large(x=x, outputs=["z", "y"])
            self.assertIn("outputs[1]: ", str(caught.exception))
            self.assertIn("quota", str(caught.exception))
            first.remove()
            large(x=x, outputs=["z", "y"])


class Memory(KernelTest):
    """Functions whose constants together do not fit the device of 1 GiB."""

    def test_constants_make_room_and_come_back_unchanged(self):
        words = 60 * MIB // 4
        for i in range(5):
            graph = {"buffers": [tensor(f"w{k}", "constant", [words], "UINT32", fill=1 + 10 * i + k) for k in range(4)] +
                     [tensor(f"s{k}", "output", [], "UINT32") for k in range(4)],
                     "steps": [launch("checksum", f"w{k}", unsigned(words), f"s{k}") for k in range(4)]}
            self.create(f"big{i}", graph)
        starts = []
        for _ in range(3):
            for i in range(5):
                reply = self.ask(f"big{i}", {"inputs": []})
                starts.append(reply.headers["x-lambent-start"])
                for k in range(4):
                    self.assertEqual(self.outputs(reply)[f"s{k}"]["data"], [-(-words // 1024) * (1 + 10 * i + k) % (1 << 32)])
        self.assertNotIn("cold", starts[5:])
        self.assertIn("gpu_cold", starts[5:])


class Restart(unittest.TestCase):
    def test_kernel_functions_are_there_after_a_kill(self):
        worker = Worker()
        test = KernelTest()
        test.worker = worker
        try:
            test.create("scale", scale_graph())
            worker.kill()
            worker.start()
            reply = test.ask("scale", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]})
            self.assertEqual(test.outputs(reply)["y"]["data"], [2, 4, 6, 8])
        finally:
            with contextlib.suppress(Exception):
                worker.close()


if __name__ == "__main__":
    unittest.main()
