// Recorder: collects the events of one dispatcher and hands them over as segments of a journal.
// Never blocks: what the sink does not take is lost, counted, and followed by a new segment. Loop
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "decide/dispatch/dispatcher.h"
#include "decide/journal/block.h"
#include "decide/journal/event_codec.h"
#include "decide/journal/segment_header.h"

namespace lambent::journal {

// Where segments go. Called on the recorder's thread; must not block.
class SegmentSink {
 public:
  virtual ~SegmentSink() = default;
  // From here on blocks belong to a new segment. False: not now.
  virtual bool begin_segment() = 0;
  // The next block of the segment. False: it is lost, and so is whatever would follow it.
  virtual bool append(BlockType type, std::string payload) = 0;
  // The same for events, which the sink encodes; it leaves an empty batch, whatever it answers.
  virtual bool append_events(EventBatch& batch) {
    const bool taken = append(BlockType::kEvents, encoded(batch));
    batch.clear();
    return taken;
  }
  // What was appended is to be on its way: until then a sink may wait for more.
  virtual void flush() {}
};

struct RecorderOptions {
  Bytes segment_size = Bytes::mib(64);
};

class Recorder {
 public:
  // The sink outlives it.
  Recorder(RunFacts facts, SegmentSink& sink, RecorderOptions options);
  // Closes the segment, whatever happened, unless it is to be left open.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Begins the first segment: before any event that is to be recorded.
  void begin(const dispatch::Dispatcher& dispatcher, Duration wall_time);
  // After `dispatcher` handled this event.
  void record(const dispatch::Event& event, Instant now, const dispatch::Dispatcher& dispatcher);
  // What a function is called; for people who read the journal.
  void name(FunctionId function, std::string name);
  void forget(FunctionId function) { names_.erase(function); }

  // Hands over what was recorded so far, so that a kill loses nothing older; begins a new segment
  // where one is due. Called now and then, and before a kill that can be foreseen.
  void flush(const dispatch::Dispatcher& dispatcher, Duration wall_time);

  // What is recorded is a part of a run that failed: as after a kill, a replay tells that the end
  // is missing.
  void leave_open() { leaves_open_ = true; }

  // Whether something waits for flush().
  bool pending() const { return !batch_.empty() || !recording_; }
  bool recording() const { return recording_; }
  uint64_t events() const { return next_event_ - 1; }
  // Those that it knows of: a sink that fails may take some with it that it had accepted.
  uint64_t lost_events() const { return lost_; }

 private:
  void begin_segment(const dispatch::Dispatcher& dispatcher);
  bool append(BlockType type, std::string payload);
  void hand_over();
  void turn(const dispatch::Dispatcher& dispatcher);
  void close();

  RunFacts facts_;
  SegmentSink& sink_;
  RecorderOptions options_;
  Names names_;
  EventBatch batch_;
  Instant now_{};
  Duration wall_time_{};
  uint64_t next_event_ = 1;
  bool recording_ = false;
  uint64_t segment_bytes_ = 0;
  uint64_t segment_limit_ = 0;
  bool continues_ = true;
  bool leaves_open_ = false;
  uint64_t lost_ = 0;
};

}  // namespace lambent::journal
