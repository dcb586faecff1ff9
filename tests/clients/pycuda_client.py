"""PyCUDA at work on whatever libcuda.so.1 its process finds.

usage: pycuda_client.py HOST_MODULE (an image with the kernel "add" of tests/conformance). Prints the name of each part that held.
"""
import sys

import numpy
import pycuda.driver as cuda

COUNT = 256


class Client:
    def __init__(self, host_module):
        cuda.init()
        self.context = cuda.Device(0).make_context()
        with open(host_module, "rb") as file:
            self.module = cuda.module_from_buffer(file.read())
        self.add = self.module.get_function("add")
        self.values = numpy.arange(COUNT, dtype=numpy.float32)

    def run(self, memory, **where):
        self.add(memory, memory, memory, numpy.int32(COUNT), block=(COUNT, 1, 1), grid=(1, 1), **where)

    def devices(self):
        device = cuda.Device(0)
        assert "Emulated" in device.name()
        assert device.compute_capability() == (9, 0)
        assert device.get_attribute(cuda.device_attribute.WARP_SIZE) == 32
        assert cuda.mem_get_info()[1] == device.total_memory()

    def kernels(self):
        memory = cuda.to_device(self.values)
        self.run(memory)
        found = cuda.from_device(memory, COUNT, numpy.float32)
        assert (found == 2 * self.values).all(), found[:4]
        both = self.values.copy()
        self.add(cuda.InOut(both), cuda.In(self.values), cuda.Out(numpy.empty_like(both)), numpy.int32(COUNT),
                 block=(COUNT, 1, 1))
        assert self.add.get_attribute(cuda.function_attribute.MAX_THREADS_PER_BLOCK) == 1024

    def streams(self):
        stream, begin, end = cuda.Stream(), cuda.Event(), cuda.Event()
        pinned = cuda.pagelocked_empty(COUNT, numpy.float32)
        pinned[:] = self.values
        memory = cuda.mem_alloc(pinned.nbytes)
        begin.record(stream)
        cuda.memcpy_htod_async(memory, pinned, stream)
        self.run(memory, stream=stream)
        cuda.memcpy_dtoh_async(pinned, memory, stream)
        end.record(stream)
        end.synchronize()
        assert (pinned == 2 * self.values).all()
        assert begin.time_till(end) >= 0
        assert stream.is_done()

    def arrays_and_managed_memory(self):
        rows = numpy.arange(6 * 5, dtype=numpy.float32).reshape(5, 6)
        array = cuda.matrix_to_array(rows, "C")
        back, copy = numpy.zeros_like(rows), cuda.Memcpy2D()
        copy.set_src_array(array)
        copy.set_dst_host(back)
        copy.width_in_bytes = copy.dst_pitch = rows.strides[0]
        copy.height = 5
        copy(aligned=False)
        assert (back == rows).all(), back
        managed = cuda.managed_zeros(COUNT, numpy.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
        managed[:] = self.values
        self.run(managed)
        self.context.synchronize()
        assert (managed == 2 * self.values).all()

    def errors(self):
        for call, kind in ((lambda: cuda.mem_alloc(1 << 50), cuda.MemoryError),
                           (lambda: self.module.get_function("no_such_kernel"), cuda.LogicError),
                           (lambda: cuda.module_from_buffer(b".version 8.0\n.target sm_90\n"), cuda.Error)):
            try:
                call()
            except kind:
                continue
            raise AssertionError(kind)


def main():
    client = Client(sys.argv[1])
    try:
        for part in (client.devices, client.kernels, client.streams, client.arrays_and_managed_memory, client.errors):
            part()
            print(part.__name__, flush=True)
    finally:
        client.context.pop()


if __name__ == "__main__":
    main()
