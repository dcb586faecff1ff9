// INFless's scaler: processes of unlike sizes, as many as the rate of each function asks for.
#include <algorithm>

#include "bench/paper_streambox/node.h"

namespace lambent::paper_streambox {
namespace {

constexpr double kLookEvery_s = 0.25;

Bytes whole_bytes(double bytes) { return Bytes(static_cast<uint64_t>(std::max(0.0, bytes))); }

}  // namespace

// The function's part of the time that a request may take: of the longest way through it.
double Node::slo_of(uint32_t component) const {
  const auto alone_s = [&](uint32_t one) {
    return models_[static_cast<size_t>(workflow_.components[one].network)].batches[0].alone_s;
  };
  std::vector<double> from_s(workflow_.components.size());  // to the end, with itself
  for (size_t i = workflow_.components.size(); i-- > 0;) {
    from_s[i] += alone_s(static_cast<uint32_t>(i));
    const int parent = workflow_.components[i].parent;
    if (parent == kRequest) continue;
    double& longest = from_s[static_cast<size_t>(parent)];
    longest = std::max(longest, from_s[i]);
  }
  double way_s = from_s[component];
  for (int parent = workflow_.components[component].parent; parent != kRequest;
       parent = workflow_.components[static_cast<size_t>(parent)].parent) {
    way_s += alone_s(static_cast<uint32_t>(parent));
  }
  return to_seconds(setup_.scaler.slo) * alone_s(component) / way_s;
}

// As many as one of such a share runs together within the function's SLO, whatever it was counted
// for.
uint32_t Node::most_together(const Function& function, double share) const {
  const Duration slo = from_seconds(slo_of(function.component));
  uint32_t most = 1;
  for (const scheduling::InstanceShape& shape : function.shapes) {
    if (shape.share == share && shape.execution <= slo) most = std::max(most, shape.batch);
  }
  return most;
}

void Node::prepare_scaler(Function& function) {
  const Model& model = this->model(function);
  for (uint32_t batch = 1; batch <= setup_.batch; batch *= 2) {
    const BatchModel& one = model.batches[batch - 1];
    for (const double share : setup_.shares) {
      const double execution_s = one.alone_s * one.demand / std::min(one.demand, share);
      const auto activations = static_cast<double>(one.profile.peak().count);
      function.shapes.push_back({.batch = batch,
                                 .share = share,
                                 .execution = from_seconds(execution_s),
                                 .memory = whole_bytes(constants_.runtime_bytes + activations)});
    }
  }
  scheduling::InflessScalerOptions options = setup_.scaler;
  options.slo = from_seconds(slo_of(function.component));
  function.scaler = std::make_unique<scheduling::InflessScaler>(function.shapes, options);
}

void Node::serve_scaled(Function& function) {
  const Model& model = this->model(function);
  while (!function.queue.empty()) {
    Process* best = nullptr;
    for (Process& process : processes_) {
      if (process.function != &function || !process.ready || process.works > 0) continue;
      const auto rank = [&](const Process& one) {
        return std::pair(-one.share, devices_[one.device]->jobs);
      };
      if (best == nullptr || rank(process) < rank(*best)) best = &process;
    }
    if (best == nullptr) break;
    const size_t most = std::min<size_t>(best->batch, function.queue.size());
    Weights& weights = weights_of(function.tenant, best->device, model.network);
    const double needs = activations_of(*best, most) + (weights.there ? 0 : model.weight_bytes);
    ++weights.users;  // or they would make the room
    const bool fits = make_room(best->device, needs, function.tenant);
    --weights.users;
    if (!fits) break;
    std::vector<Call> calls = take_calls(function, most);
    if (calls.empty()) continue;
    ++best->works;
    ++function.works;
    charge(best->device, activations_of(*best, calls.size()));
    begin(function, best->device, best, std::move(calls), 0);
  }
  if (function.queue.empty() && function.works == 0) {
    function.scaler->idle(Instant(from_seconds(events_.now())));
  }
  const bool is_called = !function.queue.empty() || function.works > 0;
  const bool sleeps =
      function.looks_at_s < 0 || (is_called && function.looks_at_s > events_.now() + kLookEvery_s);
  if (sleeps || (function.alive == 0 && is_called)) look_at_scaler(function);
}

scheduling::ScalerStep Node::scaler_step(const Function& function) {
  std::vector<scheduling::ScaledInstance> instances;
  std::vector<scheduling::ScalerDevice> devices;
  for (uint32_t device = 0; device < setup_.devices; ++device) {
    const Model& model = this->model(function);
    const bool there = weights_of(function.tenant, device, model.network).there;
    devices.push_back({.share = setup_.promised,
                       .free = whole_bytes(free_bytes(device)),
                       .memory = whole_bytes(constants_.device_memory),
                       .weights = whole_bytes(there ? 0 : model.weight_bytes)});
  }
  for (const Process& process : processes_) {
    devices[process.device].share -= process.share;
    if (process.function != &function) continue;
    instances.push_back({.id = process.number,
                         .shape = process.shape,
                         .busy = !process.ready || process.works > 0,
                         .idle_since = Instant(from_seconds(process.idle_since_s))});
  }
  return function.scaler->step(instances, devices, Instant(from_seconds(events_.now())));
}

void Node::look_at_scaler(Function& function) {
  constexpr int kMostVictims = 8;
  scheduling::ScalerStep step = scaler_step(function);
  for (int victims = 0; victims < kMostVictims; ++victims) {
    // Calls that wait may have the room of functions without any.
    if (step.unserved <= 0 || function.queue.empty()) break;
    Process* victim = longest_idle(function);
    if (victim == nullptr) break;
    stop(victim);
    step = scaler_step(function);
  }
  for (const auto& start : step.starts) start_scaled(function, start);
  for (const uint64_t number : step.stops) {
    stop(&*std::ranges::find(processes_, number, &Process::number));
  }
  // While the function is called the rate changes; else only what the scaler waits for does.
  double next_s = events_.now() + kLookEvery_s;
  if (function.queue.empty() && function.works == 0) {
    next_s = step.again == kNever ? -1 : to_seconds(step.again.time_since_epoch()) + 1e-6;
  }
  function.looks_at_s = next_s;
  if (next_s < 0) return;
  events_.at(next_s, [this, &function, next_s] {
    if (function.looks_at_s == next_s) look_at_scaler(function);
  });
}

void Node::start_scaled(Function& function, scheduling::ScalerStep::Start start) {
  const scheduling::InstanceShape& shape = function.shapes[start.shape];
  charge(start.device, constants_.runtime_bytes);
  begin_process({.function = &function,
                 .device = start.device,
                 .bytes = constants_.runtime_bytes,
                 .shape = start.shape,
                 .share = shape.share,
                 .batch = most_together(function, shape.share)},
                [this](Process* process) {
                  const Function& function = *process->function;
                  const Model& model = this->model(function);
                  Weights& weights = weights_of(function.tenant, process->device, model.network);
                  const double needs = weights.there ? 0 : model.weight_bytes;
                  if (!make_room(process->device, needs, function.tenant)) return;
                  ++weights.users;
                  load_weights(function.tenant, process->device, model.network, function.number);
                  leave_weights(function.tenant, process->device, model.network);
                });
}

}  // namespace lambent::paper_streambox
