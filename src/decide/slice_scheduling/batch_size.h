// How many requests run together where batches were measured: as many as are worth it while the SLO
// holds. Pure functions; used by SloPolicy when it gives jobs and when it reckons what an instance
// can do.
#pragma once

#include <cstddef>

#include "core/base/time.h"
#include "decide/slice_scheduling/world.h"

namespace lambent::slice_scheduling {

// What is known of the requests that the next job would be made of.
struct Batchable {
  size_t waiting = 1;    // this one and those that follow it, at least one
  unsigned most = 1;     // PipelineFunction::most_batch
  Duration slo{};        // zero: none
  Instant due = kNever;  // of the first of them; of the past: it is late whatever is done
};

// The size, 1 to batch.waiting, with the most results a second on this instance; of two as good the
// larger, so that sizes beyond those that were measured are tried. Of those that keep the SLO
// (keeps_slo() of stage_process_cost.h) and have the first request in time, where it can be; one
// where none keeps it. The sizes of Placement::batches are looked at, and all that wait.
size_t batch_size(const Instance& instance, const Batchable& batch, Instant now);

// Results a second that an instance of this function gives at most, at its pace:
// pipeline::capacity_of.
double capacity_of(const FunctionState& function, const Instance& instance);

// Gives an instance the batches of a profile that was learnt since it was started: relative to what
// its placement says of one request, which Instance::pace is about.
void learn_batches(Instance& instance, const pipeline::PipelineFunction& function,
                   const SliceWorld& world);

}  // namespace lambent::slice_scheduling
