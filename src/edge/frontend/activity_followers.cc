#include "edge/frontend/activity_followers.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.h"
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
// The same where nodes are asked: as many as they give at once.
constexpr size_t kMostFunctionsOfAll = 500;

std::string event(const char* name, const json& data) {
  return std::string("event: ") + name + "\ndata: " + json_text(data) + "\n\n";
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

std::set<std::string> ActivityFollowers::Told::silent() const {
  std::set<std::string> names;
  for (const NodeAnswers* each : {&live, &functions, &ended, &sandboxes, &devices}) {
    names.insert(each->silent.begin(), each->silent.end());
  }
  return names;
}

ActivityFollowers::ActivityFollowers(Dependencies dependencies)
    : uses_(std::move(dependencies)), self_(std::make_shared<ActivityFollowers*>(this)) {}

ActivityFollowers::~ActivityFollowers() {
  *self_ = nullptr;
  if (scheduled_) uses_.loop.cancel(timer_);
}

bool ActivityFollowers::add(TenantId tenant, std::function<bool()> may_read,
                            http::Responder& responder) {
  forget_gone();
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
  const bool is_first = !channels_.contains(tenant);
  Channel& channel = channel_of(tenant);
  Follower follower{tenant, std::move(may_read), std::move(responder), std::move(left)};
  // At first what is here; that of other nodes comes with the next event.
  const Told nothing;
  const Told* told = uses_.others.are_there() ? &nothing : nullptr;
  const bool stays = serve(follower, state_event(tenant, told));
  if (stays) followers_.emplace(next_++, std::move(follower));
  // At once: what ends at another node from now on is after its place.
  if (stays && is_first && told != nullptr) ask_and_serve(tenant, channel);
  schedule();
  return true;
}

ActivityFollowers::Channel& ActivityFollowers::channel_of(TenantId tenant) {
  const auto [found, is_new] = channels_.try_emplace(tenant);
  Channel& channel = found->second;
  if (!is_new) return channel;
  channel.number = ++channels_made_;
  // What was before is asked for by the client itself; events tell what is new.
  const auto last = uses_.activity.ended(tenant, {.limit = 1});
  if (!last.empty()) channel.last_ended = last.front().sequence;
  auto page = uses_.activity.functions(tenant, "", kMostFunctions);
  channel.knows_all = page.size() < kMostFunctions;
  for (FunctionActivity& each : page) {
    std::string name = each.name;
    channel.functions.emplace(std::move(name), std::move(each));
  }
  return channel;
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

void ActivityFollowers::forget_gone() {
  std::erase_if(followers_, [](const auto& each) { return *each.second.left; });
  const auto is_followed = [this](TenantId tenant) {
    return std::ranges::any_of(followers_,
                               [&](const auto& each) { return each.second.tenant == tenant; });
  };
  std::erase_if(channels_, [&](const auto& channel) { return !is_followed(channel.first); });
}

void ActivityFollowers::serve_all() {
  forget_gone();
  for (auto& [tenant, channel] : channels_) {
    if (uses_.others.are_there()) {
      if (!channel.asks_others) ask_and_serve(tenant, channel);
    } else {
      serve(tenant, events_of(tenant, channel, nullptr));
    }
  }
}

void ActivityFollowers::serve(TenantId tenant, const std::string& events) {
  for (auto follower = followers_.begin(); follower != followers_.end();) {
    const bool stays = follower->second.tenant != tenant || serve(follower->second, events);
    follower = stays ? std::next(follower) : followers_.erase(follower);
  }
}

void ActivityFollowers::ask_and_serve(TenantId tenant, Channel& channel) {
  channel.asks_others = true;
  auto told = std::make_shared<Told>();
  auto left = std::make_shared<size_t>(1);
  const auto one_less = [self = self_, told, left, tenant, number = channel.number] {
    if (--*left > 0 || *self == nullptr) return;
    const auto found = (*self)->channels_.find(tenant);
    if (found == (*self)->channels_.end() || found->second.number != number) return;
    found->second.asks_others = false;
    (*self)->serve(tenant, (*self)->events_of(tenant, found->second, told.get()));
  };
  const auto ask = [&](NodeAnswers Told::*what,
                       const std::function<std::string(const std::string&)>& target) {
    ++*left;
    ask_others(uses_.others, tenant, target, [told, what, one_less](NodeAnswers answers) {
      told.get()->*what = std::move(answers);
      one_less();
    });
  };
  const auto always = [](std::string target) {
    return [target = std::move(target)](const std::string&) { return target; };
  };
  ask(&Told::live, always("/v1/activity/live?limit=" + std::to_string(kMostLive)));
  ask(&Told::sandboxes, always("/v1/sandboxes?limit=" + std::to_string(kMostSandboxes)));
  ask(&Told::devices, always("/v1/devices"));
  ask(&Told::functions,
      always("/v1/activity/functions?latencies=1&limit=" + std::to_string(kMostFunctionsOfAll) +
             "&after=" + http::percent_encode(channel.walked_to)));
  ask(&Told::ended, [&channel](const std::string& node) {
    const auto last = channel.last_ended_at.find(node);
    const std::string ended = "/v1/activity/invocations?limit=";
    if (last == channel.last_ended_at.end()) {
      return ended + std::to_string(channel.knows_nodes ? kMostEnded : 1);
    }
    return ended + std::to_string(kMostEnded) + "&after=" + std::to_string(last->second);
  });
  one_less();
}

bool ActivityFollowers::serve(Follower& follower, const std::string& events) {
  if (*follower.left) return false;
  if (!follower.may_read() || !uses_.ready()) {
    follower.responder.finish_chunked();
    return false;
  }
  return follower.responder.send_chunk(events);
}

std::string ActivityFollowers::events_of(TenantId tenant, Channel& channel,
                                         const Told* told) const {
  return state_event(tenant, told) + functions_event(tenant, channel, told) +
         ended_event(tenant, channel, told);
}

std::string ActivityFollowers::state_event(TenantId tenant, const Told* told) const {
  std::vector<SandboxStatus> sandboxes =
      uses_.invocations.sandbox_status(tenant, Metering::kMemory);
  json state = {{"at", to_seconds(uses_.loop.clock().wall_now())}, {"silent_nodes", json::array()}};
  json own = {{"invocations", list(uses_.activity.live(tenant, kMostLive))},
              {"gpu_runs", list(uses_.activity.gpu_runs(tenant))}};
  own.update(json::parse(sandbox_list(std::move(sandboxes), kMostSandboxes)));
  if (uses_.devices) own.update(json::parse(uses_.devices()));
  if (uses_.slices)
    state["slices"] = json::parse(uses_.slices(tenant)).value("slices", json::array());
  if (told != nullptr) {
    const auto with_own = [&](const NodeAnswers& answers) {
      std::vector<NodeAnswer> all = answers.answers;
      all.insert(all.begin(), {uses_.others.self(), own});
      return all;
    };
    const json sandboxes_of_all = merge_sandboxes(with_own(told->sandboxes), kMostSandboxes);
    const auto devices_of_all = with_own(told->devices);
    const json live = merge_live(with_own(told->live), kMostLive);
    own["devices"] = rows_of_all(devices_of_all, "devices", SIZE_MAX);
    own.update(live);
    own.update(sandboxes_of_all);
    state["silent_nodes"] = told->silent();
  }
  state["all_sandboxes"] = std::move(own["all"]);
  own.erase("all");
  state["live"] = std::move(own["invocations"]);
  own.erase("invocations");
  state.update(own);
  return event("state", state);
}

FiguresPage ActivityFollowers::functions_after(TenantId tenant, const Channel& channel,
                                               const Told* told) const {
  const size_t most = told == nullptr ? kMostFunctions : kMostFunctionsOfAll;
  FiguresPage page;
  for (FunctionActivity& each : uses_.activity.functions(tenant, channel.walked_to, most)) {
    FunctionFigures& row = page.rows.emplace_back(std::move(each));
    if (told != nullptr) row.latencies = uses_.activity.latencies({tenant, row.activity.name});
  }
  if (page.rows.size() == most) page.next = page.rows.back().activity.name;
  return told == nullptr ? page : merge_functions(std::move(page), told->functions.answers);
}

// Empty if none changed.
std::string ActivityFollowers::functions_event(TenantId tenant, Channel& channel,
                                               const Told* told) const {
  const FiguresPage page = functions_after(tenant, channel, told);
  json changed = json::array();
  json removed = json::array();
  auto known = channel.functions.upper_bound(channel.walked_to);
  const auto remove_until = [&](const std::string* name) {
    while (known != channel.functions.end() && (name == nullptr || known->first < *name)) {
      removed.push_back(known->first);
      known = channel.functions.erase(known);
    }
  };
  for (const auto& [each, latencies] : page.rows) {
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
  if (page.next.empty()) {
    remove_until(nullptr);
    channel.knows_all = true;
  }
  channel.walked_to = page.next;
  if (changed.empty() && removed.empty()) return "";
  return event("functions", {{"functions", std::move(changed)}, {"removed", std::move(removed)}});
}

std::string ActivityFollowers::ended_event(TenantId tenant, Channel& channel,
                                           const Told* told) const {
  uint64_t missed = 0;
  // Those between are the oldest of what came; their functions' counts have them.
  const auto take = [&missed](const json& rows, uint64_t& last) {
    const auto first = rows.back()["sequence"].get<uint64_t>();
    if (first > last) missed += first - last - 1;
    last = rows.front()["sequence"].get<uint64_t>();
  };
  json rows =
      list(uses_.activity.ended(tenant, {.after = channel.last_ended, .limit = kMostEnded}));
  if (!rows.empty()) take(rows, channel.last_ended);
  if (told != nullptr) {
    rows = rows_of_all({{uses_.others.self(), {{"invocations", rows}}}}, "invocations", kMostEnded);
    for (const NodeAnswer& each : told->ended.answers) {
      const json fresh = ended_rows(each.body);
      const bool is_known = channel.last_ended_at.contains(each.node);
      uint64_t& last = channel.last_ended_at[each.node];
      if (began_again(each.body, last)) last = 0;
      if (fresh.empty()) continue;
      if (!is_known && !channel.knows_nodes) {
        last = fresh.front()["sequence"].get<uint64_t>();
        continue;
      }
      if (!is_known) last = fresh.back()["sequence"].get<uint64_t>() - 1;
      take(fresh, last);
      for (const json& row : fresh) {
        rows.push_back(row);
        rows.back()["node"] = each.node;
      }
    }
    channel.knows_nodes = true;
  }
  if (rows.empty()) return "";
  if (told != nullptr) {
    std::ranges::stable_sort(rows.get_ref<json::array_t&>(), std::greater(),
                             [](const json& row) { return row["ended"].get<double>(); });
  }
  if (rows.size() > kMostEnded) {
    missed += rows.size() - kMostEnded;
    rows.erase(rows.begin() + kMostEnded, rows.end());
  }
  return event("ended", {{"invocations", std::move(rows)}, {"missed", missed}});
}

}  // namespace lambent::frontend
