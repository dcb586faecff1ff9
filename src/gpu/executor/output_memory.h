// OutputMemory: memory for outputs that become objects, whose pages are made while the kernels
// still run: a file that has none yet takes two to three times as long to write. Of the loop
// thread; another one makes the pages.
#pragma once

#include <memory>
#include <utility>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "gpu/executor/device_thread.h"

namespace lambent::executor {

// A file of an output's size. Until it is taken, it counts as memory that is made early. A
// resource.
class EarlyMemory {
 public:
  EarlyMemory(OwnedFd file, Bytes counted, std::shared_ptr<Bytes> early)
      : file_(std::move(file)), counted_(counted), early_(std::move(early)) {}
  EarlyMemory(EarlyMemory&&) = default;
  EarlyMemory& operator=(EarlyMemory&&) = delete;
  ~EarlyMemory() {
    if (early_ != nullptr) *early_ -= counted_;
  }

  int file() const { return file_.get(); }
  // To be written, from now on.
  static OwnedFd take(EarlyMemory memory) { return std::move(memory.file_); }

 private:
  OwnedFd file_;
  Bytes counted_;
  std::shared_ptr<Bytes> early_;  // of all; null once moved from
};

class OutputMemory {
 public:
  // The thread outlives this; what was made may outlive both.
  explicit OutputMemory(DeviceThread& thread) : thread_(thread) {}
  OutputMemory(const OutputMemory&) = delete;
  OutputMemory& operator=(const OutputMemory&) = delete;

  // Its pages come soon; or when it is written, if it is small or too much was made early already.
  Result<EarlyMemory> make(Bytes size);

 private:
  DeviceThread& thread_;
  const std::shared_ptr<Bytes> early_ = std::make_shared<Bytes>();
};

}  // namespace lambent::executor
