// OpenaiFrontend: OpenAI's API in front of HTTP functions that speak it: finds the function that
// serves the model which a request names, and lists the models. On the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/http/server.h"
#include "edge/frontend/body_collector.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/function_frontend.h"
#include "edge/frontend/model_directory.h"

namespace lambent::frontend {

class OpenaiFrontend {
 public:
  // All outlive it.
  struct Dependencies {
    const InvocationService& service;
    FunctionFrontend& functions;
    BodyCollector& bodies;
    const Clock& clock;
    std::function<std::string(TenantId)> tenant_name;
  };
  explicit OpenaiFrontend(Dependencies dependencies)
      : uses_(std::move(dependencies)), models_(uses_.service, uses_.clock) {}

  // Answers it here. `is_whole`: its body is there already; else it may stream. Of a path with
  // is_openai_path().
  void handle(const Caller& caller, http::Request request, http::Responder responder,
              bool is_whole);
  // Of a path with is_for_openai_model(): gives the request, whole as it was, to `then` with the
  // model that it names. One that names none is answered.
  using Named = std::function<void(const std::string& model, http::Request, http::Responder)>;
  void find_model(TenantId tenant, http::Request request, http::Responder responder, bool is_whole,
                  const Named& then);
  // Nothing: this node knows none that serves it.
  std::optional<std::string> function_for(TenantId tenant, const std::string& model) {
    return models_.function_for(tenant, model);
  }

 private:
  http::Response answer_about_models(const Caller& caller, const http::Request& request) const;
  void pass_on(const Caller& caller, std::string function, http::Request request,
               http::Responder responder);

  const Dependencies uses_;
  ModelDirectory models_;
};

}  // namespace lambent::frontend
