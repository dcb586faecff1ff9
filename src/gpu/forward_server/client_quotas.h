// ClientQuotas: how many things of each kind all processes of a client may hold together. Device
// memory is limited apart (client_memory.h); these cost the executor and its driver in other ways.
// Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace lambent::forward_server {

class Quota {
 public:
  explicit Quota(uint64_t most) : most_(most) {}

  // False, and nothing is taken, if so many more would be too many.
  bool take(uint64_t count = 1) {
    const uint64_t before = taken_.fetch_add(count);
    if (before <= most_ && count <= most_ - before) return true;
    taken_.fetch_sub(count);
    return false;
  }
  // For what cannot be refused.
  void take_anyway() { taken_.fetch_add(1); }
  void give_back(uint64_t count = 1) { taken_.fetch_sub(count); }

 private:
  const uint64_t most_;
  std::atomic<uint64_t> taken_{0};
};

struct ClientQuotas {
  Quota streams{1024};  // with those that are destroyed and have work
  Quota events{1 << 16};
  Quota modules{1 << 12};
  Quota functions{1 << 16};
  // Executable graphs, with those that are destroyed and may run, and the nodes of them all.
  Quota graphs{4096};
  Quota graph_nodes{1 << 18};
  Quota exports{4096};  // allocations that others may hold, too
};

}  // namespace lambent::forward_server
