"""The driver's checkpoint of another process that holds memory: seconds to take it off the device and to bring it back, as JSON."""
import ctypes
import json
import subprocess
import sys
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

BYTES = 256 << 20


def load():
    library = ctypes.CDLL("libcuda.so.1")
    status = library.cuInit(c_uint(0))
    if status != 0:
        sys.exit("cuInit answered %d" % status)
    return library


def hold():
    library = load()
    context, address = c_void_p(), c_uint64()
    for status in (library.cuDevicePrimaryCtxRetain(byref(context), c_int(0)), library.cuCtxSetCurrent(context),
                   library.cuMemAlloc_v2(byref(address), c_size_t(BYTES)),
                   library.cuMemsetD8_v2(address, ctypes.c_ubyte(42), c_size_t(BYTES))):
        if status != 0:
            sys.exit("the holder got %d" % status)
    print("ready", flush=True)
    sys.stdin.readline()
    piece = ctypes.create_string_buffer(4096)
    library.cuMemcpyDtoH_v2(piece, c_uint64(address.value + BYTES - 4096), c_size_t(4096))
    print("same" if piece.raw == b"\x2a" * 4096 else "changed", flush=True)


def used(library):
    context, free, total = c_void_p(), c_size_t(), c_size_t()
    library.cuDevicePrimaryCtxRetain(byref(context), c_int(0))
    library.cuCtxSetCurrent(context)
    library.cuMemGetInfo_v2(byref(free), byref(total))
    return total.value - free.value


def main():
    holder = subprocess.Popen([sys.executable, __file__, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if holder.stdout.readline().strip() != "ready":
            sys.exit("the holder did not come up")
        library = load()
        if not hasattr(library, "cuCheckpointProcessLock"):
            print("this driver has no checkpoints (before 570)", file=sys.stderr)
            sys.exit(77)
        nothing = (ctypes.c_char * 64)()
        before = used(library)
        seconds = {}
        for step in ("Lock", "Checkpoint", "Restore", "Unlock"):
            start = time.monotonic()
            status = getattr(library, "cuCheckpointProcess" + step)(c_int(holder.pid), nothing)
            seconds[step.lower() + "_s"] = round(time.monotonic() - start, 4)
            if status != 0:
                sys.exit("cuCheckpointProcess%s answered %d" % (step, status))
            if step == "Checkpoint":
                seconds["freed_bytes"] = before - used(library)
        print("look", file=holder.stdin, flush=True)
        seconds["memory"] = holder.stdout.readline().strip()
        print(json.dumps({"bytes": BYTES, **seconds}))
        if seconds["memory"] != "same":
            sys.exit("memory has changed over the checkpoint")
    finally:
        holder.kill()
        holder.wait()


if sys.argv[1:] == ["hold"]:
    hold()
else:
    main()
