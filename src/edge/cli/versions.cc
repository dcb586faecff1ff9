#include "edge/cli/versions.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/units.h"
#include "core/http/message.h"
#include "edge/cli/api_json.h"
#include "edge/cli/json_cells.h"
#include "edge/cli/quota_words.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string target_of(const std::string& function, const std::string& what,
                      const std::string& which = "") {
  return "/v1/functions/" + http::percent_encode(function) + "/" + what +
         (which.empty() ? "" : "/" + http::percent_encode(which));
}

int show(Console& console, const Result<Json>& answer, const std::string& line) {
  if (!answer.ok()) return fail(console, answer.error());
  console.out << (console.json ? answer->dump(2) : line) << "\n";
  return 0;
}

std::string short_digest(const Json& one) {
  return one.value("code_sha256", std::string()).substr(0, 12);
}

// "1 (90%), 2 (10%)".
std::string routing_words(const Json& alias) {
  const std::string version = alias.value("version", "-");
  const std::string second = alias.value("second", "");
  if (second.empty()) return version;
  const double share = alias.value("second_share", 0.0) * 100;
  char text[64];
  std::snprintf(text, sizeof text, " (%.3g%%), ", 100 - share);
  std::string words = version + text + second;
  std::snprintf(text, sizeof text, " (%.3g%%)", share);
  return words + text;
}

// The version and its share of "4=0.1".
Result<void> read_second(const std::string& text, Json& body) {
  if (text.empty()) return {};
  const size_t equals = text.find('=');
  double share = 0;
  char rest = 0;
  const bool is_read = equals != std::string::npos && equals > 0 &&
                       std::sscanf(text.c_str() + equals + 1, "%lf%c", &share, &rest) == 1;
  if (!is_read) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + text + "' is not a second version: write VERSION=SHARE, such as 4=0.1"};
  }
  body["second"] = text.substr(0, equals);
  body["second_share"] = share;
  return {};
}

}  // namespace

int run_publish(Transport& transport, Console& console, const PublishOptions& options) {
  const std::string& function = options.function;
  Json body = Json::object();
  if (options.description) body["description"] = *options.description;
  if (options.version) body["version"] = *options.version;
  const auto answer = ask_json(transport, "POST", target_of(function, "versions"), &body);
  const std::string version = answer.ok() ? answer->value("version", "?") : "";
  return show(console, answer, "published " + function + ":" + version);
}

int run_versions_ls(Transport& transport, Console& console, const std::string& function) {
  const auto answer = ask_json(transport, "GET", target_of(function, "versions"));
  if (!answer.ok() || console.json) return show(console, answer, "");
  TextTable table({"VERSION", "PUBLISHED", "CODE", ">SIZE", "DESCRIPTION"});
  for (const Json& one : answer->value("versions", Json::array())) {
    table.add({one.value("version", "-"), date_text(one.value("published_at", 0.0)),
               short_digest(one), to_string(Bytes(one.value("code_bytes", uint64_t{0}))),
               one.value("description", "")});
  }
  console.out << table.str();
  return 0;
}

int run_versions_rm(Transport& transport, Console& console, const std::string& function,
                    const std::vector<std::string>& versions) {
  int exit_code = 0;
  for (const std::string& version : versions) {
    const auto removed = ask_json(transport, "DELETE", target_of(function, "versions", version));
    const int shown = show(console, removed, "removed " + function + ":" + version);
    if (exit_code == 0) exit_code = shown;
  }
  return exit_code;
}

int run_alias_set(Transport& transport, Console& console, const SetAliasOptions& options) {
  Json body = {{"version", options.version}};
  if (!options.description.empty()) body["description"] = options.description;
  if (const auto read = read_second(options.second, body); !read.ok()) {
    return fail(console, read.error());
  }
  const auto answer =
      ask_json(transport, "PUT", target_of(options.function, "aliases", options.alias), &body);
  const std::string routing = answer.ok() ? routing_words(*answer) : "";
  return show(console, answer, options.function + ":" + options.alias + " -> " + routing);
}

int run_alias_ls(Transport& transport, Console& console, const std::string& function) {
  const auto answer = ask_json(transport, "GET", target_of(function, "aliases"));
  if (!answer.ok() || console.json) return show(console, answer, "");
  TextTable table({"ALIAS", "VERSION", "DESCRIPTION"});
  for (const Json& one : answer->value("aliases", Json::array())) {
    table.add({one.value("name", "-"), routing_words(one), one.value("description", "")});
  }
  console.out << table.str();
  return 0;
}

int run_alias_rm(Transport& transport, Console& console, const std::string& function,
                 const std::string& alias) {
  const auto removed = ask_json(transport, "DELETE", target_of(function, "aliases", alias));
  return show(console, removed, "removed " + function + ":" + alias);
}

int run_revisions(Transport& transport, Console& console, const std::string& function) {
  const auto answer = ask_json(transport, "GET", target_of(function, "revisions"));
  if (!answer.ok() || console.json) return show(console, answer, "");
  TextTable table({">REVISION", "DEPLOYED", "CODE", ">SIZE", ""});
  for (const Json& one : answer->value("revisions", Json::array())) {
    table.add({std::to_string(one.value("revision", uint64_t{0})),
               date_text(one.value("deployed_at", 0.0)), short_digest(one),
               to_string(Bytes(one.value("code_bytes", uint64_t{0}))),
               one.value("current", false) ? "serves" : ""});
  }
  console.out << table.str();
  return 0;
}

int run_rollback(Transport& transport, Console& console, const std::string& function,
                 std::optional<uint64_t> revision) {
  std::string target = target_of(function, "rollback");
  if (revision) target += "?revision=" + std::to_string(*revision);
  const auto answer = ask_json(transport, "POST", target);
  if (!answer.ok() || console.json) return show(console, answer, "");
  const std::string now = std::to_string(answer->value("revision", uint64_t{0}));
  console.out << answer->value("action", "updated") << " " << function << ", now at revision "
              << now;
  if (const auto change = answer->find("kind_change"); change != answer->end()) {
    console.out << " and of kind " << cell(*change, "to");
  }
  console.out << "\n";
  return 0;
}

}  // namespace lambent::cli
