#include "frontend/native_call.h"

#include <charconv>
#include <optional>
#include <vector>

#include "frontend/native_error.h"

namespace lambent::frontend {
namespace {

http::Response no_such_path(std::string_view path) {
  std::string shown;
  for (const char c : path.substr(0, 200)) shown += c >= ' ' && c < 127 ? c : '?';
  return error_response(Error{ErrorCode::kNotFound, "there is nothing at " + shown});
}

http::Response method_not_allowed(std::string_view method) {
  http::Response response = error_response(
      Error{ErrorCode::kUnimplemented, std::string(method) + " is not allowed here; use GET"});
  response.status = 405;
  response.headers.add("Allow", "GET");
  return response;
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

NativeCall decode_log(std::string name, std::string_view query, const Caller& caller) {
  ReadLog call{.function = {caller.tenant, std::move(name)}};
  const std::string offset = http::query_value(query, "offset");
  if (!offset.empty()) {
    const auto number = parse_number(offset);
    if (!number.has_value()) {
      return error_response(
          Error{ErrorCode::kInvalidArgument, "offset must be a whole number of bytes"});
    }
    call.offset = *number;
  }
  const std::string follow = http::query_value(query, "follow");
  if (!follow.empty() && follow != "0" && follow != "1") {
    return error_response(Error{ErrorCode::kInvalidArgument, "follow must be 0 or 1"});
  }
  call.follow = follow == "1";
  return call;
}

NativeCall decode_result(std::string_view id, const Caller& caller) {
  const auto invocation = invocation_id_from_string(id);
  if (!invocation.has_value()) {
    return error_response(Error{ErrorCode::kInvalidArgument,
                                "the id of an invocation is a UUID, as in x-amzn-RequestId"});
  }
  return ReadResult{caller.tenant, *invocation};
}

// The parts of /v1/...; nothing if one is malformed.
std::optional<std::vector<std::string>> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t slash = std::min(path.find('/'), path.size());
    std::string part;
    if (!http::percent_decode(path.substr(0, slash), part)) return std::nullopt;
    parts.push_back(std::move(part));
    path.remove_prefix(slash);
  }
  return parts;
}

NativeCall decode_path(std::string_view path, std::string_view query, const Caller& caller) {
  if (path == "/livez" || path == "/healthz") return Livez();
  if (path == "/readyz") return Readyz();
  if (path == "/metrics") return GetMetrics();
  const auto parts = parts_of(path);
  if (!parts.has_value() || parts->size() < 2 || parts->front() != "v1") return no_such_path(path);
  const std::string& kind = parts->at(1);
  if (parts->size() == 2 && kind == "functions") return ListFunctionStatus{caller.tenant};
  if (parts->size() == 2 && kind == "sandboxes") return ListSandboxStatus{caller.tenant};
  if (parts->size() == 2 && kind == "version") return GetVersion();
  if (parts->size() == 3 && kind == "invocations") return decode_result(parts->at(2), caller);
  if (parts->size() == 4 && kind == "functions" && parts->at(3) == "log") {
    return decode_log(parts->at(2), query, caller);
  }
  return no_such_path(path);
}

}  // namespace

NativeCall decode_native_call(const http::Request& request, const Caller& caller) {
  NativeCall call =
      decode_path(http::path_of(request.target), http::query_of(request.target), caller);
  const bool is_call = !std::holds_alternative<http::Response>(call);
  if (is_call && request.method != "GET") return method_not_allowed(request.method);
  return call;
}

}  // namespace lambent::frontend
