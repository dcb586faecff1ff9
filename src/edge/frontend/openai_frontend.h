// OpenaiFrontend: OpenAI's API in front of HTTP functions that speak it: finds the function that
// serves the model which a request names, and lists the models. On the loop thread.
#pragma once

#include <functional>
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

  // `is_whole`: its body is there already; else it may stream. Of a path with is_openai_path().
  void handle(const Caller& caller, http::Request request, http::Responder responder,
              bool is_whole);

 private:
  http::Response answer_about_models(const Caller& caller, const http::Request& request) const;
  // To the function that serves the model.
  void pass_on(const Caller& caller, const std::string& model, http::Request request,
               http::Responder responder);

  const Dependencies uses_;
  ModelDirectory models_;
};

}  // namespace lambent::frontend
