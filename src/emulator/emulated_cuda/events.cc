#include "emulator/emulated_cuda/events.h"

#include <algorithm>

namespace lambent::emulated_cuda {

namespace {

constexpr int64_t kLookAgain_ns = 50'000;
constexpr int kQuickLooks = 1000;
constexpr int kLooksBetweenRollCalls = 200;  // some 10 ms

// The number of the last record if another process made it, else 0.
uint64_t foreign_record(const Event& event) {
  if (!event.shared) return 0;
  uint64_t own = 0;
  event.recorded(&own);
  const uint64_t latest = event.shared->latest();
  return latest == own ? 0 : latest;
}

// A process that has gone reaches nothing any more, and no thread waits for it.
bool recorder_is_gone(Process& process, const InterprocessEvent& event, uint64_t number) {
  InterprocessEvent::Recorder recorder;
  if (!event.recorder_of(number, &recorder) || recorder.row >= kMaxProcesses) return false;
  Node::Guard guard(*process.node);
  guard.reap(true);
  const auto& row = guard->rows[recorder.row];
  return !row.used || row.generation != recorder.generation;
}

// Looks until the record has been reached, it cannot be reached, or `stop` says so.
template <class Stop>
void look_for(Process& process, const InterprocessEvent& event, uint64_t number, Stop stop) {
  for (int looks = 0; !event.reached(number) && !stop(); looks++) {
    if (looks < kQuickLooks) continue;
    process.node->sleep_until(INT64_MAX / 4, kLookAgain_ns);
    bool roll_call = (looks - kQuickLooks) % kLooksBetweenRollCalls == 0;
    if (roll_call && recorder_is_gone(process, event, number)) return;
  }
}

}  // namespace

uint64_t begin_record(Process& process, Event& event) {
  return event.shared ? event.shared->begin({process.row, process.generation}) : 0;
}

void finish_record(Event& event, uint64_t number, int64_t at_ns) {
  if (number != 0) event.shared->finish(number, at_ns);
}

CompletionPtr last_end(Process& process, Context& context, const std::shared_ptr<Event>& event) {
  const uint64_t number = foreign_record(*event);
  if (number == 0) return event->recorded();
  // The wait may outlive the context.
  auto kept = process.contexts.find(&context);
  return submit_offloaded(process, context, {}, [&process, kept, event, number](int64_t begin_ns) {
    const InterprocessEvent& shared = *event->shared;
    if (!shared.reached(number)) {
      ThreadClock::release();
      look_for(process, shared, number,
               [&] { return !kept || process.health_of(*kept) != CUDA_SUCCESS; });
    }
    const int64_t end_ns = shared.reached(number) ? shared.reached_ns(number) : begin_ns;
    ThreadClock::hold(std::max(begin_ns, end_ns));
    return std::max(begin_ns, end_ns);
  });
}

bool was_recorded(const Event& event) {
  return event.recorded() || (event.shared && event.shared->latest() != 0);
}

bool is_reached(Process& process, const Event& event) {
  if (const uint64_t number = foreign_record(event)) {
    return event.shared->reached(number) || recorder_is_gone(process, *event.shared, number);
  }
  CompletionPtr end = event.recorded();
  return !end || end->done();
}

void wait_until_reached(Process& process, const Event& event) {
  if (const uint64_t number = foreign_record(event)) {
    look_for(process, *event.shared, number, [] { return false; });
  } else if (CompletionPtr end = event.recorded()) {
    end->wait();
  }
}

CompletionPtr submit_offloaded(Process& process, Context& context, std::vector<CompletionPtr> after,
                               Work work) {
  auto offloaded = std::make_shared<Stream>(&context, CU_STREAM_NON_BLOCKING, 0, process.next_id++,
                                            *process.holds);
  CompletionPtr end = submit(process, context, *offloaded, std::move(after), std::move(work));
  offloaded->close();
  return end;
}

}  // namespace lambent::emulated_cuda
