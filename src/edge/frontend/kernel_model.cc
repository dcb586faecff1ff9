#include "edge/frontend/kernel_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "core/domain/version.h"
#include "edge/frontend/function_target.h"
#include "edge/frontend/inference_frontend.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/trace_context.h"
#include "edge/inference/compression.h"
#include "edge/inference/infer_request.h"
#include "edge/inference/infer_response.h"

namespace lambent::frontend {
namespace {

using Json = nlohmann::ordered_json;

// Functions that are counted; of more, none is.
constexpr size_t kMostCounted = 10'000;

// What follows the model's name and version: "", "/ready", "/infer". NOT_FOUND for a version that
// there is not.
Result<std::string> verb_of(std::string_view target, const inference::ModelIdentity& model) {
  std::string_view path = http::path_of(target);
  if (!path.starts_with(kModels)) return std::string("/load");  // of the repository
  path.remove_prefix(kModels.size());
  path.remove_prefix(std::min(path.find('/'), path.size()));
  if (path.starts_with(kModelVersions)) {
    path.remove_prefix(kModelVersions.size());
    const std::string_view version = path.substr(0, path.find('/'));
    if (version != model.version) {
      return Error{ErrorCode::kNotFound, "model '" + model.name + "' has no version " +
                                             std::string(version) + "; this is " + model.version};
    }
    path.remove_prefix(version.size());
  }
  return std::string(path);
}

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

// The bytes of all inputs in the model's order.
std::string payload_of(const ModelDescription& model, const inference::InferRequest& request) {
  std::string payload;
  for (const TensorSpec& spec : model.inputs) {
    for (const Tensor& tensor : request.inputs) {
      if (tensor.name == spec.name) payload += tensor.content;
    }
  }
  return payload;
}

// Those outputs that were asked for, in that order, of the bytes of all.
Result<std::vector<Tensor>> outputs_of(const ModelDescription& model,
                                       const inference::InferRequest& request,
                                       std::string_view payload) {
  std::map<std::string_view, Tensor> all;
  for (const TensorSpec& spec : model.outputs) {
    const uint64_t bytes = element_count(spec.shape).value_or(0) * size_of(spec.type).count;
    if (payload.size() < bytes) {
      return Error{ErrorCode::kInternal, "the answer of the kernels is too short"};
    }
    Tensor tensor;
    tensor.name = spec.name;
    tensor.type = spec.type;
    tensor.shape = spec.shape;
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

Json sum_of(uint64_t count, Duration time) { return {{"count", count}, {"ns", time.count()}}; }

}  // namespace

// One request, from its arrival to its answer. Shared because tasks must be copyable.
struct KernelModelFrontend::Pending {
  http::RelayCall call;
  FunctionSpec spec;
  std::string name;  // without a qualifier
  http::Request request;
  ModelDescription model = {};
  inference::InferRequest infer = {};
  std::string payload = {};
  Instant begin{};
  InvocationId id = {};
  bool is_gone = false;

  inference::ModelIdentity identity() const {
    return inference::model_identity(spec.name.name, request.headers.get(kModelVersionsHeader));
  }

  Result<void> read() {
    RETURN_IF_ERROR(check_types(model));
    const std::string_view coding = request.headers.get("Content-Encoding");
    if (!coding.empty()) {
      ASSIGN_OR_RETURN(request.body,
                       inference::decompress(request.body, coding, limits::kEventBody));
    }
    ASSIGN_OR_RETURN(
        const auto length,
        inference::parse_json_length(request.headers.get("Inference-Header-Content-Length")));
    ASSIGN_OR_RETURN(infer, inference::parse_infer_request(request.body, length, model));
    payload = payload_of(model, infer);
    infer.inputs.clear();
    return {};
  }

  Result<http::Response> respond() const {
    ASSIGN_OR_RETURN(const auto outputs, outputs_of(model, infer, payload));
    ASSIGN_OR_RETURN(http::Response response,
                     inference::infer_response(identity(), infer, outputs));
    inference::compress(response, request.headers.get("Accept-Encoding"));
    return response;
  }
};

void KernelModelFrontend::handle(http::RelayCall call, const FunctionSpec& spec) {
  auto pending = std::make_shared<Pending>(Pending{
      .call = std::move(call), .spec = spec, .name = function_of(spec.name).name, .request = {}});
  pending->request = std::exchange(pending->call.head, {});
  pending->begin = uses_.loop.clock().now();
  const auto verb = verb_of(pending->request.target, pending->identity());
  const auto send = [pending](http::Response response) {
    pending->call.responder.send(std::move(response));
  };
  if (!verb.ok()) return send(inference_error(verb.error()));
  const bool is_post = *verb == "/infer" || *verb == "/load";
  const bool is_get = pending->request.method == "GET" || pending->request.method == "HEAD";
  if (is_post ? pending->request.method != "POST" : !is_get) {
    return send(inference_error(405, is_post ? "this takes POST" : "this takes GET"));
  }
  if (*verb == "/infer") return infer(std::move(pending));
  uses_.relays.describe(spec, [this, pending, send, verb = *verb](Result<ModelDescription> model) {
    if (!model.ok()) return send(inference_error(model.error()));
    if (verb.empty())
      return send(inference::json_response(metadata_json(pending->identity(), *model)));
    if (verb == "/config") {
      return send(inference::json_response(configuration_json(pending->identity(), *model)));
    }
    if (verb == "/ready") {
      return send(inference::json_response(Json{{"name", pending->name}, {"ready", true}}.dump()));
    }
    if (verb == "/stats")
      return send(
          inference::json_response(statistics_json(pending->spec.name, pending->identity())));
    if (verb == "/load") return send(inference::json_response("{}"));
    send(inference_error(
        404, "there is nothing at " + std::string(http::path_of(pending->request.target))));
  });
}

void KernelModelFrontend::infer(std::shared_ptr<Pending> pending) {
  const auto describe = [this, pending] {
    uses_.relays.describe(pending->spec, [this, pending](Result<ModelDescription> model) {
      if (!model.ok()) return finish(*pending, false, inference_error(model.error()));
      pending->model = std::move(model).value();
      invoke(pending);
    });
  };
  if (pending->call.is_signed) return describe();
  http::Responder responder = std::move(pending->call.responder);
  http::Request head = std::exchange(pending->request, {});
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
        pending->request = std::move(request);
        pending->call.responder = std::move(answering);
        describe();
      });
}

bool KernelModelFrontend::compute(size_t bytes, std::function<void()> work,
                                  std::function<void()> then) {
  if (bytes > kJsonAtOnce) return uses_.offload(std::move(work), std::move(then));
  work();
  then();
  return true;
}

void KernelModelFrontend::invoke(const std::shared_ptr<Pending>& pending) {
  auto read = std::make_shared<Result<void>>();
  const bool began = compute(
      pending->request.body.size(), [pending, read] { *read = pending->read(); },
      [this, pending, read] {
        if (!read->ok()) return finish(*pending, false, inference_error(read->error()));
        InvocationRequest request;
        request.id = pending->id = new_invocation_id(uses_.random);
        request.function = pending->spec.name;
        request.trace_id = trace_id_of(pending->request.headers);
        request.content_type = "application/octet-stream";
        request.payload = std::move(pending->payload);
        pending->call.responder.on_disconnect([this, pending] {
          pending->is_gone = true;
          uses_.relays.forget(pending->id);
        });
        uses_.relays.invoke({.request = std::move(request),
                             .sink = nullptr,
                             .done = [this, pending](Result<InvocationResult> ended) {
                               answer(pending, std::move(ended));
                             }});
      });
  if (began) return;
  finish(*pending, false,
         inference_error(Error{ErrorCode::kUnavailable, "too much to do at once; try again"}));
}

void KernelModelFrontend::answer(const std::shared_ptr<Pending>& pending,
                                 Result<InvocationResult> ended) {
  if (!ended.ok() || ended->outcome != Outcome::kSucceeded) {
    return finish(*pending, false, pending->call.answer_of(std::move(ended)));
  }
  pending->payload = std::move(ended->payload);
  auto response = std::make_shared<Result<http::Response>>(http::Response());
  const bool began = compute(
      pending->payload.size(), [pending, response] { *response = pending->respond(); },
      [this, pending, response] {
        const bool good = response->ok();
        finish(*pending, good, good ? **std::move(response) : inference_error(response->error()));
      });
  if (began) return;
  finish(*pending, false,
         inference_error(Error{ErrorCode::kUnavailable, "too much to do at once; try again"}));
}

void KernelModelFrontend::finish(Pending& pending, bool succeeded, http::Response response) {
  const FunctionName& name = pending.spec.name;
  if (counts_.contains(name) || counts_.size() < kMostCounted) {
    Counts& counts = counts_[name];
    const Duration took = uses_.loop.clock().now() - pending.begin;
    (succeeded ? counts.success_time : counts.failure_time) += took;
    ++(succeeded ? counts.succeeded : counts.failed);
    if (succeeded) counts.last = uses_.loop.clock().wall_now();
  }
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

std::string KernelModelFrontend::statistics_json(const FunctionName& function,
                                                 const inference::ModelIdentity& identity) const {
  const auto found = counts_.find(function);
  const Counts counts = found == counts_.end() ? Counts() : found->second;
  const Json none = sum_of(0, Duration::zero());
  const Json model = {
      {"name", identity.name},
      {"version", identity.version},
      {"last_inference", std::chrono::duration_cast<milliseconds>(counts.last).count()},
      {"inference_count", counts.succeeded},
      {"execution_count", counts.succeeded},
      {"inference_stats",
       {{"success", sum_of(counts.succeeded, counts.success_time)},
        {"fail", sum_of(counts.failed, counts.failure_time)},
        {"queue", none},
        {"compute_input", none},
        {"compute_infer", sum_of(counts.succeeded, counts.success_time)},
        {"compute_output", none},
        {"cache_hit", none},
        {"cache_miss", none}}},
      {"batch_stats", Json::array()}};
  return Json{{"model_stats", Json::array({model})}}.dump(-1, ' ', false,
                                                          Json::error_handler_t::replace);
}

}  // namespace lambent::frontend
