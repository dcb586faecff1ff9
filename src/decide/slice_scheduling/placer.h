// Placer: how a policy finds slices for a function, and what it says when there are none. Used by
// policies on the thread that handles events.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>

#include "core/base/result.h"
#include "decide/pipeline/planner.h"
#include "decide/slice_scheduling/world.h"

namespace lambent::slice_scheduling {

// The best placement of a function on some of these slices, or none.
using Placer = std::function<std::optional<pipeline::Placement>(const pipeline::PipelineFunction&,
                                                                std::span<const Slice>)>;

// The first of the function's ranked partitions that fits: pipeline::first_that_fits.
Placer planner_placer(const pipeline::TransferCosts& costs);

// Asks a Placer about slices of a world, and does not ask again what cannot have changed.
class WorldPlacer {
 public:
  explicit WorldPlacer(Placer placer) : placer_(std::move(placer)) {}

  // On free slices. None: it does not fit now.
  std::optional<pipeline::Placement> place(const SliceWorld& world, const FunctionState& function);
  // On one free slice, in one piece.
  std::optional<pipeline::Placement> place_alone(const SliceWorld& world,
                                                 const FunctionState& function);
  // In one piece on a slice that others take turns on, or one has to itself: what is unloaded
  // leaves its context there, so it must fit beside theirs, and they beside its own. None: it does
  // not, or the slice is free or a pipeline's, or it rests.
  std::optional<pipeline::Placement> place_beside(const SliceWorld& world,
                                                  const FunctionState& function,
                                                  const SliceState& slice);
  // Whether it would fit if all slices were free, and those that return were back.
  bool fits_empty(const SliceWorld& world, const FunctionState& function);
  // On some of these, as the Placer has it.
  std::optional<pipeline::Placement> place_on(const FunctionState& function,
                                              std::span<const Slice> slices) const {
    return placer_(*function.function, slices);
  }

 private:
  struct Asked {
    uint64_t slices_version = 0;
    uint64_t function_version = 0;
    bool is_for(const SliceWorld& world, const FunctionState& function) const {
      return slices_version == world.slices_version && function_version == function.version;
    }
  };
  struct Known {
    Asked does_not_fit;
    Asked does_not_fit_alone;
    Asked asked_empty;
    bool fits_empty = false;
    struct Beside {
      Asked asked;
      std::optional<pipeline::Placement> placement;
    };
    std::map<DeviceId, Beside> beside;
    // The function with only those of its partitions that are one stage process.
    uint64_t alone_version = 0;
    pipeline::PipelineFunction alone;
  };
  // On free slices, those on which no start failed lately first.
  std::optional<pipeline::Placement> place_rested(const SliceWorld& world,
                                                  const pipeline::PipelineFunction& function) const;
  // Forgets functions that are gone.
  Known& known_of(const SliceWorld& world, const FunctionState& function);
  const pipeline::PipelineFunction& alone(const SliceWorld& world, const FunctionState& function);
  std::optional<pipeline::Placement> find_beside(const SliceWorld& world,
                                                 const FunctionState& function,
                                                 const SliceState& slice);

  Placer placer_;
  std::map<FunctionId, Known> known_;
};

// RESOURCE_EXHAUSTED for a request of a function that no slices here can hold: what it needs at
// least, and the slices.
Error fits_nowhere(const SliceWorld& world, const pipeline::PipelineFunction& function);

}  // namespace lambent::slice_scheduling
