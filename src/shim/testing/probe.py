"""What a Python program does: ctypes, in three ways. usage: probe.py PATH_OF_A_LIBCUDA"""
import ctypes
import sys

MIB = 1 << 20


def attempt(allocate):
    address = ctypes.c_uint64()
    return allocate(ctypes.byref(address), ctypes.c_size_t(100 * MIB))


by_name = ctypes.CDLL("libcuda.so.1")
print("init", by_name.cuInit(0))
print("by_name", attempt(by_name.cuMemAlloc_v2))
by_path = ctypes.CDLL(sys.argv[1])
print("by_path", attempt(by_path.cuMemAlloc_v2))
function = ctypes.c_void_p()
by_name.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(function), 12000, ctypes.c_uint64(0), None)
prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
print("by_address", attempt(prototype(function.value)))


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64)]


address = ctypes.c_uint64()
print("small", by_name.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(10 * MIB)))
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
device = ctypes.c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
memory = Memory()
nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
print("nvml_total", memory.total)
print("nvml_free", memory.free)


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_uint64), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]


processes = (Process * 4)()
count = ctypes.c_uint(4)
nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes)
print("nvml_processes", ",".join(str(processes[i].used) for i in range(count.value)))
free, total = ctypes.c_size_t(), ctypes.c_size_t()
by_name.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
print("cuda_total", total.value)
print("cuda_free", free.value)
