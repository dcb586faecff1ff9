// RepeatRoutes: to which node requests with an idempotency key went, so that their repeats follow.
// It forgets the oldest. A value; no threads.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>

namespace lambent::cluster {

constexpr size_t kMostRepeatRoutes = 16 * 1024;

class RepeatRoutes {
 public:
  // An empty key is none.
  void remember(const std::string& key, const std::string& node);
  // Null: it is not known. Until the next remember().
  const std::string* find(const std::string& key) const;

 private:
  std::unordered_map<std::string, std::string> nodes_;
  std::deque<std::string> order_;
};

}  // namespace lambent::cluster
