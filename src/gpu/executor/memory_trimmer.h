// MemoryTrimmer: returns memory of an executor's pool to the device: what has been free for a hold,
// and the buffers of instances that had no request for as long. Of the loop thread; memory is
// unmapped on a thread of its own, because the driver may wait there for what runs on the device.
#pragma once

#include <functional>
#include <optional>

#include "decide/scheduling/pool_scaling.h"
#include "gpu/executor/device_store.h"
#include "gpu/executor/device_thread.h"
#include "gpu/executor/memory_pool.h"

namespace lambent::executor {

class MemoryTrimmer {
 public:
  struct Options {
    scheduling::PoolRule rule = scheduling::PoolRule::kResilient;  // others return nothing
    Duration hold = seconds(1);
  };
  struct Hooks {
    // Whether the instance has had no request for the hold; true of one that has gone.
    std::function<bool(SandboxId)> is_idle;
    // Memory has gone to the device.
    std::function<void()> on_returned;
    // Whether the executor has ended; then nothing is returned any more.
    std::function<bool()> has_ended;
  };
  // All outlive this; the store lies in the pool.
  MemoryTrimmer(loop::EventLoop& loop, const cuda::Context& context, MemoryPool& pool,
                DeviceStore& store, Options options, Hooks hooks);
  ~MemoryTrimmer();
  MemoryTrimmer(const MemoryTrimmer&) = delete;
  MemoryTrimmer& operator=(const MemoryTrimmer&) = delete;

  // To be called when there is memory that may be returned: looks at it a part of the hold later,
  // and again until all is returned.
  void watch();
  // Whether memory is being unmapped; on_returned follows.
  bool is_returning() const { return is_returning_; }

 private:
  struct Excess {
    Bytes size;                // of the pool, above what busy instances need
    bool has_buffers = false;  // of instances
  };
  Excess find_excess() const;
  void look();

  loop::EventLoop& loop_;
  MemoryPool& pool_;
  DeviceStore& store_;
  const Options options_;
  const Hooks hooks_;
  bool is_returning_ = false;
  std::optional<loop::TimerId> next_look_;
  DeviceThread unmaps_;
};

}  // namespace lambent::executor
