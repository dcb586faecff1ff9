"""The variants for a default stream of each thread follow from the table alone."""
import unittest

from generate_stream_variants import read_names, read_table, variants

TABLE = """// DRIVER_FUNCTION(name, symbol, (parameters))
DRIVER_FUNCTION(init, cuInit, (unsigned int))
DRIVER_FUNCTION(copy, cuMemcpyHtoD_v2, (CUdeviceptr, const void*, size_t))
DRIVER_FUNCTION(copy_async, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void*, size_t, CUstream))
DRIVER_FUNCTION(rows, cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D*))
DRIVER_FUNCTION(rows_async, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D*, CUstream))
DRIVER_FUNCTION(fill, cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))
DRIVER_FUNCTION(fill_async, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))
DRIVER_FUNCTION(between, cuMemcpyAtoA_v2, (CUarray, CUarray))
DRIVER_FUNCTION(attributes, cuStreamCopyAttributes, (CUstream, CUstream))
DRIVER_FUNCTION(launch, cuLaunchKernelEx, (const CUlaunchConfig*, CUfunction))
RUNTIME_FUNCTION(cudaMemcpy, (void*, const void*))
RUNTIME_FUNCTION(cudaMemcpyAsync, (void*, const void*, cudaStream_t))
"""


def body_of(variant, by_hand=()):
    definitions = variants(read_table(TABLE), [variant], by_hand)
    return definitions[0].split("{\n")[1][:-2].split() if definitions else None


class StreamVariants(unittest.TestCase):
    def test_every_argument_that_holds_a_stream_means_the_threads_own(self):
        self.assertEqual(body_of("cuStreamCopyAttributes_ptsz"),
                         "return cuStreamCopyAttributes(own_stream(a0), own_stream(a1));".split())
        self.assertEqual(body_of("cuLaunchKernelEx_ptsz"), "return cuLaunchKernelEx(own_stream(a0), a1);".split())

    def test_a_copy_without_a_stream_is_the_asynchronous_one_and_waits_for_it(self):
        self.assertEqual(body_of("cuMemcpyHtoD_v2_ptds"), (
            "const auto submitted = cuMemcpyHtoDAsync_v2(a0, a1, a2, CU_STREAM_PER_THREAD); "
            "return submitted ? submitted : cuStreamSynchronize(CU_STREAM_PER_THREAD);").split())
        self.assertIn("cuMemcpy2DAsync_v2(a0,", body_of("cuMemcpy2DUnaligned_v2_ptds"))
        self.assertIn("cudaStreamSynchronize(CU_STREAM_PER_THREAD);", body_of("cudaMemcpy_ptds"))

    def test_a_fill_does_not_wait(self):
        self.assertEqual(body_of("cuMemsetD8_v2_ptds"),
                         "return cuMemsetD8Async(a0, a1, a2, CU_STREAM_PER_THREAD);".split())

    def test_what_has_no_asynchronous_form_is_the_function_itself(self):
        self.assertEqual(body_of("cuMemcpyAtoA_v2_ptds"), "return cuMemcpyAtoA_v2(a0, a1);".split())

    def test_a_definition_has_the_types_of_the_table(self):
        definition = variants(read_table(TABLE), ["cuMemcpyHtoD_v2_ptds"], [])[0]
        self.assertTrue(definition.startswith(
            "EXPORTED CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr a0, const void* a1, size_t a2) {"), definition)
        self.assertTrue(variants(read_table(TABLE), ["cudaMemcpy_ptds"], [])[0].startswith("EXPORTED cudaError_t "))

    def test_what_is_written_by_hand_or_not_in_the_table_is_left_out(self):
        self.assertIsNone(body_of("cuMemcpyHtoD_v2_ptds", ["cuMemcpy*_ptds"]))
        self.assertIsNotNone(body_of("cuMemsetD8_v2_ptds", ["cuMemcpy*_ptds"]))
        self.assertIsNone(body_of("cuGraphicsMapResources_ptsz"))

    def test_a_variant_of_a_function_without_a_stream_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "cuInit_ptsz: no argument of cuInit holds a stream"):
            body_of("cuInit_ptsz")

    def test_names_are_those_of_variants_that_the_library_defines(self):
        self.assertEqual(read_names("# a list\ncuInit\ncuMemcpyHtoD_v2_ptds\ncuStreamQuery_ptsz\n"),
                         ["cuMemcpyHtoD_v2_ptds", "cuStreamQuery_ptsz"])
        self.assertEqual(read_names('RUNTIME_SYMBOL(cudaMemcpy_ptds, done, "")\nRUNTIME_SYMBOL(cudaMemcpy, done, "")\n'
                                    'RUNTIME_SYMBOL(cudaSignal_ptsz, refused, "no semaphores")\n'), ["cudaMemcpy_ptds"])


if __name__ == "__main__":
    unittest.main()
