// As whom a tenant asks for a container image: with its own credentials, and whether it has the
// image already. Pure; used by Deployments.
#pragma once

#include "core/domain/image_function.h"
#include "core/domain/secret.h"
#include "node/images/store.h"
#include "node/worker/aliases.h"
#include "node/worker/function_registry.h"

namespace lambent::worker {

// `secrets` may be null. FAILED_PRECONDITION: the tenant's secret has no credentials.
Result<images::ImageAccess> image_access(TenantId tenant, const ImageReference& image,
                                         const FunctionRegistry& functions,
                                         const Revisions& revisions, const SecretService* secrets);

}  // namespace lambent::worker
