#include "decide/journal/recorder.h"

#include <algorithm>
#include <utility>

#include "decide/journal/crc32c.h"

namespace lambent::journal {
namespace {

constexpr size_t kSnapshotPiece = size_t{1} << 20;
// No event that is frequent takes more bytes in a segment; most take two thirds of it.
constexpr size_t kEncodedEvent = 40;

}  // namespace

Recorder::Recorder(RunFacts facts, SegmentSink& sink, RecorderOptions options)
    : facts_(std::move(facts)), sink_(sink), options_(options) {}

Recorder::~Recorder() {
  hand_over();
  if (!leaves_open_) close();
}

void Recorder::begin(const dispatch::Dispatcher& dispatcher, Duration wall_time) {
  wall_time_ = wall_time;
  begin_segment(dispatcher);
}

void Recorder::record(const dispatch::Event& event, Instant now,
                      const dispatch::Dispatcher& dispatcher) {
  now_ = now;
  if (!recording_) {
    ++next_event_;
    ++lost_;
    return;
  }
  batch_.add(next_event_++, event, now, dispatcher.log_hash());
  if (!batch_.full()) return;
  hand_over();
  turn(dispatcher);
}

void Recorder::name(FunctionId function, std::string name) {
  names_[function] = name;
  if (recording_) append(BlockType::kNames, encode(Names{{function, std::move(name)}}));
}

void Recorder::flush(const dispatch::Dispatcher& dispatcher, Duration wall_time) {
  wall_time_ = wall_time;
  if (recording_) {
    hand_over();
    turn(dispatcher);
  } else {
    begin_segment(dispatcher);
  }
  sink_.flush();
}

// Begins the next segment once this one is long enough.
void Recorder::turn(const dispatch::Dispatcher& dispatcher) {
  if (!recording_ || segment_bytes_ < segment_limit_) return;
  close();
  begin_segment(dispatcher);
}

// Of two designs for where a replay may begin this is the one where it may at every segment; see
// docs/decisions/0008-journal.md.
void Recorder::begin_segment(const dispatch::Dispatcher& dispatcher) {
  if (!batch_.empty()) {
    // Something else was refused while these waited; the state has gone past them.
    lost_ += batch_.size();
    batch_.clear();
  }
  recording_ = sink_.begin_segment();
  if (!recording_) {
    continues_ = false;
    return;
  }
  segment_bytes_ = 0;
  const std::string snapshot = dispatcher.snapshot();
  SegmentHeader header{.state_version = dispatch::kStateVersion,
                       .facts = facts_,
                       .wall_time = wall_time_,
                       .next_event = next_event_,
                       .continues = continues_,
                       .now = now_,
                       .snapshot_size = snapshot.size(),
                       .snapshot_sum = crc32c(snapshot)};
  append(BlockType::kHeader, encode(header));
  for (size_t at = 0; at < snapshot.size(); at += kSnapshotPiece) {
    append(BlockType::kSnapshot, snapshot.substr(at, kSnapshotPiece));
  }
  append(BlockType::kNames, encode(names_));
  continues_ = recording_;
  // A segment is mostly events, however large the state.
  segment_limit_ = std::max(options_.segment_size.count, 4 * segment_bytes_);
}

bool Recorder::append(BlockType type, std::string payload) {
  if (!recording_) return false;
  segment_bytes_ += payload.size();
  recording_ = sink_.append(type, std::move(payload));
  if (!recording_) continues_ = false;
  return recording_;
}

void Recorder::hand_over() {
  if (batch_.empty()) return;
  const uint64_t count = batch_.size();
  segment_bytes_ += count * kEncodedEvent;
  if (recording_) recording_ = sink_.append_events(batch_);
  if (recording_) return;
  continues_ = false;
  lost_ += count;
  batch_.clear();
}

void Recorder::close() {
  if (recording_) append(BlockType::kEnd, "");
}

}  // namespace lambent::journal
