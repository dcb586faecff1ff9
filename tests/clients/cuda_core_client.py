"""NVIDIA's cuda.core at work on whatever libcuda.so.1 its process finds: its objects over the driver's calls.

usage: cuda_core_client.py HOST_MODULE (an image with the kernel "add" of tests/conformance). Prints the name of each part that held.
"""
import sys

import numpy
from cuda.bindings import driver as cu
from cuda.core import (Device, DeviceMemoryResource, EventOptions, LaunchConfig, ManagedMemoryResource, ObjectCode,
                       PinnedMemoryResource, VirtualMemoryResource, launch)
from cuda.core._utils.cuda_utils import CUDAError

COUNT = 256
BYTES = 4 * COUNT


class Client:
    def __init__(self, host_module):
        self.device = Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        with open(host_module, "rb") as file:
            self.code = ObjectCode.from_cubin(file.read())  # an image of whatever kind the driver takes
        self.add = self.code.get_kernel("add")
        self.values = numpy.arange(COUNT, dtype=numpy.float32)

    def launch(self, where, buffer):
        memory = int(buffer.handle)
        launch(where, LaunchConfig(grid=1, block=COUNT), self.add, memory, memory, memory, numpy.int32(COUNT))

    def upload(self, buffer):
        (error,) = cu.cuMemcpyHtoD(int(buffer.handle), self.values.ctypes.data, BYTES)
        assert error == cu.CUresult.CUDA_SUCCESS, error

    def check(self, buffer, factor):
        found = numpy.zeros(COUNT, dtype=numpy.float32)
        (error,) = cu.cuMemcpyDtoH(found.ctypes.data, int(buffer.handle), BYTES)
        assert error == cu.CUresult.CUDA_SUCCESS, error
        assert (found == factor * self.values).all(), found[:4]

    def devices(self):
        assert "Emulated" in self.device.name
        assert self.device.compute_capability.major == 9
        assert self.device.properties.cooperative_launch
        assert self.device.properties.multiprocessor_count > 0
        assert len(self.device.uuid) == 36

    def kernels(self):
        assert self.add.attributes.max_threads_per_block == 1024
        assert self.add.occupancy.max_active_blocks_per_multiprocessor(COUNT, 0) > 0
        buffer = self.device.allocate(BYTES, stream=self.stream)
        self.stream.sync()
        self.upload(buffer)
        self.launch(self.stream, buffer)
        self.stream.sync()
        self.check(buffer, 2)
        buffer.close(self.stream)

    def events(self):
        begin = self.stream.record(options=EventOptions(timing_enabled=True))
        other = self.device.create_stream()
        buffer = self.device.allocate(BYTES, stream=self.stream)
        end = self.stream.record(options=EventOptions(timing_enabled=True))
        other.wait(end)
        buffer.close(other)
        other.sync()
        assert end.is_done
        assert end - begin >= 0

    def memory(self):
        for resource in (DeviceMemoryResource(self.device), PinnedMemoryResource()):
            buffer = resource.allocate(BYTES, stream=self.stream)
            self.stream.sync()
            self.upload(buffer)
            copy = self.device.allocate(BYTES, stream=self.stream)
            copy.copy_from(buffer, stream=self.stream)
            self.launch(self.stream, copy)
            self.stream.sync()
            self.check(copy, 2)
            copy.close(self.stream)
            buffer.close(self.stream)

    def virtual_memory(self):
        buffer = VirtualMemoryResource(self.device).allocate(2 << 20)
        self.upload(buffer)
        self.launch(self.stream, buffer)
        self.stream.sync()
        self.check(buffer, 2)
        buffer.close()

    def graphs(self):
        buffer = self.device.allocate(BYTES, stream=self.stream)
        self.stream.sync()
        self.upload(buffer)
        builder = self.device.create_graph_builder()
        builder.begin_building()
        self.launch(builder, buffer)
        self.launch(builder, buffer)
        graph = builder.end_building().complete()
        graph.upload(self.stream)
        for _ in range(3):
            graph.launch(self.stream)
        self.stream.sync()
        self.check(buffer, 2 ** 6)
        buffer.close(self.stream)

    def refusals(self):
        """What must fail fails with a code: a kernel that is not there, managed pools, and what asks NVIDIA's own runtime."""
        ptx = b".version 8.0\n.target sm_90\n.address_size 64\n"
        for call, code in ((lambda: ObjectCode.from_ptx(ptx).get_kernel("nothing"), "CUDA_ERROR_NOT_FOUND"),
                           (ManagedMemoryResource, "CUDA_ERROR_NOT_SUPPORTED"),
                           (lambda: self.device.pci_bus_id, "cudaError")):
            try:
                call()
            except CUDAError as error:
                assert code in str(error), error
            else:
                raise AssertionError("no " + code)


def main():
    client = Client(sys.argv[1])
    for part in (client.devices, client.kernels, client.events, client.memory, client.virtual_memory, client.graphs,
                 client.refusals):
        part()
        print(part.__name__, flush=True)


if __name__ == "__main__":
    main()
