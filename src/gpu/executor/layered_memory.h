// LayeredMemory: the memory of temporaries that comes with the first layer of a running request
// that needs it and goes with the last, and the pool that it comes from. Of the loop thread; the
// driver is asked on threads of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/domain/memory_profile.h"
#include "decide/kernel_graph/layers.h"
#include "decide/scheduling/pool_scaling.h"
#include "gpu/executor/device_thread.h"
#include "gpu/executor/page_pool.h"

namespace lambent::executor {

class LayeredMemory {
 public:
  struct Options {
    scheduling::PoolRule rule = scheduling::PoolRule::kResilient;  // not kStatic
    // Of Algorithm 1 (decide/scheduling/pool_scaling.h); none: as long as the driver takes for 200
    // MB.
    std::optional<Duration> interval;
    // For so long after a request has ended the pool keeps some pages for the next: where requests
    // follow each other, most of what a small function needs is there and mapped.
    Duration hold = Duration(0);
  };
  // Memory that goes to the device by `give`, which may wait for what runs there; `then` is called
  // when it has gone. Both empty: there is none.
  struct Room {
    std::function<void()> give, then;
  };
  struct Hooks {
    // The memory of a layer of the instance's request is there, or will not be.
    std::function<void(SandboxId)> progress;
    // The device has not so much left: what could go elsewhere is to go to it.
    std::function<Room(Bytes)> make_room;
    // Whether room_came() will be called without the end of a request.
    std::function<bool()> waits;
  };
  static Result<std::unique_ptr<LayeredMemory>> create(loop::EventLoop& loop,
                                                       const cuda::Driver& driver,
                                                       const cuda::Context& context, int ordinal,
                                                       Options options, Hooks hooks);
  ~LayeredMemory();
  LayeredMemory(const LayeredMemory&) = delete;
  LayeredMemory& operator=(const LayeredMemory&) = delete;

  // For windows, which are opened and closed where that may wait.
  PagePool& pages() { return *pool_; }

  // An instance and its window. `plan` outlives it here.
  void add(SandboxId instance, CUdeviceptr window, const kernel_graph::LayerPlan& plan);
  // Its request, if it has one, is over. `then` is called when the window is not used any more.
  void remove(SandboxId instance, std::function<void()> then);
  // What lies in its window goes to the device; `then` is called when it has.
  void move_out(SandboxId instance, std::function<void()> then);

  // A request begins: asks for the memory of its first layer.
  void begin(SandboxId instance);
  // Whether that of the layer is there; else progress is told. RESOURCE_EXHAUSTED if it will not
  // be.
  Result<bool> is_there(SandboxId instance, uint32_t layer) const;
  // The layer, which is there, is about to be launched; returns what has come since the one before
  // with something of others in it, which clean() ends.
  std::vector<PagePool::Run> begin_layer(SandboxId instance, uint32_t layer);
  // It is queued that these are overwritten, before what the request does next. What is not cleaned
  // comes as foreign again.
  void clean(SandboxId instance, std::vector<PagePool::Run> runs);
  // The device has done the request's next layer: what only that needed goes, and what the one
  // after the next needs comes.
  void layer_ended(SandboxId instance);
  // The request is over, and nothing of it runs; nothing happens if none has begun.
  void end(SandboxId instance);
  // Memory elsewhere may go that could not before: who lacks some asks again.
  void room_came();
  // Pages that are free go to the device; `then` is called when they have.
  void give_to_device(std::function<void()> then);
  // The most that the last request had at a time.
  Bytes peak(SandboxId instance) const;

 private:
  struct Take {
    std::vector<uint32_t> pages;
    uint64_t gains = 0;  // when it was asked
    Result<std::vector<PagePool::Run>> outcome = std::vector<PagePool::Run>();
  };
  struct Instance {
    CUdeviceptr window = 0;
    const kernel_graph::LayerPlan* plan = nullptr;
    MemoryProfile profile;  // with the shortest time that each layer has taken
    bool is_out = false;
    // Of the request that runs, if one does.
    bool runs = false;
    uint64_t request = 0;
    uint32_t there = 0;            // layers whose memory is there or was
    uint32_t ended = 0;            // layers
    std::shared_ptr<Take> taking;  // what the next layer lacks, while it is asked for
    std::optional<Error> lack;     // the next layer could not be had, and is asked for again
    bool has_loosened = false, has_made_room = false;
    std::optional<Error> failure;
    std::vector<bool> taken;  // by page
    uint64_t count = 0, peak = 0;
    std::vector<PagePool::Run> foreign;
    Instant began;  // the layer that runs
  };

  LayeredMemory(loop::EventLoop& loop, const cuda::Context& context, std::unique_ptr<PagePool> pool,
                Options options, Hooks hooks);
  void measure();
  void drop(CUdeviceptr window, std::function<void()> then);
  void prepare(SandboxId id, Instance& instance);
  void take(SandboxId id, Instance& instance, std::shared_ptr<Take> what);
  void came(SandboxId id, uint64_t request, const std::shared_ptr<Take>& what);
  // The instance lacks so much: has some made free, or waits for who has some.
  void find_room(Instance& instance, Bytes size);
  void fail_if_stuck();
  void give(std::function<void()> work, std::function<void()> then = {});
  // Pages were given back; more may be loose than before.
  void pages_came();
  void retry();
  void give_back(Instance& instance, std::vector<uint32_t> pages);
  // There will be a look when the state asks for one, or earlier.
  void watch();
  void look();
  bool is_held(Instant now) const;

  loop::EventLoop& loop_;
  const Options options_;
  const Hooks hooks_;
  const std::unique_ptr<PagePool> pool_;
  Duration interval_ = milliseconds(20);
  bool grows_ = false, shrinks_ = false;
  struct Watch {
    loop::TimerId timer;
    Instant due;
  };
  std::optional<Watch> watch_;       // the next look
  std::optional<Instant> last_end_;  // of a request
  uint64_t requests_ = 0;
  uint64_t gains_ = 0;   // how often a request may have got what it lacked
  uint32_t giving_ = 0;  // what gives_ has to do
  std::unordered_map<SandboxId, Instance> instances_;
  // The first asks for memory, in order; the second gives some to the device, which may wait for
  // what runs there.
  DeviceThread takes_, gives_;
};

}  // namespace lambent::executor
