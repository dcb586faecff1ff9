// Functions that hand the driver work on device memory, or let it take more of it: they wait at the
// gate and are forwarded as they are. On the way it is noted what memory they name.
#include "driver_slots.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/graph_types.h"
#include "gpu/cuda_abi/memory_types.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/gate.h"
#include "gpu/shim/graph_touches.h"
#include "gpu/shim/touches.h"

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

// Executable graphs that are made of a description, or changed to it.
struct NamedByGraph {
  template <typename... Others>
  static void touch(Pointer, Handle description, Others...) {
    place_graph(description);
  }
};

struct NamedByChild {
  static void touch(Handle, Handle, Handle child) { place_graph(child); }
};

// Nodes that copy and fill: an executable graph keeps to the side on which their memory lay.
template <typename Description>
struct NamedByNode {
  template <typename... Others>
  static void touch(Handle, Handle, Pointer description, Others...) {
    note_access(description, sizeof(Description));
  }
  static void touch(Handle, Pointer description) { note_access(description, sizeof(Description)); }
  static void touch(Pointer, Handle, Pointer, size_t, Pointer description, Handle) {
    note_access(description, sizeof(Description));
  }
};

struct NamedByTypedNode {
  static void touch(Handle, Pointer description) { place_node(description); }
  static void touch(Handle, Handle, Pointer description) { place_node(description); }
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
NAMED(cuGraphAddMemcpyNode, NamedByNode<CUDA_MEMCPY3D>)
NAMED(cuGraphAddMemsetNode, NamedByNode<CUDA_MEMSET_NODE_PARAMS>)
NAMED(cuGraphMemcpyNodeSetParams, NamedByNode<CUDA_MEMCPY3D>)
NAMED(cuGraphMemsetNodeSetParams, NamedByNode<CUDA_MEMSET_NODE_PARAMS>)
NAMED(cuGraphNodeSetParams, NamedByTypedNode)
NAMED(cuGraphExecMemcpyNodeSetParams, NamedByNode<CUDA_MEMCPY3D>)
NAMED(cuGraphExecMemsetNodeSetParams, NamedByNode<CUDA_MEMSET_NODE_PARAMS>)
NAMED(cuGraphExecNodeSetParams, NamedByTypedNode)
NAMED(cuGraphExecChildGraphNodeSetParams, NamedByChild)
NAMED(cuGraphExecUpdate, NamedByGraph)
NAMED(cuGraphExecUpdate_v2, NamedByGraph)
NAMED(cuGraphInstantiate, NamedByGraph)
NAMED(cuGraphInstantiate_v2, NamedByGraph)
NAMED(cuGraphInstantiateWithFlags, NamedByGraph)
NAMED(cuGraphInstantiateWithParams, NamedByGraph)
NAMED(cuGraphInstantiateWithParams_ptsz, NamedByGraph)
#undef NAMED

// What a call that succeeds makes of an executable graph; most make nothing of any.
template <typename Function>
struct Readied {
  template <typename... Arguments>
  static Status note(Status status, Arguments...) {
    return status;
  }
};

Handle made(Pointer graph) { return *static_cast<Handle*>(graph); }

struct ReadiedPlainly {
  template <typename... Others>
  static Status note(Status status, Pointer graph, Handle description, Others...) {
    if (status == kSuccess) graph_is_ready(made(graph), description, 0);
    return status;
  }
};

struct ReadiedByFlags {
  static Status note(Status status, Pointer graph, Handle description, unsigned long long flags) {
    if (status == kSuccess) graph_is_ready(made(graph), description, flags);
    return status;
  }
};

struct ReadiedByParameters {
  static Status note(Status status, Pointer graph, Handle description, Pointer parameters) {
    if (status != kSuccess) return status;
    const auto* given = static_cast<const CUDA_GRAPH_INSTANTIATE_PARAMS*>(parameters);
    graph_is_ready(made(graph), description, given->flags);
    return status;
  }
};

struct ReadiedAnew {
  template <typename... Others>
  static Status note(Status status, Handle graph, Handle description, Others...) {
    if (status == kSuccess) graph_is_updated(graph, description);
    if (status != kSuccess) graph_is_updated_in_part(graph);
    return status;
  }
};

// One node of it is given other parameters.
template <auto Set>
struct ReadiedByNode {
  template <typename... Others>
  static Status note(Status status, Handle graph, Handle node, Pointer parameters, Others...) {
    if (status == kSuccess) Set(graph, node, parameters);
    return status;
  }
};

#define READIED(name, ...) \
  struct name##_function;  \
  template <>              \
  struct Readied<name##_function> : __VA_ARGS__ {};

READIED(cuGraphInstantiate, ReadiedPlainly)
READIED(cuGraphInstantiate_v2, ReadiedPlainly)
READIED(cuGraphInstantiateWithFlags, ReadiedByFlags)
READIED(cuGraphInstantiateWithParams, ReadiedByParameters)
READIED(cuGraphInstantiateWithParams_ptsz, ReadiedByParameters)
READIED(cuGraphExecUpdate, ReadiedAnew)
READIED(cuGraphExecUpdate_v2, ReadiedAnew)
READIED(cuGraphExecKernelNodeSetParams, ReadiedByNode<kernel_node_is_set_v1>)
READIED(cuGraphExecKernelNodeSetParams_v2, ReadiedByNode<kernel_node_is_set>)
READIED(cuGraphExecMemcpyNodeSetParams, ReadiedByNode<copy_node_is_set>)
READIED(cuGraphExecMemsetNodeSetParams, ReadiedByNode<fill_node_is_set>)
READIED(cuGraphExecChildGraphNodeSetParams, ReadiedByNode<child_node_is_set>)
READIED(cuGraphExecNodeSetParams, ReadiedByNode<node_is_set>)
#undef READIED

}  // namespace

#define UNPACKED(...) __VA_ARGS__
#define GATED(name, parameters, arguments, ...)                        \
  namespace {                                                          \
  struct name##_function;                                              \
  }                                                                    \
  SHIM_EXPORT Status name parameters {                                 \
    const GateScope gate_scope;                                        \
    if (notes_touches()) Named<name##_function>::touch arguments;      \
    const Status status = noted(REAL(name, __VA_ARGS__) arguments);    \
    return Readied<name##_function>::note(status, UNPACKED arguments); \
  }
#include "driver_gated.inc"
#undef GATED
#undef UNPACKED
