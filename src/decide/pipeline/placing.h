// Placing: a partition on slices that are free, and what to say where none fits. Pure functions,
// any thread; used by policies when they start an instance.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/domain/slice.h"
#include "decide/pipeline/function.h"
#include "decide/pipeline/stage_process_cost.h"

namespace lambent::pipeline {

// This partition on the slices that are free: those of one node with the fewest multiprocessors
// together on which all stage processes have their memory (exactly;
// docs/internals/pipeline-planner.md explains why), and on these the longest stage process on the
// fastest. None: it does not fit.
std::optional<Placement> place(const PipelineFunction& function, const Partition& partition,
                               std::span<const Slice> free, const TransferCosts& costs);
// The same with those that have the most multiprocessors.
std::optional<Placement> place_on_largest(const PipelineFunction& function,
                                          const Partition& partition, std::span<const Slice> free,
                                          const TransferCosts& costs);

// The first of function.ranked that fits: as published.
std::optional<Placement> first_that_fits(const PipelineFunction& function,
                                         std::span<const Slice> free, const TransferCosts& costs);

// How well a placement uses its slices: its results a second by those that they would give if the
// function's work could be spread over them evenly and its memory were no concern. 1 is best; a
// whole function on one slice has it.
double efficiency_of(const PipelineFunction& function, const Placement& placement,
                     std::span<const SliceShape* const> shapes);

// Ours: of the placements of the first kPlaced of function.ranked, those that keep the SLO by
// themselves first, then the most efficient, then the one on the fewest
// multiprocessors.
constexpr size_t kPlaced = 256;
std::optional<Placement> best_that_fits(const PipelineFunction& function,
                                        std::span<const Slice> free, const TransferCosts& costs);

// Why it has no place there: "needs 3 slices of one node, 2 are free"; empty if it has one.
std::string why_not(const PipelineFunction& function, const Partition& partition,
                    std::span<const Slice> free);

// What would have to be free, for the error of a request that cannot be served: "a slice with 18
// GiB (2g.20gb), or 2 slices of one node with 9.2 GiB + 7 GiB (1g.10gb + 1g.10gb)".
std::string what_would_fit(const PipelineFunction& function);

}  // namespace lambent::pipeline
