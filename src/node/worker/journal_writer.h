// JournalWriter: has every event that dispatch handled recorded, on disk some 100 ms later, and
// logs when events are lost. Used by DispatchDriver on the loop thread.
#pragma once

#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/journal/recorder.h"

namespace lambent::worker {

class JournalWriter {
 public:
  // All outlive it, but `recorder` may be null: then nothing is recorded.
  JournalWriter(loop::EventLoop& loop, LogSink& log, journal::Recorder* recorder,
                const dispatch::Dispatcher& dispatcher);
  // Writes what is left.
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  void record(const dispatch::Event& event, Instant now);
  // What readers of the journal call a function; and no more.
  void name(FunctionId function, const std::string& name);
  void forget(FunctionId function);

 private:
  void flush_soon();
  void flush();

  loop::EventLoop& loop_;
  LogSink& log_;
  journal::Recorder* const recorder_;
  const dispatch::Dispatcher& dispatcher_;
  loop::TimerId timer_;
  bool timed_ = false;
  bool stopped_ = false;  // and that was logged
};

}  // namespace lambent::worker
