// LambdaFrontend: AWS Lambda's REST API on an InvocationService, so that boto3, the aws cli and
// other SDKs work unmodified. On the loop thread.
#pragma once

#include "core/base/random.h"
#include "core/domain/invocation_service.h"
#include "core/domain/version_service.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

class LambdaFrontend {
 public:
  // Both outlive the frontend; the frontend may go while answers are still out.
  LambdaFrontend(InvocationService& service, VersionService& versions, Random& random);

  void handle(const Caller& caller, http::Request request, http::Responder responder);

 private:
  InvocationService& service_;
  VersionService& versions_;
  Random& random_;
};

}  // namespace lambent::frontend
