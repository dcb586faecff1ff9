#include "edge/frontend/cross_origin.h"

#include <algorithm>

namespace lambent::frontend {
namespace {

constexpr std::string_view kAskedMethod = "Access-Control-Request-Method";
constexpr std::string_view kAskedHeaders = "Access-Control-Request-Headers";
constexpr size_t kMostAskedHeaders = 4096;

Error refused(const std::string& message) { return {ErrorCode::kPermissionDenied, message}; }

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Names of headers, as a browser lists them.
bool is_list_of_names(std::string_view text) {
  return text.size() <= kMostAskedHeaders && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  c == '-' || c == '_' || c == ',' || c == ' ';
         });
}

bool has_any(const std::vector<std::string>& list) {
  return std::ranges::find(list, "*") != list.end();
}

bool may_send(const Cors& cors, std::string_view method) {
  if (cors.allow_methods.empty()) return method == "GET" || method == "HEAD" || method == "POST";
  return allows_method(cors, method) || (method == "HEAD" && allows_method(cors, "GET"));
}

void add_origin(const Cors& cors, const http::Request& request, http::Headers& headers) {
  const bool any = has_any(cors.allow_origins);
  headers.add("Access-Control-Allow-Origin",
              any ? std::string("*") : std::string(request.headers.get("Origin")));
  if (!any) headers.add("Vary", "Origin");
  if (cors.allow_credentials) headers.add("Access-Control-Allow-Credentials", "true");
}

}  // namespace

bool is_preflight(const http::Request& request) {
  return request.method == "OPTIONS" && request.headers.contains(kAskedMethod);
}

Result<void> check_cross_origin(const Cors& cors, const http::Request& request) {
  const auto origins = std::ranges::count_if(request.headers.fields(), [](const auto& field) {
    return http::same_name(field.first, "Origin");
  });
  const std::string_view origin = request.headers.get("Origin");
  if (origins != 1 || !allows_origin(cors, origin)) {
    return refused(
        "web pages of this origin may not call this function; its url.cors says which "
        "may");
  }
  const std::string_view method =
      is_preflight(request) ? request.headers.get(kAskedMethod) : request.method;
  if (!may_send(cors, method)) {
    return refused(
        "web pages of other origins may not send this method to this function; its "
        "url.cors says which they may");
  }
  return {};
}

http::Response preflight_answer(const Cors& cors, const http::Request& request) {
  http::Response response;
  response.status = 204;
  add_origin(cors, request, response.headers);
  // What is asked for was allowed; "*" itself would mean nothing with credentials.
  if (has_any(cors.allow_methods)) {
    response.headers.add("Access-Control-Allow-Methods",
                         std::string(request.headers.get(kAskedMethod)));
  } else if (!cors.allow_methods.empty()) {
    response.headers.add("Access-Control-Allow-Methods", joined(cors.allow_methods));
  }
  const std::string_view asked = request.headers.get(kAskedHeaders);
  if (!has_any(cors.allow_headers)) {
    if (!cors.allow_headers.empty()) {
      response.headers.add("Access-Control-Allow-Headers", joined(cors.allow_headers));
    }
  } else if (!asked.empty() && is_list_of_names(asked)) {
    response.headers.add("Access-Control-Allow-Headers", std::string(asked));
  }
  if (cors.max_age_s > 0) {
    response.headers.add("Access-Control-Max-Age",
                         std::to_string(static_cast<int>(cors.max_age_s)));
  }
  return response;
}

http::Headers cross_origin_headers(const Cors& cors, const http::Request& request) {
  http::Headers headers;
  if (!allows_origin(cors, request.headers.get("Origin"))) return headers;
  add_origin(cors, request, headers);
  if (!cors.expose_headers.empty()) {
    headers.add("Access-Control-Expose-Headers", joined(cors.expose_headers));
  }
  return headers;
}

}  // namespace lambent::frontend
