// How running kernels share one device: a pure discrete-event model over plain values, without
// clock, lock or allocation. The state lies in the shared node file; the holder of the node's lock
// calls these functions with the present virtual time.
//
// Kernels of one group (a context and its green contexts, or all clients of MPS) run side by side:
// in order of priority, beginning and submission each takes the multiprocessors it wants from those
// still free that it may use, the last perhaps fewer, and runs proportionally slower. Those that
// may use all leave for last the ones to which another kernel is confined. Groups take turns: with
// k of them active each gets 1 / (k (1 + penalty (k - 1))). Between two events every rate is
// constant, so finishing times are exact.
//
// What comes after a kernel often begins at its very end, but its owner hears of the end only when
// a thread has woken up. So the model stands still at the end of an awaited kernel until the owner
// has looked (remove()): whatever it starts then joins at the exact instant, and finishing times do
// not depend on how late threads wake.
//
// Every field is valid on its own (no links, no totals over fields; a bound is too large at worst):
// a writer killed half-way leaves a state that repair() can make consistent.
#pragma once

#include <cstdint>

#include "emulator/emulated_node/multiprocessor_set.h"

namespace lambent::emulated_node {

constexpr int kMaxKernels = 128;
constexpr int kUtilizationSamples = 64;

enum class KernelState : uint32_t { kFree = 0, kRunning = 1, kFinished = 2, kAhead = 3 };

struct ModelKernel {
  uint64_t ticket;
  uint64_t group;       // kernels of one group run side by side
  uint64_t client;      // whose kernels the limit concerns
  uint32_t limit;       // of the multiprocessors that they hold together; 0: none
  uint32_t process;     // whose kernel it is, for remove_process
  uint32_t wanted;      // multiprocessors it can use
  double remaining_ns;  // work left, by itself and with all that it wants
  int64_t begin_ns;     // when kAhead: the instant at which it will begin
  int64_t finish_ns;    // when kFinished: the exact instant
  uint64_t sequence;    // order of submission, among equals
  KernelState state;
  int32_t priority;           // lower runs first, as CUDA has it
  uint32_t held;              // its body still runs on the host: the device counts as busy
  uint32_t awaited;           // the model stands still at its end
  MultiprocessorSet allowed;  // empty: all
};

struct UtilizationSample {
  int64_t at_ns, busy_ns;
};

struct DeviceModel {
  int32_t multiprocessors;
  double context_penalty;
  int64_t window_ns;  // of utilization()
  int64_t now_ns;
  int64_t busy_ns;  // how long at least one kernel ran, since the beginning
  uint64_t next_ticket;
  uint32_t kernel_bound;  // those that are not free lie below
  ModelKernel kernels[kMaxKernels];
  UtilizationSample samples[kUtilizationSamples];
  uint32_t next_sample;
};

struct KernelDemand {
  uint64_t group;
  uint32_t process;
  uint32_t multiprocessors;
  int64_t duration_ns;  // by itself on the device
  int64_t begin_ns;     // if before now: what it could have done since then is credited to it
  uint64_t sequence;
  int32_t priority;
  // Its body runs on the host: not awaited before release_hold(), for that may take any time.
  bool held;
  uint64_t client = 0;
  uint32_t limit = 0;
  MultiprocessorSet allowed{};
};

// Moves the model on to `now_ns`, or to the end of an awaited kernel; an earlier instant changes
// nothing.
void advance(DeviceModel& model, int64_t now_ns);

// Whether the model stands at the end of an awaited kernel; stop_waiting() lets it go on for good.
bool stands_still(const DeviceModel& model);
void stop_waiting(DeviceModel& model);

// Adds a kernel and returns its ticket, or 0 if kMaxKernels are there.
uint64_t start(DeviceModel& model, const KernelDemand& demand);

// When the kernel finished, or -1 if it still runs. A ticket that is gone counts as finished now.
int64_t finished_at(const DeviceModel& model, uint64_t ticket);

// When the kernel will finish if nothing joins or leaves before its time.
int64_t predicted_finish(const DeviceModel& model, uint64_t ticket);

void release_hold(DeviceModel& model, uint64_t ticket);
void remove(DeviceModel& model, uint64_t ticket);
void remove_process(DeviceModel& model, uint32_t process);

// Per cent of the last window in which at least one kernel ran.
int utilization_percent(const DeviceModel& model);

int active_kernels(const DeviceModel& model);

// What the kernel holds of its group's share at present; empty if it waits or is gone.
MultiprocessorSet held_by(const DeviceModel& model, uint64_t ticket);

// Drops what a writer that died half-way may have left invalid.
void repair(DeviceModel& model);

}  // namespace lambent::emulated_node
