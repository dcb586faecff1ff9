// A workload like another one: every function comes as often as it did, after gaps that are drawn
// from its own. For more inputs of a kind of which there is one trace. Pure.
#pragma once

#include <cstdint>

#include "core/base/result.h"
#include "sim/workload/trace.h"

namespace lambent::workload {

// The same functions over the same length, with new arrivals: each function's gaps are drawn from
// the empirical distribution of its gaps in `trace` (that over the ends, from its last arrival to
// its first one, among them, so that its rate is kept), independently of each other and of other
// functions; so are run times, where the trace has them. So bursts that span many gaps, and times
// of day, are gone. The same seed gives the same arrivals on every machine; a function's do not
// depend on the others. Holds the arrivals of both: RESOURCE_EXHAUSTED beyond
// limits::kTraceArrivals of either. What kept `trace` from giving all there is, is the error.
// INVALID_ARGUMENT if its length is not above zero.
Result<Trace> resample(Trace trace, uint64_t seed);

}  // namespace lambent::workload
