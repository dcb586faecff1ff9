// The part of Invariants that follows memory which moves: where that of each sandbox is, by what
// the world told and dispatch wanted.
#include <algorithm>

#include "sim/simulator/invariants.h"

namespace lambent::simulator {

void Invariants::see(const dispatch::MoveMemoryIn& action) {
  const auto wrong = [&](const char* why) {
    violate(Invariant::kMoves,
            "sandbox " + std::to_string(action.sandbox.value) + " is moved in " + why);
  };
  const auto found = accounts_.processes.find(action.sandbox);
  if (found == accounts_.processes.end()) return wrong("and does not exist");
  Process& process = found->second;
  if (process.state != State::kIdle && process.state != State::kBusy) {
    return wrong("and neither rests nor runs");
  }
  if (process.where != Process::Where::kOut) return wrong("and is not out");
  if (!accounts_.is_healthy(process)) wrong("on a device that is not healthy");
  if (process.device_losses != accounts_.losses_of(process)) wrong("though its device was lost");
  process.move_limit = moment_.now + options_.limits.move_timeout;
  accounts_.move(process, Process::Where::kMovingIn, process.deep);
  check_arrival(process, "memory is moved");
}

void Invariants::see(const dispatch::MoveMemoryOut& action) {
  const auto wrong = [&](const char* why) {
    violate(Invariant::kMoves,
            "sandbox " + std::to_string(action.sandbox.value) + " is moved out " + why);
  };
  const auto found = accounts_.processes.find(action.sandbox);
  if (found == accounts_.processes.end()) return wrong("and does not exist");
  Process& process = found->second;
  const bool answered =
      std::find(answered_.begin(), answered_.end(), action.sandbox) != answered_.end();
  if (answered) {
    std::erase(answered_, action.sandbox);
    accounts_.change(process, State::kIdle);
    process.since = moment_.now;
  }
  rest_ahead(action.sandbox, process);
  if (process.state != State::kIdle) return wrong("while it is at work");
  if (!process.movable) wrong("though it cannot be moved");
  const bool deep = action.depth == dispatch::MoveDepth::kContext;
  if (deep && (!process.checkpoints || process.deep)) wrong("with a context that cannot be moved");
  if (process.where != (deep ? Process::Where::kOut : Process::Where::kIn)) {
    return wrong("from where it is not");
  }
  process.move_limit = moment_.now + options_.limits.move_timeout;
  accounts_.move(process, Process::Where::kMovingOut, deep);
}

void Invariants::see(const dispatch::MemoryMoved& event) {
  const auto found = accounts_.processes.find(event.sandbox);
  if (found == accounts_.processes.end() || found->second.state == State::kStopping) return;
  Process& process = found->second;
  using Where = Process::Where;
  const bool in = event.direction == dispatch::MoveDirection::kIn;
  if (process.where != (in ? Where::kMovingIn : Where::kMovingOut)) return;
  // What gives up its context is out already, whatever comes of the move.
  const bool deep = process.deep;
  const bool is_in = in ? event.done : !event.done && !deep;
  if (!in && event.done && !deep) {
    process.left = std::min(event.left, process.memory - process.offloaded);
    process.offloaded = std::min(event.offloaded, process.memory - process.left);
  }
  accounts_.move(process, is_in ? Where::kIn : Where::kOut, deep && in != event.done);
  if (is_in || process.state == State::kIdle) process.move_limit = kNever;
  if (!in && !is_in && process.state == State::kBusy) {
    process.move_limit = moment_.now + options_.limits.move_wait();
  }
  if (!is_in || process.state != State::kBusy) return;
  const Function& owner = accounts_.function(process.function);
  const Duration timeout = owner.profile.timeout;
  accounts_.live.at(process.invocation).run_limit =
      timeout.count() > 0 ? moment_.now + timeout : kNever;
}

void Invariants::see(const dispatch::MemoryWanted& event) {
  const auto found = accounts_.processes.find(event.sandbox);
  if (found == accounts_.processes.end() || found->second.state == State::kStopping) return;
  Process& process = found->second;
  if (process.wanted) return;
  process.wanted = event.bytes;
  const bool may_wait = process.state == State::kBusy && process.where == Process::Where::kIn;
  if (may_wait) process.move_limit = moment_.now + options_.limits.move_timeout;
}

void Invariants::see(const dispatch::GrantMemory& action) {
  const auto wrong = [&](const char* why) {
    violate(Invariant::kMoves,
            "sandbox " + std::to_string(action.sandbox.value) + " is granted memory " + why);
  };
  const auto found = accounts_.processes.find(action.sandbox);
  if (found == accounts_.processes.end()) return wrong("and does not exist");
  Process& process = found->second;
  if (process.state == State::kStopping) return wrong("and was stopped");
  if (!process.wanted || action.bytes > *process.wanted) return wrong("that it did not want");
  process.wanted.reset();
  const bool is_in = process.where == Process::Where::kIn;
  if (is_in) process.move_limit = kNever;
  const Bytes fetched = std::min(action.bytes, process.offloaded);
  if (fetched == Bytes(0)) return;
  if (!is_in || process.state != State::kBusy) return wrong("while it does not work on the device");
  accounts_.fetch(process, fetched);
  check_arrival(process, "memory is granted");
}

// After something was brought onto a device.
void Invariants::check_arrival(const Process& process, const char* what) {
  if (process.device == 0) return;
  process.for_each_device([&](uint32_t index) {
    const Device& device = accounts_.devices[index];
    if (device.memory + device.taken <= device.options.memory) return;
    violate(Invariant::kMemory, std::string(what) + " onto device " +
                                    std::to_string(device.options.id.value) + ", which has " +
                                    std::to_string(device.memory.count) + " bytes in use and " +
                                    std::to_string(device.taken.count) + " taken, of " +
                                    std::to_string(device.options.memory.count));
  });
}

// What is taken may be more than was left: who rests on the device, and whose memory is not on its
// way, has made room then.
void Invariants::check_beside_taken() {
  using Where = Process::Where;
  const auto is_taken = [](const Device& device) { return device.taken > Bytes(0); };
  if (std::none_of(accounts_.devices.begin(), accounts_.devices.end(), is_taken)) return;
  std::vector<Bytes> leaving(accounts_.devices.size());
  for (const auto& [id, process] : accounts_.processes) {
    if (process.state == State::kStopping) {
      process.for_each_device([&](uint32_t index) { leaving[index] += process.held; });
    } else if (process.where == Where::kMovingOut) {
      const Bytes leaves = process.deep ? process.held : process.held - process.left;
      process.for_each_device([&](uint32_t index) { leaving[index] += leaves; });
    }
  }
  for (const auto& [id, process] : accounts_.processes) {
    if (process.state != State::kIdle || process.held == Bytes(0)) continue;
    if (process.where == Where::kMovingIn || process.where == Where::kMovingOut) continue;
    process.for_each_device([&, sandbox = id](uint32_t index) {
      const Device& device = accounts_.devices[index];
      if (!is_taken(device) || !device.healthy) return;
      const Bytes stays = device.memory - leaving[index];
      if (stays + device.taken <= device.options.memory) return;
      violate(Invariant::kMemory,
              "sandbox " + std::to_string(sandbox.value) +
                  " rests on a device where it has no room beside what is taken");
    });
  }
}

void Invariants::check_host_memory() {
  const Bytes most = options_.limits.fleet.host_memory;
  if (accounts_.on_host <= most) return;
  violate(Invariant::kHostMemory, std::to_string(accounts_.on_host.count) +
                                      " bytes were moved off the devices, of " +
                                      std::to_string(most.count));
}

}  // namespace lambent::simulator
