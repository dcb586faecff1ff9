"""Holds device memory for two seconds and looks whether it keeps its contents, with the driver alone."""
import ctypes
import time

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)


context, blocks, size = ctypes.c_void_p(), [], 64 << 20
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
for number in range(4):
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    call("cuMemsetD8_v2", address, ctypes.c_ubyte(number), ctypes.c_size_t(size))
    blocks.append(address)
end = time.monotonic() + 2
while time.monotonic() < end:
    for number, address in enumerate(blocks):
        seen = (ctypes.c_ubyte * 16)()
        call("cuMemcpyDtoH_v2", seen, address, ctypes.c_size_t(16))
        assert bytes(seen) == bytes([number]) * 16
for address in blocks:
    call("cuMemFree_v2", address)
call("cuDevicePrimaryCtxRelease_v2", 0)
