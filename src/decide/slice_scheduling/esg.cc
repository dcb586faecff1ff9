#include "decide/slice_scheduling/esg.h"

#include <algorithm>
#include <queue>

#include "decide/slice_scheduling/batch_size.h"

namespace lambent::slice_scheduling {
namespace {

// A way to serve the first `served` requests.
struct Path {
  double bound = 0;  // its cost, and the least that the others will cost
  double cost = 0;
  size_t served = 0;
  std::vector<Instant> free;  // by resource
  std::vector<EsgStep> steps;
  bool operator>(const Path& other) const {
    return bound != other.bound ? bound > other.bound : served < other.served;
  }
};

// The batches of at most so many requests that a search looks at: where some were measured, those
// sizes and all that wait; else all sizes, as none costs more or less for each request.
std::vector<EsgBatch> batches_of(const Instance& instance, size_t most) {
  std::vector<EsgBatch> batches;
  const auto add = [&](size_t requests) {
    batches.push_back({requests, instance.latency_of(requests)});
  };
  if (instance.placement.batches.empty()) {
    for (size_t requests = 1; requests <= most; ++requests) add(requests);
    return batches;
  }
  if (most > 1) add(1);
  for (const pipeline::BatchTiming& each : instance.placement.batches) {
    if (each.requests < most) add(each.requests);
  }
  add(most);
  return batches;
}

}  // namespace

std::vector<EsgStep> esg_search(const std::vector<Instant>& deadlines,
                                const std::vector<EsgResource>& resources, size_t most_states) {
  // Of one request, in the batch in which it costs least: no way to serve the rest costs less.
  double least_cost = 0;
  for (const EsgResource& resource : resources) {
    for (const EsgBatch& batch : resource.batches) {
      const double cost =
          to_seconds(batch.time) / static_cast<double>(batch.requests) * resource.cost_per_s;
      if (least_cost == 0 || cost < least_cost) least_cost = cost;
    }
  }
  const auto left = [&](size_t served) {
    return least_cost * static_cast<double>(deadlines.size() - served);
  };
  // Of those that cost the same only the one that is free first: others cannot be better.
  const auto is_next_of_its_kind = [&](const Path& path, size_t i) {
    for (size_t other = 0; other < resources.size(); ++other) {
      if (resources[other].cost_per_s != resources[i].cost_per_s) continue;
      if (path.free[other] < path.free[i]) return false;
      if (path.free[other] == path.free[i] && other < i) return false;
    }
    return true;
  };
  std::priority_queue<Path, std::vector<Path>, std::greater<>> open;
  Path first{left(0), 0, 0, {}, {}};
  for (const EsgResource& resource : resources) first.free.push_back(resource.free);
  open.push(first);
  double best = -1;
  for (size_t states = 0; !open.empty() && states < most_states; ++states) {
    const Path path = open.top();
    open.pop();
    if (path.served == deadlines.size()) return path.steps;
    for (size_t i = 0; i < resources.size(); ++i) {
      if (!is_next_of_its_kind(path, i)) continue;
      for (const auto& [requests, time] : resources[i].batches) {
        if (path.served + requests > deadlines.size()) break;
        const Instant done = path.free[i] + time;
        // By time: the first of them is the most urgent one.
        if (done > deadlines[path.served]) break;
        Path next = path;
        next.cost += to_seconds(time) * resources[i].cost_per_s;
        next.served += requests;
        next.bound = next.cost + left(next.served);
        // By cost: a way to serve all is known that is as cheap.
        if (best >= 0 && next.bound >= best) continue;
        if (next.served == deadlines.size()) best = next.bound;
        next.free[i] = done;
        next.steps.push_back({i, requests});
        open.push(std::move(next));
      }
    }
  }
  return {};
}

void EsgPolicy::decide(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) {
  functions_.watch(world, now);
  const auto is_change = [&] {
    return !decisions.empty() && !std::holds_alternative<AskAgain>(decisions.back());
  };
  for (const FunctionState* function : WholeFunctions::by_deadline(world)) {
    if (functions_.refuse_what_cannot_be(world, *function, decisions)) return;
    serve(world, *function, now, decisions);
    if (is_change()) return;  // what was decided has to happen before the next search
  }
  for (const FunctionState* function : functions_.by_need(world)) {
    scale_out(world, *function, now, decisions);
    if (is_change()) return;
  }
  functions_.retire_idle(world, now, decisions);
}

void EsgPolicy::serve(const SliceWorld& world, const FunctionState& function, Instant now,
                      std::vector<Decision>& decisions) {
  std::vector<const Instance*> instances;
  bool any_idle = false, any_batches = false;
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (!instance.is_open()) continue;
    const bool has_place = instance.has_place(now);
    any_idle = any_idle || has_place;
    any_batches = any_batches || !instance.placement.batches.empty();
    if (!has_place) decisions.push_back(AskAgain{instance.ahead_at()});
    instances.push_back(&instance);
  }
  if (!any_idle) return;
  const size_t most_batch = std::max(1U, function.function->most_batch);
  const size_t depth = any_batches ? std::max(options_.depth, most_batch) : options_.depth;
  std::vector<Instant> deadlines;
  for (const QueuedRequest& request : function.queue) {
    if (deadlines.size() == depth) break;
    deadlines.push_back(request.deadline);
  }
  std::vector<EsgResource> resources;
  for (const Instance* instance : instances) {
    resources.push_back(
        {std::max(now, instance->busy_until),
         batches_of(*instance, std::min(most_batch, deadlines.size())),
         static_cast<double>(WholeFunctions::shape_of(world, *instance).multiprocessors)});
  }
  size_t next = 0;
  for (const EsgStep& step : esg_search(deadlines, resources, options_.most_states)) {
    const size_t first = next;
    next += step.requests;
    if (!instances[step.resource]->has_place(now)) continue;
    Assign assign{{}, instances[step.resource]->id};
    for (size_t i = first; i < next; ++i) assign.requests.push_back(function.queue[i].id);
    decisions.push_back(std::move(assign));
    return;  // the next search knows of it
  }
  if (next > 0) return;  // it is cheaper to wait for one that is busy, and in time
  // Not all can be in time: as soon as can be, on the fastest.
  const Instance* fastest = nullptr;
  for (const Instance* instance : instances) {
    if (instance->has_place(now) && (!fastest || instance->latency() < fastest->latency())) {
      fastest = instance;
    }
  }
  // Where batches were measured, as many as it has most results a second with.
  const size_t together = fastest->placement.batches.empty()
                              ? 1
                              : batch_size(*fastest,
                                           {.waiting = function.queue.size(),
                                            .most = function.function->most_batch,
                                            .slo = function.function->slo,
                                            .due = function.queue.front().deadline},
                                           now);
  Assign assign{{}, fastest->id};
  for (size_t i = 0; i < together; ++i) assign.requests.push_back(function.queue[i].id);
  decisions.push_back(std::move(assign));
}

void EsgPolicy::scale_out(const SliceWorld& world, const FunctionState& function, Instant now,
                          std::vector<Decision>& decisions) {
  if (function.start_again_at > now) {
    decisions.push_back(AskAgain{function.start_again_at});
    return;
  }
  const auto& options = functions_.options_of(world, function);
  const Duration slo = function.function->slo;
  Duration quickest = options.front().latency;
  for (const auto& option : options) quickest = std::min(quickest, option.latency);
  const double spare_s = slo > quickest ? options_.slack * to_seconds(slo - quickest) : 0;
  const Duration until_ready = options.front().until_ready;
  const double capacity = WholeFunctions::capacity_per_s(world, function);
  const double rate =
      std::max(functions_.arrivals_per_s(function.function->id), function.arrivals_per_s);
  const bool is_short = capacity < options_.headroom * rate;
  if (!is_short && functions_.left_over(world, function, until_ready, from_seconds(spare_s)) <= 0) {
    return;
  }
  if (auto placement = functions_.place(world, function)) {
    decisions.push_back(Start{function.function->id, std::move(*placement)});
    return;
  }
  functions_.make_room(world, function, now, decisions);
}

}  // namespace lambent::slice_scheduling
