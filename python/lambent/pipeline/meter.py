"""DeviceMeter: what components take of the device's memory, and when their work on it is done. Without a device all is zero."""
import sys
from typing import Any, Dict, Optional, Tuple

from .module import device_is_made, shared_device


class DeviceMeter:
    """Looks at torch and at lambent_cuda, whichever the process has imported; imports neither."""

    def __init__(self) -> None:
        self._torch_before = self._buffers_before = 0

    def used_bytes(self) -> Optional[int]:
        """Of the whole slice, by cuMemGetInfo; None without a device. Makes the context if there is none."""
        free_and_total = self._memory_info()
        return None if free_and_total is None else free_and_total[1] - free_and_total[0]

    def _memory_info(self) -> Optional[Tuple[int, int]]:
        torch = _torch()
        if torch is not None:
            free, total = torch.cuda.mem_get_info()
            return free, total
        cuda = sys.modules.get("lambent_cuda")
        if cuda is None:
            return None
        try:
            free, total = shared_device().memory_info()
            return free, total
        except cuda.NoDevice:  # imported, perhaps not needed
            return None

    def synchronize(self) -> None:
        torch = _torch()
        if torch is not None:
            torch.cuda.synchronize()
        if "lambent_cuda" in sys.modules and device_is_made():
            shared_device().synchronize()

    def start(self) -> None:
        """Begins to watch what is allocated on top of what is."""
        torch = _torch()
        if torch is not None:
            torch.cuda.reset_peak_memory_stats()
            self._torch_before = torch.cuda.memory_allocated()
        buffers = _buffers()
        if buffers is not None:
            buffers.peak_bytes = self._buffers_before = buffers.allocated_bytes

    def extra_bytes(self) -> int:
        """The most that was allocated since start(), on top of what was there then."""
        extra = 0
        torch = _torch()
        if torch is not None:
            extra += max(0, torch.cuda.max_memory_allocated() - self._torch_before)
        buffers = _buffers()
        if buffers is not None:
            extra += max(0, buffers.peak_bytes - self._buffers_before)
        return extra

    def shape(self) -> Optional[Dict[str, Any]]:
        """{"name", "multiprocessors", "memory_mb"} of the slice; None without a device. A MIG device is called as its profile
        is ("2g.20gb"), a whole one by its own name."""
        torch, info = _torch(), self._memory_info()
        if torch is not None:
            properties = torch.cuda.get_device_properties(0)
            name, multiprocessors = properties.name, properties.multi_processor_count
        elif info is not None:
            name, multiprocessors = shared_device().name, shared_device().multiprocessors
        if info is None:
            return None
        _, total = info
        return {"name": name.partition(" MIG ")[2] or name, "multiprocessors": multiprocessors,
                "memory_mb": total / (1 << 20)}


_torch_has_device: Optional[bool] = None  # asked once, as it takes long


def _torch() -> Any:
    global _torch_has_device
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):  # not imported, or about to be
        return None
    if _torch_has_device is None:
        _torch_has_device = torch.cuda.is_available()
    return torch if _torch_has_device else None


def _buffers() -> Any:
    cuda = sys.modules.get("lambent_cuda")
    return cuda.DeviceBuffer if cuda is not None else None
