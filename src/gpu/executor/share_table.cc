#include "gpu/executor/share_table.h"

#include <algorithm>
#include <numeric>

namespace lambent::executor {

ShareTable::Part ShareTable::give(uint64_t user, uint32_t share) {
  take_back(user);
  const size_t wanted = uint64_t{multiprocessors_} * share / 100 / group_size_;
  if (share >= 100 || users_.size() < 2) return {{}, multiprocessors_};
  std::vector<uint32_t> groups(users_.size());
  std::iota(groups.begin(), groups.end(), 0);
  std::stable_sort(groups.begin(), groups.end(),
                   [this](uint32_t one, uint32_t other) { return users_[one] < users_[other]; });
  groups.resize(std::clamp<size_t>(wanted, 1, groups.size()));
  std::sort(groups.begin(), groups.end());
  for (const uint32_t group : groups) ++users_[group];
  given_[user] = groups;
  return {groups, static_cast<unsigned>(groups.size()) * group_size_};
}

void ShareTable::take_back(uint64_t user) {
  const auto given = given_.find(user);
  if (given == given_.end()) return;
  for (const uint32_t group : given->second) --users_[group];
  given_.erase(given);
}

}  // namespace lambent::executor
