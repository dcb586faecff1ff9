"""What an error of CUDA means where the GPU is emulated: NVIDIA's own runtime does not run there, and its words do not say so."""
import re

_RUNTIME = re.compile(r"\S*/libcudart[-.\w]*\.so[.\d]*$|\S*/libtorch_cuda\.so$")


def explained(message):
    """For where the GPU is emulated: the message, with the reason and a way out if it is about CUDA and this process has NVIDIA's runtime loaded."""
    if not re.search("cuda|nvidia", message, re.IGNORECASE):
        return message
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
