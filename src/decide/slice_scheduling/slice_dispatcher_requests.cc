// The part of SliceDispatcher that knows functions and requests: every request that came is
// completed once, whatever becomes of functions and instances.
#include <algorithm>
#include <string>

#include "core/base/check.h"
#include "core/domain/stopping.h"
#include "decide/slice_scheduling/batch_size.h"
#include "decide/slice_scheduling/slice_dispatcher_state.h"

namespace lambent::slice_scheduling {
namespace {

// After the first failed start; doubled by each that follows.
constexpr Duration kFirstPause = milliseconds(100);
constexpr Duration kLongestPause = seconds(10);

bool is_before(const QueuedRequest& request, uint64_t sequence) {
  return request.sequence < sequence;
}

}  // namespace

FunctionState* SliceDispatcher::State::find(FunctionId id) {
  const auto found = world.functions.find(id);
  return found == world.functions.end() ? nullptr : &found->second;
}

void SliceDispatcher::State::on(const FunctionPut& event) {
  CHECK(event.function != nullptr, "a function that is put is there");
  FunctionState& state = world.functions[event.function->id];
  if (state.function == nullptr) {
    // One that was removed may come back while instances of its old code still run.
    for (const auto& [id, instance] : world.instances) {
      if (instance.function == event.function->id) state.instances.push_back(id);
    }
  } else if (event.replaced) {
    retire_all(state);
    state.failed_starts = 0;
    state.start_again_at = Instant{};
  }
  if (!event.replaced) {
    for (const InstanceId id : state.instances) {
      Instance& instance = world.instances.at(id);
      // One that retires may be of another code.
      if (!instance.retiring) learn_batches(instance, *event.function, world);
    }
  }
  state.function = event.function;
  state.version = ++last_version;
  ++world.slices_version;
  for (QueuedRequest& request : state.queue) {
    const Duration slo = event.function->slo;
    request.deadline = slo > Duration::zero() ? request.submitted + slo : kNever;
  }
}

void SliceDispatcher::State::on(const FunctionRemoved& event) {
  FunctionState* state = find(event.function);
  if (state == nullptr) return;
  complete_all_queued(*state, {ErrorCode::kNotFound, "the function was deleted"});
  retire_all(*state);
  world.functions.erase(event.function);
  arrivals.erase(event.function);
}

void SliceDispatcher::State::on(const RequestSubmitted& event) {
  if (running.contains(event.request) || world.queued.contains(event.request)) return;
  FunctionState* function = find(event.function);
  if (function == nullptr) {
    return complete(
        event.request,
        Error{ErrorCode::kNotFound, "no pipeline function " + std::to_string(event.function.value) +
                                        " is deployed here"});
  }
  if (world.draining) return complete(event.request, stopping_error(true));
  ++arrivals[event.function];
  window_moves = true;
  function->last_arrival = now;
  policy->arrived(*function, now);
  if (!event.acknowledged && function->queue.size() >= options.most_queued) {
    return complete(event.request,
                    Error{ErrorCode::kResourceExhausted,
                          std::to_string(options.most_queued) +
                              " requests of this function wait already; try again later"});
  }
  const Duration slo = function->function->slo;
  enqueue(*function, {.id = event.request,
                      .sequence = ++last_sequence,
                      .submitted = now,
                      .deadline = slo > Duration::zero() ? now + slo : kNever});
}

void SliceDispatcher::State::on(const RequestCancelled& event) {
  if (!world.queued.contains(event.request)) return;
  take(event.request);
  complete(event.request, Error{ErrorCode::kCancelled, "cancelled before it was begun"});
}

void SliceDispatcher::State::apply(const Refuse& decision) {
  take(decision.request);
  complete(decision.request, decision.error);
}

void SliceDispatcher::State::enqueue(FunctionState& function, QueuedRequest request) {
  world.queued.emplace(request.id, QueuePlace{function.function->id, request.sequence});
  auto& queue = function.queue;
  queue.insert(std::lower_bound(queue.begin(), queue.end(), request.sequence, is_before), request);
}

QueuedRequest SliceDispatcher::State::take(InvocationId request) {
  const auto place = world.queued.find(request);
  CHECK(place != world.queued.end(), "a request that is taken is queued");
  auto& queue = world.functions.at(place->second.function).queue;
  const auto found =
      std::lower_bound(queue.begin(), queue.end(), place->second.sequence, is_before);
  CHECK(found != queue.end() && found->id == request, "the index of the queue is right");
  const QueuedRequest taken = *found;
  queue.erase(found);
  world.queued.erase(place);
  return taken;
}

void SliceDispatcher::State::complete(InvocationId request, std::optional<Error> error) {
  act(CompleteRequest{request, std::move(error)});
}

void SliceDispatcher::State::complete_all_queued(FunctionState& function, const Error& error) {
  for (const QueuedRequest& request : function.queue) {
    world.queued.erase(request.id);
    complete(request.id, error);
  }
  function.queue.clear();
}

void SliceDispatcher::State::put_back(QueuedRequest request, FunctionId id, const Error& error,
                                      bool counts) {
  FunctionState* function = find(id);
  if (function == nullptr) {
    return complete(request.id, Error{ErrorCode::kNotFound, "the function was deleted"});
  }
  if (counts && ++request.attempts >= options.most_attempts) return complete(request.id, error);
  if (world.draining) return complete(request.id, stopping_error(true));
  enqueue(*function, request);
}

void SliceDispatcher::State::count_failed_start(FunctionState& function, const Error& error) {
  const unsigned doublings = std::min(function.failed_starts, 16U);
  ++function.failed_starts;
  function.start_again_at = now + std::min(kLongestPause, kFirstPause * (1 << doublings));
  // Who has an instance, or another on its way, is served by that.
  for (const InstanceId id : function.instances) {
    if (!world.instances.at(id).retiring) return;
  }
  std::vector<InvocationId> given_up;
  for (QueuedRequest& request : function.queue) {
    if (++request.attempts >= options.most_attempts) given_up.push_back(request.id);
  }
  for (const InvocationId id : given_up) {
    take(id);
    complete(id, error);
  }
}

}  // namespace lambent::slice_scheduling
