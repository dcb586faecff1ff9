#include "node/worker/journal_writer.h"

#include <utility>

namespace lambent::worker {
namespace {

// What a kill may take of the journal is as old as this at most.
constexpr Duration kPeriod = milliseconds(100);

}  // namespace

JournalWriter::JournalWriter(loop::EventLoop& loop, LogSink& log, journal::Recorder* recorder,
                             const dispatch::Dispatcher& dispatcher)
    : loop_(loop), log_(log), recorder_(recorder), dispatcher_(dispatcher) {
  if (recorder_ != nullptr) recorder_->begin(dispatcher_, loop_.clock().wall_now());
}

JournalWriter::~JournalWriter() {
  if (timed_) loop_.cancel(timer_);
  if (recorder_ != nullptr) recorder_->flush(dispatcher_, loop_.clock().wall_now());
}

void JournalWriter::record(const dispatch::Event& event, Instant now) {
  if (recorder_ == nullptr) return;
  recorder_->record(event, now, dispatcher_);
  flush_soon();
}

void JournalWriter::name(FunctionId function, const std::string& name) {
  if (recorder_ != nullptr) recorder_->name(function, name);
}

void JournalWriter::forget(FunctionId function) {
  if (recorder_ != nullptr) recorder_->forget(function);
}

void JournalWriter::flush_soon() {
  if (std::exchange(timed_, true)) return;
  timer_ = loop_.call_after(kPeriod, [this] {
    timed_ = false;
    flush();
  });
}

void JournalWriter::flush() {
  recorder_->flush(dispatcher_, loop_.clock().wall_now());
  const bool stopped = !recorder_->recording();
  if (stopped && !stopped_) {
    log_.error("journal_stopped",
               {{"events", static_cast<int64_t>(recorder_->events())},
                {"what", "the disk does not follow; events are lost until it does"}});
  } else if (!stopped && stopped_) {
    log_.warning("journal_goes_on",
                 {{"lost_events", static_cast<int64_t>(recorder_->lost_events())}});
  }
  stopped_ = stopped;
  if (stopped) flush_soon();
}

}  // namespace lambent::worker
