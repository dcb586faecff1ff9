#include "edge/cli/profile.h"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/fd.h"
#include "core/domain/limits.h"
#include "core/http/message.h"
#include "edge/cli/api_error.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> event_of(const ProfileOptions& options) {
  if (options.event) return *options.event;
  if (!options.file) return std::string("{}");
  if (*options.file != "-") return read_file(*options.file, limits::kSyncPayload.count);
  std::ostringstream text;
  text << std::cin.rdbuf();
  return text.str();
}

std::string shown(const Json& row, const char* key, int digits) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number()) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f", digits, found->get<double>());
  return text;
}

// A row for each component, a column for each shape.
std::string table_of(const Json& profile) {
  std::vector<std::string> heads = {"COMPONENT", ">WEIGHTS MB", ">MEMORY MB", ">OUTPUT BYTES",
                                    ">RUNS"};
  std::vector<std::string> shapes;
  const Json known = profile.value("shapes", Json::object());
  for (const auto& [shape, about] : known.items()) {
    shapes.push_back(shape);
    heads.push_back(">" + shape + " MS");
  }
  TextTable table(heads);
  const Json components = profile.value("components", Json::object());
  for (const auto& [name, component] : components.items()) {
    std::vector<std::string> row = {
        name, shown(component, "weights_mb", 0), shown(component, "memory_mb", 0),
        shown(component, "output_bytes", 0), shown(component, "probability", 2)};
    const Json times = component.value("ms", Json::object());
    for (const std::string& shape : shapes) row.push_back(shown(times, shape.c_str(), 2));
    table.add(row);
  }
  return table.str();
}

}  // namespace

int run_profile(Transport& transport, Console& console, const ProfileOptions& options) {
  auto event = event_of(options);
  if (!event.ok()) return fail(console, event.error());
  http::Request request;
  request.method = "POST";
  request.target = "/v1/functions/" + http::percent_encode(options.name) +
                   "/profile?repeat=" + std::to_string(options.repeat);
  request.body = std::move(*event);
  const auto response = good(transport.send(request, options.timeout));
  if (!response.ok()) return fail(console, response.error());
  const Json answer = Json::parse(response->body, nullptr, false);
  if (!answer.is_object() || !answer.contains("profile")) {
    return fail(console, {ErrorCode::kInternal, "the worker's answer has no profile"});
  }
  if (options.output) {
    const auto written =
        write_file_atomically(*options.output, answer["profile"].dump(2) + "\n", false);
    if (!written.ok()) return fail(console, written.error());
  }
  if (console.json) {
    console.out << answer.dump(2) << "\n";
    return 0;
  }
  console.out << table_of(answer["profile"]);
  for (const Json& each : answer.value("skipped", Json::array())) {
    console.err << "not measured on " << each.value("shape", "") << ": " << each.value("why", "")
                << "\n";
  }
  return 0;
}

}  // namespace lambent::cli
