// The part of WorkflowHost that makes calls. Those of runs that were acknowledged wait for room
// where there is none, without a payload: only the run knows of them meanwhile. They are tried
// again when something ended, and once in a while.
#include <algorithm>
#include <utility>

#include "core/domain/limits.h"
#include "core/domain/trace_id.h"
#include "decide/workflow/kernel_call.h"
#include "node/worker/workflow_live_run.h"

namespace lambent::worker {
namespace {

// What a node of a cluster lacks after a deployment has come from another one.
constexpr Duration kComesWithin = seconds(5);

}  // namespace

// More than a request may name are found when they are read.
std::vector<ObjectId> WorkflowHost::LiveRun::needs_of(const workflow::Value& input,
                                                      bool is_elsewhere) const {
  if (!is_elsewhere && elsewhere.empty()) return {};
  std::vector<ObjectId> named = workflow::objects_in(input);
  if (!is_elsewhere) {
    std::erase_if(named, [this](ObjectId object) { return !elsewhere.contains(object); });
  }
  if (named.size() > lambent::limits::kNeeds) named.clear();
  return named;
}

void WorkflowHost::LiveRun::note_made(InvocationId maker, const workflow::CallKey& key,
                                      const workflow::Value& value) {
  for (const ObjectId object : workflow::objects_in(value)) {
    if (object.maker == maker) makers[object] = key;
  }
}

void WorkflowHost::make(LiveRun& run, const workflow::Call& call) {
  const InvocationId id = new_invocation_id(random_);
  CallOf made{run.id, run.name.tenant, call.key, call.attempt};
  made.began = loop_.clock().now();
  ahead_.begun(run.id, call.key.component);
  calls_[id] = made;
  run.calls.insert(id);
  if (++*run.all_calls > limits_.calls) {
    return take_turns(
        CallEnded{id, Error{ErrorCode::kResourceExhausted,
                            "a workflow makes at most " + std::to_string(limits_.calls) +
                                " calls, with those of the workflows that it calls"}});
  }
  // A kernel function that finds its input lost is called again. What a handler did by then stays
  // done, so it is called when its input cannot be lost any more.
  if (awaited_.any_of(run.id)) {
    const FunctionName function = run.function_of(call.key);
    const FunctionSpec* spec = events_.find_function(function);
    const Callees callees{run.name.tenant, events_.find_function, graph_of_};
    const bool may = spec != nullptr && may_repeat(spec->kind, function.name, callees);
    if (!may && awaited_.hold(run.id, id, workflow::objects_in(call.input))) return;
  }
  // First come, first served.
  const bool waits = run.acknowledged && parked_.any_of(run.function_of(call.key));
  if (waits || !submit(run, id, call)) park(run, id);
}

bool WorkflowHost::submit(LiveRun& run, InvocationId id, const workflow::Call& call) {
  InvocationRequest request;
  request.id = id;
  request.function = run.function_of(call.key);
  request.trace_id = trace_id_below(run.trace_id, run.id);
  request.acknowledged = run.acknowledged;
  request.within_run = true;
  CallOf& made = calls_.at(id);
  // One that is not there is refused when it is submitted, unless it may be on its way: the run was
  // placed here by a node that had it.
  const FunctionSpec* spec = events_.find_function(request.function);
  const bool is_young = loop_.clock().now() - run.began < kComesWithin;
  if (spec == nullptr && is_young && elsewhere_.may_come && elsewhere_.may_come()) return false;
  made.kind = spec != nullptr ? spec->kind : FunctionKind::kHandler;
  const uint32_t component = call.key.component;
  const auto [outputs, is_new] = run.outputs.try_emplace(component);
  if (is_new) {
    outputs->second = outputs_of(*run.graph, component, spec,
                                 {run.name.tenant, events_.find_function, graph_of_});
    const bool may = may_repeat(made.kind, request.function.name,
                                {run.name.tenant, events_.find_function, graph_of_});
    if (may) run.repeatable.insert(component);
  }
  auto payload = payload_of(call, made.kind, outputs->second.become);
  if (!payload.ok()) {
    unpark(run, id);
    take_turns(CallEnded{id, payload.error()});
    return true;
  }
  request.payload = std::move(payload).value();
  made.elsewhere = spec != nullptr && elsewhere_.takes && elsewhere_.takes(*spec);
  const Bytes size(request.payload.size());
  if (run.acknowledged && !made.elsewhere && !has_room(request.function, size)) return false;
  unpark(run, id);
  made.takes_room = run.acknowledged && !made.elsewhere && made.kind != FunctionKind::kWorkflow;
  if (made.takes_room) ++taking_room_;
  // What lies on another node is brought to the one that needs it, before the call is queued.
  request.needs = run.needs_of(call.input, made.elsewhere);
  if (made.elsewhere) run.sent.insert(request.needs.begin(), request.needs.end());
  Done done = [this, id](Result<InvocationResult> result) {
    take_turns(CallEnded{id, std::move(result)});
  };
  if (made.elsewhere) {
    elsewhere_.submit(std::move(request), std::move(done));
  } else if (made.kind == FunctionKind::kKernel && events_.submit_kernel) {
    const bool by_value = outputs->second.become == workflow::KernelOutputs::kByValue;
    events_.submit_kernel(*spec, std::move(request), workflow::elements_of(call.input), by_value,
                          std::move(done));
  } else {
    events_.submit(std::move(request), std::move(done));
  }
  return true;
}

// One is always under way, so that however little room others leave, all get done in the end. A
// workflow that is called is none of these: it waits for what it calls in turn.
bool WorkflowHost::has_room(const FunctionName& function, Bytes payload) const {
  if (taking_room_ == 0 || !events_.has_room || events_.stopping()) return true;
  return events_.has_room(function, payload);
}

void WorkflowHost::park(const LiveRun& run, InvocationId id) {
  CallOf& call = calls_.at(id);
  call.parked = parked_.park(run.function_of(call.key), id);
}

void WorkflowHost::unpark(const LiveRun& run, InvocationId id) {
  CallOf& call = calls_.at(id);
  if (call.parked == 0) return;
  parked_.remove(run.function_of(call.key), std::exchange(call.parked, 0));
}

void WorkflowHost::drop_waiting(LiveRun& run) {
  const std::set<InvocationId> held = awaited_.drop(run.id);
  std::erase_if(run.calls, [&](InvocationId id) {
    if (calls_.at(id).parked == 0 && !held.contains(id)) return false;
    unpark(run, id);
    calls_.erase(id);
    return true;
  });
}

void WorkflowHost::perform(Came& work) {
  const std::vector<InvocationId> released = awaited_.came(work.run, work.object);
  LiveRun* run = find(work.run);
  if (run == nullptr) return;
  for (const InvocationId id : released) release(*run, id);
}

void WorkflowHost::release(LiveRun& run, InvocationId id) {
  CallOf& call = calls_.at(id);
  auto input = run.run->input_of(call.key);
  if (!input.ok()) return take_turns(CallEnded{id, input.error()});
  const bool is_lost = std::ranges::any_of(workflow::objects_in(*input), [&](ObjectId object) {
    const auto status = store_->status(run.name.tenant, object);
    return status.ok() && status->state == objects::ObjectState::kFailed;
  });
  if (is_lost) {
    call.not_made = true;
    return take_turns(CallEnded{id, failed({.message = "an object that it reads was lost",
                                            .type = kObjectFailed,
                                            .code = ErrorCode::kDataLoss})});
  }
  const workflow::Call again{call.key, call.attempt, std::move(input).value()};
  if (!submit(run, id, again)) park(run, id);
}

bool WorkflowHost::try_parked(InvocationId id) {
  const CallOf& call = calls_.at(id);
  LiveRun& run = *find(call.run);
  auto input = run.run->input_of(call.key);
  if (!input.ok()) {
    unpark(run, id);
    take_turns(CallEnded{id, input.error()});
    return true;
  }
  return submit(run, id, {call.key, call.attempt, std::move(input).value()});
}

}  // namespace lambent::worker
