#include "node/worker/call_prospects.h"

#include "decide/dispatch/queues.h"

namespace lambent::worker {
namespace {

// A guess of the link; half or four times as much changes little.
constexpr double kLinkBytesPerSecond = 10e9;
// What a call of a function takes that never had one.
constexpr Duration kFirstCall = seconds(1);

}  // namespace

workflow::Prospect prospect_of(const dispatch::Dispatcher& dispatcher, FunctionId function) {
  if (!dispatch::is_registered(dispatcher.flows(), function)) return {};
  const scheduling::Flow& flow = dispatcher.flows()[function.value];
  const scheduling::Fleet& fleet = dispatcher.fleet();
  workflow::Prospect prospect{.takes = flow.execution.mean_or(kFirstCall),
                              .is_guess = !flow.execution.known()};
  const bool uses_gpu = flow.device_memory > Bytes(0) && flow.max_concurrency > 0;
  if (!uses_gpu || flow.has_work() || fleet.starts_of(function) > 0) return prospect;
  const scheduling::SandboxSlot idle = fleet.idle().newest_of(function);
  if (idle == scheduling::kNoSandbox) {
    prospect.needs_start = true;
    prospect.start = flow.cold_start.mean_or(dispatcher.options().fleet.guesses.cold_start);
  } else if (fleet.sandbox(idle).memory_state == scheduling::MemoryState::kOut) {
    prospect.needs_start = true;
    prospect.start =
        from_seconds(static_cast<double>(fleet.sandbox(idle).needed().count) / kLinkBytesPerSecond);
  }
  return prospect;
}

}  // namespace lambent::worker
