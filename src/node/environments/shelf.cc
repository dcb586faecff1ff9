#include "node/environments/shelf.h"

#include <algorithm>

namespace lambent::environments {

void Shelf::add(const std::string& key, Bytes size, Duration used_at) {
  ready_[key] = {.size = size, .used_at = used_at};
}

void Shelf::touch(const std::set<std::string>& used, Duration now) {
  for (const std::string& key : used) {
    if (const auto found = ready_.find(key); found != ready_.end()) found->second.used_at = now;
  }
}

Bytes Shelf::size() const {
  Bytes all;
  for (const auto& [key, ready] : ready_) all += ready.size;
  return all;
}

std::vector<std::string> Shelf::to_evict(const std::set<std::string>& used, Bytes beside,
                                         Duration now, Duration grace) const {
  std::vector<std::pair<Duration, std::string>> unused;
  for (const auto& [key, ready] : ready_) {
    if (!used.contains(key) && ready.used_at + grace <= now)
      unused.emplace_back(ready.used_at, key);
  }
  std::ranges::sort(unused);
  std::vector<std::string> evicted;
  Bytes left = size() + beside;
  for (auto& [used_at, key] : unused) {
    if (left <= most_) break;
    left = left - ready_.at(key).size;
    evicted.push_back(std::move(key));
  }
  return evicted;
}

}  // namespace lambent::environments
