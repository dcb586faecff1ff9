"""Green contexts of the first device: how its multiprocessors can be split, how many contexts there can be, what making one costs, and
whether memory is shared and kernels of libraries' size run in one. As JSON; needs only the driver (CUDA 12.4 and newer)."""
import ctypes
import json
import os
import sys
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

SM = 1  # CU_DEV_RESOURCE_TYPE_SM
DEFAULT_STREAM, NON_BLOCKING = 1, 1
MOST_CONTEXTS = 256
# A CUdevResource: the type, 92 bytes of the driver's own, what there is of it (48 bytes), and in newer drivers a link to the next.
RESOURCE_BYTES, COUNT_AT = 144, 96

library = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    if not hasattr(library, name):
        print("this driver has no %s (before CUDA 12.4)" % name, file=sys.stderr)
        sys.exit(77)
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise OSError(status, "%s answered %d" % (name, status))


class Resource(ctypes.Structure):
    _fields_ = [("type", c_int), ("own", ctypes.c_char * (COUNT_AT - 4)), ("count", c_uint),
                ("rest", ctypes.c_char * (RESOURCE_BYTES - COUNT_AT - 4))]


def split(resource, least, flags=0):
    """The groups of at least that many multiprocessors, and the number of those that are left."""
    groups = c_uint()
    call("cuDevSmResourceSplitByCount", None, byref(groups), byref(resource), None, c_uint(flags), c_uint(least))
    made, left = (Resource * max(groups.value, 1))(), Resource()
    call("cuDevSmResourceSplitByCount", made, byref(groups), byref(resource), byref(left), c_uint(flags), c_uint(least))
    return list(made[:groups.value]), left.count


def make(resource, device):
    description, green, context = c_void_p(), c_void_p(), c_void_p()
    call("cuDevResourceGenerateDesc", byref(description), byref(resource), c_uint(1))
    call("cuGreenCtxCreate", byref(green), description, device, c_uint(DEFAULT_STREAM))
    call("cuCtxFromGreenCtx", byref(context), green)
    return green, context


def free_bytes():
    free, total = c_size_t(), c_size_t()
    call("cuMemGetInfo_v2", byref(free), byref(total))
    return free.value


def main():
    call("cuInit", c_uint(0))
    device, primary = c_int(), c_void_p()
    call("cuDeviceGet", byref(device), c_int(0))
    call("cuDevicePrimaryCtxRetain", byref(primary), device)
    call("cuCtxSetCurrent", primary)
    whole = Resource()
    call("cuDeviceGetDevResource", device, byref(whole), c_int(SM))
    result = {"multiprocessors": whole.count, "groups": {}, "left": {}}
    for least in (1, 2, 4, 8, 16, 32, 64):
        try:
            groups, left = split(whole, least)
            result["groups"][least] = [group.count for group in groups]
            result["left"][least] = left
        except OSError as error:
            result["groups"][least] = str(error)
    groups, _ = split(whole, 1)

    # Memory of one is the other's too: a word that is written through the first is read through the last.
    before, seconds, made = free_bytes(), [], []
    refused = None
    while len(made) < MOST_CONTEXTS:
        start = time.monotonic()
        try:
            made.append(make(groups[len(made) % len(groups)], device))
        except OSError as error:
            refused = str(error)
            break
        seconds.append(time.monotonic() - start)
    result["contexts"] = len(made)
    result["refused_with"] = refused
    if made:
        result["first_ms"] = round(seconds[0] * 1e3, 3)
        result["median_ms"] = round(sorted(seconds)[len(seconds) // 2] * 1e3, 3)
        result["bytes_each"] = (before - free_bytes()) // len(made)
        address, stream, word = c_uint64(), c_void_p(), c_uint(0)
        call("cuMemAlloc_v2", byref(address), c_size_t(4096))
        call("cuGreenCtxStreamCreate", byref(stream), made[0][0], c_uint(NON_BLOCKING), c_int(0))
        call("cuMemsetD32Async", address, c_uint(42), c_size_t(1024), stream)
        call("cuStreamSynchronize", stream)
        call("cuCtxSetCurrent", made[-1][1])
        call("cuMemcpyDtoH_v2", byref(word), address, c_size_t(4))
        result["shares_memory"] = word.value == 42
        call("cuCtxSetCurrent", primary)
    start = time.monotonic()
    for green, _ in made:
        call("cuGreenCtxDestroy", green)
    result["destroy_ms"] = round((time.monotonic() - start) * 1e3 / max(len(made), 1), 3)
    print(json.dumps(result), flush=True)
    if result.get("shares_memory") is False:
        print("two contexts of one process do not see the same memory", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


main()
