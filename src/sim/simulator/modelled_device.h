// ModelledDevice: runs work that slows down when more of it runs at once, in virtual time. Owned by
// Simulation; single-threaded.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/time.h"

namespace lambent::simulator {

// How many times as long each takes with `sharing` at work, by DeviceModel's two constants.
double slowed_down(size_t sharing, double slowdown, std::span<const double> contention);

// Whether those at work have the device in turns, or side by side as far as its multiprocessors go.
enum class Sharing : uint8_t { kTurns, kSideBySide };

// All that runs on a device runs at the same speed, so one clock of work done since the start
// serves them all: an item that needs w ends when the clock has moved on by w. Few run at once on
// each of many devices, so the items of one lie side by side in the order of their ends.
class alignas(64) ModelledDevice {
 public:
  // As DeviceModel has them.
  explicit ModelledDevice(double slowdown, std::vector<double> contention = {},
                          Sharing sharing = Sharing::kTurns)
      : slowdown_(slowdown), sharing_(sharing), contention_(std::move(contention)) {}

  // `key` is the caller's; it must not be running. Work that never ends: Duration::max().
  // `occupancy`: the share of the device that it takes, where they run side by side: as long as all
  // of them together take no more than the whole, they slow each other down only by `slowdown`;
  // beyond that all go slower alike.
  void start(uint64_t key, Duration work, Instant now, double occupancy = 1);
  // Takes it out before it is finished. Nothing if it does not run.
  void stop(uint64_t key, Instant now);
  // Others that use the device without being work of ours.
  void set_guests(unsigned guests, Instant now);

  size_t running() const { return running_; }
  // When the next item finishes if nothing changes; kNever if none does.
  Instant next_finish() const;
  // The item of next_finish; `now` is that instant.
  uint64_t finish(Instant now);

  // The time during which at least one item ran.
  Duration busy(Instant now) const;

 private:
  // Of two that end at once the lower slot ends first: that which ended last is the next to be
  // used again.
  struct Item {
    Duration end{};  // on the clock of work
    uint64_t key = 0;
    uint32_t slot = 0;
    float occupancy = 1;
    bool ends_before(const Item& other) const {
      return end < other.end || (end == other.end && slot < other.slot);
    }
  };

  void advance(Instant now);
  double factor() const;
  void free(size_t place);

  double slowdown_;
  Sharing sharing_;
  std::vector<double> contention_;
  unsigned guests_ = 0;
  Instant since_{};       // the clock of work was right at this instant
  Duration work_done_{};  // the clock of work
  Duration busy_{};
  // Those that run, the first to end last; behind them the free slots, the next to be used first.
  std::vector<Item> items_;
  size_t running_ = 0;
};

}  // namespace lambent::simulator
