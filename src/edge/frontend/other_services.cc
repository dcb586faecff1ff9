#include "edge/frontend/other_services.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "edge/frontend/json_response.h"
#include "edge/frontend/sigv4.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kType = "NotImplementedException";
constexpr size_t kLongestService = 40;

// Without what would be markup.
bool is_service(std::string_view name) {
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !name.empty() && name.size() <= kLongestService && std::ranges::all_of(name, is_of_name);
}

bool is_own_path(std::string_view path) {
  for (const std::string_view own : {"/v1/", "/v2/", "/dashboard/"}) {
    if (path.starts_with(own)) return true;
  }
  for (const std::string_view own :
       {"/v2", "/dashboard", "/metrics", "/livez", "/healthz", "/readyz"}) {
    if (path == own) return true;
  }
  return false;
}

std::string message_for(std::string_view service) {
  std::string said = "the request is for '" + std::string(service) +
                     "' of AWS, and this endpoint has Lambda's API only: set "
                     "AWS_ENDPOINT_URL_LAMBDA in place of AWS_ENDPOINT_URL";
  if (service == "logs") said += "; 'lambent logs NAME' shows the log of a function";
  return said;
}

http::Response xml_response(std::string body) {
  http::Response response;
  response.status = 501;
  response.headers.add("Content-Type", "text/xml");
  response.body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + std::move(body);
  return response;
}

}  // namespace

std::optional<http::Response> refusal_of_other_service(const http::Request& request) {
  const std::string_view path = http::path_of(request.target);
  const auto signature = parse_sigv4(request.headers.get("Authorization"));
  if (is_own_path(path) || !signature.ok() || !*signature) return std::nullopt;
  const std::string_view service = (*signature)->service;
  if (service == "lambda" || !is_service(service)) return std::nullopt;
  const std::string message = message_for(service);
  const std::string error =
      "<Error><Code>" + std::string(kType) + "</Code><Message>" + message + "</Message></Error>";
  if (service == "s3") return xml_response(error);
  const bool asks_in_json = path != "/" || !request.headers.get("X-Amz-Target").empty();
  if (!asks_in_json) return xml_response("<ErrorResponse>" + error + "</ErrorResponse>");
  http::Response response = json_response(501, {{"__type", kType}, {"message", message}});
  response.headers.add("x-amzn-ErrorType", std::string(kType));
  return response;
}

}  // namespace lambent::frontend
