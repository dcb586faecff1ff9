#include "edge/cli/sandbox_wait.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/time.h"
#include "edge/cli/api_json.h"
#include "edge/cli/json_cells.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kGracePeriod = std::chrono::minutes(2);
// In a cluster each question goes to all nodes.
constexpr Duration kPause = milliseconds(20);

}  // namespace

Result<void> wait_until_gone(Transport& transport, const std::string& function) {
  const SystemClock clock;
  const Instant begin = clock.now();
  for (;;) {
    ASSIGN_OR_RETURN(const Json listed, ask_json(transport, "GET", "/v1/sandboxes"));
    const Json rows = list_in(listed, "sandboxes");
    const bool is_left = std::any_of(rows.begin(), rows.end(), [&](const Json& row) {
      return cell(row, "function") == function;
    });
    const Json silent = list_in(listed, "silent_nodes");
    if (!is_left && silent.empty()) return {};
    if (clock.now() - begin > kGracePeriod) {
      if (is_left) {
        return Error{ErrorCode::kDeadlineExceeded, "a sandbox of " + function + " did not stop"};
      }
      return Error{ErrorCode::kDeadlineExceeded,
                   "a node does not answer, and may have a sandbox of " + function + ": " +
                       silent.front().dump()};
    }
    // The API tells of a stop only if asked.
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lambent::cli
