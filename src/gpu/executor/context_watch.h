// ContextWatch: whether an executor's CUDA context still works, and whether the executor has ended,
// which it does once. Of the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::executor {

class ContextWatch {
 public:
  struct Fault {
    CUresult state = CUDA_SUCCESS;  // what every call reports from now on
    Error error;
    std::optional<SandboxId> suspect;  // the instance whose work reported it
  };
  // `state` calls the driver: a broken context reports that at every call. `on_broken` is called
  // when that is found out, and has the executor end.
  ContextWatch(std::function<CUresult()> state, std::function<void(const Fault&)> on_broken)
      : state_(std::move(state)), on_broken_(std::move(on_broken)) {}
  ContextWatch(const ContextWatch&) = delete;
  ContextWatch& operator=(const ContextWatch&) = delete;

  // What the context reports, if it is broken.
  std::optional<CUresult> fault() const;
  // To be called with an error that a broken context may have caused. False: the context works, and
  // the executor goes on; else it has ended.
  bool end_if_broken(const Error& error, std::optional<SandboxId> suspect = std::nullopt);

  bool has_ended() const { return has_ended_; }
  // False if it had ended before.
  bool end() { return !std::exchange(has_ended_, true); }

 private:
  const std::function<CUresult()> state_;
  const std::function<void(const Fault&)> on_broken_;
  bool has_ended_ = false;
};

}  // namespace lambent::executor
