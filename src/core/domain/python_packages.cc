#include "core/domain/python_packages.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lambent {
namespace {

using nlohmann::json;

constexpr std::string_view kBlank = " \t";
constexpr std::string_view kHash = "--hash=";
constexpr size_t kShown = 100;  // of a requirement in a message

bool has(std::string_view set, char c) { return set.find(c) != std::string_view::npos; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (has(kBlank, text.front()) || text.front() == '\r')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (has(kBlank, text.back()) || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

std::string shown(std::string_view text) {
  std::string copy;
  for (const char c : text.substr(0, kShown)) copy += c >= ' ' && c < 127 ? c : '?';
  return "'" + copy + (text.size() > kShown ? "...'" : "'");
}

Error refused(std::string_view text, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument, "requirement " + shown(text) + " " + why};
}

bool consists_of(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text,
                             [&](char c) { return is_name(c) || c == ' ' || has(others, c); });
}

// Takes the name from the front; empty if there is none.
std::string_view take_name(std::string_view& rest) {
  size_t end = 0;
  while (end < rest.size() && is_name(rest[end])) ++end;
  const std::string_view name = rest.substr(0, end);
  const bool good = !name.empty() && (is_letter(name.front()) || is_digit(name.front())) &&
                    (is_letter(name.back()) || is_digit(name.back()));
  if (!good) return {};
  rest.remove_prefix(end);
  return name;
}

bool is_file_name(std::string_view name) {
  for (const char* ending : {".whl", ".zip", ".gz", ".tar", ".txt", ".toml"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

// "--hash=sha256:..." once or more, from where the first begins.
Result<void> check_hashes(std::string_view text, std::string_view hashes) {
  while (!hashes.empty()) {
    const size_t end = std::min(hashes.find_first_of(kBlank), hashes.size());
    std::string_view hash = hashes.substr(0, end);
    hashes = trimmed(hashes.substr(end));
    if (!hash.starts_with(kHash)) {
      return refused(text, "has an option; indexes and other options are the worker's");
    }
    hash.remove_prefix(kHash.size());
    const size_t colon = hash.find(':');
    const bool good = (hash.starts_with("sha256:") && hash.size() == 71) ||
                      (hash.starts_with("sha384:") && hash.size() == 103) ||
                      (hash.starts_with("sha512:") && hash.size() == 135);
    if (!good || hash.find_first_not_of("0123456789abcdef", colon + 1) != std::string::npos) {
      return refused(text, "has a hash that is none: --hash=sha256:... (or sha384, sha512)");
    }
  }
  return {};
}

// The part after the name: [extras] versions ; marker
Result<void> check_conditions(std::string_view text, std::string_view rest) {
  rest = trimmed(rest);
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos || !consists_of(rest.substr(1, end - 1), ",")) {
      return refused(text, "has extras that are none: name[one,two]");
    }
    rest = trimmed(rest.substr(end + 1));
  }
  if (rest.starts_with('@') || rest.starts_with('/') || rest.starts_with(':')) {
    return refused(text, "names a place; only the worker's index has packages");
  }
  const size_t semicolon = std::min(rest.find(';'), rest.size());
  const std::string_view versions = trimmed(rest.substr(0, semicolon));
  const std::string_view marker =
      semicolon == rest.size() ? std::string_view() : trimmed(rest.substr(semicolon + 1));
  if (!versions.empty()) {
    if (!has("<>=!~", versions.front()) || !consists_of(versions, "<>=!~,*+")) {
      return refused(text, "is not a name with versions, such as 'numpy>=2,<3'");
    }
  }
  if (!consists_of(marker, "<>=!~,*+'\"()")) {
    return refused(text, "has a marker that is none, such as ; python_version < '3.12'");
  }
  return {};
}

}  // namespace

Result<void> check_python_version(std::string_view version) {
  if (version.empty()) return {};
  const std::string_view minor = version.substr(std::min<size_t>(2, version.size()));
  const bool good = version.starts_with("3.") && !minor.empty() && minor.size() <= 2 &&
                    std::ranges::all_of(minor, is_digit);
  if (good) return {};
  return Error{ErrorCode::kInvalidArgument,
               "python.version is " + shown(version) + "; it is of the form '3.11'"};
}

Result<std::string> read_requirement(std::string_view text) {
  const std::string_view whole = trimmed(text);
  if (whole.size() > kRequirementLength) return refused(whole, "is longer than 64 KiB");
  const bool printable = std::ranges::all_of(whole, [](char c) { return c >= ' ' && c < 127; });
  if (!printable) return refused(whole, "has characters that are not ASCII, or more than one line");
  if (whole.starts_with('-')) {
    return refused(whole, whole.starts_with("-e") || whole.starts_with("--editable")
                              ? "is the project itself; leave it out (uv export "
                                "--no-emit-project), since its code is the function's"
                              : "is an option; indexes and other options are the worker's");
  }
  std::string_view rest = whole;
  const std::string_view name = take_name(rest);
  if (name.empty()) return refused(whole, "does not begin with the name of a package");
  if (is_file_name(name) || rest.starts_with('/')) {
    return refused(whole, "names a place; only the worker's index has packages");
  }
  // The first option ends what is not one.
  const size_t option = std::min(rest.find(" -"), rest.size());
  RETURN_IF_ERROR(check_conditions(whole, rest.substr(0, option)));
  const std::string_view hashes = trimmed(rest.substr(option));
  RETURN_IF_ERROR(check_hashes(whole, hashes));
  std::string result(trimmed(whole.substr(0, name.size() + option)));
  if (!hashes.empty()) result += " " + std::string(hashes);
  return result;
}

Result<std::vector<std::string>> read_requirements_file(std::string_view text) {
  std::vector<std::string> requirements;
  std::string joined;
  size_t line_number = 0;
  size_t first_line = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // A comment begins the line or follows a blank.
    for (size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
      if (at > 0 && !has(kBlank, line[at - 1])) continue;
      line = line.substr(0, at);
      break;
    }
    line = trimmed(line);
    if (joined.empty()) first_line = line_number;
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    if (!line.empty()) joined += (joined.empty() ? "" : " ") + std::string(trimmed(line));
    if (goes_on && !text.empty()) continue;
    if (joined.empty()) continue;
    auto requirement = read_requirement(joined);
    if (!requirement.ok()) {
      return requirement.error().with_context("line " + std::to_string(first_line));
    }
    requirements.push_back(std::move(*requirement));
    joined.clear();
  }
  return sorted_requirements(std::move(requirements));
}

Result<std::vector<std::string>> sorted_requirements(std::vector<std::string> requirements) {
  std::ranges::sort(requirements);
  // Not std::ranges::unique: clang 14, which fuzzes this, does not take that of libstdc++ 12.
  requirements.erase(std::unique(requirements.begin(), requirements.end()), requirements.end());
  size_t bytes = 0;
  for (const std::string& requirement : requirements) bytes += requirement.size() + 1;
  if (requirements.size() > kMostRequirements || bytes > kMostRequirementText.count) {
    return Error{ErrorCode::kResourceExhausted, "a function has at most " +
                                                    std::to_string(kMostRequirements) +
                                                    " requirements, with at most 1 MiB of text"};
  }
  return requirements;
}

Result<void> check_preload(const std::vector<std::string>& modules) {
  if (modules.size() > kMostPreloads) {
    return Error{ErrorCode::kResourceExhausted,
                 "more than " + std::to_string(kMostPreloads) + " modules are preloaded"};
  }
  for (const std::string& module : modules) {
    bool good = !module.empty() && module.size() <= kModuleNameLength;
    char before = '.';
    for (const char c : module) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      const bool digit = c >= '0' && c <= '9';
      good = good && (letter || (before != '.' && (digit || c == '.')));
      before = c;
    }
    if (good && before != '.') continue;
    return Error{ErrorCode::kInvalidArgument,
                 "preload: '" + module + "' is not the name of a module, such as torch.nn"};
  }
  return {};
}

Result<PythonPackages> parse_python_packages(std::string_view text) {
  const auto wrong = [](const std::string& what) {
    return Error{ErrorCode::kInvalidArgument, std::string(kPythonPackagesFile) + ": " + what};
  };
  if (text.size() > 2 * kMostRequirementText.count) return wrong("it is longer than 2 MiB");
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return wrong("it is no JSON object");
  PythonPackages packages;
  for (const auto& [key, value] : parsed.items()) {
    if (key == "version" && value.is_string()) {
      packages.version = value.get<std::string>();
    } else if (key == "locked" && value.is_boolean()) {
      packages.locked = value.get<bool>();
    } else if (key == "preload" && value.is_array()) {
      for (const json& one : value) {
        if (!one.is_string()) return wrong("the modules of preload are strings");
        packages.preload.push_back(one.get<std::string>());
        if (packages.preload.size() > kMostPreloads) break;
      }
      if (auto good = check_preload(packages.preload); !good.ok()) return good.error();
    } else if (key == "requirements" && value.is_array()) {
      if (value.size() > kMostRequirements) {
        return wrong("there are more than " + std::to_string(kMostRequirements) + " requirements");
      }
      for (const json& one : value) {
        if (!one.is_string()) return wrong("requirements are strings");
        ASSIGN_OR_RETURN(std::string requirement, read_requirement(one.get<std::string>()));
        packages.requirements.push_back(std::move(requirement));
      }
    } else {
      return wrong(
          "it has version (a string), requirements and preload (lists of strings) and locked (a "
          "boolean)");
    }
  }
  RETURN_IF_ERROR(check_python_version(packages.version));
  ASSIGN_OR_RETURN(packages.requirements, sorted_requirements(std::move(packages.requirements)));
  return packages;
}

std::string to_json(const PythonPackages& packages) {
  json object = {{"version", packages.version},
                 {"requirements", packages.requirements},
                 {"locked", packages.locked}};
  if (!packages.preload.empty()) object["preload"] = packages.preload;
  return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace lambent
