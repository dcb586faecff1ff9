// ProgramRun: one run of an instance's program: which instruction is next, and what it waits for.
// Queues what the device can do without the host. Of a request, on the loop thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu/executor/contents.h"
#include "gpu/executor/instance_loader.h"
#include "gpu/executor/layered_memory.h"

namespace lambent::executor {

class ProgramRun {
 public:
  // What has to come before the run goes on.
  enum class Next : uint8_t {
    kDevice,    // it has to do what was queued; then device_answered()
    kConstant,  // one that is not on its way to the device yet
    kLayer,     // the memory of the layer that is next
    kEnd,       // all is queued
  };
  // `loaded` stays as long as the run, and so do the others. `layers` may be null if the instance
  // has none. `on_layer` is called on a thread of the driver's when the device has done a layer, or
  // failed.
  ProgramRun(SandboxId instance, LoadedInstance& loaded, Contents& contents, LayeredMemory* layers,
             std::function<void(CUresult)> on_layer);
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  // Before the first advance(): the buffers lie at these addresses, which stay in place. `variant`
  // is that of the request; 0: the graph has none.
  void begin(std::span<const CUdeviceptr> addresses, uint64_t variant = 0);
  // Queues as much as may be queued, from where the run stands.
  Result<Next> advance();
  // The device has done all that was queued.
  void device_answered();
  // Whether all instructions are queued.
  bool has_ended() const;

  bool awaits_constant() const { return awaits_ == Next::kConstant; }
  bool awaits_layer() const { return awaits_ == Next::kLayer; }
  // What the run awaited is not needed any more, because its request fails.
  void stop_waiting() { awaits_ = Next::kDevice; }

  // The instance is removed: loops of the device end with their round, and no layer begins.
  void withdraw();
  bool is_withdrawn() const { return is_withdrawn_; }  // any thread

  // Whether a graph with calls of cuBLAS could not be launched as one.
  bool has_launched_apart() const { return has_launched_apart_; }

 private:
  // Each returns true if the run goes on, and else has set what it awaits.
  Result<bool> step();
  Result<bool> begin_layer(uint32_t layer);
  Result<bool> launch(const Instruction& now);
  Result<bool> launch_apart(const Instruction& now);
  Result<bool> launch_loop(const Instruction& now);
  Result<bool> launch_kernels(const Instruction& now);
  Result<bool> await_constants_of(uint32_t graph);
  Result<bool> await_constants(uint32_t kernel);
  bool await(Next what);
  const std::vector<Instruction>& instructions() const { return loaded_.program->instructions(); }

  const SandboxId instance_;
  LoadedInstance& loaded_;
  Contents& contents_;
  LayeredMemory* const layers_;
  const std::function<void(CUresult)> on_layer_;
  std::span<const CUdeviceptr> addresses_;  // by buffer
  uint64_t variant_ = 0;

  uint32_t instruction_ = 0;
  uint64_t launched_ = 0;         // of the instruction's times
  uint64_t queued_ = 0;           // launches since the host last waited
  std::vector<uint64_t> rounds_;  // left, of the loops around the instruction
  bool reads_flag_ = false;       // what the device does now ends with reading a flag
  // Of a cold run: constants, by index of the instance's, for which its stream does not wait yet;
  // and the next kernel of the instruction's.
  std::vector<uint32_t> coming_;
  uint32_t kernel_ = 0;
  Next awaits_ = Next::kDevice;
  bool has_launched_apart_ = false;
  std::atomic<bool> is_withdrawn_ = false;  // set before the loops are stopped
};

}  // namespace lambent::executor
