#include "edge/frontend/native_path.h"

#include <algorithm>
#include <charconv>

#include "edge/frontend/native_error.h"

namespace lambent::frontend {

std::optional<std::vector<std::string>> path_parts(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t slash = std::min(path.find('/'), path.size());
    std::string part;
    if (!http::percent_decode(path.substr(0, slash), part)) return std::nullopt;
    parts.push_back(std::move(part));
    path.remove_prefix(slash);
  }
  if (parts.size() < 2) return std::nullopt;
  return parts;
}

bool has_query(std::string_view query, std::string_view name) {
  std::string decoded;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (http::percent_decode(pair.substr(0, pair.find('=')), decoded) && decoded == name) {
      return true;
    }
  }
  return false;
}

Result<bool> flag_in(std::string_view query, std::string_view name) {
  if (!has_query(query, name)) return false;
  const std::string value = http::query_value(query, name);
  if (value == "0" || value == "1") return value == "1";
  return Error{ErrorCode::kInvalidArgument, std::string(name) + " must be 0 or 1"};
}

Result<size_t> page_limit(std::string_view query, size_t most) {
  if (!has_query(query, "limit")) return most;
  const std::string text = http::query_value(query, "limit");
  uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  // More than there are on a page is a page, however much more.
  if (code == std::errc::result_out_of_range) number = most;
  if (code == std::errc::invalid_argument || end != text.data() + text.size() || number == 0) {
    return Error{ErrorCode::kInvalidArgument, "limit is a number above 0"};
  }
  return std::min<size_t>(number, most);
}

http::Response no_such_path(std::string_view path) {
  std::string shown;
  for (const char c : path.substr(0, 200)) shown += c >= ' ' && c < 127 ? c : '?';
  return error_response(Error{ErrorCode::kNotFound, "there is nothing at " + shown});
}

http::Response method_not_allowed(std::string_view method, const char* allowed) {
  http::Response response = error_response(Error{
      ErrorCode::kUnimplemented, std::string(method) + " is not allowed here; use " + allowed});
  response.status = 405;
  response.headers.add("Allow", allowed);
  return response;
}

}  // namespace lambent::frontend
