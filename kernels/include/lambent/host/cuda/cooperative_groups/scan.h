// Running sums over tiles and coalesced lanes, with an operation of the kernel's choice.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

template <typename Group, typename T, typename Operation>
LAMBENT_INLINE T inclusive_scan(const Group& group, T value, Operation operation) {
  const unsigned rank = group.thread_rank(), size = group.size();
  for (unsigned step = 1; step < size; step *= 2) {
    const T before = group.shfl_up(value, step);
    if (rank >= step) value = operation(before, value);
  }
  return value;
}
template <typename Group, typename T>
LAMBENT_INLINE T inclusive_scan(const Group& group, T value) {
  return inclusive_scan(group, value, plus<T>());
}

// Of the lanes before this one; the first gets T{}.
template <typename Group, typename T, typename Operation>
LAMBENT_INLINE T exclusive_scan(const Group& group, T value, Operation operation) {
  const T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
  return group.thread_rank() == 0 ? T{} : before;
}
template <typename Group, typename T>
LAMBENT_INLINE T exclusive_scan(const Group& group, T value) {
  return exclusive_scan(group, value, plus<T>());
}

}  // namespace cooperative_groups
