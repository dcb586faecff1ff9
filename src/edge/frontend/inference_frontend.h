// InferenceFrontend: what the worker itself answers of the Open Inference Protocol (v2): its
// metadata, health and the list of models. Requests to a model go to its function
// (FunctionFrontend). On the loop thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/domain/invocation_service.h"
#include "core/domain/version_service.h"
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
  // The services outlive it.
  InferenceFrontend(InvocationService& service, const VersionService& versions, std::string version,
                    std::function<bool()> ready, bool has_shared_memory)
      : service_(service),
        versions_(versions),
        version_(std::move(version)),
        ready_(std::move(ready)),
        has_shared_memory_(has_shared_memory) {}

  void handle(const Caller& caller, const http::Request& request, http::Responder responder) const;

 private:
  http::Response answer_to(const Caller& caller, const http::Request& request) const;
  http::Response index_of(TenantId tenant) const;
  // All versions of it.
  http::Response unload(const FunctionName& model) const;

  // The versions of a model that can be asked for, as clients write them.
  std::vector<std::string> versions_of(const FunctionName& model) const;
  // The function that serves one of these.
  FunctionName record_of(const FunctionName& model, const std::string& version) const;

  InvocationService& service_;
  const VersionService& versions_;
  const std::string version_;
  const std::function<bool()> ready_;
  const bool has_shared_memory_;  // SharedMemoryFrontend::is_on()
};

}  // namespace lambent::frontend
