#include "edge/cli/api_json.h"

#include <utility>

#include "core/base/json_text.h"
#include "edge/cli/api_error.h"

namespace lambent::cli {
namespace {

constexpr Duration kTimeout = seconds(60);

}  // namespace

Result<nlohmann::ordered_json> ask_json(Transport& transport, const std::string& method,
                                        const std::string& target,
                                        const nlohmann::ordered_json* body) {
  http::Request request{.method = method, .target = target};
  if (body != nullptr) {
    request.headers.add("Content-Type", "application/json");
    request.body = json_text(*body);
  }
  const auto response = good(transport.send(request, kTimeout));
  if (!response.ok()) return response.error();
  auto json = nlohmann::ordered_json::parse(response->body, nullptr, false);
  if (!json.is_object()) return not_a_worker(target);
  return json;
}

Error not_a_worker(const std::string& target) {
  return {ErrorCode::kInternal, "the worker's answer to " + target +
                                    " is not what is expected; is that a Lambent worker?"};
}

}  // namespace lambent::cli
