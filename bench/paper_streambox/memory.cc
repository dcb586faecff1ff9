// The node's device memory: who has how much, weights, and the pools of shared runtimes.
#include <algorithm>

#include "bench/paper_streambox/node.h"

namespace lambent::paper_streambox {

void Node::integrate() {
  const double now_s = std::min(events_.now(), ends_s_);
  const double passed_s = now_s - integrated_until_s_;
  if (passed_s <= 0) return;
  integrated_until_s_ = now_s;
  memory_integral_ += passed_s * memory_now_;
  if (active_ > 0) {
    pool_integral_ += passed_s * pool_now_;
    busy_s_ += passed_s;
  } else if (result_.requests > 0) {
    idle_integral_ += passed_s * memory_now_;
    idle_s_ += passed_s;
  }
}

void Node::charge(uint32_t device, double bytes) {
  integrate();
  devices_[device]->used_bytes += bytes;
  memory_now_ += bytes;
  result_.peak_memory_bytes = std::max(result_.peak_memory_bytes, memory_now_);
}

double Node::free_bytes(uint32_t device) const {
  return constants_.device_memory - devices_[device]->used_bytes;
}

bool Node::make_room(uint32_t device, double bytes, unsigned tenant) {
  while (free_bytes(device) < bytes) {
    // Weights that nobody uses, the least recently used first.
    auto oldest = weights_.end();
    for (auto it = weights_.begin(); it != weights_.end(); ++it) {
      const auto& [who, on, network] = it->first;
      if (on != device || !it->second.there || it->second.users > 0) continue;
      const Model& model = models_[static_cast<size_t>(network)];
      if (it->second.kernels < model.weights_until.size()) continue;  // on their way
      if (oldest == weights_.end() || it->second.last_use_s < oldest->second.last_use_s)
        oldest = it;
    }
    if (oldest != weights_.end()) {
      const auto [who, on, network] = oldest->first;
      unload_weights(who, on, network);
      continue;
    }
    // Runtimes of others that nobody uses.
    unsigned idle = setup_.tenants;
    for (unsigned other = 0; other < setup_.tenants; ++other) {
      const Runtime& one = runtime(other, device);
      if (other == tenant || !one.ready || !one.works.empty()) continue;
      if (idle == setup_.tenants || one.idle_since_s < runtime(idle, device).idle_since_s) {
        idle = other;
      }
    }
    if (idle == setup_.tenants) break;
    stop_runtime(idle, device);
  }
  if (free_bytes(device) >= bytes) return true;
  if (devices_[device]->objects_bytes > 0) relieve(device);
  return false;
}

Node::Weights& Node::weights_of(unsigned tenant, uint32_t device, Network network) {
  return weights_[{tenant, device, network}];
}

void Node::load_weights(unsigned tenant, uint32_t device, Network network, uint64_t owner) {
  Weights& weights = weights_of(tenant, device, network);
  weights.last_use_s = events_.now();
  weights.unwanted = false;
  if (weights.asked_for) return;
  const Model& model = models_[static_cast<size_t>(network)];
  weights.asked_for = true;
  weights.kernels = 0;
  ++result_.loads;
  take_weights(weights, device, model);
  std::vector<Bytes> pieces;
  std::vector<size_t> kernels;  // that each piece is for
  double before = 0;
  for (size_t kernel = 0; kernel < model.weights_until.size(); ++kernel) {
    const double bytes = model.weights_until[kernel] - before;
    before = model.weights_until[kernel];
    if (bytes == 0) continue;
    pieces.emplace_back(static_cast<uint64_t>(bytes));
    kernels.push_back(kernel);
  }
  send_in(device, owner, pieces, [this, &weights, &model, kernels, tenant, device](uint32_t piece) {
    weights.kernels = piece + 1 < kernels.size() ? kernels[piece + 1] : model.weights_until.size();
    for (Work* work : weights.waiting) set_limit(work);
    const bool all = weights.kernels == model.weights_until.size();
    if (all && weights.unwanted) unload_weights(tenant, device, model.network);
  });
}

void Node::take_weights(Weights& weights, uint32_t device, const Model& model) {
  weights.unwanted = false;
  if (!weights.there) charge(device, model.weight_bytes);
  weights.there = true;
}

void Node::unload_weights(unsigned tenant, uint32_t device, Network network) {
  Weights& weights = weights_of(tenant, device, network);
  const Model& model = models_[static_cast<size_t>(network)];
  if (!weights.there) return;
  weights.unwanted = weights.asked_for && weights.kernels < model.weights_until.size();
  if (weights.unwanted) return;
  weights.there = weights.asked_for = false;
  weights.kernels = 0;
  charge(device, -model.weight_bytes);
}

void Node::leave_weights(unsigned tenant, uint32_t device, Network network) {
  Weights& weights = weights_of(tenant, device, network);
  --weights.users;
  weights.last_use_s = events_.now();
  if (weights.users == 0 && setup_.keep_weights_s >= 0 && !weights.checked) {
    check_weights(tenant, device, network);
  }
}

// Weights that nobody has used for a while go.
void Node::check_weights(unsigned tenant, uint32_t device, Network network) {
  Weights& weights = weights_of(tenant, device, network);
  weights.checked = false;
  if (!weights.there || weights.users > 0) return;  // the last user comes back here
  const double goes_s = weights.last_use_s + setup_.keep_weights_s;
  if (goes_s <= events_.now()) return unload_weights(tenant, device, network);
  weights.checked = true;
  events_.at(goes_s, [this, tenant, device, network] { check_weights(tenant, device, network); });
}

void Node::set_limit(Work* work) {
  const Weights& weights =
      weights_of(work->function->tenant, work->device, model(*work->function).network);
  const BatchModel& batch = *work->job.model;
  double limit_s = weights.kernels == 0 ? 0 : batch.ends_s[weights.kernels - 1];
  if (weights.kernels == batch.ends_s.size()) limit_s = batch.alone_s;
  devices_[work->device]->processor.set_limit(work->job, limit_s);
}

std::vector<scheduling::RunningFunction> Node::running_on(uint32_t device, unsigned tenant) const {
  std::vector<scheduling::RunningFunction> running;
  for (const Work* work : runtime(tenant, device).works) running.push_back(work->job.running());
  return running;
}

scheduling::PoolStep Node::pool_step(unsigned tenant, uint32_t device, const Work* with) const {
  std::vector<scheduling::RunningFunction> running = running_on(device, tenant);
  if (with != nullptr) running.push_back(with->job.running());
  Bytes in_use;
  for (const Work* work : runtime(tenant, device).works) {
    const auto one = work->job.running();
    if (one.kernel < one.profile->kernels.size()) in_use += one.profile->kernels[one.kernel].live;
  }
  const Bytes size(static_cast<uint64_t>(runtime(tenant, device).pool_bytes));
  return scheduling::scale_pool(setup_.pool, size, in_use, running);
}

double Node::scale_pool(unsigned tenant, uint32_t device, const Work* with) {
  devices_[device]->processor.advance();
  Runtime& runtime = this->runtime(tenant, device);
  const scheduling::PoolStep step = pool_step(tenant, device, with);
  // What the job has to wait for: all of it, or what its first kernel needs beyond what is idle.
  double waits_for = static_cast<double>(step.grow.count);
  if (with != nullptr && setup_.pool.rule != scheduling::PoolRule::kStatic) {
    double idle = runtime.pool_bytes;
    for (const auto& one : running_on(device, tenant)) {
      if (one.kernel < one.profile->kernels.size()) {
        idle -= static_cast<double>(one.profile->kernels[one.kernel].live.count);
      }
    }
    const auto first = static_cast<double>(with->job.model->profile.kernels[0].live.count);
    waits_for = std::clamp(first - std::max(0.0, idle), 0.0, waits_for);
  }
  const double change =
      static_cast<double>(step.grow.count) - static_cast<double>(step.shrink.count);
  charge(device, change);
  pool_now_ += change;
  runtime.pool_bytes += change;
  return waits_for * constants_.allocate_s_per_byte;
}

void Node::look_at_pool(unsigned tenant, uint32_t device) {
  Runtime& runtime = this->runtime(tenant, device);
  if (!runtime.there) {
    runtime.looks = false;
    return;
  }
  scale_pool(tenant, device, nullptr);
  if (runtime.works.empty()) {
    runtime.looks = false;
    return;
  }
  events_.after(to_seconds(scheduling::scaling_period(setup_.pool.interval)),
                [this, tenant, device] { look_at_pool(tenant, device); });
}

}  // namespace lambent::paper_streambox
