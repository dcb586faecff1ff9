#include "node/worker/image_access.h"

#include <algorithm>

namespace lambent::worker {
namespace {

bool has_image(TenantId tenant, const std::string& code_sha256, const FunctionRegistry& functions,
               const Revisions& revisions) {
  if (!functions.codes().contains(code_sha256) && !revisions.codes().contains(code_sha256)) {
    return false;
  }
  return functions.any_of([&](const FunctionSpec& spec) {
    if (spec.name.tenant != tenant) return false;
    if (spec.code_sha256 == code_sha256) return true;
    const std::vector<FunctionSpec> earlier = revisions.list(spec.id);
    return std::ranges::find(earlier, code_sha256, &FunctionSpec::code_sha256) != earlier.end();
  });
}

}  // namespace

Result<images::ImageAccess> image_access(TenantId tenant, const ImageReference& image,
                                         const FunctionRegistry& functions,
                                         const Revisions& revisions, const SecretService* secrets) {
  images::ImageAccess access;
  access.is_known = !image.digest.empty() &&
                    has_image(tenant, images::code_sha256_of(image.digest), functions, revisions);
  if (secrets == nullptr || image.is_local()) return access;
  const auto secret = secrets->find_secret(tenant, images::kRegistrySecret);
  if (!secret) return access;
  ASSIGN_OR_RETURN(access.credentials, images::registry_credentials(*secret));
  return access;
}

}  // namespace lambent::worker
