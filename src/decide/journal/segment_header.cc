#include "decide/journal/segment_header.h"

#include "core/base/state_archive.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/journal/limits.h"

namespace lambent::journal {
namespace {

// The state version comes first, so that whatever follows it may change with it.
void archive(StateArchive& archive, SegmentHeader& header) {
  archive.field(header.facts.version);
  archive.field(header.facts.policy);
  scheduling::archive(archive, header.facts.policy_options);
  dispatch::archive(archive, header.facts.options);
  archive.field(header.facts.run);
  archive.field(header.wall_time);
  archive.field(header.next_event);
  archive.field(header.continues);
  archive.field(header.now);
  archive.field(header.snapshot_size);
  archive.field(header.snapshot_sum);
  // Of before, there was neither.
  if (header.state_version >= dispatch::kVersionOfAdapts) {
    archive.field(header.facts.policy_options.density.adapts);
    archive.field(header.facts.options.max_queue_time);
  }
  if (header.state_version >= dispatch::kVersionOfForesight) {
    scheduling::archive(archive, header.facts.options.fleet.foresight);
  }
  if (header.state_version >= dispatch::kVersionOfWeighedQueues) {
    archive.field(header.facts.policy_options.density.weighs_queue);
  }
  if (header.state_version >= dispatch::kVersionOfLongestWaits) {
    archive.field(header.facts.options.tells_longest_wait);
    archive.field(header.facts.policy_options.density.weighs_returns);
  } else if (archive.reading()) {
    header.facts.options.tells_longest_wait = false;
    header.facts.policy_options.density.weighs_returns = false;
    header.facts.options.fleet.bounds_host_starts = false;
  }
  if (header.state_version >= dispatch::kVersionOfGangMoves) {
    archive.field(header.facts.options.fleet.moves_gangs);
  } else if (archive.reading()) {
    header.facts.options.fleet.moves_gangs = false;
  }
}

}  // namespace

std::string encode(const SegmentHeader& header) {
  std::string bytes;
  StateArchive to(&bytes);
  SegmentHeader copy = header;
  to.field(copy.state_version);
  archive(to, copy);
  return bytes;
}

Result<SegmentHeader> decode_header(std::string_view payload) {
  SegmentHeader header;
  StateArchive from(payload);
  from.field(header.state_version);
  if (from.ok() && (header.state_version < dispatch::kOldestStateVersion ||
                    header.state_version > dispatch::kStateVersion)) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this journal was recorded by a lambent whose dispatch has state version " +
                     std::to_string(header.state_version) + ", this one reads " +
                     std::to_string(dispatch::kOldestStateVersion) + " to " +
                     std::to_string(dispatch::kStateVersion) +
                     "; use the lambent that recorded it"};
  }
  archive(from, header);
  if (!from.complete()) {
    return Error{ErrorCode::kInvalidArgument, "the segment's header makes no sense"};
  }
  return header;
}

std::string encode(const Names& names) {
  std::string bytes;
  StateArchive to(&bytes);
  to.count(names.size());
  for (const auto& [id, name] : names) {
    FunctionId function = id;
    std::string text = name;
    to.field(function);
    to.field(text);
  }
  return bytes;
}

Result<void> decode_names(std::string_view payload, Names& names) {
  StateArchive from(payload);
  for (size_t left = from.count(0); left > 0 && from.ok(); --left) {
    FunctionId function;
    std::string name;
    from.field(function);
    from.field(name);
    from.expect(function.value <= limits::kJournalFunctions);
    if (from.ok()) names[function] = std::move(name);
  }
  if (!from.complete()) {
    return Error{ErrorCode::kInvalidArgument, "a list of names makes no sense"};
  }
  return {};
}

}  // namespace lambent::journal
