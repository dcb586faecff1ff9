#include "edge/frontend/catalog_copy.h"

#include <algorithm>
#include <iterator>

#include "core/base/json_text.h"
#include "core/crypto/crypto.h"
#include "core/domain/image_function.h"
#include "core/domain/layer.h"
#include "edge/frontend/function_json.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {
namespace {

constexpr char kLayerMounts[] = "LayerMounts";
constexpr char kImageCommand[] = "ImageCommand";

// As it is asked for, and all that may stand there beside the image.
void add_image(const FunctionSpec& spec, nlohmann::json& copy) {
  copy.erase("ImageConfigResponse");
  const auto command = parse_image_command(spec.handler);
  copy["PackageType"] = "Image";
  copy["Code"] = {{"ImageUri", command.ok() ? text_of(command->image) : ""}};
  copy[kImageCommand] = spec.handler;
}

Result<void> take_image(const nlohmann::json& copy, FunctionSpec& spec) {
  if (!runs_image(spec)) return {};
  ASSIGN_OR_RETURN(const std::string line, read_string(copy, kImageCommand));
  ASSIGN_OR_RETURN(const ImageCommand command, parse_image_command(line));
  spec.handler = text_of(command);
  return {};
}

}  // namespace

nlohmann::json copy_of(const FunctionSpec& spec) {
  nlohmann::json copy = to_json(spec);
  // What each node has of its own, and what follows from the rest.
  for (const char* key :
       {"RevisionId", "Layers", "LastModified", "FunctionArn", "Version", "CodeSize", "State",
        "LastUpdateStatus", "TracingConfig", "SnapStart", "Architectures", "PackageType"}) {
    copy.erase(key);
  }
  copy["Tags"] = spec.tags;
  copy["CodeSha256"] = spec.code_sha256;
  if (runs_image(spec)) add_image(spec, copy);
  // What its layers were composed to; a tag says which they are.
  Mounts layers;
  std::ranges::copy_if(spec.mounts, std::back_inserter(layers), is_of_layers);
  if (!layers.empty()) copy[kLayerMounts] = text_of(layers);
  // Clients of Lambda need a text; a function that was made otherwise has none.
  if (!copy.contains("Role") || copy["Role"] == "") copy["Role"] = "none";
  return copy;
}

nlohmann::json copy_of(const Alias& alias) {
  return {{"FunctionName", alias.function.name},
          {"Alias", alias.name},
          {"Description", alias.description},
          {"Version", alias.version},
          {"Second", alias.second},
          {"SecondShare", alias.second_share},
          {"Provisioned", alias.provisioned},
          {"Revision", alias.revision}};
}

Result<Alias> read_alias_copy(const nlohmann::json& copy, TenantId tenant) {
  const Error invalid{ErrorCode::kInvalidArgument, "this is no copy of an alias"};
  if (!copy.is_object()) return invalid;
  Alias alias;
  alias.function.tenant = tenant;
  ASSIGN_OR_RETURN(alias.function.name, read_string(copy, "FunctionName"));
  ASSIGN_OR_RETURN(alias.name, read_string(copy, "Alias"));
  ASSIGN_OR_RETURN(alias.description, read_string(copy, "Description"));
  ASSIGN_OR_RETURN(alias.version, read_string(copy, "Version"));
  ASSIGN_OR_RETURN(alias.second, read_string(copy, "Second"));
  const auto share = copy.find("SecondShare");
  const auto provisioned = copy.find("Provisioned");
  const auto revision = copy.find("Revision");
  const bool has_numbers = share != copy.end() && share->is_number() && provisioned != copy.end() &&
                           provisioned->is_number_unsigned() && revision != copy.end() &&
                           revision->is_number_unsigned();
  if (!has_numbers || provisioned->get<uint64_t>() > UINT32_MAX) return invalid;
  alias.second_share = share->get<double>();
  alias.provisioned = provisioned->get<unsigned>();
  alias.revision = revision->get<uint64_t>();
  RETURN_IF_ERROR(validate(alias));
  return alias;
}

std::string digest_of_copy(const nlohmann::json& copy) {
  return crypto::to_hex(crypto::sha256(json_text(copy)));
}

Result<FunctionSpec> read_copy(const nlohmann::json& copy, TenantId tenant) {
  if (!copy.is_object()) {
    return Error{ErrorCode::kInvalidArgument, "a copy of a function must be a JSON object"};
  }
  ASSIGN_OR_RETURN(FunctionSpec spec, read_new_function(copy, tenant));
  ASSIGN_OR_RETURN(spec.code_sha256, read_string(copy, "CodeSha256"));
  RETURN_IF_ERROR(take_image(copy, spec));
  if (!copy.contains(kLayerMounts)) return spec;
  ASSIGN_OR_RETURN(const std::string text, read_string(copy, kLayerMounts));
  ASSIGN_OR_RETURN(const Mounts layers, parse_mounts(text));
  for (const Mount& mount : layers) {
    if (is_of_layers(mount) && mount.at.starts_with(kLayersPlace)) continue;
    return Error{ErrorCode::kInvalidArgument, std::string(kLayerMounts) + " are of layers"};
  }
  spec.mounts.insert(spec.mounts.end(), layers.begin(), layers.end());
  RETURN_IF_ERROR(validate(spec.mounts));
  return spec;
}

}  // namespace lambent::frontend
