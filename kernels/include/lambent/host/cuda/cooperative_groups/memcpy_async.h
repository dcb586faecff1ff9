// Copies by the threads of a group, which are over when all have waited: the first thread makes
// them at once. Used by kernels on the host.
#pragma once

#include <cstddef>

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <typename Group>
void memcpy_async(const Group& group, void* to, const void* from, std::size_t bytes) {
  if (group.thread_rank() == 0) __builtin_memcpy(to, from, bytes);
}
// So many elements as both have room for.
template <typename Group, typename T>
void memcpy_async(const Group& group, T* to, std::size_t to_count, const T* from,
                  std::size_t from_count) {
  memcpy_async(group, to, from, sizeof(T) * (to_count < from_count ? to_count : from_count));
}

template <typename Group>
LAMBENT_INLINE void wait(const Group& group) {
  group.sync();
}
template <unsigned Prior, typename Group>
LAMBENT_INLINE void wait_prior(const Group& group) {
  group.sync();
}

}  // namespace cooperative_groups
