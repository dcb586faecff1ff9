// Functions that hand the driver work on device memory, or let it take more of it: they wait at the
// gate and are forwarded as they are. On the way it is noted what memory they name.
#include "cuda_abi/driver_types.h"
#include "cuda_abi/graph_types.h"
#include "cuda_abi/memory_types.h"
#include "driver_slots.h"
#include "shim/abi.h"
#include "shim/gate.h"
#include "shim/touches.h"

using namespace lambent::shim;

namespace {

// What a call names: the addresses among its arguments, unless the function has an entry below.
// Numbers of the same type are looked up like addresses, and are none of ours.
void touch_argument(Address address) { touch(address); }
template <typename Argument>
void touch_argument(Argument) {}

template <typename Function>
struct Named {
  template <typename... Arguments>
  static void touch(Arguments... arguments) {
    (touch_argument(arguments), ...);
  }
};

struct NamedAnything {
  template <typename... Arguments>
  static void touch(Arguments...) {
    touch_anything();
  }
};

// A description that stands first among the arguments.
template <typename Description>
struct NamedInDescription {
  template <typename... Others>
  static void touch(Pointer description, Others...) {
    touch_described(description, sizeof(Description));
  }
};

struct NamedByWriting {
  template <typename... Others>
  static void touch(Address to, Pointer from, size_t bytes, Others...) {
    touch_written(to, from, bytes);
  }
};

// A copy in whichever direction the addresses say.
struct NamedByCopying {
  template <typename... Others>
  static void touch(Address to, Address from, size_t bytes, Others...) {
    touch_written(to, reinterpret_cast<const void*>(from), bytes);
  }
};

struct NamedByStoring {
  static void touch(Handle, Address to, unsigned long long value, unsigned) {
    touch_stored(to, value);
  }
};

struct NamedInArrays {
  template <typename... Others>
  static void touch(Pointer to, Pointer from, Pointer, size_t count, Others...) {
    touch_described(to, count * sizeof(Address));
    touch_described(from, count * sizeof(Address));
  }
};

struct NamedByLaunch {
  static void touch(Handle function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    unsigned, Handle, Pointer parameters, Pointer extra = nullptr) {
    touch_launched(function, static_cast<void**>(parameters), static_cast<void**>(extra));
  }
  static void touch(Pointer, Handle function, Pointer parameters, Pointer extra) {
    touch_launched(function, static_cast<void**>(parameters), static_cast<void**>(extra));
  }
};

#define NAMED(name, how)  \
  struct name##_function; \
  template <>             \
  struct Named<name##_function> : how {};

NAMED(cuLaunchKernel, NamedByLaunch)
NAMED(cuLaunchKernel_ptsz, NamedByLaunch)
NAMED(cuLaunchKernelEx, NamedByLaunch)
NAMED(cuLaunchKernelEx_ptsz, NamedByLaunch)
NAMED(cuLaunchCooperativeKernel, NamedByLaunch)
NAMED(cuLaunchCooperativeKernel_ptsz, NamedByLaunch)
NAMED(cuLaunchCooperativeKernelMultiDevice, NamedAnything)
NAMED(cuLaunch, NamedAnything)
NAMED(cuLaunchGrid, NamedAnything)
NAMED(cuLaunchGridAsync, NamedAnything)
NAMED(cuMemcpyHtoD_v2, NamedByWriting)
NAMED(cuMemcpyHtoD_v2_ptds, NamedByWriting)
NAMED(cuMemcpyHtoDAsync_v2, NamedByWriting)
NAMED(cuMemcpyHtoDAsync_v2_ptsz, NamedByWriting)
NAMED(cuMemcpy, NamedByCopying)
NAMED(cuMemcpy_ptds, NamedByCopying)
NAMED(cuMemcpyAsync, NamedByCopying)
NAMED(cuMemcpyAsync_ptsz, NamedByCopying)
NAMED(cuStreamWriteValue64, NamedByStoring)
NAMED(cuStreamWriteValue64_ptsz, NamedByStoring)
NAMED(cuStreamWriteValue64_v2, NamedByStoring)
NAMED(cuStreamWriteValue64_v2_ptsz, NamedByStoring)
NAMED(cuMemcpyBatchAsync, NamedInArrays)
NAMED(cuMemcpyBatchAsync_ptsz, NamedInArrays)
NAMED(cuMemcpyBatchAsync_v2, NamedInArrays)
NAMED(cuMemcpyBatchAsync_v2_ptsz, NamedInArrays)
NAMED(cuMemcpy2D_v2, NamedInDescription<CUDA_MEMCPY2D>)
NAMED(cuMemcpy2D_v2_ptds, NamedInDescription<CUDA_MEMCPY2D>)
NAMED(cuMemcpy2DAsync_v2, NamedInDescription<CUDA_MEMCPY2D>)
NAMED(cuMemcpy2DAsync_v2_ptsz, NamedInDescription<CUDA_MEMCPY2D>)
NAMED(cuMemcpy2DUnaligned_v2, NamedInDescription<CUDA_MEMCPY2D>)
NAMED(cuMemcpy2DUnaligned_v2_ptds, NamedInDescription<CUDA_MEMCPY2D>)
NAMED(cuMemcpy3D_v2, NamedInDescription<CUDA_MEMCPY3D>)
NAMED(cuMemcpy3D_v2_ptds, NamedInDescription<CUDA_MEMCPY3D>)
NAMED(cuMemcpy3DAsync_v2, NamedInDescription<CUDA_MEMCPY3D>)
NAMED(cuMemcpy3DAsync_v2_ptsz, NamedInDescription<CUDA_MEMCPY3D>)
NAMED(cuMemcpy3DPeer, NamedInDescription<CUDA_MEMCPY3D_PEER>)
NAMED(cuMemcpy3DPeer_ptds, NamedInDescription<CUDA_MEMCPY3D_PEER>)
NAMED(cuMemcpy3DPeerAsync, NamedInDescription<CUDA_MEMCPY3D_PEER>)
NAMED(cuMemcpy3DPeerAsync_ptsz, NamedInDescription<CUDA_MEMCPY3D_PEER>)
NAMED(cuMemcpy3DBatchAsync, NamedAnything)
NAMED(cuMemcpy3DBatchAsync_ptsz, NamedAnything)
NAMED(cuMemcpy3DBatchAsync_v2, NamedAnything)
NAMED(cuMemcpy3DBatchAsync_v2_ptsz, NamedAnything)
NAMED(cuMemBatchDecompressAsync, NamedAnything)
NAMED(cuMemBatchDecompressAsync_ptsz, NamedAnything)
NAMED(cuStreamBatchMemOp, NamedAnything)
NAMED(cuStreamBatchMemOp_ptsz, NamedAnything)
NAMED(cuStreamBatchMemOp_v2, NamedAnything)
NAMED(cuStreamBatchMemOp_v2_ptsz, NamedAnything)
#undef NAMED

}  // namespace

#define GATED(name, parameters, arguments, ...)                   \
  namespace {                                                     \
  struct name##_function;                                         \
  }                                                               \
  SHIM_EXPORT Status name parameters {                            \
    const Passage passage;                                        \
    if (notes_touches()) Named<name##_function>::touch arguments; \
    return noted(REAL(name, __VA_ARGS__) arguments);              \
  }
#include "driver_gated.inc"
#undef GATED
