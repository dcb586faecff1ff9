#include "decide/dispatch/queue_control.h"

#include <algorithm>
#include <cstdio>
#include <string>

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::OverloadWatch;
using scheduling::Refusal;

namespace {

constexpr std::string_view kRefused = "Overload.MaxQueueTime";
constexpr std::string_view kGivenUp = "Overload.GivenUp";

std::string refusal_text(const Flow& flow, Duration turn, bool promised) {
  const Duration most = OverloadWatch::service_of(flow) *
                        (promised ? scheduling::kPromisedWait : scheduling::kFreshWait);
  char text[256];
  std::snprintf(text, sizeof(text),
                "the function is overloaded: it has %u invocations waiting, which take about %.3g "
                "seconds at its share of this worker, and a run takes %.3g; one more would wait "
                "for longer than %.3g (max_queue_time, learnt)",
                flow.pending, to_seconds(turn) * flow.pending,
                to_seconds(OverloadWatch::service_of(flow)), to_seconds(most));
  return text;
}

}  // namespace

std::optional<Refusal> QueueControl::refusal_of(const InvocationSubmitted& event) {
  if (!event.holds_connection() || !learns(event.function)) return std::nullopt;
  const Flow& flow = flows_[event.function.value];
  OverloadWatch& watch = watch_of(event.function);
  const Instant now = log_.now();
  watch.offered(flow, now);
  if (watch.is_suspect(flow, now) &&
      watch.judge(watch.turn_of(flow, fair_part_of(event.function)), now)) {
    begin_overload(event.function);
  }
  if (!watch.overloaded()) return std::nullopt;
  const Duration turn = turn_of(event.function);
  if (OverloadWatch::has_room(flow, turn, event.promised)) return std::nullopt;
  return Refusal{refusal_text(flow, turn, event.promised), watch.promise(turn, now), kRefused};
}

// From now on no client waits for much longer than a run takes: those that wait already neither.
void QueueControl::begin_overload(FunctionId function) {
  for (InvocationSlot slot = queues_.front(function); slot != kNoInvocation;
       slot = queues_[slot].later) {
    bound(slot);
  }
}

void QueueControl::bound(InvocationSlot slot) {
  const PendingInvocation& invocation = queues_[slot];
  if (!invocation.holds_connection()) return;
  const Instant latest = latest_of(invocation);
  if (latest != kNever) queues_.bound_wait(slot, latest, log_.now());
}

Instant QueueControl::latest_of(const PendingInvocation& invocation) const {
  const Duration bound = queues_.max_queue_time(invocation.function);
  if (bound == scheduling::kNoQueueTime) return kNever;
  if (bound != scheduling::kLearntQueueTime) return invocation.submitted + bound;
  if (!overloaded(invocation.function)) return kNever;
  const Flow& flow = flows_[invocation.function.value];
  return invocation.submitted + OverloadWatch::service_of(flow) * scheduling::kLongestWait;
}

std::optional<Refusal> QueueControl::late(InvocationSlot slot) {
  const PendingInvocation& invocation = queues_[slot];
  if (!invocation.holds_connection() || latest_of(invocation) == kNever) return std::nullopt;
  const FunctionId function = invocation.function;
  const Duration bound = queues_.max_queue_time(function);
  const bool is_learnt = bound == scheduling::kLearntQueueTime;
  const Flow& flow = flows_[function.value];
  const Duration turn = is_learnt ? turn_of(function) : scheduling::turn_estimate(flow);
  const Duration again = is_learnt
                             ? watch_of(function).promise(turn, log_.now())
                             : scheduling::retry_after(turn * static_cast<int64_t>(flow.pending));
  char text[160];
  std::snprintf(text, sizeof(text),
                "it waited %.3g seconds for its turn, longer than was expected when it came, and "
                "may wait no longer (max_queue_time%s)",
                to_seconds(log_.now() - invocation.submitted), is_learnt ? ", learnt" : "");
  return Refusal{text, again, kGivenUp};
}

Duration QueueControl::turn_of(FunctionId function) {
  const Flow& flow = flows_[function.value];
  // What was measured has in it whatever a computed share leaves out.
  if (flow.turns.samples() >= scheduling::kTurnsToBelieve) return flow.turns.mean();
  return watch_of(function).turn_of(flow, fair_part_of(function));
}

double QueueControl::fair_part_of(FunctionId function) const {
  const Flow& flow = flows_[function.value];
  double tokens = 0;
  for (const scheduling::Device& device : pools_.of(flow).fleet().devices()) {
    if (device.healthy) tokens += device.tokens();
  }
  const double all = std::max(flow.weight, waiting_weight(processor_of(flow)));
  // A token serves as many as are in one sandbox.
  return std::min(tokens * flow.weight / all, static_cast<double>(flow.declared_concurrency)) *
         flow.sandbox_concurrency;
}

double QueueControl::waiting_weight(Processor processor) const {
  double weight = 0;
  queues_.waiting(processor).for_each([&](FunctionId id) { weight += flows_[id.value].weight; });
  return weight;
}

bool QueueControl::overloaded(FunctionId function) const {
  return function.value < watches_.size() && watches_[function.value].overloaded();
}

bool QueueControl::is_state() const {
  return !watches_.empty() || std::any_of(flows_.begin(), flows_.end(), [](const Flow& flow) {
    return flow.max_queue_time != Duration(0);
  });
}

void QueueControl::archive(StateArchive& archive) {
  archive.list(watches_, [&](OverloadWatch& watch) { watch.archive(archive); });
  archive.expect(watches_.size() <= flows_.size());
}

}  // namespace lambent::dispatch
