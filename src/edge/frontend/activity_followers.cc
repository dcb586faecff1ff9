#include "edge/frontend/activity_followers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "edge/frontend/activity_json.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_json.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr Duration kEventInterval = seconds(1);
// In each event, so that it costs the loop little and a slow client is soon sent all of it.
constexpr size_t kMostLive = 50;
constexpr size_t kMostEnded = 500;
constexpr size_t kMostSandboxes = 500;
// Functions that are looked at in a second; with more of them a change is told later.
constexpr size_t kMostFunctions = 2'000;

std::string event(const char* name, const json& data) {
  return std::string("event: ") + name + "\ndata: " + to_text(data) + "\n\n";
}

bool was_called(const FunctionActivity& one) {
  return one.queued + one.running + one.cold + one.gpu_cold + one.warm + one.failed + one.refused >
         0;
}

template <typename T>
json list(const std::vector<T>& values) {
  json array = json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return array;
}

}  // namespace

ActivityFollowers::~ActivityFollowers() {
  if (scheduled_) uses_.loop.cancel(timer_);
}

bool ActivityFollowers::add(TenantId tenant, std::function<bool()> may_read,
                            http::Responder& responder) {
  const auto of_tenant = std::ranges::count_if(
      followers_, [&](const auto& each) { return each.second.tenant == tenant; });
  if (static_cast<size_t>(of_tenant) >= kActivityFollowersPerTenant) return false;
  if (followers_.size() >= kActivityFollowers) return false;
  http::Response head;
  head.headers.add("Content-Type", "text/event-stream; charset=utf-8");
  head.headers.add("Cache-Control", "no-store");
  auto left = std::make_shared<bool>(false);
  responder.on_disconnect([left] { *left = true; });
  responder.start_chunked(std::move(head));
  if (!channels_.contains(tenant)) {
    // What was before is asked for by the client itself; events tell what is new.
    Channel& channel = channels_[tenant];
    const auto last = uses_.activity.ended(tenant, {.limit = 1});
    if (!last.empty()) channel.last_ended = last.front().sequence;
    auto page = uses_.activity.functions(tenant, "", kMostFunctions);
    channel.knows_all = page.size() < kMostFunctions;
    for (FunctionActivity& each : page) {
      std::string name = each.name;
      channel.functions.emplace(std::move(name), std::move(each));
    }
  }
  Follower follower{tenant, std::move(may_read), std::move(responder), std::move(left)};
  if (serve(follower, state_event(tenant))) followers_.emplace(next_++, std::move(follower));
  schedule();
  return true;
}

void ActivityFollowers::schedule() {
  if (scheduled_ || followers_.empty()) return;
  scheduled_ = true;
  timer_ = uses_.loop.call_after(kEventInterval, [this] {
    scheduled_ = false;
    serve_all();
    schedule();
  });
}

void ActivityFollowers::serve_all() {
  std::map<TenantId, std::string> events;
  for (auto& [tenant, channel] : channels_) {
    const bool is_followed = std::ranges::any_of(
        followers_, [&](const auto& each) { return each.second.tenant == tenant; });
    if (is_followed) events[tenant] = events_of(tenant, channel);
  }
  for (auto follower = followers_.begin(); follower != followers_.end();) {
    const bool goes_on = serve(follower->second, events[follower->second.tenant]);
    follower = goes_on ? std::next(follower) : followers_.erase(follower);
  }
  std::erase_if(channels_, [&](const auto& channel) {
    return std::ranges::none_of(
        followers_, [&](const auto& each) { return each.second.tenant == channel.first; });
  });
}

bool ActivityFollowers::serve(Follower& follower, const std::string& events) {
  if (*follower.left) return false;
  if (!follower.may_read() || !uses_.ready()) {
    follower.responder.finish_chunked();
    return false;
  }
  return follower.responder.send_chunk(events);
}

std::string ActivityFollowers::events_of(TenantId tenant, Channel& channel) const {
  return state_event(tenant) + functions_event(tenant, channel) + ended_event(tenant, channel);
}

std::string ActivityFollowers::state_event(TenantId tenant) const {
  std::vector<SandboxStatus> sandboxes = uses_.invocations.sandbox_status(tenant, Metering::kMemory);
  const size_t all_sandboxes = sandboxes.size();
  if (sandboxes.size() > kMostSandboxes) sandboxes.resize(kMostSandboxes);
  json state = {{"at", to_seconds(uses_.loop.clock().wall_now())},
                {"live", list(uses_.activity.live(tenant, kMostLive))},
                {"gpu_runs", list(uses_.activity.gpu_runs(tenant))},
                {"all_sandboxes", all_sandboxes}};
  state.update(json::parse(sandbox_list(sandboxes)));
  if (uses_.devices) state.update(json::parse(uses_.devices()));
  if (uses_.slices)
    state["slices"] = json::parse(uses_.slices(tenant)).value("slices", json::array());
  return event("state", state);
}

// Empty if none changed.
std::string ActivityFollowers::functions_event(TenantId tenant, Channel& channel) const {
  const auto page = uses_.activity.functions(tenant, channel.walked_to, kMostFunctions);
  const bool is_last = page.size() < kMostFunctions;
  json changed = json::array();
  json removed = json::array();
  auto known = channel.functions.upper_bound(channel.walked_to);
  const auto remove_until = [&](const std::string* name) {
    while (known != channel.functions.end() && (name == nullptr || known->first < *name)) {
      removed.push_back(known->first);
      known = channel.functions.erase(known);
    }
  };
  for (const FunctionActivity& each : page) {
    remove_until(&each.name);
    if (known != channel.functions.end() && known->first == each.name) {
      if (known->second != each) changed.push_back(to_json(each));
      known->second = each;
      ++known;
      continue;
    }
    // On the first way along many, those that were never called are in what the client asked for.
    if (channel.knows_all || was_called(each)) changed.push_back(to_json(each));
    channel.functions.emplace_hint(known, each.name, each);
  }
  if (is_last) {
    remove_until(nullptr);
    channel.knows_all = true;
  }
  channel.walked_to = is_last ? "" : page.back().name;
  if (changed.empty() && removed.empty()) return "";
  return event("functions", {{"functions", std::move(changed)}, {"removed", std::move(removed)}});
}

std::string ActivityFollowers::ended_event(TenantId tenant, Channel& channel) const {
  const auto ended =
      uses_.activity.ended(tenant, {.after = channel.last_ended, .limit = kMostEnded});
  if (ended.empty()) return "";
  // Those between are the oldest of what came; their functions' counts have them.
  const uint64_t missed = ended.back().sequence - channel.last_ended - 1;
  channel.last_ended = ended.front().sequence;
  return event("ended", {{"invocations", list(ended)}, {"missed", missed}});
}

}  // namespace lambent::frontend
