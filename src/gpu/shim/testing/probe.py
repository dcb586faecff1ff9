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


def of_processes(question):
    processes = (Process * 4)()
    count = ctypes.c_uint(4)
    getattr(nvml, question)(device, ctypes.byref(count), processes)
    return ",".join(str(processes[i].used) for i in range(count.value))


class Detail(ctypes.Structure):
    _fields_ = Process._fields_ + [("protected", ctypes.c_uint64)]


class Details(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("mode", ctypes.c_uint), ("count", ctypes.c_uint), ("processes", ctypes.POINTER(Detail))]


class Accounting(ctypes.Structure):
    _fields_ = [("shares", ctypes.c_uint * 2), ("most", ctypes.c_uint64), ("times", ctypes.c_uint64 * 2), ("rest", ctypes.c_uint * 6)]


class Attributes(ctypes.Structure):
    _fields_ = [("counts", ctypes.c_uint * 8), ("mib", ctypes.c_uint64)]


print("nvml_processes", of_processes("nvmlDeviceGetComputeRunningProcesses_v3"))
print("nvml_graphics", of_processes("nvmlDeviceGetGraphicsRunningProcesses_v3"))
print("nvml_mps", of_processes("nvmlDeviceGetMPSComputeRunningProcesses_v3"))
details = Details(0, 0, 4, (Detail * 4)())
nvml.nvmlDeviceGetRunningProcessDetailList(device, ctypes.byref(details))
print("nvml_details", ",".join(str(each.used) for each in details.processes[:details.count]))
print("nvml_protected", details.processes[1].protected)
accounting, attributes, confidential, sizes = Accounting(), Attributes(), Memory(), (ctypes.c_uint64 * 2)()
nvml.nvmlDeviceGetAccountingStats(device, ctypes.c_uint(1), ctypes.byref(accounting))
print("nvml_accounting", accounting.most)
nvml.nvmlDeviceGetAttributes_v2(device, ctypes.byref(attributes))
print("nvml_attributes_mib", attributes.mib)
nvml.nvmlDeviceGetConfComputeProtectedMemoryUsage(device, ctypes.byref(confidential))
print("nvml_confidential", confidential.total)
nvml.nvmlDeviceGetConfComputeMemSizeInfo(device, sizes)
print("nvml_sizes_kib", "%d,%d" % tuple(sizes))
free, total = ctypes.c_size_t(), ctypes.c_size_t()
by_name.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
print("cuda_total", total.value)
print("cuda_free", free.value)
