// InferenceFrontend: what the worker itself answers of the Open Inference Protocol (v2): its
// metadata, health and the list of models. Requests to a model go to its function
// (FunctionFrontend). On the loop thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/domain/invocation_service.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

// "/v2" and what lies below.
bool is_inference_path(std::string_view path);
// {"error": "..."}, as clients of this protocol expect every failure.
http::Response inference_error(int status, const std::string& message);
http::Response inference_error(const Error& error, Duration retry_after = {});

class InferenceFrontend {
 public:
  // `service` outlives it.
  InferenceFrontend(InvocationService& service, std::string version, std::function<bool()> ready)
      : service_(service), version_(std::move(version)), ready_(std::move(ready)) {}

  void handle(const Caller& caller, const http::Request& request, http::Responder responder) const;

 private:
  http::Response answer_to(const Caller& caller, const http::Request& request) const;
  http::Response index_of(TenantId tenant) const;

  InvocationService& service_;
  const std::string version_;
  const std::function<bool()> ready_;
};

}  // namespace lambent::frontend
