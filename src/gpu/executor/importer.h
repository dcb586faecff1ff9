// Importer: brings contents that another executor shares, from its part of a device to ours. Of the
// loop thread, whose current context is our device's.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/loop/event_loop.h"
#include "gpu/cuda/stream.h"
#include "gpu/cuda/virtual_memory.h"

namespace lambent::executor {

class Importer {
 public:
  // All outlive it.
  static Result<std::unique_ptr<Importer>> create(loop::EventLoop& loop, const cuda::Driver& driver,
                                                  int ordinal);
  ~Importer();
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;

  // Copies the first `size` bytes of device memory that is `shared` large to `to`; `on_end` is
  // called later, unless there is an error. The exporter must keep its content until then.
  Result<void> copy(const OwnedFd& memory, Bytes shared, CUdeviceptr to, Bytes size,
                    std::function<void(Result<void>)> on_end);

 private:
  struct Copy {
    cuda::ReservedAddresses addresses;
    Bytes mapped;
    std::function<void(Result<void>)> on_end;
    std::function<void(CUresult)> on_device;
  };
  Importer(loop::EventLoop& loop, const cuda::Driver& driver, int ordinal, cuda::Stream stream)
      : loop_(loop), driver_(driver), ordinal_(ordinal), stream_(std::move(stream)) {}
  void ended(uint64_t number, CUresult result);

  loop::EventLoop& loop_;
  const cuda::Driver& driver_;
  const int ordinal_;
  cuda::Stream stream_;
  std::unordered_map<uint64_t, std::unique_ptr<Copy>> copies_;
  uint64_t last_number_ = 0;
  // So that a late answer of the device finds this gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::executor
