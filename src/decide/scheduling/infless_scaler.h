// InflessScaler: a baseline. How many instances of one function there are, on which devices, each
// with a batch and a share of a device's multiprocessors of its own. A state machine; one thread.
//
// Yang et al., "INFless" (ASPLOS 2022): an instance with a batch is of use between two rates, by
// the SLO and by its profile; instances of unlike sizes are added greedily by what they serve for
// what they take, and released when fewer serve the rate; idle functions are kept by histograms.
// Three things are to its advantage: whatever instance is idle serves, memory can be counted beside
// multiprocessors, where the paper counts only these, and there can be headroom over the rate.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/scheduling/idle_windows.h"

namespace lambent::scheduling {

// What an instance can be.
struct InstanceShape {
  uint32_t batch = 1;    // requests at once
  double share = 1;      // of a device's multiprocessors
  Duration execution{};  // of a full batch, as profiled
  Bytes memory;          // of the device, without weights

  bool operator==(const InstanceShape&) const = default;
};

// Requests a second with which an instance keeps the SLO: with fewer a batch is not full in time,
// with more they queue.
struct RateRange {
  double least = 0;
  double most = 0;
};
// None where the SLO cannot be kept at any rate. A batch of one waits for no other.
std::optional<RateRange> rates_of(const InstanceShape& shape, Duration slo);

// How often something happened in the last while, in slots.
class RecentRate {
 public:
  explicit RecentRate(Duration window) : slot_(window / kSlots) {}
  void count(Instant now);
  double per_second(Instant now);

 private:
  static constexpr int64_t kSlots = 10;
  void turn_to(Instant now);

  const Duration slot_;
  int64_t now_ = 0;  // which slot it is
  std::array<uint64_t, kSlots> counts_{};
};

struct InflessScalerOptions {
  Duration slo = milliseconds(200);
  // Instances are released when the rate is below this share of the way from the most that they
  // serve to the least: the paper's alpha.
  double release = 0.8;
  Duration rate_window = seconds(10);
  // One that the rate does not need is kept for so long.
  Duration spare_for = seconds(60);
  // Instances are there for so many times the rate; the paper: once.
  double headroom = 1;
  // What a device's memory counts for beside its multiprocessors; the paper: nothing.
  double memory_weight = 0;
  IdleWindowOptions idle;
};

struct ScaledInstance {
  uint64_t id = 0;
  size_t shape = 0;
  bool busy = false;  // or on its way
  Instant idle_since{};
};
struct ScalerDevice {
  double share = 0;  // that is free
  Bytes free;
  Bytes memory;
  Bytes weights;  // that a first instance here brings along
};
struct ScalerStep {
  struct Start {
    size_t shape = 0;
    uint32_t device = 0;
    bool operator==(const Start&) const = default;
  };
  std::vector<Start> starts;
  std::vector<uint64_t> stops;
  double unserved = 0;     // requests a second that no device has room for
  Instant again = kNever;  // when to ask again if nothing happens
};

class InflessScaler {
 public:
  // In one step; what is left of the rate is for the next.
  static constexpr size_t kMostStarts = 64;

  InflessScaler(std::vector<InstanceShape> shapes, InflessScalerOptions options);

  void arrived(Instant now);
  // Nothing of the function runs or waits from now on.
  void idle(Instant now);
  ScalerStep step(std::span<const ScaledInstance> instances, std::span<const ScalerDevice> devices,
                  Instant now);

  // What the shape serves for what it takes, where it is of use at this rate.
  double efficiency_of(size_t shape, double rate, Bytes device_memory) const;

 private:
  // The first `needed` serve the rate.
  struct Ranked {
    std::vector<const ScaledInstance*> instances;
    size_t needed = 0;
    double most = 0;  // requests a second that all of them serve
  };
  Ranked ranked(std::span<const ScaledInstance> instances, double rate) const;
  void start_for(double rate, std::vector<ScalerDevice> devices, ScalerStep& step) const;
  void stop_idle(const Ranked& ranked, size_t kept, Duration spare_for, Instant now,
                 ScalerStep& step) const;
  RateRange range_of(size_t shape) const { return ranges_[shape].value_or(RateRange{}); }

  const std::vector<InstanceShape> shapes_;
  const InflessScalerOptions options_;
  std::vector<std::optional<RateRange>> ranges_;  // by shape
  RecentRate rate_;
  IdleWindows idle_windows_;
  std::optional<Instant> idle_since_;
  IdleWindows::Windows windows_;  // of the present idle time
};

}  // namespace lambent::scheduling
