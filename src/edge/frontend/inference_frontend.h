// InferenceFrontend: what the worker itself answers of the Open Inference Protocol (v2): its
// metadata, health, the list of models, and which of them a client has unloaded. Requests to a
// model go to its function (FunctionFrontend). On the loop thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/domain/invocation_service.h"
#include "core/domain/version_service.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/function_target.h"
#include "edge/frontend/model_tier.h"

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

  void handle(const Caller& caller, const http::Request& request, http::Responder responder);

  // Of a request to a model: the answer, if it asks whether one is ready that a client unloaded; to
  // ask does not load it. Nothing: it goes to the model. One that loads it makes it ready.
  std::optional<http::Response> answer_to_model(const Caller& caller, const FunctionTarget& target,
                                                std::string_view method);

 private:
  using Sandboxes = std::vector<SandboxStatus>;
  // As Triton's clients read it.
  struct ModelState {
    std::string_view name;
    std::string_view reason;
  };

  http::Response answer_to(const Caller& caller, const http::Request& request);
  // `body`: {"ready": true} wants only those that are.
  http::Response index_of(TenantId tenant, const std::string& body) const;
  // All versions of it.
  http::Response unload(const FunctionName& model);

  void note_unloaded(const FunctionName& record);
  // A client unloaded it, and no sandbox has started since. `sandboxes`: of its tenant.
  bool is_unloaded(const FunctionName& record, const Sandboxes& sandboxes) const;
  ModelState state_of(const FunctionName& record, ModelTier tier, const Sandboxes& sandboxes) const;

  // The versions of a model that can be asked for, as clients write them.
  std::vector<std::string> versions_of(const FunctionName& model) const;
  // The function that serves one of these.
  FunctionName record_of(const FunctionName& model, const std::string& version) const;

  InvocationService& service_;
  const VersionService& versions_;
  const std::string version_;
  const std::function<bool()> ready_;
  const bool has_shared_memory_;  // SharedMemoryFrontend::is_on()
  // Functions that a client unloaded, and the sandboxes that they had.
  std::map<FunctionName, std::set<SandboxId>> unloaded_;
};

}  // namespace lambent::frontend
