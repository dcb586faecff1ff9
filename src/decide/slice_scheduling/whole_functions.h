// WholeFunctions: what policies that give a whole function one slice have in common: what it would
// take on each shape, how long its queue would wait, whose slice it may have. Used by EsgPolicy and
// InflessPolicy on the thread that handles events.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decide/slice_scheduling/placer.h"
#include "decide/slice_scheduling/policy.h"

namespace lambent::slice_scheduling {

struct WholeFunctionsOptions {
  // An instance that was not used for so long is stopped. Until then its slice is its own, but ...
  Duration keep_alive = std::chrono::minutes(10);
  // ... for functions that find no free slice: they may have that of an instance which was idle for
  // so long, longest first. More than keep_alive: never.
  Duration least_idle = seconds(10);
  // ... and, if they are asked for so many times as much of what they have, that of a function
  // which has several, without it. 0: never, but for functions that have none.
  double envy = 0;
  // Over which the rate of arrivals is averaged.
  Duration memory = seconds(10);
};

class WholeFunctions {
 public:
  WholeFunctions(Placer placer, WholeFunctionsOptions options)
      : placer_(std::move(placer)), options_(options) {}

  // All of the function on a slice of that shape.
  struct Option {
    std::string shape;
    unsigned multiprocessors = 0;
    Duration latency{};
    double seconds_a_result = 0;  // at full load: pipeline::Capacity
    Duration until_ready{};       // of a new instance
    // What one request takes of it: multiprocessors times seconds.
    double cost() const { return multiprocessors * seconds_a_result; }
  };
  // Of the shapes that there are, or will be again, and that hold the function, by shape; the
  // cheapest first.
  const std::vector<Option>& options_of(const SliceWorld& world, const FunctionState& function);
  const Option* option_on(const SliceWorld& world, const FunctionState& function,
                          const std::string& shape);
  // A placement on a slice that is free, has that shape, and is on a GPU with as few free slices as
  // can be; none: there is no such slice. Only `rested` ones: on which no start failed lately.
  std::optional<pipeline::Placement> place(const SliceWorld& world, const FunctionState& function,
                                           const std::string& shape, bool rested = false) const;
  // On the cheapest that is free and keeps the SLO by itself, else on any; rested ones first.
  std::optional<pipeline::Placement> place(const SliceWorld& world, const FunctionState& function);

  // Requests a second of all its instances that stay, those that are still starting included; in
  // batches, where these were measured.
  static double capacity_per_s(const SliceWorld& world, const FunctionState& function);
  // Averages the rates of arrivals; to be called first in each decide().
  void watch(const SliceWorld& world, Instant now);
  double arrivals_per_s(FunctionId function) const;
  // Requests that would still be queued when an instance that is started now is ready, less those
  // that may wait for `spare` without harm; more than 0: it is worth starting one.
  double left_over(const SliceWorld& world, const FunctionState& function, Duration until_ready,
                   Duration spare) const;

  // For a function that finds no free slice of its options: retires an instance of another function
  // whose slice it can use and may have, or says when to ask again. True if it retired one, or one
  // is on its way out already.
  bool make_room(const SliceWorld& world, const FunctionState& function, Instant now,
                 std::vector<Decision>& decisions);
  // Retires what was idle for longer than keep_alive, and asks to be asked when the next will be.
  void retire_idle(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) const;
  // Refuses what is queued if no slice that is there can hold the function. True if it did.
  bool refuse_what_cannot_be(const SliceWorld& world, const FunctionState& function,
                             std::vector<Decision>& decisions);

  static const SliceShape& shape_of(const SliceWorld& world, const Instance& instance);
  // Those with something queued, by the deadlines of their oldest requests.
  static std::vector<const FunctionState*> by_deadline(const SliceWorld& world);
  // Those with something queued, the one first of which most is asked for what it has: who gets a
  // slice that became free has to be who wanted it most, or they take it from each other for ever.
  std::vector<const FunctionState*> by_need(const SliceWorld& world) const;

 private:
  struct Known {
    uint64_t version = 0, slices_version = 0;
    std::vector<Option> options;
  };
  // How much is asked for of what it has, with so much capacity less.
  double load_without(const SliceWorld& world, const FunctionState& function, double less) const;

  Placer placer_;
  const WholeFunctionsOptions options_;
  std::map<FunctionId, Known> known_;
  std::map<FunctionId, double> arrivals_per_s_;
  Instant watched_{};
};

}  // namespace lambent::slice_scheduling
