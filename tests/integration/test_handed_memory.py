"""Handlers of one GPU runtime that hand device memory to each other, Python handlers and a C program, in a real worker; and those that
hand on what is not theirs, die in the middle of a copy, or take all they may: a clear error, neighbours unharmed, all given back."""
import base64
import unittest

from harness import PREFIX, make_zip
from test_kernel_functions import KernelTest

MIB = 1 << 20

HANDS = """
import base64, ctypes, os, signal, subprocess
import lambent_cuda as cuda

device = cuda.Device()
call = device.driver.call
mine = device.buffer(1 << 20)
handle = (ctypes.c_ubyte * 64)()
kept = []

def run(*words):
    program = os.path.join(os.environ["LAMBDA_TASK_ROOT"], "handed_memory")
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()

def put(size, value, **options):
    made = device.buffer(size)
    made.fill(value)
    address = made.pointer.value
    return dict(device.put(made, **options), at=address)

def handler(event, context):
    how = event["how"]
    if how == "put":
        return put(event.get("size", 1 << 20), event.get("value", 7), **event.get("options", {}))
    if how == "get":
        taken = device.get(event["reference"])
        return {"at": taken.pointer.value, "size": taken.size, "last": taken.bytes()[-1]}
    if how == "program puts":
        return {"bytes": event["size"], "memory": base64.b64encode(bytes.fromhex(run("put", str(event["size"]), "9"))).decode()}
    if how == "program gets":
        return [int(word) for word in run("get", base64.b64decode(event["reference"]["memory"]).hex()).split()]
    if how == "own":
        return mine.pointer.value
    if how == "foreign":
        call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(event["address"]))
    if how == "close":
        call("cuIpcCloseMemHandle", mine.pointer)
    if how == "write foreign":
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(event["address"]), bytes(1 << 20), ctypes.c_size_t(1 << 20))
    if how == "twice":
        taken = device.get(event["reference"])
        device.get(event["reference"])
    if how == "use after put":
        given = device.buffer(1 << 20)
        device.put(given)
        given.fill(1)
    if how == "die in a copy":
        host, to = bytes(8 << 20), device.buffer(8 << 20)
        for _ in range(4):
            call("cuMemcpyHtoDAsync_v2", to.pointer, host, ctypes.c_size_t(8 << 20), ctypes.c_void_p())
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "put and die":
        put(8 << 20, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exhaust":
        references = []
        try:
            while True:
                references.append(put(4 << 20, 1))
        except cuda.OutOfMemory:
            return references
    if how == "all":
        return device.buffer(event["size"]).size
    if how == "weights":
        brought = []
        weights = device.shared(event["called"], 4 << 20, lambda buffer: (buffer.fill(event["value"]), brought.append(1)))
        kept.append(weights)
        return {"at": weights.pointer.value, "value": weights.bytes()[-1], "brought": len(brought)}
"""


class HandedMemory(KernelTest):
    flags = ("--context-memory", "16", "--concurrency", "4")

    def setUp(self):
        for function in self.worker.request("GET", "/v1/functions").json["functions"]:
            self.worker.delete(function["name"])

    def handler(self, name, memory="64MiB", domain="", runtime="shared"):
        program = (PREFIX / "tests/handed_memory").read_bytes()
        return self.worker.create(name, make_zip({"app.py": HANDS, "handed_memory": (program, 0o755)}), timeout=30,
                                  tags={"lambent:gpu-memory": memory, "lambent:gpu-runtime": runtime, "lambent:gpu-domain": domain})

    def does(self, name, how, **event):
        return self.ask(name, {"how": how, **event}).json

    def fails(self, name, how, **event):
        return self.failure(name, {"how": how, **event})

    def assert_works(self, *names):
        """Each hands memory to itself and to the next."""
        for maker, reader in zip(names, (*names[1:], names[0])):
            put = self.does(maker, "put", value=5)
            self.assertEqual(self.does(reader, "get", reference=put), {"at": put["at"], "size": MIB, "last": 5})

    def test_a_python_handler_and_a_c_program_hand_memory_to_each_other(self):
        self.handler("python")
        self.handler("native")
        put = self.does("python", "put", value=3)
        self.assertEqual(self.does("native", "program gets", reference=put), [put["at"], MIB, 3])
        # The program has ended; what it put is there as long as its sandbox.
        made = self.does("native", "program puts", size=2 * MIB)
        got = self.does("python", "get", reference=made)
        self.assertEqual((got["size"], got["last"]), (2 * MIB, 9))

    def test_as_many_readers_as_were_told_and_no_more(self):
        self.handler("maker")
        self.handler("reader")
        put = self.does("maker", "put", options={"reads": 2})
        for _ in range(2):
            self.assertEqual(self.does("reader", "get", reference=put)["at"], put["at"])
        gone = self.fails("reader", "get", reference=put)
        self.assertEqual(gone["errorType"], "MemoryGone")
        self.assertIn("copy=True", gone["errorMessage"])

    def test_elsewhere_only_a_copy_is_there(self):
        self.handler("maker")
        self.handler("far", domain="far")
        self.handler("alone", runtime="own")
        for reader in "far", "alone":
            self.assertEqual(self.fails(reader, "get", reference=self.does("maker", "put"))["errorType"], "MemoryGone")
            put = self.does("maker", "put", value=8, options={"copy": True})
            self.assertEqual(self.does(reader, "get", reference=put)["last"], 8)
        # Without a shared runtime the same code stores an object.
        put = self.does("alone", "put", value=6)
        self.assertNotIn("memory", put)
        self.assertEqual(self.does("maker", "get", reference=put)["last"], 6)

    def test_what_is_not_theirs_is_refused(self):
        self.handler("owner")
        self.handler("thief")
        address = self.does("owner", "own")
        for how in "foreign", "write foreign", "close":
            self.assertIn("CUDA_ERROR_INVALID_VALUE", self.fails("thief", how, address=address)["errorMessage"], how)
        self.assertIn("CUDA_ERROR_INVALID_VALUE", self.fails("thief", "use after put")["errorMessage"])
        forged = {"bytes": MIB, "memory": base64.b64encode(b"lambent:memory:1" + bytes(range(48))).decode()}
        for reference in forged, {"bytes": MIB, "memory": base64.b64encode(bytes(64)).decode()}:
            self.assertEqual(self.fails("thief", "get", reference=reference)["errorType"], "MemoryGone")
        for reference, words in (({"memory": forged["memory"]}, "has no 'bytes'"), ({**forged, "bytes": "1"}, "'bytes' of a reference is '1'"),
                                 ({**forged, "shape": [2]}, "has no 'datatype'"), ([1], "the dict that put() returned")):
            failure = self.fails("thief", "get", reference=reference)
            self.assertEqual(failure["errorType"], "ValueError")
            self.assertIn(words, failure["errorMessage"])
        put = self.does("owner", "put", options={"reads": 2})
        self.assertIn("CUDA_ERROR_ALREADY_MAPPED", self.fails("thief", "twice", reference=put)["errorMessage"])
        self.assert_works("owner", "thief")

    def test_one_that_dies_in_the_middle_of_its_copies_holds_up_no_other(self):
        self.handler("dying")
        self.handler("near")
        executors = self.worker.metrics().count("lambent_executors{")
        for _ in range(4):
            self.fails("dying", "die in a copy")
            self.assert_works("near")
        # All of its memory is back.
        self.assertEqual(self.does("dying", "all", size=60 * MIB), 60 * MIB)
        self.assert_works("dying", "near")
        self.assertEqual(self.worker.metrics().count("lambent_executors{"), executors)
        self.assertIn('lambent_executor_ends_total{how="fault"} 0\n', self.worker.metrics())

    def test_what_one_that_died_had_put_is_given_back(self):
        self.handler("dying")
        self.handler("near")
        for _ in range(4):
            self.fails("dying", "put and die")
        self.assertEqual(self.does("dying", "all", size=60 * MIB), 60 * MIB)
        self.assert_works("near")

    def test_one_that_puts_all_it_may_is_told_and_no_other_is(self):
        self.handler("hoarder", memory="32MiB")
        self.handler("near", memory="32MiB")
        references = self.does("hoarder", "exhaust")
        self.assertEqual(len(references), 7)  # of 4 MiB, beside the one that it keeps
        self.assertIn("OUT_OF_MEMORY", self.fails("hoarder", "put", size=8 * MIB)["errorMessage"])
        self.assertEqual(self.does("near", "all", size=30 * MIB), 30 * MIB)
        for reference in references:
            self.assertEqual(self.does("near", "get", reference=reference)["size"], 4 * MIB)
        self.assertEqual(self.does("hoarder", "all", size=28 * MIB), 28 * MIB)

    def test_weights_are_brought_once_for_all_functions_of_a_domain(self):
        self.handler("one")
        self.handler("two")
        self.handler("far", domain="far")
        first = self.does("one", "weights", called="w", value=4)
        self.assertEqual((first["value"], first["brought"]), (4, 1))
        self.assertEqual(self.does("two", "weights", called="w", value=5), {"at": first["at"], "value": 4, "brought": 0})
        self.assertEqual(self.does("two", "weights", called="w", value=5), {"at": first["at"], "value": 4, "brought": 0})  # once more
        self.assertEqual(self.does("two", "weights", called="another", value=5)["brought"], 1)
        self.assertEqual(self.does("far", "weights", called="w", value=6)["value"], 6)
        # They outlive the client that brought them.
        self.fails("one", "put and die")
        self.assertEqual(self.does("one", "weights", called="w", value=7), {"at": first["at"], "value": 4, "brought": 0})


if __name__ == "__main__":
    unittest.main()
