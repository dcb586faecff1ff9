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

constexpr std::string_view kRepository = "/v2/repository/models/";

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

Json json_of(const InferStatistics::Sum& sum) {
  return {{"count", sum.count}, {"ns", sum.time.count()}};
}

http::Response not_found(const std::string& message) { return error_response(404, message); }

// The first dimension, where all tensors have an open one.
uint64_t batch_of(const ModelDescription& model, const std::vector<Tensor>& inputs) {
  for (const TensorSpec& spec : model.inputs) {
    if (spec.shape.empty() || spec.shape.front() >= 0) return 1;
  }
  if (inputs.empty() || inputs.front().shape.empty()) return 1;
  return static_cast<uint64_t>(inputs.front().shape.front());
}

}  // namespace

ModelService::ModelService(ModelEngine& engine, loop::EventLoop& loop, ModelServiceOptions options)
    : loop_(loop),
      options_(std::move(options)),
      description_(engine.description()),
      thread_(engine, loop) {}

void ModelService::handle(http::Request request, http::Responder responder) {
  const std::string path(http::path_of(request.target));
  if (request.method == "POST" && path.ends_with("/infer")) {
    return infer(std::move(request), std::move(responder));
  }
  // It is loaded, or it would not answer.
  if (request.method == "POST" && path.starts_with(kRepository) && path.ends_with("/load")) {
    return responder.send(json_response("{}"));
  }
  responder.send(answer_to(request.method, path));
}

// v2, v2/health/X, v2/models/stats, v2/models/NAME[/versions/V][/X]
http::Response ModelService::answer_to(const std::string& method, std::string_view path) const {
  std::vector<std::string> parts = parts_of(path);
  if (method != "GET" && method != "HEAD") {
    return error_response(405, "the model takes GET, and POST at .../infer");
  }
  if (parts == std::vector<std::string>{"v2"}) {
    return json_response(Json{
        {"name", "lambent"},
        {"version", options_.version},
        {"extensions", Json::array({"binary_tensor_data", "statistics", "model_configuration"})}}
                             .dump());
  }
  if (parts.size() == 3 && parts[0] == "v2" && parts[1] == "health" &&
      (parts[2] == "live" || parts[2] == "ready")) {
    return json_response(Json{{parts[2], true}}.dump());
  }
  if (parts.size() < 3 || parts[0] != "v2" || parts[1] != "models") {
    return not_found("there is nothing at " + std::string(path));
  }
  if (parts.size() == 3 && parts[2] == "stats") return json_response(statistics_json());
  // An alias or a version may be named behind it, as of any function.
  if (without_qualifier(parts[2]) != without_qualifier(options_.model.name)) {
    return not_found("unknown model '" + parts[2] + "'; this is " + options_.model.name);
  }
  parts.erase(parts.begin(), parts.begin() + 3);
  if (parts.size() >= 2 && parts[0] == "versions") {
    if (parts[1] != options_.model.version) {
      return not_found("model '" + options_.model.name + "' has no version " + parts[1]);
    }
    parts.erase(parts.begin(), parts.begin() + 2);
  }
  if (parts.empty()) return json_response(metadata_json(options_.model, description_));
  if (parts.size() == 1 && parts[0] == "ready") {
    return json_response(Json{{"name", options_.model.name}, {"ready", true}}.dump());
  }
  if (parts.size() == 1 && parts[0] == "config") {
    return json_response(configuration_json(options_.model, description_));
  }
  if (parts.size() == 1 && parts[0] == "stats") return json_response(statistics_json());
  return not_found("there is nothing at " + std::string(path));
}

void ModelService::infer(http::Request request, http::Responder responder) {
  const Instant begin = loop_.clock().now();
  const auto refuse = [&](const http::Response& response) {
    statistics_.fail.add(loop_.clock().now() - begin);
    responder.send(response);
  };
  std::string path(http::path_of(request.target));
  path.resize(path.size() - std::string_view("/infer").size());
  const http::Response found = answer_to("GET", path + "/ready");
  if (found.status != 200) return refuse(found);
  // What the answer needs: the tensors point into the body.
  struct Asked {
    http::Request request;
    InferRequest infer;
    http::Responder responder;
  };
  const std::string_view coding = request.headers.get("Content-Encoding");
  if (!coding.empty()) {
    auto plain = decompress(request.body, coding, options_.most_body);
    if (!plain.ok()) return refuse(error_response(plain.error()));
    request.body = *std::move(plain);
  }
  auto asked =
      std::make_shared<Asked>(Asked{std::move(request), InferRequest{}, std::move(responder)});
  const auto refuse_asked = [&](const Error& error) {
    statistics_.fail.add(loop_.clock().now() - begin);
    asked->responder.send(error_response(error));
  };
  const auto length =
      parse_json_length(asked->request.headers.get("Inference-Header-Content-Length"));
  if (!length.ok()) return refuse_asked(length.error());
  auto parsed = parse_infer_request(asked->request.body, *length, description_);
  if (!parsed.ok()) return refuse_asked(parsed.error());
  asked->infer = *std::move(parsed);
  const uint64_t batch = batch_of(description_, asked->infer.inputs);
  EngineThread::Work work;
  work.inputs = std::move(asked->infer.inputs);
  for (const RequestedOutput& output : asked->infer.outputs) work.outputs.push_back(output.name);
  statistics_.input.add(loop_.clock().now() - begin);
  work.done = [this, asked, begin, batch](EngineRun run) {
    const Instant computed = loop_.clock().now();
    Result<http::Response> response =
        run.outputs.ok() ? infer_response(options_.model, asked->infer, *run.outputs)
                         : Result<http::Response>(run.outputs.error());
    if (response.ok()) {
      compress(*response, asked->request.headers.get("Accept-Encoding"));
    } else {
      response = error_response(response.error());
    }
    const Instant end = loop_.clock().now();
    statistics_.queue.add(run.queued);
    if (response->status == 200) {
      statistics_.success.add(end - begin);
      statistics_.infer.add(run.compute);
      statistics_.output.add(end - computed);
      statistics_.inferences += batch;
      ++statistics_.executions;
      statistics_.last = loop_.clock().wall_now();
    } else {
      statistics_.fail.add(end - begin);
    }
    asked->responder.send(*std::move(response));
  };
  thread_.run(std::move(work));
}

std::string ModelService::statistics_json() const {
  const InferStatistics& sums = statistics_;
  const InferStatistics::Sum none;
  const Json model = {
      {"name", options_.model.name},
      {"version", options_.model.version},
      {"last_inference", std::chrono::duration_cast<milliseconds>(sums.last).count()},
      {"inference_count", sums.inferences},
      {"execution_count", sums.executions},
      {"inference_stats",
       {{"success", json_of(sums.success)},
        {"fail", json_of(sums.fail)},
        {"queue", json_of(sums.queue)},
        {"compute_input", json_of(sums.input)},
        {"compute_infer", json_of(sums.infer)},
        {"compute_output", json_of(sums.output)},
        {"cache_hit", json_of(none)},
        {"cache_miss", json_of(none)}}},
      {"batch_stats", Json::array()}};
  return Json{{"model_stats", Json::array({model})}}.dump(-1, ' ', false,
                                                          Json::error_handler_t::replace);
}

}  // namespace lambent::inference
