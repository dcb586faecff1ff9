// The arithmetic of multiprocessor resources: what a device offers and how it splits. Pure values,
// any thread. What a CUdevResource hides in its padding is written and read only here.
#pragma once

#include <vector>

#include "emulator/emulated_node/multiprocessor_set.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

// What groups of multiprocessors must be on this architecture.
struct SplitRule {
  int smallest;
  int multiple;
};
SplitRule split_rule(int compute_major, unsigned flags);

struct SmResource {
  int partition = 0;  // of the node
  int compute_major = 0;
  // 0: of a device or context, which can be split; otherwise the call that made it, whose results
  // cannot.
  uint64_t split = 0;
  emulated_node::MultiprocessorSet members{};
};

CUdevResource pack(const SmResource& resource);
// False if the resource is of another type or was not made by pack(); `result` says which.
bool unpack(const CUdevResource& packed, SmResource* resource, CUresult* result);

// How many multiprocessors each group gets when at least `least` are asked for.
int group_size(const SplitRule& rule, int least);

// Disjoint groups of equal size from the lowest members on, at most `most` of them, and the rest.
struct Split {
  std::vector<SmResource> groups;
  SmResource remaining;
};
Split split(const SmResource& input, const SplitRule& rule, int least, int most, uint64_t id);

}  // namespace lambent::emulated_cuda
