// LambdaFrontend: AWS Lambda's REST API on an InvocationService, so that boto3, the aws cli and
// other SDKs work unmodified. On the loop thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "core/base/random.h"
#include "core/domain/invocation_service.h"
#include "core/domain/layer.h"
#include "core/domain/version_service.h"
#include "core/http/relay_service.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

class LambdaFrontend {
 public:
  // All outlive the frontend; the frontend may go while answers are still out.
  struct Dependencies {
    InvocationService& service;
    VersionService& versions;
    http::RelayService& relays;
    Random& random;
    std::function<std::string(TenantId)> tenant_name;  // empty if there is none
    LayerService* layers = nullptr;                    // null: functions have none
  };
  explicit LambdaFrontend(Dependencies dependencies) : uses_(std::move(dependencies)) {}

  void handle(const Caller& caller, http::Request request, http::Responder responder);

 private:
  const Dependencies uses_;
};

}  // namespace lambent::frontend
