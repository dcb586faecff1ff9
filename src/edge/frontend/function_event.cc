#include "edge/frontend/function_event.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/base64.h"
#include "core/base/json_text.h"
#include "core/base/log.h"
#include "core/base/utf8.h"
#include "core/http/authority.h"
#include "core/http/hop_by_hop.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/limits.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr std::string_view kEndOfPrelude = std::string_view("\0\0\0\0\0\0\0\0", 8);
constexpr int kLeastStatus = 200;  // what is below is no end of a request
constexpr int kMostStatus = 599;

Error no_response(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool is_text(const http::Headers& headers) {
  if (!headers.get("Content-Encoding").empty()) return false;
  const std::string_view header = headers.get("Content-Type");
  std::string type = lower(header.substr(0, header.find(';')));
  while (type.ends_with(' ')) type.pop_back();
  return type.starts_with("text/") || type == "application/json" ||
         type == "application/javascript" || type == "application/xml" || type.ends_with("+json") ||
         type.ends_with("+xml");
}

std::string without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return std::string(text);
}

json cookies_of(const http::Headers& headers) {
  json cookies = json::array();
  for (const auto& [name, value] : headers.fields()) {
    if (!http::same_name(name, "Cookie")) continue;
    std::string_view left = value;
    while (!left.empty()) {
      const std::string_view one = left.substr(0, left.find(';'));
      left.remove_prefix(std::min(one.size() + 1, left.size()));
      if (std::string cookie = without_spaces(one); !cookie.empty())
        cookies.push_back(std::move(cookie));
    }
  }
  return cookies;
}

// In small letters; several of one name are one, in order.
json headers_of(const http::Headers& headers) {
  json object = json::object();
  for (const auto& [name, value] : headers.fields()) {
    if (http::same_name(name, "Cookie")) continue;
    const std::string key = lower(name);
    if (object.contains(key)) {
      object[key] = object[key].get<std::string>() + "," + value;
    } else {
      object[key] = value;
    }
  }
  return object;
}

std::string query_text(std::string_view encoded) {
  std::string spaced(encoded);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  std::string decoded;
  return http::percent_decode(spaced, decoded) ? decoded : std::string(encoded);
}

json parameters_of(std::string_view query) {
  json object = json::object();
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string name = query_text(pair.substr(0, equals));
    const std::string value = query_text(pair.substr(std::min(equals + 1, pair.size())));
    if (object.contains(name)) {
      object[name] = object[name].get<std::string>() + "," + value;
    } else {
      object[name] = value;
    }
  }
  return object;
}

// 12/Mar/2020:19:03:58 +0000
std::string time_text(Duration since_epoch) {
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count();
  tm parts{};
  gmtime_r(&seconds, &parts);
  char day[16];
  char rest[48];
  (void)strftime(day, sizeof day, "%d/", &parts);
  (void)strftime(rest, sizeof rest, "/%Y:%H:%M:%S +0000", &parts);
  return day + std::string(kMonths[static_cast<size_t>(parts.tm_mon)]) + rest;
}

std::string address_of(const http::Peer& peer) {
  std::string address =
      peer.address.substr(0, std::min(peer.address.rfind(':'), peer.address.size()));
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  return address;
}

json context_of(const EventRequest& from, const std::string& path) {
  const http::Request& request = from.request;
  const auto host = http::parse_authority(request.headers.get("Host"));
  const std::string domain = host ? host->host : "localhost";
  return {{"accountId", "anonymous"},
          {"apiId", from.function},
          {"domainName", domain},
          {"domainPrefix", domain.substr(0, domain.find('.'))},
          {"http",
           {{"method", request.method},
            {"path", path},
            {"protocol", "HTTP/1.1"},
            {"sourceIp", address_of(request.peer)},
            {"userAgent", request.headers.get("User-Agent")}}},
          {"requestId", to_string(from.id)},
          {"routeKey", "$default"},
          {"stage", "$default"},
          {"time", time_text(from.time)},
          {"timeEpoch", std::chrono::duration_cast<milliseconds>(from.time).count()}};
}

bool is_token(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool is_field_text(std::string_view value) {
  return std::none_of(value.begin(), value.end(),
                      [](unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; });
}

// Lambda takes numbers in texts too.
std::optional<int> status_from(const json& value) {
  int status = 0;
  if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    if (number < kLeastStatus || number > kMostStatus) return std::nullopt;
    status = static_cast<int>(number);
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() != 3 || !std::all_of(text.begin(), text.end(),
                                         [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return std::nullopt;
    }
    status = std::stoi(text);
  }
  return status >= kLeastStatus && status <= kMostStatus ? std::optional(status) : std::nullopt;
}

std::optional<std::string> field_value_from(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

const json* find(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// statusCode, headers and cookies of `object`.
Result<http::Response> read_head(const json& object) {
  http::Response response;
  const json* code = find(object, "statusCode");
  const auto status = code != nullptr ? status_from(*code) : std::nullopt;
  if (!status) return no_response("statusCode is not a number from 200 to 599");
  response.status = *status;
  if (const json* headers = find(object, "headers")) {
    if (!headers->is_object()) return no_response("headers is no object");
    for (const auto& [name, value] : headers->items()) {
      const auto text = field_value_from(value);
      if (!is_token(name) || !text || !is_field_text(*text)) {
        return no_response("one of the headers has no valid name or value");
      }
      response.headers.add(name, *text);
    }
  }
  response.headers = http::end_to_end(response.headers);
  if (const json* cookies = find(object, "cookies")) {
    if (!cookies->is_array()) return no_response("cookies is no array");
    for (const json& cookie : *cookies) {
      if (!cookie.is_string() || !is_field_text(cookie.get_ref<const std::string&>())) {
        return no_response("one of the cookies is not valid text");
      }
      response.headers.add("Set-Cookie", cookie.get<std::string>());
    }
  }
  return response;
}

Result<std::string> read_body(const json& object) {
  const json* encoded = find(object, "isBase64Encoded");
  if (encoded != nullptr && !encoded->is_boolean())
    return no_response("isBase64Encoded is not a boolean");
  const json* body = find(object, "body");
  if (body == nullptr) return std::string();
  if (!body->is_string()) return no_response("body is no text");
  if (encoded == nullptr || !encoded->get<bool>()) return body->get<std::string>();
  auto decoded = base64_decode(body->get_ref<const std::string&>());
  if (!decoded) return no_response("body is no base64");
  return std::move(*decoded);
}

}  // namespace

std::string event_of(const EventRequest& from) {
  const http::Request& request = from.request;
  const std::string path(http::path_of(request.target));
  const std::string query(http::query_of(request.target));
  json event = {{"version", "2.0"},
                {"routeKey", "$default"},
                {"rawPath", path},
                {"rawQueryString", query},
                {"headers", headers_of(request.headers)},
                {"requestContext", context_of(from, path)}};
  if (json cookies = cookies_of(request.headers); !cookies.empty()) {
    event["cookies"] = std::move(cookies);
  }
  if (!query.empty()) event["queryStringParameters"] = parameters_of(query);
  const bool as_text = is_text(request.headers) && is_utf8(request.body);
  const bool in_base64 = !request.body.empty() && !as_text;
  event["isBase64Encoded"] = in_base64;
  std::string text = json_text(event);
  if (request.body.empty()) return text;
  // A body of megabytes is no work for a JSON library.
  text.pop_back();
  text += R"(,"body":")";
  text += in_base64 ? base64_encode(request.body) : json_escape(request.body);
  text += "\"}";
  return text;
}

Result<http::Response> response_of_result(std::string_view payload) {
  auto parsed = parse_json(payload);
  if (!parsed.ok()) return parsed.error();
  const bool says_response = parsed->is_object() && parsed->contains("statusCode");
  http::Response response;
  if (says_response) {
    ASSIGN_OR_RETURN(response, read_head(*parsed));
    ASSIGN_OR_RETURN(response.body, read_body(*parsed));
  } else if (parsed->is_string()) {
    response.body = parsed->get<std::string>();
  } else {
    response.body = payload;
  }
  if (!response.headers.contains("Content-Type") && !response.body.empty()) {
    response.headers.add("Content-Type", "application/json");
  }
  return response;
}

StreamedHead::StreamedHead(std::string_view content_type)
    : is_known_(
          !http::same_name(content_type.substr(0, content_type.find(';')), kIntegrationResponse)) {
  if (!is_known_) return;
  response_.headers.add("Content-Type", content_type.empty() ? "application/octet-stream"
                                                             : std::string(content_type));
}

Result<bool> StreamedHead::feed(std::string_view& bytes) {
  if (is_known_) return true;
  const size_t before = text_.size();
  const size_t room = limits::kStreamPrelude.count + kEndOfPrelude.size() - before;
  const std::string_view taken = bytes.substr(0, room);
  text_ += taken;
  const size_t from = before < kEndOfPrelude.size() ? 0 : before - kEndOfPrelude.size() + 1;
  const size_t end = text_.find(kEndOfPrelude, from);
  if (end == std::string::npos) {
    bytes.remove_prefix(taken.size());
    if (taken.size() < room) return false;
    return no_response("the head before the streamed body has no end within " +
                       to_string(limits::kStreamPrelude));
  }
  bytes.remove_prefix(end + kEndOfPrelude.size() - before);
  text_.resize(end);
  ASSIGN_OR_RETURN(json head, parse_json(std::exchange(text_, {})));
  if (!head.is_object()) return no_response("the head before the streamed body is no object");
  if (!head.contains("statusCode")) head["statusCode"] = 200;
  ASSIGN_OR_RETURN(response_, read_head(head));
  if (!response_.headers.contains("Content-Type")) {
    response_.headers.add("Content-Type", "application/octet-stream");
  }
  is_known_ = true;
  return true;
}

}  // namespace lambent::frontend
