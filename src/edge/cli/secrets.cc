#include "edge/cli/secrets.h"

#include <nlohmann/json.hpp>

#include "core/base/fd.h"
#include "core/domain/limits.h"
#include "core/http/message.h"
#include "edge/cli/api_error.h"
#include "edge/cli/api_json.h"
#include "edge/cli/quota_words.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kTimeout = seconds(30);
constexpr const char* kSecrets = "/v1/secrets";

std::string target_of(const std::string& name) {
  return std::string(kSecrets) + "/" + http::percent_encode(name);
}

// One byte more than may be, so that what is too large is refused and not cut.
constexpr size_t kMostRead = limits::kSecretValue.count + 1;

Result<std::string> value_of(std::istream& in, const std::string& file) {
  if (!file.empty()) return read_file(file, kMostRead);
  std::string value;
  for (char c = 0; value.size() < kMostRead && in.get(c);) value += c;
  if (value.ends_with('\n')) value.pop_back();
  if (!value.empty()) return value;
  return Error{ErrorCode::kInvalidArgument,
               "standard input has no value; write for example: printf %s VALUE | lambent secrets "
               "set NAME"};
}

}  // namespace

int run_secrets_ls(Transport& transport, Console& console) {
  const auto list = ask_json(transport, "GET", kSecrets);
  if (!list.ok()) return fail(console, list.error());
  if (console.json) {
    console.out << list->dump(2) << "\n";
    return 0;
  }
  TextTable table({"NAME", "CHANGED"});
  for (const Json& secret : list->value("secrets", Json::array())) {
    table.add({secret.value("name", "-"), date_text(secret.value("changed_at", 0.0))});
  }
  console.out << table.str();
  return 0;
}

int run_secrets_set(Transport& transport, Console& console, std::istream& in,
                    const SetSecretOptions& options) {
  auto value = value_of(in, options.file);
  if (!value.ok()) return fail(console, value.error());
  http::Request request{.method = "PUT", .target = target_of(options.name)};
  request.headers.add("Content-Type", "application/octet-stream");
  request.body = *std::move(value);
  const auto response = good(transport.send(request, kTimeout));
  if (!response.ok()) return fail(console, response.error());
  console.out << (console.json ? response->body : options.name) << "\n";
  return 0;
}

int run_secrets_rm(Transport& transport, Console& console, const std::vector<std::string>& names) {
  int exit_code = 0;
  for (const std::string& name : names) {
    const auto removed = ask_json(transport, "DELETE", target_of(name));
    if (removed.ok()) {
      console.out << (console.json ? removed->dump() : name) << "\n";
    } else if (const int failed = fail(console, removed.error()); exit_code == 0) {
      exit_code = failed;
    }
  }
  return exit_code;
}

}  // namespace lambent::cli
