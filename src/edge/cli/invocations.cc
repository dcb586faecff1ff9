#include "edge/cli/invocations.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "edge/cli/api_json.h"
#include "edge/cli/invocation_rows.h"
#include "edge/cli/json_cells.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostOfPage = 500;
// For the slowest: each page costs the nodes of a cluster a page each.
constexpr size_t kMostLookedAt = 10'000;

std::string ended_target(const std::string& of_function, uint64_t limit) {
  return "/v1/activity/invocations?limit=" + std::to_string(limit) + of_function;
}

// Where the page after this one begins; empty after the last.
std::string place_after(const Json& page) {
  const Json rows = list_in(page, "invocations");
  if (rows.empty()) return "";
  if (page.contains("next")) return page["next"].is_string() ? cell(page, "next") : "";
  // Workers of before do not say where to go on.
  const bool is_of_before = !page.contains("silent_nodes") && rows.size() >= kMostOfPage;
  return is_of_before ? cell(rows.back(), "sequence") : "";
}

// All that are remembered, the slowest first; `most` of them.
Result<Json> slowest_ended(Transport& transport, Console& console, const std::string& of_function,
                           size_t most) {
  std::vector<Json> all;
  std::string before;
  std::set<std::string> silent;
  bool is_of_cluster = false;
  for (;;) {
    ASSIGN_OR_RETURN(const Json page,
                     ask_json(transport, "GET", ended_target(of_function, kMostOfPage) + before));
    is_of_cluster = is_of_cluster || page.contains("silent_nodes");
    for (const Json& node : list_in(page, "silent_nodes")) {
      if (node.is_string()) silent.insert(node.get<std::string>());
    }
    const Json rows = list_in(page, "invocations");
    all.insert(all.end(), rows.begin(), rows.end());
    const std::string place = place_after(page);
    if (place.empty()) break;
    if (all.size() >= kMostLookedAt) {
      console.err << "only the last " << all.size() << " that ended were looked at\n";
      break;
    }
    before = "&before=" + http::percent_encode(place);
  }
  std::stable_sort(all.begin(), all.end(), [](const Json& a, const Json& b) {
    return number(a, "took_ms") > number(b, "took_ms");
  });
  all.resize(std::min(all.size(), most));
  Json slowest = {{"invocations", all}};
  if (is_of_cluster) slowest["silent_nodes"] = silent;
  return slowest;
}

}  // namespace

int run_invocations(Transport& transport, Console& console, const InvocationsOptions& options) {
  const std::string of_function =
      options.function.empty() ? "" : "&function=" + http::percent_encode(options.function);
  const auto live = ask_json(transport, "GET", "/v1/activity/live?limit=500" + of_function);
  if (!live.ok()) return fail(console, live.error());
  const auto ended = options.slowest
                         ? slowest_ended(transport, console, of_function, options.limit)
                         : ask_json(transport, "GET", ended_target(of_function, options.limit));
  if (!ended.ok()) return fail(console, ended.error());
  const Json waiting = list_in(*live, "invocations");
  const Json over = list_in(*ended, "invocations");
  const std::string silent = silent_nodes_text(*ended, "invocations");
  if (console.json) {
    Json all = {{"live", waiting}, {"ended", over}};
    if (ended->contains("silent_nodes")) all["silent_nodes"] = (*ended)["silent_nodes"];
    console.out << all.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    return 0;
  }
  console.err << silent;
  if (waiting.empty() && over.empty()) {
    // A name that was misspelt is no function without calls.
    if (!options.function.empty()) {
      const auto there = ask_json(
          transport, "GET", "/v1/activity/functions/" + http::percent_encode(options.function));
      if (!there.ok()) return fail(console, there.error());
    }
    console.err << "no invocation waits or runs, and none that ended is remembered\n";
    return 0;
  }
  const SystemClock clock;
  if (!waiting.empty()) console.out << table_of_live(*live);
  if (!waiting.empty() && !over.empty()) console.out << "\n";
  if (!over.empty()) console.out << table_of_ended(*ended, clock.wall_now());
  return 0;
}

int run_cancel(Transport& transport, Console& console, const std::string& id) {
  if (!invocation_id_from_string(id)) {
    return fail(console, {ErrorCode::kInvalidArgument,
                          "'" + id + "' is no invocation's id; 'lambent invocations' lists them"});
  }
  const auto cancelled = ask_json(transport, "POST", "/v1/invocations/" + id + "/cancel");
  if (!cancelled.ok()) return fail(console, cancelled.error());
  if (console.json) {
    console.out << cancelled->dump(2) << "\n";
    return 0;
  }
  const std::string was = cell(*cancelled, "was");
  console.out << id << " was " << was << " and is ";
  if (cell(*cancelled, "state") == "cancelled") {
    console.out << "cancelled\n";
  } else {
    console.out << "being cancelled: it ends with its sandbox"
                << (was == "starting" ? "'s start\n" : "\n");
  }
  return 0;
}

}  // namespace lambent::cli
