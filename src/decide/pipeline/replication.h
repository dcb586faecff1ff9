// Replication: where one stage process of a pipeline takes much longer than the others, several
// processes take turns with it, so that the others' slices do not stand still. Pure functions, any
// thread; used by policies when they start an instance.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/domain/slice.h"
#include "decide/pipeline/function.h"
#include "decide/pipeline/stage_process_cost.h"

namespace lambent::pipeline {

// Slices of one shape on one node that may be had, and what each is worth.
struct SliceGroup {
  SliceShape shape;
  std::vector<const Slice*> slices;
  double worth = 0;
};

struct ReplicationLimits {
  size_t most_slices = 8;  // of one instance
  // More results a second than this are not needed: they count for nothing.
  double wanted_per_s = 0;
};

struct Replicated {
  Placement placement;
  bool late = false;  // by itself it does not keep the function's SLO
  double cost = 0;    // what its slices are worth, for each result a second that is wanted
};

// This partition on slices of these groups, all of one node, with replicas where they make results
// cheaper: of what keeps the SLO by itself, if any does, the cheapest. Each way to give stage
// processes shapes is tried (as long as they are few), and then the stage process that is busiest
// gets a replica until there are no more slices for it, or a process would have too many channels.
// None: it does not fit, or it is one stage process, of which instances are the replicas.
std::optional<Replicated> place_replicated(const PipelineFunction& function,
                                           const Partition& partition,
                                           std::span<const SliceGroup> groups,
                                           const TransferCosts& costs,
                                           const ReplicationLimits& limits);

}  // namespace lambent::pipeline
