"""A worker that serves ONNX models with a real onnxruntime, for the tests of its clients. The environment of the models is built offline,
from a wheel that holds the library of the onnxruntime in .venv."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/20_python_packages"))

from harness import PREFIX, Worker  # noqa: E402
from make_model import field, matrix_model, value_info  # noqa: E402
from python_wheels import record_line  # noqa: E402

LAMBENT = str(PREFIX / "bin/lambent")
UV = ROOT / ".venv/bin/uv"
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)
STRING, FLOAT16, INT64, BOOL, BFLOAT16 = 8, 10, 7, 9, 16
EVERY_TYPE = [("text", STRING, ["n"]), ("half", FLOAT16, ["n", 2]), ("long", INT64, [2]), ("flag", BOOL, ["n"])]
BRAINS = [("brain", BFLOAT16, ["n"])]


def write_library_wheel(folder):
    """A wheel 'onnxruntime' with the library and nothing else, so that it needs no other package and no network."""
    library = next((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
    info = "onnxruntime-1.0.dist-info"
    contents = {"onnxruntime/__init__.py": b"", f"onnxruntime/capi/{library.name}": library.read_bytes(),
                f"{info}/METADATA": b"Metadata-Version: 2.1\nName: onnxruntime\nVersion: 1.0\n",
                f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(record_line(path, content) for path, content in contents.items()) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(pathlib.Path(folder) / "onnxruntime-1.0-py3-none-any.whl", "w") as wheel:
        for path, content in {**contents, f"{info}/RECORD": record.encode()}.items():
            wheel.writestr(path, content)


def typed_info(name, element, shape):
    info = value_info(name, shape)
    # value_info writes FLOAT; the type is the first field of the tensor type.
    return info.replace(field(1, 1), field(1, element), 1) if element != 1 else info


def identity_model(tensors):
    """y_i = x_i for (name, element type, shape) each."""
    nodes = b"".join(field(1, field(1, name) + field(2, "out_" + name) + field(4, "Identity")) for name, _, _ in tensors)
    graph = (nodes + field(2, "identity") + b"".join(field(11, typed_info(*tensor)) for tensor in tensors)
             + b"".join(field(12, typed_info("out_" + name, element, shape)) for name, element, shape in tensors))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 16))


def large_model(folder):
    """y = x @ the weights that it returns, 36 MiB in a file of their own: large.onnx and large.onnx.data."""
    size = 3072
    weights = np.tile(((np.arange(size) % 7) - 3).astype(np.float32), (size, 1))
    external = b"".join(field(13, field(1, key) + field(2, value)) for key, value in (
        ("location", "large.onnx.data"), ("offset", "0"), ("length", str(weights.nbytes))))
    constant = field(1, size) + field(1, size) + field(2, 1) + field(8, "w") + external + field(14, 1)
    graph = (field(1, field(1, "x") + field(1, "w") + field(2, "y") + field(4, "MatMul")) + field(2, "large") + field(5, constant)
             + field(11, value_info("x", ["n", size])) + field(12, value_info("y", ["n", size])))
    (folder / "large.onnx").write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 16)))
    weights.tofile(folder / "large.onnx.data")
    return weights


def lambent(worker, *arguments):
    return subprocess.run([LAMBENT, *map(str, arguments), "--endpoint", worker.endpoint], capture_output=True, text=True, timeout=120)


def deploy_model(worker, path, model):
    """From a file that is written for it; what the command said."""
    path.write_bytes(model)
    deployed = lambent(worker, "deploy", path)
    assert deployed.returncode == 0, deployed.stderr
    return deployed.stdout


@unittest.skipUnless(UV.exists(), "there is no uv in .venv")
class ModelWorkerTest(unittest.TestCase):
    """A test case with one worker and one folder for all of its tests."""

    flags = ()
    gpu = "none"

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-models-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        (cls.folder / "wheels").mkdir()
        write_library_wheel(cls.folder / "wheels")
        cls.worker = Worker("--uv", str(UV), "--python-wheels", str(cls.folder / "wheels"), "--python-offline", *cls.flags, gpu=cls.gpu,
                            folder=cls.folder)
        cls.addClassCleanup(cls.worker.close)
