#include "emulator/emulated_cuda/sm_resources.h"

#include <algorithm>
#include <cstring>

namespace lambent::emulated_cuda {

namespace {

constexpr uint32_t kMagic = 0x534d5231;  // "SMR1"

struct Hidden {
  uint32_t magic;
  int32_t partition;
  int32_t compute_major;
  uint32_t members_check;
  uint64_t split;
  uint64_t words[emulated_node::kMostMultiprocessors / 64];
};
static_assert(sizeof(Hidden) <= sizeof(CUdevResource::_internal_padding));

uint32_t check_of(const emulated_node::MultiprocessorSet& set) {
  uint64_t sum = 0x9e3779b97f4a7c15;
  for (uint64_t word : set.words) sum = (sum ^ word) * 0x100000001b3;
  return static_cast<uint32_t>(sum >> 32);
}

}  // namespace

SplitRule split_rule(int compute_major, unsigned flags) {
  if (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) return {2, 2};
  if (compute_major >= 9) return {8, 8};
  if (compute_major == 8) return {4, 2};
  return {2, 2};
}

CUdevResource pack(const SmResource& resource) {
  CUdevResource packed{};
  packed.type = CU_DEV_RESOURCE_TYPE_SM;
  SplitRule rule = split_rule(resource.compute_major, 0);
  packed.sm = {static_cast<unsigned>(resource.members.count()),
               static_cast<unsigned>(rule.smallest), static_cast<unsigned>(rule.multiple)};
  Hidden hidden{kMagic,
                resource.partition,
                resource.compute_major,
                check_of(resource.members),
                resource.split,
                {}};
  std::memcpy(hidden.words, resource.members.words, sizeof hidden.words);
  std::memcpy(packed._internal_padding, &hidden, sizeof hidden);
  return packed;
}

bool unpack(const CUdevResource& packed, SmResource* resource, CUresult* result) {
  *result = CUDA_ERROR_INVALID_RESOURCE_TYPE;
  if (packed.type != CU_DEV_RESOURCE_TYPE_SM) return false;
  Hidden hidden;
  std::memcpy(&hidden, packed._internal_padding, sizeof hidden);
  std::memcpy(resource->members.words, hidden.words, sizeof hidden.words);
  resource->partition = hidden.partition;
  resource->compute_major = hidden.compute_major;
  resource->split = hidden.split;
  *result = CUDA_ERROR_INVALID_VALUE;
  bool ours = hidden.magic == kMagic && hidden.members_check == check_of(resource->members);
  if (!ours || static_cast<int>(packed.sm.smCount) != resource->members.count()) return false;
  *result = CUDA_SUCCESS;
  return true;
}

int group_size(const SplitRule& rule, int least) {
  int rounded = (least + rule.multiple - 1) / rule.multiple * rule.multiple;
  return std::max(rule.smallest, rounded);
}

Split split(const SmResource& input, const SplitRule& rule, int least, int most, uint64_t id) {
  Split result;
  result.remaining = input;
  result.remaining.split = id;
  int size = group_size(rule, least);
  while (static_cast<int>(result.groups.size()) < most &&
         result.remaining.members.count() >= size) {
    SmResource group = result.remaining;
    group.members = group.members.lowest(size);
    result.remaining.members = result.remaining.members - group.members;
    result.groups.push_back(group);
  }
  return result;
}

}  // namespace lambent::emulated_cuda
