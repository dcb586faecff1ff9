// lambent profile: measures a pipeline function on a slice of each shape that is free just now,
// shows what came of it, and can write it as profile.json.
#pragma once

#include <optional>
#include <string>

#include "core/base/time.h"
#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct ProfileOptions {
  std::string name;
  std::optional<std::string> event;  // -d
  std::optional<std::string> file;   // --file; "-" is standard input
  unsigned repeat = 10;
  std::optional<std::string> output;  // profile.json
  Duration timeout = std::chrono::hours(2);
};

int run_profile(Transport& transport, Console& console, const ProfileOptions& options);

}  // namespace lambent::cli
