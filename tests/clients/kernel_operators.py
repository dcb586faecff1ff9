"""Which operators of ONNX become kernels that compute what ONNX's own tests of nodes expect: runs those tests through lambent.onnx
and the host images of its kernels, and writes the list of docs/reference/model-operators.md.

    LAMBENT_PREFIX=build/release .venv/bin/python tests/clients/kernel_operators.py [--each 8] [--only Add,Conv] [--write PAGE]

A request brings tensors of fixed shapes. Inputs that say shapes, axes and the like are therefore constants in these tests, as they are
in models.
"""
import argparse
import collections
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = pathlib.Path(os.environ.get("LAMBENT_PREFIX", ROOT / "build/release"))
sys.path.insert(0, str(ROOT / "python"))
from lambent.onnx import ModelError, NotCovered, lower, model as models  # noqa: E402

BATCH = 24  # cases that are compiled together
EACH = 8    # tests of each operator on the page


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32)]


class LaunchFacts(ctypes.Structure):
    _fields_ = [("grid", Dim3), ("block", Dim3), ("shared", ctypes.c_uint32), ("wait", ctypes.c_void_p),
                ("barrier", ctypes.c_void_p), ("fail", ctypes.c_void_p)]


class KernelFacts(ctypes.Structure):
    """struct emulated_kernel (src/gpu/cuda_abi/emulated_kernel.h)."""
    _fields_ = [("abi", ctypes.c_uint32), ("count", ctypes.c_uint32), ("sizes", ctypes.c_void_p), ("alignments", ctypes.c_void_p),
                ("shared", ctypes.c_uint32), ("threads", ctypes.c_uint32), ("registers", ctypes.c_uint32),
                ("run_block", ctypes.CFUNCTYPE(None, ctypes.POINTER(LaunchFacts), Dim3, ctypes.POINTER(ctypes.c_void_p))),
                ("duration", ctypes.c_void_p)]


def run(program, library, values, prefix=""):
    """The outputs of a lowered model on the CPU, by the host image of its kernels."""
    memory = [np.ascontiguousarray(facts.value) if facts.value is not None else np.zeros(facts.shape, facts.dtype)
              for facts in program.tensors]
    for tensor, value in zip(program.inputs, values):
        memory[tensor.number] = np.ascontiguousarray(value)
    for launch in program.launches:
        kernel = KernelFacts.in_dll(library, f"emulated_kernel_{prefix}{launch.kernel}")
        held = [ctypes.c_void_p(memory[each.number].ctypes.data) if isinstance(each, lower.Tensor)
                else np.ctypeslib.as_ctypes_type(each[0])(each[1]) for each in launch.arguments]
        pointers = (ctypes.c_void_p * (len(held) + 1))(*[ctypes.addressof(each) for each in held])
        facts = LaunchFacts(Dim3(*launch.grid), Dim3(*launch.block), launch.shared_bytes)
        for z in range(launch.grid[2]):
            for y in range(launch.grid[1]):
                for x in range(launch.grid[0]):
                    kernel.run_block(ctypes.byref(facts), Dim3(x, y, z), pointers)
    return [memory[each.number].reshape(shape) for each, shape in zip(program.outputs, program.output_shapes)]


def compiled(source, folder):
    """The host image of a source."""
    path = pathlib.Path(folder) / "kernels.cu"
    path.write_text(source)
    done = subprocess.run([PREFIX / "bin/lambent-bundle", "build", path, "-o", pathlib.Path(folder) / "bundle", "--host-only"],
                          capture_output=True, text=True)
    if done.returncode:
        raise ModelError("it does not compile: %s" % next((line.partition("error: ")[2] for line in done.stderr.splitlines() if "error: " in line), "?"))
    return ctypes.CDLL(str(pathlib.Path(folder) / "bundle/host-x86_64.so"))


# Whose small inputs are values, and no shapes.
WITH_VALUES = {"Gather", "GatherElements", "GatherND", "TensorScatter", "MaxUnpool", "OneHot", "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Equal", "Less"}
# Whose other inputs say shapes, bounds or a datatype, whatever their own datatype.
WITH_SETTINGS = {"Resize", "Upsample", "Clip", "Pad", "CastLike"}


def with_constants(case):
    """The model and its inputs, with what says shapes, axes and bounds as constants."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = min(model.ir_version, 10)
    operator = case.model.graph.node[0].op_type
    values, expected = case.data_sets[0]
    kept = []
    for index, (info, value) in enumerate(zip(list(model.graph.input), values)):
        if isinstance(value, TensorProto):
            value = numpy_helper.to_array(value)
        if not isinstance(value, (np.ndarray, np.generic)):
            raise NotCovered("sequences and optional values")
        value = np.asarray(value)
        is_whole = value.dtype in (np.int64, np.int32) and value.ndim <= 1 and operator not in WITH_VALUES
        is_size = (operator, index) in (("OneHot", 1), ("MaxUnpool", 2), ("Compress", 1))
        if index and (is_whole or is_size or operator in WITH_SETTINGS):
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
            model.graph.input.remove(info)
        else:
            kept.append(value)
    if not kept:
        raise NotCovered("a model without inputs")
    return model, kept, [numpy_helper.to_array(each) if isinstance(each, TensorProto) else
                         np.asarray(each) if isinstance(each, np.generic) else each for each in expected]


def lowered(case):
    model, values, expected = with_constants(case)
    for info in model.graph.input:
        if info.type.tensor_type.elem_type not in models.DATATYPES:
            raise NotCovered("the datatype %s" % TensorProto.DataType.Name(info.type.tensor_type.elem_type))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        return lower.lower(models.load(path, {}, 1)), values, expected


def compare(outputs, expected, case):
    for made, wanted in zip(outputs, expected):
        if not isinstance(wanted, np.ndarray):
            raise AssertionError("a sequence is expected")
        if made.shape != wanted.shape:
            raise AssertionError("its shape is %s, not %s" % (made.shape, wanted.shape))
        if wanted.dtype == np.float16:
            np.testing.assert_allclose(made.astype(np.float32), wanted.astype(np.float32), rtol=1e-2, atol=1e-3)
        else:
            np.testing.assert_allclose(made, wanted, rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-5))


def run_batch(batch, results):
    """Each (case, program, values, expected), compiled together; alone, if that does not compile."""
    head, bodies = "", []
    for number, (_, program, _, _) in enumerate(batch):
        source = program.source
        begin = source.index("extern") if "extern" in source else len(source)
        head = max(head, source[:begin], key=len)
        body = source[begin:]
        for kernel in sorted(program.kernels, key=len, reverse=True):
            body = body.replace(" %s(" % kernel, " c%d_%s(" % (number, kernel)).replace("(%s)" % kernel, "(c%d_%s)" % (number, kernel))
        bodies.append(body)
    with tempfile.TemporaryDirectory() as folder:
        try:
            library = compiled(head + "\n".join(bodies), folder) if any(bodies) else None
        except ModelError as error:
            if len(batch) == 1:
                results[batch[0][0].name] = str(error)
                return
            for each in batch:
                run_batch([each], results)
            return
        for number, (case, program, values, expected) in enumerate(batch):
            try:
                compare(run(program, library, values, "c%d_" % number), expected, case)
                results[case.name] = ""
            except (AssertionError, TypeError) as error:
                results[case.name] = "other numbers: %s" % models.first_line(error)


def node_cases(each, only):
    """Of every operator the first `each` tests of ONNX."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests
        cases = load_model_tests(kind="node")
    chosen = collections.defaultdict(list)
    for case in cases:
        graph = case.model.graph
        operator = graph.node[0].op_type
        is_plain = len(graph.node) == 1 and graph.node[0].domain in ("", "ai.onnx") and not case.name.endswith("_expanded")
        if is_plain and (not only or operator in only) and len(chosen[operator]) < each:
            chosen[operator].append(case)
    return chosen


def check(chosen, say=print):
    """{operator: {test: what went wrong, or nothing}}"""
    results, waiting = {}, []
    for operator, cases in sorted(chosen.items()):
        for case in cases:
            try:
                waiting.append((case, *lowered(case)))
            except (ModelError, OSError) as error:
                results[case.name] = "refused: %s" % models.first_line(error)
            except Exception as error:
                results[case.name] = "broke: %s" % models.first_line(error)
            if len(waiting) == BATCH:
                run_batch(waiting, results)
                waiting = []
        say(operator, flush=True)
    if waiting:
        run_batch(waiting, results)
    return {operator: {case.name: results[case.name] for case in cases} for operator, cases in sorted(chosen.items())}


def page(results):
    """docs/reference/model-operators.md."""
    passed = {op: [name for name, said in each.items() if not said] for op, each in results.items()}
    good = [op for op in results if passed[op] and len(passed[op]) == len(results[op])]
    part = [op for op in results if passed[op] and len(passed[op]) < len(results[op])]
    none = [op for op in results if not passed[op]]
    lines = ["# Operators of models that kernels serve", "",
             "Which operators of ONNX become kernels (`engine = \"kernels\"`, [models](../guides/model-kernels.md)), by ONNX's own tests of "
             "nodes. Their kernels ran on the CPU, as the emulated GPU runs them. `tests/clients/kernel_operators.py` writes this page.",
             "", "Of %d operators, all tried tests of %d pass, some of %d, none of %d. Inputs that say shapes or axes are constants in these "
             "tests." % (len(results), len(good), len(part), len(none)), "",
             "## All tests pass", ""]
    letters = sorted({op[0] for op in good})
    lines += ["- %s" % ", ".join(op for op in good if op[0] == letter) for letter in letters]
    lines += ["", "## Some pass", "", "| operator | pass | of | a test that does not, and why |",
             "|---|---|---|---|"]
    def why(op):
        name, said = next((name, said) for name, said in results[op].items() if said)
        words = said.replace("|", "/").replace("<", "(").replace(">", ")").replace("`", "'")
        return "%s: %s" % (name, words[:100])
    lines += ["| %s | %d | %d | %s |" % (op, len(passed[op]), len(results[op]), why(op)) for op in part]
    lines += ["", "## None pass", "", "| operator | tests | why |", "|---|---|---|"]
    lines += ["| %s | %d | %s |" % (op, len(results[op]), why(op)) for op in none]
    return "\n".join(lines) + "\n"


def listed(text):
    """Of the page: the operators below each heading."""
    found = {}
    for part in text.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        words = re.findall(r"^- (.*)$", body, re.M) or re.findall(r"^\| (\w+) \| \d", body, re.M)
        found[heading] = {name for line in words for name in line.split(", ")}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=EACH, help="tests of each operator")
    parser.add_argument("--only", default="", help="operators, with commas")
    parser.add_argument("--write", help="the page")
    arguments = parser.parse_args()
    results = check(node_cases(arguments.each, set(filter(None, arguments.only.split(",")))))
    for name, said in [each for tests in results.values() for each in tests.items()]:
        if said and not said.startswith("refused"):
            print(name, said, file=sys.stderr)
    text = page(results)
    if arguments.write:
        pathlib.Path(arguments.write).write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
