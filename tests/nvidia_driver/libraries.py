"""Where the libraries of these tests are, what they export, and what one of them answers in a process of its own."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

PREFIX = pathlib.Path(os.environ["LAMBENT_PREFIX"])
ROOT = pathlib.Path(os.environ.get("NVIDIA_DRIVER", PREFIX.parent / "nvidia-driver"))
FOLDER = ROOT / "usr/lib/x86_64-linux-gnu/nvidia/current"
DRIVER, NVML = FOLDER / "libcuda.so.1", FOLDER / "libnvidia-ml.so.1"
SMI = ROOT / "usr/lib/nvidia/current/nvidia-smi"
SHIM, SHIM_NVML = PREFIX / "lib/shim/liblambent_shim.so", PREFIX / "lib/shim/liblambent_shim_nvml.so"
EMULATED = PREFIX / "lib/emulated/libcuda.so.1"
SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
HERE = pathlib.Path(__file__).resolve().parent


WITH_GPU = (any(re.fullmatch(r"nvidia\d+", path.name) for path in pathlib.Path("/dev").iterdir()) or
            os.path.exists("/sys/module/nvidia/version"))


def need_driver():
    if WITH_GPU:
        raise unittest.SkipTest("this machine has a GPU of NVIDIA's, with another version of the library")
    if not DRIVER.exists():
        raise unittest.SkipTest(f"NVIDIA's driver library is not in {FOLDER}: tools/fetch_nvidia_driver.py {ROOT} fetches it")


def exports_of(library, kinds="T"):
    """{name: offset} of what the library exports: functions, or with kinds="BD" variables."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in out.splitlines())
    return {row[2].split("@")[0]: int(row[0], 16) for row in rows if row[1] in kinds}


def names_by_offset(library):
    """{offset: names}: several names can be one function."""
    names = {}
    for name, offset in exports_of(library).items():
        names.setdefault(offset, set()).add(name)
    return names


def environment_of(kind, folder):
    """Of a process in which libcuda.so.1 is NVIDIA's ("bare"), that with the shims before it ("shim"), or the emulated one."""
    environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    if kind == "emulated":
        return {**environment, "LD_LIBRARY_PATH": str(EMULATED.parent), "EMULATED_CUDA_NODE": f"{folder}/node", "EMULATED_CUDA_CONFIG": "tiny"}
    environment["LD_LIBRARY_PATH"] = str(FOLDER)
    if kind == "shim":
        environment |= {"LD_PRELOAD": f"{SHIM}:{SHIM_NVML}", "LAMBENT_SHIM_DRIVER": str(DRIVER), "LAMBENT_SHIM_NVML": str(NVML),
                        "LAMBENT_SHIM_LOG": f"{folder}/shim.log"}
    return environment


def ask(kind, folder, question, **told):
    """What ask_driver.py prints."""
    done = subprocess.run([sys.executable, "-B", str(HERE / "ask_driver.py"), question], input=json.dumps(told), text=True, capture_output=True,
                          env=environment_of(kind, folder), timeout=120)
    if done.returncode:
        raise AssertionError(f"{question} in front of {kind}: {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)
