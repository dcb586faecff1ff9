#include "node/worker/learnt_statistics.h"

#include <utility>

#include "node/worker/flow_of.h"

namespace lambent::worker {
namespace {

constexpr Duration kPeriod = seconds(5);

catalog::FunctionStatistics statistics_of(FunctionId id, const scheduling::Flow& flow) {
  catalog::FunctionStatistics statistics;
  statistics.tenant = flow.tenant;
  statistics.function = id;
  statistics.mean_execution = flow.execution.mean();
  statistics.mean_interarrival = flow.interarrival.mean();
  statistics.mean_cold_start = flow.cold_start.mean();
  statistics.executions = flow.execution.samples();
  statistics.arrivals = flow.interarrival.samples();
  statistics.cold_starts = flow.cold_start.samples();
  statistics.mean_host_execution = flow.host_execution.mean();
  statistics.mean_host_cold_start = flow.host_cold_start.mean();
  statistics.host_executions = flow.host_execution.samples();
  statistics.host_cold_starts = flow.host_cold_start.samples();
  return statistics;
}

}  // namespace

LearntStatistics::LearntStatistics(loop::EventLoop& loop, LogSink& log, catalog::Catalog& catalog,
                                   const FunctionRegistry& functions,
                                   const dispatch::Dispatcher& dispatcher)
    : loop_(loop), log_(log), catalog_(catalog), functions_(functions), dispatcher_(dispatcher) {
  save();
}

void LearntStatistics::restore(const std::vector<catalog::FunctionStatistics>& statistics) {
  for (const auto& each : statistics) saved_[each.function] = each;
}

const catalog::FunctionStatistics* LearntStatistics::find(FunctionId function) const {
  const auto found = saved_.find(function);
  return found != saved_.end() ? &found->second : nullptr;
}

void LearntStatistics::save() {
  std::vector<catalog::FunctionStatistics> changed;
  for (const FunctionId id : noted_) {
    is_noted_[id.value] = false;
    const scheduling::Flow* flow = flow_of(dispatcher_, id);
    if (flow == nullptr || functions_.find(id) == nullptr) continue;
    const auto statistics = statistics_of(id, *flow);
    const catalog::FunctionStatistics* known = find(id);
    if (known != nullptr && *known == statistics) continue;
    saved_[id] = statistics;
    changed.push_back(statistics);
  }
  noted_.clear();
  if (!changed.empty()) {
    catalog_.save_statistics(std::move(changed), [this](Result<void> saved) {
      if (!saved.ok()) log_.warning("statistics_not_saved", {{"error", to_string(saved.error())}});
    });
  }
  catalog_.expire_results(loop_.clock().wall_now(), [](Result<uint64_t>) {});
  timer_ = loop_.call_after(kPeriod, [this] { save(); });
}

}  // namespace lambent::worker
