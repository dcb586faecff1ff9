// Functions in Lambda's JSON: requests that describe one, and FunctionConfiguration. Free
// functions; any thread.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/domain/cors.h"
#include "core/domain/function.h"
#include "core/domain/image_function.h"
#include "core/domain/invocation_service.h"
#include "core/domain/version.h"

namespace lambent::frontend {

// What UpdateFunctionConfiguration may change: the settings that Lambda has a field for.
struct ConfigurationPatch {
  // Which of them are given, by their names in Lambda; the others stay.
  std::set<std::string_view> given;
  // Has the values of these.
  FunctionSpec values;
  // Of a function of an image: what its entry point, command and working directory are instead of
  // the image's, all three of them. The image in it is none.
  std::optional<ImageCommand> image;
  // The layers of a function, as the tag lambent:layers has them; empty: none from now on.
  std::optional<std::string> layers = {};
};

// Reads the fields of a patch out of an object. INVALID_ARGUMENT for a wrong type or value, and for
// features that we do not have, unless they are asked to be off.
Result<ConfigurationPatch> read_patch(const nlohmann::json& object);
// The spec with the patch in it, still valid; INVALID_ARGUMENT otherwise.
Result<FunctionSpec> apply_patch(FunctionSpec spec, const ConfigurationPatch& patch);

// What a request to create a function says of it, without its code. INVALID_ARGUMENT.
Result<FunctionSpec> read_new_function(const nlohmann::json& object, TenantId tenant);

// "2026-11-21T01:31:52.123+0000"
std::string lambda_time(Duration since_epoch);

// What a function's image is, as ImageUri has it. INVALID_ARGUMENT.
Result<ImageReference> read_image_uri(const nlohmann::json& object);

// False if absent. INVALID_ARGUMENT if it is something else.
Result<bool> read_bool(const nlohmann::json& object, std::string_view key);
// A string field; empty if absent. INVALID_ARGUMENT if it is something else.
Result<std::string> read_string(const nlohmann::json& object, std::string_view key);
// {"a": "b"}; empty if absent.
Result<std::map<std::string, std::string>> read_strings(const nlohmann::json& object,
                                                        std::string_view key);

// FunctionConfiguration.
nlohmann::json to_json(const FunctionSpec& spec);
// The same, with what became of its last change, if that was answered before it was done, else with
// what its owner should know.
nlohmann::json to_json(const FunctionSpec& spec, const std::optional<DeploymentStatus>& deployment,
                       const std::string& warning = {});
// Changes with every revision, and is the same after a restart.
std::string revision_id_of(const FunctionSpec& spec);
std::string revision_id_of(const Alias& alias);
// AliasConfiguration.
nlohmann::json to_json(const Alias& alias);
// Cors of a FunctionUrlConfig.
nlohmann::json to_json(const Cors& cors);

}  // namespace lambent::frontend
