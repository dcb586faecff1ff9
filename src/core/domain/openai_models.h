// The names of the models that an HTTP function serves by OpenAI's API (docs/guides/openai.md).
// They are kept in a tag of the function. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/function.h"

namespace lambent {

// In lambent.toml, and the tag that holds it.
constexpr std::string_view kOpenaiModelsKey = "openai_models";
constexpr std::string_view kOpenaiModelsTag = "lambent:openai-models";
constexpr size_t kMostOpenaiModels = 64;      // of one function
constexpr size_t kMostOpenaiModelName = 256;  // bytes

// The tag's text: names with a comma between two. INVALID_ARGUMENT for a name that is empty, longer
// than kMostOpenaiModelName or has a comma, a space or a control character, for one that is there
// twice, and for more than kMostOpenaiModels.
Result<std::string> openai_models_text(std::span<const std::string> names);
// The names in such a text; empty: none. Errors as above.
Result<std::vector<std::string>> parse_openai_models(std::string_view text);
// Those of a function; none if it is no HTTP function or has no such tag.
std::vector<std::string> openai_models(const FunctionSpec& spec);

}  // namespace lambent
