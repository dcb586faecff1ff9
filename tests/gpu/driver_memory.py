"""Memory of many sizes, filled, copied about and read back for a while, by the driver API alone. Prints a digest of all that was read."""
import ctypes
import hashlib
import sys
import time
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p

SECONDS = 4.0
SIZES = [1 << 12, 3 << 16, 1 << 20, 5 << 20, 64 << 20, 100 << 20]

library = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise SystemExit("%s answered %d" % (name, status))


def main():
    call("cuInit", c_uint(0))
    context = c_void_p()
    call("cuDevicePrimaryCtxRetain", byref(context), ctypes.c_int(0))
    call("cuCtxSetCurrent", context)
    buffers = []
    for size in SIZES:
        address = c_uint64()
        call("cuMemAlloc_v2", byref(address), c_size_t(size))
        buffers.append((address, size))
    digest = hashlib.sha256()
    start = time.monotonic()
    end = start + SECONDS
    rounds = 0
    while rounds < 3 or time.monotonic() < end:
        for i, (address, size) in enumerate(buffers):
            call("cuMemsetD32_v2", address, c_uint((rounds % 3) * 1000 + i), c_size_t(size // 4))
        for (source, size), (target, room) in zip(buffers, buffers[1:]):
            call("cuMemcpyDtoD_v2", c_uint64(target.value + room - size), source, c_size_t(min(size, room)))
        for address, size in buffers:
            # A few kilobytes from the beginning, the middle and the end.
            for offset in (0, size // 2 & ~4095, size - 4096):
                piece = ctypes.create_string_buffer(4096)
                call("cuMemcpyDtoH_v2", piece, c_uint64(address.value + offset), c_size_t(4096))
                if rounds < 3:
                    digest.update(piece.raw)
                else:
                    again = hashlib.sha256(piece.raw).digest()
                    if expected[rounds % 3][(address.value, offset)] != again:
                        raise SystemExit("round %d: memory at %x+%d has changed" % (rounds, address.value, offset))
                if rounds < 3:
                    expected[rounds][(address.value, offset)] = hashlib.sha256(piece.raw).digest()
        rounds += 1
    print(digest.hexdigest())
    print("rate %.2f rounds a second" % (rounds / (time.monotonic() - start)), file=sys.stderr)


expected = [{}, {}, {}]
main()
