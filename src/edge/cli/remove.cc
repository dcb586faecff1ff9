#include "edge/cli/remove.h"

#include <nlohmann/json.hpp>

#include "edge/cli/api_error.h"
#include "edge/cli/function_request.h"

namespace lambent::cli {

int run_rm(Transport& transport, Console& console, const std::vector<std::string>& names) {
  nlohmann::ordered_json removed = nlohmann::ordered_json::array();
  int exit_code = 0;
  for (const std::string& name : names) {
    const auto response =
        good(transport.send({.method = "DELETE", .target = function_target(name)}, seconds(60)));
    if (response.ok()) {
      removed.push_back(name);
      if (!console.json) console.out << "removed " << name << "\n";
    } else {
      const int failed = fail(console, response.error().with_context("removing " + name));
      if (exit_code == 0) exit_code = failed;
    }
  }
  if (console.json) console.out << nlohmann::ordered_json{{"removed", removed}}.dump(2) << "\n";
  return exit_code;
}

}  // namespace lambent::cli
