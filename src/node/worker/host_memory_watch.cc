#include "node/worker/host_memory_watch.h"

#include <vector>

#include "decide/scheduling/host_victims.h"
#include "node/worker/dispatch_driver.h"

namespace lambent::worker {
namespace {

// A look reads a file for each sandbox.
constexpr Duration kLookAfter = milliseconds(100);
constexpr Duration kWarnAgain = seconds(60);
// Of the limit, what may be held beyond it until those rest that start or work. Unless an operator
// says otherwise the limit is three quarters of the host's memory, which has room for that.
constexpr double kMayWait = 0.25;

}  // namespace

void HostMemoryWatch::note() {
  if (limit_ == Bytes(0) || is_to_look_) return;
  is_to_look_ = true;
  timer_ = loop_.call_after(kLookAfter, [this] {
    is_to_look_ = false;
    look();
  });
}

void HostMemoryWatch::look() {
  const scheduling::Fleet& fleet = dispatcher_.host_fleet();
  std::vector<scheduling::MeasuredSandbox> measured;
  Bytes held;
  for (const SandboxStatus& status : sandboxes_.status(Metering::kMemory, std::nullopt)) {
    const auto slot = fleet.find(status.id);
    // What one that ends holds comes free without more.
    if (!slot || fleet.sandbox(*slot).state == scheduling::SandboxState::kStopping) continue;
    held += status.host_memory;
    measured.push_back({*slot, status.host_memory});
  }
  if (held <= limit_) return;
  const Instant now = loop_.clock().now();
  const Bytes may_wait(static_cast<uint64_t>(kMayWait * static_cast<double>(limit_.count)));
  const std::vector<scheduling::SandboxSlot> victims = scheduling::host_victims(
      fleet, dispatcher_.flows(), measured, {held - limit_, may_wait}, now);
  const bool is_much = held - limit_ > may_wait;
  const bool warns =
      victims.empty() && is_much && (warned_ == Instant{} || now - warned_ >= kWarnAgain);
  if (warns) warned_ = now;
  if (warns || !victims.empty()) {
    log_.write(warns ? LogLevel::kWarning : LogLevel::kInfo, "host_memory_short",
               {{"held_mib", static_cast<int64_t>(held.count >> 20)},
                {"limit_mib", static_cast<int64_t>(limit_.count >> 20)},
                {"leave", static_cast<int64_t>(victims.size())}});
  }
  std::vector<SandboxId> leaving;
  for (const scheduling::SandboxSlot slot : victims) leaving.push_back(fleet.sandbox(slot).id);
  for (const SandboxId id : leaving) driver_.handle(dispatch::SandboxCrowdedOut{id});
}

}  // namespace lambent::worker
