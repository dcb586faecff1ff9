"""Device memory used wrongly by real programs under the shim: CUDA's own error to the program, a clear one to the invoker, consistent
accounting, neighbours unharmed."""
import os
import signal
import threading
import unittest

from test_gpu import SURVEY, GpuTest
from test_lost_device import DeviceTest
from test_memory_moves import HOLDER, MIB, MovingTest

# Calls of the driver as a program makes them that looks at every answer; each act is told as the names of what they answered.
MISUSE = """
import ctypes, os, signal
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
import lambent_cuda as cuda

PETABYTE = 1 << 50
device = cuda.Device()
library = ctypes.CDLL("libcuda.so.1")

def name_of(code):
    text = ctypes.c_char_p()
    library.cuGetErrorName(c_int(code), byref(text))
    return text.value.decode()

def call(name, *arguments):
    return name_of(getattr(library, name)(*arguments))

def sizes(size):
    address, pitch, managed, handle = c_uint64(), c_size_t(), c_uint64(), c_void_p()
    return {
        "cuMemAlloc_v2": call("cuMemAlloc_v2", byref(address), c_size_t(size)),
        "cuMemAllocPitch_v2": call("cuMemAllocPitch_v2", byref(address), byref(pitch), c_size_t(size), c_size_t(1), c_uint(4)),
        "cuMemAllocManaged": call("cuMemAllocManaged", byref(managed), c_size_t(size), c_uint(1)),
        "cuMemAllocAsync": call("cuMemAllocAsync", byref(address), c_size_t(size), c_void_p()),
        "cuMemHostAlloc": call("cuMemHostAlloc", byref(handle), c_size_t(size), c_uint(0)),
    }

def nothing():
    return sizes(0)

def a_petabyte():
    return sizes(PETABYTE)

def double_free():
    address = c_uint64()
    return [call("cuMemAlloc_v2", byref(address), c_size_t(1 << 20)), call("cuMemFree_v2", address), call("cuMemFree_v2", address)]

def double_free_in_stream():
    address = c_uint64()
    return [call("cuMemAllocAsync", byref(address), c_size_t(1 << 20), c_void_p()), call("cuMemFreeAsync", address, c_void_p()),
            call("cuMemFreeAsync", address, c_void_p()), call("cuCtxSynchronize")]

def foreign():
    own, piece = device.buffer(1 << 20), ctypes.create_string_buffer(4096)
    nowhere, inside, on_host = c_uint64(0x10000), c_uint64(own.pointer.value + 512), c_uint64(ctypes.addressof(piece))
    frees = [call("cuMemFree_v2", address) for address in (nowhere, inside, on_host)]
    copies = [call("cuMemcpyDtoH_v2", piece, nowhere, c_size_t(4096)), call("cuMemsetD8_v2", nowhere, ctypes.c_ubyte(1), c_size_t(64))]
    own.fill(7)
    return {"frees": frees, "copies": copies, "own": own.bytes() == b"\\7" * (1 << 20)}

ACTS = {act.__name__: act for act in (nothing, a_petabyte, double_free, double_free_in_stream, foreign)}
kept = []

def handler(event, context):
    before = device.memory_info()
    if "act" in event:
        said = ACTS[event["act"]]()
        device.synchronize()
        return {"said": said, "kept": device.memory_info() == before}
    kept.extend(device.buffer(size << 20) for size in event.get("keep_mib", []))
    if "beyond" in event:
        device.buffer(PETABYTE if event["beyond"] == "all bounds" else 0)
    if "exit" in event:
        os._exit(event["exit"])
    if "signal" in event:
        os.kill(os.getpid(), event["signal"])
    return {"info": device.memory_info(), "before": before}
"""

INVALID, NO_MEMORY = "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_OUT_OF_MEMORY"
OK = "CUDA_SUCCESS"


class MisuseTest(GpuTest):
    """Each with memory of every kind that the shim gives, beside a neighbour that holds memory and looks at it."""
    flags = ("--concurrency", "4", "--context-memory", "16")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.calls = 0

    def setUp(self):
        self.create_gpu("neighbour", HOLDER, environment={"HOLD_MIB": "32", "SEED": "7"}, memory=512)
        self.calls = 0
        self.assert_neighbour_is_well()

    def tearDown(self):
        self.assert_neighbour_is_well()
        self.worker.delete("neighbour")
        self.assert_memory_comes_back_to(0)

    def assert_neighbour_is_well(self):
        self.calls += 1
        answer = self.assert_works(self.worker.invoke("neighbour"))
        self.assertEqual((answer["changed"], answer["calls"]), ([], self.calls), "it lost memory, or was started again")

    def of_every_kind(self, check):
        for mode in ("off", "vmm", "uvm"):
            with self.subTest(memory_mode=mode):
                self.create_gpu("misuse", MISUSE, tags={"lambent:memory-mode": mode})
                try:
                    check()
                finally:
                    self.worker.delete("misuse")

    def said(self, act):
        answer = self.assert_works(self.worker.invoke("misuse", {"act": act}))
        self.assertTrue(answer["kept"], f"{act}: free memory is not what it was")
        return answer["said"]

    def test_nothing_and_a_petabyte_are_refused_as_the_driver_does(self):
        def check():
            said = self.said("nothing")
            self.assertEqual(set(said.values()), {INVALID}, said)
            said = self.said("a_petabyte")
            self.assertEqual(set(said.values()), {NO_MEMORY}, said)
            reply = self.worker.invoke("misuse", {"beyond": "all bounds"})
            self.assert_function_error(reply, "OutOfMemory", f"cuMemAlloc_v2 failed: {NO_MEMORY}")
            self.assert_function_error(self.worker.invoke("misuse", {"beyond": "nothing"}), "CudaError", INVALID)
            self.assertEqual(int(self.worker.invoke("misuse").headers["x-lambent-device-memory-peak-bytes"]), 0)
        self.of_every_kind(check)

    def test_what_is_freed_twice_is_freed_once(self):
        def check():
            self.assertEqual(self.said("double_free"), [OK, OK, INVALID])
            self.assertEqual(self.said("double_free_in_stream"), [OK, OK, INVALID, OK])
        self.of_every_kind(check)

    def test_foreign_pointers_reach_nothing(self):
        def check():
            said = self.said("foreign")
            self.assertEqual(said, {"frees": [INVALID] * 3, "copies": [INVALID] * 2, "own": True})
        self.of_every_kind(check)

    def test_what_a_process_held_when_it_ended_is_free_for_the_next(self):
        def check():
            for end in ({"exit": 0}, {"exit": 3}, {"signal": signal.SIGKILL}):
                reply = self.worker.invoke("misuse", {"keep_mib": [20, 20], **end})
                self.assert_function_error(reply, "Runtime.ExitError")
                self.assertGreaterEqual(int(reply.headers["x-lambent-device-memory-peak-bytes"]), 40 * MIB)
                answer = self.assert_works(self.worker.invoke("misuse"))
                self.assertEqual(answer["before"], [64 * MIB, 64 * MIB])
        self.of_every_kind(check)

    def test_a_limit_below_what_the_context_needs_is_the_programs_own(self):
        """The context of this device has 16 MiB, which are the worker's to keep free and not the function's."""
        self.create_gpu("small", SURVEY, gpu_memory="4MiB")
        answer = self.assert_works(self.worker.invoke("small", {"hold_mib": [1], "beyond_mib": 4}))
        self.assertEqual((answer["info"], answer["total"]), ([3 * MIB, 4 * MIB], 4 * MIB))
        self.assertEqual(answer["beyond"], NO_MEMORY)
        self.worker.delete("small")

    def test_a_limit_that_leaves_no_room_for_the_context_is_refused_at_once(self):
        error = self.error_of(self.create_gpu, "full", SURVEY, gpu_memory="1016MiB")
        self.assertEqual(error.status, 400)
        self.assertIn("1016 MiB", error.body.decode())
        self.create_gpu("full", SURVEY, gpu_memory="1008MiB")
        self.worker.delete("full")


class LostDeviceTest(GpuTest, DeviceTest):
    def test_who_works_on_a_device_that_is_lost_gets_cudas_error_and_the_next_a_new_process(self):
        self.create_gpu("busy", """
import time
import lambent_cuda as cuda
device = cuda.Device()
memory = device.buffer(32 << 20)
def handler(event, context):
    print("at work", flush=True)
    end = time.monotonic() + event.get("seconds", 0)
    while True:
        memory.fill(7)
        device.synchronize()
        if time.monotonic() >= end:
            return "done"
""", timeout=60)
        self.assertEqual(self.assert_works(self.worker.invoke("busy")), "done")
        replies = []
        caller = threading.Thread(target=lambda: replies.append(self.worker.invoke("busy", {"seconds": 50})))
        caller.start()
        log = lambda: self.worker.request("GET", "/v1/functions/busy/log").body
        self.worker.wait_for(lambda: log().count(b"at work") == 2, what="that the program is at work")
        self.strike("fault", "lose device 0")
        caller.join(60)
        self.assert_function_error(replies[0], "CudaError", "CUDA_ERROR_UNKNOWN")
        self.worker.wait_for(lambda: self.state() == "lost", what="that the worker has seen it")
        self.worker.wait_for(lambda: not self.worker.sandboxes(), what="that its sandbox is gone")
        self.strike("fault", "reset device 0")
        reply = self.worker.invoke("busy")
        self.assertEqual(self.assert_works(reply), "done")
        self.assertEqual(reply.headers["x-lambent-start"], "cold")
        self.worker.delete("busy")
        self.assert_memory_comes_back_to(0)


class KilledInTheMiddleOfAMove(MovingTest, DeviceTest):
    """Functions of 300 MiB on a device of 1 GiB whose link is so slow that a move takes seconds."""

    def setUp(self):
        self.create_holders(4)
        for name in self.names:
            self.call(name)

    def kill_one_that_is(self, place):
        """The function whose process was killed while its memory was on its way."""
        def moving():
            return [each for each in self.worker.sandboxes() if each["device_memory_place"] == place]
        victim = self.worker.wait_for(moving, what=f"that memory is {place}")[0]
        os.kill(victim["pid"], signal.SIGKILL)
        return victim["function"]

    def check(self, place):
        """One is called whose memory is out, and another's is in its way; the process whose memory is `place` is killed."""
        out = [each["function"] for each in self.worker.sandboxes() if each["device_memory_place"] == "out"]
        self.assertTrue(out, self.worker.sandboxes())
        replies = []
        self.strike("fault", "slow device 0 by 60")
        caller = threading.Thread(target=lambda: replies.append(self.worker.invoke(out[0])))
        caller.start()
        killed = self.kill_one_that_is(place)
        self.strike("fault", "slow device 0 by 1")
        caller.join(60)
        for name in self.names:
            calls = self.call(name)[1]["calls"]
            self.assertEqual(calls == 1, name == killed, f"{name} was called {calls} times; {killed} was killed")
        for name in self.names:
            self.worker.delete(name)
        self.names = []
        self.assert_memory_comes_back_to(0)
        self.assertIn("lambent_moved_out_memory_bytes 0\n", self.worker.metrics())
        return out[0], killed, replies[0]

    def test_on_its_way_out_its_room_goes_to_who_waited_for_it(self):
        called, killed, reply = self.check("moving out")
        self.assertNotEqual(called, killed)
        self.assertEqual(self.assert_works(reply)["changed"], [])

    def test_on_its_way_in_its_invocation_is_told(self):
        called, killed, reply = self.check("moving in")
        self.assertEqual(called, killed)
        self.assert_function_error(reply, "Runtime.ExitError", "signal")


if __name__ == "__main__":
    unittest.main()
