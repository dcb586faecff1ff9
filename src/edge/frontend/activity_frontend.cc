#include "edge/frontend/activity_frontend.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/base/json_text.h"
#include "edge/frontend/activity_json.h"
#include "edge/frontend/activity_merge.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_json.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

http::Response json_answer(const json& body) {
  http::Response response;
  response.headers.add("Content-Type", "application/json");
  response.body = json_text(body);
  return response;
}

std::string with_limit(const char* path, size_t limit) {
  return std::string("/v1/activity/") + path + "?limit=" + std::to_string(limit);
}

std::string with_function(std::string target, const std::string& function) {
  return function.empty() ? target : target + "&function=" + http::percent_encode(function);
}

// What another node is asked for a call that this node answers for all.
std::string target_of(const ListFunctionActivity& call, const std::string&) {
  return with_limit("functions", call.limit) +
         "&latencies=1&after=" + http::percent_encode(call.after);
}
std::string target_of(const ReadFunctionActivity& call, const std::string&) {
  return "/v1/activity/functions/" + http::percent_encode(call.function);
}
std::string target_of(const ListEnded& call, const std::string& node) {
  const EndedQuery query = call.query_at(node);
  return with_function(with_limit("invocations", call.limit), call.function) +
         "&after=" + std::to_string(query.after) +
         (query.before == 0 ? "" : "&before=" + std::to_string(query.before));
}
std::string target_of(const ListLive& call, const std::string&) {
  return with_function(with_limit("live", call.limit), call.function);
}
std::string target_of(const ReadEnded& call, const std::string&) {
  return "/v1/activity/invocations/" + to_string(call.invocation);
}

// A call for which what others have is added to what this node has must be good here, too.
template <typename Call>
constexpr bool kMayBeElsewhere = std::is_same_v<Call, ReadEnded>;

// Own rows and those of others as one, in the form that this node's own have.
Result<json> merged(const ListFunctionActivity& call, NodeAnswer own, const NodeAnswers& others) {
  FiguresPage page{.rows = {}, .next = own.body.value("next", "")};
  for (const json& row : own.body["functions"]) page.rows.push_back(read_figures(row));
  page = merge_functions(std::move(page), others.answers);
  json body = {{"functions", json::array()}};
  for (const FunctionFigures& each : page.rows) {
    json row = to_json(each.activity);
    if (call.with_latencies) row["latency_buckets_ms"] = to_json(each.latencies);
    body["functions"].push_back(std::move(row));
  }
  if (!page.next.empty()) body["next"] = page.next;
  return body;
}

Result<json> merged(const ReadFunctionActivity&, NodeAnswer own, const NodeAnswers& others) {
  return merge_function(own, others.answers);
}

std::vector<NodeAnswer> with_own(NodeAnswer own, const NodeAnswers& others) {
  std::vector<NodeAnswer> all = others.answers;
  all.push_back(std::move(own));
  std::ranges::sort(all, {}, &NodeAnswer::node);
  return all;
}

Result<json> merged(const ListEnded& call, NodeAnswer own, const NodeAnswers& others) {
  return merge_ended(with_own(std::move(own), others), call.before, call.limit);
}

Result<json> merged(const ListLive& call, NodeAnswer own, const NodeAnswers& others) {
  return merge_live(with_own(std::move(own), others), call.limit);
}

Result<json> merged(const ReadEnded& call, NodeAnswer own, const NodeAnswers& others) {
  json last = last_ended(with_own(std::move(own), others));
  if (!last.is_null()) return last;
  const std::string which = "invocation " + to_string(call.invocation);
  if (others.silent.empty()) {
    return Error{ErrorCode::kNotFound, which + " is not remembered, or there never was one"};
  }
  return Error{ErrorCode::kUnavailable, "no node that answers remembers " + which + ", and node '" +
                                            others.silent.front() +
                                            "', which may, does not answer; try again later"};
}

}  // namespace

void ActivityFrontend::handle(const Caller& caller, const http::Request& request,
                              http::Responder responder) {
  ActivityCall call = decode_activity_call(request);
  if (const auto* refused = std::get_if<http::Response>(&call)) return responder.send(*refused);
  if (std::holds_alternative<FollowActivity>(call)) return follow(caller, std::move(responder));
  bool only_here = asks_only_here(request);
  if (auto* ended = std::get_if<ListEnded>(&call)) {
    // A number is a place of this node, which says nothing of others.
    ended->is_unnamed = ended->after.is_unnamed() || ended->before.is_unnamed();
    only_here = only_here || ended->is_unnamed;
    ended->after.name_own(others_.self());
    ended->before.name_own(others_.self());
  }
  std::visit(
      [&](auto& one) {
        if constexpr (requires { own(caller.tenant, one); }) {
          answer(caller.tenant, std::move(one), only_here, std::move(responder));
        }
      },
      call);
}

template <typename Call>
void ActivityFrontend::answer(TenantId tenant, Call call, bool only_here,
                              http::Responder responder) const {
  const bool asks_all = !only_here && others_.are_there();
  Call asked = call;
  if constexpr (std::is_same_v<Call, ListFunctionActivity>) asked.with_latencies |= asks_all;
  auto mine = own(tenant, asked);
  if (!mine.ok() && (!asks_all || !kMayBeElsewhere<Call>)) {
    return responder.send(error_response(mine.error()));
  }
  if (!asks_all) return responder.send(json_answer(*mine));
  // Shared because a callback must be copyable.
  struct Held {
    Call call;
    NodeAnswer own;
    http::Responder responder;
  };
  auto held = std::make_shared<Held>(Held{std::move(call),
                                          {others_.self(), mine.ok() ? *std::move(mine) : json()},
                                          std::move(responder)});
  ask_others(
      others_, tenant, [&held](const std::string& node) { return target_of(held->call, node); },
      [held](const NodeAnswers& others) {
        auto body = merged(held->call, std::move(held->own), others);
        if (!body.ok()) return held->responder.send(error_response(body.error()));
        (*body)["silent_nodes"] = others.silent;
        held->responder.send(json_answer(*body));
      });
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

Result<json> ActivityFrontend::own(TenantId tenant, const ListFunctionActivity& call) const {
  auto page = activity_.functions(tenant, call.after, call.limit + 1);
  json body = {{"functions", json::array()}};
  if (page.size() > call.limit) {
    page.resize(call.limit);
    body["next"] = page.back().name;
  }
  for (const FunctionActivity& each : page) {
    json row = to_json(each);
    if (call.with_latencies) {
      row["latency_buckets_ms"] = to_json(activity_.latencies({tenant, each.name}));
    }
    body["functions"].push_back(std::move(row));
  }
  return body;
}

Result<json> ActivityFrontend::own(TenantId tenant, const ReadFunctionActivity& call) const {
  const FunctionName name{tenant, call.function};
  const auto spec = invocations_.find_function(name);
  if (!spec.ok()) return spec.error();
  const auto activity = activity_.function(name);
  if (!activity.ok()) return activity.error();
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
  return body;
}

Result<json> ActivityFrontend::own(TenantId tenant, const ListEnded& call) const {
  json body = {{"invocations", json::array()}};
  const std::string self = others_.self();
  const auto found = activity_.ended(tenant, call.query_at(self));
  for (const EndedInvocation& each : found) body["invocations"].push_back(to_json(each));
  const auto newest = activity_.ended(tenant, {.limit = 1});
  body["newest"] = newest.empty() ? 0 : newest.front().sequence;
  if (found.size() < call.limit) return body;
  NodeCursor next = call.before;
  next.set(self, found.back().sequence);
  body["next"] = call.is_unnamed ? next.text_for(self) : next.text();
  return body;
}

Result<json> ActivityFrontend::own(TenantId tenant, const ListLive& call) const {
  json body = {{"invocations", json::array()}, {"gpu_runs", json::array()}};
  for (const LiveInvocationStatus& each :
       activity_.live(tenant, std::numeric_limits<size_t>::max())) {
    if (!call.function.empty() && call.function != each.function) continue;
    if (body["invocations"].size() == call.limit) break;
    body["invocations"].push_back(to_json(each));
  }
  for (const GpuRun& run : activity_.gpu_runs(tenant)) {
    body["gpu_runs"].push_back(to_json(run));
  }
  return body;
}

Result<json> ActivityFrontend::own(TenantId tenant, const ReadEnded& call) const {
  const auto ended = activity_.ended(tenant, call.invocation);
  if (!ended.ok()) return ended.error();
  return to_json(*ended);
}

}  // namespace lambent::frontend
