// ModelledNode: one node of a simulated cluster: places for runs, one queue, and idle sandboxes
// whose GPU memory makes room for others, first to the host, then for good. Pure; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/routing/node_view.h"

namespace lambent::cluster_simulator {

struct FunctionModel {
  Duration run{};    // warm
  Duration start{};  // what a cold start adds
  Bytes memory;      // on the GPU
  // The part of the start in which packages and weights are read, and so many bytes of them: a node
  // that still has them in its host's memory does without.
  Duration fetch = {};
  Bytes files = {};
};

struct NodeModel {
  uint32_t gpus = 8;
  uint32_t runs_per_gpu = 2;
  Bytes gpu_memory = Bytes::gib(16);   // of each
  Bytes host_memory = Bytes::gib(64);  // for what is swapped out
  double link_bytes_per_s = 12e9;      // between them
  Bytes page_cache = Bytes::gib(64);   // of the host, for files that were read

  uint32_t slots() const { return gpus * runs_per_gpu; }
};

enum class Start { kWarm, kSwapIn, kCold };

class ModelledNode {
 public:
  struct Begun {
    uint64_t invocation = 0;
    uint32_t function = 0;
    Start start = Start::kCold;
    bool fetched = false;  // of a cold start: without reading files
    Duration takes{};
  };

  ModelledNode(const NodeModel& model, const std::vector<FunctionModel>& functions)
      : model_(model), functions_(functions) {}

  void submit(uint64_t invocation, uint32_t function) { queue_.emplace_back(invocation, function); }
  // The next one that waits, if there is a place and memory for it.
  std::optional<Begun> begin();
  // A run that began ended: its sandbox is idle.
  void end(uint32_t function);

  uint32_t load() const { return running_ + static_cast<uint32_t>(queue_.size()); }
  routing::Warmth warmth(uint32_t function) const;
  // With what idle sandboxes hold, for it can be had.
  Bytes memory_free() const { return total_memory() - busy_memory_; }
  // The functions of which it has something, in order.
  std::vector<std::pair<uint32_t, routing::Warmth>> warm_functions() const;

 private:
  // Idle sandboxes in the order of their last use, the oldest first.
  struct Idle {
    uint64_t used;
    uint32_t function;
    auto operator<=>(const Idle&) const = default;
  };
  struct Pool {
    std::set<Idle> by_use;
    std::unordered_map<uint32_t, std::deque<uint64_t>> by_function;  // when they were used
    Bytes memory;
    void add(Idle sandbox, Bytes size);
    bool has(uint32_t function) const { return by_function.contains(function); }
    void take(uint32_t function, Bytes size);  // the latest used
    Idle take_oldest(const std::vector<FunctionModel>& functions);
  };

  Bytes total_memory() const { return Bytes(model_.gpu_memory.count * model_.gpus); }
  void make_room(Bytes size);
  // Whether the function's files are here; they are from now on.
  bool read_files(uint32_t function);

  const NodeModel& model_;
  const std::vector<FunctionModel>& functions_;
  std::deque<std::pair<uint64_t, uint32_t>> queue_;
  uint32_t running_ = 0;
  uint64_t uses_ = 0;
  Bytes busy_memory_;
  Pool resident_, swapped_;
  // Files by their last use, the oldest first, and the use of each function's.
  std::set<Idle> files_by_use_;
  std::unordered_map<uint32_t, uint64_t> files_;
  Bytes files_size_;
};

}  // namespace lambent::cluster_simulator
