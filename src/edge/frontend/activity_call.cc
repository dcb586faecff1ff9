#include "edge/frontend/activity_call.h"

#include <utility>

#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kActivity = "/v1/activity";

ActivityCall decode_ended(std::string_view query) {
  ListEnded call;
  call.function = http::query_value(query, "function");
  const auto limit = page_limit(query, kActivityPerPage);
  if (!limit.ok()) return error_response(limit.error());
  call.limit = *limit;
  for (const auto& [name, place] :
       {std::pair("after", &call.after), std::pair("before", &call.before)}) {
    auto cursor = NodeCursor::parse(http::query_value(query, name));
    if (!cursor.ok()) {
      return error_response(
          Error{ErrorCode::kInvalidArgument,
                std::string(name) +
                    " must be the number 'sequence' of an invocation, or what 'next' said"});
    }
    *place = *std::move(cursor);
  }
  return call;
}

}  // namespace

bool is_activity_path(std::string_view path) {
  return path.starts_with(kActivity) &&
         (path.size() == kActivity.size() || path[kActivity.size()] == '/');
}

ActivityCall decode_activity_call(const http::Request& request) {
  const std::string_view path = http::path_of(request.target);
  const std::string_view query = http::query_of(request.target);
  const auto parts = path_parts(path);
  if (!parts || parts->size() < 3 || parts->size() > 4) return no_such_path(path);
  if (request.method != "GET") return method_not_allowed(request.method, "GET");
  const std::string& kind = parts->at(2);
  const bool is_list = parts->size() == 3;
  if (kind == "events" && is_list) return FollowActivity();
  if (kind == "functions" && !is_list) return ReadFunctionActivity{parts->at(3)};
  if (kind == "functions") {
    const auto limit = page_limit(query, kActivityPerPage);
    if (!limit.ok()) return error_response(limit.error());
    const auto latencies = flag_in(query, "latencies");
    if (!latencies.ok()) return error_response(latencies.error());
    return ListFunctionActivity{http::query_value(query, "after"), *limit, *latencies};
  }
  if (kind == "live" && is_list) {
    const auto limit = page_limit(query, kActivityPerPage);
    if (!limit.ok()) return error_response(limit.error());
    return ListLive{http::query_value(query, "function"), *limit};
  }
  if (kind == "invocations" && is_list) return decode_ended(query);
  if (kind == "invocations") {
    const auto id = invocation_id_from_string(parts->at(3));
    if (id) return ReadEnded{*id};
    return error_response(
        Error{ErrorCode::kInvalidArgument,
              "the id of an invocation is a UUID, as 'lambent invoke' prints it"});
  }
  return no_such_path(path);
}

}  // namespace lambent::frontend
