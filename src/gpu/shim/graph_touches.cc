#include "gpu/shim/graph_touches.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/base/plain_mutex.h"
#include "driver_slots.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/graph_types.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/graph_names.h"
#include "gpu/shim/kernel_words.h"
#include "gpu/shim/residency.h"
#include "gpu/shim/touches.h"
#include "gpu/shim/undestroyed.h"

namespace lambent::shim {
namespace {

// Descriptions in descriptions; deeper ones are not looked into.
constexpr int kMostDepth = 16;
// Uploads of one graph whose contents are looked through.
constexpr int kMostUploads = 16;

PlainMutex mutex;  // held for no call of the driver
Undestroyed<GraphNames> graphs GUARDED_BY(mutex);
// Kernels of graphs may launch other graphs, which no call tells of.
bool do_graphs_launch_graphs = false;
bool fork_is_watched = false;

// The handles are the parent's.
void start_afresh_in_child() {
  mutex.free_in_child();
  const PlainLock lock(mutex);
  graphs.start_afresh();
  __atomic_store_n(&do_graphs_launch_graphs, false, __ATOMIC_RELAXED);
}

void watch_forks() {
  if (__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) return;
  pthread_atfork(nullptr, nullptr, start_afresh_in_child);
}

// The memory of which names are kept; null: of none.
Residency* named_memory() {
  if (!working_set_is_wanted()) return nullptr;
  Residency* memory = Residency::current();
  return memory != nullptr && memory->mode() == protocol::MemoryMode::kVmm ? memory : nullptr;
}

// Collects what nodes name: of a description that the driver knows, or of parameters that a call
// sets.
class Naming {
 public:
  Naming(Residency& memory, NodeNames& names) : memory_(memory), names_(names) {}

  void name_all(Handle description, Handle top, int depth) {
    size_t count = 0;
    const auto list = REAL(cuGraphGetNodes, Handle, Handle*, size_t*);
    if (depth == kMostDepth || list(description, nullptr, &count) != kSuccess) {
      return add(top, top, NamedBy::kAnything);
    }
    if (count == 0) return;
    auto* nodes = static_cast<Handle*>(calloc(count, sizeof(Handle)));
    if (nodes == nullptr || list(description, nodes, &count) != kSuccess) {
      add(top, top, NamedBy::kAnything);
    } else {
      for (size_t i = 0; i < count; ++i) {
        name_node(nodes[i], top == nullptr ? nodes[i] : top, depth);
      }
    }
    free(nodes);
  }

  void name_kernel(Handle node, Handle top, const CUDA_KERNEL_NODE_PARAMS& kernel) {
    const bool is_kernel = kernel.func == nullptr;
    const Handle function = is_kernel ? static_cast<Handle>(kernel.kern) : kernel.func;
    bool is_known = function != nullptr;
    if (is_known && kernel.kernelParams == nullptr && kernel.extra == nullptr) {
      const KnownLayout known(function, is_kernel);
      is_known = known.get() != nullptr && known.get()->count == 0;
    } else if (is_known) {
      is_known = for_each_parameter_word(function, is_kernel, kernel.kernelParams, kernel.extra,
                                         [&](Address word) { add_address(node, top, word); });
    }
    if (!is_known) add(node, top, NamedBy::kAnything);
  }

  void name_copy(Handle node, Handle top, const CUDA_MEMCPY3D& copy) {
    const auto from = reinterpret_cast<Address>(copy.srcHost);
    const auto to = reinterpret_cast<Address>(copy.dstHost);
    const bool is_from_host = copy.srcMemoryType == CU_MEMORYTYPE_HOST && !memory_.owns(from);
    const bool is_to_host = copy.dstMemoryType == CU_MEMORYTYPE_HOST && !memory_.owns(to);
    const bool is_upload = is_from_host && from != 0;
    const uint64_t bytes = copy.WidthInBytes * copy.Height * copy.Depth;
    const bool is_plain = copy.srcY == 0 && copy.srcZ == 0 && copy.Height <= 1 && copy.Depth <= 1;
    if (is_upload && is_plain && bytes <= kMostWrittenBytes) {
      names_.add({node, top, NamedBy::kUpload, from + copy.srcXInBytes, bytes});
    }
    // What was captured while it was offloaded is the host's to the driver.
    const bool is_from_offloaded = copy.srcMemoryType == CU_MEMORYTYPE_HOST && !is_from_host;
    const bool is_to_offloaded = copy.dstMemoryType == CU_MEMORYTYPE_HOST && !is_to_host;
    if (!is_from_host) {
      add_address(node, top, is_from_offloaded ? from : copy.srcDevice, NamedBy::kCopy);
    }
    if (!is_to_host) add_address(node, top, is_to_offloaded ? to : copy.dstDevice, NamedBy::kCopy);
  }

  void name_fill(Handle node, Handle top, Address to) {
    add_address(node, top, to, NamedBy::kCopy);
  }

 private:
  void add(Handle node, Handle top, NamedBy by) { names_.add({node, top, by, 0, 0}); }
  void add_address(Handle node, Handle top, Address address, NamedBy by = NamedBy::kKernel) {
    if (memory_.owns(address)) names_.add({node, top, by, address, 0});
  }

  void name_node(Handle node, Handle top, int depth) {
    int type = -1;
    if (REAL(cuGraphNodeGetType, Handle, int*)(node, &type) != kSuccess) type = -1;
    switch (type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        return name_kernel_node(node, top);
      case CU_GRAPH_NODE_TYPE_MEMCPY: {
        CUDA_MEMCPY3D copy = {};
        const auto ask = REAL(cuGraphMemcpyNodeGetParams, Handle, void*);
        if (ask(node, &copy) != kSuccess) return add(node, top, NamedBy::kAnything);
        return name_copy(node, top, copy);
      }
      case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS fill = {};
        const auto ask = REAL(cuGraphMemsetNodeGetParams, Handle, void*);
        if (ask(node, &fill) != kSuccess) return add(node, top, NamedBy::kAnything);
        return name_fill(node, top, fill.dst);
      }
      case CU_GRAPH_NODE_TYPE_GRAPH: {
        Handle child = nullptr;
        const auto ask = REAL(cuGraphChildGraphNodeGetGraph, Handle, Handle*);
        if (ask(node, &child) != kSuccess) return add(node, top, NamedBy::kAnything);
        return name_all(child, top, depth + 1);
      }
      case CU_GRAPH_NODE_TYPE_EMPTY:
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      case CU_GRAPH_NODE_TYPE_MEM_ALLOC:  // the driver's own memory, as what is freed
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return;
      default:
        // Host functions, which may write what later nodes read; words that are written and waited
        // for; conditional nodes, of whose bodies the driver tells only who adds them.
        return add(node, top, NamedBy::kAnything);
    }
  }

  void name_kernel_node(Handle node, Handle top) {
    CUDA_KERNEL_NODE_PARAMS kernel = {};
    const auto ask = REAL(cuGraphKernelNodeGetParams_v2, Handle, void*);
    if (ask(node, &kernel) != kSuccess || is_device_updatable(node)) {
      return add(node, top, NamedBy::kAnything);
    }
    name_kernel(node, top, kernel);
  }

  // Whether kernels may give it other parameters.
  static bool is_device_updatable(Handle node) {
    CUlaunchAttributeValue value = {};
    const auto ask = REAL(cuGraphKernelNodeGetAttribute, Handle, int, void*);
    return ask(node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value) == kSuccess &&
           value.deviceUpdatableKernelNode.deviceUpdatable != 0;
  }

  Residency& memory_;
  NodeNames& names_;
};

// The same copy or fill: the driver looks again on which side its memory lies.
void describe_again(Residency& memory, Handle node) {
  int type = -1;
  if (REAL(cuGraphNodeGetType, Handle, int*)(node, &type) != kSuccess) return;
  if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    CUDA_MEMCPY3D copy = {};
    if (REAL(cuGraphMemcpyNodeGetParams, Handle, void*)(node, &copy) != kSuccess) return;
    const auto from = reinterpret_cast<Address>(copy.srcHost);
    const auto to = reinterpret_cast<Address>(copy.dstHost);
    if (copy.srcMemoryType == CU_MEMORYTYPE_HOST && memory.owns(from)) {
      copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
      copy.srcDevice = from;
    }
    if (copy.dstMemoryType == CU_MEMORYTYPE_HOST && memory.owns(to)) {
      copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
      copy.dstDevice = to;
    }
    REAL(cuGraphMemcpyNodeSetParams, Handle, const void*)(node, &copy);
  }
  if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
    CUDA_MEMSET_NODE_PARAMS fill = {};
    if (REAL(cuGraphMemsetNodeGetParams, Handle, void*)(node, &fill) != kSuccess) return;
    REAL(cuGraphMemsetNodeSetParams, Handle, const void*)(node, &fill);
  }
}

// One node names something else from now on: what `name` collects.
template <typename Name>
void replace(Handle executable, Handle node, Name name) {
  Residency* memory = named_memory();
  if (memory == nullptr) return;
  NodeNames names;
  Naming naming(*memory, names);
  name(naming);
  const PlainLock lock(mutex);
  if (NodeNames* known = graphs->find(executable)) known->replace(node, names);
}

// What a call describes, as it stands in memory that need not be aligned for it.
template <typename Description>
Description described(const void* at) {
  Description description = {};
  __builtin_memcpy(&description, at, sizeof(description));
  return description;
}

struct Upload {
  const void* from = nullptr;
  size_t bytes = 0;
};

// What has to be done once the names are no longer looked at.
struct ToDo {
  bool is_wanted = false;
  int uploads = 0;
  Upload upload[kMostUploads];
};

void touch_name(Residency& memory, const NodeName& name, ToDo& to_do) {
  switch (name.by) {
    case NamedBy::kKernel:
      to_do.is_wanted |= memory.named().touch(name.address);
      return;
    case NamedBy::kCopy:
      memory.named().touch(name.address);
      return;
    case NamedBy::kUpload:
      if (to_do.uploads == kMostUploads) return memory.named().touch_anything();
      to_do.upload[to_do.uploads++] = {reinterpret_cast<const void*>(name.address), name.bytes};
      return;
    case NamedBy::kAnything:
      return;
  }
}

// All names of a graph, unless they were looked up and nothing has changed since: then only what
// it uploads, which the program may have written again.
void touch_names(Residency& memory, NodeNames& names, ToDo& to_do) REQUIRES(mutex) {
  const uint64_t now = memory.named().changes();
  const bool is_known = names.looked_up_at == now;
  if (is_known && !names.has_uploads()) return;
  for (const NodeName& name : names) {
    if (!is_known || name.by == NamedBy::kUpload) touch_name(memory, name, to_do);
  }
  if (names.has_unknown()) memory.named().touch_anything();
  if (!to_do.is_wanted) names.looked_up_at = now;
}

}  // namespace

void place_graph(Handle description) {
  Residency* memory = __atomic_load_n(&memory_of_touches, __ATOMIC_ACQUIRE);
  if (memory == nullptr || !memory->named().can_have_offload()) return;
  NodeNames names;
  Naming(*memory, names).name_all(description, nullptr, 0);
  const bool is_placed = fetch_all(*memory, [&] {
    bool is_offloaded = false;
    for (const NodeName& name : names) {
      if (name.by == NamedBy::kCopy) is_offloaded |= memory->named().note_access(name.address);
    }
    return is_offloaded;
  });
  if (!is_placed) return;
  for (const NodeName& name : names) {
    if (name.by == NamedBy::kCopy) describe_again(*memory, name.node);
  }
}

void place_node(const void* parameters) {
  if (parameters == nullptr) return;
  const auto given = described<CUgraphNodeParams>(parameters);
  switch (given.type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return note_access(&given.memcpy, sizeof(given.memcpy));
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return note_access(&given.memset, sizeof(given.memset));
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return place_graph(given.graph.graph);
    default:
      return;
  }
}

void graph_is_ready(Handle executable, Handle description, unsigned long long flags) {
  if (!working_set_is_wanted()) return;
  watch_forks();
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
    __atomic_store_n(&do_graphs_launch_graphs, true, __ATOMIC_RELAXED);
  }
  graph_is_updated(executable, description);
}

void graph_is_updated(Handle executable, Handle description) {
  Residency* memory = named_memory();
  if (memory == nullptr) return;
  NodeNames names;
  Naming(*memory, names).name_all(description, nullptr, 0);
  const PlainLock lock(mutex);
  graphs->set(executable, names);
}

// What is not known brings in everything.
void graph_is_updated_in_part(Handle executable) { graph_is_ended(executable); }

void kernel_node_is_set(Handle executable, Handle node, const void* parameters) {
  replace(executable, node, [=](Naming& naming) {
    naming.name_kernel(node, node, described<CUDA_KERNEL_NODE_PARAMS>(parameters));
  });
}

void kernel_node_is_set_v1(Handle executable, Handle node, const void* parameters) {
  replace(executable, node, [=](Naming& naming) {
    const auto given = described<CUDA_KERNEL_NODE_PARAMS_v1>(parameters);
    CUDA_KERNEL_NODE_PARAMS kernel = {};
    kernel.func = given.func;
    kernel.kernelParams = given.kernelParams;
    kernel.extra = given.extra;
    naming.name_kernel(node, node, kernel);
  });
}

void copy_node_is_set(Handle executable, Handle node, const void* parameters) {
  replace(executable, node, [=](Naming& naming) {
    naming.name_copy(node, node, described<CUDA_MEMCPY3D>(parameters));
  });
}

void fill_node_is_set(Handle executable, Handle node, const void* parameters) {
  replace(executable, node, [=](Naming& naming) {
    naming.name_fill(node, node, described<CUDA_MEMSET_NODE_PARAMS>(parameters).dst);
  });
}

void child_node_is_set(Handle executable, Handle node, Handle child) {
  replace(executable, node, [=](Naming& naming) { naming.name_all(child, node, 1); });
}

void node_is_set(Handle executable, Handle node, const void* parameters) {
  const auto given = described<CUgraphNodeParams>(parameters);
  switch (given.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_node_is_set(executable, node, &given.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_node_is_set(executable, node, &given.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return fill_node_is_set(executable, node, &given.memset);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return child_node_is_set(executable, node, given.graph.graph);
    default:
      return;  // names no memory, or is not known to name any before and after
  }
}

void graph_is_ended(Handle executable) {
  if (!working_set_is_wanted()) return;
  const PlainLock lock(mutex);
  graphs->forget(executable);
}

void touch_graph(Handle executable) {
  Residency* memory = __atomic_load_n(&memory_of_touches, __ATOMIC_ACQUIRE);
  if (memory == nullptr) return;
  ToDo to_do;
  if (__atomic_load_n(&do_graphs_launch_graphs, __ATOMIC_RELAXED)) memory->named().touch_anything();
  {
    const PlainLock lock(mutex);
    NodeNames* names = graphs->find(executable);
    if (names == nullptr) memory->named().touch_anything();
    if (names != nullptr) touch_names(*memory, *names, to_do);
  }
  for (int i = 0; i < to_do.uploads; ++i) {
    note_written_references(*memory, to_do.upload[i].from, to_do.upload[i].bytes);
  }
  if (to_do.is_wanted) wait_until_fetched();
}

}  // namespace lambent::shim
