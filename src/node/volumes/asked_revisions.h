// AskedRevisions: for which revision of each function the keeper of volumes was asked last, of so
// many functions at most. A value; on the loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "core/base/ids.h"

namespace lambent::volumes {

class AskedRevisions {
 public:
  // With one function more all are forgotten. Each is then asked for once more when it is called.
  static constexpr size_t kMost = 20'000;

  void note(FunctionId function, uint64_t revision) {
    if (revisions_.size() >= kMost && !revisions_.contains(function)) revisions_.clear();
    revisions_[function] = revision;
  }
  bool has(FunctionId function, uint64_t revision) const {
    const auto found = revisions_.find(function);
    return found != revisions_.end() && found->second == revision;
  }
  size_t size() const { return revisions_.size(); }

 private:
  std::unordered_map<FunctionId, uint64_t> revisions_;
};

}  // namespace lambent::volumes
