// SegmentHeader: what a segment of the journal says first: who recorded it, under which options,
// and where in its run it begins. A value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "decide/dispatch/options.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::journal {

// What stays the same for a whole run: everything that decides beside the events.
struct RunFacts {
  std::string version;  // of the program
  std::string policy;   // by the name that make_policy knows
  scheduling::PolicyOptions policy_options;
  dispatch::DispatchOptions options;
  uint64_t run = 0;  // random: tells the runs in one folder apart
};

struct SegmentHeader {
  uint32_t state_version = 0;  // dispatch::kStateVersion of the program
  RunFacts facts;
  Duration wall_time{};     // since the Unix epoch, when the segment began
  uint64_t next_event = 1;  // the number of its first event
  // False: events before it were not recorded, for the disk did not follow.
  bool continues = true;
  Instant now{};  // of the event before it
  uint64_t snapshot_size = 0;
  uint32_t snapshot_sum = 0;  // CRC-32C
};

// Names of functions, for people.
using Names = std::map<FunctionId, std::string>;

std::string encode(const SegmentHeader& header);
// FAILED_PRECONDITION if another state version recorded it; INVALID_ARGUMENT if it makes no sense.
Result<SegmentHeader> decode_header(std::string_view payload);

std::string encode(const Names& names);
// Adds what the payload names. INVALID_ARGUMENT if it makes no sense.
Result<void> decode_names(std::string_view payload, Names& names);

}  // namespace lambent::journal
