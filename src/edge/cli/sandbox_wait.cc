#include "edge/cli/sandbox_wait.h"

#include <thread>

#include "core/base/time.h"
#include "edge/cli/api_error.h"

namespace lambent::cli {
namespace {

constexpr Duration kGracePeriod = std::chrono::minutes(2);

}  // namespace

Result<void> wait_until_gone(Transport& transport, const std::string& function) {
  const SystemClock clock;
  const Instant begin = clock.now();
  for (;;) {
    const auto listed =
        good(transport.send({.method = "GET", .target = "/v1/sandboxes"}, kGracePeriod));
    if (!listed.ok()) return listed.error();
    if (listed->body.find("\"" + function + "\"") == std::string::npos) return {};
    if (clock.now() - begin > kGracePeriod) {
      return Error{ErrorCode::kDeadlineExceeded, "a sandbox of " + function + " did not stop"};
    }
    // The API tells of a stop only if asked.
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace lambent::cli
