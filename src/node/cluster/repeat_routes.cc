#include "node/cluster/repeat_routes.h"

namespace lambent::cluster {

void RepeatRoutes::remember(const std::string& key, const std::string& node) {
  if (key.empty()) return;
  if (!nodes_.insert_or_assign(key, node).second) return;
  order_.push_back(key);
  if (order_.size() <= kMostRepeatRoutes) return;
  nodes_.erase(order_.front());
  order_.pop_front();
}

const std::string* RepeatRoutes::find(const std::string& key) const {
  const auto found = nodes_.find(key);
  return found == nodes_.end() ? nullptr : &found->second;
}

}  // namespace lambent::cluster
