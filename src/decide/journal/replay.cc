#include "decide/journal/replay.h"

#include <algorithm>

#include "decide/journal/crc32c.h"
#include "decide/journal/words.h"

namespace lambent::journal {
namespace {

class Replayer {
 public:
  Replayer(const ReplaySinks& sinks, ReplayTotals& totals) : sinks_(sinks), totals_(totals) {}

  Result<void> segment(BlockReader& reader) {
    ++totals_.segments;
    RETURN_IF_ERROR(reader.open());
    snapshot_.clear();
    header_.reset();
    ready_ = false;
    while (!ended()) {
      ASSIGN_OR_RETURN(const std::optional<Block> block, reader.next());
      if (!block) break;
      RETURN_IF_ERROR(take(reader, *block));
    }
    if (const auto& torn = reader.torn_end(); torn && !ended()) note_torn(reader, *torn);
    return {};
  }

  bool ended() const { return totals_.difference || (sinks_.enough && sinks_.enough()); }

  void finish() {
    if (!torn_) return;
    totals_.notes.push_back(*torn_);
    totals_.torn = true;
  }

 private:
  Result<void> take(const BlockReader& reader, const Block& block) {
    if ((block.type == BlockType::kHeader) != !header_.has_value()) {
      return reader.damage(block.offset, "the segment's header is not where it belongs");
    }
    switch (block.type) {
      case BlockType::kHeader:
        return take_header(reader, block);
      case BlockType::kSnapshot:
        if (ready_) return reader.damage(block.offset, "the snapshot is longer than it says");
        snapshot_ += block.payload;
        if (snapshot_.size() == header_->snapshot_size) return restore(reader, block);
        if (snapshot_.size() < header_->snapshot_size) return {};
        return reader.damage(block.offset, "the snapshot is longer than its header says");
      case BlockType::kNames:
        if (const auto read = decode_names(block.payload, names_); !read.ok()) {
          return reader.damage(block.offset, read.error().message);
        }
        return {};
      case BlockType::kEvents:
        return take_events(reader, block);
      case BlockType::kEnd:
        return {};
    }
    return reader.damage(block.offset, "a block has a type that there is not");
  }

  Result<void> take_header(const BlockReader& reader, const Block& block) {
    auto header = decode_header(block.payload);
    if (!header.ok()) {
      return header.error().with_context(reader.file() + ", byte " + std::to_string(block.offset));
    }
    header_ = std::move(header).value();
    const bool same_run = totals_.runs > 0 && header_->facts.run == run_;
    if (!same_run) {
      ++totals_.runs;
      names_.clear();
    } else if (!header_->continues && header_->next_event > next_event_) {
      const uint64_t lost = header_->next_event - next_event_;
      totals_.lost_events += lost;
      totals_.notes.push_back(reader.file() + ": " + std::to_string(lost) +
                              " events before it were not recorded, for the disk did not follow; "
                              "the replay goes on from the state after them");
    } else if (header_->next_event != next_event_) {
      return reader.damage(block.offset, "events from " + std::to_string(next_event_) + " to " +
                                             std::to_string(header_->next_event) +
                                             " are missing: a segment before this one is gone");
    }
    if (!same_run || !header_->continues) state_ = nullptr;
    if (torn_) {
      // A worker that was killed leaves an open end, and so does a disk that was full.
      if (!same_run) totals_.notes.push_back(*torn_);
      torn_.reset();
      state_ = nullptr;
    }
    run_ = header_->facts.run;
    return {};
  }

  // The snapshot is whole: where this goes on from the segment before, the states must agree.
  Result<void> restore(const BlockReader& reader, const Block& block) {
    if (crc32c(snapshot_) != header_->snapshot_sum) {
      return reader.damage(block.offset, "the snapshot's checksum is not that of its bytes");
    }
    ready_ = true;
    if (state_ != nullptr) {
      if (state_->snapshot() == snapshot_) return {};
      totals_.difference = Difference{.file = reader.file(),
                                      .event = header_->next_event,
                                      .now = header_->now,
                                      .event_in_words =
                                          "the state recorded before this event is "
                                          "not the one that the replay came to",
                                      .recorded_digest = header_->snapshot_sum,
                                      .digest = crc32c(state_->snapshot())};
      return {};
    }
    auto policy = scheduling::make_policy(header_->facts.policy, header_->facts.policy_options);
    if (!policy.ok()) return policy.error().with_context(reader.file());
    state_ =
        std::make_unique<dispatch::Dispatcher>(header_->facts.options, std::move(policy).value());
    if (!state_->restore(snapshot_)) {
      return reader.damage(block.offset, "the snapshot makes no sense");
    }
    next_event_ = header_->next_event;
    now_ = header_->now;
    if (sinks_.decided) {
      state_->watch([this](InvocationId invocation, FunctionId function, DeviceId device) {
        sinks_.decided({invocation, function, device, now_, *state_});
      });
    }
    if (sinks_.restored) sinks_.restored(*header_, *state_, names_);
    return {};
  }

  Result<void> take_events(const BlockReader& reader, const Block& block) {
    if (!ready_) return reader.damage(block.offset, "events come before the snapshot");
    BatchReader batch(block.payload);
    if (const auto opened = batch.open(); !opened.ok()) {
      return reader.damage(block.offset, opened.error().message);
    }
    while (!batch.done()) {
      if (const auto read = batch.next(event_); !read.ok()) {
        return reader.damage(block.offset, read.error().message);
      }
      if (event_.number != next_event_ || event_.now < now_) {
        return reader.damage(block.offset,
                             "event " + std::to_string(event_.number) + " is out of order");
      }
      ++next_event_;
      now_ = event_.now;
      decide(reader);
      if (totals_.difference) return {};
    }
    if (batch.rest() > 0) {
      return reader.damage(block.offset, "a batch holds bytes that belong to no event");
    }
    return {};
  }

  void decide(const BlockReader& reader) {
    actions_.clear();
    state_->handle(event_.event, event_.now, actions_);
    const auto digest = static_cast<uint32_t>(state_->log_hash());
    if (digest != event_.digest) {
      Difference difference{.file = reader.file(),
                            .event = event_.number,
                            .now = event_.now,
                            .event_in_words = in_words(event_.event, names_),
                            .recorded_digest = event_.digest,
                            .digest = digest};
      for (const dispatch::Action& action : actions_) {
        difference.actions_in_words.push_back(in_words(action, names_));
      }
      totals_.difference = std::move(difference);
      return;
    }
    ++totals_.events;
    totals_.decisions += static_cast<uint64_t>(
        std::count_if(actions_.begin(), actions_.end(), [](const dispatch::Action& action) {
          return !std::holds_alternative<dispatch::WakeAt>(action);
        }));
    if (sinks_.step) sinks_.step({event_, actions_, *state_, names_});
  }

  void note_torn(const BlockReader& reader, const TornEnd& torn) {
    if (torn_) totals_.notes.push_back(*torn_);
    torn_ = reader.file() + " ends at byte " + std::to_string(torn.offset) +
            " without being closed" +
            (torn.ignored > 0 ? " (" + std::to_string(torn.ignored) +
                                    " bytes of an unfinished block "
                                    "are ignored)"
                              : "") +
            ": its worker was killed or is still running, or the run failed; events after that are "
            "not in it";
  }

  const ReplaySinks& sinks_;
  ReplayTotals& totals_;
  std::optional<SegmentHeader> header_;
  std::string snapshot_;
  bool ready_ = false;  // the segment's snapshot was read
  std::unique_ptr<dispatch::Dispatcher> state_;
  Names names_;
  uint64_t run_ = 0;
  uint64_t next_event_ = 1;
  Instant now_{};
  RecordedEvent event_;
  std::vector<dispatch::Action> actions_;
  std::optional<std::string> torn_;
};

}  // namespace

Result<void> replay(const SegmentSource& segments, const ReplaySinks& sinks, ReplayTotals& totals) {
  Replayer replayer(sinks, totals);
  while (!replayer.ended()) {
    ASSIGN_OR_RETURN(const std::unique_ptr<BlockReader> reader, segments());
    if (reader == nullptr) break;
    RETURN_IF_ERROR(replayer.segment(*reader));
  }
  replayer.finish();
  return {};
}

}  // namespace lambent::journal
