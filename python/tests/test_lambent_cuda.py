"""lambent_cuda without a driver: what its errors say."""
import ctypes
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import lambent_cuda  # noqa: E402


class RefusedLaunch(unittest.TestCase):
    def launch(self, error, **shape):
        def call(name, *arguments):
            raise error

        device = types.SimpleNamespace(driver=types.SimpleNamespace(call=call))
        kernel = lambent_cuda.Kernel(device, ctypes.c_void_p(), {"name": "scale", "parameters": [4]})
        with self.assertRaises(lambent_cuda.CudaError) as caught:
            kernel(args=[lambent_cuda.uint32(1)], **shape)
        return caught.exception

    def test_it_names_the_kernel_and_its_shape(self):
        refused = self.launch(lambent_cuda.CudaError(1, "CUDA_ERROR_INVALID_VALUE", "cuLaunchKernel"), grid=3, block=(4096, 2))
        self.assertEqual(str(refused), "cuLaunchKernel failed: CUDA_ERROR_INVALID_VALUE (1): kernel 'scale', grid (3, 1, 1), "
                                       "block (4096, 2, 1), 0 bytes of shared memory")
        self.assertEqual((refused.code, refused.name), (1, "CUDA_ERROR_INVALID_VALUE"))

    def test_its_class_stays(self):
        refused = self.launch(lambent_cuda.OutOfMemory(2, "CUDA_ERROR_OUT_OF_MEMORY", "cuLaunchKernel"), grid=1, block=1, shared_bytes=9)
        self.assertIs(type(refused), lambent_cuda.OutOfMemory)
        self.assertIn("9 bytes of shared memory", str(refused))


if __name__ == "__main__":
    unittest.main()
