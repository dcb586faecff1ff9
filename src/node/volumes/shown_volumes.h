// ShownVolumes: which volumes sandboxes of functions may see: those that they were started with,
// which are not those of the function any more once it was changed. A value; on the loop thread.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "core/base/time.h"
#include "core/domain/function.h"
#include "core/domain/volume_source.h"

namespace lambent::volumes {

class ShownVolumes {
 public:
  // Sandboxes of the function that have started until now may see it.
  void note(const FunctionName& function, const VolumeName& volume, Instant now) {
    shown_[{function, volume}] = now;
  }
  // What those see that are there; `oldest`: of each function with sandboxes, when the first of
  // them started. All that none of them can have been shown is forgotten.
  std::set<VolumeName> seen(const std::map<FunctionName, Instant>& oldest) {
    std::erase_if(shown_, [&](const auto& each) {
      const auto first = oldest.find(each.first.first);
      return first == oldest.end() || first->second > each.second;
    });
    std::set<VolumeName> seen;
    for (const auto& [key, at] : shown_) seen.insert(key.second);
    return seen;
  }
  size_t size() const { return shown_.size(); }

 private:
  std::map<std::pair<FunctionName, VolumeName>, Instant> shown_;
};

}  // namespace lambent::volumes
