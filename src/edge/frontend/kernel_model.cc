#include "edge/frontend/kernel_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "core/domain/limits.h"
#include "core/domain/tensor_content.h"
#include "core/domain/tensor_limits.h"
#include "core/domain/version.h"
#include "core/http/trace_context.h"
#include "edge/frontend/function_target.h"
#include "edge/frontend/inference_frontend.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/limits.h"
#include "edge/frontend/offload.h"
#include "edge/inference/batch.h"
#include "edge/inference/compression.h"
#include "edge/inference/model_route.h"

namespace lambent::frontend {
namespace {

using Json = nlohmann::ordered_json;
using inference::BatchQueue;
using inference::InferRequest;
using inference::Route;

// Functions that are counted, and may have batches; of more, none is, and none has.
constexpr size_t kMostServed = 10'000;

// Whose elements have a form in the protocol: raw bytes have none.
Result<void> check_types(const ModelDescription& model) {
  for (const auto* tensors : {&model.inputs, &model.outputs}) {
    for (const TensorSpec& tensor : *tensors) {
      if (tensor.type != DataType::kBytes) continue;
      return Error{ErrorCode::kUnimplemented, "'" + tensor.name +
                                                  "' is raw bytes, for which this protocol has no "
                                                  "form: invoke the function"};
    }
  }
  return {};
}

// What a request to a model with variants brings is one batch, and fits the largest.
Result<void> check_elements(const ModelDescription& model, const InferRequest& request) {
  if (model.most_elements == 0) return {};
  const auto elements = inference::batch_elements(request);
  if (!elements) {
    return Error{ErrorCode::kInvalidArgument,
                 "the inputs have no common first dimension of 1 element or more"};
  }
  if (*elements <= model.most_elements) return {};
  return Error{ErrorCode::kInvalidArgument,
               "input '" + request.inputs.front().name + "': its first dimension is " +
                   std::to_string(*elements) + "; this model takes at most " +
                   std::to_string(model.most_elements)};
}

Shape with_elements(Shape shape, uint64_t elements) {
  if (!shape.empty() && shape.front() < 0) shape.front() = static_cast<int64_t>(elements);
  return shape;
}

uint64_t bytes_of(const TensorSpec& spec, uint64_t elements) {
  return element_count(with_elements(spec.shape, elements)).value_or(0) * size_of(spec.type).count;
}

// Of one element of all these tensors.
uint64_t bytes_of_one(const std::vector<TensorSpec>& specs) {
  uint64_t sum = 0;
  for (const TensorSpec& spec : specs) sum += bytes_of(spec, 1);
  return std::max<uint64_t>(sum, 1);
}

// What an invocation can carry bounds a batch, too.
uint64_t most_elements_together(const ModelDescription& model) {
  const uint64_t most = limits::kTensorPayload.count;
  return std::max<uint64_t>(1, std::min({model.most_elements, most / bytes_of_one(model.inputs),
                                         most / bytes_of_one(model.outputs)}));
}

// JSON takes many times its length while it is read, and as much as the tensors that it writes out.
Result<Bytes> most_of_body(const http::Request& request) {
  ASSIGN_OR_RETURN(const auto json, inference::parse_json_length(
                                        request.headers.get("Inference-Header-Content-Length")));
  if (!json) return limits::kEventBody;  // it is nothing but JSON
  if (*json <= limits::kEventBody.count) return limits::kTensorPayload;
  return Error{ErrorCode::kOutOfRange,
               "the request has " + std::to_string(*json) + " bytes of JSON; at most " +
                   std::to_string(limits::kEventBody.count) +
                   " are taken. Send tensors as binary data behind it (binary_data_size)"};
}

Result<void> check_json_outputs(const ModelDescription& model, const InferRequest& request,
                                uint64_t elements) {
  uint64_t bytes = 0;
  for (const inference::RequestedOutput& output : request.outputs) {
    const auto spec = std::ranges::find(model.outputs, output.name, &TensorSpec::name);
    if (!output.is_binary && spec != model.outputs.end()) bytes += bytes_of(*spec, elements);
  }
  if (bytes <= limits::kResponsePayload.count) return {};
  return Error{ErrorCode::kInvalidArgument,
               "outputs of " + std::to_string(bytes) + " bytes are too large for JSON, which has " +
                   std::to_string(limits::kResponsePayload.count) +
                   " at most: ask for them as binary data (binary_data_output)"};
}

// Those outputs that were asked for, in that order, of the bytes of all.
Result<std::vector<Tensor>> outputs_of(const ModelDescription& model, const InferRequest& request,
                                       uint64_t elements, std::string_view payload) {
  std::map<std::string_view, Tensor> all;
  for (const TensorSpec& spec : model.outputs) {
    const uint64_t bytes = bytes_of(spec, elements);
    if (payload.size() < bytes) {
      return Error{ErrorCode::kInternal, "the answer of the kernels is too short"};
    }
    Tensor tensor;
    tensor.name = spec.name;
    tensor.type = spec.type;
    tensor.shape = with_elements(spec.shape, elements);
    tensor.content = payload.substr(0, bytes);
    payload.remove_prefix(bytes);
    all.emplace(spec.name, std::move(tensor));
  }
  std::vector<Tensor> wanted;
  for (const inference::RequestedOutput& output : request.outputs) {
    const auto found = all.extract(output.name);
    if (!found) return Error{ErrorCode::kInvalidArgument, "output '" + output.name + "' twice"};
    wanted.push_back(std::move(found.mapped()));
  }
  return wanted;
}

}  // namespace

// One request, from its arrival to its answer. Shared because tasks must be copyable.
struct KernelModelFrontend::Pending : inference::QueuedRun {
  Pending(http::RelayCall its_call, FunctionSpec its_spec,
          const inference::DecompressedBodies& its_bodies)
      : call(std::move(its_call)), spec(std::move(its_spec)), bodies(its_bodies) {}

  http::RelayCall call;
  const FunctionSpec spec;
  const inference::DecompressedBodies bodies;  // of all requests
  inference::DecompressedBodies::Part part = {};
  Lease lease = {};  // of its body, if that is long, until it is part of a run
  http::Request http = {};
  ModelDescription model = {};
  uint64_t elements = 1;
  std::shared_ptr<Execution> execution = {};  // while it runs
  Instant begin{};
  InvocationId id = {};
  bool is_gone = false;

  inference::ModelIdentity identity() const {
    return inference::model_identity(spec.name.name, http.headers.get(kModelVersionsHeader));
  }

  Result<void> read() {
    RETURN_IF_ERROR(check_types(model));
    ASSIGN_OR_RETURN(const Bytes most, most_of_body(http));
    ASSIGN_OR_RETURN(request, inference::read_infer_request(http, model, most, bodies, part));
    RETURN_IF_ERROR(check_elements(model, request));
    if (model.most_elements > 0) elements = inference::batch_elements(request).value_or(1);
    return check_json_outputs(model, request, elements);
  }

  Result<http::Response> make_response() const {
    if (!outputs.ok()) return outputs.error();
    ASSIGN_OR_RETURN(http::Response response,
                     inference::infer_response(identity(), request, *outputs));
    inference::compress(response, http.headers.get("Accept-Encoding"));
    return response;
  }
};

// One invocation, of one request or several.
struct KernelModelFrontend::Execution {
  std::vector<std::shared_ptr<Pending>> requests;
  uint64_t elements = 0;
  size_t bytes = 0;                        // of the requests' inputs
  std::shared_ptr<BatchQueue> queue = {};  // that is told of the end
  std::string payload = {};
  std::string content = {};  // of the outputs, which lie there
  InvocationId id = {};
  Instant begin{};

  // The bytes of all inputs in the model's order, of each those of all requests, which need not
  // keep them then.
  void join() {
    for (const TensorSpec& spec : requests.front()->model.inputs) {
      for (const auto& each : requests) {
        for (const Tensor& tensor : each->request.inputs) {
          if (tensor.name == spec.name) payload += tensor.content;
        }
      }
    }
    for (const auto& each : requests) {
      each->request.inputs.clear();
      each->http.body = {};
    }
  }

  // Gives each request its outputs, or the error.
  void split() {
    const Pending& first = *requests.front();
    auto outputs = outputs_of(first.model, first.request, elements, content);
    if (outputs.ok() && requests.size() == 1) {
      requests.front()->outputs = std::move(outputs);
      return;
    }
    std::vector<uint64_t> parts;
    for (const auto& each : requests) parts.push_back(each->elements);
    auto split = outputs.ok() ? inference::split_outputs(*outputs, parts)
                              : Result<std::vector<std::vector<Tensor>>>(outputs.error());
    for (size_t i = 0; i < requests.size(); ++i) {
      if (split.ok()) {
        requests[i]->outputs = std::move((*split)[i]);
      } else {
        requests[i]->outputs = split.error();
      }
    }
  }
};

void KernelModelFrontend::handle(http::RelayCall call, const FunctionSpec& spec) {
  auto pending = std::make_shared<Pending>(std::move(call), spec, decompressed_);
  pending->http = std::exchange(pending->call.head, {});
  pending->begin = uses_.loop.clock().now();
  const auto route = inference::route_of(pending->identity(), http::path_of(pending->http.target));
  const auto send = [pending](http::Response response) {
    pending->call.responder.send(std::move(response));
  };
  if (!route.ok()) return send(inference_error(route.error()));
  if (auto refusal = inference::refusal_of_method(*route, pending->http.method)) {
    return send(*std::move(refusal));
  }
  if (*route == Route::kInfer) return infer(std::move(pending));
  uses_.relays.describe(
      spec, [this, pending, send, route = *route](Result<ModelDescription> model) {
        if (!model.ok()) return send(inference_error(model.error()));
        const inference::ModelIdentity identity = pending->identity();
        switch (route) {
          case Route::kMetadata:
            return send(inference::json_response(metadata_json(identity, *model)));
          case Route::kConfig:
            return send(inference::json_response(configuration_json(identity, *model)));
          case Route::kReady:
            return send(
                inference::json_response(Json{{"name", identity.name}, {"ready", true}}.dump()));
          case Route::kStats:
            return send(inference::json_response(statistics_of(pending->spec.name, identity)));
          case Route::kLoad:
            return send(inference::json_response("{}"));
          default:  // of the whole server, which the worker answers
            return send(inference_error(
                404, "there is nothing at " + std::string(http::path_of(pending->http.target))));
        }
      });
}

void KernelModelFrontend::infer(std::shared_ptr<Pending> pending) {
  const auto describe = [this, pending] {
    uses_.relays.describe(pending->spec, [this, pending](Result<ModelDescription> model) {
      if (!model.ok()) return finish(*pending, false, inference_error(model.error()));
      pending->model = std::move(model).value();
      read(pending);
    });
  };
  // What is wrong with it is told once the body is there.
  const auto most = most_of_body(pending->http);
  if (pending->call.is_signed || !pending->call.has_body) return describe();
  http::Responder responder = std::move(pending->call.responder);
  http::Request head = std::exchange(pending->http, {});
  if (pending->call.has_body && !head.headers.contains("Content-Length")) {
    head.headers.add("Transfer-Encoding", "chunked");
  }
  uses_.bodies.collect(
      std::move(head), std::move(responder),
      [](const Error& error) {
        http::Response response = inference_error(error);
        if (error.code == ErrorCode::kOutOfRange) response.status = 413;
        return response;
      },
      [pending, describe](http::Request request, http::Responder answering) {
        pending->http = std::move(request);
        pending->call.responder = std::move(answering);
        describe();
      },
      {.most = most.ok() ? *most : limits::kTensorPayload, .tenant = pending->spec.name.tenant});
}

std::shared_ptr<BatchQueue> KernelModelFrontend::queue_for(const Pending& pending) {
  const bool can_wait = pending.model.batches && pending.model.most_elements > 1;
  const bool is_served = served_.contains(pending.spec.name) || served_.size() < kMostServed;
  if (!can_wait || !is_served) return nullptr;
  Served& served = served_[pending.spec.name];
  if (served.queue != nullptr && served.code_sha256 == pending.spec.code_sha256) {
    return served.queue;
  }
  if (served.queue != nullptr) served.former.push_back(std::move(served.queue));
  std::erase_if(served.former, [](const auto& queue) { return queue->is_idle(); });
  served.code_sha256 = pending.spec.code_sha256;
  served.queue = make_queue(pending.model);
  return served.queue;
}

std::shared_ptr<BatchQueue> KernelModelFrontend::make_queue(const ModelDescription& model) {
  // Who waits for a run keeps the queue, which so cannot keep itself.
  auto self = std::make_shared<std::weak_ptr<BatchQueue>>();
  auto queue = std::make_shared<BatchQueue>(
      uses_.loop,
      batching::BatchLimits{.most_elements = most_elements_together(model),
                            .most_wait = model.batches->most_wait,
                            .slo = model.batches->slo},
      [this, self](BatchQueue::Batch batch) {
        auto execution = std::make_shared<Execution>();
        execution->queue = self->lock();
        for (auto& run : batch) {
          execution->requests.push_back(std::static_pointer_cast<Pending>(std::move(run)));
        }
        execute(std::move(execution));
        return true;
      });
  *self = queue;
  return queue;
}

void KernelModelFrontend::read(const std::shared_ptr<Pending>& pending) {
  const auto lease = lease_of(pending->http.body.size());
  if (!lease) return finish(*pending, false, inference_error(overloaded()));
  pending->lease = *lease;
  auto outcome = std::make_shared<Result<void>>();
  const bool began = compute(
      uses_.offload, pending->http.body.size(), [pending, outcome] { *outcome = pending->read(); },
      [this, pending, outcome] {
        if (!outcome->ok()) return finish(*pending, false, inference_error(outcome->error()));
        pending->call.responder.on_disconnect([this, pending] {
          pending->is_gone = true;
          if (pending->execution == nullptr) return;
          const auto& all = pending->execution->requests;
          if (std::ranges::all_of(all, [](const auto& each) { return each->is_gone; })) {
            uses_.relays.forget(pending->execution->id);
          }
        });
        if (const auto queue = queue_for(*pending)) {
          if (queue->submit(pending)) return;
          return finish(*pending, false, inference_error(overloaded()));
        }
        pending->queued = uses_.loop.clock().now();
        auto execution = std::make_shared<Execution>();
        execution->requests = {pending};
        execute(std::move(execution));
      });
  if (!began) finish(*pending, false, inference_error(overloaded()));
}

void KernelModelFrontend::execute(std::shared_ptr<Execution> execution) {
  execution->begin = uses_.loop.clock().now();
  for (const auto& each : execution->requests) {
    each->execution = execution;
    each->started = execution->begin;
    execution->elements += each->elements;
    execution->bytes += each->http.body.size();
  }
  const bool began = compute(
      uses_.offload, execution->bytes, [execution] { execution->join(); },
      [this, execution] {
        for (const auto& each : execution->requests) each->lease = {};
        const bool none_waits = std::ranges::all_of(execution->requests,
                                                    [](const auto& each) { return each->is_gone; });
        if (!none_waits) return invoke(execution);
        answer(execution, Error{ErrorCode::kCancelled, "the clients are gone"});
      });
  if (!began) answer(execution, overloaded());
}

void KernelModelFrontend::invoke(const std::shared_ptr<Execution>& execution) {
  const Pending& first = *execution->requests.front();
  InvocationRequest request;
  request.id = execution->id = new_invocation_id(uses_.random);
  request.function = first.spec.name;
  request.trace_id = http::trace_id_of(first.http.headers);
  request.content_type = kTensorContentType;
  request.payload = std::move(execution->payload);
  for (const auto& each : execution->requests) each->id = request.id;
  uses_.relays.invoke(
      {.request = std::move(request),
       .sink = nullptr,
       .done = [this,
                execution](Result<InvocationResult> ended) { answer(execution, std::move(ended)); },
       // Runs of workflows call the function, too.
       .elements = execution->queue != nullptr ? execution->elements : 0,
       .since = first.queued});
}

void KernelModelFrontend::answer(const std::shared_ptr<Execution>& execution,
                                 Result<InvocationResult> ended) {
  const Instant now = uses_.loop.clock().now();
  // Where it waited for others there was too much to do, which smaller batches make no better.
  const Duration waited = ended.ok() ? ended->phases.queue : Duration(0);
  const BatchQueue::Ended run{.elements = execution->elements,
                              .inferences = execution->requests.size(),
                              .time = now - execution->begin - waited};
  for (const auto& each : execution->requests) {
    each->computed = now;
    each->execution = nullptr;
    // It was made together with calls of others.
    if (ended.ok() && ended->id != InvocationId{}) each->id = ended->id;
  }
  if (!ended.ok() || ended->outcome != Outcome::kSucceeded) {
    for (const auto& each : execution->requests) finish(*each, false, each->call.answer_of(ended));
    // Later: what is refused at once may be the next one, too.
    if (execution->queue == nullptr) return;
    uses_.loop.call_at(now, [queue = execution->queue, run] { queue->ended(run); });
    return;
  }
  if (const auto served = served_.find(execution->requests.front()->spec.name);
      served != served_.end()) {
    ++served->second.runs.executions;
    if (execution->queue != nullptr) served->second.runs.add_batch(run.elements, run.time);
  }
  execution->content = std::move(ended->payload);
  // The model goes on while answers are written.
  if (execution->queue != nullptr) execution->queue->ended(run);
  const bool began = compute(
      uses_.offload, execution->content.size(), [execution] { execution->split(); },
      [this, execution] {
        for (const auto& each : execution->requests) respond(execution, each);
      });
  if (began) return;
  for (const auto& each : execution->requests) finish(*each, false, inference_error(overloaded()));
}

// The outputs may lie in what the execution has.
void KernelModelFrontend::respond(const std::shared_ptr<Execution>& execution,
                                  const std::shared_ptr<Pending>& pending) {
  auto response = std::make_shared<Result<http::Response>>(http::Response());
  size_t bytes = 0;
  if (pending->outputs.ok()) {
    for (const Tensor& output : *pending->outputs) bytes += output.content.size();
  }
  const auto lease = lease_of(bytes);
  if (!lease) return finish(*pending, false, inference_error(overloaded()));
  // The completion takes it out: the thread that worked may keep the task for longer.
  const auto leased = std::make_shared<Lease>(*lease);
  const bool began = compute(
      uses_.offload, bytes,
      [execution, pending, response] { *response = pending->make_response(); },
      [this, pending, response, leased] {
        const bool good = response->ok();
        Lease its = std::exchange(*leased, nullptr);
        if (good) (*response)->lease = std::move(its);
        finish(*pending, good, good ? **std::move(response) : inference_error(response->error()));
      });
  if (!began) finish(*pending, false, inference_error(overloaded()));
}

std::optional<KernelModelFrontend::Lease> KernelModelFrontend::lease_of(size_t bytes) const {
  if (bytes <= limits::kEventBody.count) return Lease();
  if (*under_way_ + bytes > most_under_way_.count) return std::nullopt;
  *under_way_ += bytes;
  return Lease(under_way_.get(), [all = under_way_, bytes](const void*) { *all -= bytes; });
}

void KernelModelFrontend::finish(Pending& pending, bool succeeded, http::Response response) {
  const FunctionName& name = pending.spec.name;
  if (served_.contains(name) || served_.size() < kMostServed) {
    inference::InferStatistics& statistics = served_[name].statistics;
    const Instant now = uses_.loop.clock().now();
    if (succeeded) {
      statistics.success.add(now - pending.begin);
      statistics.input.add(pending.queued - pending.begin);
      statistics.queue.add(pending.started - pending.queued);
      statistics.infer.add(pending.computed - pending.started);
      statistics.output.add(now - pending.computed);
      statistics.inferences += pending.elements;
      statistics.last = uses_.loop.clock().wall_now();
    } else {
      statistics.fail.add(now - pending.begin);
    }
  }
  // What it took is free before a slow client has read the answer.
  pending.http.body = {};
  pending.request = {};
  pending.part = {};
  pending.lease = {};
  // The responder's callbacks hold this.
  http::Responder over = std::move(pending.call.responder);
  if (pending.is_gone) return;
  over.on_disconnect(nullptr);
  for (const auto& [header, value] : pending.call.answer_headers.fields()) {
    response.headers.set(header, value);
  }
  if (pending.id != InvocationId{}) {
    response.headers.set("X-Lambent-Invocation-Id", to_string(pending.id));
  }
  over.send(std::move(response));
}

std::string KernelModelFrontend::statistics_of(const FunctionName& function,
                                               const inference::ModelIdentity& identity) const {
  const auto found = served_.find(function);
  if (found == served_.end()) return inference::statistics_json(identity, {}, {});
  return inference::statistics_json(identity, found->second.statistics, found->second.runs);
}

}  // namespace lambent::frontend
