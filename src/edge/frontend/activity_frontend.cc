#include "edge/frontend/activity_frontend.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "edge/frontend/activity_json.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_json.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

http::Response json_answer(const json& body) {
  http::Response response;
  response.headers.add("Content-Type", "application/json");
  response.body = to_text(body);
  return response;
}

}  // namespace

void ActivityFrontend::handle(const Caller& caller, const http::Request& request,
                              http::Responder responder) {
  const ActivityCall call = decode_activity_call(request);
  if (const auto* refused = std::get_if<http::Response>(&call)) return responder.send(*refused);
  if (std::holds_alternative<FollowActivity>(call)) return follow(caller, std::move(responder));
  responder.send(std::visit(
      [&](const auto& one) {
        if constexpr (requires { answer(caller, one); }) return answer(caller, one);
        return http::Response();
      },
      call));
}

void ActivityFrontend::follow(const Caller& caller, http::Responder responder) {
  std::function<bool()> may_read = [] { return true; };
  if (!caller.token.empty() && token_is_good_) {
    may_read = [this, token = caller.token] { return token_is_good_(token); };
  }
  if (followers_.add(caller.tenant, std::move(may_read), responder)) return;
  responder.send(error_response(Error{ErrorCode::kResourceExhausted,
                                      "too many clients follow the events of this worker; close a "
                                      "dashboard, or read /v1/activity/functions"}));
}

http::Response ActivityFrontend::answer(const Caller& caller,
                                        const ListFunctionActivity& call) const {
  auto page = activity_.functions(caller.tenant, call.after, call.limit + 1);
  json body = {{"functions", json::array()}};
  if (page.size() > call.limit) {
    page.resize(call.limit);
    body["next"] = page.back().name;
  }
  for (const FunctionActivity& each : page) body["functions"].push_back(to_json(each));
  return json_answer(body);
}

http::Response ActivityFrontend::answer(const Caller& caller,
                                        const ReadFunctionActivity& call) const {
  const FunctionName name{caller.tenant, call.function};
  const auto spec = invocations_.find_function(name);
  if (!spec.ok()) return error_response(spec.error());
  const auto activity = activity_.function(name);
  if (!activity.ok()) return error_response(activity.error());
  FunctionStatus status{.spec = *spec,
                        .queued = activity->queued,
                        .running = activity->running,
                        .completed = activity->cold + activity->gpu_cold + activity->warm,
                        .sandboxes = activity->sandboxes};
  json settings = json::parse(function_list({std::move(status)}, ""));
  json body = {{"activity", to_json(*activity)},
               {"latency_buckets_ms", to_json(activity_.latencies(name))},
               {"function", std::move(settings["functions"][0])},
               {"graph", nullptr}};
  if (const auto graph = activity_.graph(name); graph.ok()) body["graph"] = to_json(*graph);
  return json_answer(body);
}

http::Response ActivityFrontend::answer(const Caller& caller, const ListEnded& call) const {
  json body = {{"invocations", json::array()}};
  for (const EndedInvocation& each : activity_.ended(caller.tenant, call.query)) {
    body["invocations"].push_back(to_json(each));
  }
  return json_answer(body);
}

http::Response ActivityFrontend::answer(const Caller& caller, const ListLive& call) const {
  json body = {{"invocations", json::array()}, {"gpu_runs", json::array()}};
  for (const LiveInvocationStatus& each :
       activity_.live(caller.tenant, std::numeric_limits<size_t>::max())) {
    if (!call.function.empty() && call.function != each.function) continue;
    if (body["invocations"].size() == call.limit) break;
    body["invocations"].push_back(to_json(each));
  }
  for (const GpuRun& run : activity_.gpu_runs(caller.tenant)) {
    body["gpu_runs"].push_back(to_json(run));
  }
  return json_answer(body);
}

http::Response ActivityFrontend::answer(const Caller& caller, const ReadEnded& call) const {
  const auto ended = activity_.ended(caller.tenant, call.invocation);
  return ended.ok() ? json_answer(to_json(*ended)) : error_response(ended.error());
}

}  // namespace lambent::frontend
