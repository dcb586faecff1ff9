#include "edge/frontend/native_call.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/parse_number.h"
#include "edge/frontend/metrics_formats.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/submission.h"

namespace lambent::frontend {
namespace {

constexpr uint64_t kMostRepeats = 1'000;  // of a measurement
constexpr size_t kMostReason = 256;       // bytes of why a device is drained

NativeCall decode_functions(const http::Request& request, const Caller& caller) {
  const std::string_view query = http::query_of(request.target);
  const auto limit = page_limit(query, kFunctionStatusPerPage);
  if (!limit.ok()) return error_response(limit.error());
  return ListFunctionStatus{.tenant = caller.tenant,
                            .after = http::query_value(query, "after"),
                            .limit = *limit,
                            .only_here = asks_only_here(request)};
}

Result<ReadLog> read_log_query(std::string_view query) {
  ReadLog call;
  const std::string offset = http::query_value(query, "offset");
  call.at_end = offset == "end";
  auto from = NodeCursor::parse(call.at_end ? "" : offset);
  if (!from.ok()) {
    return Error{ErrorCode::kInvalidArgument,
                 "offset must be a whole number of bytes, what x-lambent-next-offset said, or end"};
  }
  call.from = *std::move(from);
  ASSIGN_OR_RETURN(call.follow, flag_in(query, "follow"));
  ASSIGN_OR_RETURN(call.form.shows_times, flag_in(query, "times"));
  const std::string format = http::query_value(query, "format");
  if (!format.empty() && format != "text" && format != "ndjson") {
    return Error{ErrorCode::kInvalidArgument, "format must be text or ndjson"};
  }
  call.form.is_json = format == "ndjson";
  return call;
}

NativeCall decode_log(const http::Request& request, std::string name, std::string_view query,
                      const Caller& caller) {
  auto call = read_log_query(query);
  if (!call.ok()) return error_response(call.error());
  call->function = {caller.tenant, std::move(name)};
  call->only_here = asks_only_here(request);
  return *std::move(call);
}

NativeCall decode_submit(const http::Request& request, std::string name, const Caller& caller) {
  SubmitInvocation submit;
  submit.request.function = {caller.tenant, std::move(name)};
  const auto read = read_submission(request, 1, submit.request);
  if (!read.ok()) return error_response(read.error());
  return submit;
}

NativeCall decode_measure(std::string name, std::string_view query, const Caller& caller) {
  MeasurePipeline call{.function = {caller.tenant, std::move(name)}};
  const std::string repeat = http::query_value(query, "repeat");
  if (repeat.empty()) return call;
  const auto number = parse_number<uint64_t>(repeat);
  if (!number || *number < 1 || *number > kMostRepeats) {
    return error_response(
        Error{ErrorCode::kInvalidArgument, "repeat must be 1 to " + std::to_string(kMostRepeats)});
  }
  call.repeat = static_cast<unsigned>(*number);
  return call;
}

// A value that cannot be decoded would count as absent.
bool is_decodable(std::string_view query) {
  std::string decoded;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    if (!http::percent_decode(query.substr(0, end), decoded)) return false;
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return true;
}

NativeCall decode_device_change(std::string gpu, bool drain, std::string_view query) {
  ChangeDevice call{std::move(gpu), drain, http::query_value(query, "reason")};
  const bool is_text = std::all_of(call.reason.begin(), call.reason.end(),
                                   [](unsigned char c) { return c >= ' ' && c != 127; });
  if (call.reason.size() > kMostReason || !is_text) {
    return error_response(Error{
        ErrorCode::kInvalidArgument,
        "reason must be at most " + std::to_string(kMostReason) + " bytes of text in one line"});
  }
  return call;
}

template <typename Call>
NativeCall decode_invocation(std::string_view id, const Caller& caller) {
  const auto invocation = invocation_id_from_string(id);
  if (!invocation.has_value()) {
    return error_response(
        Error{ErrorCode::kInvalidArgument,
              "the id of an invocation is a UUID, as 'lambent invoke --async' printed it "
              "(x-amzn-RequestId)"});
  }
  return Call{caller.tenant, *invocation};
}

NativeCall decode_path(const http::Request& request, const Caller& caller) {
  const std::string_view path = http::path_of(request.target);
  const std::string_view query = http::query_of(request.target);
  if (path == "/livez" || path == "/healthz") return Livez();
  if (path == "/readyz") {
    // Why it is not is told to who may use the worker.
    return Readyz{query.starts_with("verbose") && !caller.scopes.empty()};
  }
  if (path == "/metrics") {
    GetMetrics call{.openmetrics = wants_openmetrics(request.headers.get("Accept"))};
    if (!caller.scopes.has(Scope::kAdmin)) call.tenant = caller.tenant;
    return call;
  }
  const auto parts = path_parts(path);
  if (!parts.has_value() || parts->front() != "v1") return no_such_path(path);
  const std::string& kind = parts->at(1);
  if (parts->size() == 2 && kind == "functions") {
    return decode_functions(request, caller);
  }
  if (parts->size() == 2 && kind == "sandboxes") {
    const auto limit = page_limit(query, SIZE_MAX);
    if (!limit.ok()) return error_response(limit.error());
    return ListSandboxStatus{caller.tenant, asks_only_here(request), *limit};
  }
  if (parts->size() == 2 && kind == "schedules") {
    return ListSchedules{caller.tenant, asks_only_here(request)};
  }
  if (parts->size() == 2 && kind == "slices") return ListSlices{caller.tenant};
  if (parts->size() == 2 && kind == "devices") {
    return ListDevices{caller.tenant, asks_only_here(request)};
  }
  if (parts->size() == 4 && kind == "devices" &&
      (parts->at(3) == "drain" || parts->at(3) == "undrain")) {
    if (request.method != "POST") return method_not_allowed(request.method, "POST");
    return decode_device_change(parts->at(2), parts->at(3) == "drain", query);
  }
  if (parts->size() == 2 && kind == "version") return GetVersion();
  if (parts->size() == 2 && kind == "settings") return GetSettings();
  if (parts->size() == 3 && kind == "invocations") {
    return decode_invocation<ReadResult>(parts->at(2), caller);
  }
  if (parts->size() == 4 && kind == "invocations" && parts->at(3) == "trace") {
    return decode_invocation<ReadTrace>(parts->at(2), caller);
  }
  if (parts->size() == 4 && kind == "invocations" && parts->at(3) == "cancel") {
    if (request.method != "POST") return method_not_allowed(request.method, "POST");
    return decode_invocation<CancelInvocation>(parts->at(2), caller);
  }
  // PUT is version_frontend's.
  if (parts->size() == 3 && kind == "functions") return method_not_allowed(request.method, "PUT");
  if (parts->size() == 4 && kind == "functions" && parts->at(3) == "log") {
    return decode_log(request, parts->at(2), query, caller);
  }
  if (parts->size() == 4 && kind == "functions" && parts->at(3) == "pipeline") {
    return DescribePipeline{{caller.tenant, parts->at(2)}};
  }
  if (parts->size() == 4 && kind == "functions" && parts->at(3) == "profile") {
    if (request.method != "POST") return method_not_allowed(request.method, "POST");
    return decode_measure(parts->at(2), query, caller);
  }
  if (parts->size() == 4 && kind == "functions" && parts->at(3) == "invocations") {
    if (request.method != "POST") return method_not_allowed(request.method, "POST");
    return decode_submit(request, parts->at(2), caller);
  }
  return no_such_path(path);
}

}  // namespace

NativeCall decode_native_call(const http::Request& request, const Caller& caller) {
  if (!is_decodable(http::query_of(request.target))) {
    return error_response(Error{ErrorCode::kInvalidArgument,
                                "the query has a '%' that is not followed by two hexadecimal "
                                "digits of a byte, or the byte 0"});
  }
  NativeCall call = decode_path(request, caller);
  const bool reads = !std::holds_alternative<http::Response>(call) &&
                     !std::holds_alternative<SubmitInvocation>(call) &&
                     !std::holds_alternative<ChangeDevice>(call) &&
                     !std::holds_alternative<CancelInvocation>(call) &&
                     !std::holds_alternative<MeasurePipeline>(call);
  // The server sends no body after HEAD, which probes and load balancers ask with.
  auto* log = std::get_if<ReadLog>(&call);
  if (log != nullptr && request.method == "HEAD") log->follow = false;
  const bool asks = request.method == "GET" || request.method == "HEAD";
  if (reads && !asks) return method_not_allowed(request.method, "GET, HEAD");
  return call;
}

}  // namespace lambent::frontend
