// FetchedFunctions: the functions that were warm on this node lately: what they read to start is
// probably still in the host's memory. Pure; on the loop thread.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "decide/routing/node_view.h"

namespace lambent::cluster {

class FetchedFunctions {
 public:
  // The oldest are forgotten beyond `most`, and each so long after it was warm last.
  FetchedFunctions(size_t most, Duration keeps) : most_(most), keeps_(keeps) {}

  // What is warm now, sorted by function, as in a report.
  void note(const std::vector<std::pair<uint64_t, routing::Warmth>>& warm, Instant now);
  // Those that were warm and are not, sorted.
  std::vector<uint64_t> list(const std::vector<std::pair<uint64_t, routing::Warmth>>& warm) const;

 private:
  struct Seen {
    uint64_t function = 0;
    Instant at{};
  };

  const size_t most_;
  const Duration keeps_;
  std::list<Seen> seen_;  // the one that was warm last at the end
  std::unordered_map<uint64_t, std::list<Seen>::iterator> places_;
};

}  // namespace lambent::cluster
