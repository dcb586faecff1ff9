"""The builder of kernel functions: python3 -m unittest."""
import array
import ctypes
import json
import os
import struct
import sys
import tempfile
import tomllib
import unittest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, PYTHON)
from lambent import kernels  # noqa: E402
from lambent.kernels import GraphError, blas, float32, int32, read, read_write, write  # noqa: E402


class GraphTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.graph = kernels.Graph("g")
        self.x = self.graph.input("x", "FP32", (4, 4))
        self.y = self.graph.output("y", "FP32", (4, 4))
        self.bundle = self.graph.bundle(self.make_bundle("math", {"copy": [8, 8, 4]}))
        self.copy = self.bundle.kernel("copy")

    def make_bundle(self, name, parameters):
        path = os.path.join(self.folder, name)
        os.makedirs(path)
        with open(os.path.join(path, "manifest.json"), "w", encoding="utf-8") as file:
            json.dump({"kernels": [{"name": kernel, "parameters": sizes}
                                   for kernel, sizes in parameters.items()]}, file)
        return path

    def launch(self, **changes):
        call = {"grid": 1, "block": 16, "arguments": [self.x, self.y, int32(16)]}
        self.copy(**dict(call, **changes))

    def refused(self, message):
        return self.assertRaisesRegex(GraphError, "^" + message)


class LaunchTest(GraphTest):
    def test_a_launch_says_what_it_does_to_its_buffers(self):
        self.launch(arguments=[read(self.x, 4), write(self.y), int32(12)], grid=(1, 2), shared_bytes=8)
        self.assertEqual(self.graph.json()["steps"], [
            {"kernel": "copy", "bundle": "bundles/math", "grid": [1, 2], "block": [16],
             "shared_bytes": 8,
             "arguments": [{"buffer": "x", "access": "read", "offset_bytes": 16},
                           {"buffer": "y", "access": "write"},
                           {"literal": 12, "datatype": "INT32"}]}])

    def test_access_follows_from_the_role(self):
        state = self.graph.in_out("state", "FP32", (1,))
        kernel = self.graph.builtin("anything").kernel("k")
        scratch = self.graph.temporary("scratch", "FP32", (1,))
        kernel(grid=1, block=1, arguments=[self.x, self.y, state, scratch])
        accesses = [entry["access"] for entry in self.graph.json()["steps"][0]["arguments"]]
        self.assertEqual(accesses, ["read", "write", "read_write", "read_write"])

    def test_arguments_must_fit_the_compiled_kernel(self):
        with self.refused("kernel 'copy': 2 arguments are given; it takes 3"):
            self.launch(arguments=[self.x, self.y])
        with self.refused("kernel 'copy', argument 2: 8 bytes are given, the kernel's parameter has 4"):
            self.launch(arguments=[self.x, self.y, kernels.int64(1)])
        with self.refused("kernel 'copy', argument 2: 16 is neither a buffer nor a literal; say "
                          "which type it has"):
            self.launch(arguments=[self.x, self.y, 16])
        with self.refused("bundles/math has no kernel 'cpy'; did you mean 'copy'?"):
            self.bundle.kernel("cpy")

    def test_grids_and_blocks_must_be_such_as_devices_take(self):
        with self.refused("kernel 'copy', grid: 65536 is not in 1 to 65535"):
            self.launch(grid=(1, 65536))
        with self.refused("kernel 'copy', block: 0 is not in 1 to 1024"):
            self.launch(block=0)
        with self.refused("kernel 'copy': a block of 2048 threads; at most 1024 are possible"):
            self.launch(block=(64, 32))
        with self.refused("kernel 'copy', grid: one to three numbers"):
            self.launch(grid=())
        with self.refused("kernel 'copy': shared_bytes 232449 is not in 0 to 232448"):
            self.launch(shared_bytes=227 * 1024 + 1)

    def test_inputs_are_never_written_and_nothing_is_read_before_it_is_written(self):
        with self.refused("'x' is of role input, which is never written"):
            write(self.x)
        with self.refused("kernel 'copy', argument 0: 'y' is read, but no launch before"):
            self.launch(arguments=[read(self.y), self.y, int32(1)])
        with self.refused(r"element 16 is not in 'x' of shape \[4, 4\]"):
            read(self.x, 16)

    def test_a_refused_launch_leaves_the_graph_as_it_was(self):
        with self.refused("kernel 'copy', argument 2"):
            self.launch(arguments=[self.x, self.y, 16])
        with self.refused("a graph needs a launch at least"):
            self.graph.json()
        with self.refused("kernel 'copy', argument 0: 'y' is read"):
            self.launch(arguments=[read(self.y), self.y, int32(1)])

    def test_buffers_of_another_graph_are_refused(self):
        other = kernels.Graph("other").input("x", "FP32", (4, 4))
        with self.refused("Buffer.* is no buffer of this graph"):
            self.launch(arguments=[other, self.y, int32(1)])


class BufferTest(GraphTest):
    def test_names_types_and_shapes_are_checked(self):
        with self.refused("there is a buffer 'x' already"):
            self.graph.input("x", "FP32", (1,))
        with self.refused("there is no datatype 'FP23'; did you mean 'FP"):
            self.graph.input("z", "FP23", (1,))
        with self.refused("'z': a shape has whole numbers from 1 up, not 0"):
            self.graph.input("z", "FP32", (0,))
        with self.refused("'' is no name"):
            self.graph.input("", "FP32", (1,))

    def test_constants_come_as_numbers_bytes_arrays_files_and_fills(self):
        path = os.path.join(self.folder, "w")
        with open(path, "wb") as file:
            file.write(b"\1\2\3\4")
        graph = self.graph
        constants = [graph.constant("a", "INT16", (2,), data=[1, -2]),
                     graph.constant("b", "INT16", (2,), data=b"\1\0\2\0"),
                     graph.constant("c", "FP32", (2,), data=array.array("f", [1, 2])),
                     graph.constant("d", "UINT8", (4,), file=path),
                     graph.constant("e", "FP32", (1000, 1000), fill=0.5)]
        graph.builtin("k").kernel("k")(grid=1, block=1, arguments=[self.x, self.y] + constants)
        graph.save(os.path.join(self.folder, "package"))
        entries = {entry["name"]: entry for entry in graph.json()["buffers"]}
        self.assertEqual(entries["e"]["fill"], 0.5)
        contents = []
        for name in "abcd":
            with open(os.path.join(self.folder, "package", entries[name]["file"]), "rb") as file:
                contents.append(file.read())
        self.assertEqual(contents, [b"\1\0\xfe\xff", b"\1\0\2\0", struct.pack("<2f", 1, 2), b"\1\2\3\4"])

    def test_constants_have_the_size_of_their_tensor(self):
        with self.refused(r"data has 4 bytes, 'w' of FP32 \[2\] has 8"):
            self.graph.constant("w", "FP32", (2,), data=[1])
        with self.refused("300 is out of range of UINT8"):
            self.graph.constant("w", "UINT8", (1,), data=[300])
        with self.refused("constant 'w': one of data, file and fill is expected"):
            self.graph.constant("w", "FP32", (2,))
        with self.refused("BF16 has no numbers of Python; give bytes"):
            self.graph.constant("w", "BF16", (2,), data=[1, 2])

    def test_arrays_are_of_the_datatype_or_bytes(self):
        for datatype, letter in (("INT32", "i"), ("UINT64", "Q"), ("INT64", "l"), ("UINT64", "L"), ("FP64", "d"),
                                 ("INT8", "b"), ("BYTES", "b"), ("UINT8", "B")):
            numbers = array.array(letter, [1, 2])
            shape = (2 * numbers.itemsize // kernels.literals.size_of(datatype),)
            self.graph.constant(datatype + letter, datatype, shape, data=numbers)
        self.graph.constant("raw", "FP32", (2,), data=array.array("B", bytes(8)))
        self.graph.constant("little", "FP32", (2,), data=(ctypes.c_float.__ctype_le__ * 2)(1, 2))
        with self.refused("constant 'w': data of format 'i' is given, 'w' is FP32"):
            self.graph.constant("w", "FP32", (2,), data=array.array("i", [1, 2]))
        with self.refused("constant 'w': data of format 'f' is given, 'w' is UINT32"):
            self.graph.constant("w", "UINT32", (2,), data=array.array("f", [1, 2]))
        with self.refused("constant 'w': data of format 'H' is given, 'w' is FP16"):
            self.graph.constant("w", "FP16", (2,), data=array.array("H", [1, 2]))
        with self.refused("constant 'w': data of format '>f' is given, 'w' is FP32"):
            self.graph.constant("w", "FP32", (2,), data=(ctypes.c_float.__ctype_be__ * 2)(1, 2))
        self.assertNotIn("w", self.graph.buffers)

    def test_buffers_are_used_and_outputs_written(self):
        self.graph.builtin("k").kernel("k")(grid=1, block=1, arguments=[self.x])
        with self.refused("no launch writes the output 'y'"):
            self.graph.json()
        self.launch()
        self.graph.temporary("spare", "FP32", (1,))
        with self.refused("no launch uses 'spare'"):
            self.graph.json()


class RepeatTest(GraphTest):
    def test_a_block_is_repeated_and_may_end_at_a_flag(self):
        flag = self.graph.temporary("flag", "INT32", (1,))
        with self.graph.repeat(10):
            with self.graph.repeat(5, until=flag):
                self.launch(arguments=[self.x, flag, int32(1)])
        self.launch()
        steps = self.graph.json()["steps"]
        self.assertEqual(steps[0]["repeat"], 10)
        self.assertEqual(steps[0]["steps"][0]["until"], "flag")
        self.assertEqual(steps[0]["steps"][0]["steps"][0]["kernel"], "copy")
        self.assertEqual(steps[1]["kernel"], "copy")

    def test_mistakes_of_a_block_are_raised_where_it_ends(self):
        flag = self.graph.temporary("flag", "INT32", (1,))
        with self.refused("nothing is repeated"):
            with self.graph.repeat(10):
                pass
        with self.refused("no launch in this block writes the flag 'flag'"):
            with self.graph.repeat(10, until=flag):
                self.launch(arguments=[read(flag), self.y, int32(1)])

    def test_flags_and_counts_are_checked(self):
        with self.refused("'x' is of role input; a flag is written"):
            with self.graph.repeat(10, until=self.x):
                self.launch()
        small = self.graph.temporary("small", "INT8", (3,))
        with self.refused("'small' has 3 bytes; a flag has at least 4"):
            with self.graph.repeat(10, until=small):
                self.launch()
        with self.refused("repeat: 0 is not in 1 to 1000000000"):
            with self.graph.repeat(0):
                self.launch()

    def test_variants_are_for_requests_of_some_elements(self):
        for batch in (1, 4):
            with self.graph.variant(batch):
                self.launch()
        self.graph.batches(wait_ms=1.5)
        root = self.graph.json()
        self.assertEqual([step["batch"] for step in root["steps"]], [1, 4])
        self.assertEqual([len(step["steps"]) for step in root["steps"]], [1, 1])
        self.assertEqual(root["batches"], {"wait_us": 1500, "slo_us": 0})
        self.graph.save(os.path.join(self.folder, "package"))
        with open(os.path.join(self.folder, "package/graph.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), root)

    def test_mistakes_of_variants_are_raised_where_they_are(self):
        with self.refused("batches are for graphs with variants"):
            self.launch()
            self.graph.batches()
            self.graph.json()
        for batch, words in ((0, "variant: 0 is not in 1 to 65536"), (2, "variant 2: variants stand in the order")):
            with self.refused(words), self.graph.variant(batch):
                self.launch()
        other = kernels.Graph("other")
        x, y, t = other.input("x", "FP32", (2, 4)), other.output("y", "FP32", (2, 4)), other.temporary("t", "FP32", (1, 4))
        copy = other.bundle(os.path.join(self.folder, "math")).kernel("copy")
        with self.refused("variant 1: no launch stands in this block"), other.variant(1):
            pass
        with self.refused("variant 2: no launch writes the output 'y'"), other.variant(2):
            copy(1, 1, [x, t, int32(1)])
        with self.refused("kernel 'copy', argument 0: 't' is read, but no launch before"), other.variant(3):
            copy(1, 1, [read(t), y, int32(1)])
        with other.variant(4):
            copy(1, 1, [x, y, int32(1)])
            copy(1, 1, [y, t, int32(1)])
        with self.refused("'x' of shape .*: its first dimension is that of the largest variant, 4"):
            other.json()

    def test_blocks_lie_in_each_other_only_so_deep(self):
        def nest(depth):
            with self.graph.repeat(1):
                self.launch() if depth == 1 else nest(depth - 1)
        nest(4)
        with self.refused("more than 4 repeats lie in each other"):
            nest(5)


class LiteralTest(GraphTest):
    def test_literals_have_the_bytes_that_the_kernel_expects(self):
        self.assertEqual(kernels.uint8(255).data, b"\xff")
        self.assertEqual(kernels.int64(-1).data, b"\xff" * 8)
        self.assertEqual(float32(1.5).json(), {"literal": 1.5, "datatype": "FP32"})
        self.assertEqual(kernels.float64(float("-inf")).json()["literal"], "-Infinity")
        self.assertEqual(kernels.bool8(True).json(), {"literal": True, "datatype": "BOOL"})
        self.assertEqual(kernels.complex64(1 - 2j).json()["literal"], [1, -2])
        self.assertEqual(int32(1, 2, 3).json()["literal"], [1, 2, 3])
        self.assertEqual(kernels.raw(b"ab").json(), {"literal": {"base64": "YWI="}, "datatype": "BYTES"})
        self.assertEqual(float32(-0.0).json()["literal"], {"base64": "AAAAgA=="})

    def test_numbers_that_do_not_fit_are_refused(self):
        for make, number, message in ((kernels.uint8, 256, "256 is out of range of UINT8"),
                                      (kernels.uint32, -1, "-1 is out of range of UINT32"),
                                      (int32, 1.0, "1.0 is no value of INT32"),
                                      (int32, "1", "'1' is no value of INT32"),
                                      (float32, 1e39, r"1e\+39 is out of range of FP32"),
                                      (kernels.bool8, 2, "2 is no value of BOOL")):
            with self.refused(message):
                make(number)


class BlasTest(GraphTest):
    def test_a_product_computes_its_grid_and_its_arguments(self):
        graph = kernels.Graph("g")
        a = graph.input("a", "FP64", (100, 70))
        b = graph.input("b", "FP64", (65, 70))
        c = graph.output("c", "FP64", (100, 65))
        blas.gemm(graph, a, b, c, alpha=2, transpose_b=True)
        step, = graph.json()["steps"]
        self.assertEqual((step["kernel"], step["bundle"]), ("dgemm", "lambent:blas"))
        self.assertEqual((step["grid"], step["block"]), ([2, 2], [16, 16]))
        self.assertEqual([entry["literal"] for entry in step["arguments"][3:]],
                         [100, 65, 70, 70, 70, 65, 0, 1, 2, 0])
        self.assertEqual(step["arguments"][2]["access"], "write")

    def test_complex_matrices_are_pairs_of_floats(self):
        graph = kernels.Graph("g")
        a = graph.input("a", "FP32", (3, 4, 2))
        c = graph.in_out("c", "FP32", (4, 4, 2))
        blas.gemm(graph, a, a, c, conjugate_a=True, beta=1j, complex_numbers=True)
        step, = graph.json()["steps"]
        self.assertEqual(step["kernel"], "cgemm")
        self.assertEqual([entry["literal"] for entry in step["arguments"][3:]],
                         [4, 4, 3, 4, 4, 4, 2, 0, [1, 0], [0, 1]])
        self.assertEqual(step["arguments"][2]["access"], "read_write")

    def test_vectors(self):
        graph = kernels.Graph("g")
        a = graph.input("a", "FP32", (40, 7))
        x = graph.input("x", "FP32", (40, 1))
        y = graph.output("y", "FP32", (7,))
        blas.gemv(graph, a, x, y, transpose_a=True)
        blas.axpy(graph, y, y, alpha=0.5)
        gemv, axpy = graph.json()["steps"]
        self.assertEqual([entry["literal"] for entry in gemv["arguments"][3:]], [40, 7, 7, 1, 1, 0])
        self.assertEqual([entry.get("literal") for entry in axpy["arguments"]], [7, 0.5, None, None])

    def test_shapes_and_types_must_fit(self):
        graph = kernels.Graph("g")
        a = graph.input("a", "FP32", (3, 4))
        d = graph.input("d", "FP64", (4, 4))
        c = graph.output("c", "FP32", (3, 3))
        with self.refused("gemm: 3 x 4 times 3 x 4 is no 3 x 3"):
            blas.gemm(graph, a, a, c)
        with self.refused("blas: Buffer.*; all must be FP32 or all FP64"):
            blas.gemm(graph, a, d, c)
        with self.refused("blas: .* holds no complex numbers"):
            blas.gemm(graph, a, a, c, complex_numbers=True)
        with self.refused("blas: 1j is complex, the matrices are real"):
            blas.gemm(graph, a, a, c, transpose_b=True, alpha=1j)
        with self.refused("blas: .* is no vector"):
            blas.gemv(graph, a, a, c)

    def test_a_product_does_not_overwrite_what_it_reads(self):
        graph = kernels.Graph("g")
        a = graph.in_out("a", "FP32", (3, 3))
        b = graph.input("b", "FP32", (3, 3))
        x = graph.in_out("x", "FP32", (3,))
        with self.refused("blas: Buffer.in_out a .* is the result and an operand of the same product"):
            blas.gemm(graph, b, a, a)
        with self.refused("blas: Buffer.in_out x .* is the result and an operand"):
            blas.gemv(graph, b, x, x, beta=1)
        self.assertEqual(graph.steps, [])

    def test_the_parameters_are_those_of_the_kernels(self):
        build = os.environ.get("LAMBENT_BUILD")
        manifest = os.path.join(build or "", "share", "lambent", "kernels", "blas", "manifest.json")
        if not build or not os.path.exists(manifest):
            self.skipTest("the kernels are not built")
        with open(manifest, encoding="utf-8") as file:
            built = {kernel["name"]: kernel["parameters"] for kernel in json.load(file)["kernels"]}
        self.assertEqual(built, blas._kernels())


class PackageTest(GraphTest):
    def test_a_package_has_the_graph_its_sources_and_a_manifest(self):
        source = os.path.join(self.folder, "step.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.write("// kernels\n")
        self.launch()
        with self.graph.repeat(3):
            self.graph.source(source).kernel("step")(grid=1, block=1, arguments=[read_write(self.y)])
        package = os.path.join(self.folder, "package")
        self.graph.save(package, timeout_s=5, description='say "hi"', launch_mode="model",
                        domain="vision", share=40, memory="64M", tags={"a b": "c"})
        with open(os.path.join(package, "graph.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), self.graph.json())
        with open(os.path.join(package, "lambent.toml"), "rb") as file:
            self.assertEqual(tomllib.load(file), {
                "name": "g", "kind": "kernel", "graph": "graph.json", "timeout_s": 5,
                "description": 'say "hi"', "bundles": ["../math"], "sources": ["step.cu"],
                "gpu": {"launch_mode": "model", "domain": "vision", "share": 40, "memory": "64M"}, "tags": {"a b": "c"}})
        self.assertTrue(os.path.exists(os.path.join(package, "step.cu")))

    def test_a_library_of_ptx_is_a_source_too(self):
        library = os.path.join(self.folder, "library.ptx")
        with open(library, "w", encoding="utf-8") as file:
            file.write("// PTX\n")
        self.launch()
        self.graph.source(library).kernel("_Z5twicePf")(grid=1, block=1, arguments=[read_write(self.y)])
        package = os.path.join(self.folder, "package")
        self.graph.save(package)
        with open(os.path.join(package, "lambent.toml"), "rb") as file:
            self.assertEqual(tomllib.load(file)["sources"], ["library.ptx"])
        self.assertTrue(os.path.exists(os.path.join(package, "library.ptx")))
        with self.refused(".*other.cubin is no .cu or .ptx file"):
            self.graph.source(os.path.join(self.folder, "other.cubin"))

    def test_unknown_settings_are_refused(self):
        self.launch()
        with self.refused("there is no setting 'timeout'; did you mean 'timeout_s'?"):
            self.graph.save(self.folder, timeout=5)

    def test_two_bundles_of_one_name_are_refused(self):
        os.makedirs(os.path.join(self.folder, "other"))
        with self.refused(".*math and .*math would both be bundles/math"):
            self.graph.bundle(self.make_bundle("other/math", {}))


if __name__ == "__main__":
    unittest.main()
