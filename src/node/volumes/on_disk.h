// run_on_disk: work on the thread of volumes, and what it gives on the loop thread. Used by
// VolumeStore and its uploads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/result.h"
#include "node/volumes/volume_store.h"

namespace lambent::volumes {

// `done` is called with what `work` gives, if `owner` is there then; at once if too much is
// waiting.
template <typename Value>
void run_on_disk(const Disk& disk, const std::weak_ptr<bool>& owner,
                 std::function<Result<Value>()> work, std::function<void(Result<Value>)> done) {
  auto result = std::make_shared<std::optional<Result<Value>>>();
  const bool queued = disk([result, work = std::move(work)] { result->emplace(work()); },
                           [result, owner, done] {
                             if (!owner.expired()) done(std::move(**result));
                           });
  if (queued) return;
  done(Error{ErrorCode::kResourceExhausted,
             "too much is done with volumes at once; try again later"});
}

}  // namespace lambent::volumes
