"""Triton with explicit loading, as nvidia-pytriton brings its server: each model in the Python backend, by onnxruntime with one thread. Triton's
own ONNX backend is in no package of PyPI. Used by models_worker.py."""
import collections
import pathlib
import shutil
import subprocess
import threading
import time
import urllib.request

import process_tree
from models_explicit import ExplicitLoader
from peers import environment_of, free_port

MODEL = '''"""The ONNX file beside it, by onnxruntime."""
import pathlib

import onnxruntime
import triton_python_backend_utils as backend


class TritonPythonModel:
    def initialize(self, arguments):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(pathlib.Path(__file__).with_name("model.onnx")), options)

    def execute(self, requests):
        inputs = [backend.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [backend.InferenceResponse([backend.Tensor("y", self.session.run(None, {"x": x})[0])]) for x in inputs]
'''
CONFIGURATION = '''backend: "python"
max_batch_size: 0
input [{name: "x" data_type: TYPE_FP32 dims: [-1, 1]}]
output [{name: "y" data_type: TYPE_FP32 dims: [-1, 1]}]
instance_group [{kind: KIND_CPU count: 1}]
'''
STARTS_WITHIN_S, LOADS_WITHIN_S = 60, 60


class Triton:
    """The server over a repository of models {name: bytes of ONNX}; nothing is loaded at its start. folder: for its files."""

    def __init__(self, folder, models):
        self.folder, self.process = pathlib.Path(folder), None
        python = environment_of("triton")
        facts = subprocess.check_output([python, "-c", "import pytriton, sys, sysconfig; print(pytriton.__path__[0], sysconfig.get_config_var('LIBDIR'), "
                                         "'%d.%d' % sys.version_info[:2], sep='\\n')"], text=True).split()
        package, self.bin, library, version = pathlib.Path(facts[0]), python.parent, facts[1], facts[2]
        self.server = package / "tritonserver"
        self.libraries = f"{library}:{package.parent / 'nvidia_pytriton.libs'}"
        shutil.copytree(self.server / "backends/python", self.folder / "backends/python")
        for file in (self.server / "python_backend_stubs" / version).iterdir():
            shutil.copy(file, self.folder / "backends/python")
        for name, onnx in models.items():
            (self.folder / "models" / name / "1").mkdir(parents=True)
            (self.folder / "models" / name / "config.pbtxt").write_text(CONFIGURATION)
            (self.folder / "models" / name / "1/model.py").write_text(MODEL)
            (self.folder / "models" / name / "1/model.onnx").write_bytes(onnx)

    def start(self):
        port = free_port()
        self.endpoint, self.counts, self.lock = f"http://127.0.0.1:{port}", collections.Counter(), threading.Lock()
        with open(self.folder / "log", "wb") as log:
            self.process = process_tree.start(
                [str(self.server / "bin/tritonserver"), f"--model-repository={self.folder / 'models'}", f"--backend-directory={self.folder / 'backends'}",
                 "--model-control-mode=explicit", "--http-address=127.0.0.1", f"--http-port={port}", "--allow-grpc=false", "--allow-metrics=false"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": f"{self.bin}:/usr/bin:/bin", "LD_LIBRARY_PATH": self.libraries})
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                words = (self.folder / "log").read_text(errors="replace")[-500:]
                self.stop()
                raise SystemExit(f"Triton did not start: {words}")
            time.sleep(0.1)
        self.own_mib = process_tree.pss_mb(self.process.pid)

    def _is_ready(self):
        try:
            with urllib.request.urlopen(self.endpoint + "/v2/health/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def control(self, name, verb):
        """load or unload. What was wrong; None: it was done."""
        try:
            request = urllib.request.Request(f"{self.endpoint}/v2/repository/models/{name}/{verb}", b"{}", {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=LOADS_WITHIN_S) as answer:
                answer.read()
        except OSError as error:
            return str(error)
        if verb == "load":
            with self.lock:
                self.counts[name] += 1
        return None

    def loads(self):
        with self.lock:
            return self.counts.copy()

    def held_mib(self):
        """Of the processes that hold models, without the server's own."""
        return process_tree.pss_mb(self.process.pid) - self.own_mib

    def measure(self, one_of):
        """The bytes that a model of each size holds once it is loaded; one_of: {size: name}."""
        holds = {}
        for size, name in one_of.items():
            before, processes = process_tree.pss_mb(self.process.pid), len(process_tree.descendants(self.process.pid))
            if wrong := self.control(name, "load"):
                raise SystemExit(f"Triton does not load {name}: {wrong}")
            holds[size] = int((process_tree.pss_mb(self.process.pid) - before) * 2**20)
            self.control(name, "unload")
            # Its process ends a while after the answer.
            deadline = time.monotonic() + LOADS_WITHIN_S
            while len(process_tree.descendants(self.process.pid)) > processes:
                if time.monotonic() > deadline:
                    raise SystemExit(f"Triton does not end the process of {name}")
                time.sleep(0.1)
        return holds

    def loader(self, holds, room):
        return ExplicitLoader(holds, room, lambda name: self.control(name, "load"), lambda name: self.control(name, "unload"))

    def stop(self):
        if self.process:
            process_tree.end(self.process)
            self.process = None
