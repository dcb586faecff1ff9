// Shelf: which environments are ready, how much they take, and which of them go when there is no
// room. Pure bookkeeping, without clock and disk; used by EnvironmentStore on the loop thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::environments {

class Shelf {
 public:
  explicit Shelf(Bytes most) : most_(most) {}

  // `used_at`: since the Unix epoch, as are all times here.
  void add(const std::string& key, Bytes size, Duration used_at);
  void remove(const std::string& key) { ready_.erase(key); }
  void resize(const std::string& key, Bytes size) { ready_.at(key).size = size; }
  bool contains(const std::string& key) const { return ready_.contains(key); }
  // Those that functions refer to are used now.
  void touch(const std::set<std::string>& used, Duration now);
  Bytes size() const;
  size_t count() const { return ready_.size(); }

  // What has to go for all of it to fit, with `beside` that is kept of downloads: the longest
  // unused first, none of `used` and none that was used within `grace` before `now`, because
  // sandboxes of an older revision may still run with it.
  std::vector<std::string> to_evict(const std::set<std::string>& used, Bytes beside, Duration now,
                                    Duration grace) const;
  bool fits(Bytes beside) const { return size() + beside <= most_; }
  Bytes most() const { return most_; }

 private:
  struct Ready {
    Bytes size;
    Duration used_at{};
  };

  const Bytes most_;
  std::map<std::string, Ready> ready_;
};

}  // namespace lambent::environments
