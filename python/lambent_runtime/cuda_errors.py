"""What an error of CUDA means in a sandbox, where its words do not say so: the function has no GPU, or the GPU is emulated, on which NVIDIA's
own runtime does not run."""
import os
import re

_WITHOUT_GPU = re.compile("found no NVIDIA driver|no CUDA GPUs are available|no CUDA-capable device", re.IGNORECASE)
_RUNTIME = re.compile(r"\S*/libcudart[-.\w]*\.so[.\d]*$|\S*/libtorch_cuda\.so$")


def explained(message):
    """A message that has CUDA or NVIDIA in it, with the reason and a way out where there is one to tell."""
    if "EMULATED_CUDA_NODE" in os.environ:
        return _explained_emulated(message)
    # Of a sandbox with a GPU the worker sets it.
    if "CUDA_VISIBLE_DEVICES" in os.environ or not _WITHOUT_GPU.search(message):
        return message
    return ('%s (this sandbox has no GPU; a function gets one by gpu="8G" in its app, or by [gpu] and memory = "8G" in its lambent.toml)'
            % message)


def _explained_emulated(message):
    """If this process has NVIDIA's runtime loaded."""
    runtime = _loaded_runtime()
    if not runtime:
        return message
    return ("%s (the GPU is emulated, and this process uses NVIDIA's CUDA runtime, %s, which does not run on it: use the CPU, or a worker "
            "with an NVIDIA GPU, lambent serve --gpu nvidia)" % (message, runtime))


def _loaded_runtime():
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/lib" in line}
    except (OSError, UnicodeDecodeError):
        return ""
    # The emulated runtime has the same name, and lies in a folder of its own.
    return next((path for path in sorted(paths) if _RUNTIME.match(path) and "/emulated_runtime/" not in path), "")
