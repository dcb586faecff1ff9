#include "edge/frontend/openai_frontend.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/openai_call.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

http::Response wrong_method(const std::string& allowed) {
  http::Response response = openai_error(405, "this path takes " + allowed);
  response.headers.add("Allow", allowed);
  return response;
}

json json_of(const ServedModel& model, const std::string& owner) {
  return {{"id", model.model},
          {"object", "model"},
          {"created", std::chrono::duration_cast<seconds>(model.since).count()},
          {"owned_by", owner}};
}

}  // namespace

void OpenaiFrontend::handle(const Caller& caller, http::Request request, http::Responder responder,
                            bool is_whole) {
  const std::string_view path = http::path_of(request.target);
  if (!is_for_openai_model(path)) return responder.send(answer_about_models(caller, request));
  if (std::string function(request.headers.get(kServingFunction)); !function.empty()) {
    return pass_on(caller, std::move(function), std::move(request), std::move(responder));
  }
  find_model(
      caller.tenant, std::move(request), std::move(responder), is_whole,
      [this, caller](const std::string& model, http::Request its, http::Responder answering) {
        auto function = models_.function_for(caller.tenant, model);
        if (!function) return answering.send(no_such_openai_model(model));
        pass_on(caller, *std::move(function), std::move(its), std::move(answering));
      });
}

void OpenaiFrontend::find_model(TenantId tenant, http::Request request, http::Responder responder,
                                bool is_whole, const Named& then) {
  if (http::path_of(request.target) == kOpenaiRealtime) {
    if (request.method != "GET") return responder.send(wrong_method("GET"));
    const std::string model = http::query_value(http::query_of(request.target), "model");
    if (model.empty()) {
      return responder.send(openai_error(400, "the query names no model: ?model=NAME"));
    }
    return then(model, std::move(request), std::move(responder));
  }
  if (request.method != "POST") return responder.send(wrong_method("POST"));
  // Shared because a std::function is copied.
  const auto finder =
      std::make_shared<OpenaiModelFinder>(std::string(request.headers.get("Content-Type")));
  const auto look = [then, finder](std::string_view beginning, bool is_all) -> BodyCollector::Then {
    auto model = finder->look(beginning, is_all);
    if (!model.ok()) {
      return [error = model.error()](const http::Request&, http::Responder refused) {
        refused.send(openai_error(error));
      };
    }
    if (!*model) return nullptr;
    return [then, name = **std::move(model)](http::Request its, http::Responder answering) {
      then(name, std::move(its), std::move(answering));
    };
  };
  if (is_whole) return look(request.body, true)(std::move(request), std::move(responder));
  uses_.bodies.read_beginning(
      tenant, std::move(request), std::move(responder),
      [](const Error& error) { return openai_error(error); }, look);
}

http::Response OpenaiFrontend::answer_about_models(const Caller& caller,
                                                   const http::Request& request) const {
  if (request.method != "GET" && request.method != "HEAD") return wrong_method("GET");
  const std::string owner = uses_.tenant_name(caller.tenant);
  const std::string_view path = http::path_of(request.target);
  const auto models = models_.list(caller.tenant);
  if (path == kOpenaiModels || path.size() == kOpenaiModels.size() + 1) {
    json list = json::array();
    for (const ServedModel& model : models) list.push_back(json_of(model, owner));
    return json_response(200, {{"object", "list"}, {"data", std::move(list)}});
  }
  // Names may have slashes, as they are or encoded.
  std::string name;
  if (!http::percent_decode(path.substr(kOpenaiModels.size() + 1), name)) {
    return openai_error(400, "the model's name in the path cannot be decoded");
  }
  for (const ServedModel& model : models) {
    if (model.model == name) return json_response(200, json_of(model, owner));
  }
  return no_such_openai_model(name);
}

void OpenaiFrontend::pass_on(const Caller& caller, std::string function, http::Request request,
                             http::Responder responder) {
  if (!request.body.empty()) {
    request.headers.set("Content-Length", std::to_string(request.body.size()));
  }
  FunctionTarget target{.name = std::move(function),
                        .target = request.target,
                        .prefix = "",
                        .protocol = Protocol::kOpenai};
  uses_.functions.handle(caller, target, std::move(request), std::move(responder));
}

}  // namespace lambent::frontend
