#include "decide/slice_scheduling/infless.h"

#include <algorithm>

namespace lambent::slice_scheduling {
namespace {

bool changes_anything(const std::vector<Decision>& decisions) {
  return std::ranges::any_of(
      decisions, [](const Decision& one) { return !std::holds_alternative<AskAgain>(one); });
}

}  // namespace

void InflessPolicy::decide(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) {
  functions_.watch(world, now);
  for (const FunctionState* function : WholeFunctions::by_deadline(world)) {
    if (functions_.refuse_what_cannot_be(world, *function, decisions)) continue;
    serve(world, *function, now, decisions);
  }
  if (changes_anything(decisions)) return;
  for (const FunctionState* function : functions_.by_need(world)) {
    scale_out(world, *function, now, decisions);
    if (changes_anything(decisions)) return;
  }
  functions_.retire_idle(world, now, decisions);
}

void InflessPolicy::serve(const SliceWorld& world, const FunctionState& function, Instant now,
                          std::vector<Decision>& decisions) const {
  // Those that give most for their multiprocessors first.
  std::vector<const Instance*> idle;
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (!instance.is_open()) continue;
    if (instance.has_place(now)) {
      idle.push_back(&instance);
    } else if (!function.queue.empty()) {
      decisions.push_back(AskAgain{instance.ahead_at()});
    }
  }
  const auto cost = [&](const Instance* instance) {
    return WholeFunctions::shape_of(world, *instance).multiprocessors *
           to_seconds(instance->latency());
  };
  std::ranges::stable_sort(idle,
                           [&](const Instance* a, const Instance* b) { return cost(a) < cost(b); });
  const size_t most = std::max(1U, function.function->most_batch);
  const Duration slo = function.function->slo;
  size_t next = 0;
  for (const Instance* instance : idle) {
    if (next == function.queue.size()) return;
    // As many together as are done within the SLO.
    size_t batch = 1;
    while (batch < most && instance->latency_of(batch + 1) <= slo) ++batch;
    const size_t there = std::min(batch, function.queue.size() - next);
    if (there < batch && slo > Duration::zero()) {
      // Not a full batch yet: it may wait for more while there is time.
      const double spare_s = to_seconds(slo - instance->latency_of(batch)) * options_.batch_wait;
      const Instant until = function.queue[next].submitted + from_seconds(std::max(0.0, spare_s));
      if (until > now) {
        decisions.push_back(AskAgain{until});
        return;
      }
    }
    Assign assign{{}, instance->id};
    for (size_t i = 0; i < there; ++i) assign.requests.push_back(function.queue[next++].id);
    decisions.push_back(std::move(assign));
  }
}

void InflessPolicy::scale_out(const SliceWorld& world, const FunctionState& function, Instant now,
                              std::vector<Decision>& decisions) {
  if (function.start_again_at > now) {
    decisions.push_back(AskAgain{function.start_again_at});
    return;
  }
  // What the rate asks for, and what is queued worked off by when a new one would be ready.
  const auto& options = functions_.options_of(world, function);
  const double capacity = WholeFunctions::capacity_per_s(world, function);
  const double rate =
      std::max(functions_.arrivals_per_s(function.function->id), function.arrivals_per_s);
  const double until_ready_s = std::max(0.1, to_seconds(options.front().until_ready));
  const double queued = static_cast<double>(function.queue.size());
  const double wanted = std::max(options_.headroom * rate, rate + queued / until_ready_s);
  if (capacity > 0 && capacity >= wanted) return;
  if (auto placement = functions_.place(world, function)) {
    decisions.push_back(Start{function.function->id, std::move(*placement)});
    return;
  }
  functions_.make_room(world, function, now, decisions);
}

}  // namespace lambent::slice_scheduling
