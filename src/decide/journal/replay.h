// Replay: feeds the events of a journal to a fresh Dispatcher and holds its decisions against the
// recorded ones. Pure: segments come from openers of files. One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decide/dispatch/dispatcher.h"
#include "decide/journal/block.h"
#include "decide/journal/event_codec.h"
#include "decide/journal/segment_header.h"

namespace lambent::journal {

// A decision at the event that is replayed: this invocation gets its place there.
struct ReplayedDecision {
  InvocationId invocation;
  FunctionId function;
  DeviceId device;
  Instant now{};
  const dispatch::Dispatcher& dispatcher;  // before anything of that is done
};

// One event as it was decided again.
struct ReplayStep {
  const RecordedEvent& recorded;
  const std::vector<dispatch::Action>& actions;
  const dispatch::Dispatcher& dispatcher;  // after the event
  const Names& names;
};

struct ReplaySinks {
  // All may be empty. A new run began, or events are missing: the dispatcher holds a restored
  // state.
  std::function<void(const SegmentHeader&, const dispatch::Dispatcher&, const Names&)> restored;
  std::function<void(const ReplayedDecision&)> decided;
  // After each event.
  std::function<void(const ReplayStep&)> step;
  // Asked after each block: true ends the replay there.
  std::function<bool()> enough;
};

// The first decision that is not the recorded one.
struct Difference {
  std::string file;
  uint64_t event = 0;
  Instant now{};
  std::string event_in_words;
  uint32_t recorded_digest = 0;
  uint32_t digest = 0;
  std::vector<std::string> actions_in_words;  // what this program decides
};

struct ReplayTotals {
  uint64_t segments = 0;
  uint64_t runs = 0;  // of workers: each starts again
  uint64_t events = 0;
  uint64_t decisions = 0;  // actions but WakeAt
  uint64_t lost_events = 0;
  std::optional<Difference> difference;
  // Sentences about what is not as it should be: gaps, torn ends, other versions.
  std::vector<std::string> notes;
  bool torn = false;  // the last segment was not closed
};

// The segments of a journal, oldest first; nullptr after the last.
using SegmentSource = std::function<Result<std::unique_ptr<BlockReader>>()>;

// Replays all segments, up to the first difference. DATA_LOSS where a block is damaged or segments
// are missing, INVALID_ARGUMENT or FAILED_PRECONDITION where one is no journal or one of another
// version: file, offset and remedy are in the message. NOT_FOUND if there is no event at all.
// `totals` holds what was replayed until then, also after an error.
Result<void> replay(const SegmentSource& segments, const ReplaySinks& sinks, ReplayTotals& totals);

}  // namespace lambent::journal
