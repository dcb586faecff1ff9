// ModelledDevice: runs work that slows down when more of it runs at once, in virtual time. Owned by
// Simulation; single-threaded.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "scheduling/indexed_heap.h"
#include "simulator/number_map.h"

namespace lambent::simulator {

// How many times as long each takes with `sharing` at work, by DeviceModel's two constants.
double slowed_down(size_t sharing, double slowdown, std::span<const double> contention);

// All that runs on a device runs at the same speed, so one clock of work done since the start
// serves them all: an item that needs w ends when the clock has moved on by w.
class ModelledDevice {
 public:
  // As DeviceModel has them.
  explicit ModelledDevice(double slowdown, std::vector<double> contention = {})
      : slowdown_(slowdown), contention_(std::move(contention)) {}

  // `key` is the caller's, not zero; it must not be running. Work that never ends: Duration::max().
  void start(uint64_t key, Duration work, Instant now);
  // Takes it out before it is finished. Nothing if it does not run.
  void stop(uint64_t key, Instant now);
  // Others that use the device without being work of ours.
  void set_guests(unsigned guests, Instant now);

  size_t running() const { return items_.size(); }
  // When the next item finishes if nothing changes; kNever if none does.
  Instant next_finish() const;
  // The item of next_finish; `now` is that instant.
  uint64_t finish(Instant now);

  // The time during which at least one item ran.
  Duration busy(Instant now) const;

 private:
  void advance(Instant now);
  double factor() const;

  double slowdown_;
  std::vector<double> contention_;
  unsigned guests_ = 0;
  Instant since_{};       // the clock of work was right at this instant
  Duration work_done_{};  // the clock of work
  Duration busy_{};
  scheduling::IndexedHeap<Duration> ends_;  // by slot: where on the clock of work it ends
  NumberMap<uint32_t> items_;               // slots by key
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> free_;
};

}  // namespace lambent::simulator
