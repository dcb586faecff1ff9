"""The CUDA driver API for handlers: device buffers, kernel bundles, launches. Standard library only.

    import lambent_cuda as cuda
    device = cuda.Device()
    add = device.load("bundles/vector_add").kernel("vector_add")
    a = device.buffer(array.array("f", values))      # copied to the device
    c = device.buffer(4 * count)                     # uninitialised
    add(grid=blocks, block=256, args=[a, a, c, cuda.uint32(count)])
    result = c.array("f")                            # waits, copies back
    image = device.tensor("float32", (480, 640), values)  # with a type and a shape; an argument like a buffer
    return {"y": device.put(result)}                 # what device.get() of the next function takes, at the same address

One device and one context, in every thread that uses it; a buffer is for one thread at a time. Every failed call raises a CudaError.
"""
import _thread
import array
import base64
import ctypes
import json
import os
import weakref
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_uint64, c_void_p

int32, uint32 = ctypes.c_int32, ctypes.c_uint32
int64, uint64 = ctypes.c_int64, ctypes.c_uint64
float32, float64 = ctypes.c_float, ctypes.c_double

_INVALID_IMAGE = (200, 209, 218, 222)  # invalid image, no binary for this GPU, invalid PTX, its version


class CudaError(Exception):
    """A driver call failed: `name` is CUDA's, such as CUDA_ERROR_INVALID_VALUE."""

    def __init__(self, code, name, call, what=""):
        super().__init__("%s failed: %s (%d)%s" % (call, name, code, what))
        self.code, self.name = code, name


class OutOfMemory(CudaError):
    """The device, or the function's limit, has no more memory."""


class NotSupported(CudaError):
    """The driver does not have this."""


class NoDevice(CudaError):
    """There is no driver or no device."""


class MemoryGone(Exception):
    """Memory that was put is not on this device any more, or is another executor's."""


_KINDS = {2: OutOfMemory, 100: NoDevice, 801: NotSupported}
_ALREADY_MAPPED, _INVALID_HANDLE = 208, 400
_NAMED = b"lambent:named:v1"  # what a handle begins with that stands for a name


class _Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def _check_reference(reference):
    """ValueError where it cannot be one that put() returned: it came in an event, which a caller may have written."""
    if not isinstance(reference, dict):
        raise ValueError("a reference is the dict that put() returned, not %.100r" % (reference,))
    for name, kind in (("object", str), ("memory", str), ("bytes", int), ("shape", list), ("datatype", str)):
        if name in reference and type(reference[name]) is not kind:
            raise ValueError("'%s' of a reference is %.100r; it has to be of type %s" % (name, reference[name], kind.__name__))
    for name, other in (("memory", "bytes"), ("shape", "datatype")):
        if name in reference and other not in reference:
            raise ValueError("this reference has no '%s'; one of put() with '%s' has" % (other, name))


def _is_shared():
    """Whether this process's CUDA calls run in an executor that others use."""
    return "LAMBENT_FORWARD_SOCKET" in os.environ


class _Driver:
    """libcuda.so.1; its functions as methods that raise."""

    # The context that this thread has, by whichever device it was set last.
    _thread = _thread._local()

    def __init__(self):
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoDevice(100, "CUDA_ERROR_NO_DEVICE", "load libcuda.so.1 (%s)" % error) from None
        self._context = None
        self.call("cuInit", c_uint(0))

    def use(self, context):
        """Calls are made in this context from now on, in whichever thread."""
        self._context = context
        self.join()

    def join(self):
        """Makes the context this thread's."""
        if self._context is not None and getattr(self._thread, "context", None) is not self._context:
            self._thread.context = self._context
            self.call("cuCtxSetCurrent", self._context)

    def call(self, name, *arguments):
        self.join()
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(c_int(code), byref(text))
            readable = text.value.decode() if text.value else "CUDA_ERROR_%d" % code
            raise _KINDS.get(code, CudaError)(code, readable, name)


class Device:
    """A device that the process may see, the first unless said, through its primary context."""

    def __init__(self, ordinal=0):
        self.driver = _Driver()
        self._handle = c_int()
        self.driver.call("cuDeviceGet", byref(self._handle), c_int(ordinal))
        context = c_void_p()
        self.driver.call("cuDevicePrimaryCtxRetain", byref(context), self._handle)
        self.driver.use(context)
        self._known = {}  # shared buffers that this process has, by name

    def join(self):
        """Makes this thread one of those that use the device: calls do so themselves, but not those of other libraries."""
        self.driver.join()

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

    def tensor(self, datatype, shape, content=None):
        """A Tensor of this type and shape, uninitialised or with a copy of a bytes-like object of its size."""
        created = Tensor(self, datatype, shape)
        if content is not None:
            view = memoryview(content).cast("B")
            if view.nbytes != created.nbytes:
                raise ValueError("%d bytes are no %s of shape %s, which has %d" %
                                 (view.nbytes, datatype, created.shape, created.nbytes))
            created.buffer.write(view)
        return created

    @property
    def multiprocessors(self):
        value = c_int()
        self.driver.call("cuDeviceGetAttribute", byref(value), c_int(16), self._handle)
        return value.value

    def load(self, folder):
        """The kernels of a bundle."""
        return Module(self, folder)

    def synchronize(self):
        self.driver.call("cuCtxSynchronize")

    def put(self, content, reads=1, copy=False):
        """Gives a buffer or a Tensor away: a reference for an answer, which `reads` calls of get() take, in whichever functions
        of this GPU runtime. The memory itself is handed on, without a copy, and is not this function's any more; it waits for
        them for 60 s, and no longer than this sandbox lives. Without a shared runtime, and with `copy` as well, it is an object."""
        if reads < 1:
            raise ValueError("reads is %r; at least one function has to get it" % (reads,))
        reference = {"bytes": content.size if isinstance(content, DeviceBuffer) else content.nbytes}
        if isinstance(content, Tensor):
            reference.update(datatype=content.datatype, shape=list(content.shape))
        buffer = content.buffer if isinstance(content, Tensor) else content
        self.synchronize()
        if copy or not _is_shared():
            from lambent import objects  # only handlers can reach them
            reference.update(objects.put(content.bytes()))
        if _is_shared():
            handle = _Handle()
            for _ in range(reads):
                self.driver.call("cuIpcGetMemHandle", byref(handle), buffer.pointer)
            reference["memory"] = base64.b64encode(bytes(handle)).decode()
        buffer.free()
        return reference

    def get(self, reference):
        """What another function put: a DeviceBuffer, or a Tensor if it was one. Freed as any other; a reader that writes to it
        changes it for other readers. MemoryGone if it was not taken in time, or lies on another device or in another domain,
        and the reference has no object."""
        _check_reference(reference)
        buffer = self._open(base64.b64decode(reference["memory"]), reference["bytes"]) if "memory" in reference and _is_shared() else None
        if buffer is None:
            if "object" not in reference:
                raise MemoryGone("the memory of this reference was not taken in time, or is not of this GPU runtime; "
                                 "put(..., copy=True) keeps an object beside it")
            from lambent import objects
            buffer = self.buffer(bytes(objects.get(reference)) or 1)
        if "shape" not in reference:
            return buffer
        return Tensor(self, reference["datatype"], reference["shape"], buffer)

    def shared(self, name, size, fill):
        """A buffer of `size` bytes that all functions of this GPU runtime have one copy of, such as weights. The first one's
        `fill(buffer)` makes the content, which no function changes after that. A name stands for one content. Without a shared
        runtime each process has its own."""
        known = self._known.get(name, lambda: None)()
        if known is not None and known.pointer.value and known.size == size:
            return known
        buffer = self._share(_NAMED + _digest(name), size, fill) if _is_shared() else self._filled(size, fill)
        self._known[name] = weakref.ref(buffer)
        return buffer

    def _share(self, name, size, fill):
        handle = name.ljust(64, b"\0")
        while True:
            buffer = self._open(handle, size)
            if buffer is not None:
                return buffer
            buffer = self._filled(size, fill)
            try:
                self.driver.call("cuIpcGetMemHandle", byref(_Handle.from_buffer_copy(handle)), buffer.pointer)
                return buffer
            except CudaError as error:
                if error.code != _ALREADY_MAPPED:
                    raise
            buffer.free()  # another process was faster

    def _filled(self, size, fill):
        buffer = self.buffer(size)
        fill(buffer)
        self.synchronize()
        return buffer

    def _open(self, handle, size):
        """None if there is no such memory here."""
        pointer = c_uint64(0)
        try:
            self.driver.call("cuIpcOpenMemHandle_v2", byref(pointer), _Handle.from_buffer_copy(handle), c_uint(1))
        except CudaError as error:
            if error.code != _INVALID_HANDLE:
                raise
            return None
        known, base = c_size_t(), c_uint64()
        self.driver.call("cuMemGetAddressRange_v2", byref(base), byref(known), pointer)
        if known.value < size:
            self.driver.call("cuIpcCloseMemHandle", pointer)
            raise ValueError("the memory has %d bytes, not %d" % (known.value, size))
        return _OpenedBuffer(self, pointer, size)


def _digest(name):
    import hashlib  # not what every handler needs
    return hashlib.sha256(name.encode()).digest()[:16]


class DeviceBuffer:
    """Device memory; freed with the object, or earlier by free()."""

    # Of all buffers of the process, and the most that it has been since it was set; bytes.
    allocated_bytes = peak_bytes = 0
    _counting = _thread.RLock()  # one that is freed may be found by who counts another

    def __init__(self, device, size):
        self._device, self.size = device, size
        self.pointer = c_uint64(0)
        device.driver.call("cuMemAlloc_v2", byref(self.pointer), c_size_t(size))
        with DeviceBuffer._counting:
            DeviceBuffer.allocated_bytes += size
            DeviceBuffer.peak_bytes = max(DeviceBuffer.peak_bytes, DeviceBuffer.allocated_bytes)

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
            with DeviceBuffer._counting:
                DeviceBuffer.allocated_bytes -= self.size
            self._device.driver.call("cuMemFree_v2", pointer)

    def __del__(self):
        try:
            self.free()
        except Exception:  # the driver may be gone when the interpreter ends
            pass


class _OpenedBuffer(DeviceBuffer):
    """Memory that another process allocated, which counts there."""

    def __init__(self, device, pointer, size):
        self._device, self.size, self.pointer = device, size, pointer

    def free(self):
        if self.pointer.value:
            pointer, self.pointer = self.pointer, c_uint64(0)
            self._device.driver.call("cuIpcCloseMemHandle", pointer)


# Bytes of an element, and what the module array calls it, where it can.
DATATYPES = {
    "bool": (1, "B"), "uint8": (1, "B"), "int8": (1, "b"), "uint16": (2, "H"), "int16": (2, "h"),
    "uint32": (4, "I"), "int32": (4, "i"), "uint64": (8, "Q"), "int64": (8, "q"), "float16": (2, None),
    "bfloat16": (2, None), "float32": (4, "f"), "float64": (8, "d"), "complex64": (8, None),
    "complex128": (16, None),
}


class Tensor:
    """Device memory with a datatype and a shape; contiguous, the last dimension's elements side by side."""

    def __init__(self, device, datatype, shape, buffer=None):
        if datatype not in DATATYPES:
            raise ValueError("%r is no datatype; one of %s" % (datatype, ", ".join(DATATYPES)))
        self.device, self.datatype, self.shape = device, datatype, tuple(shape)
        self.count = 1
        for size in self.shape:
            if not isinstance(size, int) or size < 0:
                raise ValueError("%r is no shape" % (self.shape,))
            self.count *= size
        self.nbytes = self.count * DATATYPES[datatype][0]
        # No device allocates nothing.
        self.buffer = DeviceBuffer(device, max(1, self.nbytes)) if buffer is None else buffer

    @property
    def pointer(self):
        return self.buffer.pointer

    def bytes(self):
        target = bytearray(self.nbytes)
        if target:
            self.buffer.read_into(target)
        return bytes(target)

    def array(self):
        """A copy on the host, as array.array, in one dimension."""
        typecode = DATATYPES[self.datatype][1]
        if typecode is None:
            raise TypeError("array has no type for %s; use bytes()" % self.datatype)
        values = array.array(typecode)
        values.frombytes(self.bytes())
        return values

    def tolist(self):
        """Nested lists, as deep as the shape."""
        values = self.array().tolist()
        for size in reversed(self.shape[1:]):
            values = [values[i:i + size] for i in range(0, len(values), size)] if size else []
        if not self.shape:
            return values[0]
        return values if self.count else []

    def rows(self, begin, end):
        """A copy of rows begin to end, without the last, along the first dimension."""
        part = Tensor(self.device, self.datatype, (end - begin,) + self.shape[1:])
        step = self.nbytes // self.shape[0] if self.shape[0] else 0
        part._copy(0, self, begin * step, part.nbytes)
        return part

    def _copy(self, offset, source, source_offset, size):
        if size:
            self.device.driver.call("cuMemcpyDtoD_v2", c_uint64(self.pointer.value + offset),
                                    c_uint64(source.pointer.value + source_offset), c_size_t(size))

    def __repr__(self):
        return "lambent_cuda.Tensor(%s %s)" % (self.datatype, list(self.shape))


def concatenate(tensors):
    """Tensors of one type, and of one shape but for the first dimension, one after the other along that."""
    first = tensors[0]
    if any(t.datatype != first.datatype or t.shape[1:] != first.shape[1:] or not t.shape for t in tensors):
        raise ValueError("tensors of different types or rows: %s" % ", ".join(map(repr, tensors)))
    joined = Tensor(first.device, first.datatype, (sum(t.shape[0] for t in tensors),) + first.shape[1:])
    offset = 0
    for tensor in tensors:
        joined._copy(offset, tensor, 0, tensor.nbytes)
        offset += tensor.nbytes
    return joined


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
        try:
            self._device.driver.call("cuLaunchKernel", self._function, *dimensions,
                                     c_uint(shared_bytes), c_void_p(0), pointers, c_void_p(0))
        except CudaError as error:
            raise type(error)(error.code, error.name, "cuLaunchKernel", ": kernel '%s', grid %s, block %s, %d bytes of shared memory" % (
                self._description["name"], _three(grid), _three(block), shared_bytes)) from None

    def _value(self, argument, position):
        if isinstance(argument, (DeviceBuffer, Tensor)):
            return argument.pointer
        if isinstance(argument, (ctypes._SimpleCData, ctypes.Structure, ctypes.Array)):
            return argument
        raise TypeError("argument %d of kernel '%s' has no C type: give a DeviceBuffer or such as "
                        "uint32(%r)" % (position, self._description["name"], argument))


def _three(size):
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return sizes + (1,) * (3 - len(sizes))
