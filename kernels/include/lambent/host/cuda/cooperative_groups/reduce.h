// Reductions over tiles and coalesced lanes, with an operation of the kernel's choice.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

#define LAMBENT_GROUP_OPERATION(name, expression)       \
  template <typename T = void>                          \
  struct name {                                         \
    T operator()(T a, T b) const { return expression; } \
  };
LAMBENT_GROUP_OPERATION(plus, a + b)
LAMBENT_GROUP_OPERATION(less, b < a ? b : a)
LAMBENT_GROUP_OPERATION(greater, a < b ? b : a)
LAMBENT_GROUP_OPERATION(bit_and, a& b)
LAMBENT_GROUP_OPERATION(bit_or, a | b)
LAMBENT_GROUP_OPERATION(bit_xor, a ^ b)
#undef LAMBENT_GROUP_OPERATION

// Every lane gets the result. Lanes are taken in the order of their ranks.
template <typename Group, typename T, typename Operation>
LAMBENT_INLINE T reduce(const Group& group, T value, Operation operation) {
  T result = group.shfl(value, 0);
  const unsigned size = group.size();
  for (unsigned rank = 1; rank < size; ++rank) {
    result = operation(result, group.shfl(value, static_cast<int>(rank)));
  }
  return result;
}

// Of a tile: pairs, then pairs of pairs.
template <unsigned Size, typename Parent, typename T, typename Operation>
LAMBENT_INLINE T reduce(const thread_block_tile<Size, Parent>& group, T value,
                        Operation operation) {
  for (unsigned step = 1; step < Size; step *= 2) {
    value = operation(value, group.shfl_xor(value, step));
  }
  return value;
}

template <unsigned Size, typename Parent, typename T, typename Operation>
requires(Size > lambent::host::kWarp) LAMBENT_INLINE T
    reduce(const thread_block_tile<Size, Parent>& group, T value, Operation operation) {
  return group.reduced(value, operation);
}

}  // namespace cooperative_groups
