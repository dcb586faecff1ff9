// An event by its kind, which is its place among the alternatives. Pure; used by what reads events.
#pragma once

#include "dispatch/event.h"

namespace lambent::journal {

// Makes `event` one of this kind, with nothing in it; as it was if there is no such kind.
template <size_t Index = 0>
void emplace_kind(dispatch::Event& event, size_t kind) {
  if constexpr (Index < std::variant_size_v<dispatch::Event>) {
    if (kind == Index) {
      event.emplace<Index>();
    } else {
      emplace_kind<Index + 1>(event, kind);
    }
  }
}

}  // namespace lambent::journal
