"""NVIDIA's own Python bindings of the driver API at work on whatever libcuda.so.1 their process finds.

usage: cuda_python_client.py HOST_MODULE (an image with the kernel "add" of tests/conformance). Prints the name of each part that held.
"""
import ctypes
import sys

from cuda.bindings import driver as cu

COUNT = 256
BYTES = 4 * COUNT


def ok(answer):
    """The result without its code; any other code than success ends the client."""
    error, *rest = answer
    if error != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(repr(error))
    return rest[0] if len(rest) == 1 else tuple(rest)


class Client:
    def __init__(self, host_module):
        ok(cu.cuInit(0))
        self.device = ok(cu.cuDeviceGet(0))
        self.context = ok(cu.cuDevicePrimaryCtxRetain(self.device))
        ok(cu.cuCtxSetCurrent(self.context))
        with open(host_module, "rb") as file:
            self.module = ok(cu.cuModuleLoadData(file.read()))
        self.add = ok(cu.cuModuleGetFunction(self.module, b"add"))
        self.stream = ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.values = (ctypes.c_float * COUNT)(*range(COUNT))

    def launch(self, memory, stream):
        parameters = ((memory, memory, memory, COUNT), (None, None, None, ctypes.c_int))
        ok(cu.cuLaunchKernel(self.add, 1, 1, 1, COUNT, 1, 1, 0, stream, parameters, 0))

    def check(self, memory, factor):
        found = (ctypes.c_float * COUNT)()
        ok(cu.cuMemcpyDtoH(ctypes.addressof(found), memory, BYTES))
        assert list(found) == [factor * i for i in range(COUNT)], list(found)[:4]

    def upload(self, memory):
        ok(cu.cuMemcpyHtoD(memory, ctypes.addressof(self.values), BYTES))

    def devices(self):
        assert ok(cu.cuDeviceGetCount()) >= 1
        assert b"Emulated" in ok(cu.cuDeviceGetName(64, self.device))
        assert ok(cu.cuDeviceGetAttribute(cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE, self.device)) == 32
        assert cu.cuDeviceGet(1000)[0] == cu.CUresult.CUDA_ERROR_INVALID_DEVICE

    def kernels(self):
        memory = ok(cu.cuMemAlloc(BYTES))
        self.upload(memory)
        self.launch(memory, 0)
        self.check(memory, 2)
        ok(cu.cuMemFree(memory))
        assert cu.cuMemFree(memory)[0] == cu.CUresult.CUDA_ERROR_INVALID_VALUE

    def events(self):
        begin, end = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
        memory = ok(cu.cuMemAllocAsync(BYTES, self.stream))
        ok(cu.cuEventRecord(begin, self.stream))
        ok(cu.cuMemsetD32Async(memory, 0, COUNT, self.stream))
        ok(cu.cuEventRecord(end, self.stream))
        ok(cu.cuMemFreeAsync(memory, self.stream))
        ok(cu.cuEventSynchronize(end))
        assert ok(cu.cuEventElapsedTime(begin, end)) >= 0

    def pools(self):
        properties = cu.CUmemPoolProps()
        properties.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = 0
        pool = ok(cu.cuMemPoolCreate(properties))
        memory = ok(cu.cuMemAllocFromPoolAsync(BYTES, pool, self.stream))
        ok(cu.cuStreamSynchronize(self.stream))
        self.upload(memory)
        self.launch(memory, self.stream)
        ok(cu.cuStreamSynchronize(self.stream))
        self.check(memory, 2)
        ok(cu.cuMemFreeAsync(memory, self.stream))
        ok(cu.cuStreamSynchronize(self.stream))
        ok(cu.cuMemPoolDestroy(pool))

    def virtual_memory(self):
        properties = cu.CUmemAllocationProp()
        properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = 0
        minimum = cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        size = ok(cu.cuMemGetAllocationGranularity(properties, minimum))
        address = ok(cu.cuMemAddressReserve(size, 0, 0, 0))
        handle = ok(cu.cuMemCreate(size, properties, 0))
        ok(cu.cuMemMap(address, size, 0, handle, 0))
        access = cu.CUmemAccessDesc()
        access.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = 0
        access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        ok(cu.cuMemSetAccess(address, size, [access], 1))
        self.upload(address)
        self.launch(address, 0)
        self.check(address, 2)
        ok(cu.cuMemUnmap(address, size))
        ok(cu.cuMemRelease(handle))
        ok(cu.cuMemAddressFree(address, size))

    def graphs(self):
        memory = ok(cu.cuMemAlloc(BYTES))
        self.upload(memory)
        ok(cu.cuStreamBeginCapture(self.stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
        self.launch(memory, self.stream)
        self.launch(memory, self.stream)
        graph = ok(cu.cuStreamEndCapture(self.stream))
        executable = ok(cu.cuGraphInstantiate(graph, 0))
        for _ in range(3):
            ok(cu.cuGraphLaunch(executable, self.stream))
        ok(cu.cuStreamSynchronize(self.stream))
        self.check(memory, 2 ** 6)
        ok(cu.cuGraphExecDestroy(executable))
        ok(cu.cuGraphDestroy(graph))
        ok(cu.cuMemFree(memory))


def main():
    client = Client(sys.argv[1])
    for part in (client.devices, client.kernels, client.events, client.pools, client.virtual_memory, client.graphs):
        part()
        print(part.__name__, flush=True)


if __name__ == "__main__":
    main()
