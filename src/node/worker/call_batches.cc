#include "node/worker/call_batches.h"

#include <algorithm>

#include "core/base/packet.h"
#include "core/domain/limits.h"
#include "core/domain/stopping.h"
#include "core/domain/tensor_content.h"
#include "decide/kernel_graph/batch_payload.h"

namespace lambent::worker {
namespace {

// An element in JSON has at most so many bytes for each byte of it: "false," is the worst.
constexpr uint64_t kTextOfByte = 6;

uint64_t bytes_of_one(const std::vector<TensorSpec>& specs) {
  uint64_t sum = 0;
  for (const TensorSpec& spec : specs) {
    Shape shape = spec.shape;
    if (!shape.empty()) shape.front() = 1;
    sum += element_count(shape).value_or(0) * size_of(spec.type).count;
  }
  return sum;
}

// Bounded by what one invocation can carry, and one answer of an executor.
batching::CallLimits limits_of(const ModelDescription& model, const CallBatches::Limits& most) {
  const size_t objects = std::max<size_t>(model.outputs.size(), 1);
  return {.batch = {.most_elements = model.most_elements,
                    .most_wait = model.batches->most_wait,
                    .slo = model.batches->slo},
          .calls = std::max<size_t>((kMostPacketFds - 1) / objects, 1),
          .payload = std::min(limits::kSyncPayload, limits::kResponsePayload) - Bytes::kib(64),
          .waiting = most.waiting,
          .waiting_payload = most.waiting_payload};
}

}  // namespace

CallBatches::~CallBatches() {
  for (const auto& [key, function] : functions_) {
    if (function.timer) uses_.loop.cancel(*function.timer);
  }
}

CallBatches::Function& CallBatches::function_of(const Key& key) {
  const auto found = functions_.find(key);
  if (found != functions_.end()) return found->second;
  const bool is_full = functions_.size() >= limits_.functions;
  std::erase_if(functions_, [&](const auto& each) {
    const bool goes = each.second.is_idle() && (is_full || each.first.first == key.first);
    if (goes && each.second.timer) uses_.loop.cancel(*each.second.timer);
    return goes;
  });
  return functions_[key];
}

void CallBatches::submit(const FunctionSpec& spec, Call call) {
  // Objects that are still to come, and a name that means one version now and another then, are
  // of one call.
  const bool is_plain = call.request.needs.empty() && call.request.function == spec.name;
  const Key key{spec.id, spec.code_sha256 + "/" + spec.handler};
  Function* function = is_plain ? &function_of(key) : nullptr;
  if (function == nullptr || (function->is_known && function->queue == nullptr)) {
    return uses_.submit(std::move(call.request), std::move(call.done));
  }
  const Bytes payload(call.request.payload.size());
  if (function->arriving.size() >= limits_.waiting || payload_ + payload > limits_.all_payload) {
    return uses_.submit(std::move(call.request), std::move(call.done));
  }
  payload_ += payload;
  const InvocationId id = call.request.id;
  const Instant since = call.since.value_or(uses_.loop.clock().now());
  calls_[id] = {key, std::move(call), since, uses_.loop.clock().now()};
  if (function->is_known) return enqueue(*function, id);
  function->arriving.push_back(id);
  if (std::exchange(function->is_asked, true)) return;
  uses_.describe(spec,
                 [this, key](Result<ModelDescription> model) { described(key, std::move(model)); });
}

void CallBatches::described(const Key& key, Result<ModelDescription> model) {
  Function& function = functions_.at(key);
  const bool has_batches = model.ok() && model->batches && model->most_elements > 1;
  if (has_batches) {
    function.queue = std::make_unique<batching::CallQueue>(limits_of(*model, limits_));
    function.most_elements = model->most_elements;
    function.output_of_one = bytes_of_one(model->outputs);
  }
  function.is_known = true;
  for (const InvocationId id : std::exchange(function.arriving, {})) {
    if (!calls_.contains(id)) continue;
    if (has_batches) {
      enqueue(function, id);
    } else {
      pass_on(id);
    }
  }
  // What could not be read is told by the call itself, and asked for again.
  function.is_known = model.ok();
  function.is_asked = false;
}

void CallBatches::enqueue(Function& function, InvocationId id) {
  const Entry& entry = calls_.at(id);
  // What has more is refused, and by itself.
  const bool fits = entry.call.elements <= function.most_elements;
  const uint64_t elements = fits ? entry.call.elements : 0;
  Bytes weight(entry.call.request.payload.size());
  if (entry.call.by_value) {
    const bool is_bare = entry.call.request.content_type == kTensorContentType;
    const uint64_t text = is_bare ? 1 : kTextOfByte;
    weight = std::max(weight, Bytes(function.output_of_one * elements * text));
  }
  const Key key = entry.key;
  if (!function.queue->add({id, entry.since, elements, weight})) return pass_on(id);
  begin(key);
}

CallBatches::Call CallBatches::take(InvocationId id) {
  const auto found = calls_.find(id);
  Call call = std::move(found->second.call);
  calls_.erase(found);
  payload_ -= Bytes(call.request.payload.size());
  return call;
}

void CallBatches::pass_on(InvocationId id) {
  Call call = take(id);
  uses_.submit(std::move(call.request), std::move(call.done));
}

void CallBatches::begin(const Key& key) {
  const auto found = functions_.find(key);
  if (found == functions_.end() || found->second.queue == nullptr) return;
  Function& function = found->second;
  batching::CallQueue::Next next = function.queue->next(uses_.loop.clock().now());
  if (function.timer) uses_.loop.cancel(*std::exchange(function.timer, std::nullopt));
  if (next.again) {
    function.timer = uses_.loop.call_at(*next.again, [this, key] {
      functions_.at(key).timer.reset();
      begin(key);
    });
  }
  if (next.calls.size() == 1) return begin_one(key, next.calls.front());
  if (next.calls.size() > 1) begin_batch(key, std::move(next.calls));
}

void CallBatches::begin_one(const Key& key, InvocationId id) {
  const Duration waited = uses_.loop.clock().now() - calls_.at(id).came;
  Call call = take(id);
  uses_.submit(std::move(call.request),
               [this, key, waited, done = std::move(call.done)](Result<InvocationResult> result) {
                 const bool has_run = result.ok() && result->outcome == Outcome::kSucceeded;
                 const Instant ended = end_of_run(result);
                 if (result.ok()) result->phases.queue += waited;
                 done(std::move(result));
                 go_on(key, ended, has_run);
               });
}

void CallBatches::begin_batch(const Key& key, std::vector<InvocationId> calls) {
  const InvocationId id = new_invocation_id(uses_.random);
  InvocationRequest request;
  request.id = id;
  request.content_type = kernel_graph::kBatchContentType;
  std::vector<kernel_graph::BatchPart> parts;
  for (const InvocationId call : calls) {
    Entry& entry = calls_.at(call);
    entry.batch = id;
    const InvocationRequest& one = entry.call.request;
    if (parts.empty()) {
      request.function = one.function;
      request.trace_id = one.trace_id;
    }
    request.within_run = request.within_run || one.within_run;
    // What one of them was promised is promised to all.
    request.acknowledged = request.acknowledged || one.acknowledged;
    parts.push_back({one.content_type, one.payload});
  }
  request.payload = kernel_graph::join_batch(parts);
  if (uses_.on_batch) uses_.on_batch(request.function, calls.size());
  batches_[id] = {key, std::move(calls), uses_.loop.clock().now()};
  uses_.submit(std::move(request),
               [this, id](Result<InvocationResult> result) { batch_ended(id, std::move(result)); });
}

// Without the time in dispatch's queue: where a run waited for others, smaller batches make nothing
// better.
Instant CallBatches::end_of_run(const Result<InvocationResult>& result) const {
  return uses_.loop.clock().now() - (result.ok() ? result->phases.queue : Duration(0));
}

void CallBatches::batch_ended(InvocationId id, Result<InvocationResult> result) {
  const auto found = batches_.find(id);
  const Batch batch = std::move(found->second);
  batches_.erase(found);
  const bool has_run = result.ok() && result->outcome == Outcome::kSucceeded;
  const Instant ended = end_of_run(result);
  if (has_run) {
    give(batch, *std::move(result));
  } else if (result.ok() && result->outcome == Outcome::kFunctionError) {
    make_one_by_one(batch);
  } else {
    // It was not run, and they would not be.
    for (const InvocationId call : batch.calls) {
      Result<InvocationResult> own = result;
      if (own.ok()) own->id = call;
      Call refused = take(call);
      if (!own.ok()) own = stopping_error_of(own.error(), refused.request.within_run);
      refused.done(std::move(own));
    }
  }
  go_on(batch.key, ended, has_run);
}

void CallBatches::give(const Batch& batch, InvocationResult result) {
  const std::string all = std::exchange(result.payload, {});
  const auto answers = kernel_graph::split_batch(all, batch.calls.size());
  const bool is_whole = answers.ok() && answers->size() == batch.calls.size();
  for (size_t i = 0; i < batch.calls.size(); ++i) {
    const Entry& entry = calls_.at(batch.calls[i]);
    const Duration waited = batch.began - entry.came;
    Call call = take(batch.calls[i]);
    if (!is_whole) {
      call.done(Error{ErrorCode::kInternal, "the executor answered a batch in other words"});
      continue;
    }
    InvocationResult own = result;
    own.payload = std::string((*answers)[i].payload);
    own.phases.queue += waited;
    call.done(std::move(own));
  }
}

// What is wrong with one of them fails that one by itself.
void CallBatches::make_one_by_one(const Batch& batch) {
  for (const InvocationId id : batch.calls) {
    const bool is_gone = calls_.at(id).is_gone;
    if (!is_gone) {
      // Another worker that would be asked for it is told nothing that is not so: it has begun.
      calls_.at(id).call.request.within_run = true;
      pass_on(id);
      continue;
    }
    take(id).done(Error{ErrorCode::kCancelled, "nothing waits for it any more"});
  }
}

void CallBatches::go_on(const Key& key, Instant ended, bool has_run) {
  functions_.at(key).queue->ended(ended, has_run);
  if (has_run) return begin(key);
  uses_.loop.call_after(Duration(0), [this, key, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) begin(key);
  });
}

void CallBatches::forget(InvocationId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return uses_.forget(id);
  Entry& entry = found->second;
  if (entry.batch == InvocationId{}) {
    Function& function = functions_.at(entry.key);
    if (function.queue != nullptr) function.queue->remove(id);
    return take(id).done(Error{ErrorCode::kCancelled, "nothing waits for it any more"});
  }
  entry.is_gone = true;
  const InvocationId batch_id = entry.batch;
  const auto batch = batches_.find(batch_id);
  if (batch == batches_.end()) return;  // it is being answered, and this one's turn comes
  const bool all_gone = std::ranges::all_of(
      batch->second.calls, [this](InvocationId call) { return calls_.at(call).is_gone; });
  if (all_gone) uses_.forget(batch_id);
}

}  // namespace lambent::worker
