// SandboxWaits: the sandboxes of a pool that cannot go on yet: planned ones wait for the memory of
// others, ready ones for a token. Owned by DevicePool, on the thread that handles events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/base/state_archive.h"
#include "decide/scheduling/fleet.h"

namespace lambent::dispatch {

// Both lists are short.
class SandboxWaits {
 public:
  // `fleet` outlives it.
  explicit SandboxWaits(const scheduling::Fleet& fleet) : fleet_(fleet) {}

  // A planned one waits until start_planned() starts it.
  void wait_to_start(scheduling::SandboxSlot slot) { planned_.push_back(slot); }
  // Calls `start(slot)` for each planned one that may start; it is in the list no more.
  template <typename Start>
  void start_planned(Start start) {
    std::erase_if(planned_, [&](scheduling::SandboxSlot slot) {
      if (!fleet_.may_start(slot)) return false;
      start(slot);
      return true;
    });
  }
  // Calls `drop(slot)` for each planned one of which `drops(sandbox)` is true; it is in the list no
  // more.
  template <typename Drop>
  void drop_planned(const std::function<bool(const scheduling::Sandbox&)>& drops, Drop drop) {
    for (size_t i = 0; i < planned_.size();) {
      const scheduling::SandboxSlot slot = planned_[i];
      if (!drops(fleet_.sandbox(slot))) {
        ++i;
        continue;
      }
      planned_.erase(planned_.begin() + static_cast<ptrdiff_t>(i));
      drop(slot);
    }
  }
  std::optional<scheduling::SandboxSlot> last_planned_on(uint32_t device) const;

  // A ready one waits for a token, until run_ready() runs it.
  void wait_to_run(scheduling::SandboxSlot slot) { ready_.push_back(slot); }
  bool waits_to_run(scheduling::SandboxSlot slot) const;
  void forget_ready(scheduling::SandboxSlot slot) { std::erase(ready_, slot); }
  // Calls `run(slot)` for each that waits for a token and gets one, and `give_up(slot)` where no
  // token will come because only sandboxes that may never go hold any.
  template <typename Run, typename GiveUp>
  void run_ready(Run run, GiveUp give_up) {
    std::erase_if(ready_, [&](scheduling::SandboxSlot slot) {
      if (!fleet_.may_run(slot)) return false;
      run(slot);
      return true;
    });
    for (size_t i = 0; i < ready_.size();) {
      const scheduling::SandboxSlot slot = ready_[i];
      if (fleet_.devices()[fleet_.sandbox(slot).device].gives_tokens()) {
        ++i;
        continue;
      }
      ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(i));
      give_up(slot);
    }
  }

  // The fleet must have been restored before.
  void archive(StateArchive& archive);

 private:
  const scheduling::Fleet& fleet_;
  std::vector<scheduling::SandboxSlot> planned_;
  std::vector<scheduling::SandboxSlot> ready_;
};

}  // namespace lambent::dispatch
