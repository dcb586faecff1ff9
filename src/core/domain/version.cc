#include "core/domain/version.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/domain/limits.h"

namespace lambent {
namespace {

Error invalid(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

bool is_alias_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

bool is_version(std::string_view text) {
  return text == kLatestVersion || version_number(text).has_value();
}

Result<void> validate_alias_name(const std::string& name) {
  if (name.empty() || name.size() > kAliasNameLength ||
      !std::ranges::all_of(name, is_alias_character)) {
    return invalid("an alias has 1 to " + std::to_string(kAliasNameLength) +
                   " letters, digits, '-' and '_'");
  }
  if (std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) {
    return invalid("the alias '" + name + "' looks like a version; give it a letter");
  }
  return {};
}

}  // namespace

QualifiedName split_qualifier(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

FunctionName version_record(const FunctionName& function, uint64_t version) {
  return {function.tenant, function.name + ":" + std::to_string(version)};
}

FunctionName function_of(const FunctionName& name) {
  return {name.tenant, name.name.substr(0, name.name.find(':'))};
}

bool is_version_record(const FunctionName& name) {
  return name.name.find(':') != std::string::npos;
}

std::string version_of(const FunctionName& name) {
  const size_t colon = name.name.find(':');
  return colon == std::string::npos ? std::string(kLatestVersion) : name.name.substr(colon + 1);
}

std::optional<uint64_t> version_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = code == std::errc() && end == text.data() + text.size();
  if (!is_whole || text.front() == '0') return std::nullopt;
  return number;
}

Result<void> validate(const Alias& alias) {
  RETURN_IF_ERROR(validate_alias_name(alias.name));
  if (alias.description.size() > limits::kDescriptionLength) {
    return invalid("the description of an alias has at most 256 bytes");
  }
  if (!is_version(alias.version)) {
    return invalid("'" + alias.version + "' is no version: an alias is for a number or $LATEST");
  }
  if (alias.provisioned > 0 && alias.version == kLatestVersion) {
    return invalid(
        "instances are for versions with a number; for the function itself there is "
        "min_instances");
  }
  if (alias.second.empty()) {
    if (alias.second_share == 0) return {};
    return invalid("a share needs the version that gets it");
  }
  if (alias.version == kLatestVersion || !version_number(alias.second)) {
    return invalid("only versions with a number have shares, $LATEST has none");
  }
  if (alias.second == alias.version) {
    return invalid("version " + alias.second + " has all of the alias; it can have no share of it");
  }
  if (!(alias.second_share > 0 && alias.second_share < 1)) {
    return invalid("the share of version " + alias.second +
                   " must be above 0 and below 1: both shares add up to 1");
  }
  return {};
}

unsigned instances_of(const Alias& alias, std::string_view version) {
  const auto of_second = static_cast<unsigned>(std::lround(alias.provisioned * alias.second_share));
  if (version == alias.version) return alias.provisioned - of_second;
  return version == alias.second ? of_second : 0;
}

const std::string& choose_version(const Alias& alias, double point) {
  return !alias.second.empty() && point < alias.second_share ? alias.second : alias.version;
}

}  // namespace lambent
