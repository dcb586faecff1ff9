#include "core/domain/openai_models.h"

#include <algorithm>

namespace lambent {
namespace {

bool is_plain(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte > 0x20 && byte != 0x7f && letter != ',';
}

Result<void> check_name(std::string_view name) {
  if (!name.empty() && name.size() <= kMostOpenaiModelName &&
      std::all_of(name.begin(), name.end(), is_plain)) {
    return {};
  }
  return Error{ErrorCode::kInvalidArgument, "a model's name has 1 to " +
                                                std::to_string(kMostOpenaiModelName) +
                                                " bytes, without commas and spaces"};
}

Result<void> check_names(std::span<const std::string> names) {
  if (names.size() > kMostOpenaiModels) {
    return Error{ErrorCode::kInvalidArgument,
                 "a function serves at most " + std::to_string(kMostOpenaiModels) + " models"};
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    RETURN_IF_ERROR(check_name(*name));
    if (std::find(names.begin(), name, *name) != name) {
      return Error{ErrorCode::kInvalidArgument, "the model '" + *name + "' is named twice"};
    }
  }
  return {};
}

}  // namespace

Result<std::string> openai_models_text(std::span<const std::string> names) {
  RETURN_IF_ERROR(check_names(names));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

Result<std::vector<std::string>> parse_openai_models(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    names.emplace_back(text.substr(0, end));
    if (end + 1 == text.size()) names.emplace_back();  // an empty one behind the last comma
    text.remove_prefix(std::min(end + 1, text.size()));
    if (names.size() > kMostOpenaiModels) break;
  }
  RETURN_IF_ERROR(check_names(names));
  return names;
}

std::vector<std::string> openai_models(const FunctionSpec& spec) {
  if (spec.kind != FunctionKind::kHttp) return {};
  const auto tag = spec.tags.find(std::string(kOpenaiModelsTag));
  if (tag == spec.tags.end()) return {};
  auto names = parse_openai_models(tag->second);
  return names.ok() ? *std::move(names) : std::vector<std::string>();
}

}  // namespace lambent
