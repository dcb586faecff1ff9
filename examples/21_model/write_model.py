"""Writes model.onnx beside this file: scores = x @ weights, a matrix of 4 x 3. Standard library only."""
import array
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "20_python_packages"))
from make_model import matrix_model  # noqa: E402

WEIGHTS = array.array("f", range(12))

(HERE / "model.onnx").write_bytes(matrix_model(memoryview(WEIGHTS).cast("B").cast("f", shape=[4, 3])))
