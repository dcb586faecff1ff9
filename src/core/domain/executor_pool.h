// ExecutorPool: when functions that share a GPU runtime have memory for their buffers. A value;
// from command lines to executors.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lambent {

enum class ExecutorPool : uint8_t {
  kResilient,    // from a request to some time after the last one
  kFineGrained,  // from the first request on
  kStatic,       // from when it is loaded on
  kLayered,      // temporaries from the first layer of a request that uses them to the last, from a
                 // pool that grows ahead and shrinks; the rest as the first
  kLayeredFineGrained,  // the same from a pool that keeps what it has once; the rest as the second
};
constexpr std::array kExecutorPools = {ExecutorPool::kResilient, ExecutorPool::kFineGrained,
                                       ExecutorPool::kStatic, ExecutorPool::kLayered,
                                       ExecutorPool::kLayeredFineGrained};

constexpr std::string_view name_of(ExecutorPool pool) {
  constexpr std::array<std::string_view, kExecutorPools.size()> kNames = {
      "resilient", "fine-grained", "static", "layered", "layered-fine-grained"};
  return kNames[static_cast<size_t>(pool)];
}

}  // namespace lambent
