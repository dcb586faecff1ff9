// Flow: what scheduling knows of one function: its limits, how much of it waits and runs, and what
// was learnt of it. A value; kept by dispatch on the loop thread, read by policies.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::scheduling {

// The mean of the first kWindow samples, from then on an exponentially weighted one: it settles
// quickly and still follows a function whose behaviour changes.
class RunningMean {
 public:
  static constexpr uint64_t kWindow = 64;

  RunningMean() = default;
  // What was learnt before a restart.
  RunningMean(Duration mean, uint64_t samples) : mean_(mean), samples_(samples) {}

  bool known() const { return samples_ > 0; }
  Duration mean() const { return mean_; }
  Duration mean_or(Duration otherwise) const { return known() ? mean_ : otherwise; }
  uint64_t samples() const { return samples_; }
  // Of all samples since the start.
  Duration total() const { return total_; }

  void learn(Duration sample) {
    ++samples_;
    total_ += sample;
    const int64_t weight = static_cast<int64_t>(samples_ < kWindow ? samples_ : kWindow);
    mean_ += (sample - mean_) / weight;
  }

  // What was learnt counts as so many samples at most, beside those that follow.
  void weigh_as(uint64_t most) { samples_ = samples_ < most ? samples_ : most; }

  void archive(StateArchive& archive) {
    archive.field(mean_);
    archive.field(samples_);
    archive.field(total_);
  }

 private:
  Duration mean_{};
  uint64_t samples_ = 0;
  Duration total_{};
};

// What every arrival and every end looks at comes first, in three lines of the processor's cache:
// with thousands of functions they mostly have to be fetched.
struct alignas(64) Flow {
  bool registered = false;
  bool memory_moves = true;  // its sandboxes' memory can be moved off the device and back
  bool checkpoints = false;  // and what is left then too
  // It can also run on the host's processors.
  bool has_cpu_variant = false;
  // It asks for more than its share: newcomers were refused, and its queue has stood since. Fair
  // queuing then lets those that ask for less go first, within T.
  bool sheds = false;
  // How many devices each of its sandboxes takes, all together or none; of each it has
  // device_memory. Short, as the next one.
  uint8_t gpu_count = 1;
  // How many of its invocations may be in one sandbox at once. Those that join a sandbox at work
  // are not in_flight: that counts the sandbox once. Short, for its place in the first line.
  uint16_t sandbox_concurrency = 1;
  TenantId tenant;
  uint32_t tenant_slot = 0;  // the tenant's, in Tenants
  uint64_t revision = 0;
  double weight = 1;
  // How many of its invocations may be at work on GPUs at once; zero: it may not use one now and is
  // served by the host (hybrid.h). And what it was declared with.
  unsigned max_concurrency = 1;
  unsigned declared_concurrency = 1;
  Bytes device_memory;  // of each of its sandboxes on each device; zero: it uses no GPU
  Duration timeout{};
  uint32_t pending = 0;    // waiting in its queue
  uint32_t in_flight = 0;  // dispatched and not over: their sandbox starts or it is at work

  uint32_t pending_synchronous = 0;  // of those pending, with a client that holds a connection
  uint32_t on_host = 0;    // dispatched to the host as CPU variants and not over; not in_flight
  uint64_t oldest = 0;     // arrival number of the first in its queue; meaningless if none waits
  Instant oldest_since{};  // and when it came
  Instant last_arrival = kNever;
  Instant last_activity{};     // last arrival, dispatch or finish
  Instant active_until{};      // end of the grace period of an empty flow
  Instant last_turn = kNever;  // when the last one left; kNever: nothing waits, or none left yet

  RunningMean execution;     // only of the handler, never with cold time in it
  RunningMean interarrival;  // between two arrivals
  RunningMean cold_start;    // until a new sandbox asked for work
  RunningMean turns;         // between two that left its queue for a place while more waited
  Instant turns_learnt{};    // when that was measured last

  // By its owner's word a run takes so many times as long on the host's processors as on the GPU;
  // zero: not known.
  double gpu_speedup = 0;
  RunningMean host_execution;  // of its runs on the host as a CPU variant
  RunningMean host_cold_start;
  Instant last_host_run{};  // when the last that was learnt from ended
  // Incidents there without a success between them, and when the last one was noted: what was
  // dispatched before belongs to it.
  uint32_t host_failures = 0;
  Instant host_failed{};
  // The limit of the host's memory of each of its sandboxes; zero: not known.
  Bytes host_memory;
  // How long its owner lets its invocations wait in its queue; zero: as the worker says.
  Duration max_queue_time{};
  // The flow whose virtual time it has too, because both are versions of one function; zero: it has
  // one of its own.
  FunctionId account;
  // How many of its sandboxes are to be ready before any call, and are evicted last.
  unsigned min_instances = 0;
  // How long its idle sandboxes rest; zero: as the worker says.
  Duration keep_alive{};

  // Of all its devices.
  Bytes whole_device_memory() const { return device_memory * gpu_count; }

  // Whether it has something to do or is expected to, soon.
  bool is_active(Instant now) const { return has_work() || now < active_until; }
  // For the processors that it shares with others; what waits only for the host delays no other.
  bool has_work() const { return waits() || in_flight > 0; }
  // Whether something of it waits that may run.
  bool waits() const { return pending > 0 && max_concurrency > 0; }

  // What its queue took while it was contended for says nothing of it so long after.
  static constexpr Duration kTurnsStand = seconds(10);

  // The first of its queue has come.
  void begin_queue(Instant now) {
    if (now - turns_learnt > kTurnsStand) turns = {};
  }
  // One of its queue has been given a place: how fast that goes is what those behind it wait for.
  void took_turn(Instant now) {
    if (last_turn != kNever) {
      turns.learn(now - last_turn);
      turns_learnt = now;
    }
    last_turn = now;
  }

  void archive(StateArchive& archive);
};

// Indexed by FunctionId, which is dense.
using Flows = std::vector<Flow>;

}  // namespace lambent::scheduling
