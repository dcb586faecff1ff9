#include "edge/inference/model_service.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "edge/inference/compression.h"
#include "edge/inference/infer_request.h"

namespace lambent::inference {
namespace {

using Json = nlohmann::ordered_json;

// The decoded parts of a path between its slashes; empty if one cannot be decoded.
std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  if (path.starts_with('/')) path.remove_prefix(1);
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    std::string part;
    if (!http::percent_decode(path.substr(0, end), part)) return {};
    parts.push_back(std::move(part));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

std::string_view without_qualifier(std::string_view name) { return name.substr(0, name.find(':')); }

std::string list_of(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

Json json_of(const InferStatistics::Sum& sum) {
  return {{"count", sum.count}, {"ns", sum.time.count()}};
}

enum class Route {
  kServer,
  kLive,
  kServerReady,
  kMetadata,
  kReady,
  kConfig,
  kStats,
  kInfer,
  kLoad
};

// v2, v2/health/X, v2/models/stats, v2/models/NAME[/versions/V][/X],
// v2/repository/models/NAME/load. NOT_FOUND for other paths, models and versions.
Result<Route> route_of(const ModelIdentity& model, std::string_view path) {
  using Parts = std::vector<std::string>;
  const Error nothing{ErrorCode::kNotFound, "there is nothing at " + std::string(path)};
  Parts parts = parts_of(path);
  if (parts.empty() || parts.front() != "v2") return nothing;
  parts.erase(parts.begin());
  if (parts.empty()) return Route::kServer;
  if (parts == Parts{"health", "live"}) return Route::kLive;
  if (parts == Parts{"health", "ready"}) return Route::kServerReady;
  if (parts == Parts{"models", "stats"}) return Route::kStats;
  const bool repository = parts.front() == "repository";
  if (repository) parts.erase(parts.begin());
  if (parts.size() < 2 || parts.front() != "models") return nothing;
  // An alias or a version may be named behind it, as of any function.
  if (without_qualifier(parts[1]) != model.name) {
    return Error{ErrorCode::kNotFound, "unknown model '" + parts[1] + "'; this is " + model.name};
  }
  parts.erase(parts.begin(), parts.begin() + 2);
  if (repository) {
    if (parts == Parts{"load"}) return Route::kLoad;
    return nothing;
  }
  if (parts.size() >= 2 && parts.front() == "versions") {
    if (parts[1] != model.version) {
      const std::string others = model.versions.empty() ? model.version : list_of(model.versions);
      return Error{ErrorCode::kNotFound,
                   "model '" + model.name + "' has no version " + parts[1] + "; it has " + others};
    }
    parts.erase(parts.begin(), parts.begin() + 2);
  }
  if (parts.empty()) return Route::kMetadata;
  if (parts == Parts{"ready"}) return Route::kReady;
  if (parts == Parts{"config"}) return Route::kConfig;
  if (parts == Parts{"stats"}) return Route::kStats;
  if (parts == Parts{"infer"}) return Route::kInfer;
  return nothing;
}

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
  QueuedRun run;
  uint64_t batch = 1;
};

ModelService::ModelService(ModelEngine& engine, loop::EventLoop& loop, ModelServiceOptions options)
    : loop_(loop),
      options_(std::move(options)),
      description_(engine.description()),
      runs_(engine, loop, options_.batches) {}

void ModelService::handle(http::Request request, http::Responder responder) {
  const ModelIdentity model = identity_for(request);
  const auto route = route_of(model, http::path_of(request.target));
  if (!route.ok()) return responder.send(error_response(route.error()));
  if (*route == Route::kInfer || *route == Route::kLoad) {
    if (request.method != "POST") return responder.send(error_response(405, "this takes POST"));
  } else if (request.method != "GET" && request.method != "HEAD") {
    return responder.send(error_response(405, "this takes GET; POST goes to .../infer"));
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
      return responder.send(json_response(statistics_json(model)));
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
  http::Request& request = inference.request;
  const std::string_view coding = request.headers.get("Content-Encoding");
  if (!coding.empty()) {
    ASSIGN_OR_RETURN(request.body, decompress(request.body, coding, kMostBody));
  }
  ASSIGN_OR_RETURN(const auto length,
                   parse_json_length(request.headers.get("Inference-Header-Content-Length")));
  InferRequest& infer = inference.run.request;
  ASSIGN_OR_RETURN(infer, parse_infer_request(request.body, length, description_));
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

std::string ModelService::statistics_json(const ModelIdentity& identity) const {
  const InferStatistics& sums = statistics_;
  const InferStatistics::Sum none;
  Json batches = Json::array();
  for (const auto& [size, runs] : runs_.batches()) {
    batches.push_back({{"batch_size", size},
                       {"compute_infer", {{"count", runs.count}, {"ns", runs.time.count()}}}});
  }
  const Json model = {
      {"name", identity.name},
      {"version", identity.version},
      {"last_inference", std::chrono::duration_cast<milliseconds>(sums.last).count()},
      {"inference_count", sums.inferences},
      {"execution_count", runs_.executions()},
      {"inference_stats",
       {{"success", json_of(sums.success)},
        {"fail", json_of(sums.fail)},
        {"queue", json_of(sums.queue)},
        {"compute_input", json_of(sums.input)},
        {"compute_infer", json_of(sums.infer)},
        {"compute_output", json_of(sums.output)},
        {"cache_hit", json_of(none)},
        {"cache_miss", json_of(none)}}},
      {"batch_stats", std::move(batches)}};
  return Json{{"model_stats", Json::array({model})}}.dump(-1, ' ', false,
                                                          Json::error_handler_t::replace);
}

}  // namespace lambent::inference
