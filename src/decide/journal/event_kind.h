// An event by its kind, which is its place among the alternatives. Pure; used by what reads events.
#pragma once

#include <cstddef>
#include <type_traits>

#include "decide/dispatch/event.h"

namespace lambent::journal {

template <typename Kind, size_t Index = 0>
constexpr size_t kind_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<Index, dispatch::Event>, Kind>) {
    return Index;
  } else {
    return kind_of<Kind, Index + 1>();
  }
}

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
