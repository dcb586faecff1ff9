#include "sim/simulator/world_accounts.h"

namespace lambent::simulator {

WorldAccounts::WorldAccounts(const dispatch::DispatchOptions& limits) : limits_(limits) {
  scheduling::DeviceOptions host{.id = scheduling::kHostDevice,
                                 .tokens = limits.host_concurrency,
                                 .contexts = limits.host_sandboxes};
  devices.push_back({.known = true, .options = host});
  for (const scheduling::DeviceOptions& device : limits.fleet.devices) {
    if (device.id.value >= devices.size()) devices.resize(device.id.value + 1);
    devices[device.id.value] = {.known = true, .options = device};
  }
}

void WorldAccounts::add(SandboxId id, Process process) {
  hold(process);
  count(process, 1);
  processes[id] = process;
}

void WorldAccounts::remove(SandboxId id) {
  const auto found = processes.find(id);
  count(found->second, -1);
  processes.erase(found);
}

void WorldAccounts::change(Process& process, State state) {
  count(process, -1);
  process.state = state;
  hold(process);
  count(process, 1);
}

void WorldAccounts::move(Process& process, Process::Where where, bool deep) {
  count(process, -1);
  process.where = where;
  process.deep = deep;
  hold(process);
  count(process, 1);
}

void WorldAccounts::fetch(Process& process, Bytes fetched) {
  count(process, -1);
  process.offloaded -= fetched;
  hold(process);
  count(process, 1);
}

unsigned WorldAccounts::losses_of(const Process& process) const {
  unsigned losses = 0;
  process.for_each_device([&](uint32_t index) { losses += devices[index].losses; });
  return losses;
}

bool WorldAccounts::is_healthy(const Process& process) const {
  bool healthy = true;
  process.for_each_device([&](uint32_t index) { healthy &= devices[index].healthy; });
  return healthy;
}

WorldAccounts::Function& WorldAccounts::function(FunctionId id) {
  if (id.value >= functions.size()) functions.resize(id.value + 1);
  return functions[id.value];
}

// Which of a function's invocations a starting sandbox is for is dispatch's affair: when one is
// gone, any of them may be the one that waits again.
void WorldAccounts::restart_waits(FunctionId id, Instant now) {
  Function& known = function(id);
  if (known.waiting == 0) return;
  for (auto& [invocation, each] : live) {
    if (each.function == id && !each.running) each.waiting_since = now;
  }
}

// What a sandbox in its state holds; one that is stopped keeps what it has until it is gone.
void WorldAccounts::hold(Process& process) const {
  if (process.state == State::kStopping) return;
  const scheduling::FleetOptions& fleet = limits_.fleet;
  const bool starts = process.state == State::kStarting || process.state == State::kReady;
  process.held = process.memory;
  if (scheduling::moves_idle(fleet.memory_rule)) hold_moving(process);
  process.at_work = process.state == State::kBusy;
  process.holds_place = process.at_work || starts;
}

void WorldAccounts::hold_moving(Process& process) const {
  using Where = Process::Where;
  const Bytes all = process.memory_of_all();
  const Bytes gone = all - process.left;
  switch (process.where) {
    case Where::kIn:
      process.held = process.memory - process.offloaded;
      process.on_host = process.offloaded * (process.beside.size() + 1);
      break;
    case Where::kMovingOut:
      process.held = process.deep ? process.left : process.memory - process.offloaded;
      process.on_host = all;
      break;
    case Where::kOut:
      process.held = process.deep ? Bytes(0) : process.left;
      process.on_host = process.deep ? all : gone;
      break;
    case Where::kMovingIn:
      process.held = process.memory - process.offloaded;
      process.on_host = process.deep ? all : gone;
      break;
  }
}

void WorldAccounts::count(const Process& process, int by) {
  const auto add = [by](unsigned& number, bool counts) {
    if (counts) number += static_cast<unsigned>(by);
  };
  const auto add_memory = [&](Bytes& total, Bytes amount) {
    total = by > 0 ? total + amount : total - amount;
  };
  add(gpu_processes, process.device != 0);
  const bool idle = process.state == State::kIdle;
  add(gpu_idle, idle && process.device != 0);
  add(gpu_stopping, process.state == State::kStopping && process.device != 0);
  process.for_each_device([&](uint32_t index) {
    Device& device = devices[index];
    add(device.processes, true);
    add(device.idle, idle);
    if (idle) add_memory(device.idle_memory, process.held);
    add(device.at_work, process.at_work);
    add(device.places, process.holds_place);
    add(device.ready, process.state == State::kReady);
    add_memory(device.occupied, process.memory);
    add_memory(device.memory, process.held);
    add(device.without_context, process.deep && process.where == Process::Where::kOut);
  });
  add_memory(on_host, process.on_host);
  Function& owner = function(process.function);
  add(owner.starting, process.state == State::kStarting || process.state == State::kReady);
  add(owner.busy, process.state == State::kBusy);
  add(owner.as_cpu_variant,
      process.cpu_variant && process.state != State::kIdle && process.state != State::kStopping);
}

}  // namespace lambent::simulator
