#include "edge/inference/model_service.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "edge/inference/model_route.h"

namespace lambent::inference {
namespace {

using Json = nlohmann::ordered_json;

// The first dimension, where all tensors have an open one.
uint64_t batch_of(const ModelDescription& model, const std::vector<Tensor>& inputs) {
  for (const TensorSpec& spec : model.inputs) {
    if (spec.shape.empty() || spec.shape.front() >= 0) return 1;
  }
  if (inputs.empty() || inputs.front().shape.empty()) return 1;
  return static_cast<uint64_t>(inputs.front().shape.front());
}

}  // namespace

// One request, from its arrival to its answer. On the loop thread, but for its run while the model
// has it.
struct ModelService::Inference {
  http::Request request;
  http::Responder responder;
  Instant begin{};
  DecompressedBodies::Part decompressed = {};
  QueuedRun run;
  uint64_t batch = 1;
};

ModelService::ModelService(ModelEngine& engine, loop::EventLoop& loop, ModelServiceOptions options)
    : loop_(loop),
      options_(std::move(options)),
      description_(engine.description()),
      decompressed_(options_.most_decompressed),
      runs_(engine, loop, options_.batches) {}

void ModelService::handle(http::Request request, http::Responder responder) {
  const ModelIdentity model = identity_for(request);
  const auto route = route_of(model, http::path_of(request.target));
  if (!route.ok()) return responder.send(error_response(route.error()));
  if (auto refusal = refusal_of_method(*route, request.method)) {
    return responder.send(*std::move(refusal));
  }
  switch (*route) {
    case Route::kServer:
      return responder.send(json_response(Json{
          {"name", "lambent"},
          {"version", options_.version},
          {"extensions", Json::array({"binary_tensor_data", "statistics", "model_configuration"})}}
                                              .dump()));
    case Route::kLive:
      return responder.send(json_response(R"({"live":true})"));
    case Route::kServerReady:
      return responder.send(json_response(R"({"ready":true})"));
    case Route::kMetadata:
      return responder.send(json_response(metadata_json(model, description_)));
    case Route::kReady:
      return responder.send(json_response(Json{{"name", model.name}, {"ready", true}}.dump()));
    case Route::kConfig:
      return responder.send(json_response(configuration_json(model, description_)));
    case Route::kStats:
      return responder.send(json_response(statistics_json(model, statistics_, runs_.counts())));
    case Route::kLoad:  // It is loaded, or it would not answer.
      return responder.send(json_response("{}"));
    case Route::kInfer:
      return infer(std::move(request), std::move(responder));
  }
}

void ModelService::infer(http::Request request, http::Responder responder) {
  // Shared with the run, which is part of it.
  auto inference = std::make_shared<Inference>(Inference{.request = std::move(request),
                                                         .responder = std::move(responder),
                                                         .begin = loop_.clock().now()});
  const auto read = this->read(*inference);
  if (!read.ok()) return refuse(*inference, read.error());
  inference->run.done = [this, its = inference.get()] { finish(*its); };
  if (!runs_.submit(std::shared_ptr<QueuedRun>(inference, &inference->run))) {
    refuse(*inference, Error{ErrorCode::kResourceExhausted,
                             "model '" + options_.function + "' has too many requests waiting"});
  }
}

Result<void> ModelService::read(Inference& inference) const {
  InferRequest& infer = inference.run.request;
  ASSIGN_OR_RETURN(infer, read_infer_request(inference.request, description_, decompressed_.most(),
                                             decompressed_, inference.decompressed));
  inference.batch = batch_of(description_, infer.inputs);
  return {};
}

void ModelService::finish(Inference& inference) {
  const QueuedRun& run = inference.run;
  if (!run.outputs.ok()) return refuse(inference, run.outputs.error());
  Result<http::Response> response =
      infer_response(identity_for(inference.request), run.request, *run.outputs);
  if (!response.ok()) return refuse(inference, response.error());
  compress(*response, inference.request.headers.get("Accept-Encoding"));
  const Instant end = loop_.clock().now();
  statistics_.success.add(end - inference.begin);
  statistics_.input.add(run.queued - inference.begin);
  statistics_.queue.add(run.started - run.queued);
  statistics_.infer.add(run.computed - run.started);
  statistics_.output.add(end - run.computed);
  statistics_.inferences += inference.batch;
  statistics_.last = loop_.clock().wall_now();
  inference.responder.send(*std::move(response));
}

void ModelService::refuse(Inference& inference, const Error& error) {
  statistics_.fail.add(loop_.clock().now() - inference.begin);
  inference.responder.send(error_response(error));
}

ModelIdentity ModelService::identity_for(const http::Request& request) const {
  return model_identity(options_.function, request.headers.get(kModelVersionsHeader));
}

}  // namespace lambent::inference
