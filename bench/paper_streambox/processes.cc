// INFless and Astraea: each instance of a function is a process with a runtime of its own.
#include <algorithm>

#include "bench/paper_streambox/node.h"

namespace lambent::paper_streambox {

void Node::serve_process(Function& function) {
  while (!function.queue.empty()) {
    const uint32_t near = objects_[function.queue.front().object].place;
    Process* best = nullptr;
    for (Process& process : processes_) {
      if (process.function != &function || !process.ready) continue;
      if (process.works >= setup_.streams) continue;
      const auto rank = [&](const Process& one) {
        return std::pair(one.device != near, devices_[one.device]->jobs);
      };
      if (best == nullptr || rank(process) < rank(*best)) best = &process;
    }
    if (best == nullptr) break;
    std::vector<Call> calls = take_calls(function, setup_.batch);
    if (calls.empty()) continue;
    ++best->works;
    if (!holds_activations()) charge(best->device, activations_of(*best, calls.size()));
    begin(function, best->device, best, std::move(calls), 0);
  }
  if (function.queue.empty()) {
    function.short_since_s = -1;
    return;
  }
  if (function.short_since_s < 0) function.short_since_s = events_.now();
  // One more for what would not be served by those that are on their way.
  while (function.queue.size() > static_cast<size_t>(function.starting) * setup_.batch) {
    const double short_s = events_.now() - function.short_since_s;
    if (function.alive > 0 && short_s < setup_.start_after_s) break;
    const unsigned before = function.starting;
    start_process(function);
    if (function.starting == before) break;
    function.short_since_s = events_.now();
  }
}

// What it takes while these calls run, where it does not have it for as long as it lives.
double Node::activations_of(const Process& process, size_t calls) const {
  return static_cast<double>(model(*process.function).batches[calls - 1].profile.peak().count);
}

// Of a function that has nothing waiting.
Node::Process* Node::longest_idle(const Function& wanting) {
  Process* victim = nullptr;
  for (Process& process : processes_) {
    if (!process.ready || process.works > 0 || process.function == &wanting) continue;
    if (!process.function->queue.empty()) continue;
    if (victim == nullptr || process.idle_since_s < victim->idle_since_s) victim = &process;
  }
  return victim;
}

void Node::start_process(Function& function) {
  const Model& model = this->model(function);
  double own = constants_.runtime_bytes;
  if (holds_activations()) {
    own += static_cast<double>(model.batches[setup_.batch - 1].profile.peak().count);
  }
  const auto needs = [&](uint32_t device) {
    return own +
           (weights_of(function.tenant, device, model.network).there ? 0 : model.weight_bytes);
  };
  uint32_t best = 0;
  for (uint32_t device = 1; device < setup_.devices; ++device) {
    if (free_bytes(device) - needs(device) > free_bytes(best) - needs(best)) best = device;
  }
  if (free_bytes(best) < needs(best)) {
    Process* victim = longest_idle(function);
    if (victim == nullptr) return;
    best = victim->device;
    stop(victim);
    if (free_bytes(best) < needs(best)) return;
  }
  charge(best, own);
  // Memory for the weights is taken now; their content comes when there is a context.
  take_weights(weights_of(function.tenant, best, model.network), best, model);
  ++weights_of(function.tenant, best, model.network).users;
  begin_process({.function = &function,
                 .device = best,
                 .bytes = own,
                 .share = setup_.share,
                 .batch = setup_.batch},
                [this](Process* process) {
                  const Function& function = *process->function;
                  load_weights(function.tenant, process->device, this->model(function).network,
                               function.number);
                });
}

void Node::begin_process(Process made, std::function<void(Process*)> load) {
  made.number = ++processes_made_;
  processes_.push_back(std::move(made));
  Process* process = &processes_.back();
  ++process->function->starting;
  ++process->function->alive;
  ++result_.starts;
  events_.after(constants_.runtime_start_s, [this, process, load = std::move(load)] {
    --process->function->starting;
    process->ready = true;
    load(process);
    rest(process);
    serve();
  });
}

void Node::rest(Process* process) {
  process->idle_since_s = events_.now();
  if (process->checked || process->function->scaler) return;
  process->checked = true;
  events_.after(constants_.keep_alive_s, [this, process] { check(process); });
}

void Node::check(Process* process) {
  // It may have gone by now.
  const auto found =
      std::ranges::find_if(processes_, [process](const Process& one) { return &one == process; });
  if (found == processes_.end()) return;
  process->checked = false;
  // It may be another one in the same place. rest() comes again.
  if (!process->ready || process->works > 0) return;
  const double goes_s = process->idle_since_s + constants_.keep_alive_s;
  if (goes_s <= events_.now()) return stop(process);
  process->checked = true;
  events_.at(goes_s, [this, process] { check(process); });
}

void Node::stop(Process* process) {
  Function& function = *process->function;
  const Network network = model(function).network;
  charge(process->device, -process->bytes);
  --function.alive;
  if (weights_leave()) {
    // With its last process here.
    const auto has_them = [&](const Process& one) {
      return &one != process && one.device == process->device &&
             one.function->tenant == function.tenant && model(*one.function).network == network;
    };
    if (std::ranges::none_of(processes_, has_them)) {
      unload_weights(function.tenant, process->device, network);
    }
  } else if (--weights_of(function.tenant, process->device, network).users == 0) {
    unload_weights(function.tenant, process->device, network);
  }
  processes_.remove_if([process](const Process& one) { return &one == process; });
}

}  // namespace lambent::paper_streambox
