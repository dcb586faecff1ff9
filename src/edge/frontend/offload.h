// Work that takes longer than the loop may, done elsewhere. Free functions; loop thread.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "core/base/error.h"
#include "node/objects/spill_folder.h"

namespace lambent::frontend {

// To read, write or copy more takes longer than the loop may.
inline constexpr size_t kComputedAtOnce = 256 * 1024;

// Does `work`, of so many bytes, and then `then` on the loop: at once, or by `offload`. False, and
// neither is done: that takes no more.
inline bool compute(const objects::Disk& offload, size_t bytes, std::function<void()> work,
                    std::function<void()> then) {
  if (bytes > kComputedAtOnce) return offload(std::move(work), std::move(then));
  work();
  then();
  return true;
}

// What a client is told then.
inline Error overloaded() { return {ErrorCode::kUnavailable, "too much to do at once; try again"}; }

}  // namespace lambent::frontend
