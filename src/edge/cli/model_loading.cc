#include "edge/cli/model_loading.h"

#include <nlohmann/json.hpp>

#include "edge/cli/api_json.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kLoadTimeout = seconds(120);

// What a program answers may be of any form.
std::string word_of(const Json& tensor, const char* key) {
  const auto found = tensor.find(key);
  return found != tensor.end() && found->is_string() ? found->get<std::string>() : "";
}

// "x FP32[-1,4]", of a model's metadata.
std::string tensors_of(const Json& metadata, const char* key) {
  std::string text;
  for (const Json& tensor : metadata.value(key, Json::array())) {
    if (!tensor.is_object()) continue;
    std::string shape;
    for (const Json& size : tensor.value("shape", Json::array())) {
      shape += (shape.empty() ? "" : ",") + size.dump();
    }
    text += (text.empty() ? "" : ", ") + word_of(tensor, "name") + " " +
            word_of(tensor, "datatype") + "[" + shape + "]";
  }
  return text;
}

}  // namespace

bool has_gpu(Transport& transport) {
  const auto answer = ask_json(transport, "GET", "/v1/devices");
  return !answer.ok() || !answer->contains("devices") || !(*answer)["devices"].empty() ||
         answer->contains("silent_nodes");
}

Result<std::optional<std::string>> load_model(Transport& transport, const std::string& target) {
  const auto answer = transport.send({.method = "GET", .target = target}, kLoadTimeout);
  if (!answer.ok()) return answer.error();
  const Json json = Json::parse(answer->body, nullptr, false);
  if (answer->status == 200 && json.is_object()) {
    return std::optional(tensors_of(json, "inputs") + " -> " + tensors_of(json, "outputs"));
  }
  if (answer->status == 401 || answer->status == 403) return std::optional<std::string>();
  const std::string why =
      json.is_object() && json.contains("error") && json["error"].is_string() ? json["error"] : "";
  return Error{ErrorCode::kFailedPrecondition, "the model cannot be loaded: " + why};
}

}  // namespace lambent::cli
