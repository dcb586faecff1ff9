// The part of WorkflowHost that lets runs begin and go on, in turns of the loop.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "decide/scheduling/admission.h"
#include "decide/workflow/kernel_call.h"
#include "node/worker/workflow_live_run.h"

namespace lambent::worker {
namespace {

using workflow::CallEnd;
using workflow::Failure;
using workflow::Value;

// Works done in one turn of the loop, unless they take longer.
constexpr size_t kWorksOfATurn = 64;
constexpr Duration kTurn = milliseconds(5);

// The enumerators go from the coldest to the warmest.
StartClass colder(StartClass a, StartClass b) { return std::min(a, b); }

}  // namespace

WorkflowHost::WorkflowHost(loop::EventLoop& loop, Random& random, objects::ObjectStore* store,
                           Events events, Limits limits)
    : loop_(loop),
      random_(random),
      store_(store),
      events_(std::move(events)),
      limits_(limits),
      elsewhere_(events_.elsewhere != nullptr ? *events_.elsewhere : kNoCallsElsewhere),
      awaited_(store,
               [this](InvocationId run, ObjectId object) {
                 take_turns(Came{run, object});
               }),
      ahead_(loop, events_.prospect_of, events_.foresee, [this](InvocationId id) {
        const LiveRun* run = find(id);
        return run != nullptr ? run->run.get() : nullptr;
      }) {}

WorkflowHost::~WorkflowHost() {
  if (turn_) loop_.cancel(*turn_);
  for (const auto& [id, run] : runs_) loop_.cancel(run->timer);
}

void WorkflowHost::put(FunctionId function, std::shared_ptr<const workflow::Workflow> graph) {
  if (graph == nullptr) {
    graphs_.erase(function);
  } else {
    graphs_[function] = std::move(graph);
  }
}

void WorkflowHost::remove(FunctionId function) {
  graphs_.erase(function);
  const auto counted = counts_.find(function);
  if (counted == counts_.end()) return;
  if (counted->second.running + counted->second.waiting == 0) counts_.erase(counted);
}

void WorkflowHost::start(InvocationRequest& request, const FunctionSpec& spec) {
  auto made = std::make_unique<LiveRun>();
  LiveRun& run = *made;
  run.id = request.id;
  run.name = spec.name;
  run.function = spec.id;
  run.timeout = spec.timeout;
  run.payload = std::exchange(request.payload, {});
  run.trace_id = request.trace_id;
  const bool asynchronous = request.kind == InvocationKind::kAsynchronous;
  run.acknowledged = asynchronous || request.acknowledged;
  if (const auto found = graphs_.find(spec.id); found != graphs_.end()) run.graph = found->second;
  if (const auto call = calls_.find(request.id); call != calls_.end()) {
    const LiveRun* caller = find(call->second.run);
    run.called = true;
    ++called_;
    if (caller != nullptr) run.depth = caller->depth + 1, run.all_calls = caller->all_calls;
  }
  if (run.all_calls == nullptr) run.all_calls = std::make_shared<size_t>(0);
  // Who called it waits for it, so it has to go on; depth and the number of calls bound these.
  const bool full = !run.called && places_taken() >= limits_.live;
  runs_[run.id] = std::move(made);
  if (!full) {
    ++counts_[run.function].running;
    return take_turns(Begin{run.id});
  }
  ++counts_[run.function].waiting;
  waiting_.push_back(run.id);
  if (asynchronous) return;
  InvocationResult refused =
      rejected({ErrorCode::kResourceExhausted, "this worker runs " + std::to_string(limits_.live) +
                                                   " workflows already; try again later"});
  // Those that wait come first.
  refused.retry_after = scheduling::retry_after(turn() * static_cast<int64_t>(waiting_.size()));
  end(run, std::move(refused), nullptr);
}

Duration WorkflowHost::turn() const {
  return took_.mean_or(Duration(0)) / static_cast<int64_t>(std::max<size_t>(limits_.live, 1));
}

bool WorkflowHost::cancel(InvocationId run, Error error, bool if_it_waits) {
  if (!runs_.contains(run)) return false;
  if (if_it_waits && std::ranges::find(waiting_, run) == waiting_.end()) return false;
  take_turns(Cancelled{run, std::move(error)});
  return true;
}

WorkflowHost::Counts WorkflowHost::counts(FunctionId function) const {
  const auto found = counts_.find(function);
  return found != counts_.end() ? found->second : Counts{};
}

WorkflowHost::LiveRun* WorkflowHost::find(InvocationId run) {
  const auto found = runs_.find(run);
  return found != runs_.end() ? found->second.get() : nullptr;
}

void WorkflowHost::take_turns(Work work) {
  // What ends a run need not wait for what it still does.
  if (std::holds_alternative<TimedOut>(work) || std::holds_alternative<Cancelled>(work)) {
    work_.push_front(std::move(work));
  } else {
    work_.push_back(std::move(work));
  }
  if (!working_ && !turn_) work_a_while();
}

void WorkflowHost::work_a_while() {
  working_ = true;
  const Instant began = loop_.clock().now();
  for (size_t done = 0; done < kWorksOfATurn && !work_.empty(); ++done) {
    if (loop_.clock().now() - began >= kTurn) break;
    Work next = std::move(work_.front());
    work_.pop_front();
    std::visit([this](auto& each) { perform(each); }, next);
  }
  working_ = false;
  turn_.reset();
  if (work_.empty()) return;
  turn_ = loop_.call_after(Duration(0), [this] { work_a_while(); });
}

void WorkflowHost::perform(Begin& work) {
  LiveRun* run = find(work.run);
  if (run == nullptr) return;
  if (run->graph == nullptr) {
    return end(*run,
               rejected({ErrorCode::kFailedPrecondition,
                         "the graph of this workflow could not be read; deploy it again"}),
               nullptr);
  }
  if (run->depth > limits_.depth) {
    return end(
        *run,
        rejected({ErrorCode::kFailedPrecondition, "workflows call each other more than " +
                                                      std::to_string(limits_.depth) + " deep"}),
        nullptr);
  }
  run->begun = true;
  run->began = loop_.clock().now();
  run->record.invocation = run->id;
  run->record.function = run->name;
  auto input = workflow::parse_value(std::exchange(run->payload, {}));
  if (!input.ok()) {
    return end(*run, Failure{.message = "the input: " + input.error().message,
                             .type = kBadAnswer,
                             .code = input.error().code});
  }
  run->timer = loop_.call_after(run->timeout, [this, id = run->id] { take_turns(TimedOut{id}); });
  if (events_.on_begin) events_.on_begin(run->id);
  keep_objects(*run, InvocationId{}, *input);
  run->run = std::make_unique<workflow::Run>(run->graph, run->name.name, limits_.run);
  const Bytes size = workflow::memory_of(*input);
  const workflow::RunStep step = run->run->start({std::move(input).value(), size});
  ahead_.begin(run->id, run->name.tenant);
  if (step.outcome || keep_values(*run)) advance(*run, step);
  ahead_.look(work.run);
}

void WorkflowHost::perform(CallEnded& work) {
  const auto found = calls_.find(work.call);
  const CallOf call = found->second;
  calls_.erase(found);
  if (call.takes_room) --taking_room_;
  CallEnd how = end_of(work.result, call.kind);
  LiveRun* run = find(call.run);
  // Another node gave it an id of its own, or it was made together with others.
  const bool has_id = work.result.ok() && work.result->id != InvocationId{};
  const InvocationId maker = has_id ? work.result->id : work.call;
  // The run ended before: what this made has no owner.
  if (run == nullptr) return remove_made_by(call.tenant, maker, how);
  run->calls.erase(work.call);
  if (const auto* result = std::get_if<workflow::CallResult>(&how)) {
    keep_objects(*run, maker, result->value);
    if (call.kind == FunctionKind::kKernel) run->note_made(maker, call.key, result->value);
    const auto outputs = run->outputs.find(call.key.component);
    if (outputs != run->outputs.end() && outputs->second.also_on_host) {
      for (const ObjectId object : workflow::objects_in(result->value)) {
        const bool is_its = object.maker == maker && run->objects.contains(object);
        if (is_its) awaited_.bring(run->id, run->name.tenant, object);
      }
    }
  } else if (store_ != nullptr && (call.not_made || run->repeatable.contains(call.key.component))) {
    auto& failure = std::get<Failure>(how);
    failure.without_effects = true;
    const auto input = run->run->input_of(call.key);
    const auto is_gone = [&](ObjectId object) {
      const auto status = store_->status(run->name.tenant, object);
      if (!status.ok()) return !run->elsewhere.contains(object);
      return status->state == objects::ObjectState::kFailed;
    };
    if (input.ok()) find_lost(*input, run->makers, is_gone, failure);
  }
  record(*run, call, call.elsewhere ? work.call : maker, work.result, how);
  if (work.result.ok()) run->start = colder(run->start, work.result->start);
  if (run->is_late(loop_.clock().now())) return time_out(*run);
  const workflow::RunStep step = run->run->ended(call.key, std::move(how));
  if (step.outcome || keep_values(*run)) advance(*run, step);
  ahead_.look(call.run);
}

void WorkflowHost::perform(GoOn& work) {
  LiveRun* run = find(work.run);
  if (run == nullptr) return;
  run->goes_on = false;
  if (run->is_late(loop_.clock().now())) return time_out(*run);
  const workflow::RunStep step = run->run->next();
  if (step.outcome || keep_values(*run)) advance(*run, step);
  ahead_.look(work.run);
}

void WorkflowHost::perform(TimedOut& work) {
  LiveRun* run = find(work.run);
  if (run != nullptr) time_out(*run);
}

void WorkflowHost::perform(Cancelled& work) {
  LiveRun* run = find(work.run);
  if (run != nullptr) end(*run, rejected(std::move(work.error)), nullptr);
}

void WorkflowHost::time_out(LiveRun& run) {
  char text[64];
  std::snprintf(text, sizeof(text), "Task timed out after %.2f seconds",
                to_seconds(loop_.clock().now() - run.began));
  end(run,
      Failure{.message = text, .type = "Sandbox.Timeout", .code = ErrorCode::kDeadlineExceeded});
}

bool WorkflowHost::keep_values(LiveRun& run) {
  values_ -= run.values;
  run.values = run.run->size();
  values_ += run.values;
  while (values_ > limits_.values) {
    LiveRun* largest = &run;
    for (const auto& [id, each] : runs_) {
      if (each->values > largest->values) largest = each.get();
    }
    const bool is_this = largest == &run;
    end(*largest,
        Failure{.message = "the values of all workflows together take more than " +
                           to_string(limits_.values) + ", and those of this one (" +
                           to_string(largest->values) + ") the most; hand large data on as objects",
                .type = kBadAnswer,
                .code = ErrorCode::kResourceExhausted});
    if (is_this) return false;
  }
  return true;
}

void WorkflowHost::advance(LiveRun& run, const workflow::RunStep& step) {
  if (step.call) make(run, *step.call);
  if (step.outcome) return end(run, *step.outcome);
  if (step.more && !std::exchange(run.goes_on, true)) take_turns(GoOn{run.id});
}

void WorkflowHost::admit_waiting() {
  while (!waiting_.empty() && places_taken() < limits_.live && !events_.stopping()) {
    const InvocationId next = waiting_.front();
    waiting_.pop_front();
    Counts& counts = counts_[runs_.at(next)->function];
    --counts.waiting;
    ++counts.running;
    take_turns(Begin{next});
  }
}

}  // namespace lambent::worker
