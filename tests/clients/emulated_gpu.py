"""A node of the emulated GPU for one test, and clients that run on it."""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = pathlib.Path(os.environ["LAMBENT_PREFIX"])
HOST_MODULE = PREFIX / "tests/conformance_kernels/host-x86_64.so"


class EmulatedGpu:
    """Use it with `with`: the node goes when the block ends."""

    def __init__(self, configuration="tiny"):
        self.configuration = configuration

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = dict(os.environ, LD_LIBRARY_PATH=str(PREFIX / "lib/emulated"),
                                EMULATED_CUDA_NODE=os.path.join(self.folder.name, "gpu.node"),
                                EMULATED_CUDA_CONFIG=self.configuration,
                                CUDA_CACHE_PATH=os.path.join(self.folder.name, "cache"))
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def run(self, client, *arguments, shim=None, limit_s=120):
        """With the shims preloaded if `shim` names a memory mode: "off" or "vmm"."""
        under = [] if shim is None else [str(PREFIX / "tests/run_under_shim"), "--mode", shim]
        return subprocess.run([*under, sys.executable, "-B", str(HERE / client), *map(str, arguments)], env=self.environment,
                              capture_output=True, text=True, timeout=limit_s)
