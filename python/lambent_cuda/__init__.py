"""The CUDA driver API for handlers: device buffers, kernel bundles, launches. Standard library only.

    import lambent_cuda as cuda
    device = cuda.Device()
    add = device.load("bundles/vector_add").kernel("vector_add")
    a = device.buffer(array.array("f", values))      # copied to the device
    c = device.buffer(4 * count)                     # uninitialised
    add(grid=blocks, block=256, args=[a, a, c, cuda.uint32(count)])
    result = c.array("f")                            # waits, copies back

One device and one context; not for several threads at once. Every failed call raises a CudaError.
"""
import array
import ctypes
import json
import os
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_uint64, c_void_p

int32, uint32 = ctypes.c_int32, ctypes.c_uint32
int64, uint64 = ctypes.c_int64, ctypes.c_uint64
float32, float64 = ctypes.c_float, ctypes.c_double

_INVALID_IMAGE = (200, 209, 218, 222)  # invalid image, no binary for this GPU, invalid PTX, its version


class CudaError(Exception):
    """A driver call failed: `name` is CUDA's, such as CUDA_ERROR_INVALID_VALUE."""

    def __init__(self, code, name, call):
        super().__init__("%s failed: %s (%d)" % (call, name, code))
        self.code, self.name = code, name


class OutOfMemory(CudaError):
    """The device, or the function's limit, has no more memory."""


class NotSupported(CudaError):
    """The driver does not have this."""


class NoDevice(CudaError):
    """There is no driver or no device."""


_KINDS = {2: OutOfMemory, 100: NoDevice, 801: NotSupported}


class _Driver:
    """libcuda.so.1; its functions as methods that raise."""

    def __init__(self):
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoDevice(100, "CUDA_ERROR_NO_DEVICE", "load libcuda.so.1 (%s)" % error) from None
        self.call("cuInit", c_uint(0))

    def call(self, name, *arguments):
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(c_int(code), byref(text))
            readable = text.value.decode() if text.value else "CUDA_ERROR_%d" % code
            raise _KINDS.get(code, CudaError)(code, readable, name)


class Device:
    """The first device that the process may see, through its primary context."""

    def __init__(self, ordinal=0):
        self.driver = _Driver()
        self._handle = c_int()
        self.driver.call("cuDeviceGet", byref(self._handle), c_int(ordinal))
        context = c_void_p()
        self.driver.call("cuDevicePrimaryCtxRetain", byref(context), self._handle)
        self.driver.call("cuCtxSetCurrent", context)

    @property
    def name(self):
        text = (c_char * 256)()
        self.driver.call("cuDeviceGetName", text, c_int(256), self._handle)
        return text.value.decode()

    @property
    def compute_capability(self):
        values = []
        for attribute in (75, 76):
            value = c_int()
            self.driver.call("cuDeviceGetAttribute", byref(value), c_int(attribute), self._handle)
            values.append(value.value)
        return tuple(values)

    def memory_info(self):
        """(free, total) bytes, as this function sees them."""
        free, total = c_size_t(), c_size_t()
        self.driver.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def buffer(self, content):
        """A buffer of `content` bytes, or with a copy of a bytes-like object."""
        if isinstance(content, int):
            return DeviceBuffer(self, content)
        view = memoryview(content).cast("B")
        created = DeviceBuffer(self, view.nbytes)
        created.write(view)
        return created

    def load(self, folder):
        """The kernels of a bundle."""
        return Module(self, folder)

    def synchronize(self):
        self.driver.call("cuCtxSynchronize")


class DeviceBuffer:
    """Device memory; freed with the object, or earlier by free()."""

    def __init__(self, device, size):
        self._device, self.size = device, size
        self.pointer = c_uint64(0)
        device.driver.call("cuMemAlloc_v2", byref(self.pointer), c_size_t(size))

    def write(self, content, offset=0):
        view = memoryview(content).cast("B")
        if offset < 0 or offset + view.nbytes > self.size:
            raise ValueError("%d bytes at %d do not fit in a buffer of %d" %
                             (view.nbytes, offset, self.size))
        # A view of the caller's memory if it can be had, a copy if it is read-only.
        source = (c_char * view.nbytes).from_buffer(view) if not view.readonly else view.tobytes()
        self._device.driver.call("cuMemcpyHtoD_v2", c_uint64(self.pointer.value + offset), source,
                                 c_size_t(view.nbytes))

    def read_into(self, target, offset=0):
        view = memoryview(target).cast("B")
        if offset < 0 or offset + view.nbytes > self.size:
            raise ValueError("the buffer has only %d bytes" % self.size)
        self._device.driver.call("cuMemcpyDtoH_v2", (c_char * view.nbytes).from_buffer(view),
                                 c_uint64(self.pointer.value + offset), c_size_t(view.nbytes))

    def bytes(self):
        target = bytearray(self.size)
        self.read_into(target)
        return bytes(target)

    def array(self, typecode):
        values = array.array(typecode)
        values.frombytes(self.bytes())
        return values

    def fill(self, value=0):
        self._device.driver.call("cuMemsetD8_v2", self.pointer, ctypes.c_ubyte(value),
                                 c_size_t(self.size))

    def free(self):
        if self.pointer.value:
            pointer, self.pointer = self.pointer, c_uint64(0)
            self._device.driver.call("cuMemFree_v2", pointer)

    def __del__(self):
        try:
            self.free()
        except Exception:  # the driver may be gone when the interpreter ends
            pass


class Module:
    """A bundle's kernels, loaded from the image that the driver takes."""

    def __init__(self, device, folder):
        self._device = device
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        if manifest.get("abi") != 1:
            raise ValueError("%s: bundle ABI %s is unknown; build it again" %
                             (folder, manifest.get("abi")))
        self.name = manifest["name"]
        self._kernels = {kernel["name"]: kernel for kernel in manifest["kernels"]}
        self._handle = c_void_p()
        self._is_device_code = self._load(folder, manifest["targets"])

    def _load(self, folder, targets):
        refused = None
        for rank, target in sorted(self._ranked(targets), key=lambda pair: -pair[0]):
            with open(os.path.join(folder, target["file"]), "rb") as file:
                image = file.read() + b"\0"
            try:
                self._device.driver.call("cuModuleLoadData", byref(self._handle), image)
                return rank > 0
            except CudaError as error:
                if error.code not in _INVALID_IMAGE:
                    raise
                refused = error
        raise refused or ValueError("%s has no image for this device" % folder)

    def _ranked(self, targets):
        """Cubins of the device's generation first, then PTX, then the host's: a GPU's driver
        refuses the last, the emulated one the others."""
        major, minor = self._device.compute_capability
        for target in targets:
            kind, _, number = target["target"].partition("_")
            if kind == "sm" and int(number) // 10 == major and int(number) % 10 <= minor:
                yield 2000 + int(number), target
            elif kind == "compute" and int(number) <= major * 10 + minor:
                yield 1000 + int(number), target
            elif target["target"] == "host-x86_64":
                yield 0, target

    def kernel(self, name):
        if name not in self._kernels:
            raise KeyError("bundle '%s' has no kernel '%s'; it has: %s" %
                           (self.name, name, ", ".join(sorted(self._kernels))))
        description = self._kernels[name]
        symbol = description["lowered"] if self._is_device_code else name
        function = c_void_p()
        self._device.driver.call("cuModuleGetFunction", byref(function), self._handle,
                                 symbol.encode())
        return Kernel(self._device, function, description)


class Kernel:
    """Call it to launch: kernel(grid, block, args, shared_bytes=0). Launches run in order."""

    def __init__(self, device, function, description):
        self._device, self._function, self._description = device, function, description

    def __call__(self, grid, block, args=(), shared_bytes=0):
        values = [self._value(argument, i) for i, argument in enumerate(args)]
        sizes = self._description["parameters"]
        if [ctypes.sizeof(value) for value in values] != sizes:
            raise TypeError("kernel '%s' takes parameters of %s bytes, not of %s" %
                            (self._description["name"], sizes,
                             [ctypes.sizeof(value) for value in values]))
        pointers = (c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])
        dimensions = [c_uint(n) for n in _three(grid) + _three(block)]
        self._device.driver.call("cuLaunchKernel", self._function, *dimensions,
                                 c_uint(shared_bytes), c_void_p(0), pointers, c_void_p(0))

    def _value(self, argument, position):
        if isinstance(argument, DeviceBuffer):
            return argument.pointer
        if isinstance(argument, (ctypes._SimpleCData, ctypes.Structure, ctypes.Array)):
            return argument
        raise TypeError("argument %d of kernel '%s' has no C type: give a DeviceBuffer or such as "
                        "uint32(%r)" % (position, self._description["name"], argument))


def _three(size):
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return sizes + (1,) * (3 - len(sizes))
