// What confines the kernels of a process to a part of a device: green contexts, the share of a
// client of MPS, and a context's execution affinity. Used by the API functions and by launches.
#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "emulator/emulated_cuda/stream.h"
#include "emulator/emulated_node/contention.h"
#include "emulator/emulated_node/settings.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class Process;
struct Context;

// A descriptor that cuDevResourceGenerateDesc made; kept as long as the process, for CUDA has no
// call that destroys one.
struct ResourceDescriptor {
  int partition;
  emulated_node::MultiprocessorSet members;
};

struct GreenContext {
  int ordinal;
  uint64_t id;
  std::shared_ptr<Context> context;  // as CUcontext; its root is the primary context
};

// The terms on which a process is a client of MPS, from its environment.
struct MpsClient {
  bool active = false;
  int percentage = 100;                // of the multiprocessors, for all its kernels together
  int priority = 0;                    // 1: below normal
  std::map<int, uint64_t> most_bytes;  // of device memory, by ordinal
};
// "0=1G,1=512M": the most bytes of each device. What is not of this form is left out.
std::map<int, uint64_t> parse_memory_limits(std::string_view text);
MpsClient mps_client(const emulated_node::Settings& settings);

// The multiprocessors that a client's kernels may hold together; 0: as many as there are.
int mps_limit(const MpsClient& client, int multiprocessors);

// Fills in group, client, limit and set of a kernel that runs in `context`.
void confine(const Process& process, const Context& context, emulated_node::KernelDemand* demand);

// The primary context of a green one; itself of any other.
const Context* root_of(const Context& context);

// Whether the two handles of contexts are green contexts of the same primary one, or it.
bool same_root(const Process& process, const void* one, const void* other);

// The end of everything that is in the streams of the context now.
std::vector<CompletionPtr> ends_of(Context& context);

}  // namespace lambent::emulated_cuda
