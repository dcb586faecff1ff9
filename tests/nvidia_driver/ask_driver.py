"""Asks the libcuda.so.1 of this process, by whatever way: calls, lookup, export tables. One question as its argument, more of it as
JSON on its input; prints the answer as JSON. An address is told as [file name of its library, offset].
"""
import ctypes
import json
import sys
import uuid


class Place(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]


PROCESS = ctypes.CDLL(None)
PROCESS.dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(Place)]
PROCESS.dlsym.restype = PROCESS.dlopen.restype = ctypes.c_void_p
PROCESS.dlsym.argtypes, PROCESS.dlopen.argtypes = [ctypes.c_void_p, ctypes.c_char_p], [ctypes.c_char_p, ctypes.c_int]
RTLD_NOW = 2


def place_of(address):
    place = Place()
    if not address or not PROCESS.dladdr(address, ctypes.byref(place)):
        return None
    return [place.file.decode().rpartition("/")[2], address - place.base]


def driver():
    return ctypes.CDLL("libcuda.so.1")


def lookups(names, versions, flags):
    """{"name version flags": [result, status, place]} by cuGetProcAddress_v2."""
    library, answers = driver(), {}
    library.cuInit(0)
    for name in names:
        for version in versions:
            for flag in flags:
                address, status = ctypes.c_void_p(), ctypes.c_int(-1)
                result = library.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), version, ctypes.c_uint64(flag), ctypes.byref(status))
                first = ctypes.c_void_p()
                older = library.cuGetProcAddress(name.encode(), ctypes.byref(first), version, ctypes.c_uint64(flag))
                answers[f"{name} {version} {flag}"] = [result, status.value, place_of(address.value), older, place_of(first.value)]
    return answers


def symbols(names, path):
    """{way: {name: place}}: by what a program links to, by the library's name, and by its path."""
    ways = {"global": None, "name": PROCESS.dlopen(b"libcuda.so.1", RTLD_NOW), "path": PROCESS.dlopen(path.encode(), RTLD_NOW)}
    PROCESS.dlopen(b"libcuda.so.1", RTLD_NOW | 0x100)  # RTLD_GLOBAL, as of a program that is linked to it
    return {way: {name: place_of(PROCESS.dlsym(handle, name.encode())) for name in names} for way, handle in ways.items()}


def tables(ids, words):
    """{id: [result, size in bytes or None, places of its first words]} by cuGetExportTable."""
    library, answers = driver(), {}
    library.cuInit(0)
    for text in ids:
        table = ctypes.c_void_p()
        result = library.cuGetExportTable(ctypes.byref(table), (ctypes.c_ubyte * 16)(*uuid.UUID(text).bytes))
        if not table.value:
            answers[text] = [result, None, []]
            continue
        first = ctypes.cast(table, ctypes.POINTER(ctypes.c_size_t))
        size = first[0] if first[0] < 4096 else None
        answers[text] = [result, size, [place_of(first[i]) for i in range(1, min(words, size // 8 if size else 2))]]
    return answers


def calls(init):
    """[[what, result]]: calls that a driver without a device has to refuse, and those that it answers."""
    library, p, i, n = driver(), ctypes.c_void_p(), ctypes.c_int(), ctypes.c_size_t()
    handle = ctypes.byref(p)
    told = [["cuInit", library.cuInit(init)]] if init >= 0 else []
    for name, *arguments in (
            ("cuDriverGetVersion", ctypes.byref(i)), ("cuDeviceGetCount", ctypes.byref(i)), ("cuDeviceGet", ctypes.byref(i), 0),
            ("cuMemAlloc_v2", handle, ctypes.c_size_t(1 << 20)), ("cuMemAllocManaged", handle, ctypes.c_size_t(64), 1),
            ("cuMemAllocAsync", handle, ctypes.c_size_t(64), None), ("cuMemAllocHost_v2", handle, ctypes.c_size_t(64)),
            ("cuMemHostAlloc", handle, ctypes.c_size_t(64), 0), ("cuMemFree_v2", ctypes.c_void_p(4096)), ("cuMemFreeHost", ctypes.c_void_p(4096)),
            ("cuMemGetInfo_v2", ctypes.byref(n), ctypes.byref(n)), ("cuCtxCreate_v2", handle, 0, 0), ("cuCtxGetCurrent", handle),
            ("cuCtxDestroy_v2", None), ("cuCtxSynchronize",), ("cuDevicePrimaryCtxRetain", handle, 0), ("cuDevicePrimaryCtxRelease_v2", 0),
            ("cuDevicePrimaryCtxReset_v2", 0), ("cuStreamCreate", handle, 0), ("cuStreamSynchronize", None), ("cuEventCreate", handle, 0),
            ("cuGraphCreate", handle, 0), ("cuGraphLaunch", None, None), ("cuModuleLoadData", handle, b".version 7.0\n"),
            ("cuLaunchKernel", None, 1, 1, 1, 1, 1, 1, 0, None, None, None), ("cuMemcpyHtoD_v2", ctypes.c_void_p(4096), b"abcd", ctypes.c_size_t(4)),
            ("cuMemsetD8_v2", ctypes.c_void_p(4096), 0, ctypes.c_size_t(4)), ("cuMemCreate", handle, ctypes.c_size_t(1 << 21), None, ctypes.c_uint64(0)),
            ("cuMemAddressReserve", handle, ctypes.c_size_t(1 << 21), ctypes.c_size_t(0), None, ctypes.c_uint64(0)),
            ("cuArrayCreate_v2", handle, None), ("cuMemPoolCreate", handle, None), ("cuPointerGetAttribute", handle, 2, ctypes.c_void_p(4096)),
            ("cuIpcGetMemHandle", ctypes.create_string_buffer(64), ctypes.c_void_p(4096)), ("cuGLCtxCreate_v2", handle, 0, 0),
            ("cuGLGetDevices_v2", ctypes.byref(i), ctypes.byref(i), 1, 1), ("cuGraphicsMapResources", 0, None, None), ("cuProfilerStart",)):
        told.append([name, getattr(library, name)(*arguments)])
    text = ctypes.c_char_p()
    for code in (0, 3, 100, 999, 12345):
        told.append([f"cuGetErrorName({code})", library.cuGetErrorName(code, ctypes.byref(text)), text.value and text.value.decode()])
        told.append([f"cuGetErrorString({code})", library.cuGetErrorString(code, ctypes.byref(text)), text.value and text.value.decode()])
    library.cuDriverGetVersion(ctypes.byref(i))
    return [*told, ["version", i.value]]


def nvml():
    """[[what, result, value]] of libnvidia-ml.so.1."""
    library, text, number = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.create_string_buffer(96), ctypes.c_uint()
    library.nvmlErrorString.restype = ctypes.c_char_p
    told = [["nvmlInit_v2", library.nvmlInit_v2()], ["nvmlInitWithFlags", library.nvmlInitWithFlags(0)],
            ["nvmlSystemGetNVMLVersion", library.nvmlSystemGetNVMLVersion(text, 96), text.value.decode()],
            ["nvmlSystemGetDriverVersion", library.nvmlSystemGetDriverVersion(text, 96)],
            ["nvmlDeviceGetCount_v2", library.nvmlDeviceGetCount_v2(ctypes.byref(number))], ["nvmlShutdown", library.nvmlShutdown()]]
    return told + [[f"nvmlErrorString({code})", library.nvmlErrorString(code).decode()] for code in (0, 1, 9, 12, 999)]


QUESTIONS = {each.__name__: each for each in (lookups, symbols, tables, calls, nvml)}

if __name__ == "__main__":
    print(json.dumps(QUESTIONS[sys.argv[1]](**json.load(sys.stdin))))
