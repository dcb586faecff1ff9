// KernelGraphs: graphs of kernels that came with requests, kept as kernel functions that end with
// the worker: bounded, and those go first that were used least recently and do nothing. Beside
// Worker, on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/domain/invocation_service.h"
#include "core/domain/kernel_graph_service.h"
#include "core/loop/event_loop.h"
#include "node/catalog/catalog.h"
#include "node/worker/function_quotas.h"
#include "node/worker/limits.h"

namespace lambent::worker {

struct KernelGraphLimits {
  size_t per_tenant = limits::kKeptGraphsPerTenant;
  size_t all = limits::kKeptGraphs;
  Duration rest = limits::kKeptGraphRest;  // of one without a request until it goes
};

class KernelGraphs final : public KernelGraphService {
 public:
  // All outlive it; the constructor uses none.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    catalog::Catalog& catalog;
    InvocationService& service;
    const FunctionQuotas& quotas;
    std::function<Bytes(TenantId)> used_disk;    // as these count it
    std::function<bool(FunctionId)> is_at_work;  // something of it runs or waits
    Duration longest_gpu_run{};
  };

  KernelGraphs(Dependencies dependencies, KernelGraphLimits limits)
      : uses_(std::move(dependencies)), limits_(limits) {}
  ~KernelGraphs() override;
  KernelGraphs(const KernelGraphs&) = delete;
  KernelGraphs& operator=(const KernelGraphs&) = delete;

  Result<KeptGraph> find_graph(TenantId tenant, const std::string& digest) override;
  void put_graph(TenantId tenant, std::string digest, std::string package,
                 Callback<KeptGraph> done) override;
  std::vector<KeptGraph> list_graphs(TenantId tenant) const override;
  Result<KeptGraph> remove_graph(TenantId tenant, const std::string& digest) override;
  // The tenant is gone.
  void remove_all(TenantId tenant);

 private:
  using Key = std::pair<TenantId, std::string>;
  // The id of a function, and the revision that it had last: functions are counted by their ids, so
  // these are used again.
  struct Slot {
    FunctionId id;
    uint64_t revision = 0;
  };
  struct Graph {
    KeptGraph kept;
    Slot slot;
    uint64_t use = 0;  // when it was used last, in order
  };
  using Graphs = std::map<Key, Graph>;
  struct Arrival {
    FunctionName function;
    std::vector<Callback<KeptGraph>> waiting;
    bool is_unwanted = false;  // its tenant went meanwhile
  };

  void touch(Graph& graph);
  // The least recently used of those that do nothing; of one tenant, or of all.
  Graphs::iterator oldest_at_rest(std::optional<TenantId> tenant);
  size_t count(TenantId tenant) const;
  Bytes resting(TenantId tenant) const;
  bool is_taken(const FunctionName& name) const;
  FunctionName name_of(const Key& key) const;
  Result<void> make_room(TenantId tenant, Bytes package);
  void take_slot(std::function<void(Result<Slot>)> done);
  void keep(const Key& key, std::string package, Slot slot);
  void finish(const Key& key, Slot slot, Result<FunctionSpec> stored);
  void evict(Graphs::iterator graph);
  void evict_resting();
  void remove_function(const FunctionName& name, Slot slot);
  void remove_leaving();

  const Dependencies uses_;
  const KernelGraphLimits limits_;
  Graphs graphs_;
  std::map<Key, Arrival> arriving_;
  std::vector<Slot> free_;
  // Functions of graphs that were evicted and could not be removed yet, and whose ids they have.
  std::vector<std::pair<FunctionName, Slot>> leaving_;
  uint64_t uses_of_all_ = 0;
  loop::TimerId timer_;
  bool timed_ = false;
};

}  // namespace lambent::worker
