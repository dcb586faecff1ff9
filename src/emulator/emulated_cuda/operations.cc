#include "emulator/emulated_cuda/operations.h"

#include <algorithm>
#include <utility>

#include "emulator/emulated_cuda/events.h"
#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

int64_t perform(Process&, Context&, const Empty&, int64_t begin_ns) { return begin_ns; }

// The host takes what time it takes: the clock goes on meanwhile.
template <class Call>
int64_t perform_on_host(Process& process, int64_t begin_ns, Call call) {
  ThreadClock::release();
  in_host_call() = true;
  call();
  in_host_call() = false;
  int64_t end_ns = std::max(begin_ns, process.node->now_ns());
  ThreadClock::hold(end_ns);
  return end_ns;
}

int64_t perform(Process& process, Context&, const HostCall& call, int64_t begin_ns) {
  return perform_on_host(process, begin_ns, [&] { call.function(call.user_data); });
}

int64_t perform(Process& process, Context& context, const StreamCallback& callback,
                int64_t begin_ns) {
  return perform_on_host(process, begin_ns, [&] {
    callback.function(callback.stream, process.health_of(context), callback.user_data);
  });
}

// What these two mean happens when they are enqueued: their completion is the event's, and the
// stream itself waits.
int64_t perform(Process&, Context&, const EventRecord&, int64_t begin_ns) { return begin_ns; }
int64_t perform(Process&, Context&, const EventWait&, int64_t begin_ns) { return begin_ns; }

int64_t perform(Process& process, Context&, const MemoryMoves& moves, int64_t begin_ns) {
  int64_t end_ns = begin_ns;
  for (const MemoryMove& move : moves.moves) {
    end_ns = std::max(end_ns, process.managed.move(move, begin_ns));
  }
  ThreadClock::hold(end_ns);  // where the next operation may begin
  sleep_to(process, end_ns);
  return end_ns;
}

int64_t perform(Process& process, Context&, const MemoryFree& free, int64_t begin_ns) {
  process.free_device_memory(free.address);
  return begin_ns;
}

int64_t perform(Process&, Context&, const GraphAllocation&, int64_t begin_ns) { return begin_ns; }
int64_t perform(Process&, Context&, const GraphFree&, int64_t begin_ns) { return begin_ns; }

}  // namespace

CUresult enqueue(Process& process, const std::shared_ptr<Context>& context,
                 const std::shared_ptr<Stream>& stream, Operation operation, CompletionPtr* end) {
  if (stream->capturing.load(std::memory_order_acquire)) {
    return capture_operation(process, context, stream, std::move(operation));
  }
  if (stream->is_legacy()) {
    if (CUresult result = refuse_if_capturing(process, *context, *stream)) return result;
  }
  stream->wait_for_room();
  std::vector<CompletionPtr> after;
  std::shared_ptr<Event> recorded;
  uint64_t number = 0;
  if (auto* record = std::get_if<EventRecord>(&operation)) {
    recorded = record->event;
    number = record->number = begin_record(process, *recorded);
  } else if (auto* wait = std::get_if<EventWait>(&operation)) {
    if (wait->event->is_captured()) return join_capture(process, stream, *wait->event);
    CompletionPtr awaited = last_end(process, *context, wait->event);
    if (!awaited && !end) return CUDA_SUCCESS;  // never recorded: nothing to wait for
    if (awaited) after.push_back(std::move(awaited));
  } else if (auto* launch = std::get_if<GraphLaunch>(&operation)) {
    if (launch->after) after.push_back(launch->after);
  } else if (auto* free = std::get_if<MemoryFree>(&operation);
             free && process.graph_memory.known(free->address)) {
    GraphFree graph_free{free->address, nullptr};
    if (!process.graph_memory.free(free->address, &graph_free.hold)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    operation = std::move(graph_free);
  }
  process.node->note_work(process.row, 1);
  CompletionPtr completion =
      submit(process, *context, *stream, std::move(after),
             [&process, context, operation = std::move(operation)](int64_t begin_ns) {
               int64_t end_ns = perform(process, *context, operation, begin_ns);
               if (auto* record = std::get_if<EventRecord>(&operation)) {
                 finish_record(*record->event, record->number, end_ns);
               }
               process.node->note_work(process.row, -1);
               return end_ns;
             });
  if (recorded) recorded->record(completion, number);
  if (end) *end = std::move(completion);
  return CUDA_SUCCESS;
}

int64_t perform(Process& process, Context& context, const Operation& operation, int64_t begin_ns) {
  bool tells = std::holds_alternative<StreamCallback>(operation);
  if (process.health_of(context) && !tells) return begin_ns;  // nothing runs any more
  return std::visit([&](const auto& one) { return perform(process, context, one, begin_ns); },
                    operation);
}

}  // namespace lambent::emulated_cuda
