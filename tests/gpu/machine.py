"""Facts about the machine and its driver, for a report: what the figures were taken on. No part of it may fail."""
import ctypes
import os
import pathlib
import platform
import re
import subprocess
from ctypes import byref, c_char, c_int, c_size_t


def usual_drivers():
    """Where libcuda.so.1 may lie, the loader's own answer first."""
    found = []
    try:
        listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, timeout=30).stdout
        found += re.findall(r"libcuda\.so\.1 \(.*x86-64.*\) => (\S+)", listed)
    except (OSError, subprocess.SubprocessError):
        pass
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders += ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/lib", "/usr/lib/wsl/lib"]
    return found + [os.path.join(folder, "libcuda.so.1") for folder in folders if folder]


def find_driver():
    """Path of the driver, or None."""
    return next((os.path.realpath(path) for path in usual_drivers() if os.path.exists(path)), None)


def _driver_facts(path):
    library = ctypes.CDLL(path)
    version, count, device, total, name = c_int(), c_int(), c_int(), c_size_t(), (c_char * 256)()
    status = library.cuInit(0)
    if status != 0:
        return {"cuInit": status}
    library.cuDriverGetVersion(byref(version))
    library.cuDeviceGetCount(byref(count))
    library.cuDeviceGet(byref(device), 0)
    library.cuDeviceGetName(name, c_int(256), device)
    library.cuDeviceTotalMem_v2(byref(total), device)
    attributes = {"multiprocessors": 16, "compute_major": 75, "compute_minor": 76, "integrated": 18, "managed_memory": 83,
                  "concurrent_managed_access": 89, "virtual_memory": 102, "host_numa_virtual_memory": 141}
    facts = {"cuda": version.value, "devices": count.value, "name": name.value.decode(), "memory_bytes": total.value}
    for word, attribute in attributes.items():
        value = c_int()
        facts[word] = value.value if library.cuDeviceGetAttribute(byref(value), c_int(attribute), device) == 0 else None
    return facts


def _smi():
    fields = "name,driver_version,persistence_mode,pcie.link.gen.max,pcie.link.width.max,clocks.max.sm,clocks.max.mem"
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader"], capture_output=True, text=True, timeout=60)
        return done.stdout.strip() or done.stderr.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


def facts(driver):
    found = {"kernel": platform.release(), "python": platform.python_version(), "cores": os.cpu_count(), "driver_path": driver}
    try:
        found["libc"] = " ".join(platform.libc_ver())
        found["host_memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        found["load"] = os.getloadavg()
        found["nvidia_smi"] = _smi()
        version = pathlib.Path("/proc/driver/nvidia/version")
        found["kernel_module"] = version.read_text().splitlines()[0] if version.exists() else None
        found["driver"] = _driver_facts(driver) if driver else None
    except Exception as error:  # a report without this is better than none
        found["error"] = repr(error)
    return found


if __name__ == "__main__":
    import json
    import sys
    found = facts(sys.argv[1] if len(sys.argv) > 1 else find_driver())
    print(json.dumps(found))
    if found.get("driver") is None or "cuInit" in found["driver"]:
        sys.exit(f"no driver could be asked: {found.get('error') or found['driver']}")
