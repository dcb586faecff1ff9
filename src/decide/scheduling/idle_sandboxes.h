// IdleSandboxes: which sandboxes are idle: of each function, the one used last first, and of each
// device. Owned by Fleet, on the loop thread; policies read it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "decide/scheduling/sandbox_table.h"

namespace lambent::scheduling {

struct IdleSandbox {
  SandboxSlot slot = kNoSandbox;
  FunctionId function;
};

// The list of a function runs through its sandboxes, as `Sandbox::older` and `newer`.
class IdleSandboxes {
 public:
  // `sandboxes` outlives it.
  IdleSandboxes(SandboxTable& sandboxes, size_t devices)
      : sandboxes_(sandboxes), on_device_(devices) {}

  // The one used last, or kNoSandbox; the others follow as `Sandbox::older`.
  SandboxSlot newest_of(FunctionId function) const {
    return function.value < functions_.size() ? functions_[function.value].newest : kNoSandbox;
  }
  // All of the function, the one used last first.
  std::vector<SandboxSlot> of(FunctionId function) const;
  // Of one device, in no order.
  const std::vector<IdleSandbox>& on(uint32_t device) const { return on_device_[device]; }
  // The ids of all functions that had a sandbox are below this.
  uint32_t functions() const { return static_cast<uint32_t>(functions_.size()); }
  // The one used longest ago, or kNoSandbox; the others follow as `Sandbox::newer`.
  SandboxSlot oldest_of(FunctionId function) const { return functions_[function.value].oldest; }

  // A sandbox of the function was planned.
  void note_function(FunctionId function) { at(function); }
  void enter(SandboxSlot slot);
  void leave(SandboxSlot slot);
  // After reading: which sandboxes are on several devices was read since.
  void list_again();

  // The lists of functions; the sandboxes must have been restored before.
  void archive(StateArchive& archive);

 private:
  struct OfFunction {
    SandboxSlot newest = kNoSandbox;
    SandboxSlot oldest = kNoSandbox;
  };

  OfFunction& at(FunctionId function);
  void list_on_devices(SandboxSlot slot);
  void find_again();

  SandboxTable& sandboxes_;
  std::vector<OfFunction> functions_;  // by FunctionId
  std::vector<std::vector<IdleSandbox>> on_device_;
  std::vector<uint32_t> place_on_device_;  // by slot; on the first of several devices
};

}  // namespace lambent::scheduling
