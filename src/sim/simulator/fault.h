// The kinds of things that go wrong in a FaultyWorld, by name. Values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lambent::simulator {

enum class Fault : uint8_t {
  // Of a sandbox.
  kFailedStart,  // the platform cannot start it
  kInitCrash,    // the function's code ends before it asks for work
  kHangingStart,
  kSlowStart,
  kIdleDeath,
  kUndelivered,  // it ends before the invocation that it was given reaches its handler
  kCrash,
  kHang,  // a run that never ends
  kHandlerError,
  kSlowLoad,  // its memory comes in slowly before the run
  kFailedLoad,
  kHangingStop,  // it does not go for minutes after it was told to
  kSlowMove,     // its memory moves for many seconds
  kFailedMove,   // its memory stays where it is
  kHangingMove,  // a move that never ends
  kMoveDeath,    // it ends in the middle of a move
  // Of messages from sandboxes and of timers.
  kLateMessage,
  kLostMessage,
  kDuplicateMessage,
  kStrayMessage,  // about something unknown or long over
  kLateTimer,
  kEarlyTimer,
  // Of devices and of the clock.
  kLostDevice,
  kSilentDevice,   // it does not answer for a while, and nothing on it is harmed
  kTakenDevice,    // others than sandboxes take of its memory for a while
  kExecutorDeath,  // the process ends that several functions share on it
  kClockStep,      // minutes pass at once, as for a process that was suspended
  // What people do at the worst moment.
  kCancellation,
  kRepeatedSubmission,
  kRedeploy,
  kStaleDeploy,  // of a revision that is older than the present one
  kRemoval,
  kDrain,
};
constexpr size_t kFaults = static_cast<size_t>(Fault::kDrain) + 1;

using FaultCounts = std::array<uint64_t, kFaults>;

std::string_view name_of(Fault fault);
std::optional<Fault> fault_from_name(std::string_view name);

}  // namespace lambent::simulator
