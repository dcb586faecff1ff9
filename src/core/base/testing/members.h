// How many members an aggregate has, for tests that a description of its fields forgets none. Test
// code only.
#pragma once

#include <cstddef>

namespace lambent {

struct AnyValue {
  template <typename Type>
  operator Type() const;  // NOLINT: conversions are what it is for
};

// With how many values of any type it can be made.
template <typename Aggregate, typename... Values>
constexpr size_t members() {
  if constexpr (requires { Aggregate{Values{}..., AnyValue{}}; }) {
    return members<Aggregate, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

}  // namespace lambent
