// MigLayout: how devices are cut into slices, read and changed through NVML. A resource; used on
// one thread by `lambent slices`, never by a worker: what it changes, an operator asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "gpu/mig/change.h"
#include "gpu/mig/state.h"

namespace lambent::monitor {

class MigLayout {
 public:
  // UNAVAILABLE if the library cannot be loaded, is too old, or says that there is no driver.
  static Result<std::unique_ptr<MigLayout>> open(const std::string& path);
  ~MigLayout();
  MigLayout(const MigLayout&) = delete;
  MigLayout& operator=(const MigLayout&) = delete;

  // The devices only look like some: their slices keep nothing apart.
  bool is_emulated() const;
  // All devices as they are now; one that does not answer has an index and nothing else.
  std::vector<mig::GpuState> gpus() const;
  // NOT_FOUND if there is none of that index.
  Result<mig::GpuState> gpu(uint32_t index) const;

  // Turns MIG mode on or off. FAILED_PRECONDITION while anything uses the device, or if the mode
  // comes into force only with a reset; PERMISSION_DENIED for those who may not.
  Result<void> set_enabled(uint32_t index, bool enabled);

  // Destroys and creates instances, each created one with one compute instance of its whole size.
  // FAILED_PRECONDITION, before anything is changed, while a process uses the device, or if it is
  // no longer cut as `change` says. Ends at the first call that fails: the error says which.
  Result<void> apply(uint32_t index, const mig::Change& change);

 private:
  struct State;
  explicit MigLayout(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lambent::monitor
