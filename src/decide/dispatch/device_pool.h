// Dispatcher::DevicePool: devices, their sandboxes and the policy that orders the flows which
// share them. Private to Dispatcher.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {

// The error type that is the platform's fault, and is tried again; all but these two are the
// function's.
constexpr std::string_view kPlatformFailure = "Sandbox.Failure";
// What the sandbox needs beside its own memory had no room on the device: another try would wait
// as long.
constexpr std::string_view kNoRoom = "Sandbox.NoRoom";

// What an invocation is told that can never run, for no device is large enough.
inline Error too_large(Bytes device_memory) {
  return {ErrorCode::kFailedPrecondition, "the function asks for " + to_string(device_memory) +
                                              " of device memory and no GPU here has that"};
}

struct Dispatcher::DevicePool {
  DevicePool(Processor processor_in, scheduling::FleetOptions options,
             std::unique_ptr<scheduling::Policy> order)
      : processor(processor_in), fleet(std::move(options)), policy(std::move(order)) {}

  const Processor processor;
  scheduling::Fleet fleet;
  std::unique_ptr<scheduling::Policy> policy;
  // Sandboxes that wait for the memory of others, and ready ones that wait for a token; few.
  std::vector<scheduling::SandboxSlot> planned;
  std::vector<scheduling::SandboxSlot> ready;
  // MemoryRule::kMoveIdle: sandboxes that were given an invocation while their memory was out or on
  // its way out, in that order; and when a move has taken, or one of these has waited, too long.
  std::vector<scheduling::SandboxSlot> wanting;
  // Running ones whose memory that is offloaded was admitted and waits for room, in that order.
  // Their wait has an end in `moves` too.
  std::vector<scheduling::SandboxSlot> fetching;
  scheduling::Deadlines moves;
  // When a starting sandbox has taken, or an idle one has rested, too long; by slot.
  scheduling::Deadlines deadlines;
};

}  // namespace lambent::dispatch
