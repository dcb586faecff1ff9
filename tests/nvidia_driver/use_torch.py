"""What PyTorch and NVIDIA's runtime make of the driver library of this process, as JSON."""
import ctypes
import json

import torch


def outcome(call):
    try:
        return str(call())
    except Exception as error:  # what the program would see
        return f"{type(error).__name__}: {error}"


told = {"version": torch.__version__, "cuda": torch.version.cuda, "available": torch.cuda.is_available(), "devices": torch.cuda.device_count(),
        "zeros": outcome(lambda: torch.zeros(1, device="cuda")), "name": outcome(lambda: torch.cuda.get_device_name(0)),
        "memory": outcome(torch.cuda.mem_get_info), "sum": float(torch.arange(100.0).sum())}
runtime, pointer, number = ctypes.CDLL("libcudart.so.12"), ctypes.c_void_p(), ctypes.c_int()
told["runtime"] = [runtime.cudaGetDeviceCount(ctypes.byref(number)), runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64)),
                   runtime.cudaDriverGetVersion(ctypes.byref(number)), number.value, runtime.cudaFree(None)]
print(json.dumps(told))
