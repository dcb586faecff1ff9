// CodeCounts: how many records have each code, by its digest, and which codes have lost their last
// one. Pure; a part of FunctionRegistry and Revisions, on the loop thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lambent::worker {

class CodeCounts {
 public:
  void add(const std::string& sha256) { ++counts_[sha256]; }
  void drop(const std::string& sha256) {
    const auto found = counts_.find(sha256);
    if (found == counts_.end() || --found->second > 0) return;
    counts_.erase(found);
    released_.push_back(sha256);
  }

  bool contains(const std::string& sha256) const { return counts_.contains(sha256); }
  void add_to(std::set<std::string>& all) const {
    for (const auto& [sha256, count] : counts_) all.insert(sha256);
  }
  // That lost their last record since this was asked; some have one again.
  std::vector<std::string> take_released() { return std::exchange(released_, {}); }

 private:
  std::unordered_map<std::string, uint32_t> counts_;
  std::vector<std::string> released_;
};

}  // namespace lambent::worker
