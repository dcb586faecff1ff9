#include "edge/cli/invocations.h"

#include <nlohmann/json.hpp>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "edge/cli/api_json.h"
#include "edge/cli/invocation_rows.h"
#include "edge/cli/json_cells.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

int run_invocations(Transport& transport, Console& console, const InvocationsOptions& options) {
  const std::string of_function =
      options.function.empty() ? "" : "&function=" + http::percent_encode(options.function);
  const auto live = ask_json(transport, "GET", "/v1/activity/live?limit=500" + of_function);
  if (!live.ok()) return fail(console, live.error());
  const auto ended =
      ask_json(transport, "GET",
               "/v1/activity/invocations?limit=" + std::to_string(options.limit) + of_function);
  if (!ended.ok()) return fail(console, ended.error());
  const Json waiting = list_in(*live, "invocations");
  const Json over = list_in(*ended, "invocations");
  if (console.json) {
    console.out << Json{{"live", waiting}, {"ended", over}}.dump(2, ' ', false,
                                                                 Json::error_handler_t::replace)
                << "\n";
    return 0;
  }
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
