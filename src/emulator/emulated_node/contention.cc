#include "emulator/emulated_node/contention.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace lambent::emulated_node {

namespace {

constexpr int kMostEvents = 2 * kMaxKernels;  // each kernel begins and ends once

struct Rates {
  int count = 0;
  int index[kMaxKernels];
  int granted[kMaxKernels];  // multiprocessors
  double rate[kMaxKernels];
};

// All that are not free, and few others: a node moves the models of all its devices on each time
// that it is entered, and most of them are idle.
std::span<ModelKernel> kernels_of(DeviceModel& model) {
  return {model.kernels, std::min<size_t>(model.kernel_bound, kMaxKernels)};
}
std::span<const ModelKernel> kernels_of(const DeviceModel& model) {
  return {model.kernels, std::min<size_t>(model.kernel_bound, kMaxKernels)};
}

void trim_bound(DeviceModel& model) {
  auto bound = static_cast<uint32_t>(kernels_of(model).size());
  while (bound > 0 && model.kernels[bound - 1].state == KernelState::kFree) bound--;
  model.kernel_bound = bound;
}

// What the order of kernels depends on, copied: a process that writes into the model meanwhile must
// not make the order contradict itself, for then a sort may leave its bounds.
struct Order {
  int32_t priority;
  int64_t begin_ns;
  uint64_t sequence, ticket;
  int index;
};

bool runs_before(const Order& a, const Order& b) {
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  return a.sequence != b.sequence ? a.sequence < b.sequence : a.ticket < b.ticket;
}

// What is left of the device for the kernels of one group, while they are served in order.
struct GroupShare {
  uint64_t group;
  MultiprocessorSet free;
  MultiprocessorSet confined;  // to which some kernel of the group is confined
};

// How many multiprocessors the kernel's client may still take.
int within_limit(const DeviceModel& model, const Rates& rates, int served,
                 const ModelKernel& kernel) {
  if (kernel.limit == 0) return kMostMultiprocessors;
  int taken = 0;
  for (int i = 0; i < served; i++) {
    const ModelKernel& other = model.kernels[rates.index[i]];
    if (other.client == kernel.client && other.group == kernel.group) taken += rates.granted[i];
  }
  return std::max(0,
                  static_cast<int>(std::min<uint32_t>(kernel.limit, kMostMultiprocessors)) - taken);
}

MultiprocessorSet grant(GroupShare& share, const ModelKernel& kernel, int most) {
  bool anywhere = kernel.allowed.empty();
  MultiprocessorSet open = anywhere ? share.free : share.free & kernel.allowed;
  MultiprocessorSet taken = (anywhere ? open - share.confined : open).lowest(most);
  int missing = most - taken.count();
  if (anywhere && missing > 0) taken = taken | (open - taken).lowest(missing);
  share.free = share.free - taken;
  return taken;
}

// The speed of every running kernel, in work done per nanosecond; tells what `wanted_ticket` holds.
Rates rates_of(const DeviceModel& model, uint64_t wanted_ticket = 0,
               MultiprocessorSet* held = nullptr) {
  Rates rates;
  Order order[kMaxKernels];
  int index = 0;
  for (const ModelKernel& kernel : kernels_of(model)) {
    const int i = index++;
    if (kernel.state != KernelState::kRunning) continue;
    order[rates.count++] = {kernel.priority, kernel.begin_ns, kernel.sequence, kernel.ticket, i};
  }
  std::sort(order, order + rates.count, runs_before);
  for (int i = 0; i < rates.count; i++) rates.index[i] = order[i].index;
  GroupShare shares[kMaxKernels];
  int share_count = 0, share_of[kMaxKernels];
  for (int i = 0; i < rates.count; i++) {
    const ModelKernel& kernel = model.kernels[rates.index[i]];
    int slot = 0;
    while (slot < share_count && shares[slot].group != kernel.group) slot++;
    if (slot == share_count) {
      shares[share_count++] = {kernel.group, MultiprocessorSet::first(model.multiprocessors), {}};
    }
    share_of[i] = slot;
    shares[slot].confined = shares[slot].confined | kernel.allowed;
  }
  for (int i = 0; i < rates.count; i++) {
    const ModelKernel& kernel = model.kernels[rates.index[i]];
    int wanted = std::clamp(static_cast<int>(kernel.wanted), 1, std::max(1, model.multiprocessors));
    int most = std::min(wanted, within_limit(model, rates, i, kernel));
    MultiprocessorSet taken = grant(shares[share_of[i]], kernel, most);
    if (held && kernel.ticket == wanted_ticket) *held = taken;
    rates.granted[i] = taken.count();
    rates.rate[i] = static_cast<double>(rates.granted[i]) / wanted;
  }
  double share = share_count < 2
                     ? 1.0
                     : 1.0 / (share_count * (1.0 + model.context_penalty * (share_count - 1)));
  for (int i = 0; i < rates.count; i++) rates.rate[i] *= share;
  return rates;
}

bool any_held(const DeviceModel& model) {
  for (const ModelKernel& kernel : kernels_of(model)) {
    bool begun = kernel.state == KernelState::kRunning || kernel.state == KernelState::kFinished;
    if (begun && kernel.held) return true;
  }
  return false;
}

void note_sample(DeviceModel& model) {
  uint32_t last = (model.next_sample + kUtilizationSamples - 1) % kUtilizationSamples;
  int64_t step = std::max<int64_t>(1, model.window_ns / (kUtilizationSamples / 2));
  if (model.now_ns - step < model.samples[last].at_ns) return;
  model.samples[model.next_sample % kUtilizationSamples] = {model.now_ns, model.busy_ns};
  model.next_sample = (model.next_sample + 1) % kUtilizationSamples;
}

const ModelKernel* find(const DeviceModel& model, uint64_t ticket) {
  for (const ModelKernel& kernel : kernels_of(model)) {
    if (kernel.state != KernelState::kFree && kernel.ticket == ticket) return &kernel;
  }
  return nullptr;
}

ModelKernel* find(DeviceModel& model, uint64_t ticket) {
  return const_cast<ModelKernel*>(find(static_cast<const DeviceModel&>(model), ticket));
}

// One step to the next event, at most to `limit_ns`. Rounding leaves at most half a nanosecond.
void step(DeviceModel& model, int64_t limit_ns) {
  Rates rates = rates_of(model);
  double until = static_cast<double>(limit_ns - model.now_ns);
  for (int i = 0; i < rates.count; i++) {
    if (rates.rate[i] <= 0) continue;
    until = std::min(until, model.kernels[rates.index[i]].remaining_ns / rates.rate[i]);
  }
  for (const ModelKernel& kernel : kernels_of(model)) {
    if (kernel.state != KernelState::kAhead) continue;
    until =
        std::min(until, static_cast<double>(kernel.begin_ns) - static_cast<double>(model.now_ns));
  }
  until = std::max(until, 0.0);  // time goes on, whatever was written into the model
  int64_t passed = std::min<int64_t>(limit_ns - model.now_ns, std::llround(std::ceil(until)));
  for (int i = 0; i < rates.count; i++) {
    ModelKernel& kernel = model.kernels[rates.index[i]];
    kernel.remaining_ns -= until * rates.rate[i];
    if (rates.rate[i] > 0 && kernel.remaining_ns <= 1e-6 * (1 + until)) {
      kernel.remaining_ns = 0;
      kernel.finish_ns = model.now_ns + passed;
      kernel.state = KernelState::kFinished;
    }
  }
  if (rates.count > 0 || any_held(model)) model.busy_ns += passed;
  model.now_ns += passed;
  for (ModelKernel& kernel : kernels_of(model)) {
    bool begins = kernel.state == KernelState::kAhead && kernel.begin_ns <= model.now_ns;
    if (begins) kernel.state = KernelState::kRunning;
  }
}

}  // namespace

void advance(DeviceModel& model, int64_t now_ns) {
  trim_bound(model);
  // A kernel that finishes at this very instant still has to be marked, hence the second condition.
  for (int events = 0; model.now_ns < now_ns && events <= kMostEvents; events++) {
    if (stands_still(model)) break;
    step(model, now_ns);
  }
  note_sample(model);
}

bool stands_still(const DeviceModel& model) {
  return std::ranges::any_of(kernels_of(model), [](const ModelKernel& kernel) {
    return kernel.state == KernelState::kFinished && kernel.awaited;
  });
}

void stop_waiting(DeviceModel& model) {
  for (ModelKernel& kernel : kernels_of(model)) {
    if (kernel.state == KernelState::kFinished) kernel.awaited = 0;
  }
}

uint64_t start(DeviceModel& model, const KernelDemand& demand) {
  auto* slot = std::find_if(model.kernels, model.kernels + kMaxKernels,
                            [](const ModelKernel& k) { return k.state == KernelState::kFree; });
  if (slot == model.kernels + kMaxKernels) return 0;
  model.kernel_bound =
      std::max(model.kernel_bound, static_cast<uint32_t>(slot - model.kernels) + 1);
  slot->ticket = ++model.next_ticket;
  slot->group = demand.group;
  slot->client = demand.client;
  slot->limit = demand.limit;
  slot->allowed = demand.allowed;
  slot->process = demand.process;
  slot->wanted = demand.multiprocessors;
  slot->remaining_ns = static_cast<double>(std::max<int64_t>(1, demand.duration_ns));
  slot->begin_ns = demand.begin_ns;
  slot->finish_ns = 0;
  slot->sequence = demand.sequence;
  slot->priority = demand.priority;
  slot->held = demand.held;
  slot->awaited = !demand.held;
  slot->state = demand.begin_ns > model.now_ns ? KernelState::kAhead : KernelState::kRunning;

  // The caller may come late (a thread wakes microseconds after the instant that it waited for):
  // the kernel gets the work that it would have done since begin_ns at its present rate.
  int64_t late_ns = model.now_ns - demand.begin_ns;
  if (late_ns > 0) {
    Rates rates = rates_of(model);
    int index = static_cast<int>(slot - model.kernels);
    double rate =
        rates.rate[std::find(rates.index, rates.index + rates.count, index) - rates.index];
    if (late_ns * rate >= slot->remaining_ns) {
      slot->finish_ns = demand.begin_ns + std::llround(slot->remaining_ns / rate);
      if (rates.count == 1) model.busy_ns += slot->finish_ns - demand.begin_ns;
      slot->remaining_ns = 0;
      slot->state = KernelState::kFinished;
    } else {
      slot->remaining_ns -= late_ns * rate;
      if (rates.count == 1) model.busy_ns += late_ns;
    }
  }
  return slot->ticket;
}

int64_t finished_at(const DeviceModel& model, uint64_t ticket) {
  const ModelKernel* kernel = find(model, ticket);
  if (!kernel) return model.now_ns;
  return kernel->state == KernelState::kFinished ? kernel->finish_ns : -1;
}

int64_t predicted_finish(const DeviceModel& model, uint64_t ticket) {
  DeviceModel future = model;
  for (int events = 0; events <= kMostEvents; events++) {
    int64_t finish = finished_at(future, ticket);
    if (finish >= 0) return finish;
    // Far enough for any single event, near enough to stay exact in a double.
    step(future, future.now_ns + (int64_t{1} << 52));
  }
  return future.now_ns;
}

void release_hold(DeviceModel& model, uint64_t ticket) {
  ModelKernel* kernel = find(model, ticket);
  if (!kernel || !kernel->held) return;
  kernel->held = 0;
  kernel->awaited = kernel->state != KernelState::kFinished;
}

void remove(DeviceModel& model, uint64_t ticket) {
  if (ModelKernel* kernel = find(model, ticket)) kernel->state = KernelState::kFree;
}

void remove_process(DeviceModel& model, uint32_t process) {
  for (ModelKernel& kernel : kernels_of(model)) {
    if (kernel.process == process) kernel.state = KernelState::kFree;
  }
}

int utilization_percent(const DeviceModel& model) {
  if (model.window_ns <= 0) return 0;
  int64_t from = model.now_ns - model.window_ns;
  // The two samples around `from`: busy time is interpolated between them.
  UtilizationSample before{0, 0}, after{model.now_ns, model.busy_ns};
  for (const UtilizationSample& sample : model.samples) {
    if (sample.at_ns <= from && sample.at_ns >= before.at_ns) before = sample;
    if (sample.at_ns > from && sample.at_ns < after.at_ns) after = sample;
  }
  double busy_then = before.busy_ns;
  if (after.at_ns > before.at_ns && from > before.at_ns) {
    busy_then += (static_cast<double>(after.busy_ns) - static_cast<double>(before.busy_ns)) *
                 (from - before.at_ns) / (after.at_ns - before.at_ns);
  }
  int64_t span = std::min(model.window_ns, std::max<int64_t>(1, model.now_ns));
  double percent = 100.0 * (model.busy_ns - busy_then) / span;
  return static_cast<int>(std::lround(std::clamp(percent, 0.0, 100.0)));
}

int active_kernels(const DeviceModel& model) {
  return static_cast<int>(std::ranges::count_if(kernels_of(model), [](const ModelKernel& kernel) {
    return kernel.state == KernelState::kRunning;
  }));
}

MultiprocessorSet held_by(const DeviceModel& model, uint64_t ticket) {
  MultiprocessorSet held{};
  rates_of(model, ticket, &held);
  return held;
}

void repair(DeviceModel& model) {
  for (ModelKernel& kernel : model.kernels) {
    bool known = kernel.state == KernelState::kFree || kernel.state == KernelState::kRunning ||
                 kernel.state == KernelState::kFinished || kernel.state == KernelState::kAhead;
    if (!known || !std::isfinite(kernel.remaining_ns)) kernel.state = KernelState::kFree;
    kernel.remaining_ns = std::max(0.0, kernel.remaining_ns);
  }
  model.kernel_bound = kMaxKernels;  // until the model is next moved on
  model.next_sample %= kUtilizationSamples;
}

}  // namespace lambent::emulated_node
