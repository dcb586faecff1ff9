// ProvisionedConcurrency: Lambda's calls of that name: instances that are ready for a version or an
// alias (VersionService::provision). On the loop thread.
#pragma once

#include <functional>

#include "core/domain/version_service.h"
#include "core/http/message.h"
#include "edge/frontend/lambda_call.h"

namespace lambent::frontend {

// The service outlives the answer.
void answer_provisioned(VersionService& versions, const ProvisionedCall& call,
                        std::function<void(http::Response)> send);

}  // namespace lambent::frontend
