// Stream-only and StreamBox: a runtime for each workflow and device, its functions on streams.
#include <algorithm>

#include "bench/paper_streambox/node.h"

namespace lambent::paper_streambox {

void Node::serve_runtimes() {
  for (;;) {
    // The function whose first call has waited longest goes first; one that finds no place waits.
    std::vector<Function*> waiting;
    for (Function& function : functions_) {
      if (!function.queue.empty()) waiting.push_back(&function);
    }
    std::ranges::sort(waiting, {}, [](const Function* one) { return one->queue.front().since_s; });
    bool placed = false;
    for (Function* function : waiting) placed = placed || place(*function);
    if (!placed) return;
  }
}

bool Node::place(Function& function) {
  const Model& model = this->model(function);
  const uint32_t near = objects_[function.queue.front().object].place;
  const size_t batch = std::min<size_t>(setup_.batch, function.queue.size());
  std::vector<uint32_t> order;
  for (uint32_t device = 0; device < setup_.devices; ++device) {
    if (runtime(function.tenant, device).ready && devices_[device]->jobs < setup_.jobs) {
      order.push_back(device);
    }
  }
  const auto rank = [&](uint32_t device) {
    return std::pair(device != near, devices_[device]->jobs);
  };
  std::ranges::sort(order, {}, rank);
  for (const uint32_t device : order) {
    Work probe;
    probe.job.model = &model.batches[batch - 1];
    devices_[device]->processor.advance();
    double needs = static_cast<double>(pool_step(function.tenant, device, &probe).grow.count);
    Weights& weights = weights_of(function.tenant, device, model.network);
    if (!weights.there) needs += model.weight_bytes;
    ++weights.users;  // or they would make the room
    const bool fits = make_room(device, needs, function.tenant);
    --weights.users;
    if (!fits) continue;
    std::vector<Call> calls = take_calls(function, setup_.batch);
    if (calls.empty()) return true;
    double& instance = runtime(function.tenant, device).instances[function.component];
    const bool is_new = instance == 0;
    instance = events_.now();
    begin(function, device, nullptr, std::move(calls), is_new ? constants_.instance_start_s : 0);
    return true;
  }
  start_runtime(function.tenant);
  return false;
}

void Node::start_runtime(unsigned tenant) {
  constexpr unsigned kMostRuntimes = 3;  // on a device
  uint32_t best = setup_.devices;
  for (uint32_t device = 0; device < setup_.devices; ++device) {
    const Runtime& one = runtime(tenant, device);
    if (one.there && !one.ready) return;  // one is on its way
    if (one.there) continue;
    unsigned there = 0;
    for (unsigned other = 0; other < setup_.tenants; ++other) there += runtime(other, device).there;
    if (there >= kMostRuntimes) {
      unsigned idle = setup_.tenants;
      for (unsigned other = 0; other < setup_.tenants; ++other) {
        const Runtime& candidate = runtime(other, device);
        if (!candidate.ready || !candidate.works.empty()) continue;
        if (idle == setup_.tenants || candidate.idle_since_s < runtime(idle, device).idle_since_s) {
          idle = other;
        }
      }
      if (idle == setup_.tenants) continue;
      stop_runtime(idle, device);
    }
    if (best == setup_.devices || free_bytes(device) > free_bytes(best)) best = device;
  }
  if (best == setup_.devices || !make_room(best, constants_.runtime_bytes, tenant)) return;
  Runtime& fresh = runtime(tenant, best);
  fresh.there = true;
  charge(best, constants_.runtime_bytes);
  ++result_.starts;
  events_.after(constants_.runtime_start_s, [this, tenant, best] {
    Runtime& fresh = runtime(tenant, best);
    fresh.ready = true;
    rest(tenant, best);
    serve();
  });
}

// From now on the runtime is idle, and goes if it still is after the keep-alive.
void Node::rest(unsigned tenant, uint32_t device) {
  Runtime& runtime = this->runtime(tenant, device);
  runtime.idle_since_s = events_.now();
  if (runtime.checked) return;
  runtime.checked = true;
  events_.after(constants_.keep_alive_s, [this, tenant, device] { check(tenant, device); });
}

void Node::check(unsigned tenant, uint32_t device) {
  Runtime& runtime = this->runtime(tenant, device);
  runtime.checked = false;
  if (!runtime.ready || !runtime.works.empty()) return;  // rest() comes again
  const double goes_s = runtime.idle_since_s + constants_.keep_alive_s;
  if (goes_s <= events_.now()) return stop_runtime(tenant, device);
  runtime.checked = true;
  events_.at(goes_s, [this, tenant, device] { check(tenant, device); });
}

// The work is done: its memory goes back to the pool.
void Node::leave(Work* work) {
  const unsigned tenant = work->function->tenant;
  const uint32_t device = work->device;
  Runtime& runtime = this->runtime(tenant, device);
  runtime.works.remove(work);
  if (runtime.works.empty()) rest(tenant, device);
}

void Node::stop_runtime(unsigned tenant, uint32_t device) {
  Runtime& runtime = this->runtime(tenant, device);
  for (const Model& model : models_) unload_weights(tenant, device, model.network);
  charge(device, -constants_.runtime_bytes - runtime.pool_bytes);
  pool_now_ -= runtime.pool_bytes;
  const bool looks = runtime.looks, checked = runtime.checked;
  runtime = Runtime{};
  runtime.looks = looks;
  runtime.checked = checked;
}

}  // namespace lambent::paper_streambox
