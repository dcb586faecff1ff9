#include "edge/frontend/lambda_name.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "core/domain/limits.h"
#include "core/domain/version.h"

namespace lambent::frontend {
namespace {

// As in AWS: a whole ARN with a qualifier.
constexpr size_t kLongest = 256;

bool is_word(std::string_view text, std::string_view extra) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           extra.find(c) != std::string_view::npos;
  });
}

bool is_account(std::string_view text) {
  return text.size() == 12 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

// How many of the parts stand before the name; nothing says it is no name.
size_t prefix_length(const std::vector<std::string_view>& parts) {
  const bool whole = parts.size() >= 7 && parts[0] == "arn" && parts[1].starts_with("aws") &&
                     parts[2] == "lambda" && is_word(parts[3], "-") && is_account(parts[4]) &&
                     parts[5] == "function";
  if (whole) return 6;
  if (parts.size() >= 3 && is_account(parts[0]) && parts[1] == "function") return 2;
  if (parts.size() >= 2 && parts[0] == "function") return 1;
  return 0;
}

}  // namespace

Result<LambdaName> parse_lambda_name(std::string_view text) {
  const Error bad{ErrorCode::kInvalidArgument,
                  "the function name must be a name of at most " +
                      std::to_string(limits::kFunctionNameLength) +
                      " letters, digits, '-' and '_', or an ARN of one"};
  if (text.size() > kLongest) return bad;
  const std::vector<std::string_view> parts = split(text);
  const size_t prefix = prefix_length(parts);
  if (parts.size() > prefix + 2) return bad;
  const std::string_view name = parts[prefix];
  if (!is_word(name, "-_") || name.size() > limits::kFunctionNameLength) return bad;
  LambdaName parsed{.name = std::string(name), .qualifier = ""};
  if (parts.size() == prefix + 2) {
    if (!is_word(parts[prefix + 1], "-_$")) return bad;
    parsed.qualifier = parts[prefix + 1];
  }
  return parsed;
}

Result<std::string> qualified_lambda_name(std::string_view text, std::string_view other) {
  ASSIGN_OR_RETURN(LambdaName parsed, parse_lambda_name(text));
  if (!other.empty() && !parsed.qualifier.empty() && parsed.qualifier != other) {
    return Error{ErrorCode::kInvalidArgument,
                 "the qualifier in the function name contradicts the one beside it"};
  }
  if (!other.empty()) parsed.qualifier = other;
  if (parsed.qualifier.empty() || parsed.qualifier == kLatestVersion) return parsed.name;
  if (!is_word(parsed.qualifier, "-_") || parsed.qualifier.size() > kAliasNameLength) {
    return Error{ErrorCode::kInvalidArgument,
                 "the qualifier must be $LATEST, the number of a version or the name of an alias"};
  }
  return parsed.name + ":" + parsed.qualifier;
}

std::string arn_of(std::string_view function) {
  return "arn:aws:lambda:us-east-1:000000000000:function:" + std::string(function);
}

Result<LayerReference> parse_layer_arn(std::string_view arn) {
  const std::vector<std::string_view> parts =
      arn.size() <= kLongest ? split(arn) : std::vector<std::string_view>();
  const bool is_one = parts.size() == 8 && parts[0] == "arn" && parts[1].starts_with("aws") &&
                      parts[2] == "lambda" && is_word(parts[3], "-") && is_account(parts[4]) &&
                      parts[5] == "layer";
  if (is_one) {
    const std::string text = std::string(parts[6]) + ":" + std::string(parts[7]);
    auto layers = parse_layers(text);
    if (layers.ok() && layers->size() == 1) return std::move(layers->front());
  }
  return Error{ErrorCode::kInvalidArgument, "Layers are named by the ARN of a version, such as " +
                                                layer_arn_of(LayerReference{"torch", 3})};
}

std::string layer_arn_of(const LayerReference& layer) {
  return layer_arn_of(layer.name) + ":" + std::to_string(layer.version);
}

std::string layer_arn_of(std::string_view name) {
  return "arn:aws:lambda:us-east-1:000000000000:layer:" + std::string(name);
}

}  // namespace lambent::frontend
