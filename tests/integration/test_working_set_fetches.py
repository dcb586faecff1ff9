"""Working sets through a worker: what launches and graphs name of memory that lies on the host is fetched where dispatch grants the room."""
import pathlib
import subprocess
import tempfile
import unittest

from harness import PREFIX
from test_memory_moves import SmallDevice

# Keeps several pieces of memory, all that it may have, and names the one that the call names to a kernel.
NAMED = """
import array
import lambent_cuda as cuda

PIECES, SIZE = 8, 8 << 20
device = cuda.Device()
bump = device.load("/var/task/bundles/bump").kernel("bump")
held = [device.buffer(array.array("I", [1000 * i]).tobytes() * (SIZE // 4)) for i in range(PIECES)]
calls = [0] * PIECES

def handler(event, context):
    i = event["piece"]
    bump(grid=1, block=1, args=[held[i]])
    device.synchronize()
    calls[i] += 1
    first, second = array.array("I", held[i].bytes()[:8])
    return {"right": (first, second) == (1000 * i + calls[i], 1000 * i)}
"""
# The same by graphs, one for each piece, captured when the program starts.
GRAPHS = """
import array, ctypes
from ctypes import byref, c_int, c_uint, c_ulonglong, c_void_p
import lambent_cuda as cuda

PIECES, SIZE = 8, 8 << 20
device = cuda.Device()
call = device.driver.call
bump = device.load("/var/task/bundles/bump").kernel("bump")
held = [device.buffer(array.array("I", [1000 * i]).tobytes() * (SIZE // 4)) for i in range(PIECES)]
calls = [0] * PIECES
stream = c_void_p()
call("cuStreamCreate", byref(stream), c_uint(1))

def capture(piece):
    description, executable = c_void_p(), c_void_p()
    parameters = (c_void_p * 1)(ctypes.addressof(piece.pointer))
    call("cuStreamBeginCapture_v2", stream, c_int(2))
    call("cuLaunchKernel", bump._function, *[c_uint(1)] * 6, c_uint(0), stream, parameters, c_void_p())
    call("cuStreamEndCapture", stream, byref(description))
    call("cuGraphInstantiateWithFlags", byref(executable), description, c_ulonglong(0))
    return executable

graphs = [capture(piece) for piece in held]

def handler(event, context):
    i = event["piece"]
    call("cuGraphLaunch", graphs[i], stream)
    call("cuStreamSynchronize", stream)
    calls[i] += 1
    first, second = array.array("I", held[i].bytes()[:8])
    return {"right": (first, second) == (1000 * i + calls[i], 1000 * i)}
"""
BUMP = """
#include <lambent/kernel.h>

extern "C" __global__ void bump(unsigned* words) { words[0] += 1; }
LAMBENT_KERNEL(bump);
"""


def bump_bundle():
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / "bump.cu", pathlib.Path(folder) / "bump"
        source.write_text(BUMP)
        subprocess.run([str(PREFIX / "bin/lambent-bundle"), "build", str(source), "-o", str(out)], check=True,
                       capture_output=True)
        return {"bundles/bump/" + str(path.relative_to(out)): path.read_bytes()
                for path in out.rglob("*") if path.is_file()}


class Fetches(SmallDevice):
    """Functions of 64 MiB, their limit, that name 8 of them to a kernel; on a device of 256 MiB."""
    flags = (*SmallDevice.flags, "--working-set", "touched")

    def use(self, name, piece):
        reply = self.worker.invoke(name, {"piece": piece})
        self.assertTrue(self.assert_works(reply)["right"], f"{name}: piece {piece}")
        return reply.headers["x-lambent-start"]

    def test_what_a_kernel_names_is_fetched_where_dispatch_grants_the_room(self):
        self.check("kernels", NAMED)

    def test_so_is_what_a_graph_names(self):
        self.check("graphs", GRAPHS)

    def check(self, word, source):
        bundle = bump_bundle()
        self.names = [f"{word}-{i}" for i in range(5)]
        for name in self.names:
            self.create_gpu(name, source, bundle, gpu_memory="65MiB", memory=512)
        for _ in range(8):
            starts = [self.use(name, 1) for name in self.names]
        self.assertEqual(starts, ["warm"] * 5, "they fit together")
        before = self.metric("lambent_gpu_memory_fetches_total", 'answer="granted"')
        for name in self.names[:2]:
            self.use(name, 2)
        granted = self.metric("lambent_gpu_memory_fetches_total", 'answer="granted"') - before
        self.assertGreaterEqual(granted, 2)
        for name in self.names:
            for piece in (5, 1, 0):
                self.use(name, piece)


if __name__ == "__main__":
    unittest.main()
