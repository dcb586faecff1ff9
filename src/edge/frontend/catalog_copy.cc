#include "edge/frontend/catalog_copy.h"

#include "core/crypto/crypto.h"
#include "edge/frontend/function_json.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {

nlohmann::json copy_of(const FunctionSpec& spec) {
  nlohmann::json copy = to_json(spec);
  // What each node has of its own, and what follows from the rest.
  for (const char* key :
       {"RevisionId", "LastModified", "FunctionArn", "Version", "CodeSize", "State",
        "LastUpdateStatus", "TracingConfig", "SnapStart", "Architectures", "PackageType"}) {
    copy.erase(key);
  }
  copy["Tags"] = spec.tags;
  copy["CodeSha256"] = spec.code_sha256;
  // Clients of Lambda need a text; a function that was made otherwise has none.
  if (!copy.contains("Role") || copy["Role"] == "") copy["Role"] = "none";
  return copy;
}

std::string digest_of_copy(const nlohmann::json& copy) {
  return crypto::to_hex(crypto::sha256(to_text(copy)));
}

Result<FunctionSpec> read_copy(const nlohmann::json& copy, TenantId tenant) {
  if (!copy.is_object()) {
    return Error{ErrorCode::kInvalidArgument, "a copy of a function must be a JSON object"};
  }
  ASSIGN_OR_RETURN(FunctionSpec spec, read_new_function(copy, tenant));
  ASSIGN_OR_RETURN(spec.code_sha256, read_string(copy, "CodeSha256"));
  return spec;
}

}  // namespace lambent::frontend
